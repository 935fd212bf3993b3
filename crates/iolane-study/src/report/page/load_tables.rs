//! Each load in detail: the table of its arms, its latencies, how its runs went, what an I/O cost.

use super::super::charts::{Chart, Section};
use super::super::{ArmReport, Loaded, arm_reports, load_in_words};
use super::chart_tables::Table;
use super::sections::{Figure, figure};
use crate::quantity::{count, number, range, time};

/// What the page shows of one load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadDetail {
    pub(super) words: String,
    /// For links.
    pub(super) id: String,
    /// Every arm of it, the best of each depth first.
    pub(super) arms: Table,
    pub(super) figures: Vec<Figure>,
}

/// The loads of a study, in the order of its tables.
pub(super) fn details(loaded: &Loaded, charts: &[Chart]) -> Vec<LoadDetail> {
    let reports = arm_reports(&loaded.results(), &loaded.rows);
    let mut loads: Vec<LoadDetail> = Vec::new();
    for arms in reports.chunk_by(|a, b| load_in_words(&a.arm) == load_in_words(&b.arm)) {
        let words = load_in_words(&arms[0].arm);
        let is_here = |chart: &&Chart| chart.section != Section::Figures && chart.group == words;
        loads.push(LoadDetail {
            id: format!("load-{}", loads.len() + 1),
            arms: table(arms),
            figures: charts.iter().filter(is_here).map(figure).collect(),
            words,
        });
    }
    loads
}

fn table(arms: &[ArmReport]) -> Table {
    let headings =
        ["path", "depth", "IOPS", "95 % interval", "of best", "p50", "p99", "p99.9", "cores", "calls per I/O", "noise"];
    Table { headings: headings.map(String::from).to_vec(), rows: arms.iter().map(row).collect() }
}

fn row(arm: &ArmReport) -> Vec<String> {
    let latency = |value: Option<u64>| value.map_or("unavailable".into(), |value| time(value as f64));
    let known = |value: Option<f64>| value.map_or("unavailable".into(), number);
    let of_best = match arm.of_best {
        None => "best".into(),
        Some(ratio) if ratio.shows_difference() => format!("{}x", number(ratio.value)),
        Some(ratio) => format!("~{}x", number(ratio.value)),
    };
    vec![
        arm.arm.label(),
        arm.arm.depth.to_string(),
        count(arm.iops.value),
        range(&count(arm.iops.low), &count(arm.iops.high)),
        of_best,
        latency(arm.p50_ns),
        latency(arm.p99_ns),
        latency(arm.p99_9_ns),
        known(arm.cores_used),
        known(arm.syscalls_per_io),
        arm.noise.map_or("–".into(), |noise| format!("{} %", number((noise * 1e3).round() / 10.0))),
    ]
}
