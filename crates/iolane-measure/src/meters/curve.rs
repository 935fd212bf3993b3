//! Joules over time as a meter reported them, and the joules of an interval. A live meter fills a curve while a study runs,
//! an external meter's trace fills one afterwards. Nothing here reads a meter or a clock.

use std::collections::VecDeque;

use crate::telemetry::{Reading, Unavailable};

/// What a meter reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Joules so far: the second of two readings includes everything between them.
    Counter,
    /// Watts of a moment, or of the time since the reading before: the mean of two readings holds between them, and a long
    /// gap has no value.
    Gauge,
}

/// Readings of a meter, as joules since the first.
#[derive(Debug, Clone)]
pub struct Curve {
    kind: Kind,
    /// Seconds, and joules since the first point; both ascend.
    points: VecDeque<(f64, f64)>,
    last_watts: f64,
    /// The interval of a complete curve, so that it is computed once.
    interval_s: Option<f64>,
}

/// Readings of a gauge that an interval needs, without those near its ends.
const GAUGE_POINTS_MIN: usize = 5;
/// Readings of a counter that an interval needs: one difference would do, two show that it advances.
const COUNTER_POINTS_MIN: usize = 3;
/// A gauge without a reading for this many of its intervals has a gap.
const GAP_INTERVALS: f64 = 3.5;

/// Time over which the latest watts of a counter are averaged: one that advances each millisecond is then precise to about
/// a percent.
const LATE_S: f64 = 0.5;

impl Curve {
    pub fn new(kind: Kind) -> Self {
        Self { kind, points: VecDeque::new(), last_watts: 0.0, interval_s: None }
    }

    /// Adds a counter's reading. It is ignored if it is not later than the last.
    pub fn note_joules(&mut self, at_s: f64, joules: f64) {
        if self.points.back().is_none_or(|(last_s, _)| at_s > *last_s) {
            self.points.push_back((at_s, joules));
        }
    }

    /// Adds a gauge's reading. It is ignored if it is not later than the last.
    pub fn note_watts(&mut self, at_s: f64, watts: f64) {
        let joules = match self.points.back() {
            Some((last_s, _)) if at_s <= *last_s => return,
            Some((last_s, joules)) => joules + (at_s - last_s) * (watts + self.last_watts) / 2.0,
            None => 0.0,
        };
        self.points.push_back((at_s, joules));
        self.last_watts = watts;
    }

    /// Median of the seconds between points; `None` with fewer than two points.
    pub fn interval_s(&self) -> Option<f64> {
        if self.interval_s.is_some() {
            return self.interval_s;
        }
        let mut steps: Vec<f64> = self.points.iter().zip(self.points.iter().skip(1)).map(|(a, b)| b.0 - a.0).collect();
        let middle = steps.len() / 2;
        (!steps.is_empty()).then(|| *steps.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// The same curve, to which no more points are added.
    pub fn whole(self) -> Self {
        Self { interval_s: self.interval_s(), ..self }
    }

    /// Times of the first and last point; `None` without points.
    pub fn span_s(&self) -> Option<(f64, f64)> {
        Some((self.points.front()?.0, self.points.back()?.0))
    }

    /// The latest watts: the last reading of a gauge, the mean of a counter over its last half second; `None` with too few
    /// readings.
    pub fn latest_watts(&self) -> Option<f64> {
        let (last_s, last_joules) = *self.points.back()?;
        if self.kind == Kind::Gauge {
            return Some(self.last_watts);
        }
        let before = self.points.iter().rev().find(|(at_s, _)| last_s - at_s >= LATE_S)?;
        Some((last_joules - before.1) / (last_s - before.0))
    }

    /// Drops the points before a moment, except the last of them.
    pub fn forget_before(&mut self, at_s: f64) {
        while self.points.get(1).is_some_and(|(second_s, _)| *second_s < at_s) {
            self.points.pop_front();
        }
    }

    /// Shortest interval that has joules, in seconds.
    pub fn interval_min_s(&self) -> f64 {
        let interval_s = self.interval_s().unwrap_or(0.0);
        match self.kind {
            Kind::Counter => interval_s * (COUNTER_POINTS_MIN + 1) as f64,
            Kind::Gauge => interval_s * (GAUGE_POINTS_MIN + 3) as f64,
        }
    }

    /// Joules of an interval: the mean power of the points in it, times its length. The first and last step of a gauge are
    /// excluded, since their watts may belong to the time before or after.
    ///
    /// # Errors
    /// If there are too few points, a gap, or no joules at all.
    pub fn joules(&self, from_s: f64, to_s: f64) -> Reading<f64> {
        let Some((interval_s, (begin_s, end_s))) = self.interval_s().zip(self.span_s()) else {
            return Err(Unavailable::new("the meter has fewer than two readings"));
        };
        let length_s = to_s - from_s;
        let (edge_s, points_min) = match self.kind {
            Kind::Counter => (0.0, COUNTER_POINTS_MIN),
            Kind::Gauge => (interval_s, GAUGE_POINTS_MIN),
        };
        if from_s < begin_s - interval_s {
            return Err(Unavailable::new(format!("the meter started {} later", seconds(begin_s - from_s))));
        }
        if to_s > end_s + interval_s.max(edge_s) * GAP_INTERVALS {
            return Err(Unavailable::new(format!("the meter ended {} earlier", seconds(to_s - end_s))));
        }
        let after = self.points.partition_point(|(at_s, _)| *at_s < from_s + edge_s);
        let inner: Vec<&(f64, f64)> =
            self.points.range(after..).take_while(|(at_s, _)| *at_s <= to_s - edge_s).collect();
        if let (Kind::Gauge, Some(gap)) = (self.kind, self.gap(from_s, to_s, interval_s)) {
            return Err(Unavailable::new(format!("the meter has a gap of {} in it", seconds(gap))));
        }
        if inner.len() < points_min {
            let cause =
                format!("{} is too short for a meter that is read every {}", seconds(length_s), seconds(interval_s));
            return Err(
                Unavailable::new(cause).remedy(format!("--runtime {}s or longer", self.interval_min_s().ceil()))
            );
        }
        let (first, last) = (inner[0], inner[inner.len() - 1]);
        let joules = (last.1 - first.1) / (last.0 - first.0) * length_s;
        if joules.is_finite() && joules > 0.0 { Ok(joules) } else { Err(Unavailable::new("the meter did not advance")) }
    }

    /// The longest gap that touches an interval, if there is one.
    fn gap(&self, from_s: f64, to_s: f64, interval_s: f64) -> Option<f64> {
        let first = self.points.partition_point(|(at_s, _)| *at_s <= from_s).saturating_sub(1);
        let mut longest = 0.0_f64;
        for (a, b) in self.points.range(first..).zip(self.points.range(first..).skip(1)) {
            if a.0 >= to_s {
                break;
            }
            longest = longest.max(b.0 - a.0);
        }
        (longest > interval_s * GAP_INTERVALS).then_some(longest)
    }

    /// Mean watts of an interval from all points, interpolated at its ends; `None` outside the points.
    pub fn mean_watts(&self, from_s: f64, to_s: f64) -> Option<f64> {
        Some((self.joules_at(to_s)? - self.joules_at(from_s)?) / (to_s - from_s))
    }

    fn joules_at(&self, at_s: f64) -> Option<f64> {
        let after = self.points.partition_point(|(point_s, _)| *point_s <= at_s);
        let (before_s, before) = *self.points.get(after.checked_sub(1)?)?;
        match self.points.get(after) {
            Some((after_s, after)) => Some(before + (after - before) * (at_s - before_s) / (after_s - before_s)),
            None => (at_s == before_s).then_some(before),
        }
    }
}

/// `0.25 s`, `7 s`, `1200 s`.
fn seconds(value: f64) -> String {
    match value {
        value if value >= 10.0 => format!("{value:.0} s"),
        value => format!("{} s", (value * 100.0).round() / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A gauge that reads `watts` each `interval_s` up to `end_s`.
    fn gauge(interval_s: f64, end_s: f64, watts: impl Fn(f64) -> f64) -> Curve {
        let mut curve = Curve::new(Kind::Gauge);
        let points = (end_s / interval_s) as usize;
        (0..=points).map(|point| point as f64 * interval_s).for_each(|at_s| curve.note_watts(at_s, watts(at_s)));
        curve
    }

    #[track_caller]
    fn assert_near(measured: f64, right: f64, share: f64) {
        assert!((measured / right - 1.0).abs() <= share, "{measured} J instead of {right} J");
    }

    #[test]
    fn latest_watts_are_a_gauges_last_and_a_counters_over_half_a_second() {
        let mut told = Curve::new(Kind::Gauge);
        assert_eq!(told.latest_watts(), None);
        [(0.0, 40.0), (1.0, 90.0)].iter().for_each(|(at_s, watts)| told.note_watts(*at_s, *watts));
        assert_eq!(told.latest_watts(), Some(90.0));
        let mut counter = Curve::new(Kind::Counter);
        [(0.0, 0.0), (0.25, 100.0)].iter().for_each(|(at_s, joules)| counter.note_joules(*at_s, *joules));
        assert_eq!(counter.latest_watts(), None, "a quarter of a second is too short");
        [(0.5, 110.0), (0.75, 120.0)].iter().for_each(|(at_s, joules)| counter.note_joules(*at_s, *joules));
        assert_eq!(counter.latest_watts(), Some(40.0));
    }

    #[test]
    fn an_interval_of_steady_power_does_not_depend_on_the_power_around_it() {
        let curve = gauge(1.0, 60.0, |at_s| if (20.0..40.0).contains(&at_s) { 100.0 } else { 30.0 });
        assert_near(curve.joules(20.3, 39.7).unwrap(), 1940.0, 1e-9);
    }

    #[test]
    fn a_counter_yields_the_right_joules_though_it_was_read_late() {
        let mut curve = Curve::new(Kind::Counter);
        for at_s in [0.0, 1.0, 1.1, 4.0, 4.1, 9.0] {
            curve.note_joules(at_s, 50.0 * at_s);
        }
        assert_near(curve.joules(0.9, 5.0).unwrap(), 205.0, 1e-9);
    }

    #[test]
    fn a_ramp_and_a_wave_within_a_stretch_are_integrated_to_a_hundredth() {
        let ramp = gauge(1.0, 300.0, |at_s| 100.0 + 0.2 * at_s);
        assert_near(ramp.joules(100.0, 200.0).unwrap(), 13_000.0, 1e-3);
        let wave = gauge(1.0, 300.0, |at_s| 100.0 + 20.0 * (at_s / 7.0).sin());
        let right = 6000.0 + 20.0 * 7.0 * ((100.0_f64 / 7.0).cos() - (160.0_f64 / 7.0).cos());
        assert_near(wave.joules(100.0, 160.0).unwrap(), right, 0.01);
    }

    #[test]
    fn intervals_too_short_too_early_too_late_or_with_a_gap_are_refused_with_the_reason() {
        let curve = gauge(1.0, 60.0, |_| 50.0);
        let reason = |curve: &Curve, from_s, to_s| curve.joules(from_s, to_s).unwrap_err().to_string();
        assert_eq!(
            reason(&curve, 20.0, 23.0),
            "3 s is too short for a meter that is read every 1 s; --runtime 8s or longer"
        );
        assert!(curve.joules(20.0, 28.0).is_ok(), "the remedy does not help");
        assert_eq!(reason(&curve, -9.0, 20.0), "the meter started 9 s later");
        assert_eq!(reason(&curve, 50.0, 70.0), "the meter ended 10 s earlier");
        let mut gap = gauge(1.0, 30.0, |_| 50.0);
        (40..60).for_each(|at_s| gap.note_watts(f64::from(at_s), 50.0));
        assert_eq!(reason(&gap, 20.0, 45.0), "the meter has a gap of 10 s in it");
        assert!(gap.joules(10.0, 29.0).is_ok() && gap.joules(41.0, 58.0).is_ok());
        assert_eq!(reason(&Curve::new(Kind::Gauge), 0.0, 9.0), "the meter has fewer than two readings");
    }

    #[test]
    fn a_meter_that_does_not_advance_is_unavailable_and_not_0() {
        let mut curve = Curve::new(Kind::Counter);
        (0..100).for_each(|at| curve.note_joules(f64::from(at), 7.0));
        assert_eq!(curve.joules(10.0, 90.0).unwrap_err().to_string(), "the meter did not advance");
        assert!(gauge(1.0, 60.0, |_| 0.0).joules(10.0, 50.0).is_err());
    }

    #[test]
    fn dropped_points_do_not_affect_later_intervals() {
        let whole = gauge(1.0, 100.0, |at_s| 50.0 + at_s);
        let mut pruned = whole.clone();
        pruned.forget_before(60.0);
        assert!(pruned.points.len() < 45);
        assert_near(pruned.joules(60.5, 90.0).unwrap(), whole.joules(60.5, 90.0).unwrap(), 1e-12);
    }

    proptest! {
        #[test]
        fn noise_of_a_gauge_averages_out(seed in any::<u64>(), watts in 20.0..800.0_f64) {
            let mut random = crate::workload::random_stream(seed, 0);
            let noise = |_: f64| {
                let unit = rand_core::Rng::next_u64(&mut random) as f64 / u64::MAX as f64;
                watts * (1.0 + 0.04 * (unit - 0.5))
            };
            let noise = std::cell::RefCell::new(noise);
            let curve = gauge(1.0, 200.0, |at_s| (noise.borrow_mut())(at_s));
            let joules = curve.joules(40.0, 160.0).unwrap();
            prop_assert!((joules / (watts * 120.0) - 1.0).abs() < 0.01, "{joules}");
        }

        #[test]
        fn no_points_and_no_stretch_make_it_panic(
            points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20),
            from in any::<f64>(), to in any::<f64>(),
        ) {
            for kind in [Kind::Counter, Kind::Gauge] {
                let mut curve = Curve::new(kind);
                for (at, value) in &points {
                    match kind {
                        Kind::Counter => curve.note_joules(*at, *value),
                        Kind::Gauge => curve.note_watts(*at, *value),
                    }
                }
                let _ = (curve.joules(from, to), curve.mean_watts(from, to), curve.interval_min_s());
                curve.forget_before(from);
            }
        }
    }
}
