//! What a running process asks of its drives, seen from outside: its requests, their sizes, how many are in flight, and the
//! interface that it uses. Read from /proc and /sys only; the process is neither stopped nor traced, and nothing is written.
//!
//! The kernel counts requests by drive and bytes by process. Sizes, flushes and requests in flight are those of all
//! processes on the drive; the share of its bytes that is the process's tells how much that matters.

mod drive;
mod interface;
mod observed;
mod process;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolane::{Error, Result};

use self::drive::Watched;
use self::process::{Counts, OpenFiles};
use crate::process_io::Calls;

pub use self::interface::InterfaceInUse;
pub use self::observed::{DriveInUse, InFlight, Observed, Requests};

/// The time between two looks at the requests in flight.
const TICK: Duration = Duration::from_millis(1);
/// Looks at the requests in flight for each look at the process, whose calls wait for a look at its rings.
const TICKS_A_LOOK_AT_THE_PROCESS: u32 = 100;

/// Watches a process for some time; until it ends or `stop` is set, if that is earlier.
///
/// # Errors
/// Usage if there is no such process. `Unavailable` if the kernel does not let this user look at it, it has no file open on
/// a block device, or the devices do not count.
pub fn observe(pid: u32, time: Duration, stop: &AtomicBool) -> Result<Observed> {
    observe_in(Path::new("/proc"), Path::new("/sys"), pid, time, stop)
}

fn observe_in(proc: &Path, sys: &Path, pid: u32, time: Duration, stop: &AtomicBool) -> Result<Observed> {
    let folder = proc.join(pid.to_string());
    let what = || format!("process {pid}");
    if !folder.is_dir() {
        return Err(Error::usage(what(), "there is no such process").remedy("find its number: pgrep -a NAME"));
    }
    let open = OpenFiles::of(&folder).map_err(|error| process::explain(&what(), &error))?;
    let mut watched: Vec<Watched> = Vec::new();
    for on in open.on_devices(&folder, sys) {
        watched.push(Watched::start(sys, on)?);
    }
    if watched.is_empty() {
        return Err(Error::unavailable(what(), "it has no file open on a block device")
            .remedy("watch it while it works, or the process of its group that has the files: ls -l /proc/PID/fd"));
    }
    let program = process::program(&folder);
    let before = Counts::of(&folder).map_err(|error| process::explain(&what(), &error))?;
    let mut interface = open.interface(&folder);
    let began = Instant::now();
    let (mut after, mut ended) = (None, false);
    for tick in 0_u32.. {
        watched.iter_mut().for_each(Watched::look);
        let is_over = began.elapsed() >= time || stop.load(Ordering::Relaxed);
        if is_over || tick % TICKS_A_LOOK_AT_THE_PROCESS == 0 {
            interface.look();
            match Counts::of(&folder) {
                Ok(counts) => after = Some(counts),
                // What it did before stays.
                Err(_) => ended = true,
            }
        }
        if is_over || ended {
            break;
        }
        std::thread::sleep(TICK);
    }
    let after = after.ok_or_else(|| Error::failed(what(), "it ended at once"))?;
    let seconds = after.taken.duration_since(before.taken).as_secs_f64().max(TICK.as_secs_f64());
    let mut drives: Vec<DriveInUse> = Vec::new();
    for watched in watched {
        drives.push(watched.end(began.elapsed().as_secs_f64())?);
    }
    drives.sort_by(|a, b| b.bytes_per_s().total_cmp(&a.bytes_per_s()));
    let per_s = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
    let calls =
        |after: Calls, before: Calls| Requests::new(per_s(after.calls, before.calls), per_s(after.bytes, before.bytes));
    Ok(Observed {
        pid,
        program,
        seconds,
        threads: before.threads_with_io(&after),
        cores: (after.processor_s - before.processor_s).max(0.0) / seconds,
        ended,
        read_calls: calls(after.io.reads, before.io.reads),
        write_calls: calls(after.io.writes, before.io.writes),
        read_bytes_per_s: per_s(after.io.read_bytes, before.io.read_bytes),
        written_bytes_per_s: per_s(after.io.written_bytes, before.io.written_bytes),
        interface: interface.seen(),
        drives,
    })
}

#[cfg(test)]
mod tests;
