//! The runs of a session: their order, which are done, and which are still to be made or repeated.

use std::collections::HashMap;

use rand_core::Rng;

use super::planned::Planned;
use crate::plan::Arm;
use crate::rows::{Row, gives_up};
use crate::stats::shuffle;

/// Disturbed runs that are repeated, as a share of all: a study must end even on a machine that is never quiet.
const RETRIES_SHARE: f64 = 0.1;

/// Whether another disturbed run may be repeated, of `total` runs.
pub(super) fn may_retry(retries: usize, total: usize) -> bool {
    (retries as f64) < RETRIES_SHARE * total as f64
}

pub(super) struct RunList {
    /// By arm and repeat: the attempts so far, and why the last was rejected.
    made: HashMap<(usize, u32), (u32, Option<String>)>,
    /// By arm: whether one of its repeats was rejected too often.
    given_up: Vec<bool>,
    retries: usize,
}

impl RunList {
    pub(super) fn new(planned: &[Planned], rows: &[Row]) -> Self {
        let mut runs = Self { made: HashMap::new(), given_up: vec![false; planned.len()], retries: 0 };
        let index: HashMap<&Arm, usize> =
            planned.iter().enumerate().map(|(index, planned)| (&planned.arm, index)).collect();
        for row in rows {
            if let Some(index) = index.get(&row.arm) {
                runs.note(*index, row);
            }
        }
        runs
    }

    pub(super) fn note(&mut self, index: usize, row: &Row) {
        let made = self.made.entry((index, row.repeat)).or_default();
        *made = (made.0 + 1, row.rejected.clone());
        self.retries += usize::from(row.rejected.is_some());
        self.given_up[index] |= gives_up(row, made.0);
    }

    pub(super) fn wants(&self, index: usize, repeat: u32) -> bool {
        let had = self.made.get(&(index, repeat)).is_some_and(|(_, trouble)| trouble.is_none());
        !had && !self.given_up[index]
    }

    pub(super) fn attempts(&self, index: usize, repeat: u32) -> u32 {
        self.made.get(&(index, repeat)).map_or(0, |(attempts, _)| *attempts)
    }

    pub(super) fn may_retry(&self, total: usize) -> bool {
        may_retry(self.retries, total)
    }

    pub(super) fn gave_up(&self, index: usize) -> bool {
        self.given_up[index]
    }
}

/// The numbers below `count` in random order (Fisher and Yates).
pub(super) fn shuffled(count: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, random);
    order
}
