//! Cycles, instructions and cache misses by the processor's own counters (PMU), through perf_event_open(2).
//! [`Watch`](super::Watch) opens them before the run's threads are made and reads them around the measured phase.

use std::io;

use iolane::error::describe;
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use rustix::io::Errno;

use super::perf::{Permission, explain_open, explain_use};
use super::{Reading, Sourced, Unavailable};

/// The counters of the calling thread and of the threads made, directly or not, while they are open: the kernel's part
/// of their work is in, and so are io_uring's kernel threads, which are threads of the process that made the ring.
/// What interrupts do meanwhile is charged to whom they interrupt.
///
/// Each is opened by itself, not as a group: a group counts only where the processor has room for all of it. Where there
/// is room for none but some of the time, the kernel shares it out, and the count is scaled and its source says so.
///
/// They are not opened for user mode alone where the kernel's part may not be counted: a path that does its work in the
/// kernel would then seem to cost nothing.
#[derive(Debug)]
pub(super) struct Counters {
    cycles: Reading<EventCounter>,
    instructions: Reading<EventCounter>,
    cache_references: Reading<EventCounter>,
    cache_misses: Reading<EventCounter>,
}

/// What they read, each by itself.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    /// Processor cycles, halted ones left out.
    pub(super) cycles: Reading<Sourced<u64>>,
    /// Instructions that were retired.
    pub(super) instructions: Reading<Sourced<u64>>,
    /// References to the last level of cache (perf_event_open(2)), as the processor counts them.
    pub(super) cache_references: Reading<Sourced<u64>>,
    /// Those that missed.
    pub(super) cache_misses: Reading<Sourced<u64>>,
}

impl Counters {
    /// Opens what can be opened; nothing counts yet.
    pub(super) fn open() -> Self {
        Self {
            cycles: EventCounter::open(Hardware::CPU_CYCLES),
            instructions: EventCounter::open(Hardware::INSTRUCTIONS),
            cache_references: EventCounter::open(Hardware::CACHE_REFERENCES),
            cache_misses: EventCounter::open(Hardware::CACHE_MISSES),
        }
    }

    /// Whether cycles can be counted, which is found out by counting some.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check() -> Reading<()> {
        let mut counter = EventCounter::open(Hardware::CPU_CYCLES)?;
        counter.begin()?;
        counter.stop();
        counter.end().map(|_| ())
    }

    /// Begins to count.
    pub(super) fn begin(&mut self) {
        for counter in self.each() {
            let begun = counter.as_mut().map_or(Ok(()), |counter| counter.begin());
            if let Err(unavailable) = begun {
                *counter = Err(unavailable);
            }
        }
    }

    /// Ends, and tells what was counted.
    pub(super) fn end(mut self) -> Counted {
        // All are stopped before any is read, so that no reading is in another's count.
        self.each().into_iter().flatten().for_each(EventCounter::stop);
        let read = |counter: Reading<EventCounter>| counter.and_then(EventCounter::end);
        Counted {
            cycles: read(self.cycles),
            instructions: read(self.instructions),
            cache_references: read(self.cache_references),
            cache_misses: read(self.cache_misses),
        }
    }

    fn each(&mut self) -> [&mut Reading<EventCounter>; 4] {
        [&mut self.cycles, &mut self.instructions, &mut self.cache_references, &mut self.cache_misses]
    }
}

/// A counter of one event, of this thread and those made after it.
#[derive(Debug)]
struct EventCounter {
    counter: Counter,
    begun: Option<Moment>,
}

/// What a counter has seen so far. The kernel cannot reset what threads that have ended left behind
/// (`_perf_event_reset` in kernel/events/core.c), so differences are taken.
#[derive(Debug, Clone, Copy)]
struct Moment {
    count: u64,
    /// How long its threads ran while it was enabled, in nanoseconds, all together.
    enabled_ns: u64,
    /// How much of that it counted.
    running_ns: u64,
}

impl EventCounter {
    fn open(event: impl Event) -> Reading<Self> {
        let mut builder = Builder::new(event);
        builder.exclude_kernel(false).inherit(true);
        // Child processes are left out where the kernel can tell them from threads (Linux 5.13).
        let counter = match builder.clone().inherit_thread(true).build() {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => builder.build(),
            other => other,
        };
        let counter = counter.map_err(|error| explain_open(&error, Permission::of_this_process(), no_such_event))?;
        Ok(Self { counter, begun: None })
    }

    fn begin(&mut self) -> Reading<()> {
        self.begun = Some(self.now()?);
        self.counter.enable().map_err(|error| explain_use("start", &error))
    }

    /// Were it not to stop, it would be seen in what it counted meanwhile; there is nothing else to do about it.
    fn stop(&mut self) {
        let _ = self.counter.disable();
    }

    fn end(mut self) -> Reading<Sourced<u64>> {
        let begun = self.begun.ok_or_else(|| Unavailable::new("the counter was not started"))?;
        counted(begun, self.now()?)
    }

    fn now(&mut self) -> Reading<Moment> {
        let data = self.counter.read_full().map_err(|error| explain_use("read", &error))?;
        let nanoseconds = |time: Option<std::time::Duration>| time.unwrap_or_default().as_nanos() as u64;
        let (enabled_ns, running_ns) = (nanoseconds(data.time_enabled()), nanoseconds(data.time_running()));
        Ok(Moment { count: data.count(), enabled_ns, running_ns })
    }
}

/// What was counted between two moments in which the processor worked.
fn counted(from: Moment, to: Moment) -> Reading<Sourced<u64>> {
    let enabled_ns = to.enabled_ns.saturating_sub(from.enabled_ns);
    let running_ns = to.running_ns.saturating_sub(from.running_ns);
    let count = to.count.saturating_sub(from.count);
    if running_ns == 0 {
        return Err(Unavailable::new("other programs held the processor's counters all the time")
            .remedy("end other uses of perf, and sysctl kernel.nmi_watchdog=0"));
    }
    if count == 0 {
        return Err(Unavailable::new("the counter stood still while the processor worked")
            .remedy("use a machine, or a virtual machine with a virtual PMU (qemu: -cpu host,pmu=on)"));
    }
    if running_ns >= enabled_ns {
        return Ok(Sourced::new(count, "perf, user and kernel"));
    }
    let share = running_ns as f64 / enabled_ns as f64;
    let source = format!("perf, user and kernel, scaled: counted {:.0} % of the time", share * 100.0);
    Ok(Sourced::new((count as f64 / share).round() as u64, source))
}

/// That there is no such event here; ENOENT is what perf says without a PMU (`perf_init_event` in
/// kernel/events/core.c).
fn no_such_event(error: &io::Error) -> Unavailable {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => {
            Unavailable::new("this machine has no hardware counters for it (a virtual machine without a virtual PMU?)")
                .remedy("use a machine, or a virtual machine with a virtual PMU (qemu: -cpu host,pmu=on)")
        }
        _ => Unavailable::new(format!("the processor does not count this: {}", describe(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use nix::time::{ClockId, clock_gettime};
    use perf_event::events::Software;
    use proptest::prelude::*;

    use super::*;

    fn open_or_skip(test: &str) -> Option<EventCounter> {
        let opened = EventCounter::open(Software::TASK_CLOCK);
        opened.inspect_err(|unavailable| eprintln!("SKIPPED {test}: {unavailable}")).ok()
    }

    fn this_thread_ns() -> u64 {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    }

    /// Computes until this thread has used so much processor time, and returns exactly how much.
    fn compute_for(cpu_ns: u64) -> u64 {
        let from = this_thread_ns();
        while this_thread_ns() - from < cpu_ns {
            std::hint::black_box((0..1000u64).fold(1u64, |value, step| value.wrapping_mul(step | 1)));
        }
        this_thread_ns() - from
    }

    const MS: u64 = 1_000_000;

    /// The kernel's own counter of time on a processor, an event that every machine has, shows what is inherited, and when
    /// it counts.
    #[test]
    fn threads_made_later_are_counted_between_begin_and_end_and_not_outside() {
        let name = "threads_made_later_are_counted_between_begin_and_end_and_not_outside";
        let Some(mut counter) = open_or_skip(name) else { return };
        let turn = Barrier::new(2);
        let (inside_ns, counted) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                compute_for(60 * MS);
                turn.wait();
                turn.wait();
                let inside_ns = compute_for(20 * MS);
                turn.wait();
                turn.wait();
                compute_for(60 * MS);
                inside_ns
            });
            turn.wait();
            let begun = counter.begin();
            turn.wait();
            turn.wait();
            counter.stop();
            turn.wait();
            (thread.join().unwrap(), begun.and_then(|()| counter.end()))
        });
        let counted = counted.unwrap();
        assert_eq!(counted.source, "perf, user and kernel");
        assert!(counted.value >= inside_ns, "{counted:?} of {inside_ns}");
        assert!(counted.value < inside_ns + 60 * MS, "{counted:?} of {inside_ns}");
    }

    #[test]
    fn the_kernels_submission_thread_is_counted_with_the_thread_that_made_its_ring() {
        let name = "the_kernels_submission_thread_is_counted_with_the_thread_that_made_its_ring";
        let Some(mut counter) = open_or_skip(name) else { return };
        let ring: io_uring::IoUring = match io_uring::IoUring::builder().setup_sqpoll(60_000).build(8) {
            Ok(ring) => ring,
            Err(error) => return eprintln!("SKIPPED {name}: io_uring: {error}"),
        };
        let process_ns = || {
            let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
            time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
        };
        counter.begin().unwrap();
        let (from_ns, own_from_ns) = (process_ns(), this_thread_ns());
        // Wakes the thread, which then polls; the process's clock shows when it and this thread have run for long enough.
        let mut own_ns = 0;
        while own_ns < 200 * MS {
            ring.submit().unwrap();
            own_ns += compute_for(5 * MS);
        }
        let (all_ns, own_ns) = (process_ns() - from_ns, this_thread_ns() - own_from_ns);
        counter.stop();
        let counted = counter.end().unwrap().value;
        if all_ns < own_ns + 50 * MS {
            return eprintln!("SKIPPED {name}: the submission thread was given no processor");
        }
        // Other tests' threads are in the process's time and not in the count, so only this thread's own is a bound.
        assert!(counted > own_ns + 20 * MS, "{counted} of {own_ns} in {all_ns}");
    }

    #[test]
    fn a_count_is_never_0_by_mistake() {
        let name = "a_count_is_never_0_by_mistake";
        let mut counters = Counters::open();
        counters.begin();
        compute_for(5 * MS);
        let counted = counters.end();
        for reading in [counted.cycles, counted.instructions, counted.cache_references, counted.cache_misses] {
            match reading {
                Ok(counted) => assert!(counted.value > 0),
                Err(unavailable) => {
                    assert!(!unavailable.reason.is_empty());
                    eprintln!("SKIPPED counting in {name}: {unavailable}");
                }
            }
        }
    }

    fn moment(count: u64, enabled_ns: u64, running_ns: u64) -> Moment {
        Moment { count, enabled_ns, running_ns }
    }

    #[test]
    fn a_count_of_a_part_of_the_time_is_scaled_and_says_so() {
        let whole = counted(moment(5, 100, 100), moment(1005, 300, 300)).unwrap();
        assert_eq!((whole.value, whole.source.as_str()), (1000, "perf, user and kernel"));
        let part = counted(moment(5, 100, 100), moment(1005, 300, 150)).unwrap();
        assert_eq!(part.value, 4000);
        assert_eq!(part.source, "perf, user and kernel, scaled: counted 25 % of the time");
    }

    #[test]
    fn a_counter_that_did_not_run_or_did_not_move_is_unavailable_and_not_0() {
        let starved = counted(moment(0, 0, 0), moment(0, 300, 0)).unwrap_err();
        assert!(starved.to_string().contains("nmi_watchdog"), "{starved}");
        let still = counted(moment(7, 0, 0), moment(7, 300, 300)).unwrap_err();
        assert!(still.to_string().contains("virtual PMU"), "{still}");
        let text = no_such_event(&Errno::NOENT.into()).to_string();
        assert!(text.contains("no hardware counters") && text.contains("pmu=on"), "{text}");
    }

    proptest! {
        #[test]
        fn no_reading_makes_the_scaling_panic(from: [u64; 3], to: [u64; 3]) {
            let of = |[count, enabled_ns, running_ns]: [u64; 3]| Moment { count, enabled_ns, running_ns };
            if let Ok(count) = counted(of(from), of(to)) {
                prop_assert!(count.value > 0);
            }
        }
    }
}
