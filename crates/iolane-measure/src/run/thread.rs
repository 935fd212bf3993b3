//! What one thread of a run does between the barriers: it opens its queue, warms up, runs the two short phases that prove
//! system calls and submission time, then the measured phase, and reads back what a verified load of writes wrote. `run`
//! starts it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolane::units::CpuList;
use iolane::{Error, Pages, Pool, QueueConfig, Result, Target, TargetKind, phase_mark};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

use super::outcome::SyscallProof;
use super::phase_barrier::PhaseBarrier;
use super::plan::RunPlan;
use crate::block_data::BlockData;
use crate::clock::Clock;
use crate::content::Verifier;
use crate::engine::{Engine, Extent, Phase, ReadBack, Submissions, Tally};
use crate::progress::ThreadCounters;
use crate::telemetry::{Reading, SyscallCounter, Unavailable};
use crate::workload::{PlannedRequest, RequestGenerator};

/// Length of each short phase, in nanoseconds: enough for some thousand requests, little compared with any run.
const SHORT_PHASE_NS: u64 = 50_000_000;

/// The most bytes of a request that lie in one page.
const PAGE_BYTES: usize = 4096;

/// What one thread measured.
pub(super) struct ThreadOutcome {
    pub(super) measured: Tally,
    pub(super) submissions: Submissions,
    pub(super) syscall_proof: SyscallProof,
    pub(super) read_back: ReadBack,
}

/// One thread of a run.
pub(super) struct RunThread<'a, C> {
    pub(super) plan: &'a RunPlan,
    pub(super) index: usize,
    /// What the blocks of its target should hold; `None` without --verify.
    pub(super) verifier: Option<Verifier>,
    pub(super) clock: C,
    pub(super) counters: Arc<ThreadCounters>,
    pub(super) barrier: &'a PhaseBarrier,
    pub(super) stop: &'a AtomicBool,
}

impl<C: Clock> RunThread<'_, C> {
    /// Runs to the end. `None` if it did not measure because another thread had failed.
    pub(super) fn run(self) -> Result<Option<ThreadOutcome>> {
        let (plan, index, barrier, stop) = (self.plan, self.index, self.barrier, self.stop);
        let verifier = self.verifier.clone();
        // Threads in virtual time take turns within a phase.
        let clock = self.clock.clone();
        let phase = || clock.begin(index, plan.threads);
        let prepared = without_panic(|| {
            let _turn = phase();
            self.prepare()
        });
        let mut all_ready = barrier.wait(prepared.is_err());
        let prepared = prepared.and_then(|(mut engine, proof)| {
            let extent = Extent::of(SHORT_PHASE_NS);
            let timed = all_ready.then(|| {
                without_panic(|| {
                    let _turn = phase();
                    run_phase(&mut engine, Phase::TimeSubmission, extent, stop)
                })
            });
            // The tally of the measured phase is allocated here, before the counters around that phase are read.
            Ok((engine, proof, timed.transpose()?.map(|tally| tally.submissions), Tally::new()))
        });
        all_ready &= barrier.wait(prepared.is_err());
        let measured = prepared.map(|(mut engine, proof, submissions, mut tally)| {
            // Neither warm-up nor the short phases count towards the bytes that the workload may move.
            let bytes_max = plan.workload.bytes_max.unwrap_or(u64::MAX);
            let extent = Extent { duration_ns: nanoseconds(plan.runtime), bytes_max };
            let measured = all_ready.then(|| {
                without_panic(|| {
                    let _turn = phase();
                    phase_mark::begin();
                    let ran = engine.run(Phase::Measure, extent, stop, &mut tally);
                    phase_mark::end();
                    ran.map(|()| tally)
                })
            });
            (engine, measured, submissions, proof)
        });
        // From here on nothing is counted, and no thread of the run writes. The queue closes only after that: its kernel
        // threads have been counted.
        let all_measured = barrier.wait(!matches!(&measured, Ok((_, Some(Ok(_)), ..))));
        let (mut engine, measured, submissions, syscall_proof) = measured?;
        let Some((measured, submissions)) = measured.zip(submissions) else { return Ok(None) };
        let mut measured = measured?;
        measured.only_zeroes = !plan.workload.access.writes() && engine.holds_only_zeroes();
        let read_back = match verifier {
            Some(Verifier::Map(map)) if all_measured && plan.reads_back() => {
                let share = plan.share(index);
                let block_bytes = map.unit_bytes();
                let block = |offset| PlannedRequest { is_read: true, offset, block_bytes };
                let blocks = map.known_blocks(share.index, share.count).map(block);
                empty_page_cache(plan.target_of(index))?;
                without_panic(|| {
                    let _turn = phase();
                    engine.read_back(blocks, stop)
                })?
            }
            _ => ReadBack::default(),
        };
        Ok(Some(ThreadOutcome { measured, submissions, syscall_proof, read_back }))
    }

    /// Opens the queue, warms up, and runs the short phase that counts the system calls of the path.
    fn prepare(self) -> Result<(Engine<C>, SyscallProof)> {
        // Opened before the queue, since it counts the threads that are made after it. An open counter slows every system
        // call on the machine, so it is closed before anything is measured.
        let counter = self.plan.keeps_real_time().and_then(|()| SyscallCounter::open());
        let engine = open_engine(self.plan, self.index, self.clock, self.verifier)?;
        let mut engine = engine.with_counters(self.counters);
        run_phase(&mut engine, Phase::Measure, Extent::of(nanoseconds(self.plan.warmup)), self.stop)?;
        let proof = prove_syscalls(&mut engine, counter, self.stop)?;
        Ok((engine, proof))
    }
}

/// Opens the queue of thread `index`, which is the calling thread: it is pinned to its CPU first.
pub(super) fn open_engine<C: Clock>(
    plan: &RunPlan,
    index: usize,
    clock: C,
    verifier: Option<Verifier>,
) -> Result<Engine<C>> {
    if let Some(cpu) = nth(plan.placement.cpus.as_ref(), index) {
        pin(cpu)?;
    }
    let target = plan.target_of(index);
    let workload = &plan.workload;
    let share = plan.share(index);
    let pool = pool(workload.depth as usize, workload.block_sizes.max() as usize, plan.pages)?;
    let region_bytes = plan.region_bytes(target)?;
    let writes = workload.access.writes() && verifier.is_none();
    let mut block_data = writes.then(|| BlockData::new(workload, region_bytes, index as u32));
    if let Some(block_data) = &mut block_data {
        let mut buffers: Vec<_> = std::iter::from_fn(|| pool.take()).take(workload.depth as usize).collect();
        buffers.iter_mut().for_each(|buffer| block_data.fill(buffer));
    }
    let sqpoll_cpu = nth(plan.placement.sqpoll_cpus.as_ref(), index);
    let mut config = QueueConfig::new(workload.depth)
        .pool(&pool)
        .sqpoll_cpu(sqpoll_cpu)
        .completions_per_call(workload.batch_complete_max);
    config.memory.clone_from(&plan.memory);
    let queue = iolane::open_queue(&plan.path, target, &config)?;
    let generator = RequestGenerator::new(workload, region_bytes, share)?;
    let pace = plan.pace(index);
    if pace.is_some() || workload.think_us.is_some() {
        // The kernel may end a sleep 50 us late, so as to wake up less often (prctl(2), PR_SET_TIMERSLACK).
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
    Ok(Engine::new(queue, clock, workload, generator, verifier, &pool, pace)?.with_block_data(block_data))
}

/// A pool of `depth` blocks, or of more where these are of several pages: memory of 2 MiB has huge pages, as far as the kernel has them. The
/// adjacent pages of a block go to the device as one segment. Without, the cost of a request would depend on where the kernel
/// finds pages, by a factor of two at 128 KiB, and so on the depth (docs/decisions/0032-pools-on-huge-pages.md).
fn pool(depth: usize, block_bytes: usize, pages: Pages) -> Result<Pool> {
    let least = if block_bytes > PAGE_BYTES { Pool::HUGE_PAGES_FROM_BYTES.div_ceil(block_bytes) } else { 0 };
    Pool::new(depth.max(least), block_bytes, pages)
}

/// Writes back what the page cache holds of a target and drops it, so that reads reach the device.
fn empty_page_cache(target: &Target) -> Result<()> {
    let cached = matches!(target.kind(), TargetKind::File | TargetKind::Block) && !target.direct();
    let Some(fd) = target.fd().filter(|_| cached) else { return Ok(()) };
    rustix::fs::fsync(fd).map_err(|errno| Error::system(format!("fsync of {}", target.name()), errno))?;
    // Only advice: the content is checked wherever it comes from.
    let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// A bug in one thread must not leave the others waiting for it.
fn without_panic<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| Err(panicked()))
}

pub(super) fn panicked() -> Error {
    Error::failed("a thread of the run", "it panicked, which is a bug in iolane")
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX / 2)
}

fn run_phase<C: Clock>(engine: &mut Engine<C>, phase: Phase, extent: Extent, stop: &AtomicBool) -> Result<Tally> {
    let mut tally = Tally::new();
    engine.run(phase, extent, stop, &mut tally)?;
    Ok(tally)
}

/// Runs a short phase in which both the queue and the kernel count system calls.
fn prove_syscalls<C: Clock>(
    engine: &mut Engine<C>,
    counter: Reading<SyscallCounter>,
    stop: &AtomicBool,
) -> Result<SyscallProof> {
    let mut tally = Tally::new();
    let mut counter = counter.and_then(|mut counter| counter.start().map(|()| counter));
    engine.run(Phase::Measure, Extent::of(SHORT_PHASE_NS), stop, &mut tally)?;
    let counted = counter.as_mut().map_err(|unavailable| unavailable.clone()).and_then(SyscallCounter::stop);
    let kernel = match (counted, tally.syscalls) {
        // A path that cannot count its own calls: the sleeps between requests at a rate are not its calls. Each I/O takes at least one,
        // made by threads of its library.
        (Ok(counted), None) => Some(counted.saturating_sub(tally.sleeps))
            .filter(|calls| *calls >= tally.ios)
            .ok_or_else(|| Unavailable::new("the library's threads were started before the counter was opened")),
        (counted, _) => counted,
    };
    let engine = tally.syscalls.map(|syscalls| syscalls + tally.sleeps);
    Ok(SyscallProof { ios: tally.ios, engine, kernel })
}

fn nth(cpus: Option<&CpuList>, thread: usize) -> Option<u32> {
    let cpus = cpus?.cpus();
    cpus.get(thread % cpus.len().max(1)).copied()
}

fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    if (cpu as usize) < CpuSet::MAX_CPU {
        set.set(cpu as usize);
    }
    sched_setaffinity(None, &set).map_err(|errno| {
        Error::usage(
            format!("--cpus {cpu}"),
            format!("this process may not run there: {}", iolane::error::describe(&errno.into())),
        )
        .remedy("see /sys/devices/system/cpu/online and the cpuset of the process")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_several_pages_have_a_pool_with_a_huge_page_at_any_depth() {
        for (depth, block_bytes, frames) in [(1, 4096, 1), (4, 4096, 4), (1, 131_072, 16), (64, 131_072, 64)] {
            assert_eq!(pool(depth, block_bytes, Pages::Base).unwrap().frames(), frames, "{depth} x {block_bytes}");
        }
    }
}
