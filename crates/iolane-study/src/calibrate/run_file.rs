//! Observations of a file that `iolane run --json` wrote: schema `iolane.run/1`, or `iolane.runs/1` with several of them.

use iolane::{Error, Result};
use iolane_measure::workload::Workload;
use serde::Deserialize;
use serde_json::Value;

use super::Gathered;
use super::arm::Measured;
use super::host::{self, Facts};
use crate::plan::Arm;
use crate::run_record::{HostRecord, TargetRecord};

/// What an observation takes of a record.
#[derive(Debug, Deserialize)]
struct RunFile {
    path: String,
    target: TargetRecord,
    #[serde(default)]
    targets: Vec<TargetRecord>,
    workload: WorkloadOfRun,
    result: ResultOfRun,
    #[serde(default)]
    telemetry: Value,
    host: HostRecord,
}

#[derive(Debug, Deserialize)]
struct WorkloadOfRun {
    rw: String,
    block_sizes: String,
    offsets: String,
    read_percent: u8,
    depth: u32,
    batch_submit: Option<u32>,
    batch_complete: Option<u32>,
    batch_complete_max: Option<u32>,
    threads: usize,
    cpus: Option<String>,
    sqpoll_cpus: Option<String>,
    rate: Option<f64>,
    think_us: Option<u64>,
    durable: bool,
    fsync_every: Option<u32>,
    fdatasync_every: Option<u32>,
    verify: bool,
}

#[derive(Debug, Deserialize)]
struct ResultOfRun {
    ios: u64,
    iops_repeats: Vec<f64>,
    latency_ns: LatencyOfRun,
}

#[derive(Debug, Deserialize)]
struct LatencyOfRun {
    p50: Option<f64>,
    p99: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct RunFiles {
    jobs: Vec<RunFile>,
}

impl Gathered {
    /// What a file of `iolane run --json` tells.
    ///
    /// # Errors
    /// `Failed` if it has another layout; `Usage` if the model cannot play its runs.
    pub fn of_run_file(text: &str, place: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::failed(place, cause).remedy("name a results folder, a file of `iolane run --json` or observations")
        };
        let json: Value = serde_json::from_str(text).map_err(|error| bad(format!("not a JSON document ({error})")))?;
        let runs = match json["schema"].as_str() {
            Some("iolane.run/1") => RunFile::deserialize(&json).map(|run| vec![run]),
            Some("iolane.runs/1") => RunFiles::deserialize(&json).map(|runs| runs.jobs),
            Some(other) => {
                return Err(bad(format!("its schema is {}, not iolane.run/1", other.replace(char::is_control, "?"))));
            }
            None => return Err(bad("it does not say that iolane wrote it".into())),
        };
        let runs = runs.map_err(|error| bad(error.to_string()))?;
        let Some(first) = runs.first() else { return Err(bad("it has no run".into())) };
        let host = &first.host.host;
        let nodes = first.telemetry["numa_nodes"]["value"].as_str();
        let Facts { processor, scheduler, notes } = Facts::of(host, nodes, place)?;
        let mut gathered = Self { notes, ..Self::of_machine(host::name("runs", host), (processor, scheduler)) };
        for run in &runs {
            let targets = if run.targets.is_empty() { std::slice::from_ref(&run.target) } else { &run.targets };
            let arm = run.arm(targets.len()).map_err(|error| bad(error.to_string()))?;
            gathered.add_arm(&arm, host::why_not_targets(targets), || run.measured(), place);
            if let Some(note) = host::note_of_targets(targets) {
                super::note_once(&mut gathered.notes, note);
            }
        }
        gathered.or_nothing(place)
    }
}

impl RunFile {
    fn arm(&self, drives: usize) -> Result<Arm> {
        let of = &self.workload;
        let workload = Workload {
            access: of.rw.parse()?,
            read_percent: Some(of.read_percent),
            block_sizes: of.block_sizes.parse()?,
            offsets: of.offsets.parse()?,
            depth: of.depth,
            batch_submit: of.batch_submit,
            batch_complete: of.batch_complete,
            batch_complete_max: of.batch_complete_max,
            fsync_every: of.fsync_every,
            fdatasync_every: of.fdatasync_every,
            rate: of.rate.map(iolane_measure::workload::Rate::new).transpose()?,
            think_us: of.think_us,
            durable: of.durable,
            verify: of.verify,
            ..Workload::default()
        };
        Ok(Arm {
            application: None,
            name: self.path.clone(),
            path: self.path.parse()?,
            peer: None,
            workload,
            threads: of.threads,
            drives,
            cores: None,
        })
    }

    fn measured(&self) -> Measured {
        let cpu_s = self.telemetry["cpu_s"]["value"].as_f64();
        Measured {
            iops: self.result.iops_repeats.clone(),
            p50_ns: self.result.latency_ns.p50,
            p99_ns: self.result.latency_ns.p99,
            cpu_ns_per_io: cpu_s.filter(|_| self.result.ios > 0).map(|cpu_s| cpu_s * 1e9 / self.result.ios as f64),
            cpus: self.workload.cpus.clone(),
            sqpoll_cpus: self.workload.sqpoll_cpus.clone(),
        }
    }
}
