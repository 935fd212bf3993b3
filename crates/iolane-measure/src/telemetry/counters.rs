//! Cycles, instructions and cache misses from the processor's counters (PMU), through perf_event_open(2).
//! [`Watch`](super::Watch) opens them before the run starts its threads and reads them around the measured phase.

use std::io;

use iolane::error::describe;
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use rustix::io::Errno;

use super::perf::{Permission, explain_open, explain_use};
use super::{Reading, Sourced, Unavailable};

/// The counters of the calling thread and of the threads started, directly or not, while they are open. They include work
/// in the kernel and io_uring's kernel threads, which are threads of the process that made the ring. Interrupts are charged
/// to the thread they interrupt.
///
/// Each is opened separately, not as a group, since a group counts only while the processor has room for all of it. If there
/// are more counters than the processor has, the kernel multiplexes them; the count is then scaled, and its source says so.
///
/// Where the kernel may not be counted, they are not opened for user mode only: a path that works in the kernel would seem
/// to cost nothing.
#[derive(Debug)]
pub(crate) struct Counters {
    cycles: Reading<EventCounter>,
    instructions: Reading<EventCounter>,
    cache_references: Reading<EventCounter>,
    cache_misses: Reading<EventCounter>,
}

/// The counts, each with its source or the reason why it is unavailable.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    /// Processor cycles, without halted ones.
    pub(crate) cycles: Reading<Sourced<u64>>,
    /// Instructions that were retired.
    pub(crate) instructions: Reading<Sourced<u64>>,
    /// References to the last level of cache (perf_event_open(2)), as the processor counts them.
    pub(crate) cache_references: Reading<Sourced<u64>>,
    /// Those that missed.
    pub(crate) cache_misses: Reading<Sourced<u64>>,
}

impl Counters {
    /// Opens the counters that are available, without starting them.
    pub(crate) fn open() -> Self {
        Self {
            cycles: EventCounter::open(Hardware::CPU_CYCLES),
            instructions: EventCounter::open(Hardware::INSTRUCTIONS),
            cache_references: EventCounter::open(Hardware::CACHE_REFERENCES),
            cache_misses: EventCounter::open(Hardware::CACHE_MISSES),
        }
    }

    /// Checks that cycles can be counted, by counting some.
    ///
    /// # Errors
    pub(crate) fn check() -> Reading<()> {
        let mut counter = EventCounter::open(Hardware::CPU_CYCLES)?;
        counter.begin()?;
        counter.stop();
        counter.end().map(|_| ())
    }

    pub(crate) fn begin(&mut self) {
        for counter in self.each() {
            let begun = counter.as_mut().map_or(Ok(()), |counter| counter.begin());
            if let Err(unavailable) = begun {
                *counter = Err(unavailable);
            }
        }
    }

    /// Stops all counters and returns the counts.
    pub(crate) fn end(mut self) -> Counted {
        // All are stopped before any is read, so that no count includes the reading of another.
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

/// A counter of one event, of this thread and those started after it.
#[derive(Debug)]
struct EventCounter {
    counter: Counter,
    begun: Option<Moment>,
}

/// What a counter has counted so far. The kernel cannot reset the share of threads that have ended
/// (`_perf_event_reset` in kernel/events/core.c), so counts are differences.
#[derive(Debug, Clone, Copy)]
struct Moment {
    count: u64,
    /// Run time of its threads while it was enabled, in nanoseconds.
    enabled_ns: u64,
    /// The part of that time in which it counted, in nanoseconds.
    running_ns: u64,
}

impl EventCounter {
    fn open(event: impl Event) -> Reading<Self> {
        let mut builder = Builder::new(event);
        builder.exclude_kernel(false).inherit(true);
        // Excludes child processes where the kernel can (Linux 5.13).
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

    /// A failure to stop only adds the reading itself to the count.
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

/// The count between two readings, during which the processor worked.
fn counted(from: Moment, to: Moment) -> Reading<Sourced<u64>> {
    let enabled_ns = to.enabled_ns.saturating_sub(from.enabled_ns);
    let running_ns = to.running_ns.saturating_sub(from.running_ns);
    let count = to.count.saturating_sub(from.count);
    if running_ns == 0 {
        return Err(Unavailable::new("other programs held the hardware counters all the time")
            .remedy("end other uses of perf, or sysctl kernel.nmi_watchdog=0"));
    }
    if count == 0 {
        return Err(Unavailable::new("the counter did not advance while the processor worked")
            .remedy("use a physical machine, or a virtual machine with a virtual PMU (qemu: -cpu host,pmu=on)"));
    }
    if running_ns >= enabled_ns {
        return Ok(Sourced::new(count, "perf, user and kernel"));
    }
    let share = running_ns as f64 / enabled_ns as f64;
    let source = format!("perf, user and kernel, scaled: counted {:.0} % of the time", share * 100.0);
    Ok(Sourced::new((count as f64 / share).round() as u64, source))
}

/// The event does not exist here. Without a PMU perf returns ENOENT (`perf_init_event` in kernel/events/core.c).
fn no_such_event(error: &io::Error) -> Unavailable {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => {
            Unavailable::new("this machine has no hardware counters for it (a virtual machine without a virtual PMU?)")
                .remedy("use a physical machine, or a virtual machine with a virtual PMU (qemu: -cpu host,pmu=on)")
        }
        _ => Unavailable::new(format!("the processor does not count this event: {}", describe(error))),
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

    /// Computes until this thread has used this much processor time, and returns the exact amount.
    fn compute_for(cpu_ns: u64) -> u64 {
        let from = this_thread_ns();
        while this_thread_ns() - from < cpu_ns {
            std::hint::black_box((0..1000u64).fold(1u64, |value, step| value.wrapping_mul(step | 1)));
        }
        this_thread_ns() - from
    }

    const MS: u64 = 1_000_000;

    /// Uses the kernel's task clock, an event that every machine has, to show what is inherited and when it counts.
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
        // At each context switch the kernel stops the counter some microseconds before the thread's own clock.
        assert!(counted.value + MS >= inside_ns, "{counted:?} of {inside_ns}");
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
        // Wakes the thread, which then polls; the process's clock shows when both threads have run for long enough.
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
        // The process's time includes threads of other tests, so only this thread's own time is a bound.
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
    fn a_count_over_part_of_the_time_is_scaled_and_its_source_says_so() {
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
