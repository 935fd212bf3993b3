//! What windows measure, on the machine's clock and on one that is set.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const LONG_NS: u64 = 1_000_000_000;

/// A call of the queue that takes some time, with this number in flight.
fn call(watch: &mut Watch, ios: usize, in_flight: usize) -> u64 {
    let before = watch.now();
    while watch.since_ns(before) < 10_000 {
        std::hint::spin_loop();
    }
    watch.completes(ios, in_flight)
}

#[test]
fn while_paths_are_compared_all_the_time_with_requests_in_flight_counts() {
    let mut watch = Watch::new(LONG_NS, None);
    for _ in 0..10 {
        watch.counts(0);
        assert_eq!(call(&mut watch, 3, 4), 0, "no call is left out");
    }
    let window = watch.measured();
    assert_eq!((window.ios, window.in_flight_ns / window.busy_ns), (30, 4));
    assert!(window.busy_ns >= 100_000, "{window:?}");
}

#[test]
fn processor_time_of_a_queue_that_moved_is_the_time_it_was_busy() {
    let mut watch = Watch::new(LONG_NS, None);
    let window = thread::scope(|scope| {
        let moved = scope.spawn(|| {
            call(&mut watch, 1, 1);
            watch.measured()
        });
        moved.join().unwrap()
    });
    assert!(window.cpu_ns > 0 && window.cpu_ns == window.busy_ns, "{window:?}");
}

#[test]
fn time_without_requests_in_flight_is_left_out() {
    let mut watch = Watch::new(LONG_NS, None);
    call(&mut watch, 0, 0);
    let idle = watch.measured();
    assert_eq!((idle.busy_ns, idle.in_flight_ns), (0, 0));
    watch.submits(4096, true);
    call(&mut watch, 1, 1);
    let window = watch.measured();
    assert!(window.busy_ns > 0 && window.busy_ns == window.in_flight_ns && window.request_bytes == 4096);
}

#[test]
fn a_sample_stands_for_all_calls_of_a_held_window() {
    let mut watch = Watch::new(LONG_NS, None);
    for _ in 0..100 {
        call(&mut watch, 1, 2);
    }
    // As often as before, a window of a hundred seconds has far more calls than the sample takes.
    watch.begin(100 * LONG_NS, Sampling::Some);
    let mut left_out = 0;
    for _ in 0..20 {
        let skips = call(&mut watch, 1, 2);
        watch.counts(skips);
        left_out += skips;
    }
    assert!(left_out >= 9 * SKIPPED_MAX, "{left_out}");
    let window = watch.measured();
    assert_eq!(window.ios, 20 + left_out);
    // Without a break, all of the time is busy.
    assert_eq!(window.busy_ns, watch.clock.ns_of(watch.counted - watch.begin));
    assert_eq!(window.in_flight_ns / window.busy_ns, 2);
}

/// What other programs do to the core does not matter, which the clock below does not see.
const UNDISTURBED: Sampling = Sampling::LeaveOut(0);

/// A watch whose clock advances by the nanoseconds that are added to it.
fn watch_and_clock(window_ns: u64) -> (Watch, &'static AtomicU64) {
    let now: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(1)));
    let mut watch = Watch::new(window_ns, None);
    (watch.clock, watch.gap) = (Clock::Set(now), GAP_NS);
    watch.begin(window_ns, Sampling::Every);
    (watch, now)
}

/// A program that reads two blocks, waits for each, and then thinks: its calls repeat in a cycle of two, of which only the first is long
/// and finds nothing in flight.
#[test]
fn a_held_window_samples_each_call_of_a_cycle() {
    let (mut watch, now) = watch_and_clock(20_000_000);
    let pass = |ns: u64| now.fetch_add(ns, Ordering::Relaxed);
    let mut skips = 0;
    let mut cycles = |watch: &mut Watch, cycles: u64| {
        for _ in 0..cycles {
            pass(20_000);
            for (ns, in_flight) in [(30_000, 2), (10_000, 1)] {
                if skips > 0 {
                    skips -= 1;
                    pass(ns);
                    watch.counts(1);
                    continue;
                }
                if in_flight == 2 {
                    watch.submits(65_536, true);
                }
                pass(ns);
                skips = watch.completes(1, in_flight);
            }
        }
    };
    cycles(&mut watch, 1000);
    let compared = watch.measured();
    assert_eq!(compared.busy_ns / compared.ios, 20_000);
    watch.begin(200_000_000, Sampling::Some);
    assert!(watch.stride > 2, "{}", watch.stride);
    cycles(&mut watch, 4000);
    let held = watch.measured();
    assert_eq!(held.ios, 8000);
    let each_ns = held.busy_ns / held.ios;
    assert!((18_000..22_000).contains(&each_ns), "{each_ns} ns of a held request, {held:?}");
}

/// In seconds, of which no wait of this thread for a core makes up a tenth.
#[test]
fn a_window_that_one_gap_makes_up_is_prolonged_and_never_hopeless_so_far() {
    const CALL_NS: u64 = 10_000_000;
    let ends_after_s = |gap_ns: u64| {
        let (mut watch, now) = watch_and_clock(10_000_000_000);
        let mut is_over = |ns: u64| {
            now.fetch_add(ns, Ordering::Relaxed);
            watch.completes(1, 1);
            watch.may_be_over() && watch.ended(|_| true).is_some()
        };
        (0..50).for_each(|_| assert!(!is_over(CALL_NS)));
        let is_over_at_once = is_over(gap_ns);
        assert!(!is_over_at_once);
        while !is_over(CALL_NS) {}
        now.load(Ordering::Relaxed) / 1_000_000_000
    };
    // A quarter of the window shows that it is hopeless; then its whole length does not, for the gap is 3 s of 10; then twice that does.
    assert_eq!(ends_after_s(CALL_NS), 2);
    assert_eq!(ends_after_s(3_000_000_000), 20);
}

#[test]
fn the_time_of_a_worker_counts_while_its_thread_polls_and_never_sleeps() {
    const WORKED_NS: u64 = 3_000_000;
    let mut watch = Watch::new(LONG_NS, None);
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let has_worked = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let work = move || {
            while ThreadUsage::now().cpu_ns < WORKED_NS {
                std::hint::spin_loop();
            }
            has_worked.store(1, Ordering::Release);
            let _ = may_end.recv();
        };
        std::thread::Builder::new().name(format!("iou-wrk-{own}")).spawn_scoped(scope, work).unwrap();
        while has_worked.load(Ordering::Acquire) == 0 {
            call(&mut watch, 1, 1);
        }
        let own_ns = ThreadUsage::now().since(watch.usage_at_begin).cpu_ns;
        let window = watch.measured();
        assert!(window.cpu_ns >= own_ns + WORKED_NS, "{window:?} of which {own_ns} ns are its own");
        drop(end);
    });
}

#[test]
fn quarters_in_which_a_new_path_becomes_faster_are_left_out() {
    let (mut watch, now) = watch_and_clock(4_000_000);
    let quarter = |watch: &mut Watch, ios| {
        now.fetch_add(1_000_000, Ordering::Relaxed);
        watch.completes(ios, 1);
        watch.ended(|_| true)
    };
    watch.begin(4_000_000, UNDISTURBED);
    watch.warms_up();
    assert_eq!([10, 30, 60, 63].map(|ios| quarter(&mut watch, ios)), [None; 4]);
    assert_eq!(quarter(&mut watch, 64).map(|window| window.ios), Some(64));
    // One that never settles is measured all the same.
    watch.begin(4_000_000, UNDISTURBED);
    watch.warms_up();
    for doubled in 0..WARM_UP_QUARTERS {
        assert_eq!(quarter(&mut watch, 1 << doubled), None);
    }
    assert!(quarter(&mut watch, 1000).is_some());
}

#[test]
fn what_another_path_left_behind_is_not_measured() {
    let (mut watch, now) = watch_and_clock(4_000_000);
    watch.begin(4_000_000, UNDISTURBED);
    watch.begins_after(9_000_000);
    let mut call = |ios| {
        now.fetch_add(5_000_000, Ordering::Relaxed);
        watch.completes(ios, 1);
        if watch.may_be_over() { watch.ended(|_| true) } else { None }
    };
    assert_eq!([1, 2].map(&mut call), [None; 2]);
    assert_eq!(call(3).map(|window| window.ios), Some(3));
}

#[test]
fn the_first_quarter_of_a_window_of_a_new_path_is_left_out() {
    let (mut watch, now) = watch_and_clock(4_000_000);
    watch.begin(4_000_000, UNDISTURBED);
    watch.warms_up();
    let call = |watch: &mut Watch, ns| {
        now.fetch_add(ns, Ordering::Relaxed);
        watch.completes(1, 1);
        watch.may_be_over().then(|| watch.ended(|_| true))
    };
    assert_eq!(call(&mut watch, 900_000), None);
    assert_eq!(call(&mut watch, 900_000), Some(None));
    // The cold calls are over, and what is hopeless is measured from here on.
    assert_eq!(call(&mut watch, 1_000_000), Some(None));
    assert_eq!(call(&mut watch, 10_000), None);
    let window = call(&mut watch, 1_000_000).flatten().expect("it is hopeless");
    assert_eq!((window.ios, window.busy_ns), (2, 1_010_000));
}

#[test]
fn a_clock_that_goes_back_begins_the_window_anew() {
    let (mut watch, now) = watch_and_clock(4_000_000);
    now.store(1 << 40, Ordering::Relaxed);
    watch.begin(4_000_000, UNDISTURBED);
    now.store(1000, Ordering::Relaxed);
    watch.completes(1, 1);
    assert!(watch.may_be_over() && watch.ended(|_| true).is_none());
    now.fetch_add(2_000_000, Ordering::Relaxed);
    watch.completes(3, 1);
    let window = watch.ended(|_| true).expect("it is hopeless");
    assert_eq!((window.ios, window.busy_ns), (3, 2_000_000));
}
