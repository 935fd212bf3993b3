//! Pages of invented results: every number agrees with the runs, every name stays text, no page is too large.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::page;
use super::shell::Shell;
use crate::charts::{ChartSection, Charts};
use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::Unavailable;
use iolane_measure::workload::Workload;
use iolane_study::claims::{Decision, Verdict};
use iolane_study::plan::{Arm, Metric, Scale, Study, built_in};
use iolane_study::results::fixtures::{built_in_study, loaded, of_json, run_of};
use iolane_study::results::{Loaded, RECORDS_FILE, REPORT_FILE, load};
use iolane_study::rows::{ArmResults, LeftOut, Row, parquet};

/// What the page's script reads, and the page around it.
fn split(page: &str) -> (&str, [&str; 2]) {
    let begin = "<script type=\"application/json\" id=\"charts\">";
    let (before, rest) = page.split_once(begin).unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    (data, [before, after])
}

fn data(page: &str) -> Value {
    serde_json::from_str(split(page).0).unwrap()
}

/// The results, written to a folder and read back.
fn by_way_of_a_folder(made: &Loaded) -> Loaded {
    let folder = std::env::temp_dir().join(format!("iolane-page-{}-{}", std::process::id(), made.document.name));
    std::fs::create_dir(&folder).unwrap();
    let bytes = parquet::write(&made.rows).unwrap();
    let mut report = made.document.clone();
    report.records.crc32 = parquet::checksum(&bytes);
    std::fs::write(folder.join(RECORDS_FILE), &bytes).unwrap();
    std::fs::write(folder.join(REPORT_FILE), serde_json::to_string(&report).unwrap()).unwrap();
    let loaded = load(&folder).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    loaded
}

/// The middle of an odd number of values, computed without the code that the page uses.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    assert!(values.len() % 2 == 1);
    values[values.len() / 2]
}

/// The latency within which a share of the runs' I/Os completed, from the histograms' pairs of value and count.
fn quantile(rows: &[Row], share: f64) -> f64 {
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for row in rows {
        pairs.extend(row.latency.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())));
    }
    pairs.sort_unstable();
    let total: u64 = pairs.iter().map(|(_, count)| count).sum();
    let rank = ((share * total as f64).ceil() as u64).max(1);
    let mut seen = 0;
    pairs
        .iter()
        .find(|(_, count)| {
            seen += count;
            seen >= rank
        })
        .map_or(f64::NAN, |(value, _)| *value as f64)
}

/// A metric of a run by its own formula.
fn of_run(metric: Metric, row: &Row) -> f64 {
    let cpu_s = row.figures.cpu_s().unwrap();
    match metric {
        Metric::Iops => row.ios as f64 / row.elapsed_s,
        Metric::P50 => quantile(std::slice::from_ref(row), 0.5),
        Metric::P99 => quantile(std::slice::from_ref(row), 0.99),
        Metric::SyscallsPerIo => row.figures.number(RunFigure::SyscallsPerIo).unwrap(),
        Metric::Cores => cpu_s / row.elapsed_s,
        Metric::CpuSPerMillionIos => cpu_s / row.ios as f64 * 1e6,
        other => panic!("{other:?} has no formula here"),
    }
}

/// Six digits are kept; a histogram's values are known to three.
fn assert_same(what: &str, shown: &Value, expected: f64, tolerance: f64) {
    let shown = shown.as_f64().unwrap_or_else(|| panic!("{what}: {shown}"));
    assert!((shown - expected).abs() <= tolerance * expected.abs(), "{what}: {shown} for {expected}");
}

const DIGITS: f64 = 1e-5;
const HISTOGRAM: f64 = 2e-3;

/// The points of a line are the medians of the arms' repeats, with the whole range of five as interval.
fn assert_estimates(what: &str, metric: Metric, points: &[Value], arms: &[&ArmResults]) {
    assert_eq!(points.len(), arms.len(), "{what}");
    for (point, arm) in points.iter().zip(arms) {
        let values: Vec<f64> = arm.rows.iter().map(|row| of_run(metric, row)).collect();
        let tolerance = if metric.is_latency() { HISTOGRAM } else { DIGITS };
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        assert_same(what, &point[1], middle(values), tolerance);
        assert_same(what, &point[2], least, tolerance);
        assert_same(what, &point[3], most, tolerance);
    }
}

#[test]
fn every_value_of_every_chart_is_that_of_the_runs() {
    let results = by_way_of_a_folder(&built_in_study("systor22", Scale::Scaled));
    let study = Study::parse(built_in("systor22").unwrap().text, "systor22").unwrap();
    let data = data(&page(&results).unwrap());
    let arms = results.results().arms;
    let began = results.rows.iter().map(|row| row.started_unix_s).fold(f64::MAX, f64::min);
    let mut checked = 0;
    for chart in data["charts"].as_array().unwrap() {
        let (id, title) = (chart["id"].as_str().unwrap(), chart["title"].as_str().unwrap());
        let figure = study.figures.iter().find(|figure| title == format!("Figure {}: {}", figure.id, figure.title));
        for line in chart["lines"].as_array().unwrap() {
            let (name, points) = (line["name"].as_str().unwrap(), line["points"].as_array().unwrap());
            let what = format!("{title}, {name}");
            let depth = title.rsplit_once("depth ").and_then(|(_, depth)| depth.parse::<u32>().ok());
            let of_load = |arm: &&ArmResults| {
                arm.arm.name == name
                    && id.contains(&arm.arm.load_in_words().replace(", ", "-").replace(' ', "-"))
                    && depth.is_none_or(|depth| arm.arm.workload.depth == depth)
            };
            let mut of_line: Vec<&ArmResults> = match figure {
                Some(figure) => {
                    figure.select.of(&arms, |arm| &arm.arm).into_iter().filter(|arm| arm.arm.name == name).collect()
                }
                None => arms.iter().filter(of_load).collect(),
            };
            checked += points.len();
            match (figure, chart["section"].as_str().unwrap()) {
                (Some(figure), _) => {
                    of_line.sort_by_key(|arm| arm.arm.number(figure.x));
                    assert_estimates(&what, figure.y, points, &of_line);
                    for (point, arm) in points.iter().zip(&of_line) {
                        let x = match figure.against {
                            Some(metric) => middle(arm.rows.iter().map(|row| of_run(metric, row)).collect()),
                            None => arm.arm.number(figure.x).unwrap() as f64,
                        };
                        assert_same(&what, &point[0], x, DIGITS);
                    }
                }
                (None, "cost") => {
                    of_line.sort_by_key(|arm| arm.arm.workload.depth);
                    let metric = match chart["y"]["label"].as_str().unwrap() {
                        "cores used" => Metric::Cores,
                        "CPU seconds per million I/Os" => Metric::CpuSPerMillionIos,
                        "system calls per I/O" => Metric::SyscallsPerIo,
                        other => panic!("{other}"),
                    };
                    assert_estimates(&what, metric, points, &of_line);
                }
                (None, "latency") => {
                    for point in points {
                        let expected = quantile(&of_line[0].rows, point[1].as_f64().unwrap());
                        assert_same(&what, &point[0], expected, HISTOGRAM);
                    }
                }
                (None, "time") if id.starts_with("runs") => {
                    for (point, row) in points.iter().zip(&of_line[0].rows) {
                        assert_same(&what, &point[0], row.started_unix_s - began, DIGITS);
                        assert_same(&what, &point[1], of_run(Metric::Iops, row), DIGITS);
                    }
                }
                (None, _) => {
                    for (tenth, point) in points.iter().enumerate() {
                        assert_same(
                            &what,
                            &point[1],
                            middle(of_line[0].rows.iter().map(|row| row.rates[tenth]).collect()),
                            DIGITS,
                        );
                    }
                }
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

#[test]
fn tables_have_the_values_of_their_charts() {
    let results = built_in_study("ijraset24", Scale::Scaled);
    let page = page(&results).unwrap();
    for chart in &Charts::new(&results).charts {
        let mark = &chart.series[0].points[0];
        let (axis, value) =
            if chart.section == ChartSection::Latency { (&chart.x, mark.x) } else { (&chart.y, mark.y) };
        let table = page.split_once(&format!("id=\"{}\"", chart.id)).unwrap().1.split_once("</table>").unwrap().0;
        assert!(table.contains(&axis.unit.shown(value)), "{}: no {}", chart.id, axis.unit.shown(value));
    }
}

/// A study of two arms whose names, reasons and machine contain markup.
fn hostile(name: &str) -> String {
    let text = r#"
        name = "own"
        title = "t"
        paths = { a = "psync" }
        group = [{ path = ["a"] }]
        figure = [{ id = "1", title = "f", x = "depth", y = "iops" }, { id = "2", title = "g", x = "path", y = "p99_ns" }]
    "#;
    let mut study = Study::parse(text, "own").unwrap();
    study.title = name.into();
    study.source = name.into();
    study.figures.iter_mut().for_each(|figure| figure.title = name.into());
    let arm = Arm { name: name.into(), ..study.arms(Scale::Scaled).unwrap().remove(0) };
    let rows: Vec<Row> = (0..3)
        .map(|repeat| {
            let mut row = run_of(&arm, repeat);
            row.targets = name.into();
            row.figures.set::<u64>(RunFigure::Cycles, Err(Unavailable::new(name)));
            row
        })
        .collect();
    let arm = Arm { workload: Workload { depth: 9, ..arm.workload.clone() }, ..arm };
    let left_out = LeftOut { arm, reason: name.into(), remedy: name.into(), failed: true };
    let mut results = loaded(&study, &rows, vec![left_out]);
    let document = &mut results.document;
    document.host.host.cpu_model = Some(name.into());
    document.host.host.command_line = vec![name.into()];
    document.warnings = vec![name.into()];
    document.targets[0].name = name.into();
    document.claims = vec![Decision {
        id: name.into(),
        says: name.into(),
        verdict: Verdict::Holds,
        published: name.into(),
        measured: Some(name.into()),
        why: name.into(),
        differs: name.into(),
        checks: Vec::new(),
    }];
    page(&results).unwrap()
}

/// How many elements a page has, and how many quotes that could end an attribute.
fn markup(page: &str) -> [usize; 3] {
    // Elements mark where a line may break within a name.
    let around = split(page).1.concat().replace("<wbr>", "");
    ['<', '"', '\''].map(|mark| around.matches(mark).count())
}

/// The markup of a page of plain names.
static PLAIN: LazyLock<[usize; 3]> = LazyLock::new(|| markup(&hostile("plain")));

/// Asserts that a name is text, wherever it stands.
fn assert_is_text(name: &str) {
    let page = hostile(name);
    assert_eq!(markup(&page), *PLAIN, "{name:?} made an element or ended an attribute");
    assert_eq!(data(&page)["charts"][0]["lines"][0]["name"], name, "and the script gets it whole");
}

#[test]
fn hostile_names_are_text_and_nothing_else() {
    for name in [
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "\" autofocus onfocus=\"alert(1)",
        "<!--",
        "]]></style>",
        "\u{202e}desrever",
        &"long".repeat(75),
        "\u{0}\u{7}\u{2028}",
    ] {
        assert_is_text(name);
    }
}

proptest! {
    /// Names of devices, files and paths, pieces of markup, and anything else.
    #[test]
    fn no_name_is_ever_markup(
        name in "(/dev/|nvme0n1|io_uring\\+|</?[a-z]{0,6}|</script>|<!--|-->|]]>|on[a-z]{1,5}=|&[#a-z0-9]{0,4};?|[<>\"'`&=/ ]|\\PC|\\p{Any}){1,12}",
    ) {
        assert_is_text(&name);
    }
}

#[test]
fn the_page_of_the_largest_study_is_below_two_million_bytes_and_fetches_nothing() {
    let results = built_in_study("hotstorage23", Scale::Full);
    let page = page(&results).unwrap();
    assert!(results.results().arms.len() > 150);
    assert!(page.len() < 2_000_000, "{}", page.len());
    // These could make a browser fetch something; addresses in text and in the library's comments could not.
    let own = page.replace(Shell::new(&[]).chart_library, "");
    for fetches in [" src=", "<link", "<iframe", "@import", "url(", "href=\"http", "fetch(", "XMLHttpRequest"] {
        assert!(!own.contains(fetches), "{fetches}");
    }
    assert!(own.contains("default-src &#39;none&#39;") || own.contains("default-src 'none'"));
}

#[test]
fn a_page_of_empty_results_names_what_is_missing() {
    let made = built_in_study("ijraset24", Scale::Scaled);
    let json = serde_json::json!({
        "schema": iolane_study::results::SCHEMA, "name": "own", "title": "", "complete": false, "repeats": 1, "runtime_s": 1.0,
        "skipped": [], "claims": [], "records": {"crc32": 0},
    });
    let bare = of_json(json, &made.rows[..1]);
    let page = page(&bare).unwrap();
    for words in ["fewer than 3 repeats", "Every arm was measured", "interrupted"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.replace(Shell::new(&[]).chart_library, "").contains("NaN"));
}

#[test]
fn at_a_rate_the_page_says_which_arms_reach_it_where_it_has_no_answer() {
    let with_rate = |rate: &str| {
        let mut results = built_in_study("ijraset24", Scale::Scaled);
        results.rows.iter_mut().for_each(|row| row.arm.workload.rate = Some(rate.parse().unwrap()));
        page(&results).unwrap()
    };
    assert!(with_rate("1").contains("every path keeps the rate"));
    let missed = with_rate("900m");
    assert!(missed.contains(" more do not reach the rate") && missed.contains("misses rate"));
    assert!(!missed.contains("every path keeps the rate"));
}
