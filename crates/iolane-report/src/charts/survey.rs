//! The charts of a study that defines no figures: rate and tail latency of each path.

use iolane_study::format::capital;
use iolane_study::plan::Metric;
use iolane_study::rows::ArmResults;
use iolane_study::stats::estimate_median;

use super::axes::{axis, metric_axis_of};
use super::chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line};
use super::id::slug;
use super::load::{Load, estimated, line};
use super::unit::Unit;

/// Bars of each path, the best first.
pub(super) fn charts(load: &Load) -> Vec<Chart> {
    let of = |(depth, arms): (u32, Vec<&ArmResults>)| {
        [Metric::Iops, Metric::P99].map(|metric| by_path(load, depth, &arms, metric)).into_iter().flatten()
    };
    load.at_depths().flat_map(of).collect()
}

fn by_path(load: &Load, depth: u32, arms: &[&ArmResults], metric: Metric) -> Option<Chart> {
    let estimates = arms.iter().filter_map(|arm| Some((arm, estimate_median(&arm.values(metric)?))));
    let mut estimates: Vec<_> = estimates.collect();
    estimates.sort_by(|(_, a), (_, b)| match metric {
        Metric::Iops => b.value.total_cmp(&a.value),
        _ => a.value.total_cmp(&b.value),
    });
    let series = estimates.iter().enumerate();
    let series: Vec<Line> = series.map(|(place, (arm, y))| line(&arm.arm, vec![estimated(place as f64, *y)])).collect();
    let y = metric_axis_of(metric, load);
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-depth-{depth}-{}", load.id("paths"), slug(&y.label)),
        section: ChartSection::Figures,
        group: load.words.clone(),
        title: format!("{} of {} at depth {depth}", capital(&y.label), load.words),
        kind: ChartKind::Bars,
        x: Axis {
            categories: series.iter().map(|line| line.name.clone()).collect(),
            ..axis("path", Unit::Number, AxisKind::Category)
        },
        y: Axis { kind: if metric == Metric::Iops { AxisKind::Linear } else { AxisKind::Log }, ..y },
        series,
        note: String::new(),
    })
}
