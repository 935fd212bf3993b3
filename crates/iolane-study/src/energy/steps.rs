//! Load steps for an external meter: all CPUs alternate between busy and idle in a distinctive pattern, by which `align`
//! finds the study in the meter's trace. Sessions make them between runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// The Barker code of length 13, which has minimal autocorrelation, between pauses that show idle power.
const CODE: &str = "00111110011010100";
/// Seconds per digit: three samples of a meter with one sample per second.
const CHIP_S: f64 = 3.0;
/// Interval at which `stop` is checked.
const TICK: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSteps {
    /// Unix time of its start, in seconds.
    pub started_unix_s: f64,
    /// Seconds per digit of the code.
    pub chip_s: f64,
    /// `1`: all CPUs busy; `0`: all idle.
    pub code: String,
}

impl LoadSteps {
    pub fn at(started_unix_s: f64) -> Self {
        Self { started_unix_s, chip_s: CHIP_S, code: CODE.into() }
    }

    /// Whether the values are plausible; a file may contain any.
    pub(super) fn is_sound(&self) -> bool {
        let is_code = self.code.len() <= 1000 && self.code.bytes().all(|digit| [b'0', b'1'].contains(&digit));
        is_code
            && self.code.contains('0')
            && self.code.contains('1')
            && self.chip_s > 0.0
            && self.ended_unix_s().is_finite()
    }

    /// Whether both have the same pattern.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.chip_s == other.chip_s && self.code == other.code
    }

    pub fn seconds(&self) -> f64 {
        self.chip_s * self.code.len() as f64
    }

    /// Unix time of its end, in seconds.
    pub fn ended_unix_s(&self) -> f64 {
        self.started_unix_s + self.seconds()
    }

    /// The digits as load, 0 or 1.
    pub(super) fn load(&self) -> impl Iterator<Item = f64> + '_ {
        self.code.bytes().map(|digit| f64::from(u8::from(digit == b'1')))
    }

    /// The busy share of an interval, in seconds from its start; 0 outside the pattern.
    pub(super) fn busy_share(&self, from_s: f64, to_s: f64) -> f64 {
        let chip = |at_s: f64| {
            let index = (at_s / self.chip_s).floor();
            index >= 0.0 && self.code.as_bytes().get(index as usize) == Some(&b'1')
        };
        if to_s <= from_s {
            return f64::from(u8::from(chip(to_s)));
        }
        let overlap = |(index, load): (usize, f64)| {
            let (begin_s, end_s) = (index as f64 * self.chip_s, (index + 1) as f64 * self.chip_s);
            load * (to_s.min(end_s) - from_s.max(begin_s)).max(0.0)
        };
        self.load().enumerate().map(overlap).sum::<f64>() / (to_s - from_s)
    }
}

/// How long [`make`] takes.
pub fn duration() -> Duration {
    Duration::from_secs_f64(CHIP_S * CODE.len() as f64)
}

/// Makes the load steps; `None` if stopped.
pub fn make(stop: &AtomicBool) -> Option<LoadSteps> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (steps, begun) = (LoadSteps::at(since_1970.as_secs_f64()), Instant::now());
    let loads: Vec<f64> = steps.load().collect();
    let mut done = 0;
    for same in loads.chunk_by(|a, b| a == b) {
        done += same.len();
        let end = begun + Duration::from_secs_f64(steps.chip_s * done as f64);
        if same[0] > 0.0 { burn(end, stop) } else { rest(end, stop) }
    }
    (!stop.load(Ordering::Relaxed)).then_some(steps)
}

/// Keeps all CPUs busy until `end`.
fn burn(end: Instant, stop: &AtomicBool) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = || {
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            (0..1000).for_each(|_| std::hint::spin_loop());
        }
    };
    std::thread::scope(|scope| {
        let threads = (1..cpus).map(|_| std::thread::Builder::new().spawn_scoped(scope, busy));
        // A thread that cannot be created only makes the step lower.
        let _threads: Vec<_> = threads.collect();
        busy();
    });
}

fn rest(end: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(TICK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_does_not_correlate_with_its_shifts() {
        let signs: Vec<i32> = CODE.trim_matches('0').bytes().map(|digit| if digit == b'1' { 1 } else { -1 }).collect();
        for shift in 1..signs.len() {
            let likeness: i32 = signs.iter().zip(&signs[shift..]).map(|(a, b)| a * b).sum();
            assert!(likeness.abs() <= 1, "shifted by {shift}: {likeness} of {}", signs.len());
        }
    }

    #[test]
    fn the_share_of_a_time_that_was_busy_is_that_of_its_digits() {
        let steps = LoadSteps::at(1000.0);
        assert_eq!((steps.seconds(), steps.ended_unix_s()), (51.0, 1051.0));
        assert_eq!(steps.busy_share(5.0, 7.0), 0.5);
        assert_eq!(
            (steps.busy_share(7.0, 20.0), steps.busy_share(-9.0, 5.0), steps.busy_share(51.0, 99.0)),
            (1.0, 0.0, 0.0)
        );
        assert_eq!(
            (steps.busy_share(7.0, 7.0), steps.busy_share(22.0, 22.0), steps.busy_share(-1.0, -1.0)),
            (1.0, 0.0, 0.0)
        );
    }

    #[test]
    fn steps_that_are_stopped_leave_none() {
        assert_eq!(make(&AtomicBool::new(true)), None);
    }
}
