//! Writes to a drive that does not answer: memory that was handed back is no longer read by the drive, however late it answers.
//!
//! Each path has a region of the drive for each of two stalls, full of a first generation. While the drive does not answer, half of its requests
//! write a second one. The memory of each write that ended, or whose queue is gone, is filled at once with bytes that belong on no drive. When
//! the drive answers again, a sector holds the second generation if its write succeeded, one of the two if it is not known whether it was carried
//! out, and the first elsewhere.
//!
//! A drive that vanishes is written as well until it is gone; what it held then is gone with it.

#[allow(dead_code, reason = "it compares sector by sector")]
#[path = "../conformance/content.rs"]
mod content;

use content::{content, fill};
use iolane::nvme::{Bdf, bind, restore};

use super::*;

/// What the memory of a write is filled with once it is free.
const OTHERS: u8 = 0xee;
/// As many blocks as the deepest queue writes, and what lies between them.
const REGION_BYTES: usize = DEPTH as usize * STRIDE_BYTES as usize;
/// Behind the blocks that are read.
const REGIONS_BEGIN: u64 = BLOCKS * STRIDE_BYTES;
const FIRST: u64 = 1;
const SECOND: u64 = 2;

/// What becomes of the requests of a stall: they are waited for, or their queue is dropped.
#[derive(Clone, Copy)]
pub(super) enum Stall {
    Answered,
    Dropped,
}

impl Stall {
    /// Where the region of a lane begins.
    fn region(self, lane: &Lane) -> u64 {
        REGIONS_BEGIN + (2 * lane.number + self as u64) * REGION_BYTES as u64
    }

    fn how_writes_failed(self) -> &'static str {
        match self {
            Self::Answered => "answered with an error",
            Self::Dropped => "whose queue was dropped",
        }
    }
}

/// Opens a drive for reading, and for writing too if it is one of those that `IOLANE_FAULTS_WRITTEN` names.
pub(super) fn options(device: &str) -> TargetOptions {
    let written = std::env::var("IOLANE_FAULTS_WRITTEN").unwrap_or_default();
    let is_named = written.split_whitespace().any(|name| name == device);
    if is_named { Target::options().write_unguarded() } else { Target::options() }
}

/// Reads and writes in turn, in the lane's first region; reads of a drive that may not be written.
pub(super) fn alternate(lane: &Lane, tag: u64, mut buffer: Buffer) -> Request {
    let offset = Stall::Answered.region(lane) + tag % u64::from(DEPTH) * STRIDE_BYTES;
    if tag.is_multiple_of(2) || !lane.target.writable() {
        return Request::read(tag, offset, buffer);
    }
    fill(&mut buffer, offset, FIRST);
    Request::write(tag, offset, buffer)
}

/// Writes the first generation to both regions of a lane, if its drive may be written.
pub(super) fn write_first(lane: &Lane) -> Result<()> {
    if !lane.target.writable() {
        return Ok(());
    }
    lane.at("writing the first generation");
    let pool = Pool::new(1, REGION_BYTES, Pages::Base)?;
    let mut queue = lane.open(&pool)?;
    for stall in [Stall::Answered, Stall::Dropped] {
        let region = stall.region(lane);
        let mut buffer = pool.take().context("the one buffer is free")?;
        fill(&mut buffer, region, FIRST);
        let result = carry_out(&mut *queue, Request::write(0, region, buffer))?.result;
        ensure!(result == Ok(REGION_BYTES as u32), "the first generation at {region}: {result:?}");
    }
    Ok(())
}

/// The writes of the second generation by one lane in one stall.
pub(super) struct Writes {
    path: String,
    stall: Stall,
    region: u64,
    /// By tag, whether the write succeeded.
    succeeded: HashMap<u64, bool>,
    /// What was handed back, kept so that nothing else gets the addresses that the drive was told.
    memory: Vec<Buffer>,
}

impl Writes {
    /// `None` for a drive that is only read.
    pub(super) fn of(lane: &Lane, stall: Stall) -> Option<Self> {
        lane.target.writable().then(|| Self {
            path: lane.path.to_string(),
            stall,
            region: stall.region(lane),
            succeeded: HashMap::new(),
            memory: Vec::new(),
        })
    }

    /// Half of the requests write; of a blocking path, which has one request at a time, that of the first stall.
    pub(super) fn include(&self, tag: u64) -> bool {
        (tag + self.stall as u64).is_multiple_of(2)
    }

    /// The write of this tag.
    pub(super) fn begin(&mut self, tag: u64, mut buffer: Buffer) -> Request {
        let offset = self.region + tag * STRIDE_BYTES;
        fill(&mut buffer, offset, SECOND);
        self.succeeded.insert(tag, false);
        Request::write(tag, offset, buffer)
    }

    /// Takes the memory of a write that ended, and fills it.
    pub(super) fn end(&mut self, completion: &mut Completion) -> Result<()> {
        let Some(succeeded) = self.succeeded.get_mut(&completion.tag) else { return Ok(()) };
        let mut buffer = completion.buffer.take().context("a buffer each")?;
        buffer.fill(OTHERS);
        self.memory.push(buffer);
        if let Ok(bytes) = completion.result {
            ensure!(bytes as usize == BLOCK_BYTES, "tag {}: {bytes} bytes were written", completion.tag);
            *succeeded = true;
        }
        Ok(())
    }

    /// Fills all memory of a pool whose queue is gone.
    pub(super) fn end_all(mut self, pool: &Pool) -> Self {
        self.memory.extend(std::iter::from_fn(|| pool.take()));
        self.memory.iter_mut().for_each(|buffer| buffer.fill(OTHERS));
        self
    }

    /// How many did not succeed, as far as is known.
    fn failed(&self) -> usize {
        self.succeeded.values().filter(|succeeded| !**succeeded).count()
    }

    /// Compares a region with what it may hold; gives what the writes that did not succeed left, in words.
    fn compare(&self, found: &[u8], sector_bytes: usize) -> Result<String> {
        let generations =
            [FIRST, SECOND].map(|generation| (generation, content(REGION_BYTES, self.region, generation)));
        let mut left = Vec::new();
        for at in (0..REGION_BYTES).step_by(sector_bytes) {
            let sector = at..at + sector_bytes;
            let is_held = |content: &[u8]| content[sector.clone()] == found[sector.clone()];
            let holds = generations.iter().find(|(_, content)| is_held(content)).map(|(generation, _)| *generation);
            let (tag, within) = (at as u64 / STRIDE_BYTES, at % STRIDE_BYTES as usize);
            match (holds, self.succeeded.get(&tag).copied().filter(|_| within < BLOCK_BYTES)) {
                (Some(FIRST), None) | (Some(SECOND), Some(true)) => {}
                (Some(generation), Some(false)) => left.push(format!("sector of generation {generation}")),
                (_, succeeded) => {
                    let (wanted, holds) = (wanted(succeeded), in_words(holds, &found[sector]));
                    bail!("block {tag}, byte {within}: it holds {holds}; it should hold {wanted}");
                }
            }
        }
        Ok(tally(left))
    }
}

/// What a sector holds that it should not.
fn in_words(generation: Option<u64>, sector: &[u8]) -> String {
    if let Some(generation) = generation {
        return format!("generation {generation}");
    }
    let was_free = sector.chunks(8).any(|word| word == [OTHERS; 8]);
    let what = if was_free { "memory that had been handed back" } else { "what was never written to it" };
    format!("{what}, {:02x?} first", &sector[..8])
}

/// What a sector should hold by what came of the write to it, if there was one.
fn wanted(succeeded: Option<bool>) -> &'static str {
    match succeeded {
        None => "generation 1, since there was no other write",
        Some(false) => "generation 1 or 2, since the write did not succeed",
        Some(true) => "generation 2, since the write succeeded",
    }
}

/// Reads what was written, now that the drive answers again.
pub(super) fn check(device: &str, all: &[Writes]) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let answered = all.iter().filter(|writes| matches!(writes.stall, Stall::Answered));
    ensure!(answered.map(Writes::failed).sum::<usize>() > 0, "{device} carried every write out, so it did not stall");
    let target = Target::open(device)?;
    let pool = Pool::new(1, REGION_BYTES, Pages::Base)?;
    let mut queue = iolane::open_queue(&plain_path(device), &target, &QueueConfig::new(1).pool(&pool))?;
    for writes in all {
        let buffer = pool.take().context("the one buffer is free")?;
        let done = carry_out(&mut *queue, Request::read(0, writes.region, buffer))?;
        ensure!(done.result == Ok(REGION_BYTES as u32), "reading {device} at {}: {:?}", writes.region, done.result);
        let found = done.buffer.context("a buffer each")?;
        let (path, failed, how) = (&writes.path, writes.failed(), writes.stall.how_writes_failed());
        let compared = writes.compare(&found, target.block_bytes() as usize);
        let left = compared.with_context(|| format!("{path} on {device}, with writes {how}"))?;
        if failed > 0 {
            say(&format!("faults: {path} on {device}: {failed} writes {how} left {left}"));
        }
    }
    Ok(())
}

/// The same by the user-space driver, to which the kernel gives the drive meanwhile.
pub(super) fn check_without_kernel(device: &str, all: &[Writes]) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let slot = std::fs::canonicalize(controller(device)?.join("device"))?;
    let bdf: Bdf = slot.file_name().context("a controller has an address")?.to_string_lossy().parse()?;
    bind(&[bdf], None, &mut |_| {})?;
    let checked = check(&format!("pci:{bdf}"), all);
    restore(&[bdf])?.pop().context("nothing was given back")?.1?;
    checked
}

#[test]
fn a_lost_a_foreign_and_a_late_write_are_noticed() {
    let block = |tag: usize| tag * STRIDE_BYTES as usize..tag * STRIDE_BYTES as usize + BLOCK_BYTES;
    let writes = Writes {
        path: "psync".into(),
        stall: Stall::Answered,
        region: REGIONS_BEGIN,
        succeeded: [(0, true), (1, false)].into(),
        memory: Vec::new(),
    };
    let [first, second] = [FIRST, SECOND].map(|generation| content(REGION_BYTES, REGIONS_BEGIN, generation));
    let with = |tag: usize, source: &[u8]| {
        let mut found = first.clone();
        found[block(0)].copy_from_slice(&second[block(0)]);
        found[block(tag)].copy_from_slice(&source[block(tag)]);
        writes.compare(&found, 512).map_err(|error| error.to_string())
    };
    assert_eq!(with(1, &first).unwrap(), "8 x sector of generation 1");
    assert_eq!(with(1, &second).unwrap(), "8 x sector of generation 2");
    assert!(with(0, &first).unwrap_err().contains("it holds generation 1; it should hold generation 2"));
    assert!(with(2, &second).unwrap_err().contains("it holds generation 2; it should hold generation 1"));
    let foreign = content(REGION_BYTES, REGIONS_BEGIN + REGION_BYTES as u64, SECOND);
    assert!(with(1, &foreign).unwrap_err().contains("what was never written to it"));
    assert!(with(1, &vec![OTHERS; REGION_BYTES]).unwrap_err().contains("memory that had been handed back"));
}
