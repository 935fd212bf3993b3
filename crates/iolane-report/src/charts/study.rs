//! The charts of a study's results, in the order of a report.

use std::collections::HashMap;

use iolane_study::plan::Arm;
use iolane_study::results::Loaded;

use super::chart::{ChartSection, Charts, NotDrawn};
use super::load::loads;
use super::{cost, figures, id, latency, rate_curve, survey, timeline};

impl Charts {
    pub fn new(loaded: &Loaded) -> Self {
        let mut charts = Self::default();
        if let Some(rate_until) = &loaded.document.rate_until {
            charts.charts = rate_curve::charts(&loaded.results().arms, rate_until);
            id::make_distinct(&mut charts.charts);
            return charts;
        }
        let figures = &loaded.document.figures;
        let arms: HashMap<String, &Arm> = loaded.rows.iter().map(|row| (row.arm.label(), &row.arm)).collect();
        for figure in figures {
            match figures::chart(figure, &arms) {
                Ok(chart) => charts.charts.push(chart),
                Err(why) => charts.not_drawn.push(NotDrawn {
                    section: ChartSection::Figures,
                    title: figures::title(figure),
                    why: why.into(),
                }),
            }
        }
        let loads = loads(loaded);
        for load in &loads {
            charts.charts.extend(load.at_depths().filter_map(|(depth, arms)| latency::chart(load, depth, &arms)));
        }
        if figures.is_empty() {
            charts.charts.extend(loads.iter().flat_map(survey::charts));
        }
        let began_unix_s = loaded.rows.iter().map(|row| row.started_unix_s).fold(f64::INFINITY, f64::min);
        for load in &loads {
            for (depth, arms) in load.at_depths() {
                charts.charts.push(timeline::runs(load, depth, &arms, began_unix_s));
                charts.charts.extend(timeline::within_a_run(load, depth, &arms));
            }
        }
        for load in &loads {
            charts.charts.extend(cost::METRICS.iter().filter_map(|metric| cost::chart(load, *metric)));
        }
        charts.not_drawn.extend(cost::METRICS.iter().filter_map(|metric| cost::not_counted(*metric, &loaded.rows)));
        id::make_distinct(&mut charts.charts);
        charts
    }
}
