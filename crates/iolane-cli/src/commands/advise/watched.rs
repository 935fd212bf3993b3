//! A process that is watched: what it does to its drive, as text, and how to measure that load.

use std::time::Duration;

use iolane_measure::observe::{DriveInUse, Observed, Requests, observe};
use iolane_study::advise::{ObservedDocument, ObservedLoad};
use iolane_study::format;

use crate::interrupt::STOP;
use crate::output::{Bar, or_unavailable, wrap};

/// What a process was seen to do, and that as a load.
pub(super) struct Watched {
    pub(super) observed: Observed,
    pub(super) load: ObservedLoad,
}

impl Watched {
    /// Watches a process, with a bar.
    pub(super) fn watch(pid: u32, time: Duration) -> anyhow::Result<Self> {
        let observed = {
            let _bar = Bar::time(time, &format!("watching process {pid}"));
            observe(pid, time, &STOP)?
        };
        let load = ObservedLoad::of(&observed)?;
        Ok(Self { observed, load })
    }

    pub(super) fn document(&self) -> ObservedDocument {
        ObservedDocument::new(self.observed.clone(), &self.load)
    }

    /// What was seen.
    pub(super) fn text(&self) -> String {
        let Observed { pid, program, seconds, threads, cores, interface, drives, .. } = &self.observed;
        let mut text = format!("Process {pid} ({program}), watched for {seconds:.1} s\n\n");
        let mut line =
            |key: &str, value: &str| text.push_str(&format!("{}\n", wrap(&format!("  {key:<11} {value}"), 14)));
        let Some(drive) = drives.first() else { return text };
        line("drive", &on_drive(drive, drives.len()));
        line("reads", &requests(drive.reads));
        line("writes", &requests(drive.writes));
        line("flushes", &or_unavailable(drive.flushes_per_s, |flushes| format!("{}/s", format::count(flushes))));
        line("in flight", &in_flight(drive));
        line("of which", &share(&self.observed));
        line("page cache", &page_cache(&self.observed, drive));
        line("threads", &format!("{threads} with I/O; {cores:.2} cores"));
        line("path", &format!("{}: {}", interface.path(), interface.in_words()));
        line("as a load", &self.load.options());
        text
    }

    /// How to measure what was seen.
    pub(super) fn next_step(&self) -> String {
        let (text, allow) = match self.load.access.writes() {
            true => (
                "To measure each path with this load while the process rests, name a drive or a file of the same kind whose \
                 data may be destroyed. The order of offsets is not visible; for scans, change --rw.",
                " --allow-writes TARGET",
            ),
            false => (
                "To measure each path with this load while the process rests, name a file or a drive of the same kind. The \
                 order of offsets is not visible; for scans, change --rw.",
                "",
            ),
        };
        format!("\n{}\n\n  iolane advise --target TARGET{allow} {}\n", wrap(text, 0), self.load.options())
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
    let others = |share| if share < NEARLY_ALL { "; requests above include those of others" } else { "" };
    let words = |share| format!("{:.0} % of the bytes are this process's{}", 100.0 * share, others(share));
    or_unavailable(observed.share_of_bytes(), words)
}

fn page_cache(observed: &Observed, drive: &DriveInUse) -> String {
    if drive.direct_files == drive.files {
        return "bypassed".into();
    }
    let [called, stored] = [observed.called_bytes_per_s, observed.stored_bytes_per_s()].map(format::bytes_per_s);
    match observed.called_bytes_per_s {
        0.0 => "in use for some files".into(),
        _ => format!("in use; calls ask for {called}, of which {stored} reach drives"),
    }
}
