//! Predictions as text: the machine and its errors, a table for each load, which path is best, and what is left out.

use iolane_model::{HeldOut, Published};
use iolane_study::format::{count, number, short_range, time};
use iolane_study::predict::{Interval, LoadPredicted, PathPredicted, Predicted};

use super::map;
use crate::output::{self, CellAlignment, wrap};

pub(super) fn text(predicted: &Predicted, machine: &str) -> String {
    let sentences = sentences(predicted, machine);
    let mut text: String = sentences.iter().map(|sentence| format!("{}\n", wrap(sentence, 2))).collect();
    let legend = "p99: without the tail of a drive, which is not fitted. Below each value: the interval that contains 95 % of the draws of what is not known of the machine. ~: no difference \
                  shown (the interval of the ratio includes 1).";
    text.push_str(&format!("{}\n", wrap(legend, 0)));
    for load in &predicted.loads {
        text.push_str(&format!("\n{}\n", wrap(&in_words(load), 2)));
        text.push_str(&table(load));
        for of in &load.not_played {
            text.push_str(&format!("{}\n", wrap(&format!("  not predicted: {}: {}", of.path, of.reason), 4)));
        }
        text.push_str(&format!("{}\n", wrap(&best(load, predicted), 4)));
    }
    text.push_str(&map::text(predicted));
    text.push_str("\nLeft out of the model:\n");
    for sentence in &predicted.left_out {
        text.push_str(&format!("{}\n", wrap(&format!("  {sentence}"), 4)));
    }
    text
}

/// What machine it is, and how far it is off.
pub(super) fn sentences(predicted: &Predicted, machine: &str) -> Vec<String> {
    vec![machine_in_words(predicted, machine), errors(&predicted.held_out, machine)]
}

fn machine_in_words(predicted: &Predicted, machine: &str) -> String {
    let of = &predicted.machine;
    let smt = if of.smt { " (hardware threads)" } else { "" };
    let nodes = if of.nodes > 1 { format!(" on {} NUMA nodes", of.nodes) } else { String::new() };
    let larger = match of.predicted_cores > of.cores {
        true => format!("; predicted with {}", of.predicted_cores),
        false => String::new(),
    };
    format!(
        "Prediction by a model, from {machine}: {}; {} cores{smt}{nodes}, fitted to {} loads{larger}",
        of.name,
        of.cores,
        of.made_from.len()
    )
}

/// How far the machine was from what its fit did not see.
fn errors(held_out: &[HeldOut], machine: &str) -> String {
    let mut sorted: Vec<&HeldOut> = held_out.iter().collect();
    sorted.sort_by(|a, b| a.off().total_cmp(&b.off()));
    let percent = |of: &HeldOut| number(of.off() * 100.0);
    match (sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(median), Some(worst)) => format!(
            "Errors: off by {} % in the median of {} figures that the fit did not see, {} % at most ({})",
            percent(median),
            sorted.len(),
            percent(worst),
            worst.what
        ),
        _ if Published::named(machine).is_some() => "Errors: not known as numbers. What the publication states of more threads and drives \
             are bounds; docs/model.md has the predictions beside them."
            .to_owned(),
        _ => "Errors: not known, because no measurement was left out of the fit. Calibrate with results of three depths or more."
            .to_owned(),
    }
}

fn in_words(load: &LoadPredicted) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let threads = plural(load.threads, "thread");
    let (drives, cores) = (plural(load.drives, "drive"), plural(load.cores, "core"));
    format!("{}: {threads} on {drives}, {cores}", load.load_in_words())
}

/// Two lines for each path: values, and their intervals; a third one where the same load was measured.
fn table(load: &LoadPredicted) -> String {
    if load.paths.is_empty() {
        return String::new();
    }
    let has_watts = load.paths.iter().any(|path| path.watts.is_some());
    let mut headings = vec!["  path", "IOPS", "MB/s", "p50", "p99", "cores", "calls"];
    if has_watts {
        headings.push("watts");
    }
    let rows: Vec<Vec<String>> = load.paths.iter().flat_map(|path| rows(path, has_watts)).collect();
    output::table(&headings, &rows, CellAlignment::Right)
}

/// An interval, and how it is shown.
type Cell<'a> = (Option<Interval>, &'a dyn Fn(f64) -> String);

fn rows(path: &PathPredicted, has_watts: bool) -> Vec<Vec<String>> {
    let megabytes = |value: f64| number(value / 1e6);
    let mut cells: Vec<Cell<'_>> = vec![
        (Some(path.iops), &count),
        (Some(path.bytes_per_s), &megabytes),
        (path.p50_ns, &time),
        (path.p99_ns, &time),
        (Some(path.cores), &number),
        (path.calls_per_io, &number),
    ];
    if has_watts {
        cells.push((path.watts, &number));
    }
    let value = |(cell, show): &Cell<'_>| cell.map_or("-".into(), |of| show(of.value));
    let interval = |(cell, show): &Cell<'_>| cell.map_or_else(String::new, |of| short(&show(of.low), &show(of.high)));
    let row = |name: String, cells: Vec<String>| std::iter::once(name).chain(cells).collect::<Vec<String>>();
    let mut rows = vec![
        row(format!("  {}", path.path), cells.iter().map(value).collect()),
        row(String::new(), cells.iter().map(interval).collect()),
    ];
    if let Some(measured) = path.measured {
        let show = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or_else(String::new, show);
        let mut cells = vec![
            show(measured.iops, &count),
            String::new(),
            show(measured.p50_ns, &time),
            show(measured.p99_ns, &time),
            show(measured.cores(), &number),
        ];
        cells.resize(5 + 1 + usize::from(has_watts), String::new());
        rows.push(row("    measured".into(), cells));
    }
    rows
}

/// An interval; none where it has no width.
fn short(low: &str, high: &str) -> String {
    if low == high { String::new() } else { short_range(low, high) }
}

fn best(load: &LoadPredicted, predicted: &Predicted) -> String {
    let Some(best) = &load.best.path else {
        return "  best: none; no request completes on any path in the time that was played".into();
    };
    let others = load.best.others.iter().map(|other| match (other.ratio, other.shown) {
        (Some(ratio), true) => {
            format!("{}x {} ({} to {})", number(ratio.value), other.path, number(ratio.low), number(ratio.high))
        }
        (Some(ratio), false) => {
            format!("~{}x {} ({} to {})", number(ratio.value), other.path, number(ratio.low), number(ratio.high))
        }
        (None, _) => format!("{}: hardly a request completes", other.path),
    });
    let others: Vec<String> = others.collect();
    let goal = format!("for {} ({})", predicted.goal.name(), predicted.decided_by);
    match &others[..] {
        [] => format!("  {goal}: {best}, the only path"),
        _ => {
            let unclear: Vec<&str> = load.best.no_difference().map(|other| other.path.as_str()).collect();
            let unclear = match &unclear[..] {
                [] => String::new(),
                unclear => format!("; no difference shown beside {}", unclear.join("; ")),
            };
            format!("  {goal}: {best}{unclear}. Times better than the others: {}", others.join("; "))
        }
    }
}
