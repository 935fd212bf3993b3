//! SPDK's `bdevperf`, as of v24.01 (`examples/bdev/bdevperf`): SPDK's block layer over the kernel's io_uring or libaio, the
//! arms of "SPDK bdev performance over io_uring and AIO" (IJRASET 2024). Registered in `registry`.
//! It prints rates with two decimals but no number of I/Os, which is computed from rate and time.

use std::path::{Path, PathBuf};
use std::process::Command;

use iolane::path::{CompletionMode, PathOptions};
use iolane::{Error, Result, TargetKind};
use serde_json::{Value, json};

use super::output::unexpected_output;
use super::peer::{Load, LoadTarget, Peer, PeerMeasurement};
use super::spdk::{self, row};

pub(super) struct Bdevperf;

const NAME: &str = "bdevperf";

impl Peer for Bdevperf {
    fn name(&self) -> &'static str {
        NAME
    }

    fn remedy(&self) -> &'static str {
        spdk::REMEDY
    }

    fn needs_huge_pages(&self) -> bool {
        true
    }

    fn version_argument(&self) -> Option<&'static str> {
        Some("--version")
    }

    fn opens_for_writing_to_read(&self, interface: &str) -> bool {
        // bdev_uring always does; bdev_aio has an option (`bdev_uring_open`, `bdev_aio_open`).
        interface == "io_uring"
    }

    fn cannot(&self, load: &Load<'_>) -> Option<String> {
        let path = load.path;
        let is_plain = !path.polls_submissions()
            && matches!(path.completion, CompletionMode::Default | CompletionMode::Interrupt)
            && PathOptions { plain: false, ..path.options } == PathOptions::default();
        if !is_plain || method(load).is_none() {
            return Some(format!("its only paths are io_uring and libaio without options, not {path}"));
        }
        if let Some(target) = load.targets.iter().find(|target| !is_bdev(target.kind)) {
            return Some(format!("its bdevs are files and block devices; {} is neither", target.shown));
        }
        if !load.block_bytes.is_multiple_of(512) {
            return Some("its block size must be a multiple of 512 bytes".into());
        }
        if load.targets.len() > 1 && load.threads != load.targets.len() {
            return Some("with several targets it runs exactly one thread per target".into());
        }
        spdk::cannot(load)
    }

    fn differences(&self, load: &Load<'_>) -> Vec<String> {
        let mut lines = spdk::differences(load);
        if !load.warmup.is_zero() {
            lines.push("it has no warm-up".into());
        }
        if !load.access.writes() && self.opens_for_writing_to_read(load.path.interface()) {
            lines.push("it opens targets for writing even if it only reads".into());
        }
        lines
    }

    fn command(&self, program: &Path, load: &Load<'_>, folder: &Path) -> Result<Command> {
        let config = folder.join("bdevs.json");
        let names = load.targets.iter().enumerate().map(|(index, target)| file_name(index, target, folder));
        let written = names.collect::<std::io::Result<Vec<PathBuf>>>().and_then(|names| {
            let configuration = configuration(load, &names);
            std::fs::write(&config, configuration.to_string())
        });
        written.map_err(|error| Error::system(format!("writing {}", config.display()), error))?;
        let mut bdevperf = spdk::command(program);
        bdevperf.args(["-m", &spdk::core_mask(load, load.threads)]).arg("-c").arg(config);
        bdevperf.args(["-q", &load.depth.to_string(), "-o", &load.block_bytes.to_string(), "-w", load.access.name()]);
        if load.access.is_mixed() {
            bdevperf.args(["-M", &load.read_percent.to_string()]);
        }
        bdevperf.args(["-t", &spdk::whole_seconds(load.runtime).to_string()]);
        if load.threads > load.targets.len() {
            // All cores share the one bdev.
            bdevperf.arg("-C");
        }
        Ok(bdevperf)
    }

    fn parse(&self, output: &str, load: &Load<'_>) -> Result<PeerMeasurement> {
        let JobTable { elapsed_s, rows, total: [iops, _, failed_per_s, overdue_per_s, mean_us, min_us, max_us] } =
            table(output)?;
        if rows != load.threads {
            let expected = format!("a row for each of {} threads", load.threads);
            return Err(unexpected_output(NAME, &expected, Some(&format!("{rows} rows"))));
        }
        let ios = (iops * elapsed_s).round() as u64;
        let bytes = ios.saturating_mul(load.block_bytes.into());
        Ok(PeerMeasurement {
            ios,
            errors: ((failed_per_s + overdue_per_s) * elapsed_s).round() as u64,
            bytes,
            elapsed_s,
            iops,
            bytes_per_s: bytes as f64 / elapsed_s,
            min_ns: min_us * 1e3,
            mean_ns: mean_us * 1e3,
            max_ns: max_us * 1e3,
            latency: None,
            user_s: None,
            system_s: None,
        })
    }
}

fn is_bdev(kind: TargetKind) -> bool {
    matches!(kind, TargetKind::File | TargetKind::Block)
}

/// The SPDK RPC that creates a bdev for the path of the load.
fn method(load: &Load<'_>) -> Option<&'static str> {
    match load.path.interface() {
        "io_uring" => Some("bdev_uring_create"),
        "libaio" => Some("bdev_aio_create"),
        _ => None,
    }
}

/// The name by which SPDK opens a target. It looks a block device up in sysfs by the last part of that name, so that a device
/// gets a link with the kernel's name in the run's folder.
fn file_name(index: usize, target: &LoadTarget, folder: &Path) -> std::io::Result<PathBuf> {
    let Some(kernel_name) = &target.kernel_name else { return Ok(target.name.clone().into()) };
    let folder = folder.join(format!("b{index}"));
    std::fs::create_dir(&folder)?;
    let link = folder.join(kernel_name);
    std::os::unix::fs::symlink(&target.name, &link)?;
    Ok(link)
}

/// SPDK's configuration: one bdev per target, opened by these names.
fn configuration(load: &Load<'_>, names: &[PathBuf]) -> Value {
    // The block size of a bdev must not be below that of the device, and requests are multiples of it. A file has none.
    let block_bytes = if load.block_bytes.is_multiple_of(4096) { 4096 } else { 512 };
    let bdev = |(index, name): (usize, &PathBuf)| {
        let mut params =
            json!({ "name": format!("b{index}"), "filename": name.to_string_lossy(), "block_size": block_bytes });
        if method(load) == Some("bdev_aio_create") {
            params["readonly"] = (!load.access.writes()).into();
        }
        json!({ "method": method(load), "params": params })
    };
    let bdevs: Vec<Value> = names.iter().enumerate().map(bdev).collect();
    json!({ "subsystems": [{ "subsystem": "bdev", "config": bdevs }] })
}

/// The table at the end of the output.
struct JobTable {
    /// Of the longest job.
    elapsed_s: f64,
    /// The number of jobs.
    rows: usize,
    /// IOPS, MiB/s, failures and timeouts per second, and the mean, minimum and maximum latency in microseconds.
    total: [f64; 7],
}

fn table(output: &str) -> Result<JobTable> {
    let output = spdk::whole_lines(output);
    let first = output.lines().find(|line| !line.trim().is_empty());
    let mut lines = output.lines().map(str::trim);
    if !lines.any(|line| line.starts_with("Device Information")) {
        return Err(unexpected_output(NAME, "the table `Device Information : runtime(s) IOPS ...`", first));
    }
    let mut rows: Vec<[f64; 8]> = Vec::new();
    for line in lines.filter(|line| !line.starts_with("====") && !line.starts_with("Job:")) {
        if !line.starts_with("Total ") {
            let numbers = row(line);
            rows.push(numbers.ok_or_else(|| unexpected_output(NAME, "eight numbers of a job", Some(line)))?);
            continue;
        }
        let total: [f64; 7] =
            row(line).ok_or_else(|| unexpected_output(NAME, "seven numbers of the total", Some(line)))?;
        let elapsed_s = rows.iter().map(|[elapsed_s, ..]| *elapsed_s).fold(0.0, f64::max);
        let [iops, ..] = total;
        if elapsed_s <= 0.0 || iops <= 0.0 || !spdk::is_sum(iops, rows.iter().map(|[_, iops, ..]| *iops)) {
            return Err(unexpected_output(NAME, "the sum of the jobs above", Some(line)));
        }
        return Ok(JobTable { elapsed_s, rows: rows.len(), total });
    }
    Err(unexpected_output(NAME, "a row of totals", None))
}

#[cfg(test)]
mod tests;
