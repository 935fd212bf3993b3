//! What one choice has learnt is what another begins with.

use iolane_core::Goal;
use iolane_policy::{Chooser, Decision, Reason, Window};

/// 20 ms at a depth of 16, in which each request takes this long.
fn window(each_ns: u64) -> Window {
    let busy_ns = 20_000_000;
    Window {
        ios: busy_ns / each_ns,
        busy_ns,
        in_flight_ns: 16 * busy_ns,
        cpu_ns: busy_ns,
        request_bytes: 4096,
        ..Window::default()
    }
}

/// Feeds windows of candidates with these costs, until one is held for this reason, and returns the number of windows.
fn until(chooser: &mut Chooser, costs: &[u64], reason: Reason) -> (Decision, usize) {
    let mut decision = chooser.first();
    for windows in 1..1000 {
        decision = chooser.next(&window(costs[decision.candidate]));
        if decision.reason == reason {
            return (decision, windows);
        }
    }
    panic!("{decision:?} after 1000 windows");
}

#[test]
fn a_load_that_another_choice_has_measured_is_not_measured_again() {
    let costs = [3000, 2000, 900, 4000];
    let mut first = Chooser::new(Goal::Throughput, costs.len());
    let (best, windows) = until(&mut first, &costs, Reason::Best);
    assert!(best.candidate == 2 && windows > costs.len(), "{best:?} after {windows}");
    let mut second = Chooser::new(Goal::Throughput, costs.len()).remembering(first.known());
    let (known, windows) = until(&mut second, &costs, Reason::Remembered);
    assert_eq!((known.candidate, windows), (2, 1));
}

#[test]
fn what_was_remembered_and_is_no_longer_so_is_measured_anew() {
    let mut first = Chooser::new(Goal::Throughput, 3);
    until(&mut first, &[3000, 2000, 900], Reason::Best);
    let mut second = Chooser::new(Goal::Throughput, 3).remembering(first.known());
    // The best has become the worst.
    let costs = [3000, 2000, 9000];
    let mut decision = second.first();
    for _ in 0..40 {
        decision = second.next(&window(costs[decision.candidate]));
    }
    assert_eq!((decision.candidate, decision.reason), (1, Reason::Best));
}

#[test]
fn a_remembered_best_that_cannot_be_used_here_gives_way_to_a_survey() {
    let mut first = Chooser::new(Goal::Throughput, 3);
    until(&mut first, &[3000, 2000, 900], Reason::Best);
    let mut second = Chooser::new(Goal::Throughput, 3).remembering(first.known());
    let (known, _) = until(&mut second, &[3000, 2000, 900], Reason::Remembered);
    assert_eq!(known.candidate, 2);
    let mut decision = second.refuse();
    assert_eq!(decision.reason, Reason::Tried);
    for _ in 0..40 {
        decision = second.next(&window([3000, 2000, 900][decision.candidate]));
        assert_ne!(decision.candidate, 2);
    }
    assert_eq!(decision.candidate, 1);
}

#[test]
fn what_other_candidates_are_known_for_is_ignored() {
    let mut first = Chooser::new(Goal::Throughput, 3);
    until(&mut first, &[3000, 2000, 900], Reason::Best);
    let chooser = Chooser::new(Goal::Throughput, 2).remembering(first.known());
    assert_eq!(chooser.known(), []);
}

#[test]
fn a_survey_that_has_not_ended_and_what_was_only_remembered_are_not_passed_on() {
    let costs = [3000, 2000, 900];
    let mut first = Chooser::new(Goal::Throughput, 3);
    let mut decision = first.first();
    for _ in 0..3 {
        decision = first.next(&window(costs[decision.candidate]));
        assert_eq!((decision.reason, first.known()), (Reason::Tried, Vec::new()));
    }
    until(&mut first, &costs, Reason::Best);
    let known = first.known();
    assert!(known.len() == 1 && known[0].costs.iter().all(Option::is_some), "{known:?}");
    // Another queue knows more by now: what this one has only been told would replace it.
    let mut second = Chooser::new(Goal::Throughput, 3).remembering(known);
    assert_eq!(second.known(), []);
    let (mut decision, _) = until(&mut second, &costs, Reason::Remembered);
    for _ in 0..40 {
        decision = second.next(&window(costs[decision.candidate]));
        assert_eq!(second.known(), []);
    }
    assert_eq!(decision.candidate, 2);
    // A trial that another path wins is news.
    let costs = [3000, 800, 900];
    for _ in 0..200 {
        decision = second.next(&window(costs[decision.candidate]));
    }
    assert_eq!((decision.candidate, second.known().len()), (1, 1));
}

#[test]
fn a_candidate_that_lost_after_a_window_that_looked_better_is_not_taken_elsewhere() {
    let mut first = Chooser::new(Goal::Throughput, 3);
    let mut decision = first.first();
    let mut windows_of_1 = 0;
    for _ in 0..30 {
        // The second is the best by its first window alone, and is then dropped.
        windows_of_1 += u32::from(decision.candidate == 1);
        let costs = [1000, if windows_of_1 < 2 { 950 } else { 2000 }, 1020];
        decision = first.next(&window(costs[decision.candidate]));
    }
    let best = decision.candidate;
    assert_ne!(best, 1);
    let mut second = Chooser::new(Goal::Throughput, 3).remembering(first.known());
    let (known, _) = until(&mut second, &[1000, 2000, 1020], Reason::Remembered);
    assert_eq!(known.candidate, best);
    // Nor here, when the load comes back.
    let other = Window { request_bytes: 1 << 17, ..window(1000) };
    (0..20).for_each(|_| decision = first.next(&other));
    (0..2).for_each(|_| decision = first.next(&window(1000)));
    assert_eq!((decision.candidate, decision.reason), (best, Reason::Known));
}
