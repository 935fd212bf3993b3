//! Each load in detail: the table of its arms and its charts of latency, time and cost.

use super::chart_figure::ChartFigure;
use super::html_table::HtmlTable;
use crate::charts::{Chart, ChartSection};
use iolane_measure::workload::Rate;
use iolane_study::format::{count, number, range, time};
use iolane_study::plan::IOPS;
use iolane_study::results::{ArmReport, Loaded, arm_reports, load_in_words};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadDetail {
    pub(super) words: String,
    /// For links.
    pub(super) id: String,
    /// The best of each depth first.
    pub(super) arms: HtmlTable,
    pub(super) figures: Vec<ChartFigure>,
    /// Whether the page opens with it unfolded, if it is the first.
    pub(super) is_open: bool,
}

/// The heading of the section of loads, and the sentence below it.
pub(super) fn heading(is_search: bool) -> (&'static str, &'static str) {
    if is_search {
        ("All rates that were tried", "Each row is one rate of one path. Percentiles are of all repeats pooled.")
    } else {
        (
            "Latency, time and cost",
            "For each load: its arms, the distribution of latency, the rate over time, and the cost per I/O. Percentiles in \
             the tables are of all repeats pooled; the p99 of a recommendation is the median of the repeats’ own. ~ marks a \
             ratio whose interval includes 1: no difference shown.",
        )
    }
}

/// The loads of a study, in the order of its tables.
pub(super) fn details(loaded: &Loaded, charts: &[Chart]) -> Vec<LoadDetail> {
    let reports = arm_reports(&loaded.results(), &loaded.rows);
    if loaded.document.rate_until.is_some() {
        return rates_tried(reports);
    }
    let mut loads: Vec<LoadDetail> = Vec::new();
    for arms in reports.chunk_by(|a, b| a.arm.load_in_words() == b.arm.load_in_words()) {
        let words = arms[0].arm.load_in_words();
        let is_here = |chart: &&Chart| chart.section != ChartSection::Figures && chart.group == words;
        loads.push(LoadDetail {
            id: format!("load-{}", loads.len() + 1),
            arms: table(arms, Shows::Standing),
            figures: charts.iter().filter(is_here).map(ChartFigure::new).collect(),
            is_open: true,
            words,
        });
    }
    loads
}

/// Requests per second of an arm of a search.
fn rate(arm: &ArmReport) -> f64 {
    arm.arm.workload.rate.map_or(0.0, Rate::per_s)
}

/// The loads of a rate search, each with all rates that were tried.
fn rates_tried(mut reports: Vec<ArmReport>) -> Vec<LoadDetail> {
    let base = |arm: &ArmReport| arm.arm.without_rate();
    reports.sort_by(|a, b| {
        let by_load = base(a).load_key().cmp(&base(b).load_key());
        let by_path = (a.arm.label(), a.arm.workload.depth).cmp(&(b.arm.label(), b.arm.workload.depth));
        by_load.then(by_path).then(rate(a).total_cmp(&rate(b)))
    });
    let mut loads: Vec<LoadDetail> = Vec::new();
    for arms in reports.chunk_by(|a, b| base(a).load_key() == base(b).load_key()) {
        loads.push(LoadDetail {
            id: format!("load-{}", loads.len() + 1),
            arms: table(arms, Shows::Rates),
            figures: Vec::new(),
            is_open: false,
            words: load_in_words(&arms[0].arm),
        });
    }
    loads
}

/// What a table of arms compares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Each arm with the best of its load.
    Standing,
    /// The rates of a search.
    Rates,
}

/// Requests whose latency has a column of its own where it is told apart from that of the others.
type Part = (&'static str, fn(&ArmReport) -> Option<u64>);

const PARTS: [Part; 5] = [
    ("p99 of reads", |arm| arm.read_p99_ns),
    ("p99 of writes", |arm| arm.write_p99_ns),
    ("p99 of syncs", |arm| arm.sync_p99_ns),
    ("p50 of commits", |arm| arm.commit_p50_ns.filter(|_| arm.has_syncs())),
    ("p99 of commits", |arm| arm.commit_p99_ns.filter(|_| arm.has_syncs())),
];

fn table(arms: &[ArmReport], shows: Shows) -> HtmlTable {
    let (rate, standing) = match shows {
        Shows::Standing => (None, "of best"),
        Shows::Rates => (Some("rate"), "keeps the rate"),
    };
    let unit = arms.first().map_or(IOPS, |arm| arm.arm.rate_unit());
    let things = if unit == IOPS { "system calls per I/O" } else { "system calls per operation" };
    let mut headings = vec!["path"];
    headings.extend(rate);
    headings.extend(["depth", unit, "95 % interval", standing]);
    headings.extend(["p50, all repeats", "p99, all repeats", "p99.9, all repeats"]);
    // The reads of a load that only reads are all of its requests.
    let is_part = |p99_ns: fn(&ArmReport) -> Option<u64>| {
        arms.iter()
            .any(|arm| p99_ns(arm).is_some() && PARTS.iter().filter(|(_, other)| other(arm).is_some()).count() > 1)
    };
    let parts: Vec<&Part> = PARTS.iter().filter(|(_, p99_ns)| is_part(*p99_ns)).collect();
    headings.extend(parts.iter().map(|(heading, _)| *heading));
    headings.extend(["cores", things, "noise"]);
    HtmlTable {
        headings: headings.into_iter().map(String::from).collect(),
        rows: arms.iter().map(|arm| row(arm, shows, &parts)).collect(),
    }
}

fn row(arm: &ArmReport, shows: Shows, parts: &[&Part]) -> Vec<String> {
    let latency = |value: Option<u64>| value.map_or("unavailable".into(), |value| time(value as f64));
    let known = |value: Option<f64>| value.map_or("unavailable".into(), number);
    let mut cells = vec![arm.arm.label()];
    if shows == Shows::Rates {
        cells.push(format!("{}/s", count(rate(arm))));
    }
    cells.extend([
        arm.arm.workload.depth.to_string(),
        count(arm.iops.value),
        range(&count(arm.iops.low), &count(arm.iops.high)),
        match shows {
            Shows::Standing => arm.standing(),
            Shows::Rates => if arm.keeps_rate == Some(true) { "yes" } else { "no" }.into(),
        },
        latency(arm.p50_ns),
        latency(arm.p99_ns),
        latency(arm.p99_9_ns),
    ]);
    cells.extend(parts.iter().map(|(_, p99_ns)| latency(p99_ns(arm))));
    cells.extend([
        known(arm.cores_used),
        known(arm.syscalls_per_io),
        arm.noise.map_or("–".into(), |noise| format!("{} %", number((noise * 1e3).round() / 10.0))),
    ]);
    cells
}
