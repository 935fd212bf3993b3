//! The next rate to try. First the edge is bracketed: rates grow by fours until the bound is missed, and the interval is
//! halved until its ends are close. A miss counts only if another run confirms it, because a disturbed run looks like one.
//! Then rates around the edge are run several times each, in turn; `answer` draws a monotone curve through them. At last the
//! two rates next to the answer are run again: if a disturbance that has passed had moved the answer, it moves back.

use super::curve::{Edge, RunsByRate};
use super::trial::{STEP, Trial};
use crate::plan::LatencyBound;

/// The search of one arm. It depends on nothing but the trials noted, in their order, so that an interrupted search continues
/// from its runs.
#[derive(Debug, Clone)]
pub struct RateSearch {
    bound: LatencyBound,
    repeats: usize,
    trials: Vec<Trial>,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    Bracket,
    /// The rates around the edge, and how often they were moved.
    Edge(Vec<f64>, usize),
    /// The rates next to the answer, with the number of runs that each is to have, and how often there were others.
    Confirm([(f64, usize); 2], usize),
    Done,
}

/// Where a search begins, and its ends.
const RATE_START: f64 = 1000.0;
pub const RATE_MIN: f64 = 10.0;
pub const RATE_MAX: f64 = 16e6;
const GROWTH: f64 = 4.0;
/// A bracket is narrow enough if its ends differ by this factor.
const NARROW: f64 = 1.5;
/// The rates around the edge: as many below its middle, and as many from there.
const AROUND: i32 = 4;
/// How often the rates around the edge follow an edge that turns out to lie outside.
const MOVES_MAX: usize = 4;
/// How often the answer is confirmed, if each time it moves.
const CONFIRMATIONS_MAX: usize = 5;
/// About as many runs bracket the edge.
const BRACKET_TRIALS: usize = 12;
/// About as many rates next to the answer are run again: the two next to it, and as often as not those next to another.
const CONFIRMED_RATES: usize = 4;
/// The runs that decide whether a rate misses the bound.
const TRIALS_TO_DECIDE: usize = 3;

/// What is known of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keeps,
    Misses,
    /// Another run decides.
    Unsure,
}

impl RateSearch {
    /// A search with `repeats` runs at each rate around the edge.
    pub fn new(bound: LatencyBound, repeats: usize) -> Self {
        Self { bound, repeats: repeats.max(1), trials: Vec::new(), stage: Stage::Bracket }
    }

    /// About how many runs a search takes.
    pub fn expected_trials(repeats: usize) -> usize {
        BRACKET_TRIALS + (2 * AROUND as usize + CONFIRMED_RATES) * repeats
    }

    /// About how many runs are left; 0 only at the end.
    pub fn trials_left(&self) -> usize {
        let to_confirm = CONFIRMED_RATES * self.repeats;
        match &self.stage {
            Stage::Bracket => Self::expected_trials(self.repeats) - self.trials.len().min(BRACKET_TRIALS - 1),
            Stage::Edge(rates, _) => {
                let left = rates.iter().map(|rate| self.repeats.saturating_sub(self.trials_at(*rate)));
                left.sum::<usize>() + to_confirm
            }
            Stage::Confirm(wanted, rounds) => {
                let left = wanted.iter().map(|(rate, runs)| runs.saturating_sub(self.trials_at(*rate)));
                left.sum::<usize>() + to_confirm.saturating_sub((rounds + 1) * 2 * self.repeats)
            }
            Stage::Done => 0,
        }
    }

    /// The rate of the next run; `None` at the end.
    pub fn next_rate(&self) -> Option<f64> {
        match &self.stage {
            Stage::Bracket => self.next_of_bracket().ok(),
            Stage::Edge(rates, _) => self.next_around(rates),
            Stage::Confirm(wanted, _) => self.next_to_confirm(wanted),
            Stage::Done => None,
        }
    }

    /// Whether runs like these, in the order of time, are a whole search.
    pub fn is_complete(trials: &[Trial], bound: LatencyBound, repeats: usize) -> bool {
        let mut search = Self::new(bound, repeats);
        trials.iter().for_each(|trial| search.note(*trial));
        search.next_rate().is_none()
    }

    /// How often a rate was tried.
    pub fn trials_at(&self, rate: f64) -> usize {
        self.trials.iter().filter(|trial| trial.rate == rate).count()
    }

    /// Adds a run.
    pub fn note(&mut self, trial: Trial) {
        self.trials.push(trial);
        // Each stage may be complete with this run.
        if let Stage::Bracket = self.stage
            && let Err(ended) = self.next_of_bracket()
        {
            self.stage = ended;
        }
        if let Stage::Edge(rates, moves) = &self.stage
            && self.next_around(rates).is_none()
        {
            self.stage = self.after_edge(rates, *moves);
        }
        if let Stage::Confirm(wanted, rounds) = &self.stage
            && self.next_to_confirm(wanted).is_none()
        {
            self.stage = self.after_confirmation(wanted, *rounds);
        }
    }

    fn verdict(&self, rate: f64) -> Verdict {
        let at: Vec<&Trial> = self.trials.iter().filter(|trial| trial.rate == rate).collect();
        let misses = at.iter().filter(|trial| trial.latency_ns > self.bound.max_ns()).count();
        match (at.len(), misses) {
            (0, _) => Verdict::Unsure,
            (_, 0) => Verdict::Keeps,
            (count, misses) if misses == count && count > 1 => Verdict::Misses,
            (count, misses) if count >= TRIALS_TO_DECIDE => {
                if 2 * misses > count {
                    Verdict::Misses
                } else {
                    Verdict::Keeps
                }
            }
            _ => Verdict::Unsure,
        }
    }

    /// The next rate of the bracket, or the stage that follows.
    fn next_of_bracket(&self) -> Result<f64, Stage> {
        let mut rates: Vec<f64> = self.trials.iter().map(|trial| trial.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        if rates.is_empty() {
            return Ok(RATE_START);
        }
        if let Some(unsure) = rates.iter().find(|rate| self.verdict(**rate) == Verdict::Unsure) {
            return Ok(*unsure);
        }
        let missed = rates.iter().copied().find(|rate| self.verdict(*rate) == Verdict::Misses);
        let below = |rate: &f64| missed.is_none_or(|missed| *rate < missed);
        let kept = rates.iter().copied().rfind(|rate| below(rate) && self.verdict(*rate) == Verdict::Keeps);
        match (kept, missed) {
            (Some(kept), None) if kept >= RATE_MAX => Err(Stage::Done),
            (Some(kept), None) => Ok((kept * GROWTH).min(RATE_MAX)),
            (None, Some(missed)) if missed <= RATE_MIN => Err(Stage::Done),
            (None, Some(missed)) => Ok(rounded(missed / GROWTH).max(RATE_MIN)),
            (Some(kept), Some(missed)) if missed / kept > NARROW => Ok(rounded((kept * missed).sqrt())),
            (Some(kept), Some(missed)) => Err(Stage::Edge(around((kept * missed).sqrt()), 0)),
            (None, None) => Ok(RATE_START),
        }
    }

    /// The rate around the edge with the fewest runs; in each round another order, so that drift does not favour a side.
    fn next_around(&self, rates: &[f64]) -> Option<f64> {
        let wanted = rates.iter().enumerate().filter(|(_, rate)| self.trials_at(**rate) < self.repeats);
        let next = wanted.min_by_key(|(place, rate)| {
            let round = self.trials_at(**rate);
            (round, (place * 3 + round * 5) % rates.len())
        });
        next.map(|(_, rate)| *rate)
    }

    /// What follows a complete edge: the end, or the rates beyond the end at which the edge lies.
    fn after_edge(&self, rates: &[f64], moves: usize) -> Stage {
        let (Some(lowest), Some(highest)) = (rates.first(), rates.last()) else { return Stage::Done };
        let beyond = match RunsByRate::new(&self.trials, self.bound).edge() {
            Edge::At(rate) if rate <= *lowest => Some(lowest / STEP.powi(AROUND - 1)),
            Edge::At(rate) if rate >= *highest => Some(highest * STEP.powi(AROUND)),
            Edge::At(rate) => return self.confirmation(rate, moves),
            Edge::Above(_) => Some(highest * STEP.powi(AROUND)),
            Edge::Below(_) => Some(lowest / STEP.powi(AROUND - 1)),
        };
        match beyond.filter(|rate| moves < MOVES_MAX && (RATE_MIN..RATE_MAX).contains(rate)) {
            Some(middle) => Stage::Edge(around(middle), moves + 1),
            None => Stage::Done,
        }
    }

    /// Runs the two rates next to an answer again.
    fn confirmation(&self, answer: f64, rounds: usize) -> Stage {
        let rates = self.trials.iter().map(|trial| trial.rate);
        let below = rates.clone().filter(|rate| *rate <= answer).reduce(f64::max);
        let above = rates.filter(|rate| *rate > answer).reduce(f64::min);
        match (below, above) {
            (Some(below), Some(above)) => {
                Stage::Confirm([below, above].map(|rate| (rate, self.trials_at(rate) + self.repeats)), rounds)
            }
            _ => Stage::Done,
        }
    }

    /// The rate next to the answer with the most runs to go.
    fn next_to_confirm(&self, wanted: &[(f64, usize)]) -> Option<f64> {
        let left = wanted.iter().map(|(rate, runs)| (*rate, runs.saturating_sub(self.trials_at(*rate))));
        left.filter(|(_, left)| *left > 0).max_by_key(|(_, left)| *left).map(|(rate, _)| rate)
    }

    /// The end if the answer stayed between the two rates, or the confirmation of the new answer.
    fn after_confirmation(&self, wanted: &[(f64, usize); 2], rounds: usize) -> Stage {
        let [(below, _), (above, _)] = wanted;
        match RunsByRate::new(&self.trials, self.bound).edge() {
            _ if rounds + 1 >= CONFIRMATIONS_MAX => Stage::Done,
            Edge::At(rate) if (*below..*above).contains(&rate) => Stage::Done,
            Edge::At(rate) => self.confirmation(rate, rounds + 1),
            // The misses above or the rates kept below were those of a disturbance.
            Edge::Above(rate) => Stage::Edge(around((rate * STEP.powi(AROUND)).min(RATE_MAX)), rounds + 1),
            Edge::Below(rate) => Stage::Edge(around((rate / STEP.powi(AROUND)).max(RATE_MIN)), rounds + 1),
        }
    }
}

/// The rates around an edge, ascending.
fn around(middle: f64) -> Vec<f64> {
    (-AROUND..AROUND).map(|step| rounded(middle * STEP.powi(step))).collect()
}

/// Three digits, which people can read.
fn rounded(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.log10().floor() - 2.0);
    let rounded = (rate / unit).round() * unit;
    // Rates below 100 may have a fraction; its last digits are those of the division.
    (rounded * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_core::Rng;

    use super::*;
    use crate::search::{HighestRate, highest_rate, ratio};
    use iolane_measure::workload::random_stream;

    fn bound() -> LatencyBound {
        "p99=5ms".parse().unwrap()
    }

    /// A machine whose tail grows with the rate and reaches the bound at `edge`; a run in `stalls` of 1 is disturbed and ten
    /// times slower, and every run varies by `noise`.
    struct Machine {
        edge: f64,
        noise: f64,
        stalls: f64,
        random: rand_xoshiro::Xoshiro256PlusPlus,
    }

    impl Machine {
        fn new(edge: f64, noise: f64, stalls: f64, seed: u64) -> Self {
            Self { edge, noise, stalls, random: random_stream(seed, 0) }
        }

        fn uniform(&mut self) -> f64 {
            (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
        }

        fn run(&mut self, rate: f64) -> Trial {
            let load = rate / self.edge;
            let latency_ns = bound().max_ns() * load.powi(4).max(0.02);
            let spread = ((self.uniform() - 0.5) * 2.0 * self.noise).exp();
            let stall = if self.uniform() < self.stalls { 10.0 } else { 1.0 };
            let kept = load < 1.5;
            Trial { rate, latency_ns: if kept { latency_ns * spread * stall } else { f64::INFINITY } }
        }
    }

    fn search(machine: &mut Machine, repeats: usize) -> (HighestRate, Vec<Trial>) {
        let mut search = RateSearch::new(bound(), repeats);
        while let Some(rate) = search.next_rate() {
            assert!(search.trials.len() < 200, "{:?}", search.trials);
            assert!(search.trials_left() > 0);
            search.note(machine.run(rate));
        }
        assert_eq!(search.trials_left(), 0);
        (highest_rate(&search.trials, bound()), search.trials)
    }

    #[test]
    fn the_edge_of_a_quiet_machine_is_found_wherever_it_is() {
        for edge in [37.0, 950.0, 21_300.0, 1.7e6] {
            let (found, trials) = search(&mut Machine::new(edge, 0.0, 0.0, 1), 3);
            let HighestRate::Found { rate, .. } = found else { panic!("{found:?} at {edge}") };
            assert!((rate.value / edge - 1.0).abs() < 0.03, "{rate:?} for {edge}");
            assert!(rate.low <= edge && edge <= rate.high, "{rate:?} for {edge}");
            assert!(trials.len() <= RateSearch::expected_trials(3), "{} trials for {edge}", trials.len());
        }
    }

    #[test]
    fn a_bound_that_always_holds_or_never_does_is_no_edge() {
        let (always, _) = search(&mut Machine::new(1e12, 0.0, 0.0, 1), 3);
        assert_eq!(always, HighestRate::AtLeast(RATE_MAX));
        let (never, _) = search(&mut Machine::new(1e-3, 0.0, 0.0, 1), 3);
        assert_eq!(never, HighestRate::None(RATE_MIN));
    }

    /// What the issue of noise comes down to: of many searches, how many intervals hold the true edge, and how many pairs
    /// overlap.
    #[test]
    fn on_a_noisy_machine_intervals_hold_the_edge_and_those_of_two_searches_overlap() {
        const SEARCHES: u64 = 60;
        for (noise, stalls) in [(0.2, 0.0), (0.5, 0.1), (0.8, 0.15)] {
            let (mut edges, mut runs, mut changes) = (Vec::new(), 0, 0);
            for seed in 0..SEARCHES {
                let (found, trials) = search(&mut Machine::new(20_000.0, noise, stalls, seed), 3);
                let HighestRate::Found { rate, change, .. } = found else { panic!("{found:?}") };
                edges.push(rate);
                runs += trials.len();
                changes += usize::from(change.is_some());
            }
            let expected = RateSearch::expected_trials(3) as f64;
            let typical = runs as f64 / SEARCHES as f64;
            assert!((typical / expected - 1.0).abs() < 0.2, "{typical} runs at noise {noise}, {expected} expected");
            assert!(changes <= 2, "{changes} of {SEARCHES} machines that stay the same seem to change");
            let hold = edges.iter().filter(|rate| rate.low <= 20_000.0 && 20_000.0 <= rate.high).count();
            assert!(hold as f64 >= 0.9 * SEARCHES as f64, "{hold} of {SEARCHES} at noise {noise}");
            let pairs = edges.chunks_exact(2);
            let overlap =
                pairs.clone().filter(|pair| pair[0].low <= pair[1].high && pair[1].low <= pair[0].high).count();
            assert!(overlap as f64 >= 0.95 * pairs.len() as f64, "{overlap} of {} at noise {noise}", pairs.len());
            let width: f64 = edges.iter().map(|rate| rate.high / rate.low).sum::<f64>() / SEARCHES as f64;
            assert!(width < 1.6, "the intervals are {width} wide at noise {noise}");
        }
    }

    #[test]
    fn two_equal_machines_show_no_difference_and_unequal_ones_do() {
        let found = |edge, seed| search(&mut Machine::new(edge, 0.3, 0.05, seed), 3).0;
        let mut wrong = 0;
        for seed in 0..40 {
            let same = ratio(&found(20_000.0, seed), &found(20_000.0, seed + 1000)).unwrap();
            wrong += usize::from(same.shows_difference());
            let half = ratio(&found(10_000.0, seed), &found(20_000.0, seed + 1000)).unwrap();
            assert!(half.shows_difference() && (0.4..0.6).contains(&half.value), "{half:?}");
        }
        assert!(wrong <= 4, "{wrong} of 40 equal pairs differ");
    }

    #[test]
    fn a_disturbance_that_passes_does_not_keep_the_answer_down() {
        // While it lasts, the machine takes half of its rate; it begins and ends within the runs around the edge.
        let answers = (0..20).map(|seed| {
            let (mut quiet, mut disturbed) =
                (Machine::new(20_000.0, 0.2, 0.0, seed), Machine::new(10_000.0, 0.2, 0.0, seed));
            let mut search = RateSearch::new(bound(), 3);
            while let Some(rate) = search.next_rate() {
                let machine = if (12..24).contains(&search.trials.len()) { &mut disturbed } else { &mut quiet };
                search.note(machine.run(rate));
            }
            match highest_rate(&search.trials, bound()) {
                HighestRate::Found { rate, .. } => rate,
                other => panic!("{other:?}"),
            }
        });
        let hold = answers.filter(|rate| rate.low <= 20_000.0 && 20_000.0 <= rate.high).count();
        assert!(hold >= 18, "{hold} of 20 intervals hold the edge of the quiet machine");
    }

    #[test]
    fn an_answer_covers_the_machine_before_a_change_and_after_it() {
        let mut noticed = 0;
        for (seed, factor) in (0..20).flat_map(|seed| [(seed, 0.3), (seed, 3.0)]) {
            let (mut before, mut after) =
                (Machine::new(20_000.0, 0.3, 0.05, seed), Machine::new(20_000.0 * factor, 0.3, 0.05, seed));
            let mut search = RateSearch::new(bound(), 3);
            while let Some(rate) = search.next_rate() {
                let machine = if search.trials.len() < 25 { &mut before } else { &mut after };
                search.note(machine.run(rate));
            }
            let HighestRate::Found { rate, change, .. } = highest_rate(&search.trials, bound()) else { panic!() };
            let Some(change) = change else { continue };
            noticed += 1;
            assert!((0.7..1.4).contains(&(change.before / 20_000.0)), "{change:?}");
            assert!((change.after - change.before) * (factor - 1.0) > 0.0, "{change:?} at {factor}");
            assert!(rate.low <= change.before.min(change.after) * 1.1, "{rate:?} {change:?}");
            assert!(rate.high >= change.before.max(change.after) / 1.1, "{rate:?} {change:?}");
        }
        assert!(noticed >= 36, "{noticed} of 40 changes were noticed");
    }

    #[test]
    fn a_search_continues_from_its_runs() {
        let mut machine = Machine::new(5000.0, 0.4, 0.1, 3);
        let (_, trials) = search(&mut machine, 3);
        for cut in 0..trials.len() {
            let mut again = RateSearch::new(bound(), 3);
            trials[..cut].iter().for_each(|trial| again.note(*trial));
            assert_eq!(again.next_rate(), Some(trials[cut].rate), "after {cut} runs");
        }
    }

    proptest! {
        #[test]
        fn a_search_ends_whatever_the_runs_measure(
            latencies in prop::collection::vec(prop_oneof![Just(f64::INFINITY), 1.0..1e10_f64], 1..50),
            repeats in 1usize..6,
        ) {
            let mut search = RateSearch::new(bound(), repeats);
            let mut count = 0;
            while let Some(rate) = search.next_rate() {
                prop_assert!((RATE_MIN / 2.0..=RATE_MAX * 2.0).contains(&rate), "{}", rate);
                search.note(Trial { rate, latency_ns: latencies[count % latencies.len()] });
                count += 1;
                prop_assert!(count < 400, "{} trials", count);
            }
            let _ = highest_rate(&search.trials, bound());
        }

        #[test]
        fn a_rounded_rate_is_near_and_is_itself_when_rounded_again(rate in 10.0..1.6e7_f64) {
            let once = rounded(rate);
            prop_assert!((once / rate - 1.0).abs() < 0.006);
            prop_assert_eq!(rounded(once), once);
        }
    }
}
