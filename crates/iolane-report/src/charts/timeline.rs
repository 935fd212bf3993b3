//! Rates over time: of each run in the course of the study, and within a run.

use iolane_study::plan::Metric;
use iolane_study::rows::{ArmResults, Row};
use iolane_study::stats::median;

use super::axes::{axis, metric_axis_of};
use super::chart::{AxisKind, Chart, ChartKind, ChartSection, Line, Mark};
use super::load::{Load, line};
use super::unit::Unit;

/// The rate of each run by the time it started.
pub(super) fn runs(load: &Load, depth: u32, arms: &[&ArmResults], began_unix_s: f64) -> Chart {
    let mark = |row: &Row| {
        let iops = row.metric(Metric::Iops)?;
        Some(Mark {
            at: format!("repeat {}", row.repeat + 1),
            ..Mark::without_interval(row.started_unix_s - began_unix_s, iops)
        })
    };
    Chart {
        id: format!("{}-depth-{depth}", load.id("runs")),
        section: ChartSection::Time,
        group: load.words.clone(),
        title: format!("Each run at depth {depth}"),
        kind: ChartKind::Lines,
        x: axis("time since the study began", Unit::Seconds, AxisKind::Linear),
        y: metric_axis_of(Metric::Iops, load),
        series: arms.iter().map(|arm| line(&arm.arm, arm.rows.iter().filter_map(mark).collect())).collect(),
        note: "A line that rises or falls shows that the machine changed during the study.".into(),
    }
}

/// The rate within a run: the median of the repeats in each tenth of a second, with their range.
pub(super) fn within_a_run(load: &Load, depth: u32, arms: &[&ArmResults]) -> Option<Chart> {
    let lines = arms.iter().map(|arm| line(&arm.arm, tenths(&arm.rows)));
    let series: Vec<Line> = lines.filter(|line| line.points.len() > 1).collect();
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-depth-{depth}", load.id("within")),
        section: ChartSection::Time,
        group: load.words.clone(),
        title: format!("Within a run at depth {depth}"),
        kind: ChartKind::Lines,
        x: axis("time since the run began", Unit::Seconds, AxisKind::Linear),
        y: metric_axis_of(Metric::Iops, load),
        series,
        note: "Medians of the repeats; the range given with a value is from the smallest to the largest repeat.".into(),
    })
}

fn tenths(rows: &[Row]) -> Vec<Mark> {
    let longest = rows.iter().map(|row| row.rates.len()).max().unwrap_or(0);
    // A long run is drawn in coarser steps.
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

/// More points than this along a run cannot be told apart.
const TENTHS_MAX: usize = 60;
