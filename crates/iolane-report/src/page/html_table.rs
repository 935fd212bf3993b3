//! Tables of a page, and the table of a chart: its points as text, for readers who do not see the chart or need the numbers.

use crate::charts::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line, Mark};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HtmlTable {
    pub(super) headings: Vec<String>,
    /// The first cell of a row is its heading.
    pub(super) rows: Vec<Vec<String>>,
}

impl HtmlTable {
    pub(super) fn of_chart(chart: &Chart) -> Self {
        match (chart.kind, chart.section, chart.x.ticks.is_empty()) {
            (ChartKind::Bars, ..) => by_name(chart),
            (_, ChartSection::Latency, _) => percentiles(chart),
            (_, ChartSection::Time, _) if chart.series.iter().flat_map(|line| &line.points).any(is_a_run) => {
                runs(chart)
            }
            (_, ChartSection::Time, _) | (.., false) => along(chart),
            (.., true) => points(chart),
        }
    }
}

const NOTHING: &str = "–";

/// Runs are identified by their repeat, not by their start.
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

/// A row for each name: the measured value and the published one.
fn by_name(chart: &Chart) -> HtmlTable {
    let is_published = chart.series.iter().any(|line| !line.published.is_empty());
    let mut headings = vec![chart.x.label.clone(), format!("{}, measured", chart.y.label)];
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
    HtmlTable { headings, rows: chart.series.iter().map(row).collect() }
}

/// A row for each x value, a column for each line; a published value follows the measured one.
fn along(chart: &Chart) -> HtmlTable {
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
    let place = |x: f64| if chart.x.kind == AxisKind::Category { x.to_string() } else { chart.x.unit.shown(x) };
    let row = |x: &f64| [place(*x)].into_iter().chain(chart.series.iter().map(|line| cell(line, *x))).collect();
    HtmlTable {
        headings: [chart.x.label.clone()]
            .into_iter()
            .chain(chart.series.iter().map(|line| line.name.clone()))
            .collect(),
        rows: places.iter().map(row).collect(),
    }
}

/// A row for each point of each line.
fn points(chart: &Chart) -> HtmlTable {
    let mut rows = Vec::new();
    for line in &chart.series {
        let row =
            |mark: &Mark| vec![line.name.clone(), mark.at.clone(), chart.x.unit.shown(mark.x), value(&chart.y, mark)];
        rows.extend(line.points.iter().map(row));
        rows.extend(line.published.iter().map(|point| {
            vec![line.name.clone(), "published".into(), chart.x.unit.shown(point.x), chart.y.unit.shown(point.y)]
        }));
    }
    HtmlTable { headings: vec!["path".into(), "point".into(), chart.x.label.clone(), chart.y.label.clone()], rows }
}

const PERCENTILES: [(f64, &str); 7] =
    [(0.0, "min"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (1.0, "max")];

fn percentiles(chart: &Chart) -> HtmlTable {
    let row = |line: &Line| {
        let at = |(share, _): &(f64, &str)| {
            let mark = line.points.iter().find(|mark| mark.y == *share);
            mark.map_or(NOTHING.into(), |mark| chart.x.unit.shown(mark.x))
        };
        [line.name.clone()].into_iter().chain(PERCENTILES.iter().map(at)).collect()
    };
    let headings = ["path".to_owned()].into_iter().chain(PERCENTILES.iter().map(|(_, name)| (*name).to_owned()));
    HtmlTable { headings: headings.collect(), rows: chart.series.iter().map(row).collect() }
}

/// A row for each path, a column for each of its runs.
fn runs(chart: &Chart) -> HtmlTable {
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
    HtmlTable { headings: headings.collect(), rows: chart.series.iter().map(row).collect() }
}
