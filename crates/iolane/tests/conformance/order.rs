//! Completions may come in any order: what belongs together is told by the tag.

use anyhow::{Context, Result, ensure};
use iolane::{Buffer, Completion, Request, TargetKind};

use crate::bench::{Bench, Pair, check_each, pool};
use crate::content::{self, ensure_same};
use crate::drive;

const SMALL_BYTES: usize = 4096;
const SMALL: usize = 63;

#[test]
fn small_requests_may_overtake_a_big_one_and_each_gets_its_own_data() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        for round in 0..4 {
            let big_bytes = big_bytes(pair);
            let whole = content::content(big_bytes + SMALL * SMALL_BYTES, 0, 100 + round);
            pair.put(0, &whole)?;
            let ended = big_and_small(pair, big_bytes)?;
            for completion in &ended {
                right_data(pair, completion, big_bytes, &whole)?;
            }
            let in_order = ended.iter().map(|completion| completion.tag).is_sorted();
            ensure!(!(in_order && pair.target.kind() == TargetKind::Sim), "jitter reordered nothing");
        }
        Ok(())
    });
}

/// A passthrough command is not split, and drives take no more than this in one.
fn big_bytes(pair: &Pair<'_>) -> usize {
    if pair.target.kind() == TargetKind::NvmeGeneric { 128 << 10 } else { 2 << 20 }
}

/// Tag 0 is the big read, the others are small ones of what lies behind it.
fn big_and_small(pair: &Pair<'_>, big_bytes: usize) -> Result<Vec<Completion>> {
    let big_frames = big_bytes / SMALL_BYTES;
    let pool = pool(big_frames + SMALL, SMALL_BYTES)?;
    let mut queue = pair.queue(pair.depth(1 + SMALL as u32), &pool)?;
    let big: Buffer = pool.take_frames(0, big_frames).context("a new pool has all its frames")?;
    let mut requests = vec![Request::read(0, 0, big)];
    for number in 0..SMALL {
        let offset = (big_bytes + number * SMALL_BYTES) as u64;
        requests.push(Request::read(1 + number as u64, offset, pool.take().context("a frame each")?));
    }
    drive::run(&mut *queue, requests)
}

fn right_data(pair: &Pair<'_>, completion: &Completion, big_bytes: usize, whole: &[u8]) -> Result<()> {
    let range = match completion.tag as usize {
        0 => 0..big_bytes,
        tag => big_bytes + (tag - 1) * SMALL_BYTES..big_bytes + tag * SMALL_BYTES,
    };
    let what = format!("tag {}", completion.tag);
    ensure!(completion.result == Ok(range.len() as u32), "{what}: {:?}", completion.result);
    let buffer = completion.buffer.as_ref().with_context(|| format!("{what}: no buffer"))?;
    if pair.moves_data() { ensure_same(&what, &whole[range], buffer) } else { Ok(()) }
}
