//! A process that is watched: what it does to its drive, as text, and how to measure that load.

use std::time::Duration;

use iolane::Result;
use iolane_measure::observe::{DriveInUse, Observed, Requests, observe};
use iolane_measure::telemetry::bytes_of;
use iolane_study::advise::{ObservedDocument, ObservedLoad};
use iolane_study::format;

use crate::interrupt::STOP;
use crate::output::{Bar, or_unavailable, wrap};

/// What a process was seen to do.
pub(super) struct Watched {
    observed: Observed,
}

impl Watched {
    /// Watches a process, with a bar.
    pub(super) fn watch(pid: u32, time: Duration) -> Result<Self> {
        let _bar = Bar::time(time, &format!("watching process {pid}"));
        Ok(Self { observed: observe(pid, time, &STOP)? })
    }

    /// The same as a load, or why that is unknown.
    pub(super) fn load(&self) -> Result<ObservedLoad> {
        ObservedLoad::of(&self.observed)
    }

    pub(super) fn document(&self) -> ObservedDocument {
        ObservedDocument::new(self.observed.clone(), self.load().ok().as_ref())
    }

    /// What was seen.
    pub(super) fn text(&self) -> String {
        let Observed { pid, program, seconds, threads, cores, ended, drives, .. } = &self.observed;
        let end = if *ended { ", until it ended" } else { "" };
        let mut text = format!("Process {pid} ({program}), watched for {seconds:.1} s{end}\n\n");
        let mut line =
            |key: &str, value: &str| text.push_str(&format!("{}\n", wrap(&format!("  {key:<11} {value}"), 14)));
        let Some(drive) = drives.first() else { return text };
        line("drive", &on_drive(drive, drives.len()));
        line("reads", &requests(drive.reads));
        line("writes", &requests(drive.writes));
        line("flushes", &or_unavailable(drive.flushes_per_s, |flushes| format!("{}/s", format::count(flushes))));
        line("in flight", &in_flight(drive));
        line("of which", &share(&self.observed));
        line("calls", &calls(&self.observed));
        line("threads", &format!("{threads} with I/O; {cores:.2} cores"));
        line("path", &format!("{}: {}", self.observed.path(), self.observed.path_in_words()));
        line("as a load", &self.load().map_or_else(|_| "unknown".into(), |load| load.options()));
        text
    }

    /// The bytes that the process has moved so far; `None` if it is gone.
    pub(super) fn moved(&self) -> Option<u64> {
        let pid = i32::try_from(self.observed.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.and_then(|pid| bytes_of(pid).ok())
    }

    /// A warning, if it moved bytes while something was measured, or may have: by what it had moved before and after.
    pub(super) fn went_on(&self, before: Option<u64>, after: Option<u64>) -> Option<String> {
        let pid = self.observed.pid;
        let Some(after) = after else {
            before?;
            return Some(format!(
                "process {pid} ended during the measurement: if it went on until then, both disturbed each other"
            ));
        };
        // What it moves in a hundredth of a second is no load.
        let moved = after.saturating_sub(before?);
        let is_busy = moved as f64 > 0.01 * self.observed.stored_bytes_per_s();
        is_busy.then(|| {
            let moved = format::bytes(moved);
            format!("process {pid} went on during the measurement and moved {moved}: both disturbed each other")
        })
    }

    /// How to measure that load.
    pub(super) fn next_step(&self, load: &ObservedLoad) -> String {
        let (data, allow) = match load.access.writes() {
            true => (" whose data may be destroyed", " --allow-writes TARGET"),
            false => ("", ""),
        };
        let cached = match self.observed.drives.first() {
            Some(drive) if drive.direct_files == 0 => {
                " The process uses the page cache, which the measurement bypasses."
            }
            _ => "",
        };
        let text = format!(
            "To measure each path with this load while the process rests, name a file or a drive of the same kind{data}. \
             The order of offsets is not visible; for scans, change --rw. Sizes are means.{cached}"
        );
        format!("\n{}\n\n  iolane advise --target TARGET{allow} {}\n", wrap(&text, 0), load.options())
    }
}

fn on_drive(drive: &DriveInUse, drives: usize) -> String {
    let DriveInUse { name, files, direct_files, .. } = drive;
    let others = match drives.saturating_sub(1) {
        0 => String::new(),
        1 => "; 1 other device has less traffic".into(),
        others => format!("; {others} other devices have less traffic"),
    };
    let files = if *files == 1 { "1 open file".to_owned() } else { format!("{files} open files") };
    format!("{name}: {files}, {direct_files} with O_DIRECT{others}")
}

fn requests(requests: Requests) -> String {
    match requests.per_s {
        0.0 => "none".into(),
        per_s => {
            format!("{}/s, {} on average", format::count(per_s), format::bytes(requests.mean_bytes.round() as u64))
        }
    }
}

fn in_flight(drive: &DriveInUse) -> String {
    let in_flight = drive.in_flight;
    let busy = format!("{:.0} % of {} looks found a request", 100.0 * in_flight.busy, in_flight.looks);
    match in_flight.max {
        0 => busy,
        max => format!("p50 {}, p95 {}, max {max}; {busy}", in_flight.p50, in_flight.p95),
    }
}

/// Whether what the drive did is what the process asked for.
fn share(observed: &Observed) -> String {
    const NEARLY_ALL: f64 = 0.9;
    let others = |share| if share < NEARLY_ALL { "; the lines above include those of others" } else { "" };
    let words = |share| format!("{:.0} % of the bytes are this process's{}", 100.0 * share, others(share));
    or_unavailable(observed.share_of_bytes(), words)
}

/// The calls of the process, which the page cache may answer.
fn calls(observed: &Observed) -> String {
    let both = [("read", observed.read_calls), ("write", observed.write_calls)];
    let some = both.into_iter().filter(|(_, calls)| calls.per_s > 0.0);
    let words: Vec<String> = some.map(|(name, calls)| format!("{name}: {}", requests(calls))).collect();
    if words.is_empty() { "none that block; io_uring and Linux AIO are not counted".into() } else { words.join("; ") }
}
