//! Aligns an external meter's trace with a study: finds the load steps of the study in the trace, and from them the offset
//! and drift of the meter's clock. An ambiguous trace is refused with the reason. Pure functions of trace and steps.

use iolane_measure::meters::{Curve, Kind};
use iolane_measure::telemetry::{Reading, Unavailable};

use super::alignment::{Alignment, DRIFT_MAX, OTHER_TRACE_REMEDY};
use super::refine::Refinement;
use super::search::locate;
use super::steps::LoadSteps;
use super::trace::Samples;
use crate::rows::Row;

/// A trace in the time of the study's clock.
#[derive(Debug, Clone)]
pub struct Aligned {
    curve: Curve,
    pub clock: Alignment,
    /// Power in the pauses between load steps.
    pub idle_watts: f64,
}

/// Samples that a digit of the code must have on average.
const SAMPLES_PER_DIGIT_MIN: f64 = 1.5;
/// A longer trace is refused: 100 days at the digits of a study.
const DIGITS_MAX: f64 = 3e6;

/// Aligns a trace with the load steps of a study.
///
/// # Errors
/// Why it cannot be aligned, with the remedy.
pub fn align(samples: &Samples, steps: &[LoadSteps]) -> Reading<Aligned> {
    let [first, .., last] = steps else {
        return Err(Unavailable::new(match steps.len() {
            0 => "the study made no load steps",
            _ => "the study made load steps only once; the drift of the meter's clock cannot be determined",
        })
        .remedy("measure again with --meter-steps and let the study finish"));
    };
    if !steps.iter().all(|one| one.is_sound() && one.is_like(first))
        || steps.windows(2).any(|pair| pair[1].started_unix_s < pair[0].ended_unix_s())
    {
        return Err(Unavailable::new("the load steps in study.json are invalid"));
    }
    let mut raw = Curve::new(Kind::Gauge);
    samples.iter().for_each(|(at_s, watts)| raw.note_watts(*at_s, *watts));
    let Some((interval_s, (begin_s, end_s))) = raw.interval_s().zip(raw.span_s()) else {
        return Err(Unavailable::new("the trace has fewer than two samples"));
    };
    if first.chip_s < interval_s * SAMPLES_PER_DIGIT_MIN {
        let cause =
            format!("the meter samples every {interval_s:.1} s, too rarely for load steps of {} s", first.chip_s);
        return Err(Unavailable::new(cause).remedy("set it to one sample per second"));
    }
    if end_s - begin_s > DIGITS_MAX * first.chip_s {
        return Err(Unavailable::new(format!("the trace is {:.0} days long", (end_s - begin_s) / 86_400.0))
            .remedy("cut the file to the time of this study"));
    }
    let study_s = last.ended_unix_s() - first.started_unix_s;
    if (end_s - begin_s) * (1.0 + DRIFT_MAX) + 2.0 * interval_s < study_s {
        let cause = format!("the trace is {:.0} s long, but the study took {study_s:.0} s", end_s - begin_s);
        return Err(Unavailable::new(cause).remedy(OTHER_TRACE_REMEDY));
    }
    let (offset_s, rate) = locate(&raw, steps)?;
    let refinement = Refinement { samples, interval_s, steps };
    let clock @ Alignment { offset_s, rate, .. } = refinement.clock(offset_s, rate)?;
    let mut curve = Curve::new(Kind::Gauge);
    samples.iter().for_each(|(at_s, watts)| curve.note_watts(offset_s + rate * at_s, *watts));
    let idle_watts = refinement.idle_watts(offset_s, rate);
    let idle_watts =
        idle_watts.ok_or_else(|| Unavailable::new("the trace has no sample in the pauses between load steps"))?;
    Ok(Aligned { curve: curve.whole(), clock, idle_watts })
}

impl Aligned {
    /// The joules of a run.
    ///
    /// # Errors
    /// If the run is too short for the meter, outside the trace, or in a gap of the trace.
    pub fn joules(&self, row: &Row) -> Reading<f64> {
        self.curve.joules(row.started_unix_s, row.started_unix_s + row.elapsed_s)
    }
}

#[cfg(test)]
mod tests;
