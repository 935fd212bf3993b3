//! A chart as a picture that travels alone: SVG or PNG, with its title, its legend and where it is from. `iolane report`
//! writes them. What is drawn comes from `charts`, how a path looks from `look`; nothing here works a value out.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Once;

use iolane::{Error, Result};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::Cartesian2d;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE, register_font,
};

use super::charts::{Axis, Chart, Kind, Line, Mark, Scale, Unit};
use super::look::Marker;
use crate::quantity::number;

/// Columns and rows of a picture.
pub const PIXELS: (u32, u32) = (1600, 1000);

/// A PNG is drawn that many times as large, and each square of that many pixels becomes one: what makes edges smooth.
const OVERSAMPLING: u32 = 2;

/// An SVG is drawn that many times as large and shown in its own size: the drawing library knows whole pixels alone, and the
/// dashes of a line would not be in one line.
const FINENESS: u32 = 8;

/// A chart as an SVG document; `footer` says where its figures are from.
///
/// # Errors
/// `Failed` if the drawing library fails.
pub fn svg(chart: &Chart, footer: &str) -> Result<String> {
    let mut text = String::new();
    let (columns, rows) = (PIXELS.0 * FINENESS, PIXELS.1 * FINENESS);
    draw(SVGBackend::with_string(&mut text, (columns, rows)), chart, footer, FINENESS)?;
    let [drawn, shown] =
        [(columns, rows), PIXELS].map(|(width, height)| format!(r#"width="{width}" height="{height}""#));
    Ok(text.replacen(&drawn, &shown, 1))
}

/// A chart as a PNG file's bytes; `footer` says where its figures are from.
///
/// # Errors
/// As [`svg`].
pub fn png(chart: &Chart, footer: &str) -> Result<Vec<u8>> {
    let (columns, rows) = (PIXELS.0 * OVERSAMPLING, PIXELS.1 * OVERSAMPLING);
    let mut pixels = vec![0; columns as usize * rows as usize * 3];
    draw(BitMapBackend::with_buffer(&mut pixels, (columns, rows)), chart, footer, OVERSAMPLING)?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, PIXELS.0, PIXELS.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&reduced(&pixels)));
    written.map_err(|error| failed(chart, error))?;
    Ok(bytes)
}

fn failed(chart: &Chart, error: impl Display) -> Error {
    Error::failed(format!("drawing {}", chart.id), error.to_string())
}

/// The picture in its own size: each of its pixels the mean of the square that was drawn for it.
fn reduced(pixels: &[u8]) -> Vec<u8> {
    let (side, columns) = (OVERSAMPLING as usize, PIXELS.0 as usize);
    let mut small = Vec::with_capacity(pixels.len() / side / side);
    for rows in pixels.chunks_exact(columns * side * 3 * side) {
        for at in 0..columns * 3 {
            let (column, channel) = (at / 3, at % 3);
            let of_square = (0..side * side).map(|place| {
                let (row, beside) = (place / side, place % side);
                usize::from(rows[(row * columns * side + column * side + beside) * 3 + channel])
            });
            small.push((of_square.sum::<usize>() / (side * side)) as u8);
        }
    }
    small
}

const INK: RGBColor = RGBColor(0x1c, 0x1f, 0x24);
const FAINT_INK: RGBColor = RGBColor(0x55, 0x5b, 0x66);
const GRID: RGBColor = RGBColor(0xe2, 0xe5, 0xea);

// Sizes in pixels of the picture.
const MARGIN: i32 = 36;
const TITLE: i32 = 34;
const TEXT: i32 = 22;
const SMALL: i32 = 18;
const LEGEND_MAX: i32 = 430;
const LINE_WIDTH: u32 = 3;
/// Along a legend's line sample.
const SAMPLE: i32 = 56;
const ROW: i32 = 32;

type Coordinates = Cartesian2d<Ruler, Ruler>;
type Area<B> = DrawingArea<B, Shift>;

fn draw<B: DrawingBackend>(backend: B, chart: &Chart, footer: &str, times: u32) -> Result<()>
where
    B::ErrorType: 'static,
{
    // The family that an SVG asks its reader's system for, and that bitmaps are drawn with here.
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // The font is a constant of its crate, which is a font.
        let _ = register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular());
    });
    let area = backend.into_drawing_area();
    Picture { area: &area, chart, times: times as i32 }.draw(footer).map_err(|error| failed(chart, error))?;
    area.present().map_err(|error| failed(chart, error))
}

const FAMILY: &str = "sans-serif";

/// A chart on its way to paper.
struct Picture<'a, B: DrawingBackend> {
    area: &'a Area<B>,
    chart: &'a Chart,
    /// Pixels of the area for each of the picture.
    times: i32,
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

impl<B: DrawingBackend> Picture<'_, B>
where
    B::ErrorType: 'static,
{
    fn draw(&self, footer: &str) -> Drawn {
        let (columns, rows) = (PIXELS.0 as i32, PIXELS.1 as i32);
        self.area.fill(&WHITE)?;
        let title = match self.chart.group.as_str() {
            group if self.chart.title.contains(group) => self.chart.title.clone(),
            group => format!("{}, {group}", self.chart.title),
        };
        self.write(&self.fit(&title, TITLE, columns - 2 * MARGIN), (MARGIN, MARGIN - 8), TITLE, INK)?;
        let mut bottom = rows - MARGIN;
        for line in [footer, &self.chart.note].into_iter().filter(|line| !line.is_empty()) {
            bottom -= SMALL + 8;
            self.write(&self.fit(line, SMALL, columns - 2 * MARGIN), (MARGIN, bottom), SMALL, FAINT_INK)?;
        }
        let legend = self.legend_width();
        let top = MARGIN + TITLE + 26;
        self.legend((columns - MARGIN - legend, top + 10))?;
        let right = columns - MARGIN - legend - 24;
        self.plot((MARGIN, top), (right, bottom - 16))
    }

    fn font(&self, pixels: i32, color: RGBColor) -> TextStyle<'static> {
        (FAMILY, pixels * self.times).into_font().color(&color)
    }

    fn write(&self, text: &str, (x, y): (i32, i32), pixels: i32, color: RGBColor) -> Drawn {
        self.area.draw(&Text::new(text.to_owned(), self.at(x, y), self.font(pixels, color)))?;
        Ok(())
    }

    fn at(&self, x: i32, y: i32) -> (i32, i32) {
        (x * self.times, y * self.times)
    }

    fn width(&self, text: &str, pixels: i32) -> i32 {
        let size = (FAMILY, pixels).into_font().box_size(text);
        size.map_or(text.len() as i32 * pixels, |(width, _)| width as i32)
    }

    /// The text, cut at its end where it is too wide.
    fn fit(&self, text: &str, pixels: i32, width: i32) -> String {
        // What turns a line around has no place in a picture; nor has what is no letter.
        let text: String = text.chars().map(|c| if is_harmless(c) { c } else { '?' }).collect();
        if self.width(&text, pixels) <= width {
            return text;
        }
        let mut cut = text;
        while cut.pop().is_some() && self.width(&format!("{cut}…"), pixels) > width {}
        format!("{cut}…")
    }

    fn legend_width(&self) -> i32 {
        let widest = self.chart.series.iter().map(|line| self.width(&line.name, SMALL)).max().unwrap_or(0);
        (widest + SAMPLE + 16).clamp(180, LEGEND_MAX)
    }

    fn legend(&self, (x, mut y): (i32, i32)) -> Drawn {
        let room = ((PIXELS.1 as i32 - y - 3 * MARGIN) / ROW - 2).max(1) as usize;
        let lines = self.chart.series.iter().filter(|line| !line.points.is_empty() || !line.published.is_empty());
        let count = lines.clone().count();
        for line in lines.take(room) {
            let (color, middle) = (color(&line.look.light), y + ROW / 2);
            match (self.chart.kind, line.points.is_empty()) {
                (_, true) => {}
                (Kind::Bars, false) if self.chart.y.scale == Scale::Log => {
                    self.mark(self.at(x + SAMPLE / 2, middle), line.look.marker, color.filled())?;
                }
                (Kind::Bars, false) => {
                    let corners = [self.at(x, middle - 9), self.at(x + SAMPLE, middle + 9)];
                    self.area.draw(&Rectangle::new(corners, color.filled()))?;
                }
                (Kind::Lines, false) => {
                    self.dashed(&[self.at(x, middle), self.at(x + SAMPLE, middle)], line)?;
                    self.mark(self.at(x + SAMPLE / 2, middle), line.look.marker, color.filled())?;
                }
            }
            if line.points.is_empty() {
                self.hollow(self.at(x + SAMPLE / 2, middle), line.look.marker, color)?;
            }
            let name = self.fit(&line.name, SMALL, LEGEND_MAX - SAMPLE - 16);
            self.write(&name, (x + SAMPLE + 14, middle - SMALL / 2 + 3), SMALL, INK)?;
            y += ROW;
        }
        if count > room {
            self.write(&format!("and {} more", count - room), (x, y + 6), SMALL, FAINT_INK)?;
            y += ROW;
        }
        if self.chart.series.iter().any(|line| !line.published.is_empty()) {
            self.write("hollow: published", (x, y + 14), SMALL, FAINT_INK)?;
        }
        Ok(())
    }

    fn plot(&self, (left, top): (i32, i32), (right, bottom): (i32, i32)) -> Drawn {
        let (_, below) = self.area.split_vertically(top * self.times);
        let (plot, _) = below.split_vertically((bottom - top) * self.times);
        let (_, plot) = plot.split_horizontally(left * self.times);
        let (plot, _) = plot.split_horizontally((right - left) * self.times);
        let (x, y) = (Spread::of_x(self.chart), Spread::of_y(self.chart));
        let slot = (right - left - 130) / self.chart.x.categories.len().max(1) as i32;
        let names = self.names(slot);
        let x_room = match &names {
            Names::Upright(widest) => widest + 30 + TEXT,
            _ => 3 * TEXT + 12,
        };
        let x_ticks = match names {
            Names::None => x.ticks((right - left - 130) / 60, &self.chart.x),
            _ => Vec::new(),
        };
        let y_ticks = y.ticks((bottom - top - x_room) / 40, &self.chart.y);
        let mut context = ChartBuilder::on(&plot)
            .x_label_area_size(x_room * self.times)
            .y_label_area_size(130 * self.times)
            .build_cartesian_2d(
                Ruler { spread: x, unit: self.chart.x.unit, ticks: x_ticks },
                Ruler { spread: y, unit: self.chart.y.unit, ticks: y_ticks },
            )?;
        let labelled = |axis: &Axis| match axis.scale {
            Scale::Log => format!("{} (logarithmic)", axis.label),
            Scale::Linear | Scale::Names => axis.label.clone(),
        };
        context
            .configure_mesh()
            .bold_line_style(ShapeStyle { color: GRID.to_rgba(), filled: false, stroke_width: self.times as u32 })
            .axis_style(ShapeStyle { color: FAINT_INK.to_rgba(), filled: false, stroke_width: self.times as u32 })
            .label_style(self.font(SMALL, INK))
            .set_all_tick_mark_size(10 * self.times)
            .axis_desc_style(self.font(TEXT, INK))
            .x_desc(labelled(&self.chart.x))
            .y_desc(labelled(&self.chart.y))
            .draw()?;
        self.write_names(&context, names, slot, y.low)?;
        let plane = Plane { context, x, y };
        match self.chart.kind {
            Kind::Lines => self.chart.series.iter().try_for_each(|line| self.line(&plane, line)),
            Kind::Bars => self.bars(&plane),
        }
    }

    /// How the names along the axis are written, each with so much room.
    fn names(&self, slot: i32) -> Names {
        let widths = self.chart.x.categories.iter().map(|name| self.width(name, SMALL));
        match widths.max() {
            None => Names::None,
            Some(widest) if widest + 8 <= slot => Names::Level,
            Some(widest) => Names::Upright(widest.min(NAME_MAX)),
        }
    }

    fn write_names(&self, context: &Context<'_, B>, names: Names, slot: i32, floor: f64) -> Drawn {
        for (place, name) in self.chart.x.categories.iter().enumerate() {
            let (x, y) = context.backend_coord(&(place as f64, floor));
            let style = self.font(SMALL, INK);
            let (name, style) = match names {
                Names::None => return Ok(()),
                Names::Level => (self.fit(name, SMALL, slot), style.pos(Pos::new(HPos::Center, VPos::Top))),
                Names::Upright(_) => {
                    let upright = style.transform(FontTransform::Rotate270);
                    (self.fit(name, SMALL, NAME_MAX), upright.pos(Pos::new(HPos::Right, VPos::Center)))
                }
            };
            self.area.draw(&Text::new(name, (x, y + 10 * self.times), style))?;
        }
        Ok(())
    }

    fn line(&self, plane: &Plane<'_, B>, line: &Line) -> Drawn {
        let color = color(&line.look.light);
        let marks: Vec<(&Mark, (i32, i32))> =
            line.points.iter().filter_map(|mark| Some((mark, plane.pixel(mark.x, mark.y)?))).collect();
        let way: Vec<(i32, i32)> = marks.iter().map(|(_, pixel)| *pixel).collect();
        self.dashed(&way, line)?;
        // Of a line of many points each mark would hide the next.
        let step = if marks.len() > MARKS_MAX { marks.len().div_ceil(MARKS_MAX / 2) } else { 1 };
        for (mark, pixel) in marks.iter().step_by(step) {
            self.interval(plane, mark, *pixel, color)?;
            self.mark(*pixel, line.look.marker, color.filled())?;
        }
        for point in &line.published {
            if let Some(pixel) = plane.pixel(point.x, point.y) {
                self.hollow(pixel, line.look.marker, color)?;
            }
        }
        Ok(())
    }

    fn bars(&self, plane: &Plane<'_, B>) -> Drawn {
        for (place, _) in self.chart.x.categories.iter().enumerate() {
            let is_here = |x: f64| x.round() == place as f64;
            let here: Vec<&Line> = self
                .chart
                .series
                .iter()
                .filter(|line| {
                    line.points.iter().any(|mark| is_here(mark.x))
                        || line.published.iter().any(|point| is_here(point.x))
                })
                .collect();
            let width = BAR / here.len().max(1) as f64;
            for (index, line) in here.iter().enumerate() {
                let begin = place as f64 - BAR / 2.0 + width * index as f64;
                let (middle, color) = (begin + width / 2.0, color(&line.look.light));
                for mark in line.points.iter().filter(|mark| is_here(mark.x)) {
                    let Some(pixel) = plane.pixel(middle, mark.y) else { continue };
                    if self.chart.y.scale == Scale::Log {
                        // A length says nothing where there is no zero to begin at.
                        self.interval(plane, mark, pixel, color)?;
                        self.mark(pixel, line.look.marker, color.filled())?;
                        continue;
                    }
                    let floor = plane.pixel_at(begin, plane.y.low);
                    let (right, _) = plane.pixel_at(begin + width, plane.y.low);
                    self.area.draw(&Rectangle::new([floor, (right, pixel.1)], color.filled()))?;
                    self.interval(plane, mark, pixel, INK)?;
                }
                for point in line.published.iter().filter(|point| is_here(point.x)) {
                    if let Some(pixel) = plane.pixel(middle, point.y) {
                        self.hollow(pixel, line.look.marker, INK)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The interval of a value at that pixel, with a short stroke at each end.
    fn interval(&self, plane: &Plane<'_, B>, mark: &Mark, (x, _): (i32, i32), color: RGBColor) -> Drawn {
        let Some((low, high)) = mark.low.zip(mark.high).filter(|(low, high)| low < high) else { return Ok(()) };
        let height = |value| plane.pixel(mark.x, value).map(|(_, y)| y);
        let Some((low, high)) = height(low).zip(height(high)) else { return Ok(()) };
        let (style, cap) = (color.stroke_width(2 * self.times as u32), 7 * self.times);
        for stroke in [[(x, low), (x, high)], [(x - cap, low), (x + cap, low)], [(x - cap, high), (x + cap, high)]] {
            self.area.draw(&PathElement::new(stroke, style))?;
        }
        Ok(())
    }

    /// The mark of what was published: paper within, so that it stands out from a bar as well.
    fn hollow(&self, pixel: (i32, i32), marker: Marker, color: RGBColor) -> Drawn {
        self.mark(pixel, marker, WHITE.filled())?;
        self.mark(pixel, marker, color.stroke_width(2 * self.times as u32))
    }

    fn mark(&self, (x, y): (i32, i32), marker: Marker, style: ShapeStyle) -> Drawn {
        let size = MARK * f64::from(self.times);
        if marker == Marker::Circle {
            self.area.draw(&Circle::new((x, y), 4.4 * size, style))?;
            return Ok(());
        }
        let corners = corners(marker.outline());
        let place = |(dx, dy): &(f64, f64)| (x + (dx * size).round() as i32, y + (dy * size).round() as i32);
        let corners: Vec<(i32, i32)> = corners.iter().map(place).collect();
        match style.filled {
            true => self.area.draw(&Polygon::new(corners, style))?,
            false => {
                let closed: Vec<_> = corners.iter().chain(corners.first()).copied().collect();
                self.area.draw(&PathElement::new(closed, style))?;
            }
        }
        Ok(())
    }

    /// A way through these pixels in the line's colour and dashes.
    fn dashed(&self, way: &[(i32, i32)], line: &Line) -> Drawn {
        let style = color(&line.look.light).stroke_width(LINE_WIDTH * self.times as u32);
        let pattern: Vec<f64> =
            line.look.dash.iter().map(|length| f64::from(*length) * DASH * f64::from(self.times)).collect();
        for stroke in strokes(way, &pattern) {
            self.area.draw(&PathElement::new(stroke, style))?;
        }
        Ok(())
    }
}

/// How the names along an axis are written.
enum Names {
    /// There are none: it is an axis of numbers.
    None,
    /// From left to right.
    Level,
    /// From below to above, the longest so many pixels.
    Upright(i32),
}

/// A longer name is cut.
const NAME_MAX: i32 = 300;
/// More marks than this along a line are thinned out.
const MARKS_MAX: usize = 24;
/// Of the room that a name has along the axis this share is its bars'.
const BAR: f64 = 0.72;
/// Pixels of a picture for each of a marker's outline.
const MARK: f64 = 1.7;
/// Pixels of a picture for each of a dash's length.
const DASH: f64 = 2.0;

type Context<'a, B> = ChartContext<'a, B, Coordinates>;

/// Where values are in a picture.
struct Plane<'a, B: DrawingBackend> {
    context: Context<'a, B>,
    x: Spread,
    y: Spread,
}

impl<B: DrawingBackend> Plane<'_, B> {
    /// `None` for what has no place there: zero and less on a logarithmic axis.
    fn pixel(&self, x: f64, y: f64) -> Option<(i32, i32)> {
        Some(self.pixel_at(self.x.place(x)?, self.y.place(y)?))
    }

    fn pixel_at(&self, x: f64, y: f64) -> (i32, i32) {
        self.context.backend_coord(&(x, y))
    }
}

/// How values spread along an axis: from where to where, in logarithms on a logarithmic one.
#[derive(Clone, Copy)]
struct Spread {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Spread {
    fn of_x(chart: &Chart) -> Self {
        let names = chart.x.categories.len();
        if chart.x.scale == Scale::Names {
            return Self { scale: Scale::Names, low: -0.5, high: names.max(1) as f64 - 0.5 };
        }
        let measured = chart.series.iter().flat_map(|line| &line.points).map(|mark| mark.x);
        let published = chart.series.iter().flat_map(|line| &line.published).map(|point| point.x);
        Self::of(chart.x.scale, measured.chain(published))
    }

    fn of_y(chart: &Chart) -> Self {
        let marks = chart.series.iter().flat_map(|line| &line.points);
        let measured = marks.flat_map(|mark| [Some(mark.y), mark.low, mark.high]).flatten();
        let published = chart.series.iter().flat_map(|line| &line.published).map(|point| point.y);
        match chart.y.unit {
            Unit::Share => Self { scale: Scale::Linear, low: 0.0, high: 1.02 },
            _ => Self::of(chart.y.scale, measured.chain(published)),
        }
    }

    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let bare = Self { scale, low: 0.0, high: 0.0 };
        let places = values.filter_map(|value| bare.place(value));
        let (low, high) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| (low.min(place), high.max(place)));
        if low > high {
            return Self { high: 1.0, ..bare };
        }
        match scale {
            Scale::Log => {
                let margin = ((high - low) * 0.05).max(0.05);
                Self { low: low - margin, high: high + margin, ..bare }
            }
            // From zero on, so that lengths can be compared.
            Scale::Linear | Scale::Names => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                let margin = if high > low { (high - low) * 0.06 } else { 1.0 };
                Self { low: if low < 0.0 { low - margin } else { 0.0 }, high: high + margin, ..bare }
            }
        }
    }

    fn place(self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Log => (value > 0.0 && value.is_finite()).then(|| value.log10()),
            Scale::Linear | Scale::Names => value.is_finite().then_some(value),
        }
    }

    fn value(self, place: f64) -> f64 {
        match self.scale {
            Scale::Log => 10f64.powf(place),
            Scale::Linear | Scale::Names => place,
        }
    }

    /// Where to mark the axis, no more than so many times.
    fn ticks(self, most: i32, axis: &Axis) -> Vec<f64> {
        let most = most.max(2) as usize;
        let own: Vec<f64> = axis.ticks.iter().filter_map(|tick| self.place(*tick)).collect();
        let ticks = match (own.is_empty(), self.scale) {
            (false, _) => own,
            (true, Scale::Log) => self.decades(most),
            (true, _) => self.steps(most),
        };
        let closest = (self.high - self.low) / most as f64;
        let mut kept: Vec<f64> = Vec::new();
        for tick in ticks.into_iter().filter(|tick| (self.low..=self.high).contains(tick)) {
            if kept.last().is_none_or(|last| tick - last >= closest * 0.999) {
                kept.push(tick);
            }
        }
        kept
    }

    /// Powers of ten, and 2 and 5 times them where there is room.
    fn decades(self, most: usize) -> Vec<f64> {
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let factors: &[f64] = if (self.high - self.low) * 3.0 <= most as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks: Vec<f64> =
            decades.flat_map(|decade| factors.iter().map(move |factor| factor.log10() + f64::from(decade))).collect();
        if ticks.iter().filter(|tick| (self.low..=self.high).contains(*tick)).count() > 2 {
            return ticks;
        }
        // Values that are close to each other have none of these between them.
        let close = Self { scale: Scale::Linear, low: self.value(self.low), high: self.value(self.high) };
        close.steps(most).into_iter().filter_map(|value| self.place(value)).collect()
    }

    /// Steps of 1, 2 or 5 times a power of ten.
    fn steps(self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.min(10) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil() as i64;
        (0..=most as i64).map(|index| (first + index) as f64 * step).collect()
    }
}

/// An axis as the drawing library has them: its values are places along the spread.
struct Ruler {
    spread: Spread,
    unit: Unit,
    ticks: Vec<f64>,
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (begin, end): (i32, i32)) -> i32 {
        let share = (place - self.spread.low) / (self.spread.high - self.spread.low);
        begin + (f64::from(end - begin) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // There are no finer marks between those that are written.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.spread.low..self.spread.high
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format(place: &f64) -> String {
        number(*place)
    }

    fn format_ext(&self, place: &f64) -> String {
        written(self.unit, self.spread.value(*place))
    }
}

/// A value in its unit, without the last digits that reckoning in logarithms and steps leaves.
fn written(unit: Unit, value: f64) -> String {
    unit.shown(format!("{value:.9e}").parse().unwrap_or(value))
}

/// A way cut into the dashes of a pattern of lengths and gaps; all of it if there is none.
fn strokes(way: &[(i32, i32)], pattern: &[f64]) -> Vec<Vec<(i32, i32)>> {
    if pattern.is_empty() || pattern.iter().any(|length| *length <= 0.0) {
        return if way.len() > 1 { vec![way.to_vec()] } else { Vec::new() };
    }
    let mut lengths = pattern.iter().copied().cycle();
    let (mut left, mut is_dash) = (lengths.next().unwrap_or(1.0), true);
    let (mut strokes, mut stroke) = (Vec::new(), Vec::new());
    for pair in way.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = dx.hypot(dy);
        let place = |along: f64| {
            let share = if length > 0.0 { along / length } else { 0.0 };
            (from.0 + (dx * share).round() as i32, from.1 + (dy * share).round() as i32)
        };
        let mut along = 0.0;
        if is_dash && stroke.last() != Some(&from) {
            stroke.push(from);
        }
        while length - along > left {
            along += left;
            stroke.push(place(along));
            if is_dash {
                strokes.push(std::mem::take(&mut stroke));
            }
            is_dash = !is_dash;
            left = lengths.next().unwrap_or(1.0);
        }
        left -= length - along;
        if is_dash {
            stroke.push(to);
        }
    }
    strokes.push(stroke);
    strokes.retain(|stroke| stroke.len() > 1);
    strokes
}

/// The corners of an outline of straight lines, `M`, `L`, `H`, `V` and `Z` with absolute numbers.
fn corners(outline: &str) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let is_command = |c: char| c.is_ascii_alphabetic();
    for part in outline.split_inclusive(is_command).zip(outline.split(is_command).skip(1)) {
        let (command, numbers) = (part.0.chars().last().unwrap_or('Z'), part.1);
        let numbers: Vec<f64> = numbers.split(',').filter_map(|number| number.parse().ok()).collect();
        let (x, y) = corners.last().copied().unwrap_or_default();
        match (command, &numbers[..]) {
            ('M' | 'L', [x, y]) => corners.push((*x, *y)),
            ('H', [x]) => corners.push((*x, y)),
            ('V', [y]) => corners.push((x, *y)),
            _ => {}
        }
    }
    corners
}

/// A colour of a look.
fn color(text: &str) -> RGBColor {
    let channel = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
    RGBColor(channel(1), channel(3), channel(5))
}

/// Whether a character neither moves anything nor turns a line around (Unicode Standard Annex 9).
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::super::charts::Charts;
    use super::super::fixtures::built_in_study;
    use super::*;
    use crate::plan::Scale as StudyScale;

    #[test]
    fn charts_of_every_kind_become_pictures() {
        let lines = ["figure-2d", "latency-randread-4k-1-core-depth-1", "within-randread-4k-1-core-depth-1"];
        for (study, ids) in [("systor22", &lines[..]), ("hotstorage23", &["figure-table-2-read-p50"])] {
            let charts = Charts::new(&built_in_study(study, StudyScale::Scaled)).charts;
            for id in ids {
                let chart = charts.iter().find(|chart| chart.id == *id).unwrap();
                let text = svg(chart, "Linux 6.1").unwrap();
                assert!(
                    text.starts_with(r#"<svg width="1600" height="1000" viewBox="0 0 12800 8000""#),
                    "{}",
                    chart.id
                );
                assert!(text.trim_end().ends_with("</svg>"), "{}", chart.id);
                for part in ["Linux 6.1", &chart.x.label, &chart.y.label] {
                    assert!(text.contains(part), "{}: no {part}", chart.id);
                }
                let lines = chart.series.iter().filter(|line| !line.points.is_empty() || !line.published.is_empty());
                for line in lines.take(8) {
                    assert!(text.to_lowercase().contains(&line.look.light), "{}: {}", chart.id, line.name);
                }
            }
        }
    }

    #[test]
    fn a_png_has_its_size_and_something_in_it() {
        let charts = Charts::new(&built_in_study("ijraset24", StudyScale::Scaled));
        let bytes = png(&charts.charts[0], "Linux 6.1").unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), PIXELS);
        let inked = pixels.iter().filter(|channel| **channel < 200).count();
        assert!(inked > 10_000, "{inked}");
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut charts = Charts::new(&built_in_study("ijraset24", StudyScale::Scaled));
        let chart = &mut charts.charts[0];
        chart.title = format!("<script>alert(1)</script>{}", "x".repeat(300));
        chart.series[0].name = "a\u{202e}b&\"<c>\n".repeat(40);
        let text = svg(chart, "</svg><script>").unwrap();
        assert!(!text.contains("<script") && !text.contains('\u{202e}'), "{text}");
        assert_eq!(text.matches("</svg>").count(), 1);
    }

    #[test]
    fn a_dashed_way_has_dashes_around_corners_and_gaps_between_them() {
        let way = [(0, 0), (10, 0), (10, 10)];
        assert_eq!(strokes(&way, &[]), [way.to_vec()]);
        let dashes = strokes(&way, &[4.0, 4.0]);
        assert_eq!(dashes, [vec![(0, 0), (4, 0)], vec![(8, 0), (10, 0), (10, 2)], vec![(10, 6), (10, 10)]]);
        assert!(strokes(&[(5, 5)], &[]).is_empty() && strokes(&[], &[1.0]).is_empty());
    }

    #[test]
    fn every_marker_has_the_corners_of_its_outline() {
        assert_eq!(corners(Marker::Square.outline()), [(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]);
        for marker in Marker::ALL.into_iter().filter(|marker| *marker != Marker::Circle) {
            let corners = corners(marker.outline());
            assert!(corners.len() >= 3, "{marker:?}");
            assert!(corners.iter().all(|(x, y)| x.abs() <= 5.0 && y.abs() <= 5.0), "{marker:?}");
        }
    }

    #[test]
    fn axes_are_marked_at_round_numbers_that_do_not_touch() {
        let axis =
            Axis { label: String::new(), unit: Unit::Count, scale: Scale::Linear, categories: vec![], ticks: vec![] };
        let linear = Spread::of(Scale::Linear, [3.0, 182_000.0].into_iter());
        assert_eq!(linear.ticks(10, &axis), (0..10).map(|step| f64::from(step) * 20_000.0).collect::<Vec<_>>());
        let log = Spread::of(Scale::Log, [90_000.0, 2e6].into_iter());
        let shown: Vec<String> =
            log.ticks(10, &axis).iter().map(|tick| written(Unit::Nanoseconds, log.value(*tick))).collect();
        assert_eq!(shown, ["100 us", "200 us", "500 us", "1 ms", "2 ms"]);
        let close = Spread::of(Scale::Log, [0.00053, 0.0009].into_iter());
        assert!((3..=8).contains(&close.ticks(10, &axis).len()), "{:?}", close.ticks(10, &axis));
        let own = Axis { ticks: vec![1.0, 4.0, 16.0, 128.0], ..axis };
        let linear = Spread::of(Scale::Linear, [1.0, 128.0].into_iter());
        assert_eq!(linear.ticks(20, &own), [1.0, 16.0, 128.0]);
    }

    #[test]
    fn what_a_logarithm_has_no_place_for_is_left_out() {
        let log = Spread::of(Scale::Log, [0.0, -3.0, 10.0, 1000.0, f64::NAN].into_iter());
        assert!(log.low > 0.8 && log.high < 3.2);
        assert_eq!(log.place(0.0), None);
        let nothing = Spread::of(Scale::Linear, [f64::NAN].into_iter());
        assert!(nothing.low < nothing.high);
    }
}
