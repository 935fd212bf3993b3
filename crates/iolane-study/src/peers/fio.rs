//! fio (<https://fio.readthedocs.io>), 3.x: every path that it has an engine for, one fio thread for each of iolane's.
//! Registered in `peers`. What its engines do beside what their options say, fio decides: its io_uring is neither
//! iolane's default nor quite `plain`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use iolane::path::{CompletionMode, IoPath};
use iolane::units::CpuList;
use iolane::{Error, Result};
use serde::Deserialize;

use super::{Load, Measured, Peer, foreign_options, is_file_name, not_understood};
use crate::latencies::new_histogram;

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
        if let Some(target) = load.targets.iter().find(|target| !is_file_name(target)) {
            return Some(format!("fio opens files and devices, and {target} is neither"));
        }
        let is_generic = |target: &String| target.starts_with("/dev/ng");
        let passthrough = load.path.interface() == "io_uring_cmd";
        (passthrough && !load.targets.iter().all(is_generic))
            .then(|| "fio's io_uring_cmd takes /dev/ngXnY alone".to_owned())
    }

    fn differences(&self, load: &Load<'_>) -> Vec<String> {
        let mut lines = vec!["fio sets io_uring and its memory up in its own way".to_owned()];
        if !load.access.is_random() && load.threads > load.targets.len() {
            lines.push("fio's threads on one target all begin at its start".into());
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
        fio.arg("--time_based").arg(format!("--runtime={}us", load.runtime.as_micros()));
        if !load.warmup.is_zero() {
            fio.arg(format!("--ramp_time={}us", load.warmup.as_micros()));
        }
        // From hand-over to seen completion, as iolane counts; with json+ the buckets follow the percentiles (fio(1)).
        fio.args(["--lat_percentiles=1", "--clat_percentiles=0"]);
        fio.args(engine);
        for thread in 0..load.threads {
            fio.args(thread_arguments(load, thread));
        }
        Ok(fio)
    }

    fn parse(&self, output: &str, load: &Load<'_>) -> Result<Measured> {
        let job = group(output)?;
        let sides = [&job.read, &job.write];
        let sum = |of: fn(&Side) -> u64| sides.into_iter().map(of).fold(0, u64::saturating_add);
        let wrong = |expected: String, found: String| Err(not_understood("fio", &expected, Some(&found)));
        if job.error != 0 {
            return wrong("a job without an error".into(), format!("\"error\" : {}", job.error));
        }
        let (begun, ios) = (sum(|side| side.total_ios), sum(|side| side.lat_ns.count));
        let elapsed_s = job.read.runtime.max(job.write.runtime) as f64 / 1e3;
        if ios == 0 || elapsed_s == 0.0 {
            return wrong("I/Os".into(), format!("\"N\" : {ios}"));
        }
        // What was in flight when the warm-up ended is in the one sum and not in the other.
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
        let (user_s, system_s) = job.processor_s();
        Ok(Measured {
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

/// The largest seed that fio takes: its numbers have a sign.
const SEED_MAX: u64 = i64::MAX as u64;

/// The engine of a path and its options, or why fio has none.
fn engine(path: &IoPath) -> Result<Vec<&'static str>, String> {
    let polls = match path.completion {
        CompletionMode::Default | CompletionMode::Interrupt => false,
        CompletionMode::Cpoll => true,
        CompletionMode::Hybrid => return Err("fio has no option for hybrid polling".into()),
    };
    if let Some(cause) = foreign_options(path) {
        return Err(cause);
    }
    let is_ring = ["io_uring", "io_uring_cmd"].contains(&path.interface());
    let registers = path.options.fixed_buffers || path.options.fixed_files;
    let arguments = match path.interface() {
        _ if !is_ring && (registers || path.polls_submissions()) => None,
        "psync" if polls => Some(vec!["--ioengine=pvsync2", "--hipri=1"]),
        "psync" => Some(vec!["--ioengine=psync"]),
        "posix_aio" if !polls => Some(vec!["--ioengine=posixaio"]),
        "libaio" if !polls => Some(vec!["--ioengine=libaio"]),
        "io_uring" => Some(vec!["--ioengine=io_uring"]),
        "io_uring_cmd" => Some(vec!["--ioengine=io_uring_cmd", "--cmd_type=nvme"]),
        _ => None,
    };
    let mut arguments = arguments.ok_or_else(|| format!("fio has no engine for {path}"))?;
    let options = [
        (is_ring && polls, "--hipri=1"),
        (path.polls_submissions(), "--sqthread_poll=1"),
        (path.options.fixed_buffers, "--fixedbufs=1"),
        (path.options.fixed_files, "--registerfiles=1"),
    ];
    arguments.extend(options.iter().filter(|(set, _)| *set).map(|(_, argument)| *argument));
    Ok(arguments)
}

/// What is said of one thread: its target and its cpus, taken in turn as iolane's threads take them.
fn thread_arguments(load: &Load<'_>, thread: usize) -> Vec<String> {
    let target = &load.targets[thread % load.targets.len()];
    // A colon ends one file's name and begins another's.
    let mut arguments = vec![format!("--name=thread{thread}"), format!("--filename={}", target.replace(':', "\\:"))];
    arguments.extend(load.size.map(|bytes| format!("--size={bytes}")));
    arguments.extend(cpu_of(load.cpus, thread).map(|cpu| format!("--cpus_allowed={cpu}")));
    let spoll_cpu = cpu_of(load.spoll_cpus, thread).filter(|_| load.path.polls_submissions());
    arguments.extend(spoll_cpu.map(|cpu| format!("--sqthread_poll_cpu={cpu}")));
    arguments
}

fn cpu_of(cpus: Option<&CpuList>, thread: usize) -> Option<u32> {
    let cpus = cpus?.cpus();
    cpus.get(thread.checked_rem(cpus.len())?).copied()
}

/// What is read of fio's JSON; the names are fio's.
#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    /// An errno.
    error: i64,
    /// Milliseconds of all threads, added up.
    job_runtime: u64,
    /// Percentage of it.
    usr_cpu: f64,
    sys_cpu: f64,
    read: Side,
    write: Side,
}

impl Job {
    /// Seconds in user mode and in the kernel.
    fn processor_s(&self) -> (f64, f64) {
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
    /// Those that began after the warm-up.
    total_ios: u64,
    lat_ns: Latency,
}

/// From hand-over to seen completion: fio's slat and clat together.
#[derive(Deserialize)]
struct Latency {
    min: u64,
    max: u64,
    mean: f64,
    /// I/Os that ended after the warm-up.
    #[serde(rename = "N")]
    count: u64,
    /// How often each latency came; the keys are the middles of buckets that are 1/64 of their value wide (fio's `stat.h`).
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

/// The one job that all threads are reported as.
fn group(output: &str) -> Result<Job> {
    // Notes may stand before the object, and after it.
    let first = output.lines().find(|line| !line.trim().is_empty());
    let begin = match output.starts_with('{') {
        true => 0,
        false => 1 + output.find("\n{").ok_or_else(|| not_understood("fio", "a JSON object", first))?,
    };
    let json = &output[begin..];
    let document = Document::deserialize(&mut serde_json::Deserializer::from_str(json)).map_err(|error| {
        let line = json.lines().nth(error.line().saturating_sub(1)).filter(|_| !error.is_eof());
        not_understood("fio", &format!("its JSON ({error})"), line)
    })?;
    let [job] = <[Job; 1]>::try_from(document.jobs)
        .map_err(|jobs| not_understood("fio", "one job (--group_reporting)", Some(&format!("{} jobs", jobs.len()))))?;
    Ok(job)
}

#[cfg(test)]
mod tests;
