//! Vectored requests: the data of one request in several buffers, on every path that names them, and `NotSupported` on the others.

use anyhow::{Context, Result, ensure};
use iolane::nvme::CONTROLLER;
use iolane::{
    Buffer, Buffers, Completion, IoError, IoErrorKind, Operations, Pool, QueueConfig, Request, Target, TargetKind,
};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::bench::{Bench, Pair, check_each, pool, times};
use crate::content::{self, ensure_same};
use crate::drive;
use crate::paths;
use crate::places::Place;

/// The ranges that are written and read, each by a request of its own.
const SLOTS: u64 = 24;
const SLOT_BYTES: usize = PARTS_MAX * PART_BYTES;
/// Most buffers of a request here; the last test has 1024.
const PARTS_MAX: usize = 8;
const PART_BYTES: usize = 8 << 10;
/// Bytes past the length of a buffer that no read may touch, and what stands there.
const MARGIN: (usize, u8) = (64, 0xa5);
/// The unit of lengths: whole blocks of every target.
const BLOCK_BYTES: usize = 4096;

fn has_it(pair: &Pair<'_>) -> bool {
    pair.capabilities.operations.contains(Operations::VECTORED)
}

/// The pairs with vectored requests.
fn pairs_with(bench: &Bench) -> Vec<Pair<'_>> {
    bench.pairs().into_iter().filter(has_it).collect()
}

/// Buffers of these lengths, each with something behind its end.
fn parts(pool: &Pool, lengths: &[usize]) -> Result<Vec<Buffer>> {
    let part = |bytes: &usize| {
        let mut buffer = pool.take().context("the pool ran out")?;
        buffer.set_len(bytes + MARGIN.0)?;
        buffer.fill(MARGIN.1);
        buffer.set_len(*bytes)?;
        Ok(buffer)
    };
    lengths.iter().map(part).collect()
}

/// Fills the buffers with the content of a generation that stands at `offset`.
fn filled(parts: Vec<Buffer>, offset: u64, generation: u64) -> Result<Buffers> {
    let mut buffers = Buffers::new(parts)?;
    let whole = content::content(buffers.bytes(), offset, generation);
    let mut rest = &whole[..];
    for bytes in buffers.iter_mut() {
        let (now, later) = rest.split_at(bytes.len());
        bytes.copy_from_slice(now);
        rest = later;
    }
    Ok(buffers)
}

/// The buffers of a completion, which have to have the lengths that they left with.
fn returned(completion: Completion, lengths: &[usize]) -> Result<Vec<Buffer>> {
    let what = format!("tag {}", completion.tag);
    ensure!(completion.buffer.is_none(), "{what}: a buffer came from nowhere");
    let parts = completion.buffers.with_context(|| format!("{what}: its buffers are not handed back"))?.into_vec();
    let found: Vec<usize> = parts.iter().map(|buffer| buffer.len()).collect();
    ensure!(found == lengths, "{what}: buffers of {lengths:?} came back as {found:?}");
    Ok(parts)
}

/// The bytes of the buffers in order; nothing may stand behind the end of one.
fn gather(what: &str, parts: &mut [Buffer]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for buffer in parts {
        let end = buffer.len();
        bytes.extend_from_slice(buffer);
        buffer.set_len(end + MARGIN.0)?;
        ensure_same(&format!("{what}: past the end of a buffer"), &[MARGIN.1; MARGIN.0], &buffer[end..])?;
    }
    Ok(bytes)
}

#[test]
fn vectored_requests_move_their_buffers_in_order_beside_ordinary_ones() {
    let bench = Bench::everywhere();
    check_each(&pairs_with(&bench), |pair| {
        for depth in pair.depths(&[1, 8, 32]) {
            for generation in 0..times(3, 1) as u64 {
                mixed(pair, depth, 60 + generation).with_context(|| format!("depth {depth}"))?;
            }
        }
        Ok(())
    });
}

/// Writes every slot and reads it again, two of three times in several buffers.
fn mixed(pair: &Pair<'_>, depth: u32, generation: u64) -> Result<()> {
    let area_bytes = SLOTS as usize * SLOT_BYTES;
    let frames = SLOTS as usize * PARTS_MAX;
    let pools = [pool(frames, PART_BYTES + MARGIN.0)?, pool(frames, PART_BYTES + MARGIN.0)?];
    // A driver without a kernel moves registered memory only; elsewhere half of it is not.
    let registered = if pair.target.kind() == CONTROLLER { &pools[..] } else { &pools[..1] };
    let config = registered.iter().fold(QueueConfig::new(depth), |config, pool| config.pool(pool));
    let mut queue = pair.queue_on(&pair.target, &config)?;
    let mut random = drive::random(generation << 32 | u64::from(depth));
    let mut expected = pair.get(0, area_bytes)?;
    // Where the path has them, some writes are durable.
    let is_durable = pair.capabilities.operations.contains(Operations::DURABLE_WRITE);
    for reads in [false, true] {
        let drawn: Vec<Vec<usize>> = (0..SLOTS).map(|slot| draw_lengths(pair, &mut random, slot)).collect();
        let mut requests = Vec::new();
        for (slot, lengths) in (0..).zip(&drawn) {
            requests.push(request_in(slot, lengths, &pools, (!reads).then_some(generation), is_durable)?);
            let moved = &mut expected[slot as usize * SLOT_BYTES..][..lengths.iter().sum()];
            if !reads {
                content::fill(moved, slot * SLOT_BYTES as u64, generation);
            }
        }
        for completion in drive::run(&mut *queue, requests)? {
            let (slot, result) = (completion.tag as usize, completion.result);
            let what = format!("{} in slot {slot}", if reads { "read" } else { "write" });
            let bytes = drawn[slot].iter().sum();
            ensure!(result == Ok(bytes as u32), "{what} of {bytes} bytes: {result:?}");
            let mut parts = if is_vectored(slot as u64) {
                returned(completion, &drawn[slot])?
            } else {
                ensure!(completion.buffers.is_none(), "{what}: buffers came from nowhere");
                vec![completion.buffer.context("a transfer without its buffer")?]
            };
            let found = gather(&what, &mut parts)?;
            if pair.moves_data() {
                ensure_same(&what, &expected[slot * SLOT_BYTES..][..bytes], &found)?;
            }
        }
        if pair.moves_data() {
            ensure_same("on the target", &expected, &pair.get(0, area_bytes)?)?;
        }
    }
    Ok(())
}

fn is_vectored(slot: u64) -> bool {
    !slot.is_multiple_of(3)
}

/// A request in a slot: a read, or a write of a generation. Every other buffer of a vectored request is of the second pool.
fn request_in(
    slot: u64,
    lengths: &[usize],
    pools: &[Pool; 2],
    write: Option<u64>,
    is_durable: bool,
) -> Result<Request> {
    let offset = slot * SLOT_BYTES as u64;
    let mut own = Vec::new();
    for (pool, bytes) in pools.iter().cycle().zip(lengths) {
        own.extend(parts(pool, &[*bytes])?);
    }
    let buffers = match write {
        Some(generation) => filled(own, offset, generation)?,
        None => Buffers::new(own)?,
    };
    if is_vectored(slot) {
        let make = match write {
            Some(_) if is_durable && slot.is_multiple_of(4) => Request::durable_write_vectored,
            Some(_) => Request::write_vectored,
            None => Request::read_vectored,
        };
        return Ok(make(slot, offset, buffers));
    }
    let make = if write.is_some() { Request::write } else { Request::read };
    Ok(make(slot, offset, buffers.into_vec().remove(0)))
}

/// Lengths of the buffers of one request: whole blocks, or any number of bytes where those are the blocks.
fn draw_lengths(pair: &Pair<'_>, random: &mut Xoshiro256PlusPlus, slot: u64) -> Vec<usize> {
    let mut below = |end: usize| (random.next_u64() % end as u64) as usize;
    let unit = pair.block_bytes();
    let most = pair.request_bytes(SLOT_BYTES) / PARTS_MAX / unit;
    let count = if is_vectored(slot) { 1 + below(PARTS_MAX) } else { 1 };
    (0..count).map(|_| unit * (1 + below(most))).collect()
}

#[test]
fn a_vectored_read_across_the_end_is_short_and_brings_what_is_there() {
    let bench = Bench::everywhere();
    let pairs: Vec<_> = pairs_with(&bench).into_iter().filter(Pair::moves_data).collect();
    check_each(&pairs, |pair| {
        const SIZE: u64 = 20 << 10;
        match pair.place.another_file(SIZE)? {
            Some(place) => across_the_end(pair, &place, &place.open_to_read()?),
            None => across_the_end(pair, pair.place, &pair.target),
        }
    });
}

/// Reads from two blocks and a half before the end, where the blocks are small enough for a half.
fn across_the_end(pair: &Pair<'_>, place: &Place, target: &Target) -> Result<()> {
    let half = if pair.block_bytes() <= BLOCK_BYTES / 2 { BLOCK_BYTES / 2 } else { BLOCK_BYTES };
    let there = 2 * BLOCK_BYTES + half;
    let offset = target.bytes() - there as u64;
    let tail = content::content(there, offset, 7);
    drive::put(place, target, offset, &tail)?;
    let pool = pool(4, 2 * BLOCK_BYTES)?;
    let mut queue = pair.queue_on(target, &QueueConfig::new(1).pool(&pool))?;
    let lengths = [BLOCK_BYTES / 2, BLOCK_BYTES, BLOCK_BYTES + BLOCK_BYTES / 2, BLOCK_BYTES].map(|bytes| {
        // Blocks of 4 KiB: the first three buffers hold what is there.
        if half == BLOCK_BYTES { BLOCK_BYTES } else { bytes }
    });
    let buffers = Buffers::new(parts(&pool, &lengths)?)?;
    let ended = drive::one(&mut *queue, Request::read_vectored(1, offset, buffers))?;
    if target.kind() == CONTROLLER || target.kind() == TargetKind::NvmeGeneric {
        // The drive refuses a command that reaches past its last block (LBA Out of Range).
        ensure!(ended.result == Err(IoError::INVALID), "{:?}", ended.result);
        return returned(ended, &lengths).map(drop);
    }
    ensure!(ended.result == Ok(there as u32), "{there} bytes are there: {:?}", ended.result);
    let found = gather("the read", &mut returned(ended, &lengths)?)?;
    // The kernel may have filled the rest of the buffers, with zeroes.
    ensure_same("what is there", &tail, &found[..there])
}

#[test]
fn misaligned_vectored_requests_are_invalid_and_leave_those_beside_them_alone() {
    let bench = Bench::everywhere();
    let is_aligned = |pair: &Pair<'_>| pair.moves_data() && pair.block_bytes() > 1;
    let pairs: Vec<_> = pairs_with(&bench).into_iter().filter(is_aligned).collect();
    check_each(&pairs, |pair| {
        const LENGTHS: [[usize; 2]; 4] = [[4096, 8192], [4096, 8192], [4096, 8092], [8192, 4096]];
        const REQUESTS: u64 = 16;
        let is_durable = pair.capabilities.operations.contains(Operations::DURABLE_WRITE);
        let whole = content::content(REQUESTS as usize * 3 * BLOCK_BYTES, 0, 4);
        pair.put(0, &whole)?;
        let pool = pool(2 * REQUESTS as usize, 3 * BLOCK_BYTES)?;
        let mut queue = pair.queue(pair.depth(8), &pool)?;
        let mut requests = Vec::new();
        for tag in 0..REQUESTS {
            let (kind, offset) = (tag % 4, tag * 3 * BLOCK_BYTES as u64);
            let buffers = Buffers::new(parts(&pool, &LENGTHS[kind as usize])?)?;
            requests.push(match kind {
                1 => Request::write_vectored(tag, offset + 100, buffers),
                2 if is_durable => Request::durable_write_vectored(tag, offset, buffers),
                2 => Request::write_vectored(tag, offset, buffers),
                3 => Request::read_vectored(tag, offset + 1, buffers),
                _ => Request::read_vectored(tag, offset, buffers),
            });
        }
        for completion in drive::run(&mut *queue, requests)? {
            let (tag, result) = (completion.tag, completion.result);
            let lengths = LENGTHS[tag as usize % 4];
            let mut parts = returned(completion, &lengths)?;
            if tag % 4 > 0 {
                pair.refused_as_misaligned(&format!("tag {tag}"), result)?;
                continue;
            }
            ensure!(result == Ok(3 * BLOCK_BYTES as u32), "tag {tag} is aligned: {result:?}");
            let start = tag as usize * 3 * BLOCK_BYTES;
            ensure_same(
                "an aligned read",
                &whole[start..start + 3 * BLOCK_BYTES],
                &gather("an aligned read", &mut parts)?,
            )?;
        }
        ensure_same("the target", &whole, &pair.get(0, whole.len())?)
    });
}

#[test]
fn a_vectored_request_may_have_1024_buffers() {
    const COUNT: usize = 1024;
    let bench = Bench::everywhere();
    check_each(&pairs_with(&bench), |pair| {
        let bytes = pair.block_bytes().max(512);
        if pair.request_bytes(COUNT * bytes) < COUNT * bytes {
            return Ok(());
        }
        let pool = pool(COUNT, bytes + MARGIN.0)?;
        let mut queue = pair.queue(1, &pool)?;
        let lengths = vec![bytes; COUNT];
        let write = Request::write_vectored(1, 8192, filled(parts(&pool, &lengths)?, 8192, 71)?);
        let ended = drive::one(&mut *queue, write)?;
        // One command may have fewer segments.
        if ended.result == Err(IoError::TOO_LARGE) && pair.capabilities.request_bytes_max.is_some() {
            return returned(ended, &lengths).map(drop);
        }
        ensure!(ended.result == Ok((COUNT * bytes) as u32), "the write: {:?}", ended.result);
        drop(returned(ended, &lengths)?);
        let read = Request::read_vectored(2, 8192, Buffers::new(parts(&pool, &lengths)?)?);
        let ended = drive::one(&mut *queue, read)?;
        ensure!(ended.result == Ok((COUNT * bytes) as u32), "the read: {:?}", ended.result);
        let found = gather("the read", &mut returned(ended, &lengths)?)?;
        if pair.moves_data() {
            let expected = content::content(COUNT * bytes, 8192, 71);
            ensure_same("on the target", &expected, &pair.get(8192, COUNT * bytes)?)?;
            ensure_same("the buffers", &expected, &found)?;
        }
        Ok(())
    });
}

#[test]
fn a_target_opened_for_reading_takes_no_vectored_write() {
    let bench = Bench::everywhere();
    let pairs: Vec<_> = pairs_with(&bench).into_iter().filter(Pair::moves_data).collect();
    check_each(&pairs, |pair| {
        let target = pair.place.open_to_read()?;
        let pool = pool(2, 2 * BLOCK_BYTES)?;
        let mut queue = pair.queue_on(&target, &QueueConfig::new(1).pool(&pool))?;
        let lengths = [BLOCK_BYTES; 2];
        let mut refused = |make: fn(u64, u64, Buffers) -> Request, expected: IoErrorKind| {
            let ended = drive::one(&mut *queue, make(1, 0, filled(parts(&pool, &lengths)?, 0, 72)?))?;
            let kind = ended.result.err().map(IoError::kind);
            ensure!(kind == Some(expected), "{:?}", ended.result);
            returned(ended, &lengths).map(drop)
        };
        refused(Request::write_vectored, IoErrorKind::NotPermitted)?;
        let is_durable = pair.capabilities.operations.contains(Operations::DURABLE_WRITE);
        let durable = if is_durable { IoErrorKind::NotPermitted } else { IoErrorKind::NotSupported };
        refused(Request::durable_write_vectored, durable)
    });
}

#[test]
fn paths_that_do_not_name_vectored_requests_refuse_them_and_return_the_buffers() {
    let bench = Bench::everywhere();
    let pairs: Vec<_> = bench.pairs().into_iter().filter(|pair| !has_it(pair)).collect();
    check_each(&pairs, |pair| {
        let pool = pool(12, 2 * BLOCK_BYTES)?;
        let mut queue = pair.queue(pair.depth(8), &pool)?;
        let lengths = [512, BLOCK_BYTES];
        let make = |tag: u64| -> Result<Request> {
            Ok(match tag % 3 {
                0 => {
                    let mut buffer = pool.take().context("a frame")?;
                    buffer.set_len(BLOCK_BYTES)?;
                    Request::read(tag, 0, buffer)
                }
                1 => Request::read_vectored(tag, 0, Buffers::new(parts(&pool, &lengths)?)?),
                _ => Request::write_vectored(tag, 0, Buffers::new(parts(&pool, &lengths)?)?),
            })
        };
        let refused_as_is = |completion: Completion| {
            let kind = completion.result.err().map(IoError::kind);
            ensure!(kind == Some(IoErrorKind::NotSupported), "{completion:?}");
            returned(completion, &lengths).map(drop)
        };
        for completion in drive::run(&mut *queue, (0..6).map(make).collect::<Result<Vec<_>>>()?)? {
            match completion.tag % 3 {
                0 => ensure!(completion.result == Ok(BLOCK_BYTES as u32), "{completion:?}"),
                _ => refused_as_is(completion)?,
            }
        }
        let before = queue.syscalls();
        refused_as_is(drive::one(&mut *queue, make(1)?)?)?;
        refused_as_is(drive::one(&mut *queue, make(2)?)?)?;
        let measures = paths::interface_of(&pair.path).chooses();
        ensure!(measures || queue.syscalls() == before, "what it cannot do was handed to the kernel");
        Ok(())
    });
}
