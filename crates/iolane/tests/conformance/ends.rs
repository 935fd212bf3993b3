//! At the end of a target, and past it: reads are short, writes extend a file and stop at the end of a device. Every path completes
//! odd requests as `psync` does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use iolane::{Buffer, IoError, IoPath, Pool, Queue, QueueConfig, Request, Target, TargetKind};

use crate::bench::{Bench, Pair, check_each, pool};
use crate::content::{self, ensure_same};
use crate::drive;
use crate::places::Place;
use crate::report::Skip;

/// The bytes moved or errno, and the size of the file afterwards.
type End = (Result<u32, i32>, Option<u64>);

/// Where in a page the buffers of odd requests begin.
const MISPLACED_BY: [usize; 4] = [0, 1, 4, 512];

#[test]
fn a_read_across_the_end_is_short_and_one_past_it_brings_nothing() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs_that_move_data(), |pair| {
        if !pair.place.is_file() {
            return reads_at_the_end(pair, pair.place, &pair.target);
        }
        for bytes in [10_000, 12_288, 1 << 20] {
            let Some(place) = pair.place.another_file(bytes)? else { continue };
            let target = place.open_to_read()?;
            reads_at_the_end(pair, &place, &target).with_context(|| format!("a file of {bytes} bytes"))?;
        }
        Ok(())
    });
}

fn reads_at_the_end(pair: &Pair<'_>, place: &Place, target: &Target) -> Result<()> {
    let size = target.bytes();
    let block = u64::from(target.block_bytes()).max(512);
    let last_block = (size - 1) / block * block;
    let tail_start = last_block.saturating_sub(8192);
    let tail = content::content((size - tail_start) as usize, tail_start, 7);
    drive::put(place, target, tail_start, &tail)?;

    let pool = pool(4, 64 << 10)?;
    let mut queue = pair.queue_on(target, &QueueConfig::new(1).pool(&pool))?;
    let cases = [
        (last_block, block),
        (last_block, 4 * block),
        (tail_start, 64 << 10),
        (size.next_multiple_of(block), block),
        (size.next_multiple_of(block) + (1 << 20), 4 * block),
    ];
    for (offset, bytes) in cases {
        let mut buffer = pool.take().context("a frame")?;
        buffer.set_len(bytes as usize)?;
        let completion = drive::one(&mut *queue, Request::read(1, offset, buffer))?;
        let there = size.saturating_sub(offset).min(bytes);
        let what = format!("{bytes} bytes at {offset} of {size}");
        if (target.kind() == TargetKind::NvmeGeneric || target.kind() == iolane::nvme::CONTROLLER) && there < bytes {
            // The drive refuses a command that reaches past its last block (LBA Out of Range).
            ensure!(completion.result == Err(IoError::INVALID), "{what}: {:?}", completion.result);
            continue;
        }
        ensure!(completion.result == Ok(there as u32), "{what}: {there} bytes are there, {:?}", completion.result);
        let buffer = completion.buffer.context("a read without its buffer")?;
        let start = offset.saturating_sub(tail_start).min(tail.len() as u64) as usize;
        ensure_same(&what, &tail[start..start + there as usize], &buffer[..there as usize])?;
    }
    Ok(())
}

/// A request as the test of odd ones makes it.
#[derive(Debug, Clone, Copy)]
struct Odd {
    write: bool,
    offset: u64,
    bytes: usize,
    /// Where in its frame the buffer begins.
    misplaced_by: usize,
}

/// Requests that are invalid on some targets or on all, for a target of this size.
fn odd_requests(size: u64) -> Vec<Odd> {
    let offsets_and_bytes = [
        (size - 4096, 8192),
        (size - 4096, 4096),
        (size, 4096),
        (size + (64 << 10), 4096),
        (size, 0),
        (0, 0),
        (1, 4096),
        (511, 512),
        (0, 100),
        (512, 512),
        (1 << 62, 4096),
        (i64::MAX as u64 - 4095, 4096),
        (i64::MAX as u64, 4096),
        (1 << 63, 4096),
        (u64::MAX - 4095, 4096),
        (u64::MAX, 4096),
    ];
    let mut requests = Vec::new();
    for write in [false, true] {
        requests.extend(offsets_and_bytes.map(|(offset, bytes)| Odd { write, offset, bytes, misplaced_by: 0 }));
        requests.extend(MISPLACED_BY.map(|misplaced_by| Odd { write, offset: 4096, bytes: 4096, misplaced_by }));
    }
    requests
}

#[test]
fn odd_requests_end_on_every_path_as_psync_ends_them() {
    let bench = Bench::everywhere();
    let mut expected = HashMap::new();
    check_each(&bench.pairs_that_move_data(), |pair| {
        let requests = odd_requests(pair.target.bytes());
        let expected = match expected.entry(&pair.place.label) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(ends_by_psync(pair, &requests)?),
        };
        let ends = ends_of(pair, &pair.path, &requests)?;
        let mut differing = Vec::new();
        for (odd, (end, expected)) in requests.iter().zip(ends.iter().zip(expected)) {
            if end != expected && !registered_in_pieces(pair, odd, end, expected) {
                differing.push(format!("{odd:?} gave {end:?}, and by psync {expected:?}"));
            }
        }
        ensure!(differing.is_empty(), "{}", differing.join("; "));
        Ok(())
    });
}

/// Whether the kernel may refuse a request for being one to registered memory. It sees such memory page by page, and
/// wants whole blocks from each (block/fops.c, blkdev_dio_unaligned; lib/iov_iter.c, iov_iter_aligned_bvec), where other
/// memory need only be aligned as the device's DMA needs it.
fn registered_in_pieces(pair: &Pair<'_>, odd: &Odd, end: &End, expected: &End) -> bool {
    let begins_in_a_block = !odd.misplaced_by.is_multiple_of(pair.block_bytes());
    let (refused, carried) = (end.0 == Err(libc::EINVAL), expected.0.is_ok());
    pair.path.options.fixed_buffers && begins_in_a_block && refused && carried
}

fn ends_by_psync(pair: &Pair<'_>, requests: &[Odd]) -> Result<Vec<End>> {
    match pair.target.kind() {
        kind if kind.is_simulated() => Ok(requests.iter().map(|odd| (as_a_block_device(pair, *odd), None)).collect()),
        TargetKind::Own(_) => Ok(requests.iter().map(|odd| (as_a_namespace(pair, *odd), None)).collect()),
        TargetKind::NvmeGeneric => {
            Err(Skip::new("psync does not work on a passthrough device", "name its block device too").into())
        }
        _ => ends_of(pair, &IoPath::new("psync"), requests),
    }
}

/// What a path makes of the requests, one after the other; a file has its size again before each.
fn ends_of(pair: &Pair<'_>, path: &IoPath, requests: &[Odd]) -> Result<Vec<End>> {
    let bytes = pair.target.bytes();
    let own = pair.place.another_file(bytes)?;
    let target = own.as_ref().map_or_else(|| Ok(pair.target.clone()), Place::open)?;
    let pools: Vec<Pool> = MISPLACED_BY.into_iter().map(misplaced).collect::<Result<_>>()?;
    let config = pools.iter().fold(QueueConfig::new(1), QueueConfig::pool);
    let mut queue = iolane::open_queue(path, &target, &config)?;
    let plain = match &own {
        Some(place) => place.plain()?,
        None => None,
    };
    let mut ends = Vec::new();
    for odd in requests {
        if let Some(file) = &plain {
            file.set_len(bytes)?;
        }
        let outcome = end_on(&mut *queue, &pools, *odd)?;
        let size = plain.as_ref().map(|file| file.metadata()).transpose()?.map(|metadata| metadata.len());
        if let (Ok(written @ 1..), true, Some(file)) = (outcome, odd.write, &plain) {
            let mut found = vec![0; written as usize];
            file.read_exact_at(&mut found, odd.offset)?;
            let expected = content::content(odd.bytes, odd.offset, 9);
            ensure_same(&format!("written by {odd:?}"), &expected[..written as usize], &found)?;
        }
        ends.push((outcome.map_err(IoError::errno), size));
    }
    Ok(ends)
}

fn end_on(queue: &mut dyn Queue, pools: &[Pool], odd: Odd) -> Result<Result<u32, IoError>> {
    let pool = MISPLACED_BY.iter().position(|by| *by == odd.misplaced_by).context("one of those known")?;
    let mut buffer: Buffer = pools[pool].take().context("a frame")?;
    buffer.set_len(odd.bytes)?;
    if !odd.write {
        return Ok(drive::one(queue, Request::read(1, odd.offset, buffer))?.result);
    }
    content::fill(&mut buffer, odd.offset, 9);
    Ok(drive::one(queue, Request::write(1, odd.offset, buffer))?.result)
}

/// Frames that begin `by` bytes after the start of a page.
fn misplaced(by: usize) -> Result<Pool> {
    let pool = pool(4, 16 << 10)?;
    if by == 0 {
        return Ok(pool);
    }
    let (frames, frame_bytes, base) = (pool.frames(), pool.frame_bytes(), pool.span().0);
    // SAFETY: within the pool's memory, for `by` is less than a frame.
    let base = unsafe { base.add(by) };
    // SAFETY: one frame less than the pool's fits behind the new start. The pool is moved in and no buffer is ever taken
    // from it, so that nothing else uses its memory, which it keeps mapped and initialised.
    Ok(unsafe { Pool::from_region(base, frames - 1, frame_bytes, pool) }?)
}

/// What a command gives on a namespace: all of it or nothing, from buffers that begin at a multiple of four bytes.
fn as_a_namespace(pair: &Pair<'_>, odd: Odd) -> Result<u32, i32> {
    let (bytes, block) = (odd.bytes as u64, pair.block_bytes() as u64);
    let is_whole = (odd.offset | bytes).is_multiple_of(block) && bytes > 0 && odd.misplaced_by.is_multiple_of(4);
    let is_inside = odd.offset.checked_add(bytes).is_some_and(|end| end <= pair.target.bytes());
    if is_whole && is_inside { Ok(odd.bytes as u32) } else { Err(libc::EINVAL) }
}

/// What psync gives on a device of 512-byte blocks, for targets that it cannot reach.
fn as_a_block_device(pair: &Pair<'_>, odd: Odd) -> Result<u32, i32> {
    let size = pair.target.bytes();
    let bytes = odd.bytes as u64;
    if !(odd.offset | bytes).is_multiple_of(512) {
        return Err(libc::EINVAL);
    }
    match size.saturating_sub(odd.offset).min(bytes) {
        0 if odd.write && bytes > 0 => Err(libc::ENOSPC),
        there => Ok(there as u32),
    }
}
