//! Tests of processor time against clocks and rings of this machine, most in a process of their own.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use proptest::prelude::*;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::*;

const ALONE: &str = "IOLANE_TEST_ALONE";

/// Runs the body in a process of its own, since it measures the process and other tests run in this one.
fn in_a_process_of_its_own(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("telemetry::cpu::tests::{test}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, test)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    text.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn clock_s(clock: ClockId) -> f64 {
    let time = clock_gettime(clock).unwrap();
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn this_thread_s() -> f64 {
    clock_s(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Computes until this thread has used this many seconds of processor time, and returns the exact amount.
fn compute_for(cpu_s: f64) -> f64 {
    let from = this_thread_s();
    let mut value = 1u64;
    loop {
        for _ in 0..200_000 {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let used_s = this_thread_s() - from;
        if used_s >= cpu_s {
            return used_s;
        }
    }
}

/// Reads zeroes from the kernel until this thread has used this many seconds of processor time.
fn read_zeroes_for(cpu_s: f64) {
    let zero = fs::File::open("/dev/zero").unwrap();
    let mut buffer = vec![0; 1 << 20];
    let from = this_thread_s();
    while this_thread_s() - from < cpu_s {
        rustix::io::read(&zero, &mut buffer).unwrap();
    }
}

/// What was used between snapshots around the body, and the process's time by its own clock, which is read outside of the
/// snapshots and so is never less.
fn measured<T>(body: impl FnOnce() -> T) -> (T, CpuUse, f64) {
    let outer = clock_s(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    let before = CpuSnapshot::take().unwrap();
    let value = body();
    let after = CpuSnapshot::take().unwrap();
    let outer_s = clock_s(ClockId::CLOCK_PROCESS_CPUTIME_ID) - outer;
    (value, before.delta(&after), outer_s)
}

/// getrusage(2) truncates user and system time to microseconds, in both snapshots.
const CUT_S: f64 = 4e-6;

#[test]
fn the_time_of_a_thread_that_ended_meanwhile_is_counted() {
    in_a_process_of_its_own("the_time_of_a_thread_that_ended_meanwhile_is_counted", || {
        let (thread_s, used, outer_s) = measured(|| std::thread::spawn(|| compute_for(0.2)).join().unwrap());
        let inner_s = used.user_s + used.system_s;
        assert!(inner_s >= thread_s - CUT_S, "{inner_s} of {thread_s}");
        assert!(inner_s <= outer_s + CUT_S, "{inner_s} of {outer_s}");
        assert!(used.user_s > used.system_s, "{used:?}");
        assert_eq!(used.kernel_threads_s, Ok(0.0));
    });
}

/// Pins the calling thread to the CPU of that rank among those it may use; false if there are too few.
fn stay_on_cpu(rank: usize) -> bool {
    let allowed = sched_getaffinity(None).unwrap();
    let cpu = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(rank);
    cpu.is_some_and(|cpu| {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).is_ok()
    })
}

#[test]
fn the_time_of_a_thread_still_running_is_counted_to_the_moment() {
    let name = "the_time_of_a_thread_still_running_is_counted_to_the_moment";
    in_a_process_of_its_own(name, || {
        const ROUNDS: usize = 100;
        let (apart, end) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut behind_ns = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                apart.store(stay_on_cpu(1), Ordering::Release);
                while !end.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            });
            compute_for(0.01);
            stay_on_cpu(0);
            for _ in 0..ROUNDS {
                compute_for(0.002);
                let began = Instant::now();
                let Ok(snapshot) = CpuSnapshot::take() else { break };
                let clocks_ns: u64 = tids().into_iter().flatten().filter_map(thread_cpu_ns).sum();
                // What both threads can have used between the two readings, however long the machine took for them.
                let meanwhile_ns = 2 * began.elapsed().as_nanos() as i64;
                let total_ns = snapshot.process.user_ns + snapshot.process.system_ns;
                behind_ns.push(clocks_ns as i64 - total_ns as i64 - meanwhile_ns);
            }
            end.store(true, Ordering::Release);
        });
        if !apart.load(Ordering::Acquire) {
            return eprintln!("SKIPPED {name}: two cpus are needed");
        }
        // Totals that wait for the timer tick are up to 1 to 10 ms behind (CONFIG_HZ 1000 to 100) when the other
        // thread is on a cpu.
        assert_eq!(behind_ns.len(), ROUNDS);
        behind_ns.sort_unstable();
        assert!(behind_ns[ROUNDS * 9 / 10] < 200_000, "{behind_ns:?}");
    });
}

#[test]
fn time_in_the_kernel_is_system_time() {
    in_a_process_of_its_own("time_in_the_kernel_is_system_time", || {
        let ((), used, _) = measured(|| read_zeroes_for(0.3));
        assert!(used.system_s > used.user_s, "{used:?}");
    });
}

#[test]
fn waiting_counts_as_context_switches_and_not_as_time() {
    in_a_process_of_its_own("waiting_counts_as_context_switches_and_not_as_time", || {
        const WAITS: u64 = 50;
        let (left_read, left_write) = std::io::pipe().unwrap();
        let (right_read, right_write) = std::io::pipe().unwrap();
        let pass = |from: &std::io::PipeReader, to: &std::io::PipeWriter| {
            for _ in 0..WAITS {
                rustix::io::write(to, &[1]).unwrap();
                rustix::io::read(from, &mut [0]).unwrap();
            }
        };
        let (switches, used, _) = measured(|| {
            let thread = std::thread::spawn(move || {
                for _ in 0..WAITS {
                    rustix::io::read(&left_read, &mut [0]).unwrap();
                    rustix::io::write(&right_write, &[1]).unwrap();
                }
                voluntary_switches()
            });
            let before = voluntary_switches();
            pass(&right_read, &left_write);
            voluntary_switches() - before + thread.join().unwrap()
        });
        // The process's count holds at least what the two threads counted of themselves.
        assert!(used.context_switches >= switches && switches >= WAITS, "{used:?} {switches}");
    });
}

fn voluntary_switches() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).unwrap().voluntary_context_switches() as u64
}

/// A ring whose submission thread, once woken, polls for a minute or until the ring is dropped.
fn ring_or_skip(test: &str) -> Option<io_uring::IoUring> {
    let ring = io_uring::IoUring::builder().setup_sqpoll(60_000).build(8);
    ring.inspect_err(|error| eprintln!("SKIPPED {test}: io_uring: {error}")).ok()
}

#[test]
fn a_submission_thread_is_counted_apart_from_the_process() {
    let name = "a_submission_thread_is_counted_apart_from_the_process";
    in_a_process_of_its_own(name, || {
        let Some(ring) = ring_or_skip(name) else { return };
        let tid = |key: &ThreadKey| key.tid;
        let ((kernel_ns, own_s), used, outer_s) = measured(|| {
            let tids: Vec<_> = CpuSnapshot::take().unwrap().kernel_threads.keys().map(tid).collect();
            let [tid] = tids[..] else { panic!("the ring has not one kernel thread but {tids:?}") };
            let from_ns = thread_cpu_ns(tid).unwrap();
            let mut own_s = 0.0;
            while thread_cpu_ns(tid).unwrap() - from_ns < 100_000_000 {
                // Wakes the thread from its first sleep, which it takes before there is anything to do.
                ring.submit().unwrap();
                own_s += compute_for(0.001);
                assert!(own_s < 20.0, "the submission thread does not run");
            }
            (thread_cpu_ns(tid).unwrap() - from_ns, own_s)
        });
        let kernel_s = used.kernel_threads_s.clone().unwrap();
        let own = used.user_s + used.system_s;
        // How far the kernel threads' time may be off where the cpu is taken away in each try of a snapshot.
        const OFF_S: f64 = 5e-3;
        assert!(kernel_s >= kernel_ns as f64 / 1e9, "{used:?} {kernel_ns}");
        assert!(own >= own_s - OFF_S, "{used:?} {own_s}");
        // The process's clock holds both, each once.
        assert!(kernel_s + own <= outer_s + CUT_S, "{used:?} {outer_s}");
        assert_eq!(used.kernel_threads_ended, 0);
    });
}

#[test]
fn a_kernel_thread_that_ended_meanwhile_is_counted() {
    let name = "a_kernel_thread_that_ended_meanwhile_is_counted";
    in_a_process_of_its_own(name, || {
        let Some(ring) = ring_or_skip(name) else { return };
        let before = CpuSnapshot::take().unwrap();
        drop(ring);
        // The kernel ends the thread after the close returns; its leaving the list is what is waited for.
        while !CpuSnapshot::take().unwrap().kernel_threads.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(before.delta(&CpuSnapshot::take().unwrap()).kernel_threads_ended, 1);
    });
}

fn snapshot(user_ns: u64, system_ns: u64, switches: u64, threads: &[(i32, u64, u64)]) -> CpuSnapshot {
    let thread = |&(tid, cpu_ns, context_switches): &(i32, u64, u64)| {
        (ThreadKey { tid, start_ticks: 7 }, KernelThread { cpu_ns, context_switches })
    };
    let mut process = Used { user_ns, ..Used::default() };
    (process.system_ns, process.context_switches) = (system_ns, switches);
    CpuSnapshot {
        process,
        kernel_threads: threads.iter().map(thread).collect(),
        threads: HashMap::new(),
        kernel_threads_are_ours: true,
    }
}

#[test]
fn kernel_threads_are_taken_out_of_system_time_and_switches() {
    const S: u64 = 1_000_000_000;
    let before = snapshot(S, S, 100, &[(1, S, 10), (2, S, 1)]);
    let after = snapshot(3 * S, 9 * S, 200, &[(1, 3 * S, 30), (3, 4 * S, 5)]);
    let used = before.delta(&after);
    assert_eq!((used.user_s, used.system_s, used.kernel_threads_s), (2.0, 2.0, Ok(6.0)));
    assert_eq!((used.context_switches, used.kernel_thread_context_switches), (75, Ok(25)));
    assert_eq!(used.kernel_threads_ended, 1);
}

#[test]
fn threads_are_listed_by_name_and_ended_ones_by_the_remainder() {
    const S: u64 = 1_000_000_000;
    let with = |total_ns, threads: &[(i32, &str, u64)]| {
        let thread =
            |&(tid, name, cpu_ns): &(i32, &str, u64)| (ThreadKey { tid, start_ticks: 7 }, (name.to_owned(), cpu_ns));
        CpuSnapshot { threads: threads.iter().map(thread).collect(), ..snapshot(total_ns, 0, 0, &[]) }
    };
    let before = with(10 * S, &[(1, "iolane", S), (2, "iolane-0", S), (3, "iolane-1", S), (9, "iou-wrk-1", S)]);
    let later =
        [(1, "iolane", S), (2, "iolane-0", 3 * S), (4, "iou-wrk-1", S), (5, "iou-wrk-1", S), (6, "iou-sqp-1", S / 2)];
    let threads = |total_ns| before.delta(&with(total_ns, &later)).threads;
    let named = |name: &str, cpu_s| ThreadUse { name: name.into(), cpu_s };
    let worked = [named("iolane-0", 2.0), named("iou-sqp", 0.5), named("iou-wrk", 2.0)];
    assert_eq!(threads(14 * S + S / 2), worked, "no time remains for an ended thread");
    assert_eq!(threads(16 * S + S / 2)[3], named("ended", 2.0));
}

#[test]
fn a_sampled_system_time_below_the_kernel_threads_own_keeps_the_sum() {
    let used = snapshot(0, 0, 0, &[]).delta(&snapshot(700, 300, 0, &[(1, 400, 0)]));
    assert_eq!((used.user_s, used.system_s, used.kernel_threads_s), (600e-9, 0.0, Ok(400e-9)));
}

#[test]
fn where_kernel_threads_are_not_the_processs_their_time_is_unavailable() {
    let mut old = snapshot(0, 0, 0, &[]);
    old.kernel_threads_are_ours = false;
    let used = old.delta(&old);
    assert!(used.kernel_threads_s.unwrap_err().reason.contains("5.12"));
    assert!(used.kernel_thread_context_switches.is_err());
    assert!(parse_release("5.11.0-49-generic").unwrap() < (5, 12));
    assert!(parse_release("5.14.0-503.el9").unwrap() >= (5, 12));
    assert_eq!(parse_release("6.18.44-fc-v657"), Some((6, 18)));
}

#[test]
fn a_thread_is_io_urings_by_its_name_or_its_flag() {
    let stat = |name: &str, flags: u64| {
        let fields = "0 0 0 0 0 51 0 0 20 0 3 0 4711 0 0 18446744073709551615 0 0";
        Stat::parse(&format!("812 ({name}) S 1 811 1 0 -1 {flags} {fields}\n")).unwrap()
    };
    assert_eq!(stat("a) S (b", 4_194_368), Stat { name: "a) S (b".into(), flags: 4_194_368, start_ticks: 4711 });
    assert!(stat("iou-sqp-811", 0).is_io_uring());
    assert!(stat("iou-wrk-811", 0).is_io_uring());
    assert!(stat("iolane", PF_IO_WORKER | 0x40).is_io_uring());
    assert!(!stat("iolane", 4_194_368).is_io_uring());
    assert_eq!(Stat::parse("812 (cut off) S 1 811"), None);
}

#[test]
fn both_kinds_of_context_switches_are_added() {
    let status = "Name:\tiou-sqp-811\nThreads:\t3\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
    assert_eq!(parse_context_switches(status), Some(42));
    assert_eq!(parse_context_switches("voluntary_ctxt_switches:\t40\n"), None);
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(
        text in "[\\PC\n]{0,200}",
        stat in "[0-9]{1,3} \\([a-z() ]{0,9}\\)( [0-9-]{1,20}){0,30}",
    ) {
        let _ = (Stat::parse(&text), Stat::parse(&stat));
        let _ = (parse_context_switches(&text), parse_release(&text));
    }

    #[test]
    fn the_three_times_always_add_up_to_the_processs(
        user: u32,
        system: u32,
        threads in prop::collection::vec(0u32.., 0..4),
    ) {
        let threads: Vec<_> = threads.iter().zip(1..).map(|(ns, tid)| (tid, u64::from(*ns) / 4, 0)).collect();
        let kernel_ns: u64 = threads.iter().map(|thread| thread.1).sum();
        let total_ns = (u64::from(user) + u64::from(system)).max(kernel_ns);
        let used = snapshot(0, 0, 0, &[]).delta(&snapshot(u64::from(user), u64::from(system), 0, &threads));
        let sum_ns = (used.user_s + used.system_s + used.kernel_threads_s.unwrap()) * 1e9;
        prop_assert!((sum_ns - total_ns as f64).abs() < 1.0, "{sum_ns} {total_ns}");
        prop_assert!(used.user_s >= 0.0 && used.system_s >= 0.0);
    }
}
