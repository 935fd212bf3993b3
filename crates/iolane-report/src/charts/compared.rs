//! Charts of several results folders overlaid: a line for each path and folder, in the path's colour and the folder's
//! dashes. The page of a comparison shows them.

use super::chart::{Chart, ChartKind, ChartSection, Charts, Line};
use super::cost;
use super::load::loads;
use iolane_study::plan::Metric;
use iolane_study::results::Loaded;

/// Lengths of dashes and gaps by folder; the first folder's lines are solid.
const DASHES: [&[u8]; 5] = [&[], &[7, 4], &[2, 3], &[9, 3, 2, 3], &[12, 6]];

/// Compared in every load, in addition to the publication's figures.
const METRICS: [Metric; 3] = [Metric::Iops, Metric::P99, Metric::Cores];

/// The charts that at least two folders have; `labels` are the folders' names.
pub fn compared(loaded: &[Loaded], labels: &[&str]) -> Vec<Chart> {
    let of_folders: Vec<Vec<Chart>> = loaded.iter().map(comparable).collect();
    let mut known: Vec<&str> = Vec::new();
    let mut charts = Vec::new();
    for chart in of_folders.iter().flatten() {
        if known.contains(&chart.id.as_str()) {
            continue;
        }
        known.push(&chart.id);
        let same = of_folders.iter().enumerate().filter_map(|(folder, charts)| {
            Some((folder, charts.iter().find(|other| other.id == chart.id && other.kind == chart.kind)?))
        });
        let same: Vec<(usize, &Chart)> = same.collect();
        if same.len() > 1 {
            charts.push(merged(&same, labels));
        }
    }
    charts
}

/// The charts of a folder that can be overlaid on those of another.
fn comparable(loaded: &Loaded) -> Vec<Chart> {
    let own = Charts::new(loaded).charts.into_iter();
    let mut charts: Vec<Chart> = own.filter(|chart| chart.section == ChartSection::Figures).collect();
    for load in loads(loaded) {
        charts.extend(METRICS.iter().filter_map(|metric| cost::chart(&load, *metric)));
    }
    charts
}

fn merged(charts: &[(usize, &Chart)], labels: &[&str]) -> Chart {
    let mut names: Vec<&str> = Vec::new();
    for line in charts.iter().flat_map(|(_, chart)| &chart.series) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    let (first, base) = charts[0];
    let mut series: Vec<Line> = Vec::new();
    for name in names {
        for (folder, chart) in charts {
            let lines = chart.series.iter().filter(|line| line.name == name);
            series.extend(lines.map(|line| {
                let mut line = line.clone();
                line.name = format!("{name} ({})", labels.get(*folder).unwrap_or(&""));
                line.look.dash = DASHES[folder % DASHES.len()];
                // Published values are the same in every folder.
                if *folder != first {
                    line.published.clear();
                }
                line
            }));
        }
    }
    series.retain(|line| !line.points.is_empty() || !line.published.is_empty());
    let mut x = base.x.clone();
    let places = charts.iter().flat_map(|(_, chart)| &chart.x.ticks).copied();
    x.ticks = places.collect();
    x.ticks.sort_by(f64::total_cmp);
    x.ticks.dedup();
    if base.kind == ChartKind::Bars {
        x.categories = series.iter().map(|line| line.name.clone()).collect();
        for (place, line) in series.iter_mut().enumerate() {
            line.points.iter_mut().for_each(|mark| mark.x = place as f64);
            line.published.iter_mut().for_each(|point| point.x = place as f64);
        }
    }
    // A note about one folder may not hold for another.
    let note = if charts.iter().all(|(_, chart)| chart.note == base.note) { base.note.clone() } else { String::new() };
    Chart { x, series, note, ..base.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_study::plan::Scale;
    use iolane_study::results::fixtures::built_in_study;

    #[test]
    fn a_path_has_a_line_of_its_color_for_each_folder() {
        let before = built_in_study("ijraset24", Scale::Scaled);
        let mut after = before.clone();
        after.rows.iter_mut().for_each(|row| row.ios *= 2);
        let charts = compared(&[before, after], &["before", "after"]);
        let chart = charts.iter().find(|chart| chart.id == "figure-2").unwrap();
        assert!(chart.series.iter().any(|line| !line.published.is_empty()));
        for pair in chart.series.chunks(2) {
            let [before, after] = pair else { panic!("{pair:?}") };
            assert_eq!(before.name.replace("(before)", "(after)"), after.name);
            assert!(before.look.light == after.look.light && before.look.dash != after.look.dash);
        }
        let iops = charts.iter().find(|chart| chart.id == "cost-randread-4k-iops").unwrap();
        for pair in iops.series.chunks(2) {
            assert_eq!(pair[1].points[0].y, 2.0 * pair[0].points[0].y);
        }
    }

    #[test]
    fn bars_of_a_path_are_neighbours_and_published_values_appear_once() {
        let loaded = built_in_study("hotstorage23", Scale::Scaled);
        let charts = compared(&[loaded.clone(), loaded], &["a", "b"]);
        let chart = charts.iter().find(|chart| chart.id == "figure-table-2-read-p50").unwrap();
        assert_eq!(chart.x.categories[..2], ["posix-sio (a)", "posix-sio (b)"]);
        assert_eq!((chart.series[0].published.len(), chart.series[1].published.len()), (1, 0));
        assert!(
            chart.series.iter().enumerate().all(|(place, line)| line.points.iter().all(|mark| mark.x == place as f64))
        );
    }
}
