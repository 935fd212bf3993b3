//! Lays an external meter's trace over a study: the load steps that the study made are looked for in it, which tells by how
//! much the meter's clock was off and how fast it drifted. A trace in which that cannot be told is refused with the reason.
//! Pure: the trace and the steps come in, joules go out.

use serde::{Deserialize, Serialize};

use super::curve::{Curve, Kind};
use super::steps::LoadSteps;
use super::trace::Samples;
use crate::records::Row;
use crate::telemetry::{Reading, Unavailable};

/// How the meter's clock stood to the study's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// When the meter's clock showed 0, in seconds since 1970.
    pub offset_s: f64,
    /// Seconds that pass while the meter's clock counts one.
    pub rate: f64,
    /// By how much load steps are off at most, in seconds, once the clock is set right.
    pub residual_s: f64,
}

/// A trace by the study's clock.
#[derive(Debug, Clone)]
pub struct Aligned {
    curve: Curve,
    /// What was done to its clock.
    pub clock: Alignment,
    /// Watts of the pauses between load steps.
    pub idle_watts: f64,
}

/// No clock that is worth its name drifts by more than this share; a good one drifts by 0.00002.
const DRIFT_MAX: f64 = 0.005;
/// Cells that a digit of the code is looked for in.
const CELLS: usize = 8;
/// A place this like the code may be it.
const LIKENESS_MAYBE: f64 = 0.5;
/// The places together must be as much like it, sample by sample (Pearson's correlation).
const LIKENESS_MIN: f64 = 0.75;
/// Two ways to lay it that differ by less in likeness are alike.
const LIKENESS_APART: f64 = 0.1;
/// Places that are looked at more closely.
const PLACES_MAX: usize = 300;
/// Samples that a digit must have on the average.
const SAMPLES_A_DIGIT_MIN: f64 = 1.5;

/// More of them no trace has: 100 days of a study's.
const DIGITS_MAX: f64 = 3e6;

const OF_THIS_STUDY: &str =
    "give the file of the meter that this machine is plugged to, recorded from before the study to its end";

/// Lays a trace over the load steps of a study.
///
/// # Errors
/// Why it cannot be done.
pub fn align(samples: &Samples, steps: &[LoadSteps]) -> Reading<Aligned> {
    let [first, .., last] = steps else {
        return Err(Unavailable::new(match steps.len() {
            0 => "the study made no load steps",
            _ => "the study made load steps once alone, and so the drift of the meter's clock cannot be told",
        })
        .remedy("measure again with --meter-steps, to the end"));
    };
    if !steps.iter().all(|one| one.is_sound() && one.is_like(first))
        || steps.windows(2).any(|pair| pair[1].started_unix_s < pair[0].ended_unix_s())
    {
        return Err(Unavailable::new("the load steps in study.json are not as a study makes them"));
    }
    let mut raw = Curve::new(Kind::Gauge);
    samples.iter().for_each(|(at_s, watts)| raw.note_watts(*at_s, *watts));
    let Some((interval_s, (begin_s, end_s))) = raw.interval_s().zip(raw.span_s()) else {
        return Err(Unavailable::new("the trace has fewer than two samples"));
    };
    if first.chip_s < interval_s * SAMPLES_A_DIGIT_MIN {
        let cause =
            format!("the meter tells power every {interval_s:.1} s, too seldom for load steps of {} s", first.chip_s);
        return Err(Unavailable::new(cause).remedy("let it tell power once a second"));
    }
    if end_s - begin_s > DIGITS_MAX * first.chip_s {
        return Err(Unavailable::new(format!("the trace is {:.0} days long", (end_s - begin_s) / 86_400.0))
            .remedy("cut the file to the time of this study"));
    }
    let study_s = last.ended_unix_s() - first.started_unix_s;
    if (end_s - begin_s) * (1.0 + DRIFT_MAX) + 2.0 * interval_s < study_s {
        let cause = format!("the trace is {:.0} s long, and the study took {study_s:.0} s", end_s - begin_s);
        return Err(Unavailable::new(cause).remedy(OF_THIS_STUDY));
    }
    let (offset_s, rate) = coarse(&raw, steps)?;
    let fine = Fine { samples, interval_s, steps };
    let clock @ Alignment { offset_s, rate, .. } = fine.clock(offset_s, rate)?;
    let mut curve = Curve::new(Kind::Gauge);
    samples.iter().for_each(|(at_s, watts)| curve.note_watts(offset_s + rate * at_s, *watts));
    let idle_watts = fine.idle_watts(offset_s, rate);
    let idle_watts =
        idle_watts.ok_or_else(|| Unavailable::new("no sample falls into the pauses between load steps"))?;
    Ok(Aligned { curve: curve.whole(), clock, idle_watts })
}

impl Aligned {
    /// Joules of a run.
    ///
    /// # Errors
    /// If it is too short for the meter, outside of the trace, or the trace has a gap there.
    pub fn joules(&self, row: &Row) -> Reading<f64> {
        self.curve.joules(row.started_unix_s, row.started_unix_s + row.elapsed_s)
    }
}

/// How much alike two lists are: Pearson's correlation, 0 where one is level.
fn likeness(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = pairs.clone().count() as f64;
    let mean = |of: fn((f64, f64)) -> f64| pairs.clone().map(of).sum::<f64>() / count;
    let (mean_a, mean_b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        both += a * b;
        of_a += a * a;
        of_b += b * b;
    }
    let size = (of_a * of_b).sqrt();
    if size > 0.0 && size.is_finite() { both / size } else { 0.0 }
}

/// How much each place of a trace is like the code; the places are an eighth of a digit apart.
struct Places {
    begin_s: f64,
    cell_s: f64,
    likeness: Vec<f64>,
}

impl Places {
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
        let at = |place: usize| {
            let digit = |(index, load): (usize, &f64)| {
                let cell = place + index * CELLS;
                (joules[cell + CELLS] - joules[cell], *load)
            };
            likeness(load.iter().enumerate().map(digit))
        };
        Self { begin_s, cell_s, likeness: (0..last).map(at).collect() }
    }

    fn at_s(&self, place: usize) -> f64 {
        self.begin_s + place as f64 * self.cell_s
    }

    /// The most like it within two cells of a moment; that of a place outside of the trace is 0.
    fn near(&self, at_s: f64) -> f64 {
        let place = ((at_s - self.begin_s) / self.cell_s).round();
        if !(place >= -2.0 && place < self.likeness.len() as f64 + 2.0) {
            return 0.0;
        }
        let (low, high) = ((place - 2.0).max(0.0) as usize, ((place + 2.0) as usize + 1).min(self.likeness.len()));
        self.likeness.get(low..high).into_iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The places that are more like it than those around them, the best first.
    fn peaks(&self) -> Vec<usize> {
        let value = |place: usize| self.likeness.get(place).copied().unwrap_or(0.0);
        let is_peak = |place: &usize| {
            let here = value(*place);
            let (low, high) = (place.saturating_sub(CELLS / 2), place + CELLS / 2);
            here >= LIKENESS_MAYBE
                && (low..*place).all(|other| value(other) < here)
                && (place + 1..=high).all(|other| value(other) <= here)
        };
        let mut peaks: Vec<usize> = (0..self.likeness.len()).filter(is_peak).collect();
        peaks.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
        peaks.truncate(PLACES_MAX);
        peaks
    }
}

/// Where the meter's clock must have stood for the steps to be where the trace shows them: its offset and rate, about.
fn coarse(raw: &Curve, steps: &[LoadSteps]) -> Reading<(f64, f64)> {
    let (first, last) = (&steps[0], &steps[steps.len() - 1]);
    let places = Places::of(raw, first);
    let peaks = places.peaks();
    let apart_s = last.started_unix_s - first.started_unix_s;
    let slack = 4.0 * places.cell_s / apart_s.max(places.cell_s);
    // How like all steps are, where the first and the last would be.
    let mut ways: Vec<(f64, f64, f64)> = Vec::new();
    for a in &peaks {
        for b in &peaks {
            let (from_s, to_s) = (places.at_s(*a), places.at_s(*b));
            let rate = apart_s / (to_s - from_s);
            if !(to_s > from_s && (rate - 1.0).abs() <= DRIFT_MAX + slack) {
                continue;
            }
            let of = |steps: &LoadSteps| places.near(from_s + (steps.started_unix_s - first.started_unix_s) / rate);
            let all = steps.iter().map(of);
            // One place that is not like it at all is not made up for by the others.
            let (sum, least) = all.fold((0.0, f64::INFINITY), |(sum, least), one| (sum + one, least.min(one)));
            if least >= LIKENESS_MAYBE {
                ways.push((sum / steps.len() as f64, from_s, to_s));
            }
        }
    }
    ways.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(best) = ways.first().copied() else {
        return Err(match peaks.len() {
            0 => Unavailable::new("no load step is to be seen in the trace").remedy(OF_THIS_STUDY),
            _ => Unavailable::new("the load steps in the trace are not those of this study, or not all of them")
                .remedy(OF_THIS_STUDY),
        });
    };
    let is_other =
        |way: &&(f64, f64, f64)| (way.1 - best.1).abs() > first.chip_s || (way.2 - best.2).abs() > first.chip_s;
    if let Some(other) = ways.iter().find(is_other)
        && other.0 > best.0 - LIKENESS_APART
    {
        let apart_s = (other.1 - best.1).abs().max((other.2 - best.2).abs());
        let cause = format!("the load steps are in the trace more than once, {apart_s:.0} s apart");
        return Err(Unavailable::new(cause).remedy("cut the file to the time of this study"));
    }
    let rate = apart_s / (best.2 - best.1);
    Ok((first.started_unix_s - rate * best.1, rate))
}

/// The trace's samples beside the steps.
struct Fine<'a> {
    samples: &'a Samples,
    interval_s: f64,
    steps: &'a [LoadSteps],
}

impl Fine<'_> {
    /// The clock's offset and rate, and by how much steps are off at most.
    fn clock(&self, offset_s: f64, rate: f64) -> Reading<Alignment> {
        // A meter may tell the power of a moment, or that of the time since it told the last.
        let ways = [0.0, self.interval_s].map(|window_s| {
            let found: Vec<(f64, f64)> =
                self.steps.iter().map(|steps| self.shift(steps, offset_s, rate, window_s)).collect();
            let mean = found.iter().map(|(likeness, _)| likeness).sum::<f64>() / found.len() as f64;
            (mean, found)
        });
        let (likeness, found) = if ways[1].0 > ways[0].0 { &ways[1] } else { &ways[0] };
        if *likeness < LIKENESS_MIN {
            let cause = format!("no load step is clear in the trace (likeness {likeness:.2}, it takes {LIKENESS_MIN})");
            return Err(Unavailable::new(cause).remedy(OF_THIS_STUDY));
        }
        // The line through where each was found: the meter's time along, the study's up.
        let points: Vec<(f64, f64)> = self
            .steps
            .iter()
            .zip(found)
            .map(|(steps, (_, shift_s))| ((steps.started_unix_s - offset_s) / rate + shift_s, steps.started_unix_s))
            .collect();
        let (offset_s, rate) = line(&points);
        // Where steps are is known to about half an interval, which is much of a short study.
        let apart_s = self.steps[self.steps.len() - 1].started_unix_s - self.steps[0].started_unix_s;
        let drift_max = DRIFT_MAX + self.interval_s / apart_s.max(self.interval_s);
        if rate.is_nan() || (rate - 1.0).abs() > drift_max {
            let cause = format!("the meter's clock would be off by {:.2} %", (rate - 1.0) * 100.0);
            return Err(Unavailable::new(cause).remedy(OF_THIS_STUDY));
        }
        let off = |(meter_s, unix_s): &(f64, f64)| (offset_s + rate * meter_s - unix_s).abs();
        let residual_s = points.iter().map(off).fold(0.0, f64::max);
        if residual_s > 0.6 * self.interval_s {
            let cause = format!("the meter's clock does not run evenly: load steps are off by up to {residual_s:.1} s");
            return Err(Unavailable::new(cause).remedy("use a meter whose clock is not set while it records"));
        }
        Ok(Alignment { offset_s, rate, residual_s })
    }

    /// How like the steps are at the best shift around where they should be, and that shift in the meter's seconds.
    fn shift(&self, steps: &LoadSteps, offset_s: f64, rate: f64, window_s: f64) -> (f64, f64) {
        let at_s = (steps.started_unix_s - offset_s) / rate;
        let reach_s = steps.chip_s / 2.0;
        let from = self.samples.partition_point(|(sample_s, _)| *sample_s < at_s - reach_s);
        let to = self.samples.partition_point(|(sample_s, _)| *sample_s <= at_s + steps.seconds() / rate + reach_s);
        let around = &self.samples[from..to];
        let step_s = (self.interval_s / 20.0).max(steps.chip_s / 100.0);
        let shifts = (2.0 * reach_s / step_s) as usize;
        let like = |shift: usize| {
            let shift_s = shift as f64 * step_s - reach_s;
            let since = move |sample_s: f64| (sample_s - at_s - shift_s) * rate;
            let inside = around.iter().filter(move |(sample_s, _)| (0.0..steps.seconds()).contains(&since(*sample_s)));
            let pair = move |(sample_s, watts): &(f64, f64)| {
                let since_s = since(*sample_s);
                (*watts, steps.busy_share(since_s - window_s * rate, since_s))
            };
            (likeness(inside.map(pair)), shift_s)
        };
        let all: Vec<(f64, f64)> = (0..=shifts).map(like).collect();
        let best = all.iter().map(|(likeness, _)| *likeness).fold(0.0, f64::max);
        // Samples are far apart: some shifts next to each other are as good, and the middle of them is most likely.
        let top: Vec<f64> =
            all.iter().filter(|(likeness, _)| *likeness >= best - 1e-3).map(|(_, shift_s)| *shift_s).collect();
        (best, top.iter().sum::<f64>() / top.len().max(1) as f64)
    }

    /// The mean of the samples in the pauses, an interval away from all load.
    fn idle_watts(&self, offset_s: f64, rate: f64) -> Option<f64> {
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

/// The straight line nearest to points (least squares): where it crosses 0, and its slope.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let both: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let along: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = both / along;
    (mean_y - slope * mean_x, slope)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_core::Rng;

    use super::*;
    use crate::plan::Arm;
    use crate::workload::random_stream;

    /// A study on a made machine, and the meter at its plug.
    #[derive(Debug, Clone)]
    struct Made {
        /// Seconds of each run.
        run_s: f64,
        runs: usize,
        idle_watts: f64,
        busy_watts: f64,
        /// What the meter's clock showed at the study's start, and how fast it went.
        clock_s: f64,
        clock_rate: f64,
        interval_s: f64,
        /// Whether it tells the mean since its last sample, or the power of the moment.
        averages: bool,
        /// Watts up and down.
        noise_watts: f64,
        seed: u64,
    }

    /// When the study begins, and how long the trace is before and after.
    const BEGIN_S: f64 = 1_700_000_000.0;
    const AROUND_S: f64 = 100.0;

    impl Made {
        fn new() -> Self {
            Self {
                run_s: 20.0,
                runs: 30,
                idle_watts: 41.0,
                busy_watts: 98.0,
                clock_s: 77_000.25,
                clock_rate: 1.0,
                interval_s: 1.0,
                averages: false,
                noise_watts: 0.5,
                seed: 7,
            }
        }

        /// Watts of each run, by its number.
        fn watts(&self, run: usize) -> f64 {
            let share = (run * 7 % 10) as f64 / 10.0;
            self.idle_watts + (self.busy_watts - self.idle_watts) * (0.2 + 0.7 * share)
        }

        /// Each run takes its length, and three seconds before it at the same load.
        fn period_s(&self) -> f64 {
            self.run_s + 4.0
        }

        fn steps(&self) -> Vec<LoadSteps> {
            let half = self.runs / 2;
            let first = LoadSteps::at(BEGIN_S);
            let middle = LoadSteps::at(first.ended_unix_s() + half as f64 * self.period_s());
            let last = LoadSteps::at(middle.ended_unix_s() + (self.runs - half) as f64 * self.period_s());
            vec![first, middle, last]
        }

        fn rows(&self) -> Vec<Row> {
            let steps = self.steps();
            let row = |run: usize| {
                let half = self.runs / 2;
                let begin = if run < half { steps[0].ended_unix_s() } else { steps[1].ended_unix_s() };
                let before = if run < half { run } else { run - half };
                let mut row = Row::new(Arm::of_null("null"), run as u32);
                row.started_unix_s = begin + before as f64 * self.period_s() + 3.0;
                row.elapsed_s = self.run_s;
                row
            };
            (0..self.runs).map(row).collect()
        }

        /// Watts of the machine at a moment.
        fn power(&self, steps: &[LoadSteps], rows: &[Row], unix_s: f64) -> f64 {
            for steps in steps {
                if (steps.started_unix_s..steps.ended_unix_s()).contains(&unix_s) {
                    let since_s = unix_s - steps.started_unix_s;
                    return self.idle_watts + (self.busy_watts - self.idle_watts) * steps.busy_share(since_s, since_s);
                }
            }
            let of = |row: &Row| (row.started_unix_s - 3.0..row.started_unix_s + row.elapsed_s).contains(&unix_s);
            rows.iter().position(of).map_or(self.idle_watts, |run| self.watts(run))
        }

        /// What the meter wrote.
        fn samples(&self) -> Samples {
            let mut random = random_stream(self.seed, 0);
            let mut noise = || self.noise_watts * (random.next_u64() as f64 / u64::MAX as f64 * 2.0 - 1.0);
            let (steps, rows) = (self.steps(), self.rows());
            let power = |unix_s| self.power(&steps, &rows, unix_s);
            let length_s = steps[2].ended_unix_s() - BEGIN_S + 2.0 * AROUND_S;
            let count = (length_s / self.interval_s) as usize;
            let sample = |index: usize| {
                let since_s = index as f64 * self.interval_s - AROUND_S;
                let unix_s = BEGIN_S + since_s;
                let watts = match self.averages {
                    true => {
                        (0..10).map(|part| power(unix_s - f64::from(part) * self.interval_s / 10.0)).sum::<f64>() / 10.0
                    }
                    false => power(unix_s),
                };
                // A HOBO's resolution is a tenth of a watt.
                (self.clock_s + since_s * self.clock_rate, ((watts + noise()) * 10.0).round() / 10.0)
            };
            (0..count).map(sample).collect()
        }

        #[track_caller]
        fn assert_right(&self) -> Aligned {
            let aligned = align(&self.samples(), &self.steps()).unwrap_or_else(|why| panic!("{why}: {self:?}"));
            for (run, row) in self.rows().iter().enumerate() {
                let joules = aligned.joules(row).unwrap_or_else(|why| panic!("run {run}: {why}: {self:?}"));
                let right = self.watts(run) * self.run_s;
                assert!((joules / right - 1.0).abs() < 0.01, "run {run}: {joules} J and not {right} J: {self:?}");
            }
            assert!((aligned.idle_watts / self.idle_watts - 1.0).abs() < 0.02, "idle {}", aligned.idle_watts);
            aligned
        }

        #[track_caller]
        fn refused(&self, samples: &Samples, says: &str) {
            let why = align(samples, &self.steps()).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn a_trace_is_laid_right_whatever_the_meters_clock_showed() {
        for clock_s in [0.0, -5.3, 1e9, BEGIN_S + 3600.0] {
            let made = Made { clock_s, ..Made::new() };
            let aligned = made.assert_right();
            let unix_s = aligned.clock.offset_s + aligned.clock.rate * clock_s;
            assert!((unix_s - BEGIN_S).abs() < 0.8, "off by {} s", unix_s - BEGIN_S);
        }
    }

    #[test]
    fn drift_is_found_and_taken_out() {
        for drift in [-3000e-6, -200e-6, 20e-6, 200e-6, 1000e-6, 3000e-6] {
            let made = Made { clock_rate: 1.0 + drift, ..Made::new() };
            let aligned = made.assert_right();
            assert!(
                (1.0 / aligned.clock.rate - made.clock_rate).abs() < 4e-4,
                "{} and not {drift}",
                1.0 / aligned.clock.rate - 1.0
            );
        }
    }

    #[test]
    fn a_meter_that_averages_one_that_is_quick_and_one_that_is_slow_are_right_too() {
        Made { averages: true, ..Made::new() }.assert_right();
        Made { interval_s: 0.1, runs: 10, ..Made::new() }.assert_right();
        Made { interval_s: 0.1, averages: true, runs: 10, ..Made::new() }.assert_right();
        Made { interval_s: 2.0, averages: true, ..Made::new() }.assert_right();
        Made { interval_s: 1.7, ..Made::new() }.assert_right();
    }

    #[test]
    fn noise_as_large_as_half_a_step_does_not_hide_where_the_steps_are() {
        let made = Made { noise_watts: 25.0, ..Made::new() };
        let aligned = align(&made.samples(), &made.steps()).unwrap();
        let unix_s = aligned.clock.offset_s + aligned.clock.rate * made.clock_s;
        assert!((unix_s - BEGIN_S).abs() < 1.0, "off by {} s", unix_s - BEGIN_S);
    }

    #[test]
    fn a_gap_outside_of_runs_is_no_matter_and_one_over_a_run_refuses_that_run() {
        let made = Made::new();
        let aligned_without = |from_s: f64, to_s: f64| {
            let cut = |(at_s, _): &(f64, f64)| !(from_s..to_s).contains(&(at_s - made.clock_s));
            align(&made.samples().into_iter().filter(cut).collect(), &made.steps()).unwrap()
        };
        let rows = made.rows();
        let before_all = aligned_without(-60.0, -20.0);
        assert!(rows.iter().all(|row| before_all.joules(row).is_ok()));
        let begin = rows[4].started_unix_s - BEGIN_S;
        let over_one = aligned_without(begin + 5.0, begin + 15.0);
        assert!(over_one.joules(&rows[4]).unwrap_err().reason.contains("silent for 11 s"));
        assert!(over_one.joules(&rows[3]).is_ok() && over_one.joules(&rows[5]).is_ok());
    }

    #[test]
    fn runs_that_are_too_short_for_the_meter_are_refused_with_what_would_do() {
        let made = Made { run_s: 2.0, ..Made::new() };
        let aligned = align(&made.samples(), &made.steps()).unwrap();
        let why = aligned.joules(&made.rows()[0]).unwrap_err().to_string();
        assert!(why.starts_with("2 s is too short for a meter that is read every 1 s; --runtime 8s"), "{why}");
    }

    #[test]
    fn a_trace_without_the_steps_is_refused() {
        let made = Made::new();
        let level: Samples = made.samples().into_iter().map(|(at_s, _)| (at_s, 50.0)).collect();
        made.refused(&level, "no load step is to be seen in the trace; give the file of the meter");
        let mut random = random_stream(3, 0);
        let noise: Samples =
            made.samples().into_iter().map(|(at_s, _)| (at_s, (random.next_u64() % 100) as f64)).collect();
        made.refused(&noise, "load step");
        let other = Made { runs: 22, ..Made::new() };
        let mut longer = other.samples();
        let end_s = longer[longer.len() - 1].0;
        (1..600).for_each(|at| longer.push((end_s + f64::from(at), 41.0)));
        made.refused(&longer, "not those of this study, or not all of them");
    }

    #[test]
    fn a_trace_that_ends_before_the_study_is_refused() {
        let made = Made::new();
        let samples = made.samples();
        made.refused(&samples[..samples.len() / 2].to_vec(), "s long, and the study took");
        made.refused(&samples[..samples.len() - 140].to_vec(), "not all of them");
        made.refused(&samples[..1].to_vec(), "fewer than two samples");
        made.refused(&Vec::new(), "fewer than two samples");
    }

    #[test]
    fn a_trace_that_holds_the_study_twice_is_ambiguous() {
        let made = Made::new();
        let mut twice = made.samples();
        let length_s = twice.len() as f64;
        twice.extend(made.samples().into_iter().map(|(at_s, watts)| (at_s + length_s, watts)));
        made.refused(&twice, "in the trace more than once");
    }

    #[test]
    fn samples_that_are_too_far_apart_are_refused() {
        let made = Made { interval_s: 5.0, ..Made::new() };
        made.refused(&made.samples(), "too seldom for load steps of 3 s; let it tell power once a second");
    }

    #[test]
    fn a_clock_that_was_set_while_it_recorded_is_refused() {
        let made = Made::new();
        let middle = made.clock_s + (made.steps()[1].started_unix_s - BEGIN_S) - 60.0;
        let set = |(at_s, watts): (f64, f64)| (if at_s > middle { at_s + 2.6 } else { at_s }, watts);
        let samples: Samples = made.samples().into_iter().map(set).collect();
        let why = align(&samples, &made.steps()).unwrap_err().to_string();
        assert!(why.contains("does not run evenly") || why.contains("not those of this study"), "{why}");
    }

    #[test]
    fn load_steps_that_no_study_makes_are_refused() {
        let made = Made::new();
        let [first, _, last] = <[LoadSteps; 3]>::try_from(made.steps()).unwrap();
        let with = |change: fn(&mut LoadSteps)| {
            let mut changed = last.clone();
            change(&mut changed);
            align(&made.samples(), &[first.clone(), changed]).unwrap_err().reason
        };
        for change in [
            (|steps| steps.chip_s = 0.0) as fn(&mut LoadSteps),
            |steps| steps.chip_s = f64::NAN,
            |steps| steps.chip_s = 2.0,
            |steps| steps.code = "1111".into(),
            |steps| steps.started_unix_s -= 1e6,
            |steps| steps.started_unix_s = f64::INFINITY,
        ] {
            assert_eq!(with(change), "the load steps in study.json are not as a study makes them");
        }
    }

    #[test]
    fn without_load_steps_at_both_ends_nothing_can_be_laid() {
        let made = Made::new();
        let why = |steps: &[LoadSteps]| align(&made.samples(), steps).unwrap_err().to_string();
        assert!(why(&[]).starts_with("the study made no load steps; measure again with --meter-steps"));
        assert!(why(&made.steps()[..1]).contains("once alone"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_made_trace_is_right_to_a_hundredth(
            clock_s in -1e6..1e9_f64, drift in -500e-6..500e-6_f64, interval_s in 0.3..1.5_f64, averages in any::<bool>(),
            idle_watts in 20.0..200.0_f64, step_watts in 15.0..300.0_f64, noise in 0.0..0.02_f64, seed in any::<u64>(),
        ) {
            let busy_watts = idle_watts + step_watts;
            let noise_watts = noise * idle_watts;
            let clock_rate = 1.0 + drift;
            let made = Made {
                clock_s, clock_rate, interval_s, averages, idle_watts, busy_watts, noise_watts, seed, runs: 12, ..Made::new()
            };
            made.assert_right();
        }

        #[test]
        fn no_trace_makes_it_panic(
            watts in prop::collection::vec(0.0..1e6_f64, 0..400), step_s in 0.01..3.0_f64, apart_s in -100.0..500.0_f64,
        ) {
            let samples: Samples = watts.iter().enumerate().map(|(at, watts)| (at as f64 * step_s, *watts)).collect();
            let _ = align(&samples, &[LoadSteps::at(0.0), LoadSteps::at(apart_s)]);
        }
    }
}
