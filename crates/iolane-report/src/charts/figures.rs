//! The publication's figures as charts, measured and published values in one.

use std::collections::HashMap;

use iolane::IoPath;
use iolane_study::format::capital;
use iolane_study::plan::{Arm, AxisScale, Factor};
use iolane_study::results::{FigureReport, Point, Series};

use super::axes::{factor_axis, factor_label, metric_axis};
use super::chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line, Mark, PublishedPoint};
use super::id::slug;
use super::load::{estimated, line};
use super::unit::Unit;
use crate::chart_style::look;

/// `Figure 2a: ...`, or `Table 2, ...` for a figure whose id is no number.
pub(super) fn title(figure: &FigureReport) -> String {
    match figure.id.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("Figure {}: {}", figure.id, figure.title),
        false => format!("{}: {}", capital(&figure.id), figure.title),
    }
}

const NOT_COUNTED: &str = "the metric is not counted on this machine";
const NOT_MEASURED: &str = "none of its arms was measured";

fn axis_kind(scale: AxisScale) -> AxisKind {
    match scale {
        AxisScale::Linear => AxisKind::Linear,
        AxisScale::Log => AxisKind::Log,
    }
}

/// A figure as a chart, or why there is nothing to draw.
pub(super) fn chart(figure: &FigureReport, arms: &HashMap<String, &Arm>) -> Result<Chart, &'static str> {
    let series = figure.series.iter().enumerate();
    let series: Vec<Line> = series
        .map(|(place, series)| {
            let (points, published) = points_of(figure, place, series);
            match arms.get(&series.name) {
                Some(arm) => Line { published, ..line(arm, points) },
                None => Line { published, ..unmeasured(series) },
            }
        })
        .collect();
    let is_measured = figure.series.iter().any(|line| !line.points.is_empty());
    match series.iter().any(|line| !line.points.is_empty() || !line.published.is_empty()) {
        true => {}
        false if is_measured => return Err(NOT_COUNTED),
        false => return Err(NOT_MEASURED),
    }
    let unavailable = figure.series.iter().flat_map(|line| &line.points).filter(|point| point.y.is_none()).count();
    let mut notes = Vec::new();
    if series.iter().all(|line| line.points.is_empty()) {
        let why = if is_measured { NOT_COUNTED } else { NOT_MEASURED };
        notes.push(format!("Published values only: {why}."));
    } else if unavailable > 0 {
        notes.push(match unavailable {
            1 => "1 value is unavailable.".into(),
            count => format!("{count} values are unavailable."),
        });
    }
    if figure.against.is_some() {
        notes.push(format!("Each line connects its points in order of {}.", factor_label(figure.x)));
    }
    let y = Axis { kind: axis_kind(figure.y_scale), ..metric_axis(figure.y) };
    let (kind, x) = match (figure.against, figure.x) {
        (Some(metric), _) => (ChartKind::Lines, Axis { kind: axis_kind(figure.x_scale), ..metric_axis(metric) }),
        (None, Factor::Path | Factor::Rw | Factor::Offsets) => (ChartKind::Bars, category_axis(figure)),
        (None, factor) => (ChartKind::Lines, factor_axis(factor, axis_kind(figure.x_scale), &series)),
    };
    Ok(Chart {
        id: format!("figure-{}", slug(&figure.id)),
        section: ChartSection::Figures,
        group: String::new(),
        title: title(figure),
        kind,
        x,
        y,
        series,
        note: notes.join(" "),
    })
}

fn points_of(figure: &FigureReport, place: usize, series: &Series) -> (Vec<Mark>, Vec<PublishedPoint>) {
    let mark = |point: &Point| {
        let y = point.y?;
        let (x, at) = match figure.against {
            Some(_) => (point.against?.value, format!("{} {}", factor_label(figure.x), point.at)),
            None => (point.x, String::new()),
        };
        Some(Mark { at, ..estimated(x, y) })
    };
    let published = series.published.iter().filter_map(|point| {
        let x = match (figure.against, figure.x) {
            (Some(_), _) => point.against?,
            (None, Factor::Path) => place as f64,
            (None, _) => point.x,
        };
        Some(PublishedPoint { x, y: point.y })
    });
    (series.points.iter().filter_map(mark).collect(), published.collect())
}

/// The line of a path that has published values only.
fn unmeasured(series: &Series) -> Line {
    let path = series.path.clone().unwrap_or_default();
    let parsed = path.parse().or_else(|_| series.name.parse()).unwrap_or_else(|_| IoPath::new("unknown"));
    let (look, name) = (look(&parsed, None), series.name.clone());
    Line { name, path, look, points: Vec::new(), published: Vec::new() }
}

fn category_axis(figure: &FigureReport) -> Axis {
    let categories = match figure.x {
        Factor::Path => figure.series.iter().map(|line| line.name.clone()).collect(),
        _ => {
            let mut names: Vec<String> = Vec::new();
            for point in figure.series.iter().flat_map(|line| &line.points) {
                if !names.contains(&point.at) {
                    names.push(point.at.clone());
                }
            }
            names
        }
    };
    Axis {
        label: factor_label(figure.x).into(),
        unit: Unit::Number,
        kind: AxisKind::Category,
        categories,
        ticks: vec![],
    }
}
