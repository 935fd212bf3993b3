//! fio (<https://fio.readthedocs.io>), 3.x: every path that it has an engine for, one fio thread for each of iolane's.
//! Registered in `registry`. fio chooses the set-up flags of its engines itself: its io_uring is neither iolane's default
//! nor exactly `plain`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use iolane::units::CpuList;
use iolane::{Error, Result, TargetKind};
use serde::Deserialize;

use super::output::unexpected_output;
use super::peer::{Load, Peer, PeerMeasurement};
use crate::fio::engine::engine;
use iolane_measure::latencies::new_histogram;

pub(super) struct Fio;

impl Peer for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn remedy(&self) -> &'static str {
        "install fio (Debian and Ubuntu: apt install fio)"
    }

    fn version_argument(&self) -> Option<&'static str> {
        Some("--version")
    }

    fn cannot(&self, load: &Load<'_>) -> Option<String> {
        if let Err(cause) = engine(load.path) {
            return Some(cause);
        }
        let is_node = |kind| matches!(kind, TargetKind::File | TargetKind::Block | TargetKind::NvmeGeneric);
        if let Some(target) = load.targets.iter().find(|target| !is_node(target.kind)) {
            return Some(format!("fio opens files and devices; {} is neither", target.shown));
        }
        let passthrough = load.path.interface() == "io_uring_cmd";
        (passthrough && load.targets.iter().any(|target| target.kind != TargetKind::NvmeGeneric))
            .then(|| "fio's io_uring_cmd needs a target /dev/ngXnY".to_owned())
    }

    fn differences(&self, load: &Load<'_>) -> Vec<String> {
        let mut lines = vec!["fio chooses the set-up flags and the memory of its engine itself".to_owned()];
        if !load.access.is_random() && load.threads > load.targets.len() {
            lines.push("fio's threads on one target all start at offset 0".into());
        }
        lines
    }

    fn command(&self, program: &Path, load: &Load<'_>, _: &Path) -> Result<Command> {
        let engine = engine(load.path).map_err(|cause| Error::usage("fio", cause))?;
        let mut fio = Command::new(program);
        fio.args(["--output-format=json+", "--eta=never"]);
        if !load.access.writes() {
            fio.arg("--readonly");
        }
        fio.args(["--thread", "--group_reporting", "--allow_file_create=0", "--overwrite=1", "--invalidate=0"]);
        fio.arg(format!("--rw={}", load.access)).arg(format!("--bs={}", load.block_bytes));
        if load.access.is_mixed() {
            fio.arg(format!("--rwmixread={}", load.read_percent));
        }
        fio.arg("--norandommap").arg(format!("--randseed={}", load.seed & SEED_MAX));
        fio.arg(format!("--iodepth={}", load.depth)).arg(format!("--direct={}", u8::from(load.direct)));
        let limit = |limit: Option<u32>| limit.unwrap_or(load.depth);
        fio.arg(format!("--iodepth_batch={}", limit(load.batch_submit)));
        fio.arg(format!("--iodepth_batch_complete_min={}", load.batch_complete.unwrap_or(1)));
        fio.arg(format!("--iodepth_batch_complete_max={}", limit(load.batch_complete_max)));
        fio.arg("--time_based").arg(format!("--runtime={}us", load.runtime.as_micros()));
        if !load.warmup.is_zero() {
            fio.arg(format!("--ramp_time={}us", load.warmup.as_micros()));
        }
        // Latency from submission to reaped completion, as iolane measures it; json+ prints the buckets of the same (fio(1)).
        fio.args(["--lat_percentiles=1", "--clat_percentiles=0"]);
        fio.arg(format!("--ioengine={}", engine.name));
        fio.args(engine.options.iter().map(|(key, value)| format!("--{key}={value}")));
        for thread in 0..load.threads {
            fio.args(thread_arguments(load, thread));
        }
        Ok(fio)
    }

    fn parse(&self, output: &str, load: &Load<'_>) -> Result<PeerMeasurement> {
        let job = group(output)?;
        let sides = [&job.read, &job.write];
        let sum = |of: fn(&Side) -> u64| sides.into_iter().map(of).fold(0, u64::saturating_add);
        let wrong = |expected: String, found: String| Err(unexpected_output("fio", &expected, Some(&found)));
        if job.error != 0 {
            return wrong("a job without an error".into(), format!("\"error\" : {}", job.error));
        }
        let (begun, ios) = (sum(|side| side.total_ios), sum(|side| side.lat_ns.count));
        let elapsed_s = job.read.runtime.max(job.write.runtime) as f64 / 1e3;
        if ios == 0 || elapsed_s == 0.0 {
            return wrong("I/Os".into(), format!("\"N\" : {ios}"));
        }
        // Requests in flight at the end of the warm-up are counted in only one of the two sums.
        let in_flight = u64::from(load.depth).saturating_mul(load.threads as u64);
        if begun.abs_diff(ios) > in_flight.saturating_mul(2) {
            return wrong(format!("latencies of {begun} I/Os"), format!("\"N\" : {ios}"));
        }
        let mut latency = new_histogram();
        for side in sides {
            let counted = side.lat_ns.bins.values().try_fold(0u64, |sum, count| sum.checked_add(*count));
            if counted != Some(side.lat_ns.count) {
                let expected = format!("buckets of {} latencies (--output-format=json+)", side.lat_ns.count);
                return wrong(expected, format!("{} buckets", side.lat_ns.bins.len()));
            }
            for (latency_ns, count) in &side.lat_ns.bins {
                latency.saturating_record_n(*latency_ns, *count);
            }
        }
        let bytes = sum(|side| side.io_bytes);
        let busy: Vec<_> = sides.iter().filter(|side| side.lat_ns.count > 0).map(|side| &side.lat_ns).collect();
        let total_ns: f64 = busy.iter().map(|latency| latency.mean * latency.count as f64).sum();
        let (user_s, system_s) = job.cpu_s();
        Ok(PeerMeasurement {
            ios,
            errors: 0,
            bytes,
            elapsed_s,
            iops: job.read.iops + job.write.iops,
            bytes_per_s: bytes as f64 / elapsed_s,
            min_ns: busy.iter().map(|latency| latency.min).min().unwrap_or(0) as f64,
            mean_ns: total_ns / ios as f64,
            max_ns: busy.iter().map(|latency| latency.max).max().unwrap_or(0) as f64,
            latency: Some(latency),
            user_s: Some(user_s),
            system_s: Some(system_s),
        })
    }
}

/// fio parses the seed as a signed number.
const SEED_MAX: u64 = i64::MAX as u64;

/// The target and CPUs of one thread, assigned in turn as iolane assigns them.
fn thread_arguments(load: &Load<'_>, thread: usize) -> Vec<String> {
    let target = &load.targets[thread % load.targets.len()];
    // An unescaped colon separates file names.
    let mut arguments =
        vec![format!("--name=thread{thread}"), format!("--filename={}", target.name.replace(':', "\\:"))];
    arguments.extend(load.size.map(|bytes| format!("--size={bytes}")));
    arguments.extend(cpu_of(load.cpus, thread).map(|cpu| format!("--cpus_allowed={cpu}")));
    let sqpoll_cpu = cpu_of(load.sqpoll_cpus, thread).filter(|_| load.path.polls_submissions());
    arguments.extend(sqpoll_cpu.map(|cpu| format!("--sqthread_poll_cpu={cpu}")));
    arguments
}

fn cpu_of(cpus: Option<&CpuList>, thread: usize) -> Option<u32> {
    let cpus = cpus?.cpus();
    cpus.get(thread.checked_rem(cpus.len())?).copied()
}

/// The parts of fio's JSON that are used, by fio's names.
#[derive(Deserialize)]
struct FioOutput {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    /// An errno.
    error: i64,
    /// Sum over all threads, in milliseconds.
    job_runtime: u64,
    /// Percentage of `job_runtime`.
    usr_cpu: f64,
    sys_cpu: f64,
    read: Side,
    write: Side,
}

impl Job {
    /// User and system CPU time in seconds.
    fn cpu_s(&self) -> (f64, f64) {
        let of = |percent: f64| percent / 100.0 * self.job_runtime as f64 / 1e3;
        (of(self.usr_cpu), of(self.sys_cpu))
    }
}

#[derive(Deserialize)]
struct Side {
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
    iops: f64,
    /// I/Os that started after the warm-up.
    total_ios: u64,
    lat_ns: Latency,
}

/// fio's total latency: slat plus clat.
#[derive(Deserialize)]
struct Latency {
    min: u64,
    max: u64,
    mean: f64,
    /// I/Os that completed after the warm-up.
    #[serde(rename = "N")]
    count: u64,
    /// I/Os by latency; each key is the middle of a bucket that is 1/64 of its value wide (fio's `stat.h`).
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

/// All threads are reported as one job.
fn group(output: &str) -> Result<Job> {
    // fio may print notes before and after the object.
    let first = output.lines().find(|line| !line.trim().is_empty());
    let begin = match output.starts_with('{') {
        true => 0,
        false => 1 + output.find("\n{").ok_or_else(|| unexpected_output("fio", "a JSON object", first))?,
    };
    let json = &output[begin..];
    let document = FioOutput::deserialize(&mut serde_json::Deserializer::from_str(json)).map_err(|error| {
        let line = json.lines().nth(error.line().saturating_sub(1)).filter(|_| !error.is_eof());
        unexpected_output("fio", &format!("its JSON ({error})"), line)
    })?;
    let [job] = <[Job; 1]>::try_from(document.jobs).map_err(|jobs| {
        unexpected_output("fio", "one job (--group_reporting)", Some(&format!("{} jobs", jobs.len())))
    })?;
    Ok(job)
}

#[cfg(test)]
mod tests;
