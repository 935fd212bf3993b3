//! Thousands of loads on simulated paths: what `auto` loses against the path that was best all the time, which it cannot know.
//! A path is its cost per request here, with noise; time is virtual and everything comes from a seed.

use iolane_core::Goal;
use iolane_policy::{Chooser, Decision, Reason, Window};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

struct Machine {
    random: Xoshiro256PlusPlus,
    /// Nanoseconds per request on each path, in each phase of the scenario.
    costs: Vec<Vec<f64>>,
    depth: u64,
    noise: f64,
}

impl Machine {
    /// Between 0 and 1.
    fn fraction(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.fraction())
    }

    /// About normal, with mean 0 and deviation 1.
    fn deviation(&mut self) -> f64 {
        (0..12).map(|_| self.fraction()).sum::<f64>() - 6.0
    }

    /// 2 to 10 paths, 1 to 200 us per request on the best, up to 10 times as much on the others, noise of up to 15 %, and as many
    /// phases.
    fn new(seed: u64, phases: usize) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut machine = Self { random, costs: Vec::new(), depth: 1, noise: 0.0 };
        let paths = machine.between(2.0, 10.9) as usize;
        machine.depth = machine.between(1.0, 129.0) as u64;
        machine.noise = machine.between(0.01, 0.15);
        for _ in 0..phases {
            let base = machine.between(1_000.0, 200_000.0);
            let mut costs: Vec<f64> = (0..paths).map(|_| base * machine.between(1.0, 10.0)).collect();
            let best = (machine.fraction() * paths as f64) as usize;
            costs[best.min(paths - 1)] = base;
            machine.costs.push(costs);
        }
        machine
    }

    /// A window of this length, longer if it takes that for 16 requests. One in a hundred is disturbed.
    fn window(&mut self, phase: usize, path: usize, length_ns: u64) -> Window {
        let disturbed = if self.fraction() < 0.01 { 3.0 } else { 1.0 };
        let cost = self.costs[phase][path] * disturbed * (1.0 + self.noise * self.deviation()).max(0.3);
        let ios = ((length_ns as f64 / cost) as u64).max(16);
        let busy_ns = (ios as f64 * cost) as u64;
        Window {
            ios,
            busy_ns,
            in_flight_ns: busy_ns * self.depth,
            cpu_ns: busy_ns / 2,
            request_bytes: 4096 << phase,
            ..Window::default()
        }
    }
}

/// The share of requests that were lost, in phases of `phase_ns` each.
fn regret(seed: u64, phases: usize, phase_ns: u64) -> f64 {
    let mut machine = Machine::new(seed, phases);
    let mut chooser = Chooser::new(Goal::Throughput, machine.costs[0].len());
    let mut decision = chooser.first();
    let (mut done, mut possible) = (0.0, 0.0);
    for phase in 0..phases {
        let best = machine.costs[phase].iter().copied().fold(f64::INFINITY, f64::min);
        let mut now_ns = 0;
        while now_ns < phase_ns {
            now_ns += decision.settling_ns;
            done += decision.settling_ns as f64 / machine.costs[phase][decision.candidate];
            let quarter = machine.window(phase, decision.candidate, decision.window_ns / 4);
            let window = match chooser.is_hopeless(&quarter) {
                true => quarter,
                false => machine.window(phase, decision.candidate, decision.window_ns),
            };
            now_ns += window.busy_ns;
            // Without the noise, which is luck.
            done += window.busy_ns as f64 / machine.costs[phase][decision.candidate];
            decision = chooser.next(&window);
        }
        possible += now_ns as f64 / best;
    }
    1.0 - done / possible
}

/// The regrets of many seeds, in order.
fn regrets(seeds: u64, phases: usize, phase_ns: u64) -> Vec<f64> {
    let mut regrets: Vec<f64> = (0..seeds).map(|seed| regret(seed, phases, phase_ns)).collect();
    regrets.sort_by(f64::total_cmp);
    regrets
}

#[track_caller]
fn assert_small(regrets: &[f64], mean_max: f64, p99_max: f64) {
    let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
    let p99 = regrets[regrets.len() * 99 / 100];
    println!("scenarios {}: regret mean {mean:.4}, 99th percentile {p99:.4}", regrets.len());
    assert!(mean < mean_max && p99 < p99_max, "mean {mean:.4}, 99th percentile {p99:.4}");
}

#[test]
fn ten_seconds_of_one_load_lose_less_than_1_percent_in_the_mean() {
    assert_small(&regrets(3000, 1, 10_000_000_000), 0.01, 0.05);
}

#[test]
fn a_load_that_changes_every_five_seconds_loses_little_more() {
    assert_small(&regrets(1000, 3, 5_000_000_000), 0.015, 0.06);
}

#[test]
fn a_load_that_comes_back_is_remembered() {
    let mut machine = Machine::new(7, 2);
    let mut chooser = Chooser::new(Goal::Throughput, machine.costs[0].len());
    let mut decision = chooser.first();
    let mut play = |phase: usize, windows: usize| {
        let mut tried = 0;
        for _ in 0..windows {
            let window = machine.window(phase, decision.candidate, decision.window_ns);
            decision = chooser.next(&window);
            tried += usize::from(decision.reason == iolane_policy::Reason::Tried);
        }
        (decision.candidate, tried)
    };
    let (best_of_first, _) = play(0, 200);
    play(1, 200);
    let (again, tried) = play(0, 10);
    assert_eq!((again, tried), (best_of_first, 0));
}

#[test]
fn a_path_that_becomes_slow_is_left() {
    let mut machine = Machine::new(3, 1);
    let mut chooser = Chooser::new(Goal::Throughput, machine.costs[0].len());
    let mut decision = chooser.first();
    for _ in 0..200 {
        let window = machine.window(0, decision.candidate, decision.window_ns);
        decision = chooser.next(&window);
    }
    let best = decision.candidate;
    machine.costs[0][best] *= 20.0;
    for _ in 0..60 {
        let window = machine.window(0, decision.candidate, decision.window_ns);
        decision = chooser.next(&window);
    }
    assert_ne!(decision.candidate, best);
}

#[test]
fn equal_paths_are_told_apart_by_what_they_cost_the_processor() {
    let mut chooser = Chooser::new(Goal::Throughput, 3);
    let mut decision = chooser.first();
    for _ in 0..200 {
        let cpu_ns = [4_000_000, 2_000_000, 5_000_000][decision.candidate];
        decision = chooser.next(&Window {
            ios: 1000,
            busy_ns: 5_000_000,
            in_flight_ns: 5_000_000,
            cpu_ns,
            request_bytes: 512,
            ..Window::default()
        });
    }
    assert_eq!(decision.candidate, 1);
}

#[test]
fn a_path_that_cannot_be_used_is_never_chosen_again() {
    let window = Window {
        ios: 10,
        busy_ns: 5_000_000,
        in_flight_ns: 5_000_000,
        cpu_ns: 1,
        request_bytes: 512,
        ..Window::default()
    };
    let mut chooser = Chooser::new(Goal::Latency, 3);
    let mut decision = chooser.first();
    for _ in 0..500 {
        while decision.candidate == 1 {
            decision = chooser.refuse();
        }
        decision = chooser.next(&window);
    }
    let mut refused_once = Chooser::new(Goal::Latency, 2);
    let mut refusals = 0;
    let mut decision = refused_once.first();
    for _ in 0..5000 {
        while decision.candidate == 1 {
            refusals += 1;
            decision = refused_once.refuse();
        }
        decision = refused_once.next(&window);
    }
    assert_eq!(refusals, 1);
}

#[test]
fn when_what_was_in_the_way_is_gone_the_paths_are_compared_again() {
    let window = |cost: u64| Window {
        ios: 20_000_000 / cost,
        busy_ns: 20_000_000,
        in_flight_ns: 20_000_000,
        cpu_ns: 10_000_000,
        request_bytes: 4096,
        ..Window::default()
    };
    // While another program has the core, the second path is the best, and without it the first.
    let (with, without) = ([9000, 8000, 9500], [4000, 5000, 6000]);
    let mut chooser = Chooser::new(Goal::Throughput, 3);
    let mut decision = chooser.first();
    let mut play = |costs: [u64; 3], windows: usize| {
        let mut surveyed = 0;
        for _ in 0..windows {
            decision = chooser.next(&window(costs[decision.candidate]));
            surveyed += usize::from(decision.reason == iolane_policy::Reason::Tried);
        }
        (decision.candidate, surveyed)
    };
    assert_eq!(play(with, 30).0, 1);
    assert_eq!(play(without, 30).0, 0);
    // Windows that always cost less than those of a survey do not bring a survey each time.
    let mut chooser = Chooser::new(Goal::Throughput, 3);
    let mut decision = chooser.first();
    let mut tried = 0;
    for _ in 0..4000 {
        let is_survey = decision.reason == iolane_policy::Reason::Tried;
        tried += usize::from(is_survey);
        decision = chooser.next(&window(if is_survey { with } else { [3000; 3] }[decision.candidate]));
    }
    assert!(tried < 400, "{tried} of 4000 windows");
}

/// A window of requests that cost this much, of the length that was asked for.
fn window_of(cost_ns: u64, length_ns: u64) -> Window {
    let ios = (length_ns / cost_ns).max(16);
    let busy_ns = ios * cost_ns;
    Window { ios, busy_ns, in_flight_ns: 16 * busy_ns, cpu_ns: busy_ns / 2, request_bytes: 4096, ..Window::default() }
}

#[test]
fn a_disturbance_that_ends_during_the_survey_that_it_brings_does_not_replace_the_best() {
    let costs = [2000, 1000, 1500, 2500];
    let mut chooser = Chooser::new(Goal::Throughput, costs.len());
    let mut decision = chooser.first();
    let mut play = |windows: u32, times: u64, decision: &mut Decision| {
        for _ in 0..windows {
            *decision = chooser.next(&window_of(times * costs[decision.candidate], decision.window_ns));
        }
    };
    play(20, 1, &mut decision);
    assert_eq!((decision.candidate, decision.reason), (1, Reason::Best));
    // Two held windows, which bring the survey, and the first window of it, which is that of the best.
    play(3, 3, &mut decision);
    assert_eq!(decision.reason, Reason::Tried);
    play(14, 1, &mut decision);
    assert_eq!((decision.candidate, decision.reason), (1, Reason::Best));
}

#[test]
fn held_windows_that_always_cost_more_than_tried_ones_bring_ever_fewer_surveys() {
    let mut chooser = Chooser::new(Goal::Throughput, 5);
    let mut decision = chooser.first();
    let (mut held, mut surveys, mut was_held) = (0, 0, false);
    while held < 2000 {
        let is_held = decision.reason == Reason::Best;
        surveys += u32::from(was_held && !is_held);
        held += u32::from(is_held);
        was_held = is_held;
        let cost_ns = 1000 * (1 + decision.candidate as u64) * if is_held { 2 } else { 1 };
        decision = chooser.next(&window_of(cost_ns, decision.window_ns));
    }
    assert!((5..100).contains(&surveys), "{surveys} in {held} held windows");
}

#[test]
fn a_path_that_becomes_a_little_slower_gives_way_to_one_that_was_nearly_as_good() {
    let mut costs = [5000, 4000, 1300, 1200];
    let mut chooser = Chooser::new(Goal::Throughput, costs.len());
    let mut decision = chooser.first();
    let mut play = |costs: &[u64], until: u64| {
        let mut passed_ns = 0;
        while passed_ns < until {
            let window = window_of(costs[decision.candidate], decision.window_ns);
            passed_ns += window.busy_ns;
            decision = chooser.next(&window);
        }
        (decision.candidate, decision.reason)
    };
    assert_eq!(play(&costs, 250_000_000), (3, Reason::Best));
    // Not so much that all would be compared again.
    costs[3] = 1560;
    assert_eq!(play(&costs, 200_000_000), (2, Reason::Best));
}

#[test]
fn the_runner_up_of_a_survey_that_chance_decided_is_the_first_to_be_tried_again() {
    let costs = [1500, 3000, 1000, 1040, 2000, 2500];
    let mut chooser = Chooser::new(Goal::Throughput, costs.len());
    let mut decision = chooser.first();
    let mut play = |until: &dyn Fn(&Decision) -> bool, disturbed: Option<usize>| {
        for _ in 0..200 {
            let times = if disturbed == Some(decision.candidate) { 12 } else { 10 };
            decision = chooser.next(&window_of(costs[decision.candidate] * times / 10, decision.window_ns));
            if until(&decision) {
                return decision.candidate;
            }
        }
        panic!("{decision:?} after 200 windows");
    };
    assert_eq!(play(&|decision| decision.reason == Reason::Best, Some(2)), 3, "the best was disturbed");
    assert_eq!(play(&|decision| decision.reason == Reason::Tried, None), 2);
    assert_eq!(play(&|decision| decision.reason == Reason::Best, None), 2);
}

#[test]
fn a_path_that_is_slow_while_it_is_new_is_taken_all_the_same() {
    let costs = [1800, 6000, 1900, 1000];
    let mut chooser = Chooser::new(Goal::Throughput, costs.len());
    let mut decision = chooser.first();
    let mut windows = [0; 4];
    for _ in 0..20 {
        let on = decision.candidate;
        windows[on] += 1;
        let times = if windows[on] == 1 { 28 } else { 10 };
        decision = chooser.next(&window_of(costs[on] * times / 10, decision.window_ns));
    }
    assert_eq!((decision.candidate, decision.reason), (3, Reason::Best));
}

#[test]
fn a_path_whose_requests_another_one_carries_is_not_measured_at_that_load_and_is_at_others() {
    // The second does not take large requests, which the first carries, by chance a little faster.
    let costs = [1000, 900, 1500];
    let mut chooser = Chooser::new(Goal::Throughput, costs.len());
    let mut decision = chooser.first();
    let mut play = |bytes: u64, windows: usize| {
        let mut windows_on = [0; 3];
        for _ in 0..windows {
            let on = decision.candidate;
            windows_on[on] += 1;
            let window = Window { request_bytes: bytes, ..window_of(costs[on], decision.window_ns) };
            let carried_elsewhere = if on == 1 && bytes > 65_536 { window.ios } else { 0 };
            decision = chooser.next(&Window { carried_elsewhere, ..window });
        }
        (decision, windows_on[1])
    };
    let (decision, windows) = play(131_072, 2000);
    assert!(decision.candidate == 0 && windows < 20, "{decision:?}, {windows} windows");
    let (decision, _) = play(4096, 100);
    assert_eq!((decision.candidate, decision.reason), (1, Reason::Best));
    // The load changes while it is held.
    let (decision, windows) = play(131_072, 100);
    assert!(decision.candidate == 0 && windows < 10, "{decision:?}, {windows} windows");
}

#[test]
fn two_equal_paths_whose_windows_vary_are_rarely_exchanged() {
    let mut machine = Machine::new(7, 1);
    (machine.costs, machine.depth, machine.noise) = (vec![vec![1000.0, 1000.0, 3000.0]], 16, 0.15);
    let mut chooser = Chooser::new(Goal::Throughput, 3);
    let mut decision = chooser.first();
    let (mut held, mut held_on, mut exchanged) = (0, decision.candidate, 0);
    for _ in 0..5000 {
        decision = chooser.next(&machine.window(0, decision.candidate, decision.window_ns));
        if decision.reason == Reason::Best {
            held += 1;
            exchanged += u32::from(std::mem::replace(&mut held_on, decision.candidate) != decision.candidate);
        }
    }
    assert!(held > 4000 && exchanged < 40, "{exchanged} exchanges in {held} held windows");
}

/// Plays windows at these costs, in which the last path stands still for 8 ms where another was in use for longer than 100 ms. How many
/// windows held it at the end, one after the other.
fn windows_that_hold_what_stands_still<const PATHS: usize>(costs: impl Fn(usize) -> [u64; PATHS]) -> usize {
    const LONG_NS: u64 = 100_000_000;
    let mut chooser = Chooser::new(Goal::Throughput, PATHS);
    let mut decision = chooser.first();
    let (mut now_ns, mut used_ns, mut held) = (LONG_NS, 0, 0);
    for number in 0..400 {
        let is_in_use = decision.candidate == PATHS - 1;
        let stands_still = is_in_use && now_ns - used_ns > LONG_NS;
        let lost_ns = if stands_still { 8_000_000_u64.saturating_sub(decision.settling_ns) } else { 0 };
        let window = window_of(costs(number)[decision.candidate], decision.window_ns);
        let window = Window { busy_ns: window.busy_ns + lost_ns, ..window };
        now_ns += decision.settling_ns + window.busy_ns;
        if is_in_use {
            used_ns = now_ns;
        }
        held = if is_in_use && decision.reason == Reason::Best { held + 1 } else { held * usize::from(is_in_use) };
        decision = chooser.next(&window);
    }
    held
}

#[test]
fn a_path_that_stands_still_after_each_change_is_taken_if_it_is_the_best() {
    let held = windows_that_hold_what_stands_still(|_| [1600, 5000, 1500, 1000]);
    assert!(held > 5, "{held}");
}

#[test]
fn it_is_taken_too_where_it_becomes_the_best_while_another_is_held() {
    let held = windows_that_hold_what_stands_still(|number| [1000, if number < 100 { 1200 } else { 800 }]);
    assert!(held > 5, "{held}");
}

#[test]
fn only_a_challenger_that_may_win_settles_before_its_window() {
    let costs = [1000, 1900, 2500];
    let mut chooser = Chooser::new(Goal::Throughput, costs.len());
    let mut decision = chooser.first();
    let mut settled = [None; 3];
    for _ in 0..300 {
        let is_held = decision.reason == Reason::Best;
        decision = chooser.next(&window_of(costs[decision.candidate], decision.window_ns));
        if is_held && decision.reason == Reason::Tried {
            settled[decision.candidate] = Some(decision.settling_ns > 0);
        }
    }
    assert_eq!(settled, [None, Some(true), Some(false)]);
}
