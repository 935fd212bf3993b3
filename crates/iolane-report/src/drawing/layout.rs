//! Lays a chart out on a picture: title, plot, axes, lines or bars, legend, note and footer.

use super::axis_range::AxisRange;
use super::pen::{Pen, fitted};
use super::picture::{Anchor, Color, FAINT_INK, GRID, INK, PIXELS, Shape};
use super::{font, legend};
use crate::charts::{Axis, AxisKind, Chart, ChartKind, Line, Mark};

// Sizes in pixels.
const MARGIN: f64 = 36.0;
const TITLE: f64 = 34.0;
const LABEL: f64 = 22.0;
const SMALL: f64 = 18.0;
const TICK: f64 = 10.0;
const Y_AXIS_WIDTH: f64 = 130.0;
/// A longer name of a category is cut.
const NAME_WIDTH_MAX: f64 = 300.0;
/// From the baseline of a text to the line that its letters are centred on, as a share of its size.
const HALF_LETTER: f64 = 0.36;

/// Lines with more points than this have a marker at some of them only.
const MARKERS_MAX: usize = 24;
/// The share of a category's room that its bars take.
const BAR_SHARE: f64 = 0.72;

/// The shapes of a chart's picture; `footer` says where its figures are from.
pub(super) fn layout(chart: &Chart, footer: &str) -> Vec<Shape> {
    let (columns, rows) = (f64::from(PIXELS.0), f64::from(PIXELS.1));
    let mut pen = Pen::default();
    let title = match chart.group.as_str() {
        group if chart.title.contains(group) => chart.title.clone(),
        group => format!("{}, {group}", chart.title),
    };
    pen.text(fitted(&title, TITLE, columns - 2.0 * MARGIN), (MARGIN, MARGIN + TITLE * 0.7), TITLE, INK);
    let mut bottom = rows - MARGIN;
    for line in [footer, &chart.note].into_iter().filter(|line| !line.is_empty()) {
        pen.text(fitted(line, SMALL, columns - 2.0 * MARGIN), (MARGIN, bottom - 6.0), SMALL, FAINT_INK);
        bottom -= SMALL + 8.0;
    }
    let top = MARGIN + TITLE + 26.0;
    let legend_left = columns - MARGIN - legend::width(chart);
    legend::draw(&mut pen, chart, (legend_left, top + 10.0), bottom);
    plot(&mut pen, chart, (MARGIN, top), (legend_left - 24.0, bottom - 16.0));
    pen.shapes
}

fn plot(pen: &mut Pen, chart: &Chart, (left, top): (f64, f64), (right, bottom): (f64, f64)) {
    let plot_left = left + Y_AXIS_WIDTH;
    let names = Names::of(&chart.x, (right - plot_left) / chart.x.categories.len().max(1) as f64);
    let floor = bottom - names.height() - LABEL - 12.0;
    let plane =
        Plane { left: plot_left, right, top, bottom: floor, x: AxisRange::of_x(chart), y: AxisRange::of_y(chart) };
    grid(pen, chart, &plane, &names);
    pen.anchored(axis_title(&chart.x), ((plot_left + right) / 2.0, bottom - 4.0), LABEL, INK, Anchor::Middle);
    pen.upright(axis_title(&chart.y), (left + LABEL, (top + floor) / 2.0), LABEL, INK, Anchor::Middle);
    match chart.kind {
        ChartKind::Lines => chart.series.iter().for_each(|line| draw_line(pen, &plane, line)),
        ChartKind::Bars => draw_bars(pen, &plane, chart),
    }
}

fn axis_title(axis: &Axis) -> String {
    match axis.kind {
        AxisKind::Log => format!("{} (log scale)", axis.label),
        AxisKind::Linear | AxisKind::Category => axis.label.clone(),
    }
}

/// The part of a picture where values are.
struct Plane {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: AxisRange,
    y: AxisRange,
}

impl Plane {
    fn column(&self, position: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.share(position)
    }

    fn row(&self, position: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.share(position)
    }

    /// `None` for values that an axis has no position for.
    fn pixel(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.column(self.x.position(x)?), self.row(self.y.position(y)?)))
    }

    /// The rows of an interval's ends; `None` without an interval.
    fn interval(&self, mark: &Mark) -> Option<(f64, f64)> {
        let (low, high) = mark.low.zip(mark.high).filter(|(low, high)| low < high)?;
        Some((self.row(self.y.position(low)?), self.row(self.y.position(high)?)))
    }
}

/// How the categories below a plot are written.
enum Names {
    /// The axis is one of numbers.
    None,
    /// From left to right, each with that much room.
    Level(f64),
    /// From below to above, the longest that wide.
    Upright(f64),
}

impl Names {
    fn of(axis: &Axis, room: f64) -> Self {
        let widths = axis.categories.iter().map(|name| font::width(name, SMALL));
        match widths.reduce(f64::max) {
            None => Self::None,
            Some(widest) if widest + 8.0 <= room => Self::Level(room),
            Some(widest) => Self::Upright(widest.min(NAME_WIDTH_MAX)),
        }
    }

    /// Pixels between the axis and its title.
    fn height(&self) -> f64 {
        match self {
            Self::None | Self::Level(_) => TICK + 2.0 * SMALL,
            Self::Upright(widest) => TICK + widest + SMALL,
        }
    }
}

/// The middle of a pixel, where a line of one pixel's width is not blurred.
fn crisp(at: f64) -> f64 {
    at.floor() + 0.5
}

/// Grid lines, axes, ticks and what is written at them.
fn grid(pen: &mut Pen, chart: &Chart, plane: &Plane, names: &Names) {
    let columns = match names {
        Names::None => plane.x.ticks(((plane.right - plane.left) / 60.0) as usize, &chart.x),
        Names::Level(_) | Names::Upright(_) => Vec::new(),
    };
    let rows = plane.y.ticks(((plane.bottom - plane.top) / 40.0) as usize, &chart.y);
    for x in columns.iter().map(|tick| crisp(plane.column(*tick))) {
        pen.line(&[(x, plane.top), (x, plane.bottom)], GRID, 1.0);
    }
    for y in rows.iter().map(|tick| crisp(plane.row(*tick))) {
        pen.line(&[(plane.left, y), (plane.right, y)], GRID, 1.0);
    }
    let (left, floor) = (crisp(plane.left), crisp(plane.bottom));
    pen.line(&[(left, plane.top), (left, floor), (plane.right, floor)], FAINT_INK, 1.0);
    for tick in columns {
        let (x, text) = (crisp(plane.column(tick)), plane.x.shown(chart.x.unit, tick));
        pen.line(&[(x, plane.bottom), (x, plane.bottom + TICK)], FAINT_INK, 1.0);
        pen.anchored(text, (x, plane.bottom + TICK + SMALL), SMALL, INK, Anchor::Middle);
    }
    for tick in rows {
        let (y, text) = (crisp(plane.row(tick)), plane.y.shown(chart.y.unit, tick));
        pen.line(&[(plane.left - TICK, y), (plane.left, y)], FAINT_INK, 1.0);
        pen.anchored(text, (plane.left - TICK - 4.0, y + SMALL * HALF_LETTER), SMALL, INK, Anchor::End);
    }
    for (place, name) in chart.x.categories.iter().enumerate() {
        let (x, y) = (plane.column(place as f64), plane.bottom + TICK);
        match names {
            Names::None => {}
            Names::Level(room) => {
                pen.anchored(fitted(name, SMALL, *room), (x, y + SMALL), SMALL, INK, Anchor::Middle);
            }
            Names::Upright(_) => {
                let name = fitted(name, SMALL, NAME_WIDTH_MAX);
                pen.upright(name, (x + SMALL * HALF_LETTER, y), SMALL, INK, Anchor::End);
            }
        }
    }
}

fn draw_line(pen: &mut Pen, plane: &Plane, line: &Line) {
    let color = Color::parse(&line.look.light);
    let points: Vec<(&Mark, (f64, f64))> =
        line.points.iter().filter_map(|mark| Some((mark, plane.pixel(mark.x, mark.y)?))).collect();
    let way: Vec<(f64, f64)> = points.iter().map(|(_, pixel)| *pixel).collect();
    pen.styled_line(&way, &line.look);
    // Along a line of many points each marker would hide the next.
    let step = if points.len() > MARKERS_MAX { points.len().div_ceil(MARKERS_MAX / 2) } else { 1 };
    for (mark, pixel) in points.iter().step_by(step) {
        if let Some(ends) = plane.interval(mark) {
            pen.whisker(pixel.0, ends, color);
        }
        pen.marker(*pixel, &line.look);
    }
    for pixel in line.published.iter().filter_map(|point| plane.pixel(point.x, point.y)) {
        pen.hollow_marker(pixel, line.look.marker, color);
    }
}

fn draw_bars(pen: &mut Pen, plane: &Plane, chart: &Chart) {
    for place in 0..chart.x.categories.len() {
        let is_here = |x: f64| x.round() == place as f64;
        let is_drawn = |line: &&Line| {
            line.points.iter().any(|mark| is_here(mark.x)) || line.published.iter().any(|point| is_here(point.x))
        };
        let here: Vec<&Line> = chart.series.iter().filter(is_drawn).collect();
        let width = BAR_SHARE / here.len().max(1) as f64;
        for (index, line) in here.iter().enumerate() {
            let left = place as f64 - BAR_SHARE / 2.0 + width * index as f64;
            let middle = left + width / 2.0;
            for mark in line.points.iter().filter(|mark| is_here(mark.x)) {
                let Some(pixel) = plane.pixel(middle, mark.y) else { continue };
                let color = Color::parse(&line.look.light);
                // On a logarithmic axis there is no zero for a bar to begin at.
                let is_bar = chart.y.kind != AxisKind::Log;
                if is_bar {
                    let corner = (plane.column(left), plane.row(0.0));
                    pen.rectangle(corner, (plane.column(left + width), pixel.1), color);
                }
                if let Some(ends) = plane.interval(mark) {
                    pen.whisker(pixel.0, ends, if is_bar { INK } else { color });
                }
                if !is_bar {
                    pen.marker(pixel, &line.look);
                }
            }
            for point in line.published.iter().filter(|point| is_here(point.x)) {
                if let Some(pixel) = plane.pixel(middle, point.y) {
                    pen.hollow_marker(pixel, line.look.marker, INK);
                }
            }
        }
    }
}
