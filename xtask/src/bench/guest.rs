//! What the benchmarks in guests share: the commands they give, what they make of the answers, and the table of a page that
//! they renew.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use iolane_core::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::session::PROGRAM;
use iolane_lab::{Accelerator, Ended, Events, GuestCommand, Job, Kernel, KernelSource, Lab, Machine, Stream};
use serde_json::Value;

use crate::child::root;

/// Where fio is in a guest.
pub(super) const FIO: &str = "/bin/fio";

/// The page that has the figures.
pub(super) fn page_path() -> PathBuf {
    root().join("docs/performance.md")
}

/// Random reads by iolane, its record on the standard output.
pub(super) fn iolane_command(target: &str, path: &str, depth: u32, more: &[&str]) -> GuestCommand {
    iolane_command_after("50ms", target, path, depth, more)
}

/// The same after a warm-up of this length.
pub(super) fn iolane_command_after(warmup: &str, target: &str, path: &str, depth: u32, more: &[&str]) -> GuestCommand {
    let depth = depth.to_string();
    let words = [PROGRAM, "run", "--target", target, "--path", path, "--depth", &depth, "--warmup", warmup];
    GuestCommand::new(words.iter().chain(&["--json", "-"]).chain(more).copied())
}

/// The same by fio, for a second.
pub(super) fn fio_command(target: &str, arguments: &str, depth: u32) -> GuestCommand {
    let job = format!(
        "{FIO} --name=iolane --filename={target} --direct=1 --rw=randread --bs=4k --iodepth={depth} {arguments} \
         --norandommap --time_based --runtime=1 --output-format=json",
    );
    GuestCommand::new(job.split_whitespace())
}

/// The rate in iolane's record.
pub(super) fn iolane_iops(output: &str) -> Result<f64> {
    let record: Value = serde_json::from_str(output).context("reading iolane's record")?;
    record["result"]["iops"].as_f64().context("iolane's record has no IOPS")
}

/// How long the run's telemetry was read, as a share of the time that was measured.
pub(super) fn telemetry_share(output: &str) -> Result<f64> {
    let record: Value = serde_json::from_str(output).context("reading iolane's record")?;
    let seconds = |value: &Value, what| value.as_f64().with_context(|| format!("iolane's record has no {what}"));
    let cost_s = seconds(&record["telemetry"]["cost_s"]["value"], "cost of its telemetry")?;
    Ok(cost_s / seconds(&record["result"]["elapsed_s"], "time")?)
}

/// The rate in fio's report.
pub(super) fn fio_iops(output: &str) -> Result<f64> {
    // Notes may come before the document.
    let start = output.find('{').context("fio printed no JSON")?;
    let report: Value = serde_json::from_str(&output[start..]).context("reading fio's report")?;
    let iops = report["jobs"][0]["read"]["iops"].as_f64().context("fio's report has no IOPS")?;
    ensure!(iops > 0.0, "fio made no request");
    Ok(iops)
}

/// The kernel of the figures in docs/performance.md.
pub(super) fn kernel(cache: &Cache) -> Result<Kernel> {
    kernel_of("6.1", cache)
}

/// The kernel of this version.
pub(super) fn kernel_of(version: &str, cache: &Cache) -> Result<Kernel> {
    let source: KernelSource = version.parse()?;
    Ok(Kernel::find(&source, cache, &mut |line: &str| eprintln!("{line}"))?)
}

/// fio, for a guest that runs it.
pub(super) fn fio() -> (PathBuf, PathBuf) {
    (PathBuf::from("/usr/bin/fio"), PathBuf::from(FIO))
}

/// A guest with iolane.
pub(super) fn lab<'a>(iolane: &Path, kernel: &Kernel, cache: &'a Cache, machine: Machine) -> Lab<'a> {
    Lab {
        machine,
        kernel: kernel.clone(),
        iolane: iolane.to_owned(),
        files: Vec::new(),
        programs: Vec::new(),
        modules: &[],
        accelerator: None,
        plugin: None,
        timeout: Duration::from_secs(600),
        cache,
    }
}

/// The same with one processor, no drive, and a clock that advances one nanosecond per instruction.
pub(super) fn exact_lab<'a>(iolane: &Path, kernel: &Kernel, cache: &'a Cache) -> Lab<'a> {
    lab(iolane, kernel, cache, Machine { exact: true, ..Machine::new(1, Bytes(2 << 30), Vec::new()) })
}

/// Runs the commands in one guest and gives what each printed.
pub(super) fn outputs(lab: &Lab<'_>, commands: Vec<GuestCommand>) -> Result<Vec<String>> {
    outputs_where(lab, commands, &[SUCCESS])
}

/// The same where a path may be unavailable; the command then prints nothing.
pub(super) fn outputs_of_available(lab: &Lab<'_>, commands: Vec<GuestCommand>) -> Result<Vec<String>> {
    outputs_where(lab, commands, &[SUCCESS, UNAVAILABLE])
}

/// Exit codes of iolane.
const SUCCESS: Ended = Ended::Code(0);
const UNAVAILABLE: Ended = Ended::Code(3);

fn outputs_where(lab: &Lab<'_>, commands: Vec<GuestCommand>, allowed: &'static [Ended]) -> Result<Vec<String>> {
    let job = Job { commands, folder: "/".into(), ..Job::default() };
    let mut printed = Printed { outputs: vec![String::new(); job.commands.len()], allowed, failed: None };
    lab.run(&job, &mut printed, &AtomicBool::new(false))?;
    match printed.failed {
        Some(failure) => bail!("in the guest: {failure}"),
        None => Ok(printed.outputs),
    }
}

/// The page with another text between the marks of this name.
pub(super) fn renewed(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = marks(name);
    let (before, rest) = page.split_once(&begin).with_context(|| format!("the page has no mark {begin}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("the page has no mark {end}"))?;
    Ok(format!("{before}{begin}\n{text}{end}{after}"))
}

/// What stands between the marks of this name; nothing if they are not there.
pub(super) fn between<'a>(page: &'a str, name: &str) -> &'a str {
    let (begin, end) = marks(name);
    let after = page.split_once(&begin).map_or("", |(_, rest)| rest);
    after.split_once(&end).map_or(after, |(text, _)| text)
}

fn marks(name: &str) -> (String, String) {
    (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"))
}

/// Keeps what commands print, and shows how far the guest is.
struct Printed {
    outputs: Vec<String>,
    /// How commands may end.
    allowed: &'static [Ended],
    failed: Option<String>,
}

impl Events for Printed {
    fn note(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn up(&mut self, release: &str, accelerator: Accelerator, took: Duration) {
        eprintln!("Linux {release} on {accelerator}, up in {:.1} s", took.as_secs_f64());
    }

    fn output(&mut self, command: usize, stream: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        match (stream, self.outputs.get_mut(command)) {
            (Stream::Output, Some(output)) => output.push_str(&text),
            _ => eprint!("{text}"),
        }
    }

    fn ended(&mut self, command: usize, how: Ended) {
        eprintln!("  {} of {} runs", command + 1, self.outputs.len());
        if !self.allowed.contains(&how) {
            self.failed.get_or_insert(format!("run {} ended with {how:?}", command + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_programs_print() {
        assert_eq!(iolane_iops(r#"{"result":{"iops":200000.0}}"#).unwrap(), 200_000.0);
        assert_eq!(fio_iops("note\n{\"jobs\":[{\"read\":{\"iops\":100000.0}}]}").unwrap(), 100_000.0);
        assert!(fio_iops("{\"jobs\":[{\"read\":{\"iops\":0.0}}]}").is_err());
        assert!(iolane_iops("").is_err());
        let record = r#"{"telemetry":{"cost_s":{"value":0.002}},"result":{"elapsed_s":0.5}}"#;
        assert_eq!(telemetry_share(record).unwrap(), 0.004);
        assert!(telemetry_share(r#"{"result":{"elapsed_s":0.5}}"#).is_err());
    }

    #[test]
    fn a_page_is_renewed_between_the_marks_and_nowhere_else() {
        let page = "before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n";
        let renewed = renewed(page, "figures", "new\n").unwrap();
        assert_eq!(renewed, page.replace("old", "new"));
        assert_eq!(between(&renewed, "figures"), "\nnew\n");
        assert!(super::renewed(page, "others", "").is_err() && between(page, "others").is_empty());
    }
}
