//! The descriptor to wait on is readable when completions wait, so that an event loop misses none, and not readable otherwise.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use iolane::{IoErrorKind, Operations, Pool, Queue, QueueConfig, Request};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::bench::{Bench, Pair, check_each, pairs_on, pool, times, turn};
use crate::drive;
use crate::fixtures::StoppableDevice;
use crate::places::Place;

const BLOCK_BYTES: usize = 4096;
const ROUNDS: usize = 100;

/// Whether it becomes readable within `timeout_ms`. Since poll(2) checks once more at the timeout, a lost wake-up appears as one at
/// that moment, which does not count.
fn readable(fd: BorrowedFd<'_>, timeout_ms: i64) -> Result<bool> {
    let timeout = Timespec { tv_sec: timeout_ms / 1000, tv_nsec: timeout_ms % 1000 * 1_000_000 };
    let start = Instant::now();
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let count = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&timeout)))?;
    let in_time = start.elapsed() < Duration::from_millis(timeout_ms as u64) || timeout_ms == 0;
    Ok(in_time && count == 1 && fds[0].revents().contains(PollFlags::IN))
}

fn is_readable(queue: &dyn Queue, timeout_ms: i64) -> Result<bool> {
    readable(queue.event_fd().context("the queue has no descriptor to wait on")?, timeout_ms)
}

#[test]
fn the_descriptor_to_wait_on_is_readable_just_when_completions_wait() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = pool(16, BLOCK_BYTES)?;
        let config = QueueConfig::new(pair.depth(16)).pool(&pool);
        ensure!(pair.queue_on(&pair.target, &config)?.event_fd().is_none(), "a descriptor that was not asked for");
        let mut queue = pair.queue_on(&pair.target, &config.event_fd())?;
        if !pair.capabilities.event_fd {
            ensure!(queue.event_fd().is_none(), "a descriptor that probe does not know of");
            return Ok(());
        }
        ensure!(!is_readable(&*queue, 20)?, "a new queue has something to reap");
        for round in 0..times(ROUNDS, 20) as u64 {
            event_loop(&mut *queue, &pool, 1 + round % 16).with_context(|| format!("round {round}"))?;
        }
        ensure!(idle(&mut *queue)?, "readable with nothing in flight");
        refusals(pair, &mut *queue)
    });
}

#[test]
fn a_thread_that_sleeps_on_the_descriptor_wakes_when_the_device_answers() {
    let _turn = turn();
    let Some(device) = StoppableDevice::or_skipped() else { return };
    let place = Place::stoppable(&device);
    let pairs: Vec<_> = pairs_on(&place).into_iter().filter(|pair| pair.capabilities.event_fd).collect();
    check_each(&pairs, |pair| {
        let pool = pool(4, BLOCK_BYTES)?;
        let mut queue = pair.queue_on(&pair.target, &QueueConfig::new(4).pool(&pool).event_fd())?;
        let stopped = device.stop()?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(40));
                stopped.release();
            });
            event_loop(&mut *queue, &pool, 4)
        })
    });
}

/// What an event loop does: hands over, waits, reaps without waiting, until all is there.
fn event_loop(queue: &mut dyn Queue, pool: &Pool, count: u64) -> Result<()> {
    let read = |tag| Ok(Request::read(tag, tag * BLOCK_BYTES as u64, pool.take().context("a frame each")?));
    let mut waiting = (0..count).map(read).collect::<Result<Vec<_>>>()?;
    let (mut ended, mut awaited) = (Vec::new(), (0..count).collect::<HashSet<u64>>());
    queue.submit(&mut waiting);
    queue.flush()?;
    while !awaited.is_empty() {
        ensure!(is_readable(queue, 5000)?, "five seconds without a word, {} in flight", queue.in_flight());
        drive::reap(queue, 0, &mut ended, &mut awaited)?;
    }
    ensure!(ended.iter().all(|completion| completion.result == Ok(BLOCK_BYTES as u32)), "{ended:?}");
    Ok(())
}

/// Whether it is not readable. The kernel may signal once more for completions that were reaped; another reap clears that.
fn idle(queue: &mut dyn Queue) -> Result<bool> {
    if !is_readable(queue, 20)? {
        return Ok(true);
    }
    ensure!(queue.reap(0, &mut Vec::new())? == 0, "something came out of nothing");
    Ok(!is_readable(queue, 20)?)
}

/// Completions that never saw the kernel wait to be reaped like any other.
fn refusals(pair: &Pair<'_>, queue: &mut dyn Queue) -> Result<()> {
    let foreign = pool(1, BLOCK_BYTES)?;
    let refused = if pair.path.options.fixed_buffers {
        (Request::read(1, 0, foreign.take().context("a frame")?), IoErrorKind::NotRegistered)
    } else if !pair.capabilities.operations.contains(Operations::WRITE_ZEROES) {
        (Request::write_zeroes(1, 0, BLOCK_BYTES as u64), IoErrorKind::NotSupported)
    } else {
        return Ok(());
    };
    queue.submit(&mut vec![refused.0]);
    queue.flush()?;
    ensure!(is_readable(queue, 5000)?, "a refused request does not make the descriptor readable");
    let mut ended = Vec::new();
    ensure!(queue.reap(0, &mut ended)? == 1, "readable, and nothing to reap");
    let kind = ended[0].result.err().map(|error| error.kind());
    ensure!(kind == Some(refused.1), "{ended:?}");
    ensure!(idle(queue)?, "readable with nothing in flight, after a refusal");
    Ok(())
}
