//! Drives that change between the kernel and iolane's own driver: what one path writes every other one reads, and what was
//! acknowledged and flushed is there after the writer was killed.
//!
//! Both overwrite the drives in `IOLANE_NVME_DRIVES="0000:00:04.0 0000:00:05.0"`, PCI addresses of drives that are bound to the
//! kernel before and after; without it the tests print SKIPPED. `IOLANE_NVME_SEED` is the seed of random choices.

#[allow(dead_code, reason = "its data is its own, whatever the check")]
#[path = "conformance/content.rs"]
mod content;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use content::{content, ensure_same, fill};
use iolane::nvme::{Bdf, Restored, Returned, bind, controllers, restore};
use iolane::{ErrorKind, IoPath, Pages, Pool, Queue, QueueConfig, Request, Target};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Writes a line past the harness's capture.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// One test at a time: both take the same drives.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The drives that may be used; none are a skip.
fn drives(what: &str) -> Result<Vec<Bdf>> {
    let named = std::env::var("IOLANE_NVME_DRIVES").unwrap_or_default();
    if named.is_empty() {
        say(&format!(
            "SKIPPED nvme {what}: no drive is named; set IOLANE_NVME_DRIVES to PCI addresses, all is lost on them"
        ));
    }
    Ok(named.split_whitespace().map(str::parse).collect::<iolane::Result<_>>()?)
}

fn seed() -> u64 {
    std::env::var("IOLANE_NVME_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The first namespace of a drive that the kernel has: its block device, and its generic device where there is one.
fn devices(bdf: Bdf) -> Result<Vec<String>> {
    let all = controllers()?;
    let namespaces = all.iter().find(|controller| controller.bdf == bdf).map(|controller| &controller.namespaces);
    let block = &namespaces.and_then(|all| all.first()).with_context(|| format!("the kernel has no {bdf}"))?.name;
    let generic = format!("/dev/{}", block.replacen("nvme", "ng", 1));
    let devices = [format!("/dev/{block}")].into_iter().chain(Some(generic).filter(|name| Path::new(name).exists()));
    Ok(devices.collect())
}

fn take(bdf: Bdf) -> Result<String> {
    bind(&[bdf], None, &mut |_| {})?;
    Ok(format!("pci:{bdf}"))
}

fn give_back(bdf: Bdf) -> Result<()> {
    let restored = restore(&[bdf])?.pop().context("nothing was given back")?.1?;
    ensure!(restored == Restored::Returned(Returned::ToDriver("nvme".into())), "{bdf}: {restored:?}");
    Ok(())
}

/// What each path writes, one after the other on the drive.
const REGION_BYTES: usize = 32 << 10;
const FRAME_BYTES: usize = 12 << 10;
const DEPTH: u32 = 8;

/// A path on a device.
struct Lane {
    path: IoPath,
    target: Target,
}

impl Lane {
    fn name(&self) -> String {
        format!("{} on {}", self.path, self.target.name())
    }

    /// Every path available on the devices; the reasons for the others are added to `skipped`.
    fn all(devices: &[String], skipped: &mut BTreeSet<String>) -> Result<Vec<Self>> {
        let mut lanes = Vec::new();
        for device in devices {
            let target = Target::options().write_unguarded().open(device)?;
            let interfaces = iolane::interfaces().filter(|interface| interface.reaches(target.kind()));
            for path in interfaces.flat_map(iolane::Interface::paths) {
                // Passthrough is tried only on the generic device.
                if (path.interface() == "io_uring_cmd") != device.starts_with("/dev/ng") {
                    continue;
                }
                let lane = Self { path, target: target.clone() };
                match lane.open() {
                    Ok(_) => lanes.push(lane),
                    Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Exhausted) => {
                        skipped.insert(format!("nvme {}: {}; {}", lane.name(), error.cause(), error.remedy_text()));
                    }
                    Err(error) => bail!("{}: {error}", lane.name()),
                }
            }
        }
        Ok(lanes)
    }

    fn open(&self) -> iolane::Result<(Box<dyn Queue>, Pool)> {
        let depth = iolane::probe(&self.path, &self.target)?.depth_max.min(DEPTH);
        let pool = Pool::new(depth as usize, FRAME_BYTES, Pages::Base)?;
        let queue = iolane::open_queue(&self.path, &self.target, &QueueConfig::new(depth).pool(&pool))?;
        Ok((queue, pool))
    }

    /// Runs one request for each piece of a region: single blocks, odd numbers of them, and as many as a buffer holds.
    fn each_piece(&self, queue: &mut dyn Queue, pool: &Pool, region: usize, writes: bool) -> Result<()> {
        let block = self.target.block_bytes() as usize;
        let lengths = [block, FRAME_BYTES, 3 * block, 4096, FRAME_BYTES - block];
        let (mut at, mut turns) = (0, lengths.iter().cycle());
        let mut completions = Vec::new();
        while at < REGION_BYTES || queue.in_flight() > 0 {
            let mut requests = Vec::new();
            while at < REGION_BYTES
                && queue.in_flight() + requests.len() < queue.depth()
                && let Some(mut buffer) = pool.take()
            {
                let bytes = (*turns.next().context("a cycle ends")?).min(REGION_BYTES - at);
                let offset = (region * REGION_BYTES + at) as u64;
                buffer.set_len(bytes)?;
                let tag = (at << 20 | bytes) as u64;
                requests.push(match writes {
                    true => {
                        fill(&mut buffer, offset, region as u64);
                        Request::write(tag, offset, buffer)
                    }
                    false => Request::read(tag, offset, buffer),
                });
                at += bytes;
            }
            queue.submit(&mut requests);
            ensure!(requests.is_empty(), "{}: it took fewer than its depth", self.name());
            queue.reap(1, &mut completions)?;
            for completion in completions.drain(..) {
                let (at, bytes) = ((completion.tag >> 20) as usize, (completion.tag & 0xf_ffff) as usize);
                let what = format!("{}: region {region}, {bytes} bytes at {at}", self.name());
                ensure!(completion.result == Ok(bytes as u32), "{what}: {:?}", completion.result);
                let buffer = completion.buffer.with_context(|| format!("{what}: no buffer"))?;
                let offset = (region * REGION_BYTES + at) as u64;
                ensure_same(&what, &content(bytes, offset, region as u64), &buffer)?;
            }
        }
        Ok(())
    }
}

/// Each lane writes the next region, then each reads all regions that were ever written.
fn cross(lanes: &[Lane], regions: &mut usize) -> Result<()> {
    for lane in lanes {
        let (mut queue, pool) = lane.open().with_context(|| lane.name())?;
        lane.each_piece(&mut *queue, &pool, *regions, true)?;
        *regions += 1;
    }
    for lane in lanes {
        let (mut queue, pool) = lane.open().with_context(|| lane.name())?;
        (0..*regions).try_for_each(|region| lane.each_piece(&mut *queue, &pool, region, false))?;
    }
    Ok(())
}

#[test]
fn what_one_path_wrote_every_other_reads_whoever_has_the_drive() -> Result<()> {
    let _turn = turn();
    for bdf in drives("crossing between the kernel and user space")? {
        let (mut regions, mut skipped) = (0, BTreeSet::new());
        let by_kernel = cross_all(&devices(bdf)?, &mut regions, &mut skipped)?;
        let by_user = cross_all(&[take(bdf)?], &mut regions, &mut skipped)?;
        give_back(bdf)?;
        cross_all(&devices(bdf)?, &mut regions, &mut skipped)?;
        skipped.iter().for_each(|what| say(&format!("SKIPPED {what}")));
        ensure!(by_user > 0 && by_kernel > 0, "{bdf}: {by_kernel} paths of the kernel, {by_user} without it");
        println!(
            "{bdf}: {by_kernel} paths of the kernel and {by_user} without it read what each wrote, {regions} regions"
        );
    }
    Ok(())
}

/// Crosses all lanes to these devices, closes them, and says how many there were.
fn cross_all(devices: &[String], regions: &mut usize, skipped: &mut BTreeSet<String>) -> Result<usize> {
    let lanes = Lane::all(devices, skipped)?;
    cross(&lanes, regions)?;
    Ok(lanes.len())
}

/// The writes between two flushes: number and size of consecutive blocks.
const BATCH_BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 4096;
const BATCH_BYTES: usize = BATCH_BLOCKS * BLOCK_BYTES;
const BATCHES_MAX: u64 = 4096;
const KILLS: u64 = 3;

/// Not a test in itself: what the next one starts as a process of its own, and kills. A batch's number is printed when the
/// drive has acknowledged its blocks and the flush after them.
#[test]
fn a_writer_that_is_to_be_killed() -> Result<()> {
    let Ok(name) = std::env::var("IOLANE_NVME_WRITER") else { return Ok(()) };
    let (target, round) = name.split_once(' ').context("IOLANE_NVME_WRITER is a target and a number")?;
    let round: u64 = round.parse()?;
    let target = Target::options().write_unguarded().open(target)?;
    let pool = Pool::new(BATCH_BLOCKS, BLOCK_BYTES, Pages::Base)?;
    let path = if round.is_multiple_of(2) { "nvme" } else { "nvme+int" };
    let mut queue = iolane::open_queue(&path.parse()?, &target, &QueueConfig::new(BATCH_BLOCKS as u32).pool(&pool))?;
    let mut completions = Vec::new();
    for batch in 0..BATCHES_MAX {
        let start = batch * BATCH_BYTES as u64;
        let write = |block: usize| {
            let (mut buffer, offset) = (pool.take()?, start + (block * BLOCK_BYTES) as u64);
            fill(&mut buffer, offset, generation(round, batch));
            Some(Request::write(block as u64, offset, buffer))
        };
        queue.submit(&mut (0..BATCH_BLOCKS).filter_map(write).collect());
        queue.reap(BATCH_BLOCKS, &mut completions)?;
        queue.submit(&mut [Request::fdatasync(0)].into());
        queue.reap(1, &mut completions)?;
        ensure!(completions.len() == BATCH_BLOCKS + 1, "{} completions", completions.len());
        for completion in completions.drain(..) {
            completion.result?;
        }
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{batch}")?;
        stdout.flush()?;
    }
    Ok(())
}

fn generation(round: u64, batch: u64) -> u64 {
    round << 32 | batch
}

#[test]
fn what_was_flushed_is_there_after_the_writer_was_killed() -> Result<()> {
    let _turn = turn();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
    for bdf in drives("killing a writer")? {
        for round in 0..KILLS {
            let target = take(bdf)?;
            // Some kills come before the first flush, most in the middle of a batch.
            let (batches, delay_us) = (random.next_u64() % 60 * round, random.next_u64() % 2000);
            let flushed = kill_a_writer(&target, round, batches, Duration::from_micros(delay_us))?;
            give_back(bdf)?;
            let device = &devices(bdf)?[0];
            let file = Target::open(device)?;
            for batch in 0..flushed {
                check_batch(&file, round, batch)
                    .with_context(|| format!("{device}, killed after {flushed} batches"))?;
            }
            println!("{bdf}: killed after {flushed} flushed batches, all of which are there");
        }
    }
    Ok(())
}

/// Starts a writer and kills it a little after it has reported `batches`; returns how many it reported.
fn kill_a_writer(target: &str, round: u64, batches: u64, delay: Duration) -> Result<u64> {
    let mut writer = Command::new(std::env::current_exe()?)
        .args(["--exact", "a_writer_that_is_to_be_killed", "--nocapture"])
        .env("IOLANE_NVME_WRITER", format!("{target} {round}"))
        .stdout(Stdio::piped())
        .spawn()?;
    let pipe = writer.stdout.take().context("the writer has no pipe")?;
    // Else the harness's words are among the numbers.
    let mut numbers = BufReader::new(pipe).lines().map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok());
    let mut flushed = 0;
    while flushed < batches && numbers.next() == Some(flushed) {
        flushed += 1;
    }
    std::thread::sleep(delay);
    writer.kill()?;
    let ended = writer.wait()?;
    ensure!(ended.code().is_none(), "the writer ended by itself after {flushed} batches: {ended}");
    for number in numbers {
        ensure!(number == flushed, "the writer reported batch {number} after {flushed}");
        flushed += 1;
    }
    ensure!(flushed >= batches, "the writer was to be killed after {batches} batches, and reported {flushed}");
    Ok(flushed)
}

fn check_batch(target: &Target, round: u64, batch: u64) -> Result<()> {
    let start = batch * BATCH_BYTES as u64;
    let pool = Pool::new(1, BATCH_BYTES, Pages::Base)?;
    let mut queue = iolane::open_queue(&"psync".parse()?, target, &QueueConfig::new(1).pool(&pool))?;
    queue.submit(&mut [Request::read(0, start, pool.take().context("no buffer")?)].into());
    let mut completions = Vec::new();
    queue.drain(&mut completions)?;
    let completion = completions.pop().context("no completion")?;
    ensure!(completion.result == Ok(BATCH_BYTES as u32), "batch {batch}: {:?}", completion.result);
    let buffer = completion.buffer.context("no buffer came back")?;
    ensure_same(&format!("batch {batch}"), &content(BATCH_BYTES, start, generation(round, batch)), &buffer)
}
