//! Charts of invented results, compared with the runs they were made from.

use std::sync::OnceLock;

use super::chart::*;
use super::latency::SHARES;
use super::rate_curve;
use super::unit::Unit;
use crate::chart_style::{Look, look};
use iolane::IoPath;
use iolane_measure::workload::Rate;
use iolane_study::plan::Scale;
use iolane_study::results::RateUntil;
use iolane_study::results::fixtures::{REPEATS, built_in_study};
use iolane_study::rows::{Results, Row};
use std::collections::{HashMap, HashSet};

/// The charts of a built-in study, made once for all tests.
fn charts(study: &'static str) -> &'static Charts {
    static MADE: [OnceLock<Charts>; STUDIES.len()] = [const { OnceLock::new() }; STUDIES.len()];
    let at = STUDIES.iter().position(|name| *name == study).unwrap();
    MADE[at].get_or_init(|| Charts::new(&built_in_study(study, Scale::Scaled)))
}

const STUDIES: [&str; 4] = ["systor22", "ijraset24", "hotstorage23", "floe26"];

fn chart<'a>(charts: &'a Charts, id: &str) -> &'a Chart {
    charts.charts.iter().find(|chart| chart.id == id).unwrap_or_else(|| panic!("no chart {id}"))
}

#[test]
fn a_figure_shows_the_medians_of_runs_with_their_intervals_at_the_depths_that_were_measured() {
    let loaded = built_in_study("systor22", Scale::Scaled);
    let charts = Charts::new(&loaded);
    let chart = chart(&charts, "figure-2a");
    assert_eq!((chart.x.kind, &chart.x.ticks[..]), (AxisKind::Log, &[1.0, 4.0, 16.0, 64.0, 128.0][..]));
    let line = chart.series.iter().find(|line| line.name == "iou+k").unwrap();
    assert_eq!(line.path, "io_uring+sqpoll,plain,fixedfiles".parse::<IoPath>().unwrap().to_string());
    let mark = line.points.iter().find(|mark| mark.x == 16.0).unwrap();
    let of_arm = |row: &&Row| row.arm.name == "iou+k" && row.arm.workload.depth == 16 && row.arm.cores == Some(1);
    let iops: Vec<f64> =
        loaded.rows.iter().filter(of_arm).filter(|row| row.arm.threads == 1).map(|row| row.ios as f64 / 2.0).collect();
    assert_eq!(iops.len(), REPEATS as usize);
    assert_eq!((mark.y, mark.low, mark.high), (iops[2], Some(iops[0]), Some(iops[4])));
}

#[test]
fn a_figure_of_latency_against_iops_goes_by_rising_depth_and_hooks_back_where_rates_fall() {
    let charts = charts("systor22");
    let chart = chart(charts, "figure-2d");
    assert_eq!((chart.x.label.as_str(), chart.x.unit, chart.y.unit), ("IOPS", Unit::Count, Unit::Nanoseconds));
    let line = chart.series.iter().find(|line| line.name == "iou").unwrap();
    let depths: Vec<&str> = line.points.iter().map(|mark| mark.at.as_str()).collect();
    assert_eq!(depths, ["depth 1", "depth 4", "depth 16", "depth 64", "depth 128"]);
    assert_eq!(line.published, [PublishedPoint { x: 79000.0, y: 185_000.0 }]);
}

#[test]
fn a_rate_search_has_a_line_for_each_depth_and_its_highest_rates_on_the_bound() {
    let known = built_in_study("systor22", Scale::Scaled).rows.remove(0);
    let run = |depth: u32, rate: f64, repeat: u32| {
        let mut row = Row { repeat, elapsed_s: 1.0, ios: rate as u64, ..known.clone() };
        (row.arm.workload.depth, row.arm.workload.rate) = (depth, Some(Rate::new(rate).unwrap()));
        row.latency.reset();
        row.latency.record_n((rate * 1000.0 / f64::from(depth)) as u64, row.ios).unwrap();
        row
    };
    let rates = [1000.0, 2000.0, 4000.0, 8000.0].into_iter().flat_map(|rate| [16, 4].map(|depth| (depth, rate)));
    let rows: Vec<Row> = rates.flat_map(|(depth, rate)| (0..3).map(move |repeat| run(depth, rate, repeat))).collect();
    let results = Results::new(&rows, Vec::new());
    let rate_until = RateUntil::begun("p99=400us".parse().unwrap(), 3).of_runs(&results);
    let [chart] = &rate_curve::charts(&results.arms, &rate_until)[..] else { panic!("a chart for the load") };
    let names: Vec<&str> = chart.series.iter().map(|line| line.name.rsplit(", ").next().unwrap()).collect();
    assert_eq!(names, ["depth 4", "depth 16", "and the highest rates"]);
    let [four, sixteen, bound] = &chart.series[..] else { panic!() };
    assert_eq!(four.look.light, sixteen.look.light, "the path has its colour");
    assert!(four.look.marker != sixteen.look.marker && four.look.dash != sixteen.look.dash);
    let on_bound: Vec<&str> = bound.points.iter().map(|mark| mark.at.rsplit(", ").next().unwrap()).collect();
    assert_eq!(on_bound, ["", "depth 4", "depth 16", ""], "between both ends of the line");
    // 250 ns for each request per second at depth 4 reach 400 us at 1600/s, a quarter of that at depth 16 at 6400/s.
    for (mark, rate) in bound.points[1..3].iter().zip([1600.0, 6400.0]) {
        assert!((mark.x / rate - 1.0).abs() < 0.01 && mark.y == 400e3, "{mark:?}");
    }
}

#[test]
fn a_path_with_published_values_only_is_shown_with_its_look() {
    let charts = charts("hotstorage23");
    let chart = chart(charts, "figure-table-2-read-p50");
    assert_eq!(chart.kind, ChartKind::Bars);
    let place = chart.series.iter().position(|line| line.name == "spdk").unwrap();
    let line = &chart.series[place];
    assert!(line.points.is_empty());
    assert_eq!(line.published, [PublishedPoint { x: place as f64, y: 6230.0 }]);
    assert_eq!(line.look, look(&IoPath::new("nvme"), None));
    assert_eq!(chart.x.categories[place], "spdk");
}

#[test]
fn a_metric_that_was_not_counted_is_named_with_the_reason() {
    let charts = charts("hotstorage23");
    let titles: Vec<&str> = charts.not_drawn.iter().map(|missing| missing.title.as_str()).collect();
    assert!(titles.contains(&"Figure 1 power: Power of 4 KiB reads by depth, one thread"), "{titles:?}");
    let joules = charts.not_drawn.iter().find(|missing| missing.title == "I/Os per joule").unwrap();
    assert_eq!(joules.why, "no meter; run as root");
    assert!(charts.charts.iter().all(|chart| chart.y.label != "I/Os per joule"));
}

#[test]
fn a_distribution_rises_from_the_shortest_to_the_longest_latency_of_all_repeats() {
    let loaded = built_in_study("ijraset24", Scale::Scaled);
    let charts = Charts::new(&loaded);
    let chart = charts.charts.iter().find(|chart| chart.section == ChartSection::Latency).unwrap();
    let results = loaded.results();
    for line in &chart.series {
        assert!(line.points.is_sorted_by(|a, b| a.x <= b.x && a.y < b.y), "{}", line.name);
        let arm = results.arms.iter().find(|arm| {
            arm.arm.name == line.name
                && arm.arm.load_in_words() == chart.group
                && chart.title == format!("Latency at depth {}", arm.arm.workload.depth)
        });
        let all = arm.unwrap().latency();
        let ends = (line.points[0].x, line.points[SHARES.len() - 1].x);
        assert_eq!(ends, (all.value_at_quantile(0.0) as f64, all.max() as f64));
    }
}

#[test]
fn a_path_looks_the_same_in_every_chart_of_every_study() {
    let mut known: HashMap<String, Look> = HashMap::new();
    for study in STUDIES {
        for line in charts(study).charts.iter().flat_map(|chart| &chart.series) {
            let path = line.path.clone();
            assert!(!path.is_empty(), "{study}: {}", line.name);
            assert_eq!(known.entry(path).or_insert_with(|| line.look.clone()), &line.look, "{study}: {}", line.name);
        }
    }
    assert!(known.len() > 10);
}

#[test]
fn no_two_charts_have_the_same_name() {
    for study in STUDIES {
        let charts = &charts(study).charts;
        let ids: HashSet<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids.len(), charts.len());
        let is_name = |id: &&str| id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(ids.iter().all(is_name), "{ids:?}");
    }
}
