//! Chains and barriers over every path: what is behind the end of a request of its chain begins after it, and not at all after a failure.

use anyhow::{Context, Result, ensure};
use iolane::{Chains, Completion, Operations, Pool, Queue, Request};

use crate::bench::{Bench, Pair, check_each, pool, times};
use crate::content::{self, ensure_same};
use crate::drive;

const BLOCK: usize = 4096;
const DEPTH: u32 = 8;

fn write(pool: &Pool, tag: u64, offset: u64, generation: u64) -> Result<Request> {
    let mut buffer = pool.take().context("a frame each")?;
    content::fill(&mut buffer, offset, generation);
    Ok(Request::write(tag, offset, buffer))
}

fn read(pool: &Pool, tag: u64, offset: u64) -> Result<Request> {
    Ok(Request::read(tag, offset, pool.take().context("a frame each")?))
}

fn sync(pair: &Pair<'_>, tag: u64) -> Option<Request> {
    pair.capabilities.operations.contains(Operations::FDATASYNC).then(|| Request::fdatasync(tag))
}

/// Checks that a read moved a block of this generation.
fn holds(pair: &Pair<'_>, completion: &Completion, offset: u64, generation: u64) -> Result<()> {
    let what = format!("tag {}", completion.tag);
    ensure!(completion.result == Ok(BLOCK as u32), "{what}: {:?}", completion.result);
    let buffer = completion.buffer.as_ref().with_context(|| format!("{what}: no buffer"))?;
    if pair.moves_data() {
        ensure_same(&what, &content::content(BLOCK, offset, generation), buffer)?;
    }
    Ok(())
}

/// Each chain writes its block twice and reads it; without the order, a write is read that is not the last.
#[test]
fn a_chain_is_carried_out_in_its_order() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let depth = pair.depth(DEPTH);
        let pool = pool(3 * depth as usize, BLOCK)?;
        let mut queue = Chains::new(pair.queue(depth, &pool)?)?;
        for round in 0..times(8, 2) as u64 {
            let mut requests = 0;
            for block in 0..u64::from(depth) {
                let (tag, offset) = (block * 4, block * BLOCK as u64);
                let mut chain = vec![write(&pool, tag, offset, 2 * round)?];
                chain.push(write(&pool, tag + 1, offset, 2 * round + 1)?);
                chain.extend(sync(pair, tag + 2));
                chain.push(read(&pool, tag + 3, offset)?);
                requests += chain.len();
                ensure!(queue.submit_chain(&mut chain) && chain.is_empty(), "there is room for chain {block}");
            }
            ensure!(queue.room() == 0 && queue.in_flight() == requests, "{} in flight", queue.in_flight());
            let mut ended = Vec::new();
            queue.drain(&mut ended)?;
            ensure!(ended.len() == requests, "{} of {requests} completed", ended.len());
            for completion in &ended {
                ensure!(completion.result.is_ok(), "{completion:?}");
                if completion.tag % 4 == 3 {
                    holds(pair, completion, completion.tag / 4 * BLOCK as u64, 2 * round + 1)?;
                }
            }
        }
        Ok(())
    });
}

#[test]
fn what_is_behind_a_short_read_is_not_carried_out() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs_that_move_data(), |pair| {
        let pool = pool(2, BLOCK)?;
        let before = content::content(BLOCK, 0, 31);
        pair.put(0, &before)?;
        let mut queue = Chains::new(pair.queue(1, &pool)?)?;
        let past_the_end = pair.target.bytes().next_multiple_of(BLOCK as u64);
        let mut chain = vec![read(&pool, 1, past_the_end)?, write(&pool, 2, 0, 32)?];
        ensure!(queue.submit_chain(&mut chain), "there is room for it");
        let mut ended = Vec::new();
        queue.drain(&mut ended)?;
        ensure!(ended.len() == 2 && ended[0].tag == 1 && ended[0].result != Ok(BLOCK as u32), "{ended:?}");
        ensure!(drive::is_cancelled(&ended[1]) && ended[1].buffer.is_some(), "{:?}", ended[1]);
        ensure_same("the block of the write that was cancelled", &before, &pair.get(0, BLOCK)?)?;
        drop(ended);
        let after = drive::one(&mut queue, read(&pool, 3, 0)?)?;
        holds(pair, &after, 0, 31)
    });
}

/// The reads behind the barrier find what the writes before it wrote.
#[test]
fn a_barrier_waits_for_all_before_it_and_holds_back_all_behind_it() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let depth = pair.depth(DEPTH);
        if depth < 3 {
            return Ok(());
        }
        let each = u64::from(depth - 1) / 2;
        let pool = pool(2 * each as usize + 1, BLOCK)?;
        let mut queue = Chains::new(pair.queue(depth, &pool)?)?;
        for generation in 40..40 + times(8, 2) as u64 {
            let writes = (0..each).map(|block| write(&pool, block, block * BLOCK as u64, generation));
            let mut writes = writes.collect::<Result<Vec<Request>>>()?;
            ensure!(queue.submit(&mut writes) == each as usize, "there is room for the writes");
            let barrier = sync(pair, 100).map_or_else(|| read(&pool, 100, 0), Ok)?;
            ensure!(queue.submit_barrier(barrier).is_ok(), "there is room for the barrier");
            let reads = (0..each).map(|block| read(&pool, 200 + block, block * BLOCK as u64));
            ensure!(queue.submit(&mut reads.collect::<Result<_>>()?) == each as usize, "there is room for the reads");
            let mut ended = Vec::new();
            queue.drain(&mut ended)?;
            ensure!(ended.len() as u64 == 2 * each + 1, "{} completed", ended.len());
            for completion in ended.iter().filter(|completion| completion.tag >= 200) {
                holds(pair, completion, (completion.tag - 200) * BLOCK as u64, generation)?;
            }
        }
        Ok(())
    });
}
