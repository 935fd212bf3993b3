//! A request that is late is named once, and completes once all the same; one that has time completes as ever.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use iolane::{Deadlines, Pool, Request};

use crate::bench::{Bench, NOTHING_IN_FLIGHT, Pair, check_each, check_each_with_stoppable_device, pool, times};
use crate::drive::is_cancelled;
use crate::fixtures::Stopped;

const BLOCK: usize = 4096;
const DEPTH: u32 = 16;
/// Far longer than any read takes.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(30);

fn read(pool: &Pool, tag: u64) -> Result<Request> {
    Ok(Request::read(tag, tag * BLOCK as u64, pool.take().context("a frame each")?))
}

/// The deadlines of even tags have passed when they are submitted, those of others are far away.
#[test]
fn late_requests_are_named_and_cancelled_and_others_complete_as_ever() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        for _ in 0..times(20, 4) {
            let pool = pool(DEPTH as usize, BLOCK)?;
            let mut queue = pair.queue(pair.depth(DEPTH), &pool)?;
            let depth = queue.depth();
            let mut deadlines = Deadlines::new();
            let now = Instant::now();
            for tag in 0..depth as u64 {
                deadlines.set(tag, if tag.is_multiple_of(2) { now } else { now + LONG });
            }
            let mut requests = (0..depth as u64).map(|tag| read(&pool, tag)).collect::<Result<_>>()?;
            ensure!(queue.submit(&mut requests) == depth, "{} were left", requests.len());
            let (mut ended, mut late) = (Vec::new(), HashSet::new());
            while queue.in_flight() > 0 {
                for tag in deadlines.reap_or_cancel(&mut *queue, 1, &mut ended)? {
                    ensure!(ended.iter().all(|completion| completion.tag != tag), "{tag} had completed");
                    ensure!(tag.is_multiple_of(2) && late.insert(tag), "tag {tag} is late twice, or had an hour");
                }
            }
            let tags: HashSet<u64> = ended.iter().map(|completion| completion.tag).collect();
            ensure!(tags == (0..depth as u64).collect() && ended.len() == depth, "{ended:?}");
            for completion in &ended {
                ensure!(completion.buffer.is_some(), "tag {}: no buffer", completion.tag);
                let may_be_cancelled = late.contains(&completion.tag) && is_cancelled(completion);
                ensure!(may_be_cancelled || completion.result == Ok(BLOCK as u32), "{completion:?}");
            }
            ensure!(deadlines.first().is_none(), "a deadline is left of requests that have completed");
        }
        Ok(())
    });
}

#[test]
fn a_request_is_late_while_its_device_is_stopped() {
    check_each_with_stoppable_device(NOTHING_IN_FLIGHT, |pair, device| {
        let stopped = device.stop()?;
        late_while_stopped(pair, &stopped)
    });
}

fn late_while_stopped(pair: &Pair<'_>, stopped: &Stopped<'_>) -> Result<()> {
    let pool = pool(1, BLOCK)?;
    let mut queue = pair.queue(1, &pool)?;
    let (mut deadlines, mut ended) = (Deadlines::new(), Vec::new());
    let deadline = Instant::now() + SHORT;
    deadlines.set(0, deadline);
    queue.submit(&mut [read(&pool, 0)?].into());
    let late = deadlines.reap(&mut *queue, 1, &mut ended)?;
    ensure!(late == [0] && ended.is_empty() && queue.in_flight() == 1, "late: {late:?}, ended: {ended:?}");
    ensure!(Instant::now() >= deadline, "it was late before its deadline");
    stopped.release();
    ensure!(deadlines.reap(&mut *queue, 1, &mut ended)?.is_empty(), "it is late once");
    ensure!(ended.len() == 1 && ended[0].result == Ok(BLOCK as u32), "{ended:?}");
    stopped.settle()
}
