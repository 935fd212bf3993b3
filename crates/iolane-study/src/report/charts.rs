//! Every chart of a study as plain data: axes, lines, points with their intervals, published points beside them. Made from
//! a results folder by whoever draws: the page, the static figures. Nothing here draws.

mod compared;

use std::collections::{HashMap, HashSet};

use iolane::IoPath;
use iolane::units::Bytes;
use serde::{Deserialize, Serialize};

use super::answer::load_of;
use super::look::{self, Look, look};
use super::{FigureReport, Loaded, Point, Series, load_in_words};
use crate::plan::{Arm, AxisScale, Factor, Metric};
use crate::quantity::{capital, count, number, quantity, time};
use crate::records::{ArmResults, Row, UNAVAILABLE};
use crate::stats::{Estimate, estimate_median, median};

pub use compared::compared;

/// Every chart of a study, and those that there is nothing to draw in.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Charts {
    /// In the order of a report: figures, latency, time, cost; those of one group beside each other.
    pub charts: Vec<Chart>,
    /// What cannot be drawn.
    pub not_drawn: Vec<NotDrawn>,
}

/// A chart that there is nothing to draw in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotDrawn {
    /// Where it would stand.
    pub section: Section,
    /// What it would show.
    pub title: String,
    /// Why it does not.
    pub why: String,
}

/// One chart.
#[derive(Debug, Clone, Serialize)]
pub struct Chart {
    /// A name for links and files: lower-case letters, digits and `-`; no two charts of a study have the same.
    pub id: String,
    /// What part of a report it belongs to.
    pub section: Section,
    /// What it has in common with its neighbours, such as the load; empty for figures.
    pub group: String,
    /// What it shows.
    pub title: String,
    /// Lines or bars.
    pub kind: Kind,
    /// What lies along it.
    pub x: Axis,
    /// What it shows.
    pub y: Axis,
    /// A line for each path.
    pub series: Vec<Line>,
    /// What a reader should know; empty if nothing.
    pub note: String,
}

/// A part of a report that has charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The publication's figures.
    Figures,
    /// How latencies spread.
    Latency,
    /// How runs went, one after the other and within.
    Time,
    /// What an I/O costs.
    Cost,
}

/// How a chart shows its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Marks joined by lines, in the order of the points, which may go back along the axis.
    Lines,
    /// A bar for each of the axis's names; a mark where values are spaced by their ratios, on which no bar has a length.
    Bars,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// What lies along it.
    pub label: String,
    /// What its numbers are.
    pub unit: Unit,
    /// How they are spaced.
    pub scale: Scale,
    /// The names along it: the one at 0, at 1 and so on. Empty unless the scale is of names.
    pub categories: Vec<String>,
    /// Where to mark it, such as at each depth that was measured; empty: wherever looks best.
    pub ticks: Vec<f64>,
}

/// How values are spaced along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// By their differences.
    Linear,
    /// By their ratios.
    Log,
    /// Names, one beside the other.
    Names,
}

/// What a number is, and so how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A plain number, three digits: `1.25`.
    Number,
    /// A count that may be large: `182k`.
    Count,
    /// Nanoseconds: `85.2 us`.
    Nanoseconds,
    /// Seconds: `12.5 s`.
    Seconds,
    /// Bytes, in powers of 1024: `4k`.
    Bytes,
    /// Bytes per second: `6.80 GB/s`.
    BytesPerSecond,
    /// A share, 0 to 1: `99.9 %`.
    Share,
    /// Watts.
    Watts,
}

impl Unit {
    /// A value as people read it.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Number => number(value),
            Self::Count => count(value),
            Self::Nanoseconds => time(value),
            Self::Seconds => format!("{} s", number(value)),
            Self::Bytes => Bytes(value.max(0.0) as u64).to_string(),
            Self::BytesPerSecond => quantity(Metric::BytesPerS, value),
            Self::Share => format!("{} %", number((value * 1e6).round() / 1e4)),
            Self::Watts => quantity(Metric::Watts, value),
        }
    }
}

/// What is shown of one path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The path, as the study calls it, a peer's name before it.
    pub name: String,
    /// The path in iolane's notation; empty where nothing tells it.
    pub path: String,
    /// How to draw it.
    pub look: Look,
    /// What was measured.
    pub points: Vec<Mark>,
    /// What was published.
    pub published: Vec<Published>,
}

/// A measured point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Along the first axis; a place among its names where it has such.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// The lower end of its 95 % interval, or of what else the chart's note says; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What the point is, where `x` does not tell: `depth 16`; empty if it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
}

/// A published point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// Along the first axis.
    pub x: f64,
    /// Its value.
    pub y: f64,
}

impl Charts {
    /// The charts of a study's results.
    pub fn new(loaded: &Loaded) -> Self {
        let mut charts = Self::default();
        let figures = loaded.json.get("figures").cloned().unwrap_or_default();
        let figures: Vec<FigureReport> = serde_json::from_value(figures).unwrap_or_default();
        let arms: HashMap<String, &Arm> = loaded.rows.iter().map(|row| (row.arm.label(), &row.arm)).collect();
        for figure in &figures {
            match of_figure(figure, &arms) {
                Ok(chart) => charts.charts.push(chart),
                Err(why) => charts.not_drawn.push(NotDrawn {
                    section: Section::Figures,
                    title: title_of(figure),
                    why: why.into(),
                }),
            }
        }
        let loads = loads(loaded);
        for load in &loads {
            charts.charts.extend(load.at_ends().filter_map(|(depth, arms)| latency(load, depth, &arms)));
        }
        if figures.is_empty() {
            charts.charts.extend(loads.iter().flat_map(survey));
        }
        let began_unix_s = loaded.rows.iter().map(|row| row.started_unix_s).fold(f64::INFINITY, f64::min);
        for load in &loads {
            for (depth, arms) in load.at_ends() {
                charts.charts.push(runs(load, depth, &arms, began_unix_s));
                charts.charts.extend(within_a_run(load, depth, &arms));
            }
        }
        for load in &loads {
            charts.charts.extend(COSTS.iter().filter_map(|metric| cost(load, *metric)));
        }
        charts.not_drawn.extend(COSTS.iter().filter_map(|metric| not_counted(*metric, &loaded.rows)));
        make_distinct(&mut charts.charts);
        charts
    }
}

/// `Figure 2a: ...`; what is called otherwise where it was published keeps that name: `Table 2, ...`.
fn title_of(figure: &FigureReport) -> String {
    match figure.id.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("Figure {}: {}", figure.id, figure.title),
        false => format!("{}: {}", capital(&figure.id), figure.title),
    }
}

/// A figure as a chart, or why there is nothing to draw.
fn of_figure(figure: &FigureReport, arms: &HashMap<String, &Arm>) -> Result<Chart, &'static str> {
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
        false if is_measured => return Err("what it shows is not counted here"),
        false => return Err("no arm of it was measured"),
    }
    let unavailable = figure.series.iter().flat_map(|line| &line.points).filter(|point| point.y.is_none()).count();
    let mut notes = Vec::new();
    if series.iter().all(|line| line.points.is_empty()) {
        let why = if is_measured { "what it shows is not counted here" } else { "no arm of it was measured" };
        notes.push(format!("Published points alone: {why}."));
    } else if unavailable > 0 {
        notes.push(format!("{unavailable} points are unavailable."));
    }
    if figure.against.is_some() {
        notes.push(format!("Each line goes through its points by rising {}.", factor_label(figure.x)));
    }
    let scale = |scale: AxisScale| match scale {
        AxisScale::Linear => Scale::Linear,
        AxisScale::Log => Scale::Log,
    };
    let y = Axis { scale: scale(figure.y_scale), ..axis_of(figure.y) };
    let (kind, x) = match (figure.against, figure.x) {
        (Some(metric), _) => (Kind::Lines, Axis { scale: scale(figure.x_scale), ..axis_of(metric) }),
        (None, Factor::Path | Factor::Rw) => (Kind::Bars, names_of(figure)),
        (None, factor) => (Kind::Lines, along(factor, scale(figure.x_scale), &series)),
    };
    Ok(Chart {
        id: format!("figure-{}", slug(&figure.id)),
        section: Section::Figures,
        group: String::new(),
        title: title_of(figure),
        kind,
        x,
        y,
        series,
        note: notes.join(" "),
    })
}

fn points_of(figure: &FigureReport, place: usize, series: &Series) -> (Vec<Mark>, Vec<Published>) {
    let mark = |point: &Point| {
        let y = point.y?;
        let (x, at) = match figure.against {
            Some(_) => (point.against?.value, format!("{} {}", factor_label(figure.x), point.at)),
            None => (point.x, String::new()),
        };
        Some(Mark { at, ..marked(x, y) })
    };
    let published = series.published.iter().filter_map(|point| {
        let x = match (figure.against, figure.x) {
            (Some(_), _) => point.against?,
            (None, Factor::Path) => place as f64,
            (None, _) => point.x,
        };
        Some(Published { x, y: point.y })
    });
    (series.points.iter().filter_map(mark).collect(), published.collect())
}

/// The line of a path of which points were published alone.
fn unmeasured(series: &Series) -> Line {
    let path = series.path.clone().unwrap_or_default();
    let parsed = path.parse().or_else(|_| series.name.parse()).unwrap_or_else(|_| IoPath::new("unknown"));
    let (look, name) = (look(&parsed, None), series.name.clone());
    Line { name, path, look, points: Vec::new(), published: Vec::new() }
}

fn marked(x: f64, y: Estimate) -> Mark {
    Mark { x, y: y.value, low: Some(y.low), high: Some(y.high), at: String::new() }
}

fn names_of(figure: &FigureReport) -> Axis {
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
    Axis { label: factor_label(figure.x).into(), unit: Unit::Number, scale: Scale::Names, categories, ticks: vec![] }
}

/// The axis of a factor that is a number, marked at each value there is.
fn along(factor: Factor, scale: Scale, series: &[Line]) -> Axis {
    let measured = series.iter().flat_map(|line| &line.points).map(|mark| mark.x);
    let published = series.iter().flat_map(|line| &line.published).map(|point| point.x);
    let mut ticks: Vec<f64> = measured.chain(published).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let unit = if factor == Factor::Bs { Unit::Bytes } else { Unit::Number };
    Axis { label: factor_label(factor).into(), unit, scale, categories: Vec::new(), ticks }
}

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis { label: label.into(), unit, scale, categories: Vec::new(), ticks: Vec::new() }
}

/// The axis of a metric, in its unit.
fn axis_of(metric: Metric) -> Axis {
    let (label, unit) = match metric {
        Metric::Iops => ("IOPS", Unit::Count),
        Metric::BytesPerS => ("bandwidth", Unit::BytesPerSecond),
        Metric::MeanNs => ("mean latency", Unit::Nanoseconds),
        Metric::P50Ns => ("median latency", Unit::Nanoseconds),
        Metric::P99Ns => ("99th percentile of latency", Unit::Nanoseconds),
        Metric::SubmitP50Ns => ("median time to submit", Unit::Nanoseconds),
        Metric::SyscallsPerIo => ("system calls per I/O", Unit::Number),
        Metric::ContextSwitchesPerIo => ("context switches per I/O", Unit::Number),
        Metric::InterruptsPerIo => ("device interrupts per I/O", Unit::Number),
        Metric::Cores => ("cores used", Unit::Number),
        Metric::CpuSPerMillionIos => ("CPU seconds per million I/Os", Unit::Number),
        Metric::CacheMissRate => ("cache misses per reference", Unit::Share),
        Metric::CyclesPerIo => ("cycles per I/O", Unit::Count),
        Metric::InstructionsPerIo => ("instructions per I/O", Unit::Count),
        Metric::IosPerJoule => ("I/Os per joule", Unit::Count),
        Metric::IosPerJouleAboveIdle => ("I/Os per joule above idle", Unit::Count),
        Metric::Watts => ("watts", Unit::Watts),
        Metric::WattsAboveIdle => ("watts above idle", Unit::Watts),
    };
    axis(label, unit, Scale::Linear)
}

fn factor_label(factor: Factor) -> &'static str {
    match factor {
        Factor::Path => "path",
        Factor::Rw => "access",
        Factor::Bs => "block size",
        Factor::Depth => "depth",
        Factor::Threads => "threads",
        Factor::Drives => "drives",
        Factor::Cores => "cores",
    }
}

/// Arms of which the same is asked, but for path and depth.
struct Load {
    words: String,
    arms: Vec<ArmResults>,
}

/// The arms by load in the order of the report's tables, those of a load in the order of legends.
fn loads(loaded: &Loaded) -> Vec<Load> {
    let mut arms = loaded.results().arms;
    arms.sort_by_cached_key(|ArmResults { arm, .. }| {
        (load_of(arm), look::rank(&arm.path, arm.peer.as_deref()), arm.name.clone(), arm.depth)
    });
    let mut loads: Vec<Load> = Vec::new();
    for arm in arms {
        let words = load_in_words(&arm.arm);
        match loads.iter_mut().find(|load| load.words == words) {
            Some(load) => load.arms.push(arm),
            None => loads.push(Load { words, arms: vec![arm] }),
        }
    }
    loads
}

impl Load {
    /// The arms at the smallest depth and at the largest.
    fn at_ends(&self) -> impl Iterator<Item = (u32, Vec<&ArmResults>)> {
        let depths = || self.arms.iter().map(|arm| arm.arm.depth);
        let mut ends = vec![depths().min().unwrap_or(1), depths().max().unwrap_or(1)];
        ends.dedup();
        ends.into_iter().map(|depth| (depth, self.arms.iter().filter(|arm| arm.arm.depth == depth).collect()))
    }

    fn id(&self, what: &str) -> String {
        format!("{what}-{}", slug(&self.words))
    }
}

fn line(arm: &Arm, points: Vec<Mark>) -> Line {
    Line {
        name: arm.label(),
        path: arm.path.to_string(),
        look: look(&arm.path, arm.peer.as_deref()),
        points,
        published: Vec::new(),
    }
}

fn plain(x: f64, y: f64) -> Mark {
    Mark { x, y, low: None, high: None, at: String::new() }
}

/// What a study that draws nothing itself is drawn as: rates and tails of each path, the best first.
fn survey(load: &Load) -> Vec<Chart> {
    let of = |(depth, arms): (u32, Vec<&ArmResults>)| {
        [Metric::Iops, Metric::P99Ns].map(|metric| by_path(load, depth, &arms, metric)).into_iter().flatten()
    };
    load.at_ends().flat_map(of).collect()
}

fn by_path(load: &Load, depth: u32, arms: &[&ArmResults], metric: Metric) -> Option<Chart> {
    let estimates = arms.iter().filter_map(|arm| Some((arm, estimate_median(&arm.values(metric)?))));
    let mut estimates: Vec<_> = estimates.collect();
    estimates.sort_by(|(_, a), (_, b)| match metric {
        Metric::Iops => b.value.total_cmp(&a.value),
        _ => a.value.total_cmp(&b.value),
    });
    let series = estimates.iter().enumerate();
    let series: Vec<Line> = series.map(|(place, (arm, y))| line(&arm.arm, vec![marked(place as f64, *y)])).collect();
    let y = axis_of(metric);
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-depth-{depth}-{}", load.id("paths"), slug(&y.label)),
        section: Section::Figures,
        group: load.words.clone(),
        title: format!("{} of {} at depth {depth}", capital(&y.label), load.words),
        kind: Kind::Bars,
        x: Axis {
            categories: series.iter().map(|line| line.name.clone()).collect(),
            ..axis("path", Unit::Number, Scale::Names)
        },
        y: Axis { scale: if metric == Metric::Iops { Scale::Linear } else { Scale::Log }, ..y },
        series,
        note: String::new(),
    })
}

/// Shares of I/Os that a distribution is drawn at: evenly, and closer at its ends.
const SHARES: [f64; 33] = [
    0.0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75,
    0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0,
];

fn latency(load: &Load, depth: u32, arms: &[&ArmResults]) -> Option<Chart> {
    let series: Vec<Line> = arms
        .iter()
        .filter_map(|arm| {
            let latency = arm.latency();
            let mark = |share: &f64| plain(latency.value_at_quantile(*share) as f64, *share);
            (!latency.is_empty()).then(|| line(&arm.arm, SHARES.iter().map(mark).collect()))
        })
        .collect();
    let silent = arms.len() - series.len();
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-depth-{depth}", load.id("latency")),
        section: Section::Latency,
        group: load.words.clone(),
        title: format!("Latency at depth {depth}"),
        kind: Kind::Lines,
        x: axis("latency", Unit::Nanoseconds, Scale::Log),
        y: axis("I/Os that took no longer", Unit::Share, Scale::Linear),
        series,
        note: match silent {
            0 => "All repeats together.".into(),
            count => format!("All repeats together; {count} arms tell no latencies."),
        },
    })
}

/// The rate of each run, by when it was made.
fn runs(load: &Load, depth: u32, arms: &[&ArmResults], began_unix_s: f64) -> Chart {
    let mark = |row: &Row| {
        let iops = row.metric(Metric::Iops)?;
        Some(Mark { at: format!("repeat {}", row.repeat + 1), ..plain(row.started_unix_s - began_unix_s, iops) })
    };
    Chart {
        id: format!("{}-depth-{depth}", load.id("runs")),
        section: Section::Time,
        group: load.words.clone(),
        title: format!("Each run at depth {depth}"),
        kind: Kind::Lines,
        x: axis("time since the study began", Unit::Seconds, Scale::Linear),
        y: axis_of(Metric::Iops),
        series: arms.iter().map(|arm| line(&arm.arm, arm.rows.iter().filter_map(mark).collect())).collect(),
        note: "A line that rises or falls is a machine that changed meanwhile.".into(),
    }
}

/// The rate within a run: the repeats' median in each tenth of a second, and the range of them.
fn within_a_run(load: &Load, depth: u32, arms: &[&ArmResults]) -> Option<Chart> {
    let lines = arms.iter().map(|arm| line(&arm.arm, tenths(&arm.rows)));
    let series: Vec<Line> = lines.filter(|line| line.points.len() > 1).collect();
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-depth-{depth}", load.id("within")),
        section: Section::Time,
        group: load.words.clone(),
        title: format!("Within a run at depth {depth}"),
        kind: Kind::Lines,
        x: axis("time since the run began", Unit::Seconds, Scale::Linear),
        y: axis_of(Metric::Iops),
        series,
        note: "Medians of the repeats; the ends given with a value are the least and the most of them.".into(),
    })
}

fn tenths(rows: &[Row]) -> Vec<Mark> {
    let longest = rows.iter().map(|row| row.rates.len()).max().unwrap_or(0);
    // A longer run than anyone looks at in tenths is drawn in coarser steps.
    let step = longest.div_ceil(TENTHS_MAX).max(1);
    let mark = |first: usize| {
        let mean = |row: &Row| {
            let rates = row.rates.get(first..(first + step).min(row.rates.len()))?;
            (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
        };
        let rates: Vec<f64> = rows.iter().filter_map(mean).collect();
        let (low, high) =
            rates.iter().fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        let x = (first as f64 + step as f64 / 2.0) / 10.0;
        (!rates.is_empty()).then(|| Mark { x, y: median(&rates), low: Some(low), high: Some(high), at: String::new() })
    };
    (0..longest).step_by(step).filter_map(mark).collect()
}

/// More points than this along a run none can tell apart.
const TENTHS_MAX: usize = 60;

/// What an I/O costs, in the order of the report.
const COSTS: [Metric; 7] = [
    Metric::Cores,
    Metric::CpuSPerMillionIos,
    Metric::SyscallsPerIo,
    Metric::InterruptsPerIo,
    Metric::CyclesPerIo,
    Metric::IosPerJoule,
    Metric::IosPerJouleAboveIdle,
];

fn cost(load: &Load, metric: Metric) -> Option<Chart> {
    let mut series: Vec<Line> = Vec::new();
    for arm in &load.arms {
        let Some(values) = arm.values(metric) else { continue };
        let mark = marked(arm.arm.depth.into(), estimate_median(&values));
        match series.iter_mut().find(|line| line.name == arm.arm.label()) {
            Some(line) => line.points.push(mark),
            None => series.push(line(&arm.arm, vec![mark])),
        }
    }
    let mut y = axis_of(metric);
    if metric == Metric::CpuSPerMillionIos {
        // Paths are orders of magnitude apart.
        y.scale = Scale::Log;
    }
    let mut x = along(Factor::Depth, Scale::Log, &series);
    let kind = match x.ticks.len() {
        0 => return None,
        1 => {
            x = Axis { label: "path".into(), scale: Scale::Names, ticks: Vec::new(), ..x };
            for (place, line) in series.iter_mut().enumerate() {
                x.categories.push(line.name.clone());
                line.points.iter_mut().for_each(|mark| mark.x = place as f64);
            }
            Kind::Bars
        }
        _ => Kind::Lines,
    };
    let source = source_key(metric).and_then(|key| load.arms.iter().find_map(|arm| arm.rows[0].sources.get(key)));
    let modelled = if source.is_some_and(|source| source.contains("modelled")) { " (modelled)" } else { "" };
    Some(Chart {
        id: format!("{}-{}", load.id("cost"), slug(&y.label)),
        section: Section::Cost,
        group: load.words.clone(),
        title: format!("{}{modelled}", capital(&y.label)),
        kind,
        x,
        y,
        series,
        note: source.map_or(String::new(), |source| format!("Source: {source}.")),
    })
}

/// The name of a metric's figure in a row's sources.
fn source_key(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::SyscallsPerIo => Some("syscalls_per_io"),
        Metric::ContextSwitchesPerIo => Some("context_switches"),
        Metric::InterruptsPerIo => Some("device_interrupts"),
        Metric::CyclesPerIo => Some("cycles"),
        Metric::InstructionsPerIo => Some("instructions"),
        Metric::CacheMissRate => Some("cache_misses"),
        Metric::IosPerJoule | Metric::Watts => Some("joules"),
        Metric::IosPerJouleAboveIdle | Metric::WattsAboveIdle => Some("idle_joules"),
        _ => None,
    }
}

/// Why no run has a metric; `None` if one has it.
fn not_counted(metric: Metric, rows: &[Row]) -> Option<NotDrawn> {
    if rows.iter().any(|row| row.metric(metric).is_some()) {
        return None;
    }
    let why = source_key(metric).and_then(|key| {
        rows.iter().filter_map(|row| row.sources.get(key)).find_map(|source| source.strip_prefix(UNAVAILABLE))
    });
    Some(NotDrawn {
        section: Section::Cost,
        title: capital(&axis_of(metric).label),
        why: why.unwrap_or("not counted here").into(),
    })
}

/// A name that links and files can have.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// Numbers those that have the name of one before them.
fn make_distinct(charts: &mut [Chart]) {
    let mut known = HashSet::new();
    for chart in charts {
        let plain = chart.id.clone();
        let mut count = 1;
        while !known.insert(chart.id.clone()) {
            count += 1;
            chart.id = format!("{plain}-{count}");
        }
    }
}

#[cfg(test)]
mod tests;
