//! The charts of a rate search: the bounded percentile against the rate, a line for each path, and the bound.

use iolane::IoPath;
use iolane_study::format::time;
use iolane_study::plan::LatencyBound;
use iolane_study::results::load_in_words;
use iolane_study::rows::ArmResults;
use iolane_study::stats::estimate_median;

use super::axes::{axis, metric_axis};
use super::chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line, Mark};
use super::id::slug;
use super::load::line;
use super::unit::Unit;
use crate::chart_style::look;

/// A chart for each load; `arms` are the runs of the search, each rate an arm of its own.
pub(super) fn charts(arms: &[ArmResults], bound: LatencyBound) -> Vec<Chart> {
    let mut loads: Vec<(String, Vec<&ArmResults>)> = Vec::new();
    for arm in arms {
        let words = load_in_words(&arm.arm);
        match loads.iter_mut().find(|(known, _)| *known == words) {
            Some((_, of_load)) => of_load.push(arm),
            None => loads.push((words, vec![arm])),
        }
    }
    loads.iter().map(|(words, arms)| chart(words, arms, bound)).collect()
}

fn chart(words: &str, arms: &[&ArmResults], bound: LatencyBound) -> Chart {
    let depths: Vec<u32> = arms.iter().map(|arm| arm.arm.workload.depth).collect();
    let has_depths = depths.iter().any(|depth| *depth != depths[0]);
    let mut series: Vec<Line> = Vec::new();
    for arm in arms {
        let Some(mark) = mark(arm, bound) else { continue };
        let mut new = line(&arm.arm, vec![mark]);
        if has_depths {
            new.name = format!("{}, depth {}", new.name, arm.arm.workload.depth);
        }
        match series.iter_mut().find(|known| known.name == new.name) {
            Some(known) => known.points.append(&mut new.points),
            None => series.push(new),
        }
    }
    series.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    let ends = series.iter().flat_map(|line| &line.points).map(|point| point.x);
    let (first, last) = ends.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
    let points = [first, last].map(|x| Mark::without_interval(x, bound.max_ns()));
    series.push(Line {
        name: format!("bound: {}", time(bound.max_ns())),
        path: String::new(),
        look: look(&IoPath::new("unknown"), None),
        points: points.into(),
        published: Vec::new(),
    });
    let y = metric_axis(bound.metric());
    Chart {
        id: format!("rate-{}", slug(words)),
        section: ChartSection::Figures,
        group: String::new(),
        title: format!("{} against the rate of {words}", iolane_study::format::capital(&y.label)),
        kind: ChartKind::Lines,
        x: axis("requests per second", Unit::Count, AxisKind::Log),
        y: Axis { kind: AxisKind::Log, ..y },
        series,
        note: "Runs that did not keep their rate are left out.".into(),
    }
}

/// The runs of one rate; `None` if none of them kept it.
fn mark(arm: &ArmResults, bound: LatencyBound) -> Option<Mark> {
    let rate = arm.arm.workload.rate?.per_s();
    let trials = arm.rows.iter().filter_map(|row| row.trial(bound));
    let kept: Vec<f64> = trials.map(|trial| trial.latency_ns).filter(|latency_ns| latency_ns.is_finite()).collect();
    let y = (!kept.is_empty()).then(|| estimate_median(&kept).value)?;
    let (low, high) = kept.iter().fold((y, y), |(low, high), one| (low.min(*one), high.max(*one)));
    Some(Mark { x: rate, y, low: Some(low), high: Some(high), at: String::new() })
}
