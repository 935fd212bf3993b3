//! `report.html`: a study's results as one page that works without a network, the answer first and the proof after. Made
//! from a results folder; the command line writes it. Nothing is worked out here that study.json or the runs do not say.

mod chart_tables;
mod compare;
mod embedded;
mod load_tables;
mod repeat;
mod sections;
#[cfg(test)]
mod tests;

use askama::Template;
use iolane::{Error, Result};
use serde_json::Value;

use super::charts::{Chart, Charts, NotDrawn, Section};
use super::{Loaded, Skipped};
pub use compare::compare_page;
use load_tables::LoadDetail;
pub(super) use repeat::Repeat;
pub(super) use sections::facts;
use sections::{AnswerTable, Claims, Fact, Figure};

/// The page, in a study's folder.
pub const PAGE_FILE: &str = "report.html";

/// What every page has, whatever it shows: its style, its scripts, the charts they draw, and the rule that lets nothing
/// else happen.
struct Shell {
    policy: String,
    style: &'static str,
    /// Apache ECharts, with what these pages need of it; `cargo xtask assets` makes it.
    chart_library: &'static str,
    script: &'static str,
    /// The charts as JSON.
    charts: String,
}

impl Shell {
    fn new(charts: &[Chart]) -> Self {
        let style = include_str!("../../../assets/report.css");
        let script = include_str!("../../../assets/report.js");
        let chart_library = include_str!("../../../assets/echarts.min.js");
        let policy = embedded::policy(&[chart_library, script], style);
        Self { policy, style, chart_library, script, charts: embedded::data(charts) }
    }
}

/// What the template shows.
#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    shell: Shell,
    name: String,
    title: String,
    source: String,
    facts: Vec<Fact>,
    warnings: Vec<String>,
    answers: AnswerTable,
    claims: Claims,
    published_on: String,
    figures: Vec<Figure>,
    figures_not_drawn: Vec<NotDrawn>,
    loads: Vec<LoadDetail>,
    skipped: Vec<Skipped>,
    not_counted: Vec<NotDrawn>,
    host: Vec<Fact>,
    repeat: Repeat,
}

/// The page of a study's results.
///
/// # Errors
/// `Failed` if the page cannot be put together, which no results should bring about.
pub fn page(loaded: &Loaded) -> Result<String> {
    let Charts { charts, not_drawn } = Charts::new(loaded);
    let (figures_not_drawn, not_counted) =
        not_drawn.into_iter().partition(|missing| missing.section == Section::Figures);
    let json = &loaded.json;
    let page = Page {
        shell: Shell::new(&charts),
        name: loaded.document.name.clone(),
        title: loaded.document.title.clone(),
        source: text(json, "source"),
        published_on: text(json, "published_on"),
        facts: sections::facts(loaded),
        warnings: loaded.warnings(),
        answers: AnswerTable::new(loaded),
        claims: Claims::new(&json["claims"]),
        figures: sections::of_section(&charts, Section::Figures),
        figures_not_drawn,
        loads: load_tables::details(loaded, &charts),
        skipped: loaded.document.skipped.clone(),
        not_counted,
        host: sections::host(json),
        repeat: Repeat::new(loaded),
    };
    page.render().map_err(|error| Error::failed(PAGE_FILE, error.to_string()))
}

/// Where a study's figures are from, in a line: study, machine, day, repeats, version.
pub fn provenance(loaded: &Loaded) -> String {
    let version = text(&loaded.json["host"], "iolane_version");
    let facts = sections::facts(loaded).into_iter().map(|fact| fact.value);
    let study = format!("iolane {version} study {}", loaded.document.name);
    [study].into_iter().chain(facts).collect::<Vec<_>>().join(" · ")
}

/// A value of study.json that is text; empty if it is not there.
fn text(json: &Value, key: &str) -> String {
    json[key].as_str().unwrap_or_default().into()
}
