//! What SPDK's tools have in common: installation, limits, CPU masks, and the rows of their tables. Called by
//! `spdk_nvme_perf` and `bdevperf`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::peer::Load;

pub(super) const REMEDY: &str =
    "build SPDK (https://spdk.io/doc/getting_started.html) and put its build folders on PATH";

/// A command of an SPDK program. It is linked with OpenSSL, which refuses to start without its configuration; nothing here is
/// encrypted, so that an empty one is enough.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("OPENSSL_CONF", "/dev/null");
    command
}

/// Where both tools differ from any load.
pub(super) fn differences(load: &Load<'_>) -> Vec<String> {
    let mut lines = vec!["the seed of SPDK's tools cannot be set".to_owned()];
    if whole_seconds(load.runtime) != load.runtime.as_secs_f64() as u64 {
        lines.push(format!("it ran for {} s: it accepts only whole seconds", whole_seconds(load.runtime)));
    }
    if !load.access.is_random() && load.threads > load.targets.len() {
        lines.push("its threads on one target all start at offset 0".into());
    }
    lines
}

/// Why neither tool can run a load.
pub(super) fn cannot(load: &Load<'_>) -> Option<String> {
    if load.size.is_some() {
        return Some("it always uses the whole target".into());
    }
    if !load.direct {
        return Some("it always bypasses the page cache".into());
    }
    let cpus = load.cpus.map_or(usize::MAX, |cpus| cpus.cpus().len());
    (cpus < load.threads).then(|| format!("it needs one CPU per thread: {} threads, {cpus} CPUs", load.threads))
}

/// SPDK's tools accept whole seconds; rounded up.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The first `threads` CPUs of the load, or those from CPU 0 on if it has none, as a mask: `0x5` is CPUs 0 and 2.
pub(super) fn core_mask(load: &Load<'_>, threads: usize) -> String {
    let cpus: Vec<u32> = match load.cpus {
        Some(cpus) => cpus.cpus().iter().copied().take(threads).collect(),
        None => (0..threads as u32).collect(),
    };
    let digits = cpus.iter().max().map_or(1, |cpu| *cpu as usize / 4 + 1);
    let mut mask = vec![0u32; digits];
    for cpu in cpus {
        mask[digits - 1 - cpu as usize / 4] |= 1 << (cpu % 4);
    }
    let digits = mask.into_iter().filter_map(|digit| char::from_digit(digit, 16));
    format!("0x{}", digits.collect::<String>())
}

/// The output up to its last newline: a truncated number would parse as a smaller one.
pub(super) fn whole_lines(output: &str) -> &str {
    &output[..output.rfind('\n').map_or(0, |end| end + 1)]
}

/// The numbers of a table row after the last colon; `None` unless there are exactly `COLUMNS`.
pub(super) fn row<const COLUMNS: usize>(line: &str) -> Option<[f64; COLUMNS]> {
    let (_, columns) = line.rsplit_once(':')?;
    let numbers: Option<Vec<f64>> = columns.split_whitespace().map(number).collect();
    numbers?.try_into().ok()
}

/// A finite number without sign or exponent.
pub(super) fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

/// Whether a total is the sum of its parts, each printed with two decimals.
pub(super) fn is_sum(total: f64, parts: impl Iterator<Item = f64>) -> bool {
    let (sum, count) = parts.fold((0.0, 0.0), |(sum, count), part| (sum + part, count + 1.0));
    (total - sum).abs() <= 0.006 * (count + 1.0) + total * 1e-9
}
