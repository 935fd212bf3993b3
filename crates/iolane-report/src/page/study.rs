//! `report.html`: a study's results as one page, the answer first and the evidence after. The command line writes it.

use askama::Template;
use iolane::{Error, Result};
use iolane_study::results::{Loaded, Skipped};

use super::answers::AnswerTable;
use super::chart_figure::{ChartFigure, of_section};
use super::claims::ClaimTable;
use super::loads::{self, LoadDetail};
use super::shell::Shell;
use crate::charts::{ChartSection, Charts, NotDrawn};
use crate::facts::{Fact, facts, host};
use crate::rerun::Rerun;

/// The page's file in a study's folder.
pub const PAGE_FILE: &str = "report.html";

#[derive(Template)]
#[template(path = "report.html")]
struct StudyPage {
    shell: Shell,
    name: String,
    title: String,
    source: String,
    facts: Vec<Fact>,
    warnings: Vec<String>,
    answers: AnswerTable,
    claims: ClaimTable,
    published_on: String,
    figures: Vec<ChartFigure>,
    figures_not_drawn: Vec<NotDrawn>,
    loads_heading: &'static str,
    about_loads: &'static str,
    loads: Vec<LoadDetail>,
    skipped: Vec<Skipped>,
    not_counted: Vec<NotDrawn>,
    host: Vec<Fact>,
    rerun: Rerun,
}

/// The page of a study's results.
///
/// # Errors
/// `Failed` if the template cannot be rendered, which no results cause.
pub fn page(loaded: &Loaded) -> Result<String> {
    let Charts { charts, not_drawn } = Charts::new(loaded);
    let (figures_not_drawn, not_counted) =
        not_drawn.into_iter().partition(|missing| missing.section == ChartSection::Figures);
    let document = &loaded.document;
    let (loads_heading, about_loads) = loads::heading(document.rate_until.is_some());
    let page = StudyPage {
        shell: Shell::new(&charts),
        name: document.name.clone(),
        title: document.title.clone(),
        source: document.source.clone(),
        published_on: document.published_on.clone(),
        facts: facts(loaded),
        warnings: loaded.warnings(),
        answers: AnswerTable::new(loaded),
        claims: ClaimTable::new(&document.claims),
        figures: of_section(&charts, ChartSection::Figures),
        figures_not_drawn,
        loads_heading,
        about_loads,
        loads: loads::details(loaded, &charts),
        skipped: document.skipped.clone(),
        not_counted,
        host: host(&loaded.document.host),
        rerun: Rerun::new(loaded),
    };
    page.render().map_err(|error| Error::failed(PAGE_FILE, error.to_string()))
}
