//! The font of pictures, DejaVu Sans: how wide a text is, and its outlines. The layout measures with it, a PNG is drawn with
//! it; an SVG asks for it by name and leaves the drawing to its reader.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};
use zeno::{Command, PathBuilder};

static FACE: LazyLock<Face<'static>> =
    LazyLock::new(|| Face::parse(dejavu::sans::regular(), 0).expect("DejaVu Sans is a font"));

/// The glyph of a character; the font's box for unknown ones where it has none.
fn glyph(c: char) -> GlyphId {
    FACE.glyph_index(c).unwrap_or_default()
}

fn advance(glyph: GlyphId) -> f64 {
    f64::from(FACE.glyph_hor_advance(glyph).unwrap_or(0))
}

/// Pixels that a text takes along its line.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let units: f64 = text.chars().map(|c| advance(glyph(c))).sum();
    units * size / f64::from(FACE.units_per_em())
}

/// The outlines of a text that begins at (0, 0), the baseline at 0, y pointing down.
pub(super) fn outlines(text: &str, size: f64) -> Vec<Command> {
    let scale = size / f64::from(FACE.units_per_em());
    let mut outlines = Outlines { commands: Vec::new(), scale: scale as f32, x: 0.0 };
    let mut units = 0.0;
    for glyph in text.chars().map(glyph) {
        outlines.x = (units * scale) as f32;
        FACE.outline_glyph(glyph, &mut outlines);
        units += advance(glyph);
    }
    outlines.commands
}

struct Outlines {
    commands: Vec<Command>,
    scale: f32,
    /// Where the glyph begins.
    x: f32,
}

impl Outlines {
    fn at(&self, x: f32, y: f32) -> [f32; 2] {
        [self.x + x * self.scale, -y * self.scale]
    }
}

impl OutlineBuilder for Outlines {
    fn move_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.commands.move_to(to);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.commands.line_to(to);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, to) = (self.at(x1, y1), self.at(x, y));
        self.commands.quad_to(control, to);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (first, second, to) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.commands.curve_to(first, second, to);
    }

    fn close(&mut self) {
        self.commands.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_wide_as_its_letters_together() {
        // DejaVu Sans has 1303 units of 2048 for each digit.
        assert!((width("1234", 2048.0) - 4.0 * 1303.0).abs() < 1e-9);
        assert!(width("iii", 18.0) < width("mmm", 18.0));
    }

    #[test]
    fn letters_have_outlines_above_the_baseline() {
        let commands = outlines("H", 100.0);
        let heights = commands.iter().filter_map(|command| match command {
            Command::MoveTo(to) | Command::LineTo(to) => Some(to.y),
            _ => None,
        });
        assert!(heights.clone().count() > 8 && heights.clone().all(|y| (-80.0..=0.0).contains(&y)));
        assert!(outlines(" ", 100.0).is_empty());
    }
}
