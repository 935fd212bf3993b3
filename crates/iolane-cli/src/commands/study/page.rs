//! The text of a study's results: figures or arms, claims, the recommendation, what was not measured.

use iolane_study::claims::{Decision, Verdict};
use iolane_study::format::{self, count, number, time};
use iolane_study::plan::{Factor, Metric};
use iolane_study::results::{ArmReport, FigureReport, Point, RateAnswer, RateUntil, Series, StudyReport};
use iolane_study::stats::Estimate;

use super::skipped;
use crate::output::{self, CellAlignment, or_unavailable};

/// The whole text.
pub(in crate::commands) fn text(report: &StudyReport, targets: &str) -> String {
    let mut text = String::new();
    if report.name != "survey" && report.rate_until.is_none() {
        text.push_str(&format!("{}: {}\n", report.name, report.title));
    }
    text.push_str(&format!("{targets}\n{}\n\n", report.summary()));
    match report.figures.is_empty() {
        true if report.rate_until.is_some() => {
            text.push_str(&report.rate_until.as_ref().map_or_else(String::new, rates))
        }
        true => text.push_str(&arms(&report.arms)),
        false => text.push_str(&figures(&report.figures)),
    }
    text.push_str(&claims(&report.claims));
    for advice in &report.advice {
        text.push_str(&format!("{}\n", output::wrap(advice, 0)));
    }
    text.push('\n');
    text.push_str(&skipped::text(&report.skipped));
    for warning in &report.warnings {
        text.push_str(&format!("{}\n", output::wrap(&format!("note: {warning}"), 6)));
    }
    text
}

/// Each claim with its verdict, the published and the measured figures, and the check that decided it.
fn claims(claims: &[Decision]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut text = String::from("Published claims, checked here:\n");
    for claim in claims {
        let mut lines = vec![
            format!("  {:<4} {}: {}", claim.id, claim.verdict.to_string().to_uppercase(), claim.says),
            format!("       published  {}", claim.published),
        ];
        lines.extend(claim.measured.as_ref().map(|measured| format!("       here       {measured}")));
        lines.extend(deciding_check(claim).map(|why| format!("       because    {why}")));
        for (index, line) in lines.iter().enumerate() {
            text.push_str(&format!("{}\n", output::wrap(line, if index == 0 { 7 } else { 18 })));
        }
    }
    let counts = Verdict::counts(claims.iter().map(|claim| claim.verdict)).into_iter();
    let counts = counts.filter(|(_, count)| *count > 0).map(|(verdict, count)| format!("{verdict}: {count}"));
    text.push_str(&format!("\n{}\n\n", counts.collect::<Vec<_>>().join(", ")));
    text
}

/// The first check with the claim's verdict; study.json has all of them.
fn deciding_check(claim: &Decision) -> Option<String> {
    let mut deciding = claim.checks.iter().filter(|check| check.verdict == claim.verdict);
    let first = deciding.next()?;
    let others = match deciding.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Some(format!("{}: {}{others}", first.says, first.why))
}

/// A table for each set of arms that are compared, with their load if it is not the same in all.
fn arms(arms: &[ArmReport]) -> String {
    let mut text = String::new();
    let are_of_one_load = arms.iter().all(|arm| arm.arm.load_key() == arms[0].arm.load_key());
    for arms in arms.chunk_by(|a, b| a.arm.competes_with(&b.arm)) {
        if !are_of_one_load {
            text.push_str(&format!("{}\n", arms[0].arm.load_in_words()));
        }
        let heading = format!("depth {}", arms[0].arm.workload.depth);
        let has_syncs = arms.iter().any(ArmReport::has_syncs);
        let mut headings = vec![heading.as_str(), arms[0].arm.rate_unit(), "95 %", "p50", "p99"];
        headings.extend(has_syncs.then_some(["commit p50", "commit p99"]).into_iter().flatten());
        headings.extend(["cores", "calls", "of best"]);
        let rows: Vec<Vec<String>> = arms.iter().map(|arm| row(arm, has_syncs)).collect();
        text.push_str(&output::table(&headings, &rows, CellAlignment::Right));
        text.push('\n');
    }
    let has_syncs = arms.iter().any(ArmReport::has_syncs);
    let things = if arms.iter().any(|arm| arm.arm.application.is_some()) { "operation" } else { "I/O" };
    let mut legend = format!(
        "p50, p99: over all repeats; calls: system calls per {things}; ~: no significant difference from the best (the 95 % \
         interval of the ratio includes 1)"
    );
    if has_syncs {
        legend.push_str("; commit: from the start of a write to the end of the sync that makes it durable");
    }
    if arms.iter().any(|arm| !arm.best && arm.of_best.as_ref().is_some_and(|ratio| ratio.value > 1.0)) {
        legend.push_str("; of best: the median of the ratios of each repeat, which may be above 1");
    }
    if arms.iter().any(|arm| arm.arm.peer.is_some()) {
        legend.push_str("; other tools are shown, not ranked");
    }
    if arms.iter().any(|arm| arm.keeps_rate.is_some()) {
        legend.push_str("; with a rate, paths are ranked by p99: 0.5x is twice the best p99");
    }
    text.push_str(&format!("{}\n\n", output::wrap(&legend, 0)));
    text
}

/// A table for each load of a rate search.
fn rates(rate_until: &RateUntil) -> String {
    let mut text = String::new();
    for answers in rate_until.answers.chunk_by(|a, b| a.load == b.load) {
        text.push_str(&format!("{}\n", answers[0].load));
        let headings = ["path", "depth", "highest rate", "95 %", "of best", "runs"];
        let row = |answer: &RateAnswer| {
            vec![
                answer.path.clone(),
                answer.depth.to_string(),
                answer.rate_in_words(),
                answer.interval_in_words(),
                answer.standing(),
                answer.runs.to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = answers.iter().map(row).collect();
        text.push_str(&format!("{}\n", output::table(&headings, &rows, CellAlignment::Right)));
    }
    let legend = format!(
        "highest rate: of an open loop with {}, {}; ~: no significant difference from the best (the 95 % interval of the ratio \
         includes 1)",
        rate_until.bound.in_words(),
        rate_until.bound.counted_from()
    );
    text.push_str(&format!("{}\n\n", output::wrap(&legend, 0)));
    text
}

fn row(arm: &ArmReport, has_syncs: bool) -> Vec<String> {
    let at = |value: Option<u64>| or_unavailable(value, |ns| time(ns as f64));
    let mut cells = vec![
        arm.arm.label(),
        count(arm.iops.value),
        // One repeat has no interval.
        match arm.iops_repeats.len() {
            1 => "-".into(),
            _ => format::short_count_range(arm.iops.low, arm.iops.high),
        },
        at(arm.p50_ns),
        at(arm.p99_ns),
    ];
    cells.extend(has_syncs.then(|| [at(arm.commit_p50_ns), at(arm.commit_p99_ns)]).into_iter().flatten());
    cells.extend([or_unavailable(arm.cores_used, number), or_unavailable(arm.syscalls_per_io, number), arm.standing()]);
    cells
}

/// A table for each figure with values, and the names of the others.
fn figures(figures: &[FigureReport]) -> String {
    let mut text = String::new();
    let (mut unmeasured, mut unavailable) = (Vec::new(), Vec::new());
    let figures: Vec<FigureReport> = figures.iter().map(measured).collect();
    for figure in &figures {
        let points: Vec<&Point> = figure.series.iter().flat_map(|series| &series.points).collect();
        match points.first() {
            None => unmeasured.push(figure.id.as_str()),
            Some(_) if points.iter().all(|point| point.y.is_none()) => unavailable.push(figure.id.as_str()),
            Some(_) if figure.x == Factor::Path => text.push_str(&by_path(figure)),
            Some(_) => text.push_str(&along_factor(figure)),
        }
    }
    for (what, ids) in
        [("Figures without a measured arm", unmeasured), ("Figures of metrics unavailable here", unavailable)]
    {
        if !ids.is_empty() {
            text.push_str(&format!("{}\n\n", output::wrap(&format!("{what}: {}", ids.join("; ")), 0)));
        }
    }
    text
}

/// A figure without the paths that have only published points.
fn measured(figure: &FigureReport) -> FigureReport {
    let mut figure = figure.clone();
    figure.series.retain(|series| !series.points.is_empty());
    figure
}

/// A figure with one value per path: a row each, with the published value.
fn by_path(figure: &FigureReport) -> String {
    let row = |series: &Series| {
        let y = series.points.first().and_then(|point| point.y);
        let published = series.published.first().map_or("-".into(), |point| shown(figure.y, point.y));
        let interval = |y: Estimate| format::short_range(&shown(figure.y, y.low), &shown(figure.y, y.high));
        vec![
            series.name.clone(),
            or_unavailable(y.map(|y| y.value), |value| shown(figure.y, value)),
            y.map_or("-".into(), interval),
            published,
        ]
    };
    let rows: Vec<Vec<String>> = figure.series.iter().map(row).collect();
    let table = output::table(&["path", "here", "95 %", "published"], &rows, CellAlignment::Right);
    format!("{}{table}\n", title(figure))
}

/// A figure as a table: a row for each value along it, a column for each path.
fn along_factor(figure: &FigureReport) -> String {
    let mut values: Vec<(f64, &str)> = Vec::new();
    for point in figure.series.iter().flat_map(|series| &series.points) {
        if values.iter().all(|(x, _)| *x != point.x) {
            values.push((point.x, &point.at));
        }
    }
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let along = serde_name(&figure.x);
    let names = figure.series.iter().map(|series| series.name.as_str());
    let headings: Vec<&str> = [along.as_str()].into_iter().chain(names).collect();
    let row = |(x, at): &(f64, &str)| {
        let cell = |series: &Series| match series.points.iter().find(|point| point.x == *x).map(|point| point.y) {
            None => "-".into(),
            Some(y) => y.map_or("?".into(), |y| shown(figure.y, y.value)),
        };
        [(*at).to_owned()].into_iter().chain(figure.series.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = values.iter().map(row).collect();
    format!("{}{}\n", title(figure), output::table(&headings, &rows, CellAlignment::Right))
}

fn title(figure: &FigureReport) -> String {
    format!("{}\n", output::wrap(&format!("Figure {}: {}", figure.id, figure.title), 2))
}

/// A metric's value for a table cell: the title of the figure names the unit of counts.
fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::BytesPerS
        | Metric::MeanNs
        | Metric::LatencyNs(..)
        | Metric::ServiceP50Ns
        | Metric::ServiceP99Ns
        | Metric::SubmitP50Ns
        | Metric::CacheMissRate
        | Metric::Watts => format::quantity(metric, value),
        _ => count(value),
    }
}

/// A value's name in files.
fn serde_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}
