//! The page of a comparison: what changed between results folders, first in sentences, then in charts and tables.
//! `iolane compare --html` writes it. `iolane_study::compare` decides what is faster; nothing is computed here.

use askama::Template;
use iolane::{Error, Result};

use super::chart_figure::{ChartFigure, of_section};
use super::html_table::HtmlTable;
use super::loads::LoadDetail;
use super::shell::Shell;
use crate::charts::{ChartSection, compared};
use crate::facts::{Fact, facts};
use iolane_study::compare::{ArmComparison, Cell, ClaimComparison, Compares, Comparison, Ratio};
use iolane_study::format::{count, number, range};
use iolane_study::results::Loaded;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    shell: Shell,
    title: String,
    folders: Vec<Fact>,
    sentences: Vec<String>,
    verdicts: String,
    warnings: Vec<String>,
    differences: HtmlTable,
    figures: Vec<ChartFigure>,
    loads: Vec<LoadDetail>,
    missing: HtmlTable,
    claims: HtmlTable,
}

/// The page of a comparison of these results.
///
/// # Errors
/// `Failed` if the template cannot be rendered, which no results cause.
pub fn compare_page(loaded: &[Loaded], comparison: &Comparison) -> Result<String> {
    let labels: Vec<&str> = comparison.folders.iter().map(|folder| folder.label.as_str()).collect();
    let charts = match comparison.compares {
        Compares::Iops => compared(loaded, &labels),
        // The rates that were tried are no arms to be compared.
        Compares::HighestRate => Vec::new(),
    };
    let of_load = |arms: &[ArmComparison]| {
        let words = arms[0].arm.load_in_words();
        let here = charts.iter().filter(|chart| chart.section != ChartSection::Figures && chart.group == words);
        let figures = here.map(ChartFigure::new).collect();
        (words, figures, arms_table(arms, comparison.compares, &labels))
    };
    let loads = comparison.arms.chunk_by(|a, b| a.arm.load_in_words() == b.arm.load_in_words()).map(of_load);
    let changed = comparison.claims.iter().filter(|claim| claim.changed).count();
    let page = ComparePage {
        shell: Shell::new(&charts),
        title: format!("{} compared with {}", labels[1..].join(", "), labels[0]),
        folders: loaded.iter().zip(&labels).map(|(loaded, label)| folder(loaded, label)).collect(),
        sentences: comparison.folders.iter().filter_map(|folder| folder.summary.clone()).collect(),
        verdicts: match comparison.claims.len() {
            0 => String::new(),
            claims => format!("The verdicts of {changed} of {claims} published claims differ."),
        },
        warnings: comparison.warnings.clone(),
        differences: differences(comparison, &labels),
        figures: of_section(&charts, ChartSection::Figures),
        loads: loads
            .enumerate()
            .map(|(index, (words, figures, arms))| LoadDetail {
                words,
                id: format!("load-{}", index + 1),
                arms,
                figures,
                is_open: true,
            })
            .collect(),
        missing: missing(comparison),
        claims: claims(comparison, &labels),
    };
    page.render().map_err(|error| Error::failed("the page of a comparison", error.to_string()))
}

/// A folder in a line: its study and where that ran.
fn folder(loaded: &Loaded, label: &str) -> Fact {
    let facts = facts(loaded).into_iter().map(|fact| fact.value);
    let study = format!("study {}", loaded.document.name);
    Fact { label: label.into(), value: [study].into_iter().chain(facts).collect::<Vec<_>>().join("; ") }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn differences(comparison: &Comparison, labels: &[&str]) -> HtmlTable {
    let row = |difference: &iolane_study::compare::Difference| {
        [difference.what.to_string()].into_iter().chain(difference.values.iter().cloned()).collect()
    };
    HtmlTable {
        headings: texts(&[&["property"], labels].concat()),
        rows: comparison.differences.iter().map(row).collect(),
    }
}

/// A row for each arm: its figures in the first folder, then those of each other folder with their ratios to the first.
fn arms_table(arms: &[ArmComparison], compares: Compares, labels: &[&str]) -> HtmlTable {
    let mut headings = texts(&["path", "depth"]);
    for (index, label) in labels.iter().enumerate() {
        headings.push(format!("{label}: {}", compares.in_words()));
        if index > 0 {
            headings.extend(["ratio", "p99 ratio"].map(|what| format!("{label}: {what}")));
        }
    }
    let iops = |cell: &Cell| count(cell.iops);
    let row = |arm: &ArmComparison| {
        let mut row = vec![arm.arm.label(), arm.arm.workload.depth.to_string()];
        for (index, cell) in arm.folders.iter().enumerate() {
            let cell = cell.as_ref();
            row.push(cell.map_or("not measured".into(), iops));
            if index > 0 {
                row.push(times(cell.and_then(|cell| cell.iops_ratio)));
                row.push(times(cell.and_then(|cell| cell.p99_ratio)));
            }
        }
        row
    };
    HtmlTable { headings, rows: arms.iter().map(row).collect() }
}

fn times(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return "–".into() };
    let Ratio { estimate, shown, .. } = ratio;
    if ratio.is_of_few() {
        return format!("({}x, too few repeats)", number(estimate.value));
    }
    let sign = if shown { "" } else { "~" };
    let ends = range(&number(estimate.low), &number(estimate.high));
    format!("{sign}{}x ({ends})", number(estimate.value))
}

fn missing(comparison: &Comparison) -> HtmlTable {
    let row = |missing: &iolane_study::compare::Missing| {
        let what = if missing.arms == 1 { missing.which.clone() } else { missing.arms.to_string() };
        vec![missing.path.clone(), missing.folder.clone(), what, missing.reason.clone(), missing.remedy.clone()]
    };
    HtmlTable {
        headings: texts(&["path", "folder", "arms", "reason", "remedy"]),
        rows: comparison.not_compared.iter().map(row).collect(),
    }
}

fn claims(comparison: &Comparison, labels: &[&str]) -> HtmlTable {
    let mut claims: Vec<&ClaimComparison> = comparison.claims.iter().collect();
    claims.sort_by_key(|claim| !claim.changed);
    let row = |claim: &&ClaimComparison| {
        let verdicts = claim.verdicts.iter().map(|verdict| verdict.map_or("–".into(), |verdict| verdict.to_string()));
        let differs = if claim.changed { "yes" } else { "no" };
        let begin = [claim.id.clone(), claim.says.clone()];
        begin.into_iter().chain(verdicts).chain([differs.to_owned()]).collect()
    };
    HtmlTable {
        headings: texts(&[&["claim", "statement"], labels, &["differs"]].concat()),
        rows: claims.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_study::plan::Scale;
    use iolane_study::results::fixtures::built_in_study;

    #[test]
    fn a_comparison_says_what_changed_and_draws_both_folders() {
        let before = built_in_study("ijraset24", Scale::Scaled);
        let mut after = before.clone();
        (after.folder, after.rows) = ("results/<b>after".into(), after.rows);
        after.rows.iter_mut().for_each(|row| row.ios *= 2);
        let loaded = [before, after];
        let comparison = Comparison::new(&loaded).unwrap();
        let page = compare_page(&loaded, &comparison).unwrap();
        assert!(page.contains("2x (") && page.contains("faster"), "ratios stand in it");
        assert!(page.contains("&#60;b&#62;after") && !page.contains("<b>after"), "names are text");
        for id in ["id=\"figures\"", "id=\"claims\"", "data-chart=\"figure-1\"", "id=\"load-1\""] {
            assert!(page.contains(id), "no {id}");
        }
    }
}
