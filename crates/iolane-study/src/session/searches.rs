//! The rate searches of a session, one for each arm: which run is next, from the runs so far.

use std::collections::HashMap;

use iolane_measure::workload::Rate;

use super::planned::Planned;
use super::run_list::may_retry;
use crate::plan::{Arm, LatencyBound};
use crate::rows::{Row, gives_up};
use crate::search::RateSearch;

pub(super) struct Searches {
    bound: LatencyBound,
    /// By arm.
    searches: Vec<RateSearch>,
    /// By arm: whether a run was rejected too often.
    given_up: Vec<bool>,
    /// By arm: the attempts at its next run.
    attempts: Vec<u32>,
    retries: usize,
    expected: usize,
}

/// The next run of an arm.
pub(super) struct NextRun {
    pub(super) rate: Rate,
    /// The number of earlier runs at this rate.
    pub(super) repeat: u32,
    pub(super) attempt: u32,
}

impl Searches {
    /// The searches of these arms, continued from their runs.
    pub(super) fn new(planned: &[Planned], bound: LatencyBound, repeats: usize, rows: &[Row]) -> Self {
        let mut searches = Self {
            bound,
            searches: vec![RateSearch::new(bound, repeats); planned.len()],
            given_up: vec![false; planned.len()],
            attempts: vec![0; planned.len()],
            retries: 0,
            expected: RateSearch::expected_trials(repeats) * planned.len(),
        };
        let places = planned.iter().enumerate().map(|(index, planned)| (planned.arm.without_rate(), index));
        let places: HashMap<Arm, usize> = places.collect();
        for row in rows {
            if let Some(index) = places.get(&row.arm.without_rate()) {
                searches.note(*index, row);
            }
        }
        searches
    }

    /// The next run of an arm; `None` if its search has ended.
    pub(super) fn next(&self, index: usize) -> Option<NextRun> {
        let search = &self.searches[index];
        let rate = search.next_rate().filter(|_| !self.given_up[index])?;
        let repeat = search.trials_at(rate) as u32;
        Some(NextRun { rate: Rate::new(rate).ok()?, repeat, attempt: self.attempts[index] })
    }

    pub(super) fn note(&mut self, index: usize, row: &Row) {
        self.attempts[index] += 1;
        if row.rejected.is_some() {
            self.retries += 1;
            self.given_up[index] |= gives_up(row, self.attempts[index]);
            return;
        }
        self.attempts[index] = 0;
        if let Some(trial) = row.trial(self.bound) {
            self.searches[index].note(trial);
        }
    }

    /// About how many runs are left.
    pub(super) fn runs_left(&self) -> usize {
        let going = self.searches.iter().zip(&self.given_up).filter(|(_, given_up)| !**given_up);
        going.map(|(search, _)| search.trials_left()).sum()
    }

    pub(super) fn may_retry(&self) -> bool {
        may_retry(self.retries, self.expected)
    }

    pub(super) fn gave_up(&self, index: usize) -> bool {
        self.given_up[index]
    }
}
