//! The place of a chart on a page: the script draws in it, and its table has the same numbers.

use super::html_table::HtmlTable;
use crate::charts::{Chart, ChartSection};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChartFigure {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) note: String,
    /// What a screen reader says instead of the picture.
    pub(super) label: String,
    pub(super) table: HtmlTable,
}

pub(super) fn of_section(charts: &[Chart], section: ChartSection) -> Vec<ChartFigure> {
    charts.iter().filter(|chart| chart.section == section).map(ChartFigure::new).collect()
}

impl ChartFigure {
    pub(super) fn new(chart: &Chart) -> Self {
        let names: Vec<&str> = chart.series.iter().map(|line| line.name.as_str()).collect();
        let Chart { title, x, y, .. } = chart;
        Self {
            id: chart.id.clone(),
            title: title.clone(),
            note: chart.note.clone(),
            label: format!(
                "Chart: {title}. {} by {}, of {}. The table below has the same numbers.",
                y.label,
                x.label,
                names.join(", ")
            ),
            table: HtmlTable::of_chart(chart),
        }
    }
}
