//! One attempt at a run of an arm, by iolane or by a peer, and whether the run is valid.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use iolane::Error;
use iolane_measure::progress::RunProgress;
use iolane_measure::run::run_with_progress;
use iolane_measure::span::Span;
use iolane_measure::telemetry::{Reading, Unavailable};

use super::applications::Written;
use super::planned::Planned;
use super::validity::{Validity, validity};
use super::{applications, energy, peers};
use crate::rows::{RETRIES, Row, Warning};

/// Runs an arm once. Returns the row and its measured span; `None` if it was interrupted.
pub(super) fn attempt(
    planned: &Planned,
    repeat: u32,
    attempt: u32,
    may_retry: bool,
    written: &Written,
    (stop, run_progress): (&AtomicBool, &RunProgress),
) -> Option<(Row, Reading<Span>)> {
    let Planned { arm, plan: checked, peer, by } = planned;
    let plan = checked.plan();
    let started_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let base = Row { attempt, started_unix_s, ..Row::planned(arm.clone(), repeat, plan) };
    if let Some(peer) = peer {
        let from = Instant::now();
        return match peers::run(base.clone(), plan, peer, stop) {
            Ok(row) => {
                let span = energy::peer_span(from, Instant::now(), plan.warmup, row.elapsed_s);
                Some((row, span))
            }
            Err(_) if stop.load(Ordering::Relaxed) => None,
            Err(error) => Some(failed(base, &error)),
        };
    }
    if let Some(by) = by {
        return match applications::run_arm(base.clone(), planned, by, written, stop) {
            Ok(done) => done.map(|(row, span)| (row, Ok(span))),
            Err(_) if stop.load(Ordering::Relaxed) => None,
            Err(error) => Some(failed(base, &error)),
        };
    }
    let outcome = match run_with_progress(checked, stop, run_progress) {
        Ok(outcome) if outcome.interrupted => return None,
        Ok(outcome) => outcome,
        Err(_) if stop.load(Ordering::Relaxed) => return None,
        Err(error) => return Some(failed(base, &error)),
    };
    let mut row = base.measured(plan, &outcome);
    match validity(plan, &outcome, &row) {
        Validity::Accepted => {}
        Validity::Disturbed(why) if may_retry && attempt < RETRIES => row.rejected = Some(why),
        Validity::Disturbed(why) => row.warnings.push(Warning::disturbed(&why)),
        Validity::Rejected(why) => row.rejected = Some(why),
    }
    Some((row, plan.keeps_real_time().map(|()| outcome.span)))
}

fn failed(base: Row, error: &Error) -> (Row, Reading<Span>) {
    (Row { rejected: Some(error.to_string()), ..base }, Err(Unavailable::new("the run failed")))
}
