//! Draws the parts that charts and legends share: texts that fit their room, markers, lines, intervals. Each adds shapes to a
//! picture and knows nothing of axes.

use super::font;
use super::picture::{Anchor, Color, Paint, Path, Place, Shape, Text, WHITE, polyline, rectangle};
use crate::chart_style::{Look, Marker};
use crate::text::is_bidi_control;

/// Pixels for each unit of a marker's outline.
const MARKER_SCALE: f64 = 1.7;
/// Pixels for each unit of a dash's length.
const DASH_SCALE: f64 = 2.0;
const LINE_WIDTH: f64 = 3.0;
const THIN: f64 = 2.0;
/// From a whisker to the end of its cap.
const CAP: f64 = 7.0;

/// The shapes of a picture, in the order they are painted.
#[derive(Debug, Default)]
pub(super) struct Pen {
    pub(super) shapes: Vec<Shape>,
}

impl Pen {
    pub(super) fn text(&mut self, text: String, (x, y): (f64, f64), size: f64, color: Color) {
        self.anchored(text, (x, y), size, color, Anchor::Start);
    }

    pub(super) fn anchored(&mut self, text: String, (x, y): (f64, f64), size: f64, color: Color, anchor: Anchor) {
        self.shapes.push(Shape::Text(Text { text, x, y, size, color, anchor, is_upright: false }));
    }

    /// From below to above.
    pub(super) fn upright(&mut self, text: String, (x, y): (f64, f64), size: f64, color: Color, anchor: Anchor) {
        self.shapes.push(Shape::Text(Text { text, x, y, size, color, anchor, is_upright: true }));
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        self.path(polyline(points), Place::AS_IS, Paint::solid(color, width));
    }

    pub(super) fn rectangle(&mut self, from: (f64, f64), to: (f64, f64), color: Color) {
        self.path(rectangle(from, to), Place::AS_IS, Paint::Fill(color));
    }

    /// A line in a path's colour and dashes.
    pub(super) fn styled_line(&mut self, points: &[(f64, f64)], look: &Look) {
        let dashes = look.dash.iter().map(|length| f64::from(*length) * DASH_SCALE).collect();
        let paint = Paint::Stroke { color: Color::parse(&look.light), width: LINE_WIDTH, dashes };
        self.path(polyline(points), Place::AS_IS, paint);
    }

    pub(super) fn marker(&mut self, at: (f64, f64), look: &Look) {
        self.outline(at, look.marker, Paint::Fill(Color::parse(&look.light)));
    }

    /// The marker of a published value: filled with the paper's colour, so that it stands out from a bar as well.
    pub(super) fn hollow_marker(&mut self, at: (f64, f64), marker: Marker, color: Color) {
        self.outline(at, marker, Paint::Fill(WHITE));
        self.outline(at, marker, Paint::solid(color, THIN));
    }

    /// A vertical whisker with its caps.
    pub(super) fn whisker(&mut self, x: f64, (low, high): (f64, f64), color: Color) {
        self.line(&[(x, low), (x, high)], color, THIN);
        for y in [low, high] {
            self.line(&[(x - CAP, y), (x + CAP, y)], color, THIN);
        }
    }

    fn outline(&mut self, (x, y): (f64, f64), marker: Marker, paint: Paint) {
        self.path(marker.outline().into(), Place { x, y, scale: MARKER_SCALE }, paint);
    }

    fn path(&mut self, data: String, place: Place, paint: Paint) {
        if !data.is_empty() {
            self.shapes.push(Shape::Path(Path { data, place, paint }));
        }
    }
}

/// The text, cut at its end where it is wider than `width`.
pub(super) fn fitted(text: &str, size: f64, width: f64) -> String {
    let text: String = text.chars().map(|c| if c.is_control() || is_bidi_control(c) { '?' } else { c }).collect();
    if font::width(&text, size) <= width {
        return text;
    }
    let mut cut = text;
    while cut.pop().is_some() && font::width(&format!("{cut}…"), size) > width {}
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_wide_ends_with_an_ellipsis_within_its_room() {
        assert_eq!(fitted("depth", 18.0, 100.0), "depth");
        let cut = fitted(&"depth ".repeat(20), 18.0, 100.0);
        assert!(cut.starts_with("depth ") && cut.ends_with('…') && font::width(&cut, 18.0) <= 100.0, "{cut}");
        assert_eq!(fitted("a\u{202e}b\n", 18.0, 100.0), "a?b?");
    }
}
