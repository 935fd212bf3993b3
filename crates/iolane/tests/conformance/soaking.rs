//! A process that lives long: threads open queues and end with requests in flight, submission threads come and go, processes are forked
//! meanwhile. In the end the process holds what it held after its first rounds.
//!
//! `IOLANE_CONFORMANCE_SOAK=60` gives each path 60 seconds, 90 at most. `cargo xtask campaign soak` does this in guests.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use iolane::{IoPath, QueueConfig, Request};

use crate::bench::{Bench, Pair, check_each, one_each, pool, times};
use crate::fixtures::wait_until;
use crate::leaks::{Held, settled};
use crate::report;

/// Milliseconds of each path without the variable, and on an emulated machine.
const MILLISECONDS: usize = 300;
const MILLISECONDS_BRIEF: usize = 50;
/// What a check may take before it counts as hanging is a little more.
const SECONDS_MAX: f64 = 90.0;

const THREADS: usize = 4;
const DEPTH: u32 = 8;
const BLOCK_BYTES: usize = 4096;
/// Rounds after which what is made once and stays, such as the allocator's arenas, is there.
const ROUNDS_FIRST: usize = 8;
const ROUNDS_FIRST_BRIEF: usize = 2;
/// A process is forked in one of as many rounds.
const ROUNDS_PER_FORK: usize = 4;
/// By how much anonymous memory may grow, for the allocator's own reasons. A request's memory leaked in each round shows within a thousand.
const MEMORY_SPARE_KIB: u64 = 8 << 10;

/// The memory of this process, and what the kernel has for all processes, in KiB.
#[derive(Debug, Clone, Copy)]
struct Memory {
    anonymous: u64,
    /// Registered with the kernel.
    pinned: u64,
    /// Of the kernel; others change it, too.
    slab: u64,
}

impl Memory {
    fn now() -> Result<Self> {
        let kib = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file)?;
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix("kB"));
            value.and_then(|value| value.trim().parse().ok()).with_context(|| format!("{name} in {file}"))
        };
        Ok(Self {
            anonymous: kib("/proc/self/status", "RssAnon:")?,
            pinned: kib("/proc/self/status", "VmPin:")?,
            slab: kib("/proc/meminfo", "SUnreclaim:")?,
        })
    }
}

/// What has to be flat.
struct Holdings {
    held: Held,
    memory: Memory,
}

impl Holdings {
    fn now() -> Result<Self> {
        Ok(Self { held: Held::now()?, memory: Memory::now()? })
    }

    /// No queue is open at either time, so that nothing is registered.
    fn exceeds(&self, before: &Self) -> bool {
        self.held.exceeds(before.held)
            || self.memory.anonymous > before.memory.anonymous + MEMORY_SPARE_KIB
            || self.memory.pinned > 0
    }
}

impl std::fmt::Display for Holdings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Memory { anonymous, pinned, slab } = self.memory;
        write!(f, "{}, {anonymous} KiB of memory, {pinned} KiB registered, {slab} KiB of slab", self.held)
    }
}

/// The time that the variable gives each path.
fn asked() -> Option<Duration> {
    let text = std::env::var("IOLANE_CONFORMANCE_SOAK").ok()?;
    let seconds = text.parse().unwrap_or_else(|_| panic!("IOLANE_CONFORMANCE_SOAK={text} is no number of seconds"));
    assert!(seconds <= SECONDS_MAX, "IOLANE_CONFORMANCE_SOAK={text}: {SECONDS_MAX} seconds at most");
    Some(Duration::from_secs_f64(seconds))
}

#[test]
fn a_process_that_lives_long_holds_no_more_than_after_its_first_rounds() {
    let bench = Bench::everywhere();
    let asked = asked();
    let usual = Duration::from_millis(times(MILLISECONDS, MILLISECONDS_BRIEF) as u64);
    let rounds_first = if asked.is_some() { ROUNDS_FIRST } else { times(ROUNDS_FIRST, ROUNDS_FIRST_BRIEF) };
    check_each(&one_each(bench.pairs()), |pair| {
        let path = soaked(&pair.path);
        (0..rounds_first).try_for_each(|number| round(pair, &path, number))?;
        let before = Holdings { held: settled()?, memory: Memory::now()? };
        let began = Instant::now();
        let mut rounds = 0;
        while began.elapsed() < asked.unwrap_or(usual) {
            round(pair, &path, rounds)?;
            rounds += 1;
        }
        let waited = wait_until("what was opened is gone", || Holdings::now().is_ok_and(|now| !now.exceeds(&before)));
        let after = Holdings::now()?;
        let found = format!("{path}: {} queues, before: {before}; after: {after}", rounds * THREADS);
        waited.with_context(|| found.clone())?;
        if asked.is_some() {
            report::say(&format!("soaked {found}"));
        }
        Ok(())
    });
}

/// The path whose submission thread, if it has one, falls asleep between most requests.
fn soaked(path: &IoPath) -> IoPath {
    match path.polls_submissions() {
        true => format!("{path},sqidle=1").parse().unwrap_or_else(|_| path.clone()),
        false => path.clone(),
    }
}

/// Threads that open a queue each, use it and end, while a process is forked in some rounds.
fn round(pair: &Pair<'_>, path: &IoPath, number: usize) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || use_a_queue(pair, path, number + thread))).collect();
        if number.is_multiple_of(ROUNDS_PER_FORK) {
            fork()?;
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })
}

/// Reads some blocks; every third queue is dropped with the requests in flight, or not even handed to the kernel.
fn use_a_queue(pair: &Pair<'_>, path: &IoPath, number: usize) -> Result<()> {
    let depth = pair.depth(DEPTH);
    let pool = pool(depth as usize, BLOCK_BYTES)?;
    let mut queue = pair.queue_of(path, &pair.target, &QueueConfig::new(depth).pool(&pool))?;
    let read = |tag: u64| Some(Request::read(tag, tag * BLOCK_BYTES as u64, pool.take()?));
    queue.submit(&mut (0..u64::from(depth)).filter_map(read).collect());
    match number % 6 {
        0 => {}
        3 => queue.flush()?,
        _ => {
            let mut ended = Vec::new();
            queue.drain(&mut ended)?;
            let whole = ended.iter().filter(|completion| completion.result == Ok(BLOCK_BYTES as u32)).count();
            ensure!(ended.len() == depth as usize && whole == ended.len(), "{ended:?}");
        }
    }
    drop(queue);
    ensure!(pool.take_frames(0, pool.frames()).is_some(), "the dropped queue still holds memory");
    Ok(())
}

/// A child that has everything of this process until it becomes another program.
fn fork() -> Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "no test has this name"]).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the closure does nothing; it is there because without one the child would not be forked.
    unsafe { command.pre_exec(|| Ok(())) };
    let status = command.status().context("starting this program again")?;
    ensure!(status.success(), "the child ended with {status}");
    Ok(())
}
