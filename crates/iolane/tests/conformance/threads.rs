//! Queues on several threads share a target and nothing else.

use anyhow::{Context, Result, ensure};
use iolane::{Pool, Request};

use crate::bench::{Bench, Pair, check_each, pool};
use crate::content::{self, ensure_same};
use crate::drive;

const THREADS: u64 = 4;
const ROUNDS: u64 = 2;
const PIECES: u64 = 16;
const PIECE_BYTES: usize = 16 << 10;

#[test]
fn queues_on_several_threads_share_one_target() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = &pool((THREADS * PIECES) as usize, PIECE_BYTES)?;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || own_area(pair, pool, thread))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
        })
    });
}

/// Writes and reads back an area that no other thread uses; data of other threads would differ.
fn own_area(pair: &Pair<'_>, pool: &Pool, thread: u64) -> Result<()> {
    for round in 0..ROUNDS {
        let mut queue = pair.queue(pair.depth(8), pool)?;
        let offset_of = |tag: u64| (thread * PIECES + tag) * PIECE_BYTES as u64;
        let mut writes = Vec::new();
        for tag in 0..PIECES {
            let mut buffer = pool.take().context("a frame each")?;
            content::fill(&mut buffer, offset_of(tag), 20 + round);
            writes.push(Request::write(tag, offset_of(tag), buffer));
        }
        let mut reads = Vec::new();
        for completion in drive::run(&mut *queue, writes)? {
            ensure!(completion.result == Ok(PIECE_BYTES as u32), "write {}: {:?}", completion.tag, completion.result);
            reads.push(Request::read(
                completion.tag,
                offset_of(completion.tag),
                completion.buffer.context("a buffer")?,
            ));
        }
        for completion in drive::run(&mut *queue, reads)? {
            ensure!(completion.result == Ok(PIECE_BYTES as u32), "read {}: {:?}", completion.tag, completion.result);
            if pair.moves_data() {
                let expected = content::content(PIECE_BYTES, offset_of(completion.tag), 20 + round);
                let what = format!("thread {thread}, round {round}, tag {}", completion.tag);
                ensure_same(&what, &expected, &completion.buffer.context("a buffer")?)?;
            }
        }
    }
    Ok(())
}
