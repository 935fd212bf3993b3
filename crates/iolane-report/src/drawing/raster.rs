//! A picture as pixels: each path and each text becomes a mask of coverage, which is blended onto the paper.

use zeno::{Angle, Mask, PathData, Style, Transform};

use super::font;
use super::picture::{Anchor, Color, PIXELS, Paint, Path, Shape, Text, WHITE};

/// Rows of pixels, red, green and blue of each.
pub(super) struct Pixels(pub(super) Vec<u8>);

const COLUMNS: usize = PIXELS.0 as usize;
const ROWS: usize = PIXELS.1 as usize;

pub(super) fn rasterize(shapes: &[Shape]) -> Pixels {
    let mut pixels = Pixels(WHITE.0.repeat(COLUMNS * ROWS));
    for shape in shapes {
        match shape {
            Shape::Path(path) => pixels.path(path),
            Shape::Text(text) => pixels.text(text),
        }
    }
    pixels
}

impl Pixels {
    fn path(&mut self, Path { data, place, paint }: &Path) {
        let scale = place.scale as f32;
        let transform = Transform::scale(scale, scale).then_translate(place.x as f32, place.y as f32);
        match paint {
            Paint::Fill(color) => self.blend(data.as_str(), Style::default(), transform, *color),
            Paint::Stroke { color, width, dashes } => {
                let of_path = |length: f64| length as f32 / scale;
                let dashes: Vec<f32> = dashes.iter().map(|length| of_path(*length)).collect();
                let mut stroke = zeno::Stroke::new(of_path(*width));
                stroke.dash(&dashes, 0.0);
                self.blend(data.as_str(), Style::Stroke(stroke), transform, *color);
            }
        }
    }

    fn text(&mut self, text: &Text) {
        let width = font::width(&text.text, text.size);
        let before = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = (text.x as f32, text.y as f32);
        let transform = match text.is_upright {
            true => Transform::rotation(Angle::from_degrees(-90.0)).then_translate(x, y + before as f32),
            false => Transform::translation(x - before as f32, y),
        };
        let outlines = font::outlines(&text.text, text.size);
        self.blend(outlines.as_slice(), Style::default(), transform, text.color);
    }

    fn blend(&mut self, path: impl PathData, style: Style<'_>, transform: Transform, color: Color) {
        let (mask, place) = Mask::new(path).style(style).transform(Some(transform)).render();
        let width = place.width as usize;
        if width == 0 {
            return;
        }
        for (row, coverage) in (place.top..).zip(mask.chunks_exact(width)) {
            let Some(row) = usize::try_from(row).ok().filter(|row| *row < ROWS) else { continue };
            for (column, share) in (place.left..).zip(coverage) {
                let Some(column) = usize::try_from(column).ok().filter(|column| *column < COLUMNS) else { continue };
                let first = (row * COLUMNS + column) * 3;
                for (channel, ink) in self.0[first..first + 3].iter_mut().zip(color.0) {
                    *channel = mixed(*channel, ink, *share);
                }
            }
        }
    }
}

/// `paper` under `ink` that covers `share` of 255.
fn mixed(paper: u8, ink: u8, share: u8) -> u8 {
    let (paper, ink, share) = (u32::from(paper), u32::from(ink), u32::from(share));
    ((paper * (255 - share) + ink * share + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::super::picture::{INK, Place, rectangle};
    use super::*;

    fn pixel(pixels: &Pixels, column: usize, row: usize) -> &[u8] {
        &pixels.0[(row * COLUMNS + column) * 3..][..3]
    }

    #[test]
    fn a_rectangle_covers_its_pixels_and_no_others() {
        let data = rectangle((10.0, 20.0), (12.0, 21.5));
        let pixels = rasterize(&[Shape::Path(Path { data, place: Place::AS_IS, paint: Paint::Fill(INK) })]);
        assert_eq!(pixel(&pixels, 10, 20), INK.0);
        assert_eq!(pixel(&pixels, 11, 20), INK.0);
        let half = pixel(&pixels, 10, 21)[0];
        assert!(half.abs_diff(0x8e) <= 2, "{half:#x}");
        for (column, row) in [(9, 20), (12, 20), (10, 19), (10, 22)] {
            assert_eq!(pixel(&pixels, column, row), WHITE.0);
        }
    }

    #[test]
    fn an_upright_text_lies_on_the_side_of_its_point_that_its_anchor_names() {
        let rows_of = |anchor| {
            let text =
                Text { text: "HHHH".into(), x: 500.0, y: 500.0, size: 20.0, color: INK, anchor, is_upright: true };
            let pixels = rasterize(&[Shape::Text(text)]);
            let is_inked = |row: &usize| (0..COLUMNS).any(|column| pixel(&pixels, column, *row) != WHITE.0);
            let rows: Vec<usize> = (0..ROWS).filter(is_inked).collect();
            (rows[0], rows[rows.len() - 1])
        };
        let (start, middle, end) = (rows_of(Anchor::Start), rows_of(Anchor::Middle), rows_of(Anchor::End));
        assert!(start.0 > 430 && start.1 < 500, "{start:?}");
        assert!(middle.0 < 480 && middle.1 > 520, "{middle:?}");
        assert!(end.0 >= 500 && end.1 < 570, "{end:?}");
    }

    #[test]
    fn what_lies_beyond_the_picture_is_cut_off() {
        let data = rectangle((-50.0, -50.0), (5000.0, 5.0));
        let pixels = rasterize(&[Shape::Path(Path { data, place: Place::AS_IS, paint: Paint::Fill(INK) })]);
        assert_eq!((pixel(&pixels, 0, 0), pixel(&pixels, COLUMNS - 1, 4)), (&INK.0[..], &INK.0[..]));
        assert_eq!(pixel(&pixels, 0, 5), WHITE.0);
    }
}
