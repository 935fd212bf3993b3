//! The rule of `auto`. It tries each candidate for some short windows, drops what is far behind, and holds the best. While it
//! holds, it tries another now and then, more and more rarely. When the load changes it goes to what was best at that load, or
//! tries again.

use iolane_core::Goal;

use crate::bounds::Bounds;
use crate::experience::{Experience, Known, MARGIN};
use crate::window::{Load, Window};

/// Rounds of a survey. In each, every candidate left has one window. The first does not count: a path may be slow because it is new, or
/// because another kind of path was in use for long.
const ROUNDS: usize = 4;

/// How far behind the best a candidate is dropped from a survey, after each of its rounds. A window may be disturbed: at a new load each gets
/// two that count.
const DROPPED: [f64; ROUNDS] = [f64::INFINITY, f64::INFINITY, 1.25, 1.25];

/// A window that is tried ends early when the best would have completed this multiple of its requests, or of `FEW` if it has fewer: a slow drive
/// is not the path's fault.
const HOPELESS: f64 = 2.0;
const FEW: u64 = 8;

/// The best is surveyed anew if its last windows cost this multiple of what they cost when it was chosen: another process took the core, or the drive
/// slowed down. The same if they cost so much less: what was in the way is gone, and the others may have gained more by it.
const WORSE: f64 = 1.4;

/// Windows that have to agree on that it costs less, or more: at first, and at most. The number doubles each time, for windows may cost
/// less in the long run than in a survey, or more, for a reason that surveys do not change.
const BETTER: (u32, u32) = (AGREEING, 512);
const WORSE_WINDOWS: (u32, u32) = (AGREEING, 64);

/// A candidate whose known cost is lower than that of the best by this factor is compared with it again; and how many held windows have to
/// agree on it, at first and at most. The number doubles each time, as above.
const OVERTAKES: f64 = 1.06;
const OVERTAKING: (u32, u32) = (AGREEING, 512);

/// Windows that have to agree before the load is taken as another.
const AGREEING: u32 = 2;

/// Held windows between two trials: at first, and at most.
const PERIOD: (u32, u32) = (32, 256);

/// Further windows of both, after a trial that looked better, or after a survey that another path won.
const DUEL: u32 = 3;

/// Loads that are remembered.
const LOADS_MAX: usize = 64;

/// Length of a window in nanoseconds: tried, in the round that does not count, and held.
const TRIED_NS: u64 = 5_000_000;
const FIRST_TRIED_NS: u64 = TRIED_NS / 2;
const HELD_NS: u64 = 20_000_000;

/// How long a challenger carries requests before its window begins, if it is known to cost at most this multiple of what the best costs: where
/// another kind of path was in use for long, the system takes some milliseconds to get used to polling, or to interrupts.
const SETTLING_NS: u64 = 10_000_000;
const MAY_WIN: f64 = 2.0;

/// Chooses among candidates, which it knows by their numbers.
#[derive(Debug, Clone)]
pub struct Chooser {
    goal: Goal,
    bounds: Bounds,
    /// Whether each candidate can be used at all.
    usable: Vec<bool>,
    loads: Vec<Experience>,
    /// Whether a window has ended.
    has_begun: bool,
    /// Which of the loads is now.
    here: usize,
    /// Which candidate is in use.
    on: usize,
    /// The one that counts as the best.
    best: usize,
    stage: Stage,
    /// The one that was held before a survey at the same load. What disturbed it may have disturbed the survey: another has to win a duel.
    defender: Option<usize>,
    /// Whether another path was in use before the held window that is under way: it says nothing yet.
    is_settling: bool,
    /// Held windows of another load, one after the other.
    strange: u32,
    /// Held windows that were worse, one after the other, and how many of them bring a survey.
    worse: u32,
    worse_max: u32,
    /// The same for those that were better.
    better: u32,
    better_max: u32,
    /// The same for those after which another candidate was known to cost less.
    overtaken: u32,
    overtaken_max: u32,
    /// What the best cost when it was chosen.
    promised: f64,
    /// Held windows until the next trial, and between trials.
    until_trial: u32,
    period: u32,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Each candidate of the list in turn; `next` is the place of the one that follows.
    Survey {
        round: usize,
        list: Vec<usize>,
        next: usize,
    },
    Hold,
    /// One window of a challenger; if it looked better, or after a survey, `DUEL` further windows of both in turn. `windows_left` is the
    /// number of windows that follow this one.
    Trial {
        challenger: usize,
        windows_left: u32,
    },
}

/// What to do until the next window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The candidate that takes new requests.
    pub candidate: usize,
    /// Why.
    pub reason: Reason,
    /// How long it takes them before the next window begins, in nanoseconds.
    pub settling_ns: u64,
    /// Length of the next window in nanoseconds.
    pub window_ns: u64,
}

/// Why a candidate is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is known yet.
    First,
    /// It is measured, to be compared.
    Tried,
    /// It was the best of those that were measured at this load.
    Best,
    /// The load changed to one at which it was the best.
    Known,
    /// It was the best at this load as another queue measured.
    Remembered,
    /// Nothing is known of this load, and exploring is forbidden.
    Unexplored,
    /// Every path keeps more cores busy than it may, and this one the fewest.
    FewestCores,
}

impl Reason {
    /// One line for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::First => "the first, nothing is measured yet",
            Self::Tried => "tried for a few milliseconds",
            Self::Best => "the best measured at this load",
            Self::Known => "the load changed, and it was the best at this load before",
            Self::Remembered => "another queue has measured this load, and it was the best",
            Self::Unexplored => "nothing is known of this load, and none is explored",
            Self::FewestCores => "no path keeps the bound on cores, and it uses the fewest",
        }
    }
}

impl Chooser {
    /// A choice among `candidates`, at least 1, that begins with the first.
    pub fn new(goal: Goal, candidates: usize) -> Self {
        Self {
            goal,
            bounds: Bounds::default(),
            usable: vec![true; candidates.max(1)],
            loads: Vec::new(),
            has_begun: false,
            here: 0,
            on: 0,
            best: 0,
            stage: Stage::Hold,
            defender: None,
            is_settling: false,
            strange: 0,
            worse: 0,
            worse_max: WORSE_WINDOWS.0,
            better: 0,
            better_max: BETTER.0,
            overtaken: 0,
            overtaken_max: OVERTAKING.0,
            promised: f64::INFINITY,
            until_trial: PERIOD.0,
            period: PERIOD.0,
        }
    }

    /// The same within bounds.
    #[must_use]
    pub fn bounded(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// The same with what another choice among the same candidates knew. At a load that is among it, the best is taken at once.
    #[must_use]
    pub fn remembering(mut self, known: Vec<Known>) -> Self {
        let fits = |known: &Known| known.costs.len() == self.usable.len();
        self.loads = known.into_iter().filter(fits).take(LOADS_MAX).map(Experience::of).collect();
        self
    }

    /// What was compared at each load, to be passed on.
    pub fn known(&self) -> Vec<Known> {
        self.loads.iter().filter_map(|experience| experience.known(&self.bounds)).collect()
    }

    /// What to do at first.
    pub fn first(&self) -> Decision {
        self.decide(self.on, Reason::First)
    }

    /// Whether a window that has not ended shows already that the candidate is no match for the best, so that going on would only cost time.
    pub fn is_hopeless(&self, window: &Window) -> bool {
        let tries = !matches!(self.stage, Stage::Hold) && self.on != self.best;
        let lowest = self.loads.get(self.here).and_then(|experience| experience.lowest(&self.bounds));
        let expected = |lowest| window.expected_ios(self.goal, lowest);
        // A queue may complete all that it has in flight at once.
        let in_flight = window.in_flight_ns / window.busy_ns.max(1);
        tries && lowest.is_some_and(|lowest| expected(lowest) > HOPELESS * window.ios.max(FEW).max(in_flight) as f64)
    }

    /// What to do after a window of the candidate in use.
    pub fn next(&mut self, window: &Window) -> Decision {
        let load = window.load();
        if !std::mem::replace(&mut self.has_begun, true) {
            return self.enter(load, Reason::Remembered);
        }
        // The load of a window that was tried may be the doing of its path: what is slow lets requests pile up.
        if self.on == self.best {
            let is_near = load.is_near(&self.loads[self.here].load);
            self.strange = if is_near { 0 } else { self.strange + 1 };
            if self.strange >= AGREEING {
                return self.enter(load, Reason::Known);
            }
            if !is_near {
                let is_held = matches!(self.stage, Stage::Hold);
                return self.decide(self.on, if is_held { Reason::Best } else { Reason::Tried });
            }
        }
        if window.is_of_another_path() {
            if load.is_near(&self.loads[self.here].load) {
                self.loads[self.here].set_unfit(self.on);
            }
            if matches!(self.stage, Stage::Trial { .. }) {
                self.try_more_rarely();
            }
            return self.go_on_without();
        }
        if matches!(self.stage, Stage::Hold) && std::mem::take(&mut self.is_settling) {
            return self.decide(self.best, Reason::Best);
        }
        let cost = window.cost(self.goal);
        self.loads[self.here].add(self.on, cost);
        match std::mem::replace(&mut self.stage, Stage::Hold) {
            Stage::Survey { round, list, next } => self.go_on_surveying(round, list, next),
            Stage::Trial { challenger, windows_left } => self.go_on_trying(challenger, windows_left),
            Stage::Hold => self.hold(self.bounds.rank(&cost)),
        }
    }

    /// The candidate in use cannot be used after all. What to do instead.
    pub fn refuse(&mut self) -> Decision {
        self.usable[self.on] = false;
        self.go_on_without()
    }

    /// The candidate in use is of no use at this load.
    fn go_on_without(&mut self) -> Decision {
        match std::mem::replace(&mut self.stage, Stage::Hold) {
            Stage::Survey { round, list, next } => self.go_on_surveying(round, list, next),
            _ if self.is_usable(self.best) => self.keep(self.best, Reason::Best),
            _ => self.survey(),
        }
    }

    /// Whether a candidate can be used at this load.
    fn is_usable(&self, candidate: usize) -> bool {
        self.usable[candidate] && self.loads.get(self.here).is_none_or(|experience| experience.is_fit(candidate))
    }

    fn decide(&self, candidate: usize, reason: Reason) -> Decision {
        let is_held = matches!(self.stage, Stage::Hold);
        let cost = self.loads.get(self.here).and_then(|experience| experience.median(candidate));
        let is_beyond = is_held && self.bounds.explores && cost.is_some_and(|cost| !self.bounds.are_kept(&cost));
        let reason = if is_beyond { Reason::FewestCores } else { reason };
        let window_ns = match self.stage {
            Stage::Hold => HELD_NS,
            Stage::Survey { round: 0, .. } => FIRST_TRIED_NS,
            Stage::Survey { .. } | Stage::Trial { .. } => TRIED_NS,
        };
        Decision { candidate, reason, settling_ns: 0, window_ns }
    }

    fn usable(&self) -> Vec<usize> {
        (0..self.usable.len()).filter(|candidate| self.is_usable(*candidate)).collect()
    }

    /// At another load than before: what was the best there, for this reason, or a survey.
    fn enter(&mut self, load: Load, reason: Reason) -> Decision {
        (self.strange, self.worse_max, self.better_max) = (0, WORSE_WINDOWS.0, BETTER.0);
        self.overtaken_max = OVERTAKING.0;
        self.defender = None;
        if let Some(known) = self.loads.iter().position(|experience| experience.load.is_near(&load)) {
            self.here = known;
            let usable = self.usable();
            return match self.loads[known].known_best(&self.bounds, &usable) {
                Some(best) => self.keep(best, reason),
                None => self.survey(),
            };
        }
        if self.loads.len() == LOADS_MAX {
            self.loads.remove(0);
        }
        self.loads.push(Experience::new(load, self.usable.len()));
        self.here = self.loads.len() - 1;
        self.survey()
    }

    /// Measures all, the one in use first.
    fn survey(&mut self) -> Decision {
        self.survey_from(0)
    }

    fn survey_from(&mut self, round: usize) -> Decision {
        if !self.bounds.explores {
            return self.keep(0, Reason::Unexplored);
        }
        let mut list = self.usable();
        self.loads[self.here].forget();
        list.sort_by_key(|candidate| *candidate != self.on);
        self.go_on_surveying(round, list, 0)
    }

    /// The same at a load at which the best is in use. No path is new, so that each window counts, and another winner has to win a duel: two
    /// rounds are enough.
    fn survey_again(&mut self) -> Decision {
        self.defender = Some(self.best);
        self.survey_from(2)
    }

    fn go_on_surveying(&mut self, mut round: usize, mut list: Vec<usize>, mut next: usize) -> Decision {
        loop {
            if let Some(candidate) = list.get(next).copied() {
                next += 1;
                if !self.is_usable(candidate) {
                    continue;
                }
                (self.on, self.stage) = (candidate, Stage::Survey { round, list, next });
                return self.decide(candidate, Reason::Tried);
            }
            if round == 0 {
                // They say only which candidates can be used.
                self.loads[self.here].forget_costs();
                (round, next) = (1, 0);
                continue;
            }
            let experience = &self.loads[self.here];
            let rank = |one: &usize| experience.median(*one).map(|cost| self.bounds.rank(&cost));
            let lowest = list.iter().filter_map(rank).min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
            list.retain(|one| rank(one).is_some_and(|rank| rank <= lowest * DROPPED[round]));
            (round, next) = (round + 1, 0);
            if round == ROUNDS || list.len() <= 1 {
                let best = experience.best(&self.bounds, list.iter().copied()).unwrap_or(self.best);
                self.period = PERIOD.0;
                return match self.defender.take() {
                    Some(defender) if defender != best && self.is_usable(defender) => self.duel(best),
                    _ => self.choose(best),
                };
            }
        }
    }

    /// Holds the winner of a comparison.
    fn choose(&mut self, best: usize) -> Decision {
        self.loads[self.here].choose(best);
        self.keep(best, Reason::Best)
    }

    /// Windows of a challenger and of the best in turn.
    fn duel(&mut self, challenger: usize) -> Decision {
        self.challenge(challenger, 2 * DUEL - 1)
    }

    /// Holds a candidate from now on.
    fn keep(&mut self, best: usize, reason: Reason) -> Decision {
        if best != self.best {
            (self.worse_max, self.better_max) = (WORSE_WINDOWS.0, BETTER.0);
        }
        self.is_settling = self.on != best;
        (self.best, self.on, self.stage) = (best, best, Stage::Hold);
        (self.worse, self.better, self.overtaken, self.until_trial) = (0, 0, 0, self.period);
        let cost = self.loads.get(self.here).and_then(|experience| experience.median(best));
        self.promised = cost.map_or(f64::INFINITY, |cost| self.bounds.rank(&cost));
        self.decide(best, reason)
    }

    fn hold(&mut self, cost: f64) -> Decision {
        self.worse = if cost > self.promised * WORSE { self.worse + 1 } else { 0 };
        self.better = if cost * WORSE < self.promised { self.better + 1 } else { 0 };
        if !self.bounds.explores {
            return self.decide(self.best, Reason::Best);
        }
        if self.worse >= self.worse_max {
            self.worse_max = (self.worse_max * 2).min(WORSE_WINDOWS.1);
            return self.survey_again();
        }
        if self.better >= self.better_max && self.promised.is_finite() {
            self.better_max = (self.better_max * 2).min(BETTER.1);
            return self.survey_again();
        }
        let overtaking = self.overtaking();
        self.overtaken = if overtaking.is_some() { self.overtaken + 1 } else { 0 };
        if let Some(rival) = overtaking.filter(|_| self.overtaken >= self.overtaken_max) {
            self.overtaken_max = (self.overtaken_max * 2).min(OVERTAKING.1);
            return self.duel(rival);
        }
        self.until_trial = self.until_trial.saturating_sub(1);
        if self.until_trial > 0 {
            return self.decide(self.best, Reason::Best);
        }
        let Some(challenger) = self.next_challenger() else { return self.decide(self.best, Reason::Best) };
        self.challenge(challenger, 2 * DUEL)
    }

    /// The first window of a challenger after held ones of the best.
    fn challenge(&mut self, challenger: usize, windows_left: u32) -> Decision {
        (self.on, self.stage) = (challenger, Stage::Trial { challenger, windows_left });
        let rank = |one| self.loads[self.here].median(one).map(|cost| self.bounds.rank(&cost));
        let may_win = matches!((rank(challenger), rank(self.best)), (Some(rank), Some(best)) if rank < best * MAY_WIN);
        let settling_ns = if may_win { SETTLING_NS } else { 0 };
        Decision { settling_ns, ..self.decide(challenger, Reason::Tried) }
    }

    /// The candidates besides the best. One that did not take the requests may take them now.
    fn others(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.usable.len()).filter(|one| self.usable[*one] && *one != self.best)
    }

    /// The one that costs less than the best does now, by what is known of it.
    fn overtaking(&self) -> Option<usize> {
        let experience = &self.loads[self.here];
        let rank = |one| experience.median(one).map(|cost| self.bounds.rank(&cost));
        let rival = experience.best(&self.bounds, self.others())?;
        (rank(rival)? * OVERTAKES < rank(self.best)?).then_some(rival)
    }

    /// Each of the others in turn. Those that came near are the first: chance may have decided against them.
    fn next_challenger(&mut self) -> Option<usize> {
        let others: Vec<usize> = self.others().collect();
        self.loads[self.here].next_challenger(&self.bounds, &others)
    }

    /// A trial was lost. The period grows when each of the others had its turn.
    fn try_more_rarely(&mut self) {
        if self.loads[self.here].has_tried_all() {
            self.period = (self.period * 2).min(PERIOD.1);
        }
    }

    fn go_on_trying(&mut self, challenger: usize, windows_left: u32) -> Decision {
        let experience = &self.loads[self.here];
        let of = |candidate, count| {
            experience.median_of_last(candidate, count).map_or(f64::INFINITY, |cost| self.bounds.rank(&cost))
        };
        let count = DUEL as usize;
        let wins = match windows_left {
            // The first window only says whether a duel is worth its time. More of its calls are timed than while a path is held.
            left if left == 2 * DUEL => of(challenger, 1) < of(self.best, count),
            0 => of(challenger, count) * MARGIN < of(self.best, count),
            _ => true,
        };
        if wins && windows_left > 0 {
            // The best and the challenger in turn.
            self.on = if self.on == challenger { self.best } else { challenger };
            self.stage = Stage::Trial { challenger, windows_left: windows_left - 1 };
            return self.decide(self.on, Reason::Tried);
        }
        if wins {
            self.period = PERIOD.0;
            return self.choose(challenger);
        }
        self.try_more_rarely();
        match self.loads[self.here].is_remembered() {
            // Nothing new: it won before, perhaps on another queue.
            true => self.keep(self.best, Reason::Best),
            false => self.choose(self.best),
        }
    }
}
