//! The charts of a rate search: the bounded percentile against the rate, a line for each path and depth, and the bound with
//! the highest rate of each.

use std::collections::BTreeSet;

use iolane::IoPath;
use iolane_study::format::time;
use iolane_study::plan::LatencyBound;
use iolane_study::results::{RateAnswer, RateUntil, load_in_words};
use iolane_study::rows::ArmResults;
use iolane_study::stats::estimate_median;

use super::axes::{axis, metric_axis};
use super::chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Line, Mark};
use super::id::slug;
use super::load::{legend_order, line};
use super::unit::Unit;
use crate::chart_style::{Look, Marker, look};

/// A chart for each load; `arms` are the runs of the search, each rate an arm of its own.
pub(super) fn charts(arms: &[ArmResults], rate_until: &RateUntil) -> Vec<Chart> {
    let mut loads: Vec<(String, Vec<&ArmResults>)> = Vec::new();
    for arm in arms {
        let words = load_in_words(&arm.arm);
        match loads.iter_mut().find(|(known, _)| *known == words) {
            Some((_, of_load)) => of_load.push(arm),
            None => loads.push((words, vec![arm])),
        }
    }
    loads.iter().map(|(words, arms)| chart(words, arms, rate_until)).collect()
}

/// The dashes of the second depth, the third and so on.
const DASHES: [&[u8]; 3] = [&[7, 3], &[2, 3], &[8, 3, 2, 3]];

/// The look of a path at the depth of this place: the same colour, with another marker and dash.
fn look_at(place: usize, own: Look) -> Look {
    if place == 0 {
        return own;
    }
    let marker = Marker::ALL.iter().position(|marker| *marker == own.marker).unwrap_or(0);
    Look { marker: Marker::ALL[(marker + place) % Marker::ALL.len()], dash: DASHES[(place - 1) % DASHES.len()], ..own }
}

fn chart(words: &str, arms: &[&ArmResults], rate_until: &RateUntil) -> Chart {
    let bound = rate_until.bound;
    let depths: BTreeSet<u32> = arms.iter().map(|arm| arm.arm.workload.depth).collect();
    let in_words = |path: &str, depth: u32| match depths.len() {
        0 | 1 => path.to_owned(),
        _ => format!("{path}, depth {depth}"),
    };
    let mut arms = arms.to_vec();
    arms.sort_by_cached_key(|arm| legend_order(&arm.arm));
    let mut series: Vec<Line> = Vec::new();
    for arm in arms {
        let Some(mark) = mark(arm, bound) else { continue };
        let depth = arm.arm.workload.depth;
        let mut new = line(&arm.arm, vec![mark]);
        new.name = in_words(&new.name, depth);
        new.look = look_at(depths.iter().position(|known| *known == depth).unwrap_or(0), new.look);
        match series.iter_mut().find(|known| known.name == new.name) {
            Some(known) => known.points.append(&mut new.points),
            None => series.push(new),
        }
    }
    series.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    let ends = series.iter().flat_map(|line| &line.points).map(|point| point.x);
    let (first, last) = ends.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
    let on_bound = |x: f64, at: String| Mark { at, ..Mark::without_interval(x, bound.max_ns()) };
    let highest = |answer: &RateAnswer| {
        let at = format!("highest rate of {}", in_words(&answer.path, answer.depth));
        Some(on_bound(answer.rate?.value, at))
    };
    let of_load = rate_until.answers.iter().filter(|answer| answer.load == words);
    let ends = [first, last].map(|x| on_bound(x, String::new()));
    let mut points: Vec<Mark> = of_load.filter_map(highest).chain(ends).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    series.push(Line {
        name: format!("bound: {}, and the highest rates", time(bound.max_ns())),
        path: String::new(),
        look: look(&IoPath::new("unknown"), None),
        points,
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
        note: "Runs that did not keep their rate count as misses, whatever their latency.".into(),
    }
}

/// The runs of one rate, those that did not keep it included: without them a rate would look better the fewer runs keep it.
fn mark(arm: &ArmResults, bound: LatencyBound) -> Option<Mark> {
    let rate = arm.arm.workload.rate?.per_s();
    let runs: Vec<f64> = arm.rows.iter().filter_map(|row| row.metric(bound.metric())).collect();
    let y = (!runs.is_empty()).then(|| estimate_median(&runs).value)?;
    let (low, high) = runs.iter().fold((y, y), |(low, high), one| (low.min(*one), high.max(*one)));
    Some(Mark { x: rate, y, low: Some(low), high: Some(high), at: String::new() })
}
