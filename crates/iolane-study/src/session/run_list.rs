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

/// Failures of a peer for one reason after which it is given up.
const FAILURES_MAX: u32 = 3;

pub(super) struct RunList {
    /// By arm and repeat: the attempts so far, and why the last was rejected.
    made: HashMap<(usize, u32), (u32, Option<String>)>,
    /// By arm: the repeat that was rejected too often; `None` if none was.
    given_up: Vec<Option<u32>>,
    /// By arm: the peer that runs it, if one does.
    peers: Vec<Option<String>>,
    /// By peer: why it failed, and how many of its runs in a row did for this reason; `None` since it succeeded once.
    failures: HashMap<String, Option<(String, u32)>>,
    retries: usize,
}

impl RunList {
    pub(super) fn new(planned: &[Planned], rows: &[Row]) -> Self {
        let mut runs = Self {
            made: HashMap::new(),
            given_up: vec![None; planned.len()],
            peers: planned.iter().map(|planned| planned.arm.peer.clone()).collect(),
            failures: HashMap::new(),
            retries: 0,
        };
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
        if gives_up(row, made.0) {
            self.given_up[index].get_or_insert(row.repeat);
        }
        if let Some(peer) = self.peers[index].clone() {
            self.note_peer(peer, row);
        }
    }

    /// A peer that never succeeds and fails for one reason, as for want of memory, will do so in all of its arms.
    fn note_peer(&mut self, peer: String, row: &Row) {
        let known = self.failures.entry(peer.clone()).or_insert_with(|| Some((String::new(), 0)));
        let (Some((reason, count)), Some(why)) = (&mut *known, row.rejected.as_deref()) else {
            *known = None;
            return;
        };
        let why = cause(why);
        *count = if *reason == why { *count + 1 } else { 1 };
        *reason = why.to_owned();
        if *count >= FAILURES_MAX {
            let with_peers = self.given_up.iter_mut().zip(&self.peers);
            let of_peer = with_peers.filter(|(_, known)| **known == Some(peer.clone()));
            of_peer.for_each(|(given_up, _)| *given_up = given_up.or(Some(row.repeat)));
        }
    }

    /// Why the peer of an arm was given up for all of its arms; `None` if it was not.
    pub(super) fn peer_trouble(&self, index: usize) -> Option<String> {
        let peer = self.peers[index].as_ref()?;
        let (reason, count) = self.failures.get(peer)?.as_ref()?;
        (*count >= FAILURES_MAX)
            .then(|| format!("{peer} failed {count} times for one reason, and was given up: {reason}"))
    }

    pub(super) fn wants(&self, index: usize, repeat: u32) -> bool {
        let had = self.made.get(&(index, repeat)).is_some_and(|(_, trouble)| trouble.is_none());
        !had && self.given_up[index].is_none()
    }

    pub(super) fn attempts(&self, index: usize, repeat: u32) -> u32 {
        self.made.get(&(index, repeat)).map_or(0, |(attempts, _)| *attempts)
    }

    pub(super) fn may_retry(&self, total: usize) -> bool {
        may_retry(self.retries, total)
    }

    /// The repeat in which an arm was given up, if it was.
    pub(super) fn gave_up(&self, index: usize) -> Option<u32> {
        self.given_up[index]
    }
}

/// What failed, without the path on which it did: `peer bdevperf on libaio: it failed (...)`.
fn cause(why: &str) -> &str {
    why.strip_prefix("peer ").and_then(|rest| rest.split_once(": ")).map_or(why, |(_, cause)| cause)
}

/// The numbers below `count` in random order (Fisher and Yates).
pub(super) fn shuffled(count: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, random);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(peers: &[Option<&str>]) -> RunList {
        RunList {
            made: HashMap::new(),
            given_up: vec![None; peers.len()],
            peers: peers.iter().map(|peer| peer.map(str::to_owned)).collect(),
            failures: HashMap::new(),
            retries: 0,
        }
    }

    fn row(repeat: u32, rejected: Option<&str>) -> Row {
        Row { rejected: rejected.map(str::to_owned), ..Row::new(Arm::of_null("arm"), repeat) }
    }

    #[test]
    fn a_peer_that_fails_three_times_for_one_reason_is_given_up_for_all_of_its_arms() {
        let mut runs = runs(&[Some("bdevperf"), Some("bdevperf"), Some("fio"), None]);
        runs.note(0, &row(0, Some("peer bdevperf on libaio: it failed: no huge pages")));
        runs.note(1, &row(0, Some("peer bdevperf on io_uring: it failed: no huge pages")));
        assert!(runs.gave_up(0).is_none() && runs.peer_trouble(0).is_none());
        runs.note(1, &row(0, Some("peer bdevperf on io_uring: it failed: no huge pages")));
        assert_eq!((0..4).map(|arm| runs.gave_up(arm).is_some()).collect::<Vec<_>>(), [true, true, false, false]);
        let reason = "bdevperf failed 3 times for one reason, and was given up: it failed: no huge pages";
        assert_eq!(runs.peer_trouble(0).as_deref(), Some(reason));
    }

    #[test]
    fn a_peer_that_succeeded_or_fails_for_several_reasons_goes_on() {
        let mut runs = runs(&[Some("fio"), Some("fio"), Some("fio"), Some("fio")]);
        runs.note(0, &row(0, None));
        for (index, why) in [(1, "a"), (2, "a"), (3, "a"), (1, "a")] {
            runs.note(index, &row(0, Some(why)));
        }
        assert!((0..4).all(|arm| runs.gave_up(arm).is_none()), "it works on one path");
        let mut runs = super::tests::runs(&[Some("fio"); 4]);
        for (index, why) in [(0, "a"), (1, "b"), (2, "a"), (3, "b")] {
            runs.note(index, &row(0, Some(why)));
        }
        assert!((0..4).all(|arm| runs.gave_up(arm).is_none()));
    }
}
