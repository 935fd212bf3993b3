//! SPDK's `spdk_nvme_perf`, as of v24.01 (`app/spdk_nvme_perf`): its user-space NVMe driver, on controllers bound to vfio-pci.
//! Registered in `registry`. Latency is from submission to reaped completion, as in iolane.

use std::path::Path;
use std::process::Command;
use std::str::Lines;

use iolane::path::{CompletionMode, PathOptions};
use iolane::{Error, Result};

use super::output::unexpected_output;
use super::peer::{Load, LoadTarget, Peer, PeerMeasurement};
use super::spdk::{self, number, row};
use iolane_measure::latencies::new_histogram;

pub(super) struct SpdkNvmePerf;

const NAME: &str = "spdk_nvme_perf";

impl Peer for SpdkNvmePerf {
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
        None
    }

    fn cannot(&self, load: &Load<'_>) -> Option<String> {
        let path = load.path;
        if path.interface() != "nvme" || path.polls_submissions() || path.options != PathOptions::default() {
            return Some(format!("its only path is nvme, not {path}"));
        }
        if !matches!(path.completion, CompletionMode::Default | CompletionMode::Iopoll) {
            return Some("it always polls".into());
        }
        let names_namespace = |target: &LoadTarget| target.name.contains(",ns=");
        if load.access.writes() && !load.targets.iter().all(names_namespace) {
            return Some("it writes to every namespace of a controller unless one is named (pci:BDF,ns=1)".into());
        }
        load.targets.iter().find_map(|target| transport(target).err()).or_else(|| spdk::cannot(load))
    }

    fn differences(&self, load: &Load<'_>) -> Vec<String> {
        let mut lines = spdk::differences(load);
        if load.targets.iter().any(|target| !target.name.contains("ns=")) {
            lines.push("it uses every namespace of a controller unless one is named (ns=1)".into());
        }
        let warmup_s = spdk::whole_seconds(load.warmup);
        if u128::from(warmup_s) * 1_000_000_000 != load.warmup.as_nanos() {
            lines.push(format!("it warmed up for {warmup_s} s: it accepts only whole seconds"));
        }
        lines
    }

    fn command(&self, program: &Path, load: &Load<'_>, _: &Path) -> Result<Command> {
        let mut perf = spdk::command(program);
        for target in load.targets {
            perf.arg("-r").arg(transport(target).map_err(|cause| Error::usage(NAME, cause))?);
        }
        perf.args(["-q", &load.depth.to_string(), "-o", &load.block_bytes.to_string(), "-w", load.access.name()]);
        if load.access.is_mixed() {
            perf.args(["-M", &load.read_percent.to_string()]);
        }
        perf.args(["-t", &spdk::whole_seconds(load.runtime).to_string()]);
        if !load.warmup.is_zero() {
            perf.args(["-a", &spdk::whole_seconds(load.warmup).to_string()]);
        }
        // The full histogram, because the table does not contain the number of I/Os.
        perf.args(["-LL", "-c", &spdk::core_mask(load, load.threads)]);
        Ok(perf)
    }

    fn parse(&self, output: &str, load: &Load<'_>) -> Result<PeerMeasurement> {
        let mut lines = spdk::whole_lines(output).lines();
        let DeviceTable { rows, total: [iops, _, mean_us, min_us, max_us] } = table(&mut lines)?;
        if rows != load.threads {
            let expected = format!("a row for each of {} threads", load.threads);
            return Err(unexpected_output(NAME, &expected, Some(&format!("{rows} rows"))));
        }
        let mut latency = new_histogram();
        let mut ios = 0u64;
        for _ in 0..rows {
            for Bucket { middle_ns, count, .. } in histogram(&mut lines)? {
                ios = ios.saturating_add(count);
                latency.saturating_record_n(middle_ns, count);
            }
        }
        let elapsed_s = ios as f64 / iops;
        let asked_s = spdk::whole_seconds(load.runtime) as f64;
        // The printed rate is that of the measured phase, without the warm-up.
        if (elapsed_s - asked_s).abs() > 0.1 * asked_s {
            let expected = format!("{:.0} I/Os in {asked_s} s at {iops} IOPS", iops * asked_s);
            return Err(unexpected_output(NAME, &expected, Some(&format!("{ios} in the histogram"))));
        }
        let bytes = ios.saturating_mul(load.block_bytes.into());
        Ok(PeerMeasurement {
            ios,
            errors: 0,
            bytes,
            elapsed_s,
            iops,
            bytes_per_s: bytes as f64 / elapsed_s,
            min_ns: min_us * 1e3,
            mean_ns: mean_us * 1e3,
            max_ns: max_us * 1e3,
            latency: Some(latency),
            user_s: None,
            system_s: None,
        })
    }
}

/// A target in SPDK's notation: transport, address and namespace of `pci:0000:00:04.0,ns=2`.
fn transport(target: &LoadTarget) -> Result<String, String> {
    let is_controller = target.kind == iolane::nvme::CONTROLLER;
    let rest = target.name.strip_prefix("pci:").filter(|_| is_controller);
    let rest = rest.ok_or_else(|| format!("it drives NVMe controllers; {} is not one", target.name))?;
    let (address, settings) = rest.split_once(',').unwrap_or((rest, ""));
    let bdf: iolane::nvme::Bdf = address.parse().map_err(|error: Error| error.to_string())?;
    let mut words = format!("trtype:PCIe traddr:{bdf}");
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let namespace = setting.strip_prefix("ns=").ok_or_else(|| format!("it has no option for `{setting}`"))?;
        words += &format!(" ns:{namespace}");
    }
    Ok(words)
}

/// The table of rates, one row per thread and device.
struct DeviceTable {
    rows: usize,
    /// IOPS, MiB/s, and the mean, minimum and maximum latency in microseconds.
    total: [f64; 5],
}

fn table(lines: &mut Lines<'_>) -> Result<DeviceTable> {
    let expected = "the table `Device Information : IOPS ...`";
    let first = lines.clone().find(|line| !line.trim().is_empty());
    if !lines.any(|line| line.starts_with("Device Information")) {
        return Err(unexpected_output(NAME, expected, first));
    }
    let mut rows: Vec<[f64; 5]> = Vec::new();
    for line in lines {
        if line.starts_with("====") {
            continue;
        }
        let is_total = line.starts_with("Total ");
        let Some(numbers) = row::<5>(line) else {
            return Err(unexpected_output(NAME, "five numbers of a device or of the total", Some(line)));
        };
        if !is_total {
            rows.push(numbers);
            continue;
        }
        let [iops, ..] = numbers;
        if iops <= 0.0 || !spdk::is_sum(iops, rows.iter().map(|[iops, ..]| *iops)) {
            return Err(unexpected_output(NAME, "the sum of the rows above", Some(line)));
        }
        return Ok(DeviceTable { rows: rows.len(), total: numbers });
    }
    Err(unexpected_output(NAME, "a row of totals", None))
}

struct Bucket {
    middle_ns: u64,
    count: u64,
    /// Percentage of all I/Os up to and including this bucket.
    cumulative: f64,
}

/// The next histogram, that of one thread on one namespace.
fn histogram(lines: &mut Lines<'_>) -> Result<Vec<Bucket>> {
    if !lines.any(|line| line.starts_with("Latency histogram for")) {
        return Err(unexpected_output(NAME, "a latency histogram (-LL) for each row of the table", None));
    }
    let body = lines.skip_while(|line| line.starts_with("====") || line.trim_start().starts_with("Range in us"));
    let mut buckets = Vec::new();
    for line in body.take_while(|line| !line.trim().is_empty()) {
        let parsed = bucket(line);
        buckets.push(parsed.ok_or_else(|| unexpected_output(NAME, "a bucket `1.0 - 2.0: 3.0% (4)`", Some(line)))?);
    }
    let total = buckets.iter().try_fold(0u64, |sum, bucket| sum.checked_add(bucket.count)).unwrap_or(u64::MAX);
    let mut so_far = 0u64;
    for bucket in &buckets {
        so_far = so_far.saturating_add(bucket.count);
        let percent = so_far as f64 * 100.0 / total as f64;
        // Percentages are printed with four decimals.
        if (percent - bucket.cumulative).abs() > 0.000_051 {
            let found = format!("{:.4}% ({})", bucket.cumulative, bucket.count);
            return Err(unexpected_output(NAME, &format!("a histogram's line at {percent:.4}%"), Some(&found)));
        }
    }
    Ok(buckets)
}

fn bucket(line: &str) -> Option<Bucket> {
    let (range, rest) = line.split_once(':')?;
    let (low, high) = range.split_once(" - ")?;
    let (low_us, high_us) = (number(low.trim())?, number(high.trim())?);
    let (cumulative, count) = rest.split_once('%')?;
    let count = count.trim().strip_prefix('(')?.strip_suffix(')')?.trim().parse().ok()?;
    let is_range = low_us < high_us;
    is_range.then_some(Bucket {
        middle_ns: (f64::midpoint(low_us, high_us) * 1e3).round() as u64,
        count,
        cumulative: number(cumulative.trim())?,
    })
}

#[cfg(test)]
mod tests;
