//! Warnings about a run, each with a kind, so that the same warning of several runs or arms is shown once.

use iolane::{Target, TargetKind};
use iolane_measure::checks::FAST_CLOCKS;
use iolane_measure::figures::RunFigure;
use iolane_measure::run::{RunOutcome, RunPlan};
use iolane_measure::telemetry::{limits_on, threads_are_ours_since_5_12};
use serde::{Deserialize, Serialize};

use super::disturbance::stood_still;
use crate::format;

/// The subject of a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    FailedRequests,
    ShortTransfers,
    LateRequests,
    Interrupted,
    RateSpins,
    NearFloor,
    UnwrittenParts,
    OnlyZeroes,
    FromMemory,
    SyscallCounts,
    Interrupts,
    SubmissionThreadSlept,
    Crowded,
    StoppedByQuota,
    Disturbed,
    /// Anything else, and kinds of other versions of iolane: two of these are equal if their texts are.
    #[serde(other)]
    Note,
}

/// A warning and its text, which contains figures of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub kind: WarningKind,
    pub text: String,
}

impl Warning {
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub fn note(text: impl Into<String>) -> Self {
        Self::new(WarningKind::Note, text)
    }

    /// That a run counts although something disturbed it.
    pub(crate) fn disturbed(why: &str) -> Self {
        Self::new(WarningKind::Disturbed, format!("measured on a disturbed machine: {why}"))
    }

    /// Whether both are about the same thing, if with different figures.
    pub fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && (self.kind != WarningKind::Note || self.text == other.text)
    }
}

/// The engine's count and the kernel's may differ by this share without a warning, because of signals or page faults.
const SYSCALL_DIFFERENCE_MAX: f64 = 0.01;
/// A polled path may see this many interrupts per I/O, caused by other users of the device. With more, a run warns and a study
/// repeats it.
pub(crate) const POLLED_INTERRUPTS_MAX: f64 = 0.1;

/// Of all requests, this share may transfer less than was asked for in a run that counts.
const SHORT_MAX: f64 = 0.01;

/// Whether more requests than this were short, so that the figures are not those of the load: of a file that was truncated meanwhile.
pub fn is_cut_short(short: u64, ios: u64) -> bool {
    short as f64 > SHORT_MAX * ios as f64
}

fn in_words_if_short(short: u64, ios: u64) -> String {
    let cause = match is_cut_short(short, ios) {
        true => {
            ": the target has become shorter, or its drive cuts transfers short; the figures are not those of the load"
        }
        false => "",
    };
    format!("{short} of {ios} requests transferred less than was asked for{cause}")
}

/// The warnings of one run.
pub(super) fn warnings(plan: &RunPlan, outcome: &RunOutcome) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = outcome.capabilities.note.iter().map(Warning::note).collect();
    let mut warn = |kind, text: String| warnings.push(Warning::new(kind, text));
    let tally = &outcome.tally;
    if let Some(first) = &tally.first_error {
        warn(WarningKind::FailedRequests, format!("{} requests failed; the first: {first}", tally.errors));
    }
    if tally.short > 0 {
        warn(WarningKind::ShortTransfers, in_words_if_short(tally.short, tally.ios));
    }
    // At the end, up to a queue's depth of requests are due and not started.
    let late_max = plan.workload.depth as f64 + tally.ios as f64 / 100.0;
    if tally.late as f64 > late_max && !outcome.interrupted {
        let who = if stood_still(outcome).is_some() { "the program, which stood still," } else { "the target" };
        let text = format!("{who} did not keep up with the rate: {} due requests never started", tally.late);
        warn(WarningKind::LateRequests, text);
    }
    if outcome.interrupted {
        let unread = match outcome.unread_blocks {
            0 => String::new(),
            blocks => format!("; {blocks} blocks were written and not read back"),
        };
        warn(WarningKind::Interrupted, format!("interrupted: the figures cover the time until then{unread}"));
    }
    if plan.workload.rate.is_some() && (plan.path.polls_submissions() || iolane::polls_completions(&plan.path)) {
        let text = "this path cannot sleep until a completion or a time, so each thread polls while a request is in flight; \
                    cores and system calls include that";
        warn(WarningKind::RateSpins, text.into());
    }
    if plan.targets.iter().any(iolane::Target::has_unwritten_parts) && plan.workload.access.reads() {
        let text = "parts of the file were never written: the file system answers reads of them without the device \
                    (write the whole file first, or leave --target out)";
        warn(WarningKind::UnwrittenParts, text.into());
    }
    if tally.only_zeroes && tally.ios > 0 && plan.targets.iter().any(is_drive) {
        let text = "the blocks read last hold only zeroes: blocks that were never written, or were discarded, may be read without \
                    the flash (write the drive first, or name one that holds data)";
        warn(WarningKind::OnlyZeroes, text.into());
    }
    if plan.targets.iter().any(iolane::Target::is_in_memory) {
        let text = "the file is in memory (tmpfs), not on a drive: name a file on a drive with --target, or start iolane in \
                    a folder on one";
        warn(WarningKind::Note, text.into());
    }
    warnings.extend(loop_warning(plan));
    warnings.extend(memory_warning(plan, outcome));
    warnings.extend(quota_warning(outcome));
    warnings.extend(limit_warning(plan));
    warnings.extend(crowded_warning(plan));
    warnings.extend(floor_warning(outcome));
    warnings.extend(syscalls_warning(outcome));
    warnings.extend(polling_warning(plan, outcome));
    warnings.extend(sqpoll_warning(plan, outcome));
    warnings
}

/// Warns of a loop device that reads its file through the page cache, whatever its own descriptor asks for.
fn loop_warning(plan: &RunPlan) -> Option<Warning> {
    let is_cached = |target: &&Target| target.direct() && target.device_attribute("loop/dio") == Some(0);
    let (major, minor) = plan.targets.iter().find(is_cached)?.device()?;
    let text = format!(
        "loop device {major}:{minor} reads and writes its file through the page cache, in spite of O_DIRECT: these are figures of memory \
         (losetup --direct-io=on)"
    );
    Some(Warning::new(WarningKind::FromMemory, text))
}

/// A quota may stop the threads of a run for this share of its time.
const STOPPED_MAX: f64 = 0.01;

fn quota_warning(outcome: &RunOutcome) -> Option<Warning> {
    let stopped_s = outcome.telemetry.stopped_by_quota.as_ref().ok()?.as_secs_f64();
    (stopped_s > STOPPED_MAX * outcome.wall_s).then(|| {
        let text = format!(
            "the CPU quota of a control group stopped processors for {stopped_s:.2} s in a run of {:.2} s: rates and latencies are those of \
             the quota (cpu.max; a limit of the container or the service)",
            outcome.wall_s
        );
        Warning::new(WarningKind::StoppedByQuota, text)
    })
}

fn limit_warning(plan: &RunPlan) -> Option<Warning> {
    let of_target =
        |target: &Target| Some((target.name().to_owned(), limits_on(target))).filter(|(_, limits)| !limits.is_empty());
    let (name, limits) = plan.targets.iter().find_map(of_target)?;
    Some(Warning::note(format!(
        "a control group limits the drive of {name} to {}: what goes beyond it waits, and rates and latencies are those of the limit (io.max; \
         a limit of the container or the service)",
        limits.join(", ")
    )))
}

/// With O_DIRECT, at least this share of what was read came from the device.
const FROM_DEVICE_MIN: f64 = 0.5;

/// Warns of reads with O_DIRECT that a file system answered from the page cache: btrfs of compressed files, ext4 with a journal of data.
fn memory_warning(plan: &RunPlan, outcome: &RunOutcome) -> Option<Warning> {
    let answers = |target: &Target| target.direct() && target.is_on_local_disk() && !target.has_unwritten_parts();
    // Otherwise what a submission thread or a worker reads is not accounted to this process.
    let reads_itself = !(plan.path.interface().starts_with("io_uring") || plan.path.interface() == "auto");
    let is_accounted = (reads_itself || threads_are_ours_since_5_12()) && plan.targets.iter().all(answers);
    if !is_accounted || plan.workload.access.writes() || outcome.tally.bytes == 0 {
        return None;
    }
    let share = *outcome.telemetry.device_read_bytes.as_ref().ok()? as f64 / outcome.tally.bytes as f64;
    (share < FROM_DEVICE_MIN).then(|| {
        let text = format!(
            "{:.0} % of the bytes read came from the device: the file system answered the others from memory in spite of O_DIRECT \
             (a compressed file, a journal of data, or DAX)",
            share * 100.0
        );
        Warning::new(WarningKind::FromMemory, text)
    })
}

fn is_drive(target: &Target) -> bool {
    matches!(target.kind(), TargetKind::Block | TargetKind::NvmeGeneric) || target.kind() == iolane::nvme::CONTROLLER
}

/// Warns if more threads poll than there are processors: each waits while another polls.
fn crowded_warning(plan: &RunPlan) -> Option<Warning> {
    let is_polled = plan.path.polls_submissions() || iolane::polls_completions(&plan.path);
    let polling = plan.threads + plan.path.submission_threads(plan.threads);
    let processors = processors_of(plan);
    (is_polled && plan.keeps_real_time().is_ok() && polling > processors).then(|| {
        let on = if processors == 1 { "one processor".to_owned() } else { format!("{processors} processors") };
        let text = format!("{polling} threads poll on {on}: each waits while another polls; use fewer threads");
        Warning::new(WarningKind::Crowded, text)
    })
}

/// How many processors the threads of a run may use, its submission threads included.
fn processors_of(plan: &RunPlan) -> usize {
    let may_be_anywhere = plan.path.polls_submissions() && plan.placement.sqpoll_cpus.is_none();
    match plan.cpus().filter(|_| !may_be_anywhere) {
        Some(placed) => placed.cpus().len(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A tail below this many floors is in part the time that threads take to wake up, not the target's.
pub const FLOORS_MIN: f64 = 3.0;

fn floor_warning(outcome: &RunOutcome) -> Option<Warning> {
    let floor_ns = outcome.telemetry.figures.number(RunFigure::FloorP99Ns)?;
    let latency = Some(&outcome.tally.latency).filter(|latency| !latency.is_empty())?;
    let p99_ns = latency.value_at_quantile(0.99) as f64;
    if p99_ns <= floor_ns {
        let text = "the same schedule on null, which has no device, was no faster: the rate is more than this program and machine \
                    keep up with, and latencies show nothing of the target (lower --rate, or use more --threads)";
        return Some(Warning::new(WarningKind::NearFloor, text));
    }
    (p99_ns < FLOORS_MIN * floor_ns).then(|| {
        let text = format!(
            "p99 is {}, and {} for the same schedule on null: much of it is the time threads take to wake up on this \
             machine, not the target's",
            format::time(p99_ns),
            format::time(floor_ns)
        );
        Warning::new(WarningKind::NearFloor, text)
    })
}

fn syscalls_warning(outcome: &RunOutcome) -> Option<Warning> {
    let proof = &outcome.syscall_proof;
    let (seen, counted) = (*proof.kernel.as_ref().ok()?, proof.engine?);
    let differs = seen.abs_diff(counted) as f64 > (proof.ios as f64 * SYSCALL_DIFFERENCE_MAX).max(16.0);
    differs.then(|| {
        let clock = slow_clock().map(|clock| format!(": reading the clock ({clock}) is a system call on this machine"));
        let clock = clock.unwrap_or_default();
        let text = format!(
            "in a slice of {} I/Os before the run the kernel counted {seen} system calls, the engine {counted}{clock}; \
             system calls per I/O are the engine's count",
            proof.ios
        );
        Warning::new(WarningKind::SyscallCounts, text)
    })
}

/// The kernel's clock source, if reading it takes a system call (vdso(7)).
fn slow_clock() -> Option<String> {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok()?;
    let source = source.trim();
    (!FAST_CLOCKS.contains(&source)).then(|| source.to_owned())
}

/// Warns about interrupts of a device that should have been polled.
fn polling_warning(plan: &RunPlan, outcome: &RunOutcome) -> Option<Warning> {
    let interrupts = outcome.telemetry.figures.number(RunFigure::DeviceInterrupts);
    let interrupts = interrupts.filter(|_| iolane::polls_completions(&plan.path))?;
    let ios = outcome.tally.ios;
    (interrupts > ios as f64 * POLLED_INTERRUPTS_MAX).then(|| {
        let text = format!(
            "the device raised {interrupts} interrupts during {ios} polled I/Os: other programs use it too, or some were \
             not polled"
        );
        Warning::new(WarningKind::Interrupts, text)
    })
}

/// Warns if the submission thread slept: such a path makes system calls only to wake it.
fn sqpoll_warning(plan: &RunPlan, outcome: &RunOutcome) -> Option<Warning> {
    let calls = outcome.tally.syscalls.filter(|_| plan.path.polls_submissions() && outcome.tally.ios > 0)?;
    let per_io = calls as f64 / outcome.tally.ios as f64;
    (per_io > 0.01).then(|| {
        let text = format!(
            "the submission thread went to sleep and was woken: {per_io:.3} system calls per I/O; raise sqidle"
        );
        Warning::new(WarningKind::SubmissionThreadSlept, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_alike_whatever_their_numbers_and_notes_only_if_equal() {
        let late = |count| Warning::new(WarningKind::LateRequests, format!("{count} due requests never started"));
        assert!(late(3).is_like(&late(7)));
        assert!(!late(3).is_like(&Warning::note("3 due requests never started")));
        assert!(
            Warning::note("a 1").is_like(&Warning::note("a 1")) && !Warning::note("a 1").is_like(&Warning::note("a 2"))
        );
    }

    #[test]
    fn a_kind_of_another_version_is_read_as_a_note() {
        let read: Warning = serde_json::from_str(r#"{"kind": "gravity", "text": "it falls"}"#).unwrap();
        assert_eq!(read, Warning::note("it falls"));
    }
}
