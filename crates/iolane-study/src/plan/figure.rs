//! The figures of a study: one metric along one factor, one line for each path. Read from a study file by `serde`.

use serde::{Deserialize, Serialize};

use super::factor::Factor;
use super::metric::Metric;
use super::selection::Selection;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its number in the publication.
    pub id: String,
    pub title: String,
    /// The arms shown.
    #[serde(default, rename = "where")]
    pub select: Selection,
    pub x: Factor,
    pub y: Metric,
    /// A metric on the x axis instead of the factor, as publications that plot latency against IOPS have it. The factor
    /// then orders the points of a line.
    #[serde(default)]
    pub against: Option<Metric>,
    #[serde(default)]
    pub x_scale: AxisScale,
    #[serde(default)]
    pub y_scale: AxisScale,
    /// Points that the text of the publication states.
    #[serde(default, deserialize_with = "super::values::one_or_more")]
    pub published: Vec<PublishedPoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisScale {
    #[default]
    Linear,
    Log,
}

/// A point of a published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPoint {
    /// The path's name in the study.
    pub path: String,
    /// The factor's value; unused, and left out of the file, where the factor is the path.
    #[serde(default)]
    pub x: f64,
    /// In the unit of the metric.
    pub y: f64,
    /// In a figure of one metric against another: the value of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<f64>,
}
