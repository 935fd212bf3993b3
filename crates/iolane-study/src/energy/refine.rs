//! Refines the approximate clock of a meter by the single samples of its trace, and verifies it. `align` calls it.

use iolane_measure::telemetry::{Reading, Unavailable};

use super::alignment::{Alignment, DRIFT_MAX, OTHER_TRACE_REMEDY};
use super::fit::{correlation, line};
use super::steps::LoadSteps;
use super::trace::Samples;

/// The least mean correlation of all steps, sample by sample.
const CORRELATION_MIN: f64 = 0.75;

/// Refines an approximate alignment by the single samples.
pub(super) struct Refinement<'a> {
    pub(super) samples: &'a Samples,
    pub(super) interval_s: f64,
    pub(super) steps: &'a [LoadSteps],
}

impl Refinement<'_> {
    /// The offset and rate of the clock, and the largest deviation of a step.
    ///
    /// # Errors
    /// If the steps are not clear in the trace, or the clock is not plausible.
    pub(super) fn clock(&self, offset_s: f64, rate: f64) -> Reading<Alignment> {
        // A meter may report instantaneous power, or the mean since its last sample.
        let by_window = [0.0, self.interval_s].map(|window_s| {
            let found: Vec<(f64, f64)> =
                self.steps.iter().map(|steps| self.shift(steps, offset_s, rate, window_s)).collect();
            let mean = found.iter().map(|(correlation, _)| correlation).sum::<f64>() / found.len() as f64;
            (mean, found)
        });
        let (correlation, found) = if by_window[1].0 > by_window[0].0 { &by_window[1] } else { &by_window[0] };
        if *correlation < CORRELATION_MIN {
            let cause = format!(
                "the load steps are not clear in the trace (correlation {correlation:.2}, at least {CORRELATION_MIN} is needed)"
            );
            return Err(Unavailable::new(cause).remedy(OTHER_TRACE_REMEDY));
        }
        // The regression of study time on meter time over all steps.
        let points: Vec<(f64, f64)> = self
            .steps
            .iter()
            .zip(found)
            .map(|(steps, (_, shift_s))| ((steps.started_unix_s - offset_s) / rate + shift_s, steps.started_unix_s))
            .collect();
        let (offset_s, rate) = line(&points);
        // The position of a step is known to about half an interval, which is a large share of a short study.
        let apart_s = self.steps[self.steps.len() - 1].started_unix_s - self.steps[0].started_unix_s;
        let drift_max = DRIFT_MAX + self.interval_s / apart_s.max(self.interval_s);
        if rate.is_nan() || (rate - 1.0).abs() > drift_max {
            let cause = format!("the meter's clock would drift by {:.2} %", (rate - 1.0) * 100.0);
            return Err(Unavailable::new(cause).remedy(OTHER_TRACE_REMEDY));
        }
        let off = |(meter_s, unix_s): &(f64, f64)| (offset_s + rate * meter_s - unix_s).abs();
        let residual_s = points.iter().map(off).fold(0.0, f64::max);
        if residual_s > 0.6 * self.interval_s {
            let cause = format!("the meter's clock is not steady: load steps deviate by up to {residual_s:.1} s");
            return Err(Unavailable::new(cause).remedy("use a meter whose clock is not adjusted while it records"));
        }
        Ok(Alignment { offset_s, rate, residual_s })
    }

    /// The largest correlation of the steps near their expected time, and the shift there in seconds of the meter's clock.
    fn shift(&self, steps: &LoadSteps, offset_s: f64, rate: f64, window_s: f64) -> (f64, f64) {
        let at_s = (steps.started_unix_s - offset_s) / rate;
        let reach_s = steps.chip_s / 2.0;
        let from = self.samples.partition_point(|(sample_s, _)| *sample_s < at_s - reach_s);
        let to = self.samples.partition_point(|(sample_s, _)| *sample_s <= at_s + steps.seconds() / rate + reach_s);
        let around = &self.samples[from..to];
        let step_s = (self.interval_s / 20.0).max(steps.chip_s / 100.0);
        let shifts = (2.0 * reach_s / step_s) as usize;
        let at_shift = |shift: usize| {
            let shift_s = shift as f64 * step_s - reach_s;
            let since = move |sample_s: f64| (sample_s - at_s - shift_s) * rate;
            let inside = around.iter().filter(move |(sample_s, _)| (0.0..steps.seconds()).contains(&since(*sample_s)));
            let pair = move |(sample_s, watts): &(f64, f64)| {
                let since_s = since(*sample_s);
                (*watts, steps.busy_share(since_s - window_s * rate, since_s))
            };
            (correlation(inside.map(pair)), shift_s)
        };
        let all: Vec<(f64, f64)> = (0..=shifts).map(at_shift).collect();
        let best = all.iter().map(|(correlation, _)| *correlation).fold(0.0, f64::max);
        // With sparse samples several adjacent shifts are equally good; their mean is the best estimate.
        let top: Vec<f64> =
            all.iter().filter(|(correlation, _)| *correlation >= best - 1e-3).map(|(_, shift_s)| *shift_s).collect();
        (best, top.iter().sum::<f64>() / top.len().max(1) as f64)
    }

    /// The mean of the samples in the pauses, at least one interval away from any load.
    pub(super) fn idle_watts(&self, offset_s: f64, rate: f64) -> Option<f64> {
        let is_idle = |sample_s: f64| {
            let unix_s = offset_s + rate * sample_s;
            self.steps.iter().any(|steps| {
                let since_s = unix_s - steps.started_unix_s;
                let (from_s, to_s) = (since_s - 1.5 * self.interval_s, since_s + 0.5 * self.interval_s);
                from_s >= 0.0 && to_s <= steps.seconds() && steps.busy_share(from_s, to_s) == 0.0
            })
        };
        let idle: Vec<f64> = self.samples.iter().filter(|(at_s, _)| is_idle(*at_s)).map(|(_, watts)| *watts).collect();
        (!idle.is_empty()).then(|| idle.iter().sum::<f64>() / idle.len() as f64)
    }
}
