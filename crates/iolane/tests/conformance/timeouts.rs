//! A wait with a timeout returns what completes, and ends without it when the time is over. A device that is stopped makes
//! the second certain.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use iolane::{Pool, Request};

use crate::bench::{Bench, NOTHING_IN_FLIGHT, Pair, check_each, check_each_with_stoppable_device, pool};
use crate::drive;
use crate::fixtures::{StoppableDevice, Stopped, wait_until};

const BLOCK_BYTES: usize = 4096;
const READS: u64 = 8;
/// Far longer than any read takes; a wait that lasts as long fails the check as one that hangs.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(30);

fn reads(pool: &Pool, count: u64) -> Result<Vec<Request>> {
    let read = |tag| Ok(Request::read(tag, tag * BLOCK_BYTES as u64, pool.take().context("a frame each")?));
    (0..count).map(read).collect()
}

#[test]
fn a_wait_with_a_timeout_returns_the_completions_there_are() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = pool(READS as usize, BLOCK_BYTES)?;
        let mut queue = pair.queue(pair.depth(READS as u32), &pool)?;
        ensure!(queue.reap_within(1, LONG, &mut Vec::new())? == 0, "something came out of nothing");
        let mut waiting = reads(&pool, READS)?;
        let mut ended = Vec::new();
        while ended.len() < READS as usize {
            queue.submit(&mut waiting);
            let before = ended.len();
            let count = queue.reap_within(READS as usize, LONG, &mut ended)?;
            ensure!(ended.len() - before == count, "{count} completions were announced, and there are {ended:?}");
        }
        ensure!(ended.iter().all(|completion| completion.result == Ok(BLOCK_BYTES as u32)), "{ended:?}");
        let tags: HashSet<u64> = ended.iter().map(|completion| completion.tag).collect();
        ensure!(tags == (0..READS).collect() && queue.in_flight() == 0, "{ended:?}");
        ensure!(queue.reap_within(1, LONG, &mut Vec::new())? == 0, "something came out of nothing at the end");
        Ok(())
    });
}

#[test]
fn a_wait_with_a_timeout_ends_while_the_device_is_stopped() {
    check_each_with_stoppable_device(NOTHING_IN_FLIGHT, |pair, device| {
        let stopped = device.stop()?;
        wait_while_stopped(pair, device, &stopped)
    });
}

fn wait_while_stopped(pair: &Pair<'_>, device: &StoppableDevice, stopped: &Stopped<'_>) -> Result<()> {
    let pool = pool(1, BLOCK_BYTES)?;
    let mut queue = pair.queue(1, &pool)?;
    let reads_before = device.device.in_flight().0;
    let mut ended = Vec::new();
    queue.submit(&mut reads(&pool, 1)?);
    // The first wait hands the read over.
    ensure!(queue.reap_within(1, SHORT, &mut ended)? == 0, "a stopped device has answered: {ended:?}");
    wait_until("the read reaches the device", || device.device.in_flight().0 > reads_before)?;
    let begun = Instant::now();
    ensure!(queue.reap_within(1, SHORT, &mut ended)? == 0, "a stopped device has answered: {ended:?}");
    let polls = iolane::polls_completions(&pair.path) || pair.path.polls_submissions();
    ensure!(polls || begun.elapsed() >= SHORT, "it returned after {:?}, without a completion", begun.elapsed());
    stopped.release();
    let mut awaited = HashSet::from([0]);
    while !awaited.is_empty() {
        drive::reap(&mut *queue, 1, &mut ended, &mut awaited)?;
    }
    ensure!(ended[0].result == Ok(BLOCK_BYTES as u32), "{ended:?}");
    stopped.settle()
}
