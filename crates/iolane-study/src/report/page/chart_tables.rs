//! The table of a chart: its points in words, for whoever does not see the chart or wants the numbers.

use super::super::charts::{Axis, Chart, Kind, Line, Mark, Scale, Section};

/// A table as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// One for each column.
    pub(super) headings: Vec<String>,
    /// The first cell of a row is its heading.
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// The table that fits the chart.
    pub(super) fn of(chart: &Chart) -> Self {
        match (chart.kind, chart.section, chart.x.ticks.is_empty()) {
            (Kind::Bars, ..) => by_name(chart),
            (_, Section::Latency, _) => quantiles(chart),
            (_, Section::Time, _) if chart.series.iter().flat_map(|line| &line.points).any(is_a_run) => runs(chart),
            (_, Section::Time, _) | (.., false) => along(chart),
            (.., true) => points(chart),
        }
    }
}

const NOTHING: &str = "–";

/// Runs are told apart by what they are, not by when they began.
fn is_a_run(mark: &Mark) -> bool {
    !mark.at.is_empty()
}

fn value(axis: &Axis, mark: &Mark) -> String {
    let shown = axis.unit.shown(mark.y);
    match (mark.low, mark.high) {
        (Some(low), Some(high)) if low < high => {
            format!("{shown} ({} to {})", axis.unit.shown(low), axis.unit.shown(high))
        }
        _ => shown,
    }
}

/// A row for each name, the published value beside ours.
fn by_name(chart: &Chart) -> Table {
    let is_published = chart.series.iter().any(|line| !line.published.is_empty());
    let mut headings = vec![chart.x.label.clone(), format!("{}, here", chart.y.label)];
    if is_published {
        headings.push("published".into());
    }
    let row = |line: &Line| {
        let here = line.points.first().map_or(NOTHING.into(), |mark| value(&chart.y, mark));
        let mut row = vec![line.name.clone(), here];
        if is_published {
            row.push(line.published.first().map_or(NOTHING.into(), |point| chart.y.unit.shown(point.y)));
        }
        row
    };
    Table { headings, rows: chart.series.iter().map(row).collect() }
}

/// A row for each place along the chart, a column for each line; what was published stands behind what was measured.
fn along(chart: &Chart) -> Table {
    let mut places: Vec<f64> = match chart.x.ticks.is_empty() {
        false => chart.x.ticks.clone(),
        true => chart.series.iter().flat_map(|line| &line.points).map(|mark| mark.x).collect(),
    };
    places.sort_by(f64::total_cmp);
    places.dedup();
    let cell = |line: &Line, x: f64| {
        let here = line.points.iter().find(|mark| mark.x == x).map(|mark| value(&chart.y, mark));
        let there = line.published.iter().find(|point| point.x == x);
        let there = there.map(|point| format!("published {}", chart.y.unit.shown(point.y)));
        match [here, there].into_iter().flatten().collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => NOTHING.into(),
            cell => cell,
        }
    };
    let place = |x: f64| if chart.x.scale == Scale::Names { x.to_string() } else { chart.x.unit.shown(x) };
    let row = |x: &f64| [place(*x)].into_iter().chain(chart.series.iter().map(|line| cell(line, *x))).collect();
    Table {
        headings: [chart.x.label.clone()]
            .into_iter()
            .chain(chart.series.iter().map(|line| line.name.clone()))
            .collect(),
        rows: places.iter().map(row).collect(),
    }
}

/// A row for each point of each line.
fn points(chart: &Chart) -> Table {
    let mut rows = Vec::new();
    for line in &chart.series {
        let row =
            |mark: &Mark| vec![line.name.clone(), mark.at.clone(), chart.x.unit.shown(mark.x), value(&chart.y, mark)];
        rows.extend(line.points.iter().map(row));
        rows.extend(line.published.iter().map(|point| {
            vec![line.name.clone(), "published".into(), chart.x.unit.shown(point.x), chart.y.unit.shown(point.y)]
        }));
    }
    Table { headings: vec!["path".into(), "point".into(), chart.x.label.clone(), chart.y.label.clone()], rows }
}

/// Shares of a distribution that people ask for.
const ASKED: [(f64, &str); 7] = [
    (0.0, "shortest"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (1.0, "longest"),
];

fn quantiles(chart: &Chart) -> Table {
    let row = |line: &Line| {
        let at = |(share, _): &(f64, &str)| {
            let mark = line.points.iter().find(|mark| mark.y == *share);
            mark.map_or(NOTHING.into(), |mark| chart.x.unit.shown(mark.x))
        };
        [line.name.clone()].into_iter().chain(ASKED.iter().map(at)).collect()
    };
    let headings = ["path".to_owned()].into_iter().chain(ASKED.iter().map(|(_, name)| (*name).to_owned()));
    Table { headings: headings.collect(), rows: chart.series.iter().map(row).collect() }
}

/// A row for each path, a column for each of its runs.
fn runs(chart: &Chart) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for mark in chart.series.iter().flat_map(|line| &line.points) {
        if !names.contains(&mark.at.as_str()) {
            names.push(&mark.at);
        }
    }
    // `repeat 2` before `repeat 10`.
    names.sort_unstable_by_key(|name| (name.len(), *name));
    let row = |line: &Line| {
        let at = |name: &&str| {
            let mark = line.points.iter().find(|mark| mark.at == *name);
            mark.map_or(NOTHING.into(), |mark| chart.y.unit.shown(mark.y))
        };
        [line.name.clone()].into_iter().chain(names.iter().map(at)).collect()
    };
    let headings = ["path".to_owned()].into_iter().chain(names.iter().map(|name| (*name).to_owned()));
    Table { headings: headings.collect(), rows: chart.series.iter().map(row).collect() }
}
