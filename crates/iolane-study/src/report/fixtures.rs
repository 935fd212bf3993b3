//! Results made up for the tests of reports: studies as if they had been run, each value a known function of its arm.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{FigureReport, Loaded, RECORDS_FILE, SCHEMA};
use crate::plan::{Arm, Scale, Study, built_in};
use crate::records::{LeftOut, Results, Row};

/// Repeats of each arm.
pub(super) const REPEATS: u32 = 5;

/// A built-in study at a scale, as if all of its arms had been run but those of the user-space driver.
pub(super) fn built_in_study(name: &str, scale: Scale) -> Loaded {
    let study = Study::parse(built_in(name).unwrap().text, name).unwrap();
    let (left_out, arms): (Vec<Arm>, Vec<Arm>) =
        study.arms(scale).unwrap().into_iter().partition(|arm| arm.path.interface() == "nvme");
    let rows: Vec<Row> = (0..REPEATS).flat_map(|repeat| runs(&arms, repeat)).collect();
    let left_out: Vec<LeftOut> = left_out.into_iter().map(driverless).collect();
    loaded(&study, &rows, left_out)
}

/// Results of a study with these rows, as its folder would give them.
pub(super) fn loaded(study: &Study, rows: &[Row], left_out: Vec<LeftOut>) -> Loaded {
    let results = Results::new(rows, left_out.clone());
    let figures: Vec<FigureReport> = study.figures.iter().map(|figure| FigureReport::new(figure, &results)).collect();
    let json = json!({
        "schema": SCHEMA, "name": study.name, "title": study.title, "source": study.source,
        "published_on": study.published_on, "complete": true, "scale": "scaled", "repeats": REPEATS, "runtime_s": 2.0,
        "warmup_s": 0.2, "seed": 1, "targets": [{"kind": "file", "name": "scratch", "bytes": 1 << 30}],
        "skipped": super::skipped(&left_out), "figures": figures, "advice": ["Take libaio."],
        "claims": crate::claims::decide(study, &results), "host": {"kernel": "7.2"}, "warnings": [],
        "records": {"file": RECORDS_FILE, "rows": rows.len(), "crc32": 0},
    });
    of_json(json, rows)
}

/// Results with that `study.json`.
pub(super) fn of_json(json: Value, rows: &[Row]) -> Loaded {
    Loaded {
        folder: PathBuf::from("results").join(json["name"].as_str().unwrap()),
        document: serde_json::from_value(json.clone()).unwrap(),
        json,
        rows: rows.to_vec(),
    }
}

fn driverless(arm: Arm) -> LeftOut {
    LeftOut { arm, reason: "no controller is bound".into(), remedy: "iolane nvme bind".into(), failed: false }
}

/// A run of each arm, one after the other.
pub(super) fn runs(arms: &[Arm], repeat: u32) -> impl Iterator<Item = Row> {
    let run = move |(place, arm): (usize, &Arm)| Row {
        started_unix_s: 1.7e9 + 2.5 * (place as f64 + arms.len() as f64 * f64::from(repeat)),
        ..run_of(arm, repeat)
    };
    arms.iter().enumerate().map(run)
}

/// A run of an arm: rates rise with depth and threads, latency falls with the rate, and no two paths are alike.
pub(super) fn run_of(arm: &Arm, repeat: u32) -> Row {
    let of_path = 1.0 + (arm.label().bytes().map(u32::from).sum::<u32>() % 17) as f64 / 10.0;
    let in_flight = f64::from(arm.depth) * arm.threads as f64;
    let iops = 10_000.0 * of_path * (0.98 + 0.01 * f64::from(repeat)) * in_flight / (1.0 + in_flight / 40.0);
    let latency_ns = in_flight / iops * 1e9;
    let mut row = Row {
        ios: (iops * 2.0) as u64,
        elapsed_s: 2.0,
        bytes: (iops * 2.0) as u64 * u64::from(arm.bs.max()),
        mean_ns: Some(latency_ns),
        user_s: Some(0.3 * of_path),
        system_s: Some(1.1),
        syscalls_per_io: Some(if arm.path.polls_submissions() { 0.0 } else { 1.0 + 1.0 / f64::from(arm.depth) }),
        rates: (0..20).map(|tenth| iops * (1.0 + f64::from(tenth) / 1000.0)).collect(),
        ..Row::new(arm.clone(), repeat)
    };
    for permille in (1..1000u32).step_by(7) {
        // A long tail, as drives have it.
        let stretch = 0.7 + 0.3 / (1.0 - f64::from(permille) / 1000.0).sqrt();
        row.latency.record_n((latency_ns * stretch) as u64, row.ios / 142 + 1).unwrap();
    }
    row.submit.record_n(1500, 100).unwrap();
    row.sources.insert("joules".into(), "unavailable: no meter; run as root".into());
    row
}
