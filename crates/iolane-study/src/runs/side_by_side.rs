//! Runs jobs once, all at the same time. One that fails ends the others, and so does one that ends, where its job file asks
//! for it. `schedule` calls it; it makes no records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use iolane::{Error, Result};
use iolane_measure::run::{CheckedPlan, RunOutcome, run};

use super::job::RunJob;

/// How often `stop` is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How a job ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    /// What it measured. It is not marked as interrupted if another job ended it.
    pub(super) outcome: RunOutcome,
    /// The index of the job whose end ended it.
    pub(super) by: Option<usize>,
}

/// Runs each job. The first error sets `stop`.
pub(super) fn side_by_side(group: &[&RunJob], plans: &[CheckedPlan], stop: &AtomicBool) -> Result<Vec<Ended>> {
    let is_linked = group.len() > 1 && group.iter().any(|job| job.ends.is_some());
    // A flag for each job, which `stop` sets after a while; without links `stop` is enough.
    let flag = |_: &&RunJob| AtomicBool::new(stop.load(Ordering::Relaxed));
    let own: Vec<AtomicBool> = if is_linked { group.iter().map(flag).collect() } else { Vec::new() };
    let run_one = |index: usize| {
        let flag = own.get(index).unwrap_or(stop);
        pause(group[index].delay, flag);
        run(&plans[index], flag).map_err(|error| {
            // Nobody will see what the others measure.
            stop.store(true, Ordering::Relaxed);
            group[index].named(error)
        })
    };
    std::thread::scope(|scope| {
        let run_one = &run_one;
        let (sender, ends) = channel();
        let spawn = |index: usize| {
            let sender = sender.clone();
            let job = move || {
                let outcome = run_one(index);
                // The receiver is gone where no job ends another.
                let _ = sender.send(index);
                outcome
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, job);
            started.map_err(|error| {
                // Those that run would run in vain.
                own.iter().chain([stop]).for_each(|flag| flag.store(true, Ordering::Relaxed));
                Error::no_thread(error)
            })
        };
        let threads = (0..group.len()).map(spawn).collect::<Result<Vec<_>>>()?;
        drop(sender);
        let by = if is_linked { end_together(group, &own, &ends, stop) } else { vec![None; group.len()] };
        let panicked = |_| Err(Error::failed("a job", "it panicked, which is a bug in iolane"));
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        let is_stopped = stop.load(Ordering::Relaxed);
        let ended = |(outcome, by): (Result<RunOutcome>, Option<usize>)| {
            let outcome = outcome?;
            // One that ended by itself at the same time was not interrupted.
            let by = by.filter(|_| outcome.interrupted && !is_stopped);
            Ok(Ended { outcome: RunOutcome { interrupted: outcome.interrupted && by.is_none(), ..outcome }, by })
        };
        joined.into_iter().zip(by).map(ended).collect()
    })
}

/// Sets the flags of the jobs that end with one that has ended, until all have, and those of all once `stop` is set. By job,
/// the one whose end ended it.
fn end_together(
    group: &[&RunJob],
    flags: &[AtomicBool],
    ends: &Receiver<usize>,
    stop: &AtomicBool,
) -> Vec<Option<usize>> {
    let mut has_ended = vec![false; group.len()];
    let mut by = vec![None; group.len()];
    loop {
        match ends.recv_timeout(LOOK) {
            Ok(first) => {
                has_ended[first] = true;
                for (index, job) in group.iter().enumerate() {
                    if !has_ended[index] && by[index].is_none() && group[first].ends(job) {
                        by[index] = Some(first);
                        flags[index].store(true, Ordering::Relaxed);
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return by,
        }
        if stop.load(Ordering::Relaxed) {
            flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        }
    }
}

/// Waits before a job starts, unless the jobs are stopped.
fn pause(delay: Duration, stop: &AtomicBool) {
    let end = Instant::now() + delay;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && !stop.load(Ordering::Relaxed)
    {
        std::thread::sleep(left.min(LOOK));
    }
}
