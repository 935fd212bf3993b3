//! A picture as an SVG document.

use std::fmt::Write;

use super::layout::layout;
use super::picture::{Anchor, PIXELS, Paint, Path, Place, Shape, Text, WHITE};
use crate::charts::Chart;
use crate::text::is_bidi_control;

/// A chart as an SVG document; `footer` says where its figures are from.
pub fn svg(chart: &Chart, footer: &str) -> String {
    let (columns, rows) = PIXELS;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{columns}\" height=\"{rows}\" viewBox=\"0 0 {columns} {rows}\" \
         font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n<title>{}</title>\n\
         <rect width=\"{columns}\" height=\"{rows}\" fill=\"{WHITE}\"/>\n",
        Escaped(&chart.title)
    );
    for shape in layout(chart, footer) {
        // A String takes all that is written.
        let _ = match shape {
            Shape::Path(path) => write_path(&mut text, &path),
            Shape::Text(line) => write_text(&mut text, &line),
        };
    }
    text.push_str("</svg>\n");
    text
}

fn write_path(svg: &mut String, Path { data, place, paint }: &Path) -> std::fmt::Result {
    write!(svg, "<path d=\"{data}\"")?;
    if *place != Place::AS_IS {
        write!(svg, " transform=\"translate({:.2} {:.2}) scale({})\"", place.x, place.y, place.scale)?;
    }
    match paint {
        Paint::Fill(color) => writeln!(svg, " fill=\"{color}\"/>"),
        Paint::Stroke { color, width, dashes } => {
            write!(svg, " fill=\"none\" stroke=\"{color}\" stroke-width=\"{:.3}\"", width / place.scale)?;
            if !dashes.is_empty() {
                let dashes: Vec<String> = dashes.iter().map(|length| (length / place.scale).to_string()).collect();
                write!(svg, " stroke-dasharray=\"{}\"", dashes.join(" "))?;
            }
            svg.write_str("/>\n")
        }
    }
}

fn write_text(svg: &mut String, Text { text, x, y, size, color, anchor, is_upright }: &Text) -> std::fmt::Result {
    write!(svg, "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" fill=\"{color}\"")?;
    match anchor {
        Anchor::Start => {}
        Anchor::Middle => svg.write_str(" text-anchor=\"middle\"")?,
        Anchor::End => svg.write_str(" text-anchor=\"end\"")?,
    }
    if *is_upright {
        write!(svg, " transform=\"rotate(-90 {x:.2} {y:.2})\"")?;
    }
    writeln!(svg, ">{}</text>", Escaped(text))
}

/// Text as character data of XML. What XML does not allow (<https://www.w3.org/TR/xml/#charsets>) or would reorder the text
/// becomes `?`.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('?')?,
                c if c.is_control() || is_bidi_control(c) => f.write_char('?')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
