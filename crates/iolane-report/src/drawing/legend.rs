//! The legend at the right of a picture: a sample of each line or bar with its name.

use super::font;
use super::pen::{Pen, fitted};
use super::picture::{Color, FAINT_INK, INK};
use crate::charts::{AxisKind, Chart, ChartKind, Line};

const TEXT: f64 = 18.0;
const ROW: f64 = 32.0;
/// Along the sample of a line.
const SAMPLE: f64 = 56.0;
const GAP: f64 = 14.0;
const WIDTH_MIN: f64 = 180.0;
const WIDTH_MAX: f64 = 430.0;
const PUBLISHED: &str = "Hollow: published values";

fn has_published(chart: &Chart) -> bool {
    chart.series.iter().any(|line| !line.published.is_empty())
}

pub(super) fn width(chart: &Chart) -> f64 {
    let widest = chart.series.iter().map(|line| font::width(&line.name, TEXT)).fold(0.0, f64::max);
    let note = if has_published(chart) { font::width(PUBLISHED, TEXT) } else { 0.0 };
    (widest + SAMPLE + GAP).max(note).clamp(WIDTH_MIN, WIDTH_MAX)
}

/// Draws the legend between two heights; what does not fit is counted.
pub(super) fn draw(pen: &mut Pen, chart: &Chart, (x, top): (f64, f64), bottom: f64) {
    let rows = (((bottom - top) / ROW) as usize).saturating_sub(2).max(1);
    let shown = |line: &&Line| !line.points.is_empty() || !line.published.is_empty();
    let lines: Vec<&Line> = chart.series.iter().filter(shown).collect();
    let mut y = top;
    for line in lines.iter().take(rows) {
        let middle = y + ROW / 2.0;
        sample(pen, chart, line, (x, middle));
        let name = fitted(&line.name, TEXT, WIDTH_MAX - SAMPLE - GAP);
        pen.text(name, (x + SAMPLE + GAP, middle + TEXT * 0.36), TEXT, INK);
        y += ROW;
    }
    if lines.len() > rows {
        y += ROW;
        pen.text(format!("and {} more", lines.len() - rows), (x, y - ROW * 0.3), TEXT, FAINT_INK);
    }
    if has_published(chart) {
        pen.text(PUBLISHED.into(), (x, y + ROW), TEXT, FAINT_INK);
    }
}

fn sample(pen: &mut Pen, chart: &Chart, line: &Line, (x, middle): (f64, f64)) {
    let center = (x + SAMPLE / 2.0, middle);
    if line.points.is_empty() {
        pen.hollow_marker(center, line.look.marker, Color::parse(&line.look.light));
        return;
    }
    match (chart.kind, chart.y.kind) {
        (ChartKind::Bars, AxisKind::Log) => pen.marker(center, &line.look),
        (ChartKind::Bars, _) => {
            pen.rectangle((x, middle - 9.0), (x + SAMPLE, middle + 9.0), Color::parse(&line.look.light));
        }
        (ChartKind::Lines, _) => {
            pen.styled_line(&[(x, middle), (x + SAMPLE, middle)], &line.look);
            pen.marker(center, &line.look);
        }
    }
}
