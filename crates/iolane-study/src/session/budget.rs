//! A limit of time for the runs of a session, which ends between two rounds of runs.

use std::time::{Duration, Instant};

/// How far a limit may be exceeded by the last round.
const EXCESS_MAX: f64 = 1.1;

/// The time that is left for rounds of runs, each about as long as the longest before it.
pub(super) struct Budget {
    limit: Option<Duration>,
    /// When the first round began: what prepares for it takes none of the time.
    begun: Option<Instant>,
    round_begun: Option<Instant>,
    longest: Duration,
}

impl Budget {
    /// A budget that begins with the first round; without a limit it allows everything.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, begun: None, round_begun: None, longest: Duration::ZERO }
    }

    /// Called before each round: whether it will probably end in time. The first is always allowed.
    pub(super) fn allows_another(&mut self) -> bool {
        self.allows_another_at(Instant::now())
    }

    fn allows_another_at(&mut self, now: Instant) -> bool {
        let begun = *self.begun.get_or_insert(now);
        let Some(round_begun) = self.round_begun.replace(now) else { return true };
        self.longest = self.longest.max(now - round_begun);
        self.limit.is_none_or(|limit| now - begun + self.longest <= limit.mul_f64(EXCESS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rounds of these lengths, in seconds, a limit allows.
    fn rounds(limit_s: Option<u64>, lengths_s: &[u64]) -> usize {
        let mut budget = Budget::new(limit_s.map(Duration::from_secs));
        // Drives are written before the first round, which may take long.
        let mut now = Instant::now() + Duration::from_secs(1000);
        let mut count = 0;
        for length_s in lengths_s {
            if !budget.allows_another_at(now) {
                break;
            }
            count += 1;
            now += Duration::from_secs(*length_s);
        }
        count
    }

    #[test]
    fn rounds_end_before_the_limit_is_exceeded_by_more_than_a_tenth() {
        assert_eq!(rounds(Some(50), &[10; 9]), 5);
        assert_eq!(rounds(Some(46), &[10; 9]), 5, "50 s are within a tenth of 46 s");
        assert_eq!(rounds(Some(45), &[10; 9]), 4);
        // The longest round so far is what the next may take.
        assert_eq!(rounds(Some(40), &[5, 20, 5, 5, 5]), 2);
    }

    #[test]
    fn the_first_round_is_always_allowed_and_without_a_limit_all_are() {
        assert_eq!(rounds(Some(1), &[10; 9]), 1);
        assert_eq!(rounds(None, &[1000; 9]), 9);
    }
}
