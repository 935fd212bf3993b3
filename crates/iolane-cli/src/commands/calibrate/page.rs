//! A calibration as text: the numbers, how well they explain what was fitted and predict what was held out, and what was not used.

use std::path::Path;

use iolane_study::calibrate::{Calibrated, HeldOutFigure, NamedNumber, numbers, simulated_drive};
use iolane_study::format::{self, bytes_per_s, count, number, range, time};

use crate::output::{self, CellAlignment, printable, wrap};

/// The number of figures shown, of those that are explained worst.
const WORST: usize = 3;

pub(super) fn text(calibrated: &Calibrated, out: &Path) -> String {
    let machine = &calibrated.machine;
    let mut text = format!("{}\n\n", wrap(&format!("{}: {}", machine.name, machine_in_words(calibrated)), 2));
    text.push_str(&table_of_numbers(&numbers(machine)));
    text.push_str(&format!("\n{}\n", wrap(&explained(calibrated), 2)));
    text.push_str(&held_out(&calibrated.held_out));
    if !calibrated.not_used.is_empty() {
        let name = |arms: usize, path: &str| if arms == 1 { path.to_owned() } else { format!("{path} ({arms} arms)") };
        let names: Vec<String> = calibrated.not_used.iter().map(|of| name(of.arms, &of.path)).collect();
        let entries = names.iter().zip(&calibrated.not_used).map(|(name, of)| (name.as_str(), of.reason.as_str(), ""));
        text.push_str(&format!("\nNot used:\n{}", output::reasons(entries)));
    }
    if !calibrated.notes.is_empty() {
        text.push('\n');
    }
    for note in &calibrated.notes {
        text.push_str(&format!("{}\n", wrap(&format!("note: {note}"), 6)));
    }
    text.push_str(&format!("\nMachine: {}; iolane predict --machine {0}\n", printable(out)));
    text.push_str(&format!("Its drive, simulated:\n  --target {}\n", simulated_drive(machine)));
    text
}

fn machine_in_words(calibrated: &Calibrated) -> String {
    let machine = &calibrated.machine;
    let of = &machine.processor;
    let smt = if of.smt { " (hardware threads)" } else { "" };
    let nodes = if of.nodes > 1 { format!(" on {} NUMA nodes", of.nodes) } else { String::new() };
    let loads = machine.made_from.len();
    format!("{} cores{smt}{nodes}, fitted to {loads} {}", of.cores, if loads == 1 { "load" } else { "loads" })
}

fn table_of_numbers(numbers: &[NamedNumber]) -> String {
    let mut rows = Vec::new();
    for of_one in numbers.chunk_by(|a, b| a.of == b.of) {
        rows.push(vec![of_one[0].of.clone(), String::new(), String::new(), String::new()]);
        rows.extend(of_one.iter().map(row_of_number));
    }
    output::table(&["", "value", "95 %", ""], &rows, CellAlignment::Left)
}

fn row_of_number(of: &NamedNumber) -> Vec<String> {
    let show = |value: f64| in_units(of.name, value);
    let interval = match (of.low, of.high) {
        (Some(low), Some(high)) => range(&show(low), &show(high)),
        _ => String::new(),
    };
    let told = match (of.low, of.determined) {
        (None, _) => "given",
        (Some(_), true) => "",
        (Some(_), false) => "not determined by these results",
    };
    vec![format!("  {}", of.name), show(of.value), interval, told.to_owned()]
}

fn in_units(name: &str, value: f64) -> String {
    match name {
        "bytes_per_s" => bytes_per_s(value),
        "iops" => count(value),
        _ if name.ends_with("_ns") => time(value),
        _ => number(value),
    }
}

/// How far a value is from another, in percent, with its sign.
fn off(predicted: f64, observed: f64) -> String {
    format!("{:+.1} %", (predicted / observed - 1.0) * 100.0)
}

fn explained(calibrated: &Calibrated) -> String {
    let mut fitted: Vec<_> = calibrated.fitted.iter().collect();
    fitted.sort_by(|a, b| b.off().total_cmp(&a.off()));
    let Some(median) = fitted.get(fitted.len() / 2) else { return "Nothing was fitted.".into() };
    let worst = fitted.iter().take(WORST).map(|of| format!("{} ({})", of.what, off(of.predicted, of.observed)));
    format!(
        "Fit: the machine is off by {} % in the median of the {} figures that it was fitted to; most at {}.",
        number(median.off() * 100.0),
        fitted.len(),
        worst.collect::<Vec<_>>().join("; ")
    )
}

fn held_out(held_out: &[HeldOutFigure]) -> String {
    if held_out.is_empty() {
        let none = "Held out: nothing, so that the errors of predictions are not known. Measure three depths or more, such as \
                    --depth 1,16,64: then some are predicted and compared.";
        return format!("\n{}\n", wrap(none, 2));
    }
    let within = held_out.iter().filter(|of| of.is_within()).count();
    let show = |of: &HeldOutFigure, value: f64| if of.figure == "IOPS" { count(value) } else { time(value) };
    let row = |of: &HeldOutFigure| {
        let interval = format::range(&show(of, of.low), &show(of, of.high));
        let load = format!("{} {}", of.load, of.figure);
        vec![load, show(of, of.observed), show(of, of.predicted), interval, off(of.predicted, of.observed)]
    };
    let rows: Vec<Vec<String>> = held_out.iter().map(row).collect();
    let table = output::table(&["held out", "measured", "predicted", "95 %", "off"], &rows, CellAlignment::Right);
    format!("\n{table}\n{within} of {} measured values are within the interval of the prediction.\n", held_out.len())
}
