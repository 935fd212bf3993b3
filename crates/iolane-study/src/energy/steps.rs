//! Load steps that a study makes for an external meter: every cpu busy and idle by turns, in a pattern that looks like
//! nothing else. By them the meter's trace is laid over the study afterwards. Sessions make them between runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// Barker's code of length 13, which is like itself at no other place, between pauses that show the idle machine.
const CODE: &str = "00111110011010100";
/// Seconds of each digit: three samples of a meter that tells one a second.
const CHIP_S: f64 = 3.0;
/// How often a stop is looked for.
const TICK: Duration = Duration::from_millis(50);

/// One pattern of load, as it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSteps {
    /// When it began, in seconds since 1970.
    pub started_unix_s: f64,
    /// Seconds of each digit of the code.
    pub chip_s: f64,
    /// `1`: every cpu was busy; `0`: none was.
    pub code: String,
}

impl LoadSteps {
    /// One that begins then.
    pub fn at(started_unix_s: f64) -> Self {
        Self { started_unix_s, chip_s: CHIP_S, code: CODE.into() }
    }

    /// Whether it can be: what a file says need not.
    pub(super) fn is_sound(&self) -> bool {
        let is_code = self.code.len() <= 1000 && self.code.bytes().all(|digit| [b'0', b'1'].contains(&digit));
        is_code
            && self.code.contains('0')
            && self.code.contains('1')
            && self.chip_s > 0.0
            && self.ended_unix_s().is_finite()
    }

    /// Whether both are of one pattern.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.chip_s == other.chip_s && self.code == other.code
    }

    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.chip_s * self.code.len() as f64
    }

    /// When it ended, in seconds since 1970.
    pub fn ended_unix_s(&self) -> f64 {
        self.started_unix_s + self.seconds()
    }

    /// The digits as load.
    pub(super) fn load(&self) -> impl Iterator<Item = f64> + '_ {
        self.code.bytes().map(|digit| f64::from(u8::from(digit == b'1')))
    }

    /// Which share of a time, in seconds from its start, it was busy; 0 outside of it.
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

/// How long making them takes.
pub fn duration() -> Duration {
    Duration::from_secs_f64(CHIP_S * CODE.len() as f64)
}

/// Makes them; `None` if it was stopped.
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

/// Keeps every cpu busy.
fn burn(end: Instant, stop: &AtomicBool) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = || {
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            (0..1000).for_each(|_| std::hint::spin_loop());
        }
    };
    std::thread::scope(|scope| {
        let threads = (1..cpus).map(|_| std::thread::Builder::new().spawn_scoped(scope, busy));
        // One that cannot be made leaves a lower step.
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
    fn the_pattern_is_like_itself_at_no_other_place() {
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
