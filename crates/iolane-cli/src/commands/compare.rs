//! `iolane compare`: the results of several folders compared, as text, as a page or as JSON. The library decides which is
//! faster.

use std::ffi::OsString;

use iolane::Error;
use iolane_study::claims::Verdict;
use iolane_study::compare::{ArmComparison, Cell, ClaimComparison, Comparison, Difference, Gate, Loss, Ratio};
use iolane_study::files;
use iolane_study::format::{self, count};
use iolane_study::results;

use super::report_page::kept;
use crate::arguments::CompareArguments;
use crate::outcome::Outcome;
use crate::output::{self, CellAlignment, Destination, Outputs, printable, warn, wrap};

pub(crate) fn compare(arguments: CompareArguments) -> anyhow::Result<Outcome> {
    let CompareArguments { folders, max_loss, strict, html, json } = arguments;
    let page = match html {
        None => None,
        Some(Destination::File(file)) => Some(file),
        Some(Destination::StandardOutput) => {
            let cause = "the comparison itself goes to standard output";
            return Err(Error::usage("--html -", cause).remedy("name a file").into());
        }
    };
    let loaded = folders.iter().map(|folder| results::load(folder)).collect::<Result<Vec<_>, _>>()?;
    let never_replaced: Vec<OsString> = loaded.iter().flat_map(kept).collect();
    let outputs = Outputs::checked(json, &never_replaced)?;
    let mut comparison = Comparison::new(&loaded)?;
    if let Some(file) = &page {
        files::check_writable(file, &never_replaced)?;
        files::write(file, iolane_report::compare_page(&loaded, &comparison)?.as_bytes())?;
    }
    let judged = max_loss.map_or(Ok(()), |share| comparison.judge(share, strict));
    show(&comparison, &outputs)?;
    if let Some(file) = &page {
        outputs.text(&format!("\nPage: {}\n", printable(file)))?;
    }
    judged.map_err(|why| {
        Error::failed("--max-loss", format!("no loss could be seen: {why}"))
            .remedy("compare results of one study with 3 repeats or more")
    })?;
    comparison.gate.as_ref().map_or(Ok(Outcome::Done), |gate| show_gate(gate, &outputs))
}

fn show_gate(gate: &Gate, outputs: &Outputs) -> anyhow::Result<Outcome> {
    let Gate { losses, lost, undecided, compared, .. } = gate;
    outputs.text(&format!(
        "\nGate: {compared} arms compared, {lost} with a loss that is not allowed, {undecided} too noisy to exclude one.\n"
    ))?;
    for Loss { folder, arm, figure, ratio } in losses {
        let ends = format!("95 %: {:.2} to {:.2}", ratio.low, ratio.high);
        let lost = format!("{folder}: the {figure} of {arm} is {:.2}x that of the first ({ends})", ratio.value);
        warn(&lost.replace(char::is_control, "?"));
    }
    Ok(Outcome::failed_if(!gate.passed))
}

/// Prints a comparison, and writes it as JSON if that was asked for. `iolane lab matrix` ends with it.
pub(super) fn show(comparison: &Comparison, outputs: &Outputs) -> anyhow::Result<()> {
    outputs.text(&text(comparison))?;
    outputs.document(comparison)
}

fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for folder in &comparison.folders {
        let (arms, repeats) = (folder.arms, folder.repeats);
        let runtime = format::time(folder.runtime_s * 1e9);
        let results = format!("{}: {}, {arms} arms, {repeats} repeats of {runtime}", folder.folder, folder.name);
        text.push_str(&format!("{}\n", wrap(&results, 2)));
    }
    text.push('\n');
    for summary in comparison.folders.iter().filter_map(|folder| folder.summary.as_ref()) {
        text.push_str(&format!("{}\n", wrap(summary, 2)));
    }
    text.push_str(&format!("\n{}\n", differences(comparison)));
    for arms in comparison.arms.chunk_by(|a, b| a.arm.load_in_words() == b.arm.load_in_words()) {
        let table = arms_of_a_load(comparison, arms);
        if !table.is_empty() {
            text.push_str(&format!("{table}\n"));
        }
    }
    text.push_str(&format!("{}\n", wrap(&legend(comparison), 0)));
    text.push_str(&not_compared(comparison));
    text.push_str(&claims(comparison));
    for warning in &comparison.warnings {
        text.push_str(&format!("\n{}\n", wrap(&format!("note: {warning}"), 6)));
    }
    text
}

fn labels(comparison: &Comparison) -> Vec<&str> {
    comparison.folders.iter().map(|folder| folder.label.as_str()).collect()
}

fn differences(comparison: &Comparison) -> String {
    if comparison.differences.is_empty() {
        return "Machines and settings: no difference.\n".into();
    }
    let headings = [&["what differs"], &labels(comparison)[..]].concat();
    let row = |difference: &Difference| [&[difference.what.into()], &difference.values[..]].concat();
    let rows: Vec<Vec<String>> = comparison.differences.iter().map(row).collect();
    output::table(&headings, &rows, CellAlignment::Left)
}

/// Arms that differ only in path and depth: two folders in detail, more of them in a column each.
fn arms_of_a_load(comparison: &Comparison, arms: &[ArmComparison]) -> String {
    let load = arms[0].arm.load_in_words();
    let name = |arm: &ArmComparison| format!("{} depth {}", arm.arm.label(), arm.arm.workload.depth);
    match comparison.folders.len() {
        2 => {
            let figure = comparison.compares.in_words();
            let iops: Vec<String> = labels(comparison).iter().map(|label| format!("{label} {figure}")).collect();
            let headings = [load.as_str(), &iops[0], &iops[1], "ratio", "95 %", "p99 ratio", "95 %"];
            let compared = arms.iter().filter_map(|arm| match &arm.folders[..] {
                [Some(first), Some(second)] => Some([vec![name(arm)], detail(first, second)].concat()),
                _ => None,
            });
            let rows: Vec<Vec<String>> = compared.collect();
            if rows.is_empty() { String::new() } else { output::table(&headings, &rows, CellAlignment::Right) }
        }
        _ => {
            let headings = [&[load.as_str()], &labels(comparison)[..]].concat();
            let row = |arm: &ArmComparison| [vec![name(arm)], arm.folders.iter().map(short).collect()].concat();
            output::table(&headings, &arms.iter().map(row).collect::<Vec<_>>(), CellAlignment::Right)
        }
    }
}

fn detail(first: &Cell, second: &Cell) -> Vec<String> {
    let interval = |ratio: Option<Ratio>| match ratio {
        Some(ratio) if ratio.is_of_few() => "-".into(),
        Some(Ratio { estimate, .. }) => format!("{:.2}-{:.2}", estimate.low, estimate.high),
        None => "-".into(),
    };
    vec![
        count(first.iops),
        count(second.iops),
        times(second.iops_ratio),
        interval(second.iops_ratio),
        times(second.p99_ratio),
        interval(second.p99_ratio),
    ]
}

fn times(ratio: Option<Ratio>) -> String {
    match ratio {
        Some(ratio) if ratio.is_of_few() => format!("({:.2}x)", ratio.estimate.value),
        Some(Ratio { estimate, shown: true, .. }) => format!("{:.2}x", estimate.value),
        Some(Ratio { estimate, .. }) => format!("~{:.2}x", estimate.value),
        None => "-".into(),
    }
}

/// The ratio to the first folder; IOPS in that folder, and where it lacks the arm.
fn short(cell: &Option<Cell>) -> String {
    match cell {
        None => "-".into(),
        Some(Cell { iops_ratio: None, iops, .. }) => count(*iops),
        Some(Cell { iops_ratio, .. }) => times(*iops_ratio),
    }
}

fn legend(comparison: &Comparison) -> String {
    let first = &comparison.folders[0].label;
    let ratios = comparison.arms.iter().flat_map(|arm| &arm.folders).flatten().filter_map(|cell| cell.iops_ratio);
    let few = match ratios.into_iter().any(Ratio::is_of_few) {
        true => "; in brackets: too few repeats to show a difference",
        false => "",
    };
    let unclear = format!("~: no significant difference (the 95 % interval includes 1){few}");
    match &comparison.folders[..] {
        [_, second] => format!("ratio: median of {} to median of {first}; {unclear}", second.label),
        _ => {
            let figure = comparison.compares.in_words();
            format!("with x: ratio of {figure} to {first}; without: {figure}; -: not measured; {unclear}")
        }
    }
}

fn not_compared(comparison: &Comparison) -> String {
    if comparison.not_compared.is_empty() {
        return String::new();
    }
    let arms: usize = comparison.arms.iter().filter(|arm| arm.folders.iter().any(Option::is_none)).count();
    let (mut names, mut reasons) = (Vec::new(), Vec::new());
    for missing in &comparison.not_compared {
        names.push(match missing.arms {
            1 => missing.which.clone(),
            arms => format!("{} ({arms} arms)", missing.path),
        });
        reasons.push(format!("not in {}: {}", missing.folder, missing.reason));
    }
    let entries = names.iter().zip(&reasons).zip(&comparison.not_compared);
    let entries = entries.map(|((name, reason), missing)| (name.as_str(), reason.as_str(), missing.remedy.as_str()));
    format!("\nNot in every folder ({arms} arms):\n{}", output::reasons(entries))
}

fn claims(comparison: &Comparison) -> String {
    if comparison.claims.is_empty() {
        return String::new();
    }
    let changed: Vec<&str> =
        comparison.claims.iter().filter(|claim| claim.changed).map(|claim| claim.id.as_str()).collect();
    let headline = match &changed[..] {
        [] => "Claims: all verdicts agree.".into(),
        some => {
            format!("Claims: verdicts differ on {} of {}: {}.", some.len(), comparison.claims.len(), some.join(", "))
        }
    };
    let headings = [&["claim"], &labels(comparison)[..], &["statement"]].concat();
    let verdict = |verdict: &Option<Verdict>| verdict.map_or_else(|| "-".into(), |verdict| verdict.to_string());
    let row = |claim: &ClaimComparison| {
        [vec![claim.id.clone()], claim.verdicts.iter().map(verdict).collect(), vec![claim.says.clone()]].concat()
    };
    let rows: Vec<Vec<String>> = comparison.claims.iter().map(row).collect();
    format!("\n{}\n{}", wrap(&headline, 0), output::table(&headings, &rows, CellAlignment::Left))
}
