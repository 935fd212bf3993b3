//! A choice keeps its bounds, whatever it would gain beyond them.

use iolane_core::Goal;
use iolane_policy::{Bounds, Chooser, Decision, Reason, Window};

/// What a path costs: nanoseconds of a request, and the cores that it keeps busy.
type Path = (u64, f64);

fn window((each_ns, cores): Path) -> Window {
    let busy_ns = 20_000_000;
    let cpu_ns = (busy_ns as f64 * cores) as u64;
    Window {
        ios: busy_ns / each_ns,
        busy_ns,
        in_flight_ns: 16 * busy_ns,
        cpu_ns,
        request_bytes: 4096,
        ..Window::default()
    }
}

/// The decision after this many windows, and after the trial that may be under way then.
fn after(windows: usize, chooser: &mut Chooser, paths: &[Path]) -> Decision {
    let first = chooser.first();
    let mut decision = (0..windows).fold(first, |decision, _| chooser.next(&window(paths[decision.candidate])));
    while decision.reason == Reason::Tried {
        decision = chooser.next(&window(paths[decision.candidate]));
    }
    decision
}

fn bounded(cores_max: f64) -> Chooser {
    Chooser::new(Goal::Throughput, 3).bounded(Bounds { cores_max: Some(cores_max), ..Bounds::default() })
}

#[test]
fn the_best_of_the_paths_that_keep_the_bound_on_cores_is_held() {
    let paths = [(5000, 0.4), (3000, 1.0), (1000, 2.0)];
    for (cores_max, best) in [(4.0, 2), (1.0, 1), (0.5, 0)] {
        let decision = after(40, &mut bounded(cores_max), &paths);
        assert_eq!((decision.candidate, decision.reason), (best, Reason::Best), "{cores_max} cores");
    }
}

#[test]
fn where_no_path_keeps_the_bound_the_one_with_the_fewest_cores_is_held_and_says_so() {
    let mut chooser = bounded(0.1);
    let decision = after(40, &mut chooser, &[(5000, 0.9), (3000, 0.6), (1000, 2.0)]);
    assert_eq!((decision.candidate, decision.reason), (1, Reason::FewestCores));
    // It stays, although another is faster.
    let later = after(400, &mut chooser, &[(5000, 0.9), (3000, 0.6), (1000, 2.0)]);
    assert_eq!((later.candidate, later.reason), (1, Reason::FewestCores));
}

#[test]
fn a_path_that_begins_to_need_more_cores_than_it_may_gives_way() {
    let mut chooser = bounded(1.0);
    assert_eq!(after(40, &mut chooser, &[(5000, 0.4), (3000, 1.0), (1000, 2.0)]).candidate, 1);
    let decision = after(40, &mut chooser, &[(5000, 0.4), (3000, 1.5), (1000, 2.0)]);
    assert_eq!((decision.candidate, decision.reason), (0, Reason::Best));
}

#[test]
fn without_exploring_it_takes_what_is_known_and_else_the_first() {
    let paths = [(5000, 0.4), (3000, 1.0), (1000, 2.0)];
    let mut explorer = Chooser::new(Goal::Throughput, 3);
    assert_eq!(after(40, &mut explorer, &paths).candidate, 2);
    let bounds = Bounds { explores: false, ..Bounds::default() };
    let mut knows = Chooser::new(Goal::Throughput, 3).bounded(bounds).remembering(explorer.known());
    let mut knows_nothing = Chooser::new(Goal::Throughput, 3).bounded(bounds);
    for windows in 1..400 {
        assert_eq!(after(1, &mut knows, &paths).candidate, 2, "window {windows}");
        assert_eq!(after(1, &mut knows_nothing, &paths).candidate, 0, "window {windows}");
    }
    // It has compared nothing, and passes nothing on.
    assert_eq!(knows_nothing.known(), []);
}

#[test]
fn without_exploring_a_path_that_cannot_be_used_gives_way_to_the_first() {
    let paths = [(5000, 0.4), (3000, 1.0), (1000, 2.0)];
    let mut explorer = Chooser::new(Goal::Throughput, 3);
    after(40, &mut explorer, &paths);
    let bounds = Bounds { explores: false, ..Bounds::default() };
    let mut chooser = Chooser::new(Goal::Throughput, 3).bounded(bounds).remembering(explorer.known());
    assert_eq!(after(1, &mut chooser, &paths).candidate, 2);
    assert_eq!((chooser.refuse().candidate, chooser.refuse().reason), (0, Reason::Unexplored));
}
