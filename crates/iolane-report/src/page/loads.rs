//! Each load in detail: the table of its arms and its charts of latency, time and cost.

use super::chart_figure::ChartFigure;
use super::html_table::HtmlTable;
use crate::charts::{Chart, ChartSection};
use iolane_study::format::{count, number, range, time};
use iolane_study::results::{ArmReport, Loaded, arm_reports};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadDetail {
    pub(super) words: String,
    /// For links.
    pub(super) id: String,
    /// The best of each depth first.
    pub(super) arms: HtmlTable,
    pub(super) figures: Vec<ChartFigure>,
}

/// The loads of a study, in the order of its tables.
pub(super) fn details(loaded: &Loaded, charts: &[Chart]) -> Vec<LoadDetail> {
    let reports = arm_reports(&loaded.results(), &loaded.rows);
    let mut loads: Vec<LoadDetail> = Vec::new();
    for arms in reports.chunk_by(|a, b| a.arm.load_in_words() == b.arm.load_in_words()) {
        let words = arms[0].arm.load_in_words();
        let is_here = |chart: &&Chart| chart.section != ChartSection::Figures && chart.group == words;
        loads.push(LoadDetail {
            id: format!("load-{}", loads.len() + 1),
            arms: table(arms),
            figures: charts.iter().filter(is_here).map(ChartFigure::new).collect(),
            words,
        });
    }
    loads
}

fn table(arms: &[ArmReport]) -> HtmlTable {
    let mut headings = vec![
        "path",
        "depth",
        "IOPS",
        "95 % interval",
        "of best",
        "p50, all repeats",
        "p99, all repeats",
        "p99.9, all repeats",
    ];
    let is_mixed = arms.iter().any(|arm| arm.read_p99_ns.is_some());
    if is_mixed {
        headings.extend(["p99 of reads", "p99 of writes"]);
    }
    headings.extend(["cores", "system calls per I/O", "noise"]);
    HtmlTable {
        headings: headings.into_iter().map(String::from).collect(),
        rows: arms.iter().map(|arm| row(arm, is_mixed)).collect(),
    }
}

fn row(arm: &ArmReport, is_mixed: bool) -> Vec<String> {
    let latency = |value: Option<u64>| value.map_or("unavailable".into(), |value| time(value as f64));
    let known = |value: Option<f64>| value.map_or("unavailable".into(), number);
    let mut cells = vec![
        arm.arm.label(),
        arm.arm.workload.depth.to_string(),
        count(arm.iops.value),
        range(&count(arm.iops.low), &count(arm.iops.high)),
        arm.standing(),
        latency(arm.p50_ns),
        latency(arm.p99_ns),
        latency(arm.p99_9_ns),
    ];
    if is_mixed {
        cells.extend([latency(arm.read_p99_ns), latency(arm.write_p99_ns)]);
    }
    cells.extend([
        known(arm.cores_used),
        known(arm.syscalls_per_io),
        arm.noise.map_or("–".into(), |noise| format!("{} %", number((noise * 1e3).round() / 10.0))),
    ]);
    cells
}
