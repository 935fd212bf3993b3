//! Reads return what was written: mixed reads and writes at random offsets and depths, compared with an image of the target in
//! memory, and afterwards read by the standard library and by every other path.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use iolane::{Buffer, Completion, Pool, Queue, Request};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::bench::{Bench, Pair, check_each, pool, times};
use crate::content::{self, ensure_same};
use crate::drive;
use crate::places::PLACE_BYTES;

/// The part of the target that is written and pictured; less of it on an emulated machine, which copies slowly.
fn image_bytes() -> usize {
    const IMAGE_BYTES: usize = 8 << 20;
    const _: () = assert!(IMAGE_BYTES as u64 <= PLACE_BYTES);
    times(IMAGE_BYTES, IMAGE_BYTES / 2)
}

const FRAME_BYTES: usize = 128 << 10;

/// Bytes past the length of a buffer that no read may touch, and what stands there.
const MARGIN: (usize, u8) = (64, 0xa5);

#[test]
fn what_one_path_writes_every_path_reads_back_right() {
    let bench = Bench::everywhere();
    let pairs = bench.pairs();
    let mut images: HashMap<String, Vec<u8>> = HashMap::new();
    check_each(&pairs, |pair| {
        let storage = pair.place.storage();
        // Taken out, so that a failure leaves no picture that the target does not agree with.
        let mut image = match images.remove(&storage) {
            Some(image) => image,
            None => fresh_image(pair)?,
        };
        let depths = if times(1, 0) == 1 { &[1, 2, 7, 32, 256][..] } else { &[1, 7, 100] };
        for depth in pair.depths(depths) {
            mixed_load(pair, depth, &mut image).with_context(|| format!("depth {depth}"))?;
        }
        if pair.moves_data() {
            ensure_same("read back by other means", &image, &pair.get(0, image_bytes())?)?;
        }
        images.insert(storage, image);
        Ok(())
    });
    check_each(&pairs, |pair| read_everything(pair, &images[&pair.place.storage()]));
}

fn fresh_image(pair: &Pair<'_>) -> Result<Vec<u8>> {
    let image = content::content(image_bytes(), 0, 0);
    pair.put(0, &image)?;
    Ok(image)
}

/// What is known of a request between its making and its end.
struct Pending {
    start: usize,
    end: usize,
    write: bool,
}

/// Random requests on one queue; those that overlap are never in flight together unless all are reads.
struct Load<'a> {
    pair: &'a Pair<'a>,
    image: &'a mut [u8],
    pool: Pool,
    random: Xoshiro256PlusPlus,
    pending: HashMap<u64, Pending>,
    /// The range of the write that completed last.
    written: Option<(usize, usize)>,
    generation: u64,
}

fn mixed_load(pair: &Pair<'_>, depth: u32, image: &mut [u8]) -> Result<()> {
    let most = depth as usize + 3;
    let frame_bytes = pair.request_bytes(FRAME_BYTES);
    let pool = pool(most, frame_bytes)?;
    let mut queue = pair.queue(depth, &pool)?;
    let random = drive::random(u64::from(depth));
    let mut load = Load { pair, image, pool, random, pending: HashMap::new(), written: None, generation: 0 };
    let mut left = 48 + 3 * depth as usize;
    let mut waiting = Vec::new();
    let mut ended = Vec::new();
    let mut deepest = 0;
    while left > 0 || !load.pending.is_empty() {
        // A few more than the queue takes, so that some are left with the caller.
        while left > 0 && load.pending.len() < most {
            waiting.push(load.next_request()?);
            left -= 1;
        }
        submit_checked(&mut *queue, &mut waiting)?;
        deepest = deepest.max(queue.in_flight());
        if load.random.next_u64().is_multiple_of(3) {
            queue.flush()?;
        }
        let min = (load.random.next_u64() % (queue.in_flight() as u64 + 1)) as usize;
        let count = queue.reap(min, &mut ended)?;
        ensure!(count >= min && count == ended.len(), "reap({min}) said {count} and brought {}", ended.len());
        ended.drain(..).try_for_each(|completion| load.finish(completion))?;
    }
    ensure!(queue.in_flight() == 0 && waiting.is_empty(), "requests are left over");
    ensure!(deepest == depth as usize, "{deepest} requests were in flight at most");
    match load.written {
        Some((start, end)) if pair.moves_data() => {
            let found = pair.get(start as u64, end - start)?;
            ensure_same("the last write, read by other means while the queue is open", &image[start..end], &found)
        }
        _ => Ok(()),
    }
}

/// Submits, and checks that just what fits was taken.
fn submit_checked(queue: &mut dyn Queue, waiting: &mut Vec<Request>) -> Result<()> {
    let (before, room) = (waiting.len(), queue.depth() - queue.in_flight());
    let taken = queue.submit(waiting);
    let right = taken == room.min(before) && waiting.len() == before - taken;
    ensure!(right, "submit took {taken} of {before} with room for {room}");
    Ok(())
}

impl Load<'_> {
    fn below(&mut self, limit: usize) -> usize {
        (self.random.next_u64() % limit as u64) as usize
    }

    /// Most are small, some reach 128 KiB; without O_DIRECT any number of bytes, with it whole blocks.
    fn draw_range(&mut self) -> (usize, usize) {
        let unit = self.pair.block_bytes();
        let most = match self.below(20) {
            0 => self.pool.frame_bytes() - MARGIN.0.next_multiple_of(unit),
            1..4 => 32 << 10,
            _ => (4 * unit).max(8 << 10),
        };
        let bytes = unit * (1 + self.below(most / unit));
        let start = unit * self.below((self.image.len() - bytes) / unit + 1);
        (start, start + bytes)
    }

    fn is_free(&self, (start, end): (usize, usize), write: bool) -> bool {
        self.pending.values().all(|other| end <= other.start || other.end <= start || !(write || other.write))
    }

    fn draw_free_range(&mut self, write: bool) -> Result<(usize, usize)> {
        for _ in 0..1000 {
            let range = self.draw_range();
            if self.is_free(range, write) {
                return Ok(range);
            }
        }
        bail!("the test found no free range")
    }

    fn next_request(&mut self) -> Result<Request> {
        let write = self.below(2) == 0;
        // Two random ranges seldom meet: some reads are of what was written just now.
        let again = self.written.filter(|range| !write && self.is_free(*range, write));
        let (start, end) = match again {
            Some(range) if self.below(3) == 0 => range,
            _ => self.draw_free_range(write)?,
        };
        let mut buffer = self.pool.take().context("the pool ran out of frames that were handed back")?;
        // Any 64 bits may be a tag.
        let tag = self.random.next_u64();
        let offset = start as u64;
        self.pending.insert(tag, Pending { start, end, write });
        if write {
            self.generation += 1;
            buffer.set_len(end - start)?;
            content::fill(&mut buffer, offset, self.generation);
            self.image[start..end].copy_from_slice(&buffer);
            return Ok(Request::write(tag, offset, buffer));
        }
        buffer.set_len(end - start + MARGIN.0)?;
        buffer.fill(MARGIN.1);
        buffer.set_len(end - start)?;
        Ok(Request::read(tag, offset, buffer))
    }

    fn finish(&mut self, completion: Completion) -> Result<()> {
        let Some(request) = self.pending.remove(&completion.tag) else {
            bail!("tag {:#x} came twice, or was never given", completion.tag);
        };
        let (start, bytes) = (request.start, request.end - request.start);
        let what = format!("{} of {bytes} bytes at {start}", if request.write { "write" } else { "read" });
        ensure!(completion.result == Ok(bytes as u32), "{what}: {:?}", completion.result);
        let mut buffer = completion.buffer.with_context(|| format!("{what}: its buffer is not handed back"))?;
        ensure!(buffer.len() == bytes, "{what}: its buffer came back with {} bytes", buffer.len());
        if request.write {
            self.written = Some((start, request.end));
        }
        if request.write || !self.pair.moves_data() {
            return Ok(());
        }
        ensure_same(&what, &self.image[start..request.end], &buffer)?;
        buffer.set_len(bytes + MARGIN.0)?;
        ensure_same(&format!("{what}: past its end"), &[MARGIN.1; MARGIN.0], &buffer[bytes..])
    }
}

/// Reads the image from end to end and compares.
fn read_everything(pair: &Pair<'_>, image: &[u8]) -> Result<()> {
    let piece_bytes = pair.request_bytes(FRAME_BYTES);
    let pool = pool(image.len() / piece_bytes, piece_bytes)?;
    let mut queue = pair.queue(pair.depth(16), &pool)?;
    let request = |(piece, buffer): (usize, Buffer)| Request::read(piece as u64, (piece * piece_bytes) as u64, buffer);
    let requests: Vec<Request> = std::iter::from_fn(|| pool.take()).enumerate().map(request).collect();
    for completion in drive::run(&mut *queue, requests)? {
        let start = completion.tag as usize * piece_bytes;
        ensure!(completion.result == Ok(piece_bytes as u32), "read at {start}: {:?}", completion.result);
        let buffer = completion.buffer.context("a read without its buffer")?;
        if pair.moves_data() {
            ensure_same(&format!("read at {start}"), &image[start..start + piece_bytes], &buffer)?;
        }
    }
    Ok(())
}
