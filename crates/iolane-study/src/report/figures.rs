//! The figures of a study as points: what a chart draws and a table lists.

use serde::Serialize;

use crate::plan::{Arm, Factor, Figure, Metric, PublishedPoint};
use crate::records::{ArmResults, Results};
use crate::stats::{Estimate, estimate_median};

/// A figure's points.
#[derive(Debug, Clone, Serialize)]
pub struct FigureReport {
    /// Its number where it was published.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What lies along it.
    pub x: Factor,
    /// What it shows.
    pub y: Metric,
    /// A line for each path.
    pub series: Vec<Series>,
}

/// One line of a figure.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// The path, as the study calls it.
    pub name: String,
    /// Its points, along the factor.
    pub points: Vec<Point>,
    /// Points that the publication gives.
    pub published: Vec<PublishedPoint>,
}

/// One point of a figure.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Where along the factor: a number, or its place among the paths.
    pub x: f64,
    /// The factor's value as it is written.
    pub at: String,
    /// The median of the repeats with its interval; `None` if it could not be had.
    pub y: Option<Estimate>,
}

impl FigureReport {
    /// The points that the results have for a figure.
    pub fn new(figure: &Figure, results: &Results) -> Self {
        let chosen = figure.select.of(&results.arms, |results| &results.arm);
        let mut names: Vec<String> = Vec::new();
        for results in &chosen {
            let name = results.arm.label();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let place = |arm: &Arm| match arm.number(figure.x) {
            Some(number) => number as f64,
            None => names.iter().position(|name| *name == arm.label()).unwrap_or(0) as f64,
        };
        let point = |results: &ArmResults| Point {
            x: place(&results.arm),
            at: results.arm.shown(figure.x),
            y: results.values(figure.y).map(|values| estimate_median(&values)),
        };
        let series = |name: &String| {
            let mut points: Vec<Point> =
                chosen.iter().filter(|results| results.arm.label() == *name).map(|results| point(results)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let published = figure.published.iter().filter(|point| point.path == *name).cloned().collect();
            Series { name: name.clone(), points, published }
        };
        Self {
            id: figure.id.clone(),
            title: figure.title.clone(),
            x: figure.x,
            y: figure.y,
            series: names.iter().map(series).collect(),
        }
    }
}
