//! Completions may come in any order and are matched by their tags. Requests may have any size: the kernel splits those larger than
//! one command of the device, or the path refuses them.

use anyhow::{Context, Result, ensure};
use iolane::{Buffer, Completion, IoErrorKind, Request};

use crate::bench::{Bench, Pair, check_each, pool, times};
use crate::content::{self, ensure_same};
use crate::drive;

const SMALL_BYTES: usize = 4096;
const SMALL: usize = 63;

#[test]
fn small_requests_may_overtake_a_big_one_and_each_gets_its_own_data() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        for round in 0..times(4, 2) as u64 {
            let big_bytes = pair.request_bytes(2 << 20);
            let whole = content::content(big_bytes + SMALL * SMALL_BYTES, 0, 100 + round);
            pair.put(0, &whole)?;
            let ended = big_and_small(pair, big_bytes)?;
            for completion in &ended {
                right_data(pair, completion, big_bytes, &whole)?;
            }
            let in_order = ended.iter().map(|completion| completion.tag).is_sorted();
            ensure!(!(in_order && pair.target.kind() == iolane::sim::KIND), "jitter reordered nothing");
        }
        Ok(())
    });
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

#[test]
fn requests_larger_than_a_command_of_the_device_end_or_are_refused() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        // Around the limits of one command: 127 pages and 512 KiB on drives that QEMU emulates, 127 KiB on null_blk, 1 MiB.
        let all = [128, 508, 512, 2048, 64, 124, 132, 252, 504, 516, 1020, 1024, 1028];
        for kib in all.into_iter().take(times(all.len(), 4)) {
            large(pair, kib << 10).with_context(|| format!("requests of {kib} KiB"))?;
        }
        Ok(())
    });
}

/// Three writes and as many reads, in flight together.
fn large(pair: &Pair<'_>, bytes: usize) -> Result<()> {
    const COUNT: usize = 3;
    let pool = pool(COUNT, bytes)?;
    let mut queue = pair.queue(pair.depth(COUNT as u32), &pool)?;
    let most = pair.capabilities.request_bytes_max;
    let right = |completion: &Completion| match completion.result {
        Ok(moved) => moved as usize == bytes,
        Err(error) => error.kind() == IoErrorKind::Invalid && most.is_some_and(|most| bytes as u64 > most),
    };
    let mut written = Vec::new();
    for tag in 0..COUNT {
        let (mut buffer, offset) = (pool.take().context("a frame each")?, (tag * bytes) as u64);
        buffer.set_len(bytes)?;
        content::fill(&mut buffer, offset, bytes as u64);
        written.push(Request::write(tag as u64, offset, buffer));
    }
    let mut reads = Vec::new();
    for completion in drive::run(&mut *queue, written)? {
        ensure!(right(&completion), "write {}: {:?}", completion.tag, completion.result);
        let mut buffer = completion.buffer.context("a buffer each")?;
        buffer.fill(0);
        // Where larger requests are refused, how memory happens to be scattered may decide on each.
        if completion.result.is_ok() {
            reads.push(Request::read(completion.tag, completion.tag * bytes as u64, buffer));
        }
    }
    for completion in drive::run(&mut *queue, reads)? {
        let what = format!("read {}", completion.tag);
        ensure!(right(&completion), "{what}: {:?}", completion.result);
        if completion.result.is_ok() && pair.moves_data() {
            let expected = content::content(bytes, completion.tag * bytes as u64, bytes as u64);
            ensure_same(&what, &expected, &completion.buffer.context("a buffer each")?)?;
        }
    }
    Ok(())
}
