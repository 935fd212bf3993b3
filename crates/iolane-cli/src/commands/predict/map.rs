//! Which path is best over threads and cores, in one table for each load.

use iolane_study::predict::{LoadPredicted, Predicted};

use crate::output::{self, CellAlignment, wrap};

/// The maps; empty where there is but one combination of threads and cores.
pub(super) fn text(predicted: &Predicted) -> String {
    let mut text = String::new();
    let mut loads: Vec<String> = Vec::new();
    for load in predicted.loads.iter().map(LoadPredicted::load_in_words) {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    for load in loads {
        let cells: Vec<&LoadPredicted> = predicted.loads.iter().filter(|of| of.load_in_words() == load).collect();
        if cells.len() > 1 {
            text.push_str(&map(&load, &cells, predicted.goal.name()));
        }
    }
    text
}

fn map(load: &str, cells: &[&LoadPredicted], goal: &str) -> String {
    let in_order = |value: fn(&LoadPredicted) -> usize| {
        let mut all: Vec<usize> = cells.iter().map(|cell| value(cell)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (threads, cores) = (in_order(|cell| cell.threads), in_order(|cell| cell.cores));
    let mut winners: Vec<&str> = cells.iter().filter_map(|cell| cell.best.path.as_deref()).collect();
    winners.sort_unstable();
    winners.dedup();
    let names: Vec<&str> = {
        let all = cells.iter().flat_map(|cell| cell.best.no_difference().map(|other| other.path.as_str()));
        let mut all: Vec<&str> = all.filter(|path| !winners.contains(path)).collect();
        all.sort_unstable();
        all.dedup();
        winners.into_iter().chain(all).collect()
    };
    let letter = |path: &str| names.iter().position(|name| *name == path).map_or_else(|| "?".into(), letters);
    let cell = |threads: usize, cores: usize| {
        let Some(cell) = cells.iter().find(|cell| (cell.threads, cell.cores) == (threads, cores)) else {
            return String::new();
        };
        let Some(best) = &cell.best.path else { return "-".into() };
        let unclear: String = cell.best.no_difference().map(|other| format!("~{}", letter(&other.path))).collect();
        format!("{}{unclear}", letter(best))
    };
    let headings: Vec<String> = std::iter::once("  threads".to_owned())
        .chain(cores.iter().map(|cores| format!("{cores} {}", if *cores == 1 { "core" } else { "cores" })))
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = threads
        .iter()
        .map(|threads| {
            std::iter::once(format!("  {threads}")).chain(cores.iter().map(|cores| cell(*threads, *cores))).collect()
        })
        .collect();
    let legend: Vec<String> = names.iter().enumerate().map(|(at, name)| format!("{} {name}", letters(at))).collect();
    let legend = format!("  {}; ~: no difference shown beside it", legend.join("; "));
    format!(
        "\n{}\n{}{}\n",
        wrap(&format!("Best path for {goal}, {load}:"), 2),
        output::table(&headings, &rows, CellAlignment::Left),
        wrap(&legend, 2)
    )
}

/// A, B, ... Z, AA, AB, ...
fn letters(at: usize) -> String {
    let letter = char::from(b'A' + (at % 26) as u8);
    match at / 26 {
        0 => letter.into(),
        more => format!("{}{letter}", letters(more - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!([0, 1, 25, 26, 27].map(letters), ["A", "B", "Z", "AA", "AB"]);
    }
}
