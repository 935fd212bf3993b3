//! Finds the load steps of a study in a trace and derives the approximate clock of the meter. `align` calls it.

use iolane_measure::meters::Curve;
use iolane_measure::telemetry::{Reading, Unavailable};

use super::alignment::{DRIFT_MAX, OTHER_TRACE_REMEDY};
use super::fit::correlation;
use super::steps::LoadSteps;

/// Cells per digit of the code.
const CELLS: usize = 8;
/// A position with at least this correlation may be a load step.
const CORRELATION_CANDIDATE: f64 = 0.5;
/// Two alignments whose correlations differ by less are ambiguous.
const CORRELATION_MARGIN: f64 = 0.1;
/// Positions that are examined further.
const PEAKS_MAX: usize = 300;

/// The correlation of the trace with the code at each position; positions are one eighth of a digit apart.
struct Positions {
    begin_s: f64,
    cell_s: f64,
    correlation: Vec<f64>,
}

impl Positions {
    fn of(raw: &Curve, steps: &LoadSteps) -> Self {
        let (begin_s, end_s) = raw.span_s().unwrap_or_default();
        let cell_s = steps.chip_s / CELLS as f64;
        let cells = ((end_s - begin_s) / cell_s) as usize;
        let mut joules = vec![0.0];
        let mut sum = 0.0;
        for cell in 0..cells {
            let from_s = begin_s + cell as f64 * cell_s;
            sum += raw.mean_watts(from_s, from_s + cell_s).unwrap_or(0.0);
            joules.push(sum);
        }
        let load: Vec<f64> = steps.load().collect();
        let last = (cells + 1).saturating_sub(load.len() * CELLS);
        let at = |position: usize| {
            let digit = |(index, load): (usize, &f64)| {
                let cell = position + index * CELLS;
                (joules[cell + CELLS] - joules[cell], *load)
            };
            correlation(load.iter().enumerate().map(digit))
        };
        Self { begin_s, cell_s, correlation: (0..last).map(at).collect() }
    }

    fn at_s(&self, position: usize) -> f64 {
        self.begin_s + position as f64 * self.cell_s
    }

    /// The largest correlation within two cells of a time; 0 outside the trace.
    fn near(&self, at_s: f64) -> f64 {
        let position = ((at_s - self.begin_s) / self.cell_s).round();
        if !(position >= -2.0 && position < self.correlation.len() as f64 + 2.0) {
            return 0.0;
        }
        let (low, high) =
            ((position - 2.0).max(0.0) as usize, ((position + 2.0) as usize + 1).min(self.correlation.len()));
        self.correlation.get(low..high).into_iter().flatten().copied().fold(0.0, f64::max)
    }

    /// Local maxima of the correlation, the largest first.
    fn peaks(&self) -> Vec<usize> {
        let value = |position: usize| self.correlation.get(position).copied().unwrap_or(0.0);
        let is_peak = |position: &usize| {
            let here = value(*position);
            let (low, high) = (position.saturating_sub(CELLS / 2), position + CELLS / 2);
            here >= CORRELATION_CANDIDATE
                && (low..*position).all(|other| value(other) < here)
                && (position + 1..=high).all(|other| value(other) <= here)
        };
        let mut peaks: Vec<usize> = (0..self.correlation.len()).filter(is_peak).collect();
        peaks.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
        peaks.truncate(PEAKS_MAX);
        peaks
    }
}

/// The approximate offset and rate of the meter's clock that put the load steps where the trace shows them.
///
/// # Errors
/// If the steps are not in the trace, or are there more than once.
pub(super) fn locate(raw: &Curve, steps: &[LoadSteps]) -> Reading<(f64, f64)> {
    let (first, last) = (&steps[0], &steps[steps.len() - 1]);
    let positions = Positions::of(raw, first);
    let peaks = positions.peaks();
    let apart_s = last.started_unix_s - first.started_unix_s;
    let slack = 4.0 * positions.cell_s / apart_s.max(positions.cell_s);
    // The mean correlation of all steps, with the times of the first and the last.
    let mut fits: Vec<(f64, f64, f64)> = Vec::new();
    for a in &peaks {
        for b in &peaks {
            let (from_s, to_s) = (positions.at_s(*a), positions.at_s(*b));
            let rate = apart_s / (to_s - from_s);
            if !(to_s > from_s && (rate - 1.0).abs() <= DRIFT_MAX + slack) {
                continue;
            }
            let of = |steps: &LoadSteps| positions.near(from_s + (steps.started_unix_s - first.started_unix_s) / rate);
            let all = steps.iter().map(of);
            // High correlation of some steps must not compensate for a step that is absent.
            let (sum, least) = all.fold((0.0, f64::INFINITY), |(sum, least), one| (sum + one, least.min(one)));
            if least >= CORRELATION_CANDIDATE {
                fits.push((sum / steps.len() as f64, from_s, to_s));
            }
        }
    }
    fits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(best) = fits.first().copied() else {
        return Err(match peaks.len() {
            0 => Unavailable::new("the trace contains no load step").remedy(OTHER_TRACE_REMEDY),
            _ => Unavailable::new("the load steps in the trace are not those of this study, or not all of them")
                .remedy(OTHER_TRACE_REMEDY),
        });
    };
    let is_other =
        |fit: &&(f64, f64, f64)| (fit.1 - best.1).abs() > first.chip_s || (fit.2 - best.2).abs() > first.chip_s;
    if let Some(other) = fits.iter().find(is_other)
        && other.0 > best.0 - CORRELATION_MARGIN
    {
        let apart_s = (other.1 - best.1).abs().max((other.2 - best.2).abs());
        let cause = format!("the trace contains the load steps more than once, {apart_s:.0} s apart");
        return Err(Unavailable::new(cause).remedy("cut the file to the time of this study"));
    }
    let rate = apart_s / (best.2 - best.1);
    Ok((first.started_unix_s - rate * best.1, rate))
}
