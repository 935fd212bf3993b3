//! Who decides for the queue of `auto`: the rule of `iolane-policy`, or chance, for tests.

use iolane_core::AutoOptions;
use iolane_policy::{Bounds, Chooser, Decision, Known, Reason, Window};

use super::lane::GENERAL;
use super::watch::Sampling;

/// Who decides.
pub(super) enum Policy {
    Chooser(Box<Chooser>),
    /// Another lane every few requests; the state of a generator of random numbers (xorshift64).
    Restless(u64),
}

impl Policy {
    /// The one that options ask for, among this many candidates, of which something may be known.
    pub(super) fn new(options: AutoOptions, candidates: usize, known: Vec<Known>) -> Self {
        match options.restless {
            true => Self::Restless(0x9e37_79b9_7f4a_7c15),
            false => {
                let cores_max = options.cores_max_percent.map(|percent| f64::from(percent) / 100.0);
                let bounds = Bounds { cores_max, explores: !options.no_explore };
                let chooser = Chooser::new(options.goal.unwrap_or_default(), candidates);
                Self::Chooser(Box::new(chooser.bounded(bounds).remembering(known)))
            }
        }
    }

    /// What it has learnt.
    pub(super) fn known(&self) -> Vec<Known> {
        match self {
            Self::Chooser(chooser) => chooser.known(),
            Self::Restless(_) => Vec::new(),
        }
    }

    pub(super) fn first(&self) -> Decision {
        match self {
            Self::Chooser(chooser) => chooser.first(),
            Self::Restless(_) => Decision { candidate: GENERAL, reason: Reason::First, settling_ns: 0, window_ns: 0 },
        }
    }

    pub(super) fn next(&mut self, window: &Window, candidates: usize) -> Decision {
        match self {
            Self::Chooser(chooser) => chooser.next(window),
            Self::Restless(_) => self.refuse(candidates),
        }
    }

    pub(super) fn refuse(&mut self, candidates: usize) -> Decision {
        match self {
            Self::Chooser(chooser) => chooser.refuse(),
            Self::Restless(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                Decision {
                    candidate: (*state % candidates as u64) as usize,
                    reason: Reason::Tried,
                    settling_ns: 0,
                    window_ns: 0,
                }
            }
        }
    }

    /// Which calls of the next window to time.
    pub(super) fn sampling(&self, decision: &Decision) -> Sampling {
        match self {
            Self::Chooser(_) if decision.reason == Reason::Tried => Sampling::Every,
            Self::Chooser(_) => Sampling::Some,
            Self::Restless(state) => Sampling::LeaveOut(state >> 62),
        }
    }

    pub(super) fn is_hopeless(&self, window: &Window) -> bool {
        match self {
            Self::Chooser(chooser) => chooser.is_hopeless(window),
            Self::Restless(_) => false,
        }
    }
}
