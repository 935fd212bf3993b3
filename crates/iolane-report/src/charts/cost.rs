//! What an I/O costs: processor time, system calls, interrupts, energy.

use iolane_measure::figures::RunFigure;
use iolane_study::format::capital;
use iolane_study::plan::{Factor, Metric};
use iolane_study::rows::Row;
use iolane_study::stats::estimate_median;

use super::axes::{factor_axis, metric_axis, metric_axis_of};
use super::chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line, NotDrawn};
use super::id::slug;
use super::load::{Load, estimated, line};

/// In the order of the report.
pub(super) const METRICS: [Metric; 7] = [
    Metric::Cores,
    Metric::CpuSPerMillionIos,
    Metric::SyscallsPerIo,
    Metric::InterruptsPerIo,
    Metric::CyclesPerIo,
    Metric::IosPerJoule,
    Metric::IosPerJouleAboveIdle,
];

pub(super) fn chart(load: &Load, metric: Metric) -> Option<Chart> {
    let mut series: Vec<Line> = Vec::new();
    for arm in &load.arms {
        let Some(values) = arm.values(metric) else { continue };
        let mark = estimated(arm.arm.workload.depth.into(), estimate_median(&values));
        match series.iter_mut().find(|line| line.name == arm.arm.label()) {
            Some(line) => line.points.push(mark),
            None => series.push(line(&arm.arm, vec![mark])),
        }
    }
    let mut y = metric_axis_of(metric, load);
    if metric == Metric::CpuSPerMillionIos {
        // Paths are orders of magnitude apart.
        y.kind = AxisKind::Log;
    }
    let mut x = factor_axis(Factor::Depth, AxisKind::Log, &series);
    let kind = match x.ticks.len() {
        0 => return None,
        1 => {
            x = Axis { label: "path".into(), kind: AxisKind::Category, ticks: Vec::new(), ..x };
            for (place, line) in series.iter_mut().enumerate() {
                x.categories.push(line.name.clone());
                line.points.iter_mut().for_each(|mark| mark.x = place as f64);
            }
            ChartKind::Bars
        }
        _ => ChartKind::Lines,
    };
    let figure = Row::figure_of(metric);
    let known = load.arms.iter().find_map(|arm| arm.rows[0].figures.known(figure?));
    let modelled = if known.is_some_and(|known| known.modelled) { " (modelled)" } else { "" };
    Some(Chart {
        id: format!("{}-{}", load.id("cost"), slug(&y.label)),
        section: ChartSection::Cost,
        group: load.words.clone(),
        title: format!("{}{modelled}", capital(&y.label)),
        kind,
        x,
        y,
        series,
        note: source(metric, load),
    })
}

/// Where the values come from; processor time has several parts.
fn source(metric: Metric, load: &Load) -> String {
    let figures = match metric {
        Metric::Cores | Metric::CpuSPerMillionIos => {
            vec![RunFigure::UserS, RunFigure::KernelThreadsS, RunFigure::KernelWorkersS, RunFigure::InterruptApartS]
        }
        _ => Row::figure_of(metric).into_iter().collect(),
    };
    let known = |figure| load.arms.iter().find_map(|arm| arm.rows[0].figures.known(figure));
    let sources: Vec<&str> = figures.into_iter().filter_map(known).map(|known| known.source.as_str()).collect();
    if sources.is_empty() { String::new() } else { format!("Source: {}.", sources.join("; ")) }
}

/// Why no run has a metric; `None` if a run has it.
pub(super) fn not_counted(metric: Metric, rows: &[Row]) -> Option<NotDrawn> {
    if rows.iter().any(|row| row.metric(metric).is_some()) {
        return None;
    }
    let why = rows.iter().find_map(|row| row.why_missing(metric));
    Some(NotDrawn {
        section: ChartSection::Cost,
        title: capital(&metric_axis(metric).label),
        why: why.map_or_else(|| "not counted on this machine".into(), ToString::to_string),
    })
}
