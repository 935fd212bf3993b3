//! What a chart is. Whoever draws reads these types; the other files of this folder make them.

use serde::Serialize;

use super::unit::Unit;
use crate::chart_style::Look;

/// Every chart of a study, and those that have nothing to show.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Charts {
    /// In the order of a report: figures, latency, time, cost; those of one group follow each other.
    pub charts: Vec<Chart>,
    pub not_drawn: Vec<NotDrawn>,
}

/// A chart that has nothing to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotDrawn {
    pub section: ChartSection,
    pub title: String,
    pub why: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Chart {
    /// A name for links and files: lower-case letters, digits and `-`; unique within a study.
    pub id: String,
    pub section: ChartSection,
    /// What it has in common with its neighbours, such as the load; empty for figures.
    pub group: String,
    pub title: String,
    pub kind: ChartKind,
    pub x: Axis,
    pub y: Axis,
    /// A line for each path.
    pub series: Vec<Line>,
    /// What a reader should know; empty if nothing.
    pub note: String,
}

/// The part of a report that a chart belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartSection {
    /// The publication's figures.
    Figures,
    /// Distributions of latency.
    Latency,
    /// Rates over the study and within runs.
    Time,
    /// Cost per I/O.
    Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartKind {
    /// Markers joined by lines, in the order of the points, which may go back along the x axis.
    Lines,
    /// A bar for each category; a marker where the y axis is logarithmic, since a bar has no length there.
    Bars,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    pub label: String,
    pub unit: Unit,
    pub kind: AxisKind,
    /// The names at 0, 1 and so on; empty unless the axis is one of categories.
    pub categories: Vec<String>,
    /// Where to put ticks, such as at each depth that was measured; empty: wherever suits.
    pub ticks: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisKind {
    Linear,
    Log,
    Category,
}

/// The values of one path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The path as the study names it, after the name of the peer that measured it, if any.
    pub name: String,
    /// The path in iolane's notation; empty if unknown.
    pub path: String,
    pub look: Look,
    pub points: Vec<Mark>,
    pub published: Vec<PublishedPoint>,
}

/// A measured point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// A category's place on an axis of categories.
    pub x: f64,
    pub y: f64,
    /// The lower end of its 95 % interval, or of the range that the chart's note names; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What identifies the point where `x` does not: `depth 16`; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
}

impl Mark {
    pub(super) fn without_interval(x: f64, y: f64) -> Self {
        Self { x, y, low: None, high: None, at: String::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedPoint {
    pub x: f64,
    pub y: f64,
}
