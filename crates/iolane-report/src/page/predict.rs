//! The page of a prediction: the machine and its errors, charts over threads, depth or cores, which path is best, and what is left
//! out. `iolane predict --page` writes it; `iolane_study::predict` decides which path is best.

use askama::Template;
use iolane::{Error, Result};
use iolane_study::format::number;
use iolane_study::predict::{LoadPredicted, Predicted};

use super::chart_figure::ChartFigure;
use super::html_table::HtmlTable;
use super::shell::Shell;
use crate::charts::predicted as charts_of;

#[derive(Template)]
#[template(path = "predict.html")]
struct PredictPage {
    shell: Shell,
    title: String,
    /// The machine and how far it is off, in sentences.
    sentences: Vec<String>,
    figures: Vec<ChartFigure>,
    best: HtmlTable,
    held_out: HtmlTable,
    left_out: Vec<&'static str>,
}

/// The page of a prediction. `sentences` say what machine it is and how far it is off.
///
/// # Errors
/// `Failed` if the template cannot be rendered, which no prediction causes.
pub fn predict_page(predicted: &Predicted, sentences: Vec<String>) -> Result<String> {
    let charts = charts_of(predicted);
    let page = PredictPage {
        shell: Shell::new(&charts),
        title: format!("Prediction for {}", predicted.machine.name),
        sentences,
        figures: charts.iter().map(ChartFigure::new).collect(),
        best: best(predicted),
        held_out: held_out(predicted),
        left_out: predicted.left_out.clone(),
    };
    page.render().map_err(|error| Error::failed("the page of a prediction", error.to_string()))
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn best(predicted: &Predicted) -> HtmlTable {
    let row = |load: &LoadPredicted| {
        let others: Vec<&str> = load.best.no_difference().map(|other| other.path.as_str()).collect();
        vec![
            load.load_in_words(),
            load.threads.to_string(),
            load.drives.to_string(),
            load.cores.to_string(),
            load.best.path.clone().unwrap_or_else(|| "none: no request completes".into()),
            others.join("; "),
        ]
    };
    HtmlTable {
        headings: texts(&["load", "threads", "drives", "cores", "best path", "no difference shown beside"]),
        rows: predicted.loads.iter().map(row).collect(),
    }
}

fn held_out(predicted: &Predicted) -> HtmlTable {
    let row = |of: &iolane_study::predict::HeldOut| {
        let off = format!("{:+.1} %", (of.predicted / of.observed - 1.0) * 100.0);
        vec![of.what.clone(), number(of.observed), number(of.predicted), off]
    };
    HtmlTable {
        headings: texts(&["figure (times in ns)", "measured", "predicted", "off"]),
        rows: predicted.held_out.iter().map(row).collect(),
    }
}
