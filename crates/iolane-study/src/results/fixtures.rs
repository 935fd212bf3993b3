//! Simulated results for the tests of reports: studies as if they had run, each value a known function of its arm.

use std::path::PathBuf;

use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::{Sourced, Unavailable};
use serde_json::{Value, json};

use super::{FigureReport, Loaded, RECORDS_FILE, SCHEMA};
use crate::claims::Looks;
use crate::plan::{Arm, Scale, Study, built_in};
use crate::rows::{LeftOut, Results, Row};

pub const REPEATS: u32 = 5;

/// A built-in study at a scale, with results for all arms except those of the user-space driver.
pub fn built_in_study(name: &str, scale: Scale) -> Loaded {
    let study = Study::parse(built_in(name).unwrap().text, name).unwrap();
    let (left_out, arms): (Vec<Arm>, Vec<Arm>) =
        study.arms(scale).unwrap().into_iter().partition(|arm| arm.path.interface() == "nvme");
    let rows: Vec<Row> = (0..REPEATS).flat_map(|repeat| runs(&arms, repeat)).collect();
    let left_out: Vec<LeftOut> = left_out.into_iter().map(driverless).collect();
    loaded(&study, &rows, left_out)
}

/// Results of a study with these rows, as its folder would load.
pub fn loaded(study: &Study, rows: &[Row], left_out: Vec<LeftOut>) -> Loaded {
    let results = Results::new(rows, left_out.clone());
    let figures: Vec<FigureReport> = study.figures.iter().map(|figure| FigureReport::new(figure, &results)).collect();
    let json = json!({
        "schema": SCHEMA, "name": study.name, "title": study.title, "source": study.source,
        "published_on": study.published_on, "complete": true, "scale": "scaled", "repeats": REPEATS, "runtime_s": 2.0,
        "warmup_s": 0.2, "seed": 1, "targets": [{"kind": "file", "name": "scratch", "bytes": 1 << 30}],
        "skipped": super::skipped(&left_out), "figures": figures, "advice": ["Take libaio."],
        "claims": crate::claims::decide(study, &results, &Looks::default()), "host": {"kernel_release": "7.2"}, "warnings": [],
        "records": {"file": RECORDS_FILE, "rows": rows.len(), "crc32": 0},
    });
    of_json(json, rows)
}

/// Results with this `study.json`.
pub fn of_json(json: Value, rows: &[Row]) -> Loaded {
    Loaded {
        folder: PathBuf::from("results").join(json["name"].as_str().unwrap()),
        document: serde_json::from_value(json).unwrap(),
        rows: rows.to_vec(),
    }
}

fn driverless(arm: Arm) -> LeftOut {
    LeftOut { arm, reason: "no controller is bound".into(), remedy: "iolane nvme bind".into(), failed: false }
}

/// One run of each arm, in order.
pub fn runs(arms: &[Arm], repeat: u32) -> impl Iterator<Item = Row> {
    let run = move |(place, arm): (usize, &Arm)| Row {
        started_unix_s: 1.7e9 + 2.5 * (place as f64 + arms.len() as f64 * f64::from(repeat)),
        ..run_of(arm, repeat)
    };
    arms.iter().enumerate().map(run)
}

/// One run of an arm: the rate rises with depth and threads, latency falls with the rate, and every path differs.
pub fn run_of(arm: &Arm, repeat: u32) -> Row {
    let of_path = 1.0 + (arm.label().bytes().map(u32::from).sum::<u32>() % 17) as f64 / 10.0;
    let in_flight = f64::from(arm.workload.depth) * arm.threads as f64;
    let iops = 10_000.0 * of_path * (0.98 + 0.01 * f64::from(repeat)) * in_flight / (1.0 + in_flight / 40.0);
    let latency_ns = in_flight / iops * 1e9;
    let mut row = Row {
        ios: (iops * 2.0) as u64,
        elapsed_s: 2.0,
        bytes: (iops * 2.0) as u64 * u64::from(arm.workload.block_sizes.max()),
        mean_ns: Some(latency_ns),
        rates: (0..20).map(|tenth| iops * (1.0 + f64::from(tenth) / 1000.0)).collect(),
        ..Row::new(arm.clone(), repeat)
    };
    for permille in (1..1000u32).step_by(7) {
        // A long tail, as real drives have.
        let stretch = 0.7 + 0.3 / (1.0 - f64::from(permille) / 1000.0).sqrt();
        row.latency.record_n((latency_ns * stretch) as u64, row.ios / 142 + 1).unwrap();
    }
    row.submit.record_n(1500, 100).unwrap();
    let syscalls_per_io = if arm.path.polls_submissions() { 0.0 } else { 1.0 + 1.0 / f64::from(arm.workload.depth) };
    let known =
        [(RunFigure::UserS, 0.3 * of_path), (RunFigure::SystemS, 1.1), (RunFigure::SyscallsPerIo, syscalls_per_io)];
    for (figure, value) in known {
        row.figures.set(figure, Ok(Sourced::new(value, "simulated")));
    }
    row.figures.set::<f64>(RunFigure::Joules, Err(Unavailable::new("no meter").remedy("run as root")));
    row
}
