//! Charts of a prediction: a line for each path with its intervals, against threads, depth or cores, and measured points beside them.

use std::collections::BTreeSet;

use iolane::IoPath;
use iolane_study::plan::{Factor, Metric};
use iolane_study::predict::{LoadPredicted, Measured, PathPredicted, Predicted};

use super::axes::{factor_axis, metric_axis};
use super::chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line, Mark};
use crate::chart_style::{Look, look, rank};

/// What is drawn of each load: the predicted and the measured value of a path.
const METRICS: [Metric; 4] = [Metric::Iops, Metric::P99, Metric::Cores, Metric::Watts];

/// The charts of a prediction. The axis is the first of threads, depth and cores that has several values; every combination of the
/// others has charts of its own.
pub fn predicted(predicted: &Predicted) -> Vec<Chart> {
    let axis = axis_of(&predicted.loads);
    let mut groups: Vec<(String, Vec<&LoadPredicted>)> = Vec::new();
    for load in &predicted.loads {
        let words = in_words(load, axis);
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, loads)) => loads.push(load),
            None => groups.push((words, vec![load])),
        }
    }
    let mut charts = Vec::new();
    for (at, (words, loads)) in groups.iter().enumerate() {
        charts.extend(METRICS.into_iter().filter_map(|metric| chart(at, words, loads, (axis, metric))));
    }
    charts
}

fn axis_of(loads: &[LoadPredicted]) -> Factor {
    let count = |factor| loads.iter().map(|load| place(load, factor) as u64).collect::<BTreeSet<u64>>().len();
    let all = [Factor::Threads, Factor::Depth, Factor::Cores];
    all.into_iter().find(|factor| count(*factor) > 1).unwrap_or(Factor::Threads)
}

fn place(load: &LoadPredicted, factor: Factor) -> f64 {
    match factor {
        Factor::Depth => f64::from(load.depth),
        Factor::Cores => load.cores as f64,
        _ => load.threads as f64,
    }
}

/// A load without what the axis has.
fn in_words(load: &LoadPredicted, axis: Factor) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut load = load.clone();
    let depth = format!(" depth {}", load.depth);
    let mut words = load.load_in_words();
    if axis == Factor::Depth {
        words = words.replacen(&depth, "", 1);
    }
    let (threads, cores) = (std::mem::take(&mut load.threads), load.cores);
    if axis != Factor::Threads {
        words.push_str(&format!(", {}", plural(threads, "thread")));
    }
    words.push_str(&format!(" on {}", plural(load.drives, "drive")));
    if axis != Factor::Cores {
        words.push_str(&format!(", {}", plural(cores, "core")));
    }
    words
}

fn chart(at: usize, words: &str, loads: &[&LoadPredicted], (axis, metric): (Factor, Metric)) -> Option<Chart> {
    let mut names: Vec<(&str, IoPath)> = Vec::new();
    for path in loads.iter().flat_map(|load| &load.paths) {
        if names.iter().all(|(known, _)| *known != path.path) {
            names.push((&path.path, path.path.parse().unwrap_or_else(|_| IoPath::new("unknown"))));
        }
    }
    names.sort_by_cached_key(|(name, path)| (rank(path, None), (*name).to_owned()));
    let mut series = Vec::new();
    for (name, path) in &names {
        let of_path = |load: &&LoadPredicted| {
            let found = load.paths.iter().find(|of| of.path == *name)?;
            Some((place(load, axis), found.clone()))
        };
        let own: Vec<(f64, PathPredicted)> = loads.iter().filter_map(of_path).collect();
        let look = look(path, None);
        let points = own.iter().filter_map(|(x, of)| predicted_mark(*x, of, metric)).collect();
        series.push(line(name, path, look.clone(), points));
        let points = own
            .iter()
            .filter_map(|(x, of)| Some(Mark::without_interval(*x, measured_value(of.measured.as_ref()?, metric)?)));
        // Dots beside the line, in the colour of the path.
        series.push(line(&format!("{name}, measured"), path, Look { dash: &[1, 6], ..look }, points.collect()));
    }
    series.retain(|line| !line.points.is_empty());
    if series.is_empty() {
        return None;
    }
    let y = metric_axis(metric);
    let kind = if axis == Factor::Depth { AxisKind::Log } else { AxisKind::Linear };
    let y_kind = if metric == Metric::P99 { AxisKind::Log } else { AxisKind::Linear };
    Some(Chart {
        id: format!("predicted-{}-{}", at + 1, y.label.split(' ').next_back().unwrap_or("value").to_lowercase()),
        section: ChartSection::Figures,
        group: words.to_owned(),
        title: format!("Predicted {} of {words}", y.label),
        kind: ChartKind::Lines,
        x: factor_axis(axis, kind, &series),
        y: Axis { kind: y_kind, ..y },
        series,
        note: String::new(),
    })
}

fn line(name: &str, path: &IoPath, look: Look, mut points: Vec<Mark>) -> Line {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Line { name: name.to_owned(), path: path.to_string(), look, points, published: Vec::new() }
}

fn predicted_mark(x: f64, of: &PathPredicted, metric: Metric) -> Option<Mark> {
    let interval = match metric {
        Metric::Iops => Some(of.iops),
        Metric::P99 => of.p99_ns,
        Metric::Cores => Some(of.cores),
        Metric::Watts => of.watts,
        _ => None,
    }?;
    Some(Mark { low: Some(interval.low), high: Some(interval.high), ..Mark::without_interval(x, interval.value) })
}

fn measured_value(of: &Measured, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Iops => of.iops,
        Metric::P99 => of.p99_ns,
        Metric::Cores => of.cores(),
        _ => None,
    }
}
