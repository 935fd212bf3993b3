//! A full queue takes no more requests without an error, waiting for nothing does not block, and waiting for more than is in flight
//! does not hang.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use iolane::{ErrorKind, Pool, Queue, QueueConfig, Request};

use crate::bench::{Bench, Pair, check_each, check_each_with_stoppable_device, pool};
use crate::drive;
use crate::fixtures::wait_until;

const BLOCK_BYTES: usize = 4096;

/// Reads of one block each, with the tags given.
fn reads(pool: &Pool, tags: std::ops::Range<u64>) -> Result<Vec<Request>> {
    let read = |tag| Ok(Request::read(tag, tag % 64 * BLOCK_BYTES as u64, pool.take().context("a frame each")?));
    tags.map(read).collect()
}

fn tags(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.tag).collect()
}

#[test]
fn a_full_queue_leaves_the_rest_with_the_caller_in_order() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        for depth in pair.depths(&[1, 4, 33]) {
            fill(pair, depth).with_context(|| format!("depth {depth}"))?;
        }
        Ok(())
    });
}

fn fill(pair: &Pair<'_>, depth: u32) -> Result<()> {
    let (depth, count) = (depth as usize, 3 * u64::from(depth) + 2);
    let pool = pool(count as usize, BLOCK_BYTES)?;
    let mut queue = pair.queue(depth as u32, &pool)?;
    ensure!(queue.depth() == depth && queue.in_flight() == 0, "a new queue is empty and as deep as asked for");
    let mut waiting = reads(&pool, 0..count)?;
    let (mut ended, mut awaited, mut taken) = (Vec::new(), (0..count).collect::<HashSet<u64>>(), 0);
    while !awaited.is_empty() {
        let room = (depth - queue.in_flight()).min(waiting.len());
        ensure!(queue.submit(&mut waiting) == room, "a queue with room for {room} takes as many");
        taken += room as u64;
        ensure!(tags(&waiting) == (taken..count).collect::<Vec<_>>(), "what was not taken stays in order");
        if !waiting.is_empty() {
            ensure!(queue.in_flight() == depth, "{} in flight at depth {depth}", queue.in_flight());
            ensure!(queue.submit(&mut waiting) == 0, "a full queue takes none");
            queue.flush()?;
            ensure!(queue.submit(&mut waiting) == 0, "what was flushed still counts until it is reaped");
        }
        let stats = queue.stats();
        ensure!(
            (stats.depth, stats.in_flight) == (depth, queue.in_flight()) && stats.held <= stats.in_flight,
            "{stats:?}"
        );
        drive::reap(&mut *queue, 1, &mut ended, &mut awaited)?;
    }
    let stats = queue.stats();
    ensure!((stats.in_flight, stats.held) == (0, 0), "after the last: {stats:?}");
    // Each request was in one batch, and none had more than the queue is deep.
    let fits = |batches| batches <= count && batches * depth as u64 >= count;
    ensure!(stats.batches.is_none_or(fits), "{count} requests: {stats:?}");
    Ok(())
}

/// The kernel gets as many requests as the device has tags; the others wait in the queue.
#[test]
fn a_polled_queue_deeper_than_the_device_has_tags_works_as_any_other() {
    let bench = Bench::everywhere();
    let polled: Vec<Pair<'_>> = bench.pairs().into_iter().filter(|pair| pair.path.asks_for_polling()).collect();
    check_each(&polled, |pair| {
        let tags = pair.target.device_attribute("queue/nr_requests").context("queue/nr_requests")? as u32;
        let depth = tags + 50;
        if depth > pair.capabilities.depth_max {
            return Ok(());
        }
        fill(pair, depth)?;
        // Those that wait are dropped with it.
        let pool = pool(depth as usize, BLOCK_BYTES)?;
        let mut queue = pair.queue(depth, &pool)?;
        let mut waiting = reads(&pool, 0..depth.into())?;
        ensure!(queue.submit(&mut waiting) == depth as usize && pool.take().is_none(), "{} were left", waiting.len());
        queue.flush()?;
        drop(queue);
        ensure!(pool.take_frames(0, depth as usize).is_some(), "buffers did not come back");
        Ok(())
    });
}

#[test]
fn waiting_for_more_than_is_in_flight_does_not_hang() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let depth = pair.depth(3) as usize;
        let pool = pool(depth, BLOCK_BYTES)?;
        let mut queue = pair.queue(depth as u32, &pool)?;
        let mut ended = Vec::new();
        for min in [0, 1, usize::MAX] {
            ensure!(queue.reap(min, &mut ended)? == 0, "reap({min}) of an empty queue");
        }
        for (min, flush) in [(depth + 1, false), (usize::MAX, true)] {
            queue.submit(&mut reads(&pool, 0..depth as u64)?);
            if flush {
                queue.flush()?;
            }
            let count = queue.reap(min, &mut ended)?;
            ensure!(count == depth, "reap({min}) brought {count} of {depth}");
            ended.clear();
        }
        queue.submit(&mut reads(&pool, 0..depth as u64)?);
        queue.drain(&mut ended)?;
        ensure!(ended.len() == depth && queue.in_flight() == 0, "drain brought {} of {depth}", ended.len());
        Ok(())
    });
}

#[test]
fn a_depth_of_none_or_too_many_is_wrong_use() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = pool(1, BLOCK_BYTES)?;
        let open = |depth| iolane::open_queue(&pair.path, &pair.target, &QueueConfig::new(depth).pool(&pool));
        for depth in [0, pair.capabilities.depth_max + 1, u32::MAX] {
            let kind = open(depth).err().map(|error| error.kind());
            ensure!(kind == Some(ErrorKind::Usage), "depth {depth}: {kind:?}");
        }
        match open(pair.capabilities.depth_max) {
            Ok(queue) => {
                ensure!(queue.depth() == pair.capabilities.depth_max as usize, "the deepest queue is shallower")
            }
            Err(error) if error.kind() == ErrorKind::Exhausted => {}
            Err(error) => anyhow::bail!("the deepest queue: {error}"),
        }
        Ok(())
    });
}

#[test]
fn reap_of_none_does_not_wait_for_a_device_that_does_not_answer() {
    check_each_with_stoppable_device("it carries requests out itself, so it blocks with the device", |pair, device| {
        let pool = pool(8, BLOCK_BYTES)?;
        let mut queue = pair.queue(8, &pool)?;
        let stopped = device.stop()?;
        let (mut ended, mut awaited) = (Vec::new(), (0..8).collect::<HashSet<u64>>());
        queue.submit(&mut reads(&pool, 0..8)?);
        // Half of the rounds come before the requests are known to have reached the device, half after.
        look_in_vain(&mut *queue)?;
        wait_until("the requests reach the device", || device.device.in_flight().0 > 0)?;
        look_in_vain(&mut *queue)?;
        stopped.release();
        while !awaited.is_empty() {
            drive::reap(&mut *queue, 1, &mut ended, &mut awaited)?;
        }
        ensure!(ended.iter().all(|completion| completion.result == Ok(BLOCK_BYTES as u32)), "{ended:?}");
        Ok(())
    });
}

/// Reaps without waiting; a call that blocked would be ended by the watchdog of the check.
fn look_in_vain(queue: &mut dyn Queue) -> Result<()> {
    for _ in 0..100 {
        let start = Instant::now();
        let count = queue.reap(0, &mut Vec::new())?;
        ensure!(count == 0, "{count} requests ended on a device that is stopped");
        ensure!(start.elapsed() < Duration::from_secs(2), "reap(0) took {:?}", start.elapsed());
    }
    ensure!(queue.in_flight() == 8, "{} in flight", queue.in_flight());
    Ok(())
}
