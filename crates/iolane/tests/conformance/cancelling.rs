//! A cancelled request completes once, with its buffer: as cancelled, or as if nothing had been asked. Others are left alone, and the queue
//! goes on.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use iolane::Request;
use rand_core::Rng;

use crate::bench::{Bench, Pair, check_each, pool, times};
use crate::drive::{self, is_cancelled};

const BLOCK: usize = 4096;
const DEPTH: u32 = 32;

#[test]
fn cancelled_requests_complete_once_and_others_as_ever() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let mut random = drive::random(41);
        for _ in 0..times(20, 4) {
            let pool = pool(DEPTH as usize, BLOCK)?;
            let mut queue = pair.queue(pair.depth(DEPTH), &pool)?;
            let depth = queue.depth() as u64;
            // Each tag twice, as far as there is room: a tag is the caller's, and need not be the only one.
            let tags: Vec<u64> = (0..depth).map(|number| number / 2).collect();
            let mut requests = tags
                .iter()
                .map(|tag| Ok(Request::read(*tag, tag * BLOCK as u64, pool.take().context("a frame each")?)))
                .collect::<Result<_>>()?;
            ensure!(queue.submit(&mut requests) == depth as usize, "{} were left", requests.len());
            if random.next_u64().is_multiple_of(2) {
                queue.flush()?;
            }
            let asked: HashSet<u64> = tags.iter().copied().filter(|_| random.next_u64().is_multiple_of(3)).collect();
            let mut ended_early = 0;
            for tag in &asked {
                ended_early += queue.cancel(*tag)?;
            }
            ensure!(queue.cancel(u64::MAX)? == 0, "a tag that no request has was cancelled");
            let mut ended = Vec::new();
            queue.drain(&mut ended)?;
            let mut found: Vec<u64> = ended.iter().map(|completion| completion.tag).collect();
            found.sort_unstable();
            ensure!(found == tags, "{found:?} completed of {tags:?}");
            let cancelled = ended.iter().filter(|completion| is_cancelled(completion)).count();
            // The simulated device ends whatever it is asked to.
            ensure!(
                pair.target.kind() != iolane::sim::KIND || cancelled == ended_early,
                "{cancelled} of {ended_early}"
            );
            ensure!(cancelled <= ended_early, "{cancelled} were cancelled, {ended_early} were said to end early");
            for completion in &ended {
                ensure!(completion.buffer.is_some(), "tag {}: no buffer", completion.tag);
                let may_be_cancelled = asked.contains(&completion.tag) && is_cancelled(completion);
                ensure!(may_be_cancelled || completion.result == Ok(BLOCK as u32), "{completion:?}");
            }
            drop(ended);
            let buffer = pool.take().context("a frame that came back")?;
            ensure!(
                drive::one(&mut *queue, Request::read(7, 0, buffer))?.result == Ok(BLOCK as u32),
                "the queue is broken"
            );
        }
        Ok(())
    });
}

/// Paths on which a request stays with the queue until it is flushed.
#[test]
fn what_was_not_handed_over_ends_at_once() {
    let bench = Bench::everywhere();
    let keeps = |pair: &Pair<'_>| ["psync", "libaio", "posix_aio"].contains(&pair.path.interface());
    let pairs: Vec<Pair<'_>> = bench.pairs().into_iter().filter(keeps).collect();
    check_each(&pairs, |pair| {
        let pool = pool(1, BLOCK)?;
        let mut queue = pair.queue(1, &pool)?;
        queue.submit(&mut [Request::read(1, 0, pool.take().context("a frame")?)].into());
        ensure!(queue.cancel(1)? == 1, "it was not cancelled");
        let mut ended = Vec::new();
        ensure!(queue.in_flight() == 1 && queue.reap(1, &mut ended)? == 1, "it did not complete: {ended:?}");
        ensure!(is_cancelled(&ended[0]) && ended[0].buffer.is_some(), "{ended:?}");
        Ok(())
    });
}
