//! A picture as a list of shapes: SVG paths and lines of text, in pixels from the upper left corner. The layout makes it,
//! the SVG and PNG writers print it; both read the same path data, so the two formats show the same.

use std::fmt;

/// Columns and rows of a picture.
pub const PIXELS: (u32, u32) = (1600, 1000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Color(pub(super) [u8; 3]);

pub(super) const WHITE: Color = Color([0xff; 3]);
pub(super) const INK: Color = Color([0x1c, 0x1f, 0x24]);
pub(super) const FAINT_INK: Color = Color([0x55, 0x5b, 0x66]);
pub(super) const GRID: Color = Color([0xe2, 0xe5, 0xea]);

impl Color {
    /// From `#rrggbb`; a digit that is none counts as 0.
    pub(super) fn parse(text: &str) -> Self {
        let channel = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        Self([1, 3, 5].map(|at| channel(at).unwrap_or(0)))
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Path(Path),
    Text(Text),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    /// SVG path data, before `place`.
    pub(super) data: String,
    pub(super) place: Place,
    pub(super) paint: Paint,
}

/// Where a path goes: it is scaled, then moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) scale: f64,
}

impl Place {
    pub(super) const AS_IS: Self = Self { x: 0.0, y: 0.0, scale: 1.0 };
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Paint {
    Fill(Color),
    /// Width and dashes are in pixels of the picture, whatever the path's scale; without dashes the line is solid.
    Stroke {
        color: Color,
        width: f64,
        dashes: Vec<f64>,
    },
}

impl Paint {
    pub(super) fn solid(color: Color, width: f64) -> Self {
        Self::Stroke { color, width, dashes: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) text: String,
    /// The point on the baseline that `anchor` names.
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) color: Color,
    pub(super) anchor: Anchor,
    /// Written from below to above.
    pub(super) is_upright: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The path data of a line through these points; empty for fewer than two.
pub(super) fn polyline(points: &[(f64, f64)]) -> String {
    let Some(((x, y), rest)) = points.split_first().filter(|(_, rest)| !rest.is_empty()) else { return String::new() };
    let rest = rest.iter().map(|(x, y)| format!("L{x:.2},{y:.2}"));
    std::iter::once(format!("M{x:.2},{y:.2}")).chain(rest).collect()
}

/// The path data of a rectangle between two corners.
pub(super) fn rectangle((left, top): (f64, f64), (right, bottom): (f64, f64)) -> String {
    format!("M{left:.2},{top:.2}L{right:.2},{top:.2}L{right:.2},{bottom:.2}L{left:.2},{bottom:.2}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_two_points() {
        assert_eq!(polyline(&[(1.0, 2.0)]), "");
        assert_eq!(polyline(&[(1.0, 2.0), (3.5, 4.126)]), "M1.00,2.00L3.50,4.13");
    }

    #[test]
    fn a_color_is_written_as_it_was_read() {
        assert_eq!(Color::parse("#0a58a6").to_string(), "#0a58a6");
        assert_eq!(Color::parse("#é").to_string(), "#000000");
    }
}
