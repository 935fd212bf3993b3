//! The figures of a study as points: what a chart draws and a table lists.

use serde::{Deserialize, Serialize};

use crate::energy::Source;
use crate::plan::{Arm, AxisScale, Factor, Figure, Metric, PublishedPoint};
use crate::records::{ArmResults, Results};
use crate::stats::{Estimate, estimate_median};

/// A figure's points.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FigureReport {
    /// Its number where it was published.
    pub id: String,
    /// What it shows, and whether joules of it were made up by a model here.
    pub title: String,
    /// What lies along it.
    pub x: Factor,
    /// What it shows.
    pub y: Metric,
    /// What lies along it in place of the factor, where it shows one metric against another.
    #[serde(default)]
    pub against: Option<Metric>,
    /// How values are spaced along it.
    #[serde(default)]
    pub x_scale: AxisScale,
    /// How they are spaced upwards.
    #[serde(default)]
    pub y_scale: AxisScale,
    /// A line for each path that was measured, or that points were published of.
    pub series: Vec<Series>,
}

/// One line of a figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// The path, as the study calls it.
    pub name: String,
    /// The path in iolane's notation; `None` where nothing tells it.
    #[serde(default)]
    pub path: Option<String>,
    /// Its points, along the factor; none for a path that was not measured.
    pub points: Vec<Point>,
    /// Points that the publication gives.
    pub published: Vec<PublishedPoint>,
}

/// One point of a figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    /// Where along the factor: a number, or its place among the paths.
    pub x: f64,
    /// The factor's value as it is written.
    pub at: String,
    /// The median of the repeats with its interval; `None` if it could not be had.
    pub y: Option<Estimate>,
    /// The same of the metric it is shown against; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Estimate>,
}

impl FigureReport {
    /// The points that the results have for a figure.
    pub fn new(figure: &Figure, results: &Results) -> Self {
        let chosen = figure.select.of(&results.arms, |results| &results.arm);
        let mut names: Vec<String> = Vec::new();
        let published = figure.published.iter().map(|point| &point.path);
        for name in chosen.iter().map(|results| results.arm.label()).chain(published.cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let place = |arm: &Arm| match arm.number(figure.x) {
            Some(number) => number as f64,
            None => names.iter().position(|name| *name == arm.label()).unwrap_or(0) as f64,
        };
        let estimate = |results: &ArmResults, metric| results.values(metric).map(|values| estimate_median(&values));
        let point = |results: &ArmResults| Point {
            x: place(&results.arm),
            at: results.arm.shown(figure.x),
            y: estimate(results, figure.y),
            against: figure.against.and_then(|metric| estimate(results, metric)),
        };
        let arms = || results.arms.iter().map(|arm| &arm.arm).chain(results.left_out.iter().map(|arm| &arm.arm));
        let series = |name: &String| {
            let mut points: Vec<Point> =
                chosen.iter().filter(|results| results.arm.label() == *name).map(|results| point(results)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let published = figure.published.iter().filter(|point| point.path == *name).cloned().collect();
            let path = arms().find(|arm| arm.label() == *name).map(|arm| arm.path.to_string());
            Series { name: name.clone(), path, points, published }
        };
        let is_of_joules = [Some(figure.y), figure.against].into_iter().flatten().any(Metric::is_of_joules);
        let mut rows = chosen.iter().flat_map(|results| &results.rows);
        let is_modelled = is_of_joules && rows.any(|row| row.joules_from().is_some_and(Source::is_modelled));
        Self {
            id: figure.id.clone(),
            title: if is_modelled { format!("{} (modelled here)", figure.title) } else { figure.title.clone() },
            x: figure.x,
            y: figure.y,
            against: figure.against,
            x_scale: figure.x_scale,
            y_scale: figure.y_scale,
            series: names.iter().map(series).collect(),
        }
    }
}
