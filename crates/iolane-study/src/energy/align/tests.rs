//! Traces of a simulated meter are aligned to a hundredth, and those that cannot be are refused with the reason.

use proptest::prelude::*;
use rand_core::Rng;

use super::*;
use crate::plan::Arm;
use iolane_measure::workload::random_stream;

/// A simulated study and the meter that records it.
#[derive(Debug, Clone)]
struct Made {
    /// Seconds of each run.
    run_s: f64,
    runs: usize,
    idle_watts: f64,
    busy_watts: f64,
    /// The meter's clock at the start of the study, and its rate.
    clock_s: f64,
    clock_rate: f64,
    interval_s: f64,
    /// Whether it reports the mean since its last sample instead of instantaneous power.
    averages: bool,
    /// Amplitude of the noise.
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

    /// Each run is preceded by three seconds at the same load.
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
fn a_trace_is_aligned_for_any_offset_of_the_meters_clock() {
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
    assert!(over_one.joules(&rows[4]).unwrap_err().reason.contains("a gap of 11 s"));
    assert!(over_one.joules(&rows[3]).is_ok() && over_one.joules(&rows[5]).is_ok());
}

#[test]
fn runs_too_short_for_the_meter_are_refused_with_a_sufficient_runtime() {
    let made = Made { run_s: 2.0, ..Made::new() };
    let aligned = align(&made.samples(), &made.steps()).unwrap();
    let why = aligned.joules(&made.rows()[0]).unwrap_err().to_string();
    assert!(why.starts_with("2 s is too short for a meter that is read every 1 s; --runtime 8s"), "{why}");
}

#[test]
fn a_trace_without_the_steps_is_refused() {
    let made = Made::new();
    let level: Samples = made.samples().into_iter().map(|(at_s, _)| (at_s, 50.0)).collect();
    made.refused(&level, "the trace contains no load step; give a file recorded");
    let mut random = random_stream(3, 0);
    let noise: Samples = made.samples().into_iter().map(|(at_s, _)| (at_s, (random.next_u64() % 100) as f64)).collect();
    made.refused(&noise, "load step");
    let other = Made { runs: 22, ..Made::new() };
    let mut longer = other.samples();
    let end_s = longer[longer.len() - 1].0;
    (1..600).for_each(|at| longer.push((end_s + f64::from(at), 41.0)));
    made.refused(&longer, "not those of this study, or not all of them");
}

#[test]
fn a_trace_that_depths_before_the_study_is_refused() {
    let made = Made::new();
    let samples = made.samples();
    made.refused(&samples[..samples.len() / 2].to_vec(), "s long, but the study took");
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
    made.refused(&twice, "contains the load steps more than once");
}

#[test]
fn samples_that_are_too_far_apart_are_refused() {
    let made = Made { interval_s: 5.0, ..Made::new() };
    made.refused(&made.samples(), "too rarely for load steps of 3 s; set it to one sample per second");
}

#[test]
fn a_clock_that_was_set_while_it_recorded_is_refused() {
    let made = Made::new();
    let middle = made.clock_s + (made.steps()[1].started_unix_s - BEGIN_S) - 60.0;
    let set = |(at_s, watts): (f64, f64)| (if at_s > middle { at_s + 2.6 } else { at_s }, watts);
    let samples: Samples = made.samples().into_iter().map(set).collect();
    let why = align(&samples, &made.steps()).unwrap_err().to_string();
    assert!(why.contains("is not steady") || why.contains("not those of this study"), "{why}");
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
        assert_eq!(with(change), "the load steps in study.json are invalid");
    }
}

#[test]
fn a_trace_without_load_steps_at_both_ends_is_refused() {
    let made = Made::new();
    let why = |steps: &[LoadSteps]| align(&made.samples(), steps).unwrap_err().to_string();
    assert!(why(&[]).starts_with("the study made no load steps; measure again with --meter-steps"));
    assert!(why(&made.steps()[..1]).contains("only once"));
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
