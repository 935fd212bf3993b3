//! The figures of a study as data points: `iolane-report` draws them as charts and lists them as tables.

use serde::{Deserialize, Serialize};

use crate::plan::{Arm, AxisScale, Factor, Figure, Metric, PublishedPoint};
use crate::rows::{ArmResults, Results};
use crate::stats::{Estimate, estimate_median};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureReport {
    /// The figure's number in the publication.
    pub id: String,
    /// The caption, which states whether the joules come from a model.
    pub title: String,
    /// The factor on the horizontal axis.
    pub x: Factor,
    /// The metric on the vertical axis.
    pub y: Metric,
    /// The metric on the horizontal axis instead of the factor, where the figure plots one metric against another.
    #[serde(default)]
    pub against: Option<Metric>,
    /// The scale of the horizontal axis.
    #[serde(default)]
    pub x_scale: AxisScale,
    /// The scale of the vertical axis.
    #[serde(default)]
    pub y_scale: AxisScale,
    /// A line for each path that was measured or has published points.
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The path's name in the study.
    pub name: String,
    /// The path in iolane's notation; `None` if unknown.
    #[serde(default)]
    pub path: Option<String>,
    /// Measured points, along the factor; empty for a path that was not measured.
    pub points: Vec<Point>,
    /// Points from the publication.
    pub published: Vec<PublishedPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Position along the factor: a number, or an index among the paths.
    pub x: f64,
    /// The factor's value as text.
    pub at: String,
    /// The median of the repeats with its interval; `None` if unavailable.
    pub y: Option<Estimate>,
    /// The median and interval of the horizontal metric; `None` if the figure has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Estimate>,
}

impl FigureReport {
    /// The points of a figure that the results contain.
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
        let is_modelled = is_of_joules && rows.any(|row| row.joules().is_some_and(|joules| joules.modelled));
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
