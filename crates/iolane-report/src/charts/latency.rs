//! Distributions of latency.

use iolane_study::rows::ArmResults;

use super::axes::axis;
use super::chart::{AxisKind, Chart, ChartKind, ChartSection, Line, Mark};
use super::load::{Load, line};
use super::unit::Unit;

/// The shares of I/Os at which a distribution is drawn: evenly spaced, and denser at its ends.
pub(super) const SHARES: [f64; 33] = [
    0.0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75,
    0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0,
];

pub(super) fn chart(load: &Load, depth: u32, arms: &[&ArmResults]) -> Option<Chart> {
    let series: Vec<Line> = arms
        .iter()
        .filter_map(|arm| {
            let latency = arm.latency();
            let mark = |share: &f64| Mark::without_interval(latency.value_at_quantile(*share) as f64, *share);
            (!latency.is_empty()).then(|| line(&arm.arm, SHARES.iter().map(mark).collect()))
        })
        .collect();
    let silent = arms.len() - series.len();
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-depth-{depth}", load.id("latency")),
        section: ChartSection::Latency,
        group: load.words.clone(),
        title: format!("Latency at depth {depth}"),
        kind: ChartKind::Lines,
        x: axis("latency", Unit::Nanoseconds, AxisKind::Log),
        y: axis(&format!("share of {}", load.things()), Unit::Share, AxisKind::Linear),
        series,
        note: match silent {
            0 => "All repeats pooled.".into(),
            1 => "All repeats pooled; 1 arm reports no latencies.".into(),
            count => format!("All repeats pooled; {count} arms report no latencies."),
        },
    })
}
