//! A queue dropped with requests in flight: when drop returns, neither kernel nor device accesses the memory any more. Otherwise
//! a read would overwrite memory that has a new owner, and a write would store that owner's data on the disk. A device that is
//! stopped while the queue is dropped makes the wait certain.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use iolane::{Buffer, Pages, Pool, Queue, Request};

use crate::bench::{Bench, NOTHING_IN_FLIGHT, Pair, check_each, check_each_with_stoppable_device, pool, times};
use crate::content::{self, ensure_same};
use crate::fixtures::{StoppableDevice, wait_until};
use crate::places::PLACE_BYTES;

/// What the memory holds once it belongs to someone else.
const NEW_OWNER: u8 = 0x5a;

/// Takes every frame of the pool and fills it; all must be free, for the queue that had them is gone.
fn take_over(pool: &Pool) -> Result<Buffer> {
    let mut all = pool.take_frames(0, pool.frames()).context("the dropped queue still holds frames of the pool")?;
    all.fill(NEW_OWNER);
    Ok(all)
}

fn ensure_untouched(memory: &[u8]) -> Result<()> {
    ensure_same("memory written after the queue was dropped", &vec![NEW_OWNER; memory.len()], memory)
}

const PIECE_BYTES: usize = 64 << 10;
const PIECES: u64 = 8;

/// Whether requests read or write, and where each of them stands.
fn requests(pool: &Pool, write: bool, first_tag: u64) -> Result<Vec<Request>> {
    let make = |tag| {
        let mut buffer = pool.take().context("a frame each")?;
        let offset = tag * PIECE_BYTES as u64;
        if !write {
            return Ok(Request::read(tag, offset, buffer));
        }
        content::fill(&mut buffer, offset, 1);
        Ok(Request::write(tag, offset, buffer))
    };
    (first_tag..first_tag + PIECES).map(make).collect()
}

#[test]
fn dropping_a_queue_waits_for_what_a_stopped_device_reads() {
    check_each_with_stoppable_device(NOTHING_IN_FLIGHT, |pair, device| drop_while_stopped(pair, device, false));
}

#[test]
fn dropping_a_queue_waits_for_what_a_stopped_device_writes() {
    check_each_with_stoppable_device(NOTHING_IN_FLIGHT, |pair, device| drop_while_stopped(pair, device, true));
}

fn drop_while_stopped(pair: &Pair<'_>, device: &StoppableDevice, write: bool) -> Result<()> {
    let pieces_bytes = 2 * PIECES as usize * PIECE_BYTES;
    let before = content::content(pieces_bytes, 0, 0);
    pair.put(0, &before)?;
    let pool = pool(2 * PIECES as usize, PIECE_BYTES)?;
    let mut queue = pair.queue(2 * PIECES as u32, &pool)?;
    let stopped = device.stop()?;
    let (reads, writes) = device.device.in_flight();
    queue.submit(&mut requests(&pool, write, 0)?);
    queue.flush()?;
    wait_until("the requests reach the device", || device.device.in_flight() > (reads, writes))?;
    // These are submitted and never flushed; they may end or not happen at all.
    queue.submit(&mut requests(&pool, write, PIECES)?);
    let memory = std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            let free = std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len();
            stopped.release();
            free
        });
        drop(queue);
        let waited = stopped.is_released();
        let free = meanwhile.join().map_err(|_| anyhow::anyhow!("the other thread panicked"))?;
        // What was not flushed may be given back at once; of the rest the device has one at least.
        ensure!(free < pool.frames(), "all memory was free for others while the device had requests for it");
        let memory = take_over(&pool)?;
        ensure!(waited, "drop returned while the device still had requests of the queue");
        anyhow::Ok(memory)
    })?;
    stopped.settle()?;
    ensure_untouched(&memory)?;
    if write { each_piece_is_old_or_new(&before, &pair.get(0, pieces_bytes)?) } else { Ok(()) }
}

/// On the disk is what was there before or what was written, not what the memory held later.
fn each_piece_is_old_or_new(before: &[u8], after: &[u8]) -> Result<()> {
    for (number, (old, found)) in before.chunks(PIECE_BYTES).zip(after.chunks(PIECE_BYTES)).enumerate() {
        let written = content::content(PIECE_BYTES, (number * PIECE_BYTES) as u64, 1);
        for (old, (written, found)) in old.chunks(512).zip(written.chunks(512).zip(found.chunks(512))) {
            ensure!(found == old || found == written, "piece {number} is neither what was there nor what was written");
        }
    }
    Ok(())
}

/// Times that a queue is dropped on each pair: some hundreds in all.
const ROUNDS: usize = 12;

#[test]
fn memory_of_a_dropped_queue_is_its_new_owners_alone() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let cold = if pair.moves_data() { pair.place.plain()? } else { None };
        for round in 0..times(ROUNDS, 3) {
            drop_with_reads_in_flight(pair, cold.as_ref(), round).with_context(|| format!("round {round}"))?;
        }
        Ok(())
    });
}

/// Reads large pieces, not in the page cache if that can be helped, and drops the queue at once.
fn drop_with_reads_in_flight(pair: &Pair<'_>, cold: Option<&File>, round: usize) -> Result<()> {
    let large_bytes = pair.request_bytes(128 << 10);
    if let Some(file) = cold {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    let depth = pair.depth(24);
    let first = pool(depth as usize, large_bytes)?;
    let mut queue = pair.queue(depth, &first)?;
    let places = PLACE_BYTES.min(pair.target.bytes()) / large_bytes as u64;
    let mut reads = Vec::new();
    while let Some(buffer) = first.take() {
        let tag = reads.len() as u64;
        reads.push(Request::read(tag, (7 * tag + round as u64) % places * large_bytes as u64, buffer));
    }
    let mut unflushed = reads.split_off(reads.len() * 2 / 3);
    queue.submit(&mut reads);
    queue.flush()?;
    queue.submit(&mut unflushed);
    drop(queue);
    drop((reads, unflushed));
    let memory = take_over(&first)?;
    other_io(pair)?;
    ensure_untouched(&memory)?;
    // The memory goes back to the kernel and comes again as other mappings, mostly at the same addresses.
    drop((memory, first));
    let second = Pool::new(depth as usize, large_bytes, Pages::Base)?;
    let memory = take_over(&second)?;
    std::thread::sleep(Duration::from_micros(200));
    ensure_untouched(&memory)
}

/// Something else for kernel and device to do, in the hope that it reuses what was not to be reused.
fn other_io(pair: &Pair<'_>) -> Result<()> {
    let pool = pool(4, 16 << 10)?;
    let mut queue: Box<dyn Queue> = pair.queue(pair.depth(4), &pool)?;
    let buffers = std::iter::from_fn(|| pool.take());
    let mut reads: Vec<_> = buffers.enumerate().map(|(tag, buffer)| Request::read(tag as u64, 0, buffer)).collect();
    let mut ended = Vec::new();
    while !reads.is_empty() {
        queue.submit(&mut reads);
        queue.drain(&mut ended)?;
    }
    let right = ended.len() == 4 && ended.iter().all(|completion| completion.result == Ok(16 << 10));
    ensure!(right, "{ended:?}");
    Ok(())
}

#[test]
fn a_dropped_queue_leaves_what_another_one_has_in_flight_on_its_target() {
    /// After this much the requests are taken to be lost.
    const PATIENCE: Duration = Duration::from_secs(20);
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let depth = pair.depth(PIECES as u32);
        let pool = pool(2 * PIECES as usize, PIECE_BYTES)?;
        for round in 0..times(8, 2) {
            let (mut dropped, mut kept) = (pair.queue(depth, &pool)?, pair.queue(depth, &pool)?);
            dropped.submit(&mut requests(&pool, false, 0)?);
            kept.submit(&mut requests(&pool, false, 0)?);
            let waiting = kept.in_flight();
            dropped.flush()?;
            kept.flush()?;
            drop(dropped);
            let (mut completions, began) = (Vec::new(), Instant::now());
            while completions.len() < waiting && began.elapsed() < PATIENCE {
                kept.reap_within(waiting - completions.len(), Duration::from_millis(100), &mut completions)?;
            }
            ensure!(completions.len() == waiting, "round {round}: {} of {waiting} requests ended", completions.len());
            let failed = completions.iter().find(|completion| completion.result.is_err());
            ensure!(failed.is_none(), "round {round}: {failed:?}");
        }
        Ok(())
    });
}
