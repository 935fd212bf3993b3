//! Signals during calls: a call that a signal interrupts does not fail, and no completion is lost or duplicated.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use iolane::{Completion, Pool, Queue, Request};

use crate::bench::{Bench, Pair, check_each, check_each_with_stoppable_device, pool, times};
use crate::content::{self, ensure_same};
use crate::drive;
use crate::fixtures::wait_until;

const BLOCK_BYTES: usize = 4096;

/// The least number of signals that interrupt each check.
const SIGNALS: u64 = 30;

static DELIVERED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_signal: libc::c_int) {
    DELIVERED.fetch_add(1, Ordering::Relaxed);
}

/// Makes SIGINT interrupt calls and do nothing else, until dropped.
struct Handler {
    before: libc::sigaction,
}

impl Handler {
    fn install() -> Result<Self> {
        // SAFETY: a sigaction is integers, a pointer and a set of bits, for which zero is a value.
        let (mut action, mut before) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
        action.sa_sigaction = count_signal as extern "C" fn(libc::c_int) as usize;
        // No SA_RESTART: calls end with EINTR.
        // SAFETY: the handler adds to an atomic, which is safe in a signal handler; both pointers are to locals.
        let installed = unsafe { libc::sigaction(libc::SIGINT, &raw const action, &raw mut before) };
        ensure!(installed == 0, "sigaction: {}", std::io::Error::last_os_error());
        Ok(Self { before })
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: it is what was installed before.
        unsafe { libc::sigaction(libc::SIGINT, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Runs it while this thread is sent signals, one each `pause`; gives how many arrived.
fn under_fire<T>(pause: Duration, run: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let _handler = Handler::install()?;
    let before = DELIVERED.load(Ordering::Relaxed);
    // SAFETY: this is a plain query.
    let thread = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread is alive: it waits at the end of the scope for this one.
                unsafe { libc::pthread_kill(thread, libc::SIGINT) };
                std::thread::sleep(pause);
            }
        });
        let result = run();
        done.store(true, Ordering::Relaxed);
        result
    })?;
    Ok((result, DELIVERED.load(Ordering::Relaxed) - before))
}

#[test]
fn signals_in_the_middle_lose_nothing_and_double_nothing() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = pool(32, BLOCK_BYTES)?;
        let (rounds, signals) = under_fire(Duration::from_micros(20), || {
            let mut rounds = 0;
            let start = DELIVERED.load(Ordering::Relaxed);
            while rounds < times(20, 5) as u64 || DELIVERED.load(Ordering::Relaxed) - start < SIGNALS {
                write_and_read_back(pair, &pool, rounds)?;
                rounds += 1;
            }
            Ok(rounds)
        })?;
        ensure!(signals >= SIGNALS, "just {signals} signals in {rounds} rounds");
        Ok(())
    });
}

fn write_and_read_back(pair: &Pair<'_>, pool: &Pool, round: u64) -> Result<()> {
    // Opening is interrupted too.
    let mut queue = pair.queue(pair.depth(16), pool)?;
    let mut writes = Vec::new();
    for tag in 0..32 {
        let mut buffer = pool.take().context("a frame each")?;
        content::fill(&mut buffer, tag * BLOCK_BYTES as u64, round);
        writes.push(Request::write(tag, tag * BLOCK_BYTES as u64, buffer));
    }
    let mut reads = Vec::new();
    for completion in drive::run(&mut *queue, writes)? {
        ensure!(completion.result == Ok(BLOCK_BYTES as u32), "write {}: {:?}", completion.tag, completion.result);
        let buffer = completion.buffer.context("a buffer each")?;
        reads.push(Request::read(completion.tag, completion.tag * BLOCK_BYTES as u64, buffer));
    }
    for completion in drive::run(&mut *queue, reads)? {
        ensure!(completion.result == Ok(BLOCK_BYTES as u32), "read {}: {:?}", completion.tag, completion.result);
        if pair.moves_data() {
            let expected = content::content(BLOCK_BYTES, completion.tag * BLOCK_BYTES as u64, round);
            ensure_same("read under signals", &expected, &completion.buffer.context("a buffer each")?)?;
        }
    }
    Ok(())
}

#[test]
fn a_wait_that_signals_interrupt_goes_on_until_the_device_answers() {
    check_each_with_stoppable_device("its blocking calls on a device cannot be interrupted", |pair, device| {
        let pool = pool(8, BLOCK_BYTES)?;
        let mut queue = pair.queue(8, &pool)?;
        let stopped = &device.stop()?;
        let (ended, signals) = under_fire(Duration::from_millis(1), || {
            std::thread::scope(|scope| {
                let start = DELIVERED.load(Ordering::Relaxed);
                scope.spawn(move || {
                    let enough = || DELIVERED.load(Ordering::Relaxed) >= start + SIGNALS;
                    let waited = wait_until("signals are delivered", enough);
                    stopped.release();
                    waited
                });
                wait_for_eight(&mut *queue, &pool)
            })
        })?;
        ensure!(signals >= SIGNALS, "just {signals} signals while the device was stopped");
        ensure!(ended.iter().all(|completion| completion.result == Ok(BLOCK_BYTES as u32)), "{ended:?}");
        Ok(())
    });
}

/// One reap that has to bring all eight.
fn wait_for_eight(queue: &mut dyn Queue, pool: &Pool) -> Result<Vec<Completion>> {
    let read = |tag| Ok(Request::read(tag, tag * BLOCK_BYTES as u64, pool.take().context("a frame each")?));
    queue.submit(&mut (0..8).map(read).collect::<Result<_>>()?);
    let mut ended = Vec::new();
    drive::reap(queue, 8, &mut ended, &mut (0..8).collect::<HashSet<u64>>())?;
    Ok(ended)
}
