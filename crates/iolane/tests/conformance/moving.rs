//! Queues that move between threads with requests in flight. All paths of the library to the kernel have them, except those whose
//! options tie a ring to one thread.

use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};
use iolane::{Completion, ErrorKind, IoErrorKind, Pool, Queue, QueueConfig, Request};

use crate::bench::{Bench, Pair, check_each, pool, times};
use crate::content::{self, ensure_same};

type MovableQueue = Box<dyn Queue + Send>;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 8;

/// `None` if the path has none, and says so.
fn movable(pair: &Pair<'_>, pool: &Pool) -> Result<Option<MovableQueue>> {
    let stays = pair.path.options.defer || pair.path.options.coop;
    let interface = iolane::interface_of(&pair.path)?;
    let is_other = iolane::OTHER_INTERFACES.iter().any(|other| other.name() == interface.name());
    let config = QueueConfig::new(pair.depth(BLOCKS as u32)).pool(pool);
    match iolane::open_movable_queue(&pair.path, &pair.target, &config) {
        Ok(queue) => Ok(Some(queue)),
        Err(error) => {
            let expected = stays || is_other || !pair.target.kind().has_descriptor();
            ensure!(expected || error.kind() == ErrorKind::Exhausted, "{error}");
            ensure!(stays || !error.remedy_text().is_empty(), "{error}");
            Ok(None)
        }
    }
}

/// Reads of as many blocks as the queue takes, from block 0 on; they are with the kernel when it returns.
fn submit_reads(queue: &mut dyn Queue, pool: &Pool) -> Result<usize> {
    let reads = (0..BLOCKS).filter_map(|block| Some(Request::read(block, block * BLOCK as u64, pool.take()?)));
    let taken = queue.submit(&mut reads.collect());
    ensure!(taken > 0, "an empty queue took nothing");
    queue.flush()?;
    Ok(taken)
}

fn check_reads(pair: &Pair<'_>, completions: Vec<Completion>, count: usize) -> Result<()> {
    ensure!(completions.len() == count, "{} of {count} reads completed", completions.len());
    for completion in completions {
        let buffer = completion.buffer.context("a completion without its buffer")?;
        ensure!(completion.result == Ok(BLOCK as u32), "read {}: {:?}", completion.tag, completion.result);
        if pair.moves_data() {
            let expected = content::content(BLOCK, completion.tag * BLOCK as u64, 61);
            ensure_same(&format!("read {}", completion.tag), &expected, &buffer)?;
        }
    }
    Ok(())
}

fn drained(queue: &mut dyn Queue) -> Result<Vec<Completion>> {
    let mut completions = Vec::new();
    queue.drain(&mut completions)?;
    Ok(completions)
}

fn fill(pair: &Pair<'_>) -> Result<()> {
    if pair.moves_data() {
        (0..BLOCKS)
            .map(|block| block * BLOCK as u64)
            .try_for_each(|at| pair.put(at, &content::content(BLOCK, at, 61)))?;
    }
    Ok(())
}

#[test]
fn a_queue_moves_to_another_thread_and_back_with_reads_in_flight() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = &pool(BLOCKS as usize, BLOCK)?;
        let Some(mut queue) = movable(pair, pool)? else { return Ok(()) };
        fill(pair)?;
        thread::scope(|scope| {
            let (to_other, at_other) = mpsc::channel::<(MovableQueue, usize)>();
            let (to_first, at_first) = mpsc::channel();
            // Both threads live until the last read has completed.
            let other = scope.spawn(move || -> Result<()> {
                for (mut queue, count) in at_other {
                    check_reads(pair, drained(&mut *queue)?, count)?;
                    let count = submit_reads(&mut *queue, pool)?;
                    to_first.send((queue, count)).ok().context("the first thread is gone")?;
                }
                Ok(())
            });
            for _ in 0..times(20, 3) {
                let count = submit_reads(&mut *queue, pool)?;
                to_other.send((queue, count)).ok().context("the other thread is gone")?;
                let Ok((back, count)) = at_first.recv() else { break };
                queue = back;
                check_reads(pair, drained(&mut *queue)?, count)?;
            }
            drop(to_other);
            other.join().map_err(|_| anyhow::anyhow!("the other thread panicked"))?
        })
    });
}

#[test]
fn a_queue_outlives_the_thread_that_opened_it_and_answers_what_was_submitted_there() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = &pool(BLOCKS as usize, BLOCK)?;
        fill(pair)?;
        let opened = thread::scope(|scope| {
            let opening = scope.spawn(|| -> Result<Option<(MovableQueue, usize)>> {
                let Some(mut queue) = movable(pair, pool)? else { return Ok(None) };
                let count = submit_reads(&mut *queue, pool)?;
                Ok(Some((queue, count)))
            });
            opening.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?
        })?;
        let Some((mut queue, count)) = opened else { return Ok(()) };
        let (cancelled, others): (Vec<_>, Vec<_>) = drained(&mut *queue)?
            .into_iter()
            .partition(|completion| completion.result.is_err_and(|error| error.kind() == IoErrorKind::Cancelled));
        ensure!(cancelled.iter().all(|completion| completion.buffer.is_some()), "a completion without its buffer");
        check_reads(pair, others, count - cancelled.len())?;
        drop(cancelled);
        // It works here as it did there.
        let count = submit_reads(&mut *queue, pool)?;
        check_reads(pair, drained(&mut *queue)?, count)
    });
}

#[test]
fn a_queue_dropped_by_another_thread_gives_its_buffers_back() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = &pool(BLOCKS as usize, BLOCK)?;
        let Some(mut queue) = movable(pair, pool)? else { return Ok(()) };
        submit_reads(&mut *queue, pool)?;
        thread::scope(|scope| scope.spawn(move || drop(queue)).join())
            .map_err(|_| anyhow::anyhow!("the thread panicked"))?;
        let back: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        ensure!(back.len() == BLOCKS as usize, "{} of {BLOCKS} buffers came back", back.len());
        Ok(())
    });
}
