//! Operations other than reads and writes: those that `probe` names are carried out, and the others complete with `NotSupported`
//! without reaching the kernel.

use anyhow::{Context, Result, ensure};
use iolane::{IoErrorKind, Operation, Operations, Queue, Request};

use crate::bench::{Bench, Pair, check_each, pool};
use crate::content::{self, ensure_same};
use crate::{drive, paths};

const AREA_BYTES: usize = 64 << 10;
/// The range that is discarded or zeroed, inside of the area.
const HOLE: std::ops::Range<usize> = 16 << 10..48 << 10;

/// The operations without a buffer, each with how it is asked for. Syncs do not use their offset, so that any is right.
fn others() -> [(Operations, Request); 4] {
    let (offset, bytes) = (HOLE.start as u64, HOLE.len() as u64);
    [
        (Operations::FSYNC, Request::new(1, offset + 1, Operation::Fsync)),
        (Operations::FDATASYNC, Request::new(1, offset + 1, Operation::Fdatasync)),
        (Operations::DISCARD, Request::discard(1, offset, bytes)),
        (Operations::WRITE_ZEROES, Request::write_zeroes(1, offset, bytes)),
    ]
}

#[test]
fn operations_that_probe_names_are_carried_out_and_no_others() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        ensure!(pair.capabilities.operations.contains(Operations::READ.with(Operations::WRITE)), "it reads and writes");
        for (operation, request) in others() {
            let done = if pair.capabilities.operations.contains(operation) {
                carried_out(pair, operation, request)
            } else {
                not_supported(pair, request)
            };
            done.with_context(|| operation.to_string())?;
        }
        Ok(())
    });
}

/// Writes the area, does it, and looks at what the area holds then.
fn carried_out(pair: &Pair<'_>, operation: Operations, request: Request) -> Result<()> {
    let pool = pool(1, AREA_BYTES)?;
    let mut queue = pair.queue(pair.depth(4), &pool)?;
    let mut buffer = pool.take().context("a frame")?;
    content::fill(&mut buffer, 0, 11);
    let written = drive::one(&mut *queue, Request::write(0, 0, buffer))?;
    ensure!(written.result == Ok(AREA_BYTES as u32), "the write before: {:?}", written.result);
    let done = drive::one(&mut *queue, request)?;
    ensure!(done.result == Ok(0), "{:?}", done.result);
    ensure!(done.buffer.is_none(), "a buffer came from nowhere");
    if !pair.moves_data() {
        return Ok(());
    }
    let mut expected = content::content(AREA_BYTES, 0, 11);
    let mut found = pair.get(0, AREA_BYTES)?;
    let zeroed = operation == Operations::WRITE_ZEROES || operation == Operations::DISCARD && pair.place.is_file();
    if zeroed {
        expected[HOLE].fill(0);
    } else if operation == Operations::DISCARD {
        // What a discarded range of a device reads as is the device's choice.
        found[HOLE].copy_from_slice(&expected[HOLE]);
    }
    ensure_same("the range and its neighbours", &expected, &found)
}

/// Does it between reads, and then as often as the queue is deep.
fn not_supported(pair: &Pair<'_>, request: Request) -> Result<()> {
    let again = |tag| Request::new(tag, request.offset, copy(&request));
    let pool = pool(8, 4096)?;
    let mut queue = pair.queue(pair.depth(8), &pool)?;
    let mut requests = Vec::new();
    for tag in 0..8 {
        requests.push(if tag % 2 == 0 { Request::read(tag, 0, pool.take().context("a frame")?) } else { again(tag) });
    }
    for (tag, result) in drive::results(&drive::run(&mut *queue, requests)?) {
        let expected = if tag % 2 == 0 { Ok(4096) } else { Err(IoErrorKind::NotSupported) };
        ensure!(result.map_err(|error| error.kind()) == expected, "tag {tag}: {result:?}");
    }
    full_of_refusals(pair, &mut *queue, again)
}

fn copy(request: &Request) -> Operation {
    use Operation::{Discard, Fdatasync, Fsync, WriteZeroes};
    match &request.operation {
        Fsync => Fsync,
        Fdatasync => Fdatasync,
        Discard { bytes } => Discard { bytes: *bytes },
        WriteZeroes { bytes } => WriteZeroes { bytes: *bytes },
        _ => unreachable!("only operations without a buffer"),
    }
}

/// Requests that cannot be carried out take room like others, until they are reaped.
fn full_of_refusals(pair: &Pair<'_>, queue: &mut dyn Queue, request: impl Fn(u64) -> Request) -> Result<()> {
    let depth = queue.depth();
    let before = queue.syscalls();
    let mut waiting: Vec<Request> = (0..depth as u64 + 2).map(request).collect();
    ensure!(queue.submit(&mut waiting) == depth && waiting.len() == 2, "{} refused requests are left", waiting.len());
    let mut ended = Vec::new();
    while queue.in_flight() > 0 {
        queue.reap(1, &mut ended)?;
    }
    let refused = |error: iolane::IoError| error.kind() == IoErrorKind::NotSupported;
    ensure!(ended.iter().all(|completion| completion.result.is_err_and(refused)), "{ended:?}");
    ensure!(ended.len() == depth, "{} of {depth} refusals came", ended.len());
    // A path that chooses makes calls of its own, to measure.
    let measures = paths::interface_of(&pair.path).chooses();
    ensure!(measures || queue.syscalls() == before, "an operation it cannot do was handed to the kernel");
    Ok(())
}

#[test]
fn durable_writes_write_and_end_durably_where_probe_names_them() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = pool(1, 4096)?;
        let mut queue = pair.queue(1, &pool)?;
        let is_named = pair.capabilities.operations.contains(Operations::DURABLE_WRITE);
        for block in 0..4 {
            let mut buffer = pool.take().context("a frame")?;
            content::fill(&mut buffer, block * 4096, 21);
            let ended = drive::one(&mut *queue, Request::durable_write(block, block * 4096, buffer))?;
            ensure!(ended.buffer.is_some(), "the buffer did not come back");
            if !is_named {
                let refused = ended.result.is_err_and(|error| error.kind() == IoErrorKind::NotSupported);
                ensure!(refused, "probe does not name it: {:?}", ended.result);
            } else {
                ensure!(ended.result == Ok(4096), "{:?}", ended.result);
            }
        }
        if !is_named || !pair.moves_data() {
            return Ok(());
        }
        ensure_same("the blocks", &content::content(4 * 4096, 0, 21), &pair.get(0, 4 * 4096)?)
    });
}

#[test]
fn atomic_writes_write_the_lengths_that_probe_names_and_no_others() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let pool = pool(1, 256 << 10)?;
        let mut queue = pair.queue(1, &pool)?;
        let mut write = |offset: u64, bytes: usize| {
            let mut buffer = pool.take().context("a frame")?;
            buffer.set_len(bytes)?;
            content::fill(&mut buffer, offset, 22);
            let ended = drive::one(&mut *queue, Request::atomic_write(offset, offset, buffer))?;
            ensure!(ended.buffer.is_some_and(|buffer| buffer.len() == bytes), "the buffer did not come back");
            Ok(ended.result.map_err(iolane::IoError::kind))
        };
        let is_named = pair.capabilities.operations.contains(Operations::ATOMIC_WRITE);
        ensure!(
            is_named == pair.capabilities.atomic_writes.is_some(),
            "the operation has lengths, or neither is there"
        );
        let Some(lengths) = pair.capabilities.atomic_writes else {
            let refused = write(0, 4096)?;
            ensure!(refused == Err(IoErrorKind::NotSupported), "probe does not name it: {refused:?}");
            return Ok(());
        };
        // The shortest, the longest that the pool holds, and one between; each at a multiple of itself.
        let least = lengths.bytes_min.max(pair.block_bytes() as u64);
        let most = lengths.bytes_max.min(256 << 10);
        for bytes in [least, (least * 2).min(most), most] {
            let outcome = write(bytes, bytes as usize)?;
            ensure!(outcome == Ok(bytes as u32), "{bytes} bytes: {outcome:?}");
            if pair.moves_data() {
                ensure_same(
                    "the write",
                    &content::content(bytes as usize, bytes, 22),
                    &pair.get(bytes, bytes as usize)?,
                )?;
            }
        }
        if !pair.moves_data() {
            return Ok(());
        }
        let refused = |outcome| outcome == Err(IoErrorKind::Invalid);
        ensure!(
            lengths.bytes_max > 128 << 10 || refused(write(0, 2 * lengths.bytes_max as usize)?),
            "longer than the longest"
        );
        if least < most {
            ensure!(refused(write(least, 2 * least as usize)?), "at an offset that is no multiple of its length");
        }
        if 4 * least <= most {
            ensure!(refused(write(0, 3 * least as usize)?), "of a length that is no power of two");
        }
        Ok(())
    });
}
