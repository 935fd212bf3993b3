//! Drives a queue for the checks: runs requests to completion, each tag exactly once, and accesses the data by other means.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use iolane::{
    Buffer, Completion, IoError, IoErrorKind, IoPath, Operation, Pages, Pool, Queue, QueueConfig, Request, Target,
};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::places::Place;

/// The seed of all random choices.
pub(crate) fn seed() -> u64 {
    std::env::var("IOLANE_CONFORMANCE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A generator seeded with the suite's seed and a number.
pub(crate) fn random(number: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed().wrapping_mul(1_000_003).wrapping_add(number))
}

/// Runs requests to completion, also more than the queue is deep, and checks that each brings its own buffers; the completions are in
/// the order of arrival.
pub(crate) fn run(queue: &mut dyn Queue, requests: impl IntoIterator<Item = Request>) -> Result<Vec<Completion>> {
    let mut waiting: Vec<Request> = requests.into_iter().collect();
    let mut awaited: HashSet<u64> = waiting.iter().map(|request| request.tag).collect();
    ensure!(awaited.len() == waiting.len(), "the test gave a tag twice");
    let given: HashMap<u64, Vec<usize>> =
        waiting.iter().map(|request| (request.tag, buffers_of(&request.operation))).collect();
    let mut ended = Vec::new();
    while !awaited.is_empty() {
        queue.submit(&mut waiting);
        reap(queue, 1, &mut ended, &mut awaited)?;
    }
    ensure!(queue.in_flight() == 0, "all tags came, and {} requests are in flight", queue.in_flight());
    for Completion { tag, buffer, buffers, .. } in &ended {
        let brought = addresses(buffer.iter().chain(buffers.iter().flatten()));
        ensure!(brought == given[tag], "tag {tag} came with other buffers than its own, or with none");
    }
    Ok(ended)
}

fn buffers_of(operation: &Operation) -> Vec<usize> {
    addresses(operation.memory())
}

fn addresses<'a>(buffers: impl IntoIterator<Item = &'a Buffer>) -> Vec<usize> {
    buffers.into_iter().map(|buffer| buffer.address().addr()).collect()
}

/// Reaps, and checks the count and that each tag is one that was awaited.
pub(crate) fn reap(
    queue: &mut dyn Queue,
    min: usize,
    ended: &mut Vec<Completion>,
    awaited: &mut HashSet<u64>,
) -> Result<usize> {
    let (before, in_flight) = (ended.len(), queue.in_flight());
    let count = queue.reap(min, ended)?;
    ensure!(count == ended.len() - before, "reap said {count} and brought {}", ended.len() - before);
    ensure!(count >= min.min(in_flight), "reap({min}) brought {count} of {in_flight} in flight");
    ensure!(
        queue.in_flight() == in_flight - count,
        "in_flight counts {} of {in_flight} after {count}",
        queue.in_flight()
    );
    for completion in &ended[before..] {
        ensure!(awaited.remove(&completion.tag), "tag {} came twice, or was never given", completion.tag);
    }
    Ok(count)
}

/// Runs one request to its end.
pub(crate) fn one(queue: &mut dyn Queue, request: Request) -> Result<Completion> {
    run(queue, [request])?.pop().context("a request without a completion")
}

pub(crate) fn is_cancelled(completion: &Completion) -> bool {
    completion.result.is_err_and(|error| error.kind() == IoErrorKind::Cancelled)
}

/// Outcomes by tag.
pub(crate) fn results(completions: &[Completion]) -> HashMap<u64, Result<u32, IoError>> {
    completions.iter().map(|completion| (completion.tag, completion.result)).collect()
}

/// Writes by other means than the path under test: the standard library, or a queue of its own on what has no file.
pub(crate) fn put(place: &Place, target: &Target, offset: u64, bytes: &[u8]) -> Result<()> {
    match place.plain()? {
        Some(file) if place.is_device() => {
            // Aligned, as O_DIRECT needs it.
            let mut aligned = aligned(bytes.len())?;
            aligned.copy_from_slice(bytes);
            Ok(file.write_all_at(&aligned, offset)?)
        }
        Some(file) => {
            file.write_all_at(bytes, offset)?;
            Ok(file.sync_all()?)
        }
        None if !target.kind().keeps_data() => Ok(()),
        None => move_by_queue(target, offset, bytes.len(), |tag, offset, mut buffer, range| {
            buffer.copy_from_slice(&bytes[range]);
            Request::write(tag, offset, buffer)
        })
        .map(drop),
    }
}

/// Reads by other means than the path under test.
pub(crate) fn get(place: &Place, target: &Target, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    match place.plain()? {
        Some(file) if place.is_device() => {
            let mut aligned = aligned(bytes)?;
            file.read_exact_at(&mut aligned, offset)?;
            Ok(aligned.to_vec())
        }
        Some(file) => {
            let mut found = vec![0; bytes];
            file.read_exact_at(&mut found, offset)?;
            Ok(found)
        }
        None => move_by_queue(target, offset, bytes, |tag, offset, buffer, _| Request::read(tag, offset, buffer)),
    }
}

fn aligned(bytes: usize) -> Result<Buffer> {
    let pool = Pool::new(1, bytes.next_multiple_of(4096), Pages::Base)?;
    let mut buffer = pool.take().context("a new pool has its frame")?;
    buffer.set_len(bytes)?;
    Ok(buffer)
}

/// Moves a range through a queue of its own, in pieces whose tags count up.
fn move_by_queue(
    target: &Target,
    offset: u64,
    bytes: usize,
    mut request: impl FnMut(u64, u64, Buffer, std::ops::Range<usize>) -> Request,
) -> Result<Vec<u8>> {
    const PIECE_BYTES: usize = 128 << 10;
    let pool = Pool::new(bytes.div_ceil(PIECE_BYTES).max(1), PIECE_BYTES, Pages::Base)?;
    let owner = iolane::interfaces().find(|interface| interface.own_target() == Some(target.kind()));
    let path = IoPath::new(owner.context("a target without a descriptor belongs to an interface")?.name());
    let mut queue = iolane::open_queue(&path, target, &QueueConfig::new(32).pool(&pool))?;
    let mut requests = Vec::new();
    for (tag, start) in (0..bytes).step_by(PIECE_BYTES).enumerate() {
        let end = bytes.min(start + PIECE_BYTES);
        let mut buffer = pool.take().context("a pool ran out")?;
        buffer.set_len(end - start)?;
        requests.push(request(tag as u64, offset + start as u64, buffer, start..end));
    }
    let mut ended = run(&mut *queue, requests)?;
    ended.sort_by_key(|completion| completion.tag);
    let mut moved = Vec::with_capacity(bytes);
    for completion in &ended {
        let buffer = completion.buffer.as_ref().context("a completion without its buffer")?;
        ensure!(completion.result == Ok(buffer.len() as u32), "{}: {:?}", target.name(), completion.result);
        moved.extend_from_slice(buffer);
    }
    Ok(moved)
}
