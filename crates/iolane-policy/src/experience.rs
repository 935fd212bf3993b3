//! What is known of each candidate at one load: the costs of its last windows. The chooser adds them and compares candidates.

use std::collections::VecDeque;

use crate::bounds::Bounds;
use crate::window::{Cost, Load};

/// Windows of a candidate that are kept; the median of this number bears two that were disturbed.
const KEPT: usize = 5;

/// By how much a cost must differ to count: a switch for less would not pay.
pub(crate) const MARGIN: f64 = 1.03;

/// What is known of the candidates at one load, as one queue passes it on to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The load.
    pub load: Load,
    /// What a request cost on each candidate; `None` for those that were not measured.
    pub costs: Vec<Option<Cost>>,
}

/// What is known of every candidate at one load.
#[derive(Debug, Clone)]
pub(crate) struct Experience {
    pub(crate) load: Load,
    costs: Vec<VecDeque<Cost>>,
    /// The candidate that won the last comparison of all. `None` before, and while it is under way.
    chosen: Option<usize>,
    /// Whether another queue has compared them.
    is_remembered: bool,
    /// Candidates to be tried next, the last first.
    challengers: Vec<usize>,
    /// Those that do not take the requests of this load.
    unfit: Vec<usize>,
}

impl Experience {
    pub(crate) fn new(load: Load, candidates: usize) -> Self {
        Self {
            load,
            costs: vec![VecDeque::with_capacity(KEPT); candidates],
            chosen: None,
            is_remembered: false,
            challengers: Vec::new(),
            unfit: Vec::new(),
        }
    }

    /// What another queue knew.
    pub(crate) fn of(known: Known) -> Self {
        Self {
            load: known.load,
            costs: known.costs.into_iter().map(VecDeque::from_iter).collect(),
            chosen: None,
            is_remembered: true,
            challengers: Vec::new(),
            unfit: Vec::new(),
        }
    }

    /// What is to be passed on: of candidates that lost after a window that looked better, nothing. `None` before all were compared here.
    pub(crate) fn known(&self, bounds: &Bounds) -> Option<Known> {
        let chosen = self.chosen?;
        let mut passed: Vec<usize> = (0..self.costs.len()).collect();
        while let Some(better) = self.best(bounds, passed.iter().copied()).filter(|best| *best != chosen) {
            passed.retain(|candidate| *candidate != better);
        }
        let cost = |candidate| passed.contains(&candidate).then(|| self.median(candidate)).flatten();
        Some(Known { load: self.load, costs: (0..self.costs.len()).map(cost).collect() })
    }

    pub(crate) fn add(&mut self, candidate: usize, cost: Cost) {
        let costs = &mut self.costs[candidate];
        if costs.len() == KEPT {
            costs.pop_front();
        }
        costs.push_back(cost);
        self.unfit.retain(|unfit| *unfit != candidate);
    }

    /// Whether a candidate takes the requests of this load, by its last window.
    pub(crate) fn is_fit(&self, candidate: usize) -> bool {
        !self.unfit.contains(&candidate)
    }

    /// The candidate does not take the requests of this load.
    pub(crate) fn set_unfit(&mut self, candidate: usize) {
        if self.is_fit(candidate) {
            self.unfit.push(candidate);
        }
        self.costs[candidate].clear();
    }

    /// Forgets everything, as all candidates are compared anew.
    pub(crate) fn forget(&mut self) {
        self.forget_costs();
        (self.chosen, self.is_remembered) = (None, false);
        self.challengers.clear();
        self.unfit.clear();
    }

    /// Forgets what the candidates cost, and no more.
    pub(crate) fn forget_costs(&mut self) {
        self.costs.iter_mut().for_each(VecDeque::clear);
    }

    /// Whether another queue, and not this one, has compared all candidates.
    pub(crate) fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// This candidate has won a comparison.
    pub(crate) fn choose(&mut self, candidate: usize) {
        if self.chosen.replace(candidate) != Some(candidate) {
            self.challengers.clear();
        }
    }

    /// The next to be compared with the best: each of `others` in turn, by what it costs.
    pub(crate) fn next_challenger(&mut self, bounds: &Bounds, others: &[usize]) -> Option<usize> {
        self.challengers.retain(|candidate| others.contains(candidate));
        if self.challengers.is_empty() {
            let rank = |one: usize| self.median(one).map_or(f64::INFINITY, |cost| bounds.rank(&cost));
            let mut sorted = others.to_vec();
            sorted.sort_by(|a, b| rank(*b).total_cmp(&rank(*a)));
            self.challengers = sorted;
        }
        self.challengers.pop()
    }

    /// The candidate to take at this load without another comparison; `None` if there was none.
    pub(crate) fn known_best(&self, bounds: &Bounds, usable: &[usize]) -> Option<usize> {
        let chosen = self.chosen.filter(|chosen| usable.contains(chosen));
        let is_compared = self.is_remembered || self.chosen.is_some();
        chosen.or_else(|| self.best(bounds, usable.iter().copied()).filter(|_| is_compared))
    }

    /// Whether each of the others has been compared with the best since it was chosen, or since the last time that all had been.
    pub(crate) fn has_tried_all(&self) -> bool {
        self.challengers.is_empty()
    }

    /// The median of a candidate's last `count` windows, of an even number the lower one: of two, the one that was disturbed less. `None` if
    /// there are none.
    pub(crate) fn median_of_last(&self, candidate: usize, count: usize) -> Option<Cost> {
        let costs = &self.costs[candidate];
        let median = |of: fn(&Cost) -> f64| {
            let mut sorted: Vec<f64> = costs.iter().rev().take(count).map(of).collect();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len().checked_sub(1)? / 2).copied()
        };
        let (first, second) = (median(|cost| cost.first)?, median(|cost| cost.second)?);
        Some(Cost { first, second, cores: median(|cost| cost.cores)? })
    }

    /// The median of a candidate's windows; `None` if it has none.
    pub(crate) fn median(&self, candidate: usize) -> Option<Cost> {
        self.median_of_last(candidate, KEPT)
    }

    /// The candidate that ranks lowest; among those within the margin of it, the one with the lowest second cost.
    pub(crate) fn best(&self, bounds: &Bounds, among: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let known = among.filter_map(|candidate| Some((candidate, self.median(candidate)?)));
        let lowest = known.clone().map(|(_, cost)| bounds.rank(&cost)).min_by(f64::total_cmp)?;
        let equal = known.filter(|(_, cost)| bounds.rank(cost) <= lowest * MARGIN);
        equal.min_by(|(_, a), (_, b)| a.second.total_cmp(&b.second)).map(|(candidate, _)| candidate)
    }

    /// The lowest rank of any candidate.
    pub(crate) fn lowest(&self, bounds: &Bounds) -> Option<f64> {
        let ranks = (0..self.costs.len()).filter_map(|candidate| Some(bounds.rank(&self.median(candidate)?)));
        ranks.min_by(f64::total_cmp)
    }
}
