//! Writes to a drive whose writes are recorded: each example on each path that reaches it, in a part of the drive of its own.

use std::cell::RefCell;

use anyhow::{Context, Result, anyhow, ensure};
use iolane::{IoPath, Operations, Pages, Pool, Queue, QueueConfig, Request, Target, TargetId, open_queue, probe};

use crate::page_writer::{self, PAGE_BYTES, Snapshots};
use crate::workload::{self, KINDS, Kind, Note, Notes, Placed, RUN_BYTES};
use crate::write_ahead::files::{BLOCK_BYTES, BLOCKS, Files};
use crate::write_ahead::{GROUP_MAX, Store};

/// One run: an example on a path, at a place of the drive.
struct Run<'a> {
    path: &'a IoPath,
    depth_max: u32,
    can: Operations,
    target: &'a Target,
    kind: Kind,
    seed: u64,
    begin: u64,
}

/// Records all runs on a drive; prints one line for each, and SKIPPED for those that are not possible.
pub(crate) fn record(device: &str, seed: u64) -> Result<()> {
    let target = Target::options().write_unguarded().open(device)?;
    let mut runs = 0;
    let mut unsynced = false;
    for path in paths(device)? {
        if !belongs_to(&path, target.kind())? {
            continue;
        }
        let can = match probe(&path, &target) {
            Ok(can) => can,
            Err(error) => {
                println!("SKIPPED power cuts, {path} on {device}: {error}");
                continue;
            }
        };
        if !can.operations.contains(Operations::FDATASYNC) {
            println!("SKIPPED power cuts, {path} on {device}: the path has no fdatasync");
            continue;
        }
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Unsynced || !std::mem::replace(&mut unsynced, true))
        {
            let begin = runs * RUN_BYTES;
            ensure!(begin + RUN_BYTES <= target.bytes(), "{device} is too small for {} runs", runs + 1);
            let depth_max = can.depth_max;
            // Only this one makes durable writes.
            let is_snapshot = kind == Kind::PageWriter;
            let can = if is_snapshot { observable(&path, &target, can.operations) } else { can.operations };
            let run = Run { path: &path, depth_max, can, target: &target, kind, seed: seed * 1000 + runs, begin };
            run.go().map_err(|error| anyhow!("{} by {path} on {device}: {error}", kind.name()))?;
            println!("recorded {} by {path} on {device}", kind.name());
            runs += 1;
        }
    }
    ensure!(runs > 0, "no path reaches {device}");
    Ok(())
}

/// All paths, with those of their options that change how requests are submitted; or those named.
fn paths(device: &str) -> Result<Vec<IoPath>> {
    match std::env::var("IOLANE_CUTS_PATHS") {
        Ok(list) if device.starts_with("/dev/nvme") => return Ok(iolane::paths_of(&list)?),
        _ => {}
    }
    let of = |interface: &dyn iolane::Interface| [interface.paths(), interface.option_variants()].concat();
    Ok(iolane::interfaces().flat_map(of).collect())
}

/// What a path can do as far as it can be observed. QEMU's drive ignores the bit of a write that makes it durable (FUA), so that its record lacks it;
/// the kernel's tracepoint shows the bit, and nothing does without a kernel driver.
fn observable(path: &IoPath, target: &Target, can: Operations) -> Operations {
    if target.kind().has_descriptor() || !can.contains(Operations::DURABLE_WRITE) {
        return can;
    }
    println!(
        "SKIPPED power cuts, durable writes by {path}: QEMU's drive has no FUA; a flush makes them durable instead"
    );
    can.without(Operations::DURABLE_WRITE)
}

/// Whether a path is meant for targets of this kind: a target of an interface's own is for it only.
fn belongs_to(path: &IoPath, kind: iolane::TargetKind) -> Result<bool> {
    let own = iolane::interface_of(path)?.own_target();
    Ok(own.map_or(kind.has_descriptor(), |own| own == kind))
}

impl Run<'_> {
    fn go(&self) -> Result<(), Box<dyn std::error::Error>> {
        let forced = self.kind == Kind::PageWriter && self.can.contains(Operations::DURABLE_WRITE);
        let note = Note { kind: self.kind, seed: self.seed, acknowledged: 0, forced, path: self.path.to_string() };
        let pool = workload::note_pool()?;
        self.clear()?;
        let notes = RefCell::new(Notes::new(self.queue(1, &pool)?, pool, self.begin, note));
        notes.borrow_mut().acknowledge(0)?;
        match self.kind {
            Kind::PageWriter if forced => {
                let trace = Trace::begin()?;
                self.write_snapshots(&notes)?;
                let roots = trace.forced_writes(
                    &[0, 1].map(|root| self.begin + Kind::PageWriter.places()[0] + root * PAGE_BYTES as u64),
                    self.target,
                )?;
                if roots != self.kind.commits() {
                    return Err(format!("{roots} roots of {} were written with FUA", self.kind.commits()).into());
                }
            }
            Kind::PageWriter => self.write_snapshots(&notes)?,
            _ => self.write_ahead(&notes)?,
        }
        // The record of a run ends with a flush.
        let mut queue = self.queue(1, &workload::note_pool()?)?;
        carry_out(&mut *queue, Request::fdatasync(0))?;
        Ok(())
    }

    /// Writes zeroes over the files. An example recovers whatever it finds, so that after a cut before its first commit it would
    /// recover what an earlier user of the drive left, and the check would count that as a loss.
    fn clear(&self) -> Result<()> {
        const CHUNK_BYTES: u64 = 64 << 10;
        let pool = Pool::new(1, CHUNK_BYTES as usize, Pages::Base)?;
        let mut queue = self.queue(1, &pool)?;
        let begin = self.begin + self.kind.places()[0];
        let end = begin + self.kind.files_bytes();
        for at in (begin..end).step_by(CHUNK_BYTES as usize) {
            let mut zeroes = pool.take().context("a chunk in flight")?;
            zeroes.set_len((end - at).min(CHUNK_BYTES) as usize)?;
            zeroes.fill(0);
            carry_out(&mut *queue, Request::write(0, at, zeroes))?;
        }
        carry_out(&mut *queue, Request::fdatasync(0))
    }

    fn queue(&self, depth: u32, pool: &Pool) -> iolane::Result<Box<dyn Queue>> {
        open_queue(self.path, self.target, &QueueConfig::new(self.depth_max.min(depth)).pool(pool))
    }

    /// Twice opens the store again, which recovers it.
    fn write_ahead(&self, notes: &RefCell<Notes>) -> Result<(), Box<dyn std::error::Error>> {
        let groups = workload::groups(self.seed);
        let mut count = 0;
        for part in groups.chunks(groups.len() / 3) {
            let pool = Pool::new(BLOCKS as usize, BLOCK_BYTES, Pages::Base)?;
            let targets = file_targets()?;
            let queue = Placed::new(self.queue(2 * GROUP_MAX as u32, &pool)?, &targets, self.begin, self.kind);
            let files =
                Files { queue: Box::new(queue), targets, pool, waiting: Vec::new(), unfinished: Default::default() };
            let mut store = Store::recover(files)?;
            for group in part {
                count += 1;
                store.commit(group, || notes.borrow_mut().acknowledge(count).map_err(std::io::Error::other))?;
            }
        }
        Ok(())
    }

    fn write_snapshots(&self, notes: &RefCell<Notes>) -> Result<(), Box<dyn std::error::Error>> {
        let pool = Pool::new(page_writer::FRAMES, PAGE_BYTES, Pages::Base)?;
        let queue = Placed::new(self.queue(page_writer::DEPTH, &pool)?, &[TargetId::FIRST], self.begin, self.kind);
        let mut snapshots = Snapshots::open(Box::new(queue), pool, self.can)?;
        for (count, pages) in (1..).zip(workload::snapshots(self.seed)) {
            snapshots.write(&pages.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            notes.borrow_mut().acknowledge(count)?;
        }
        Ok(())
    }
}

/// Waits until a request is done, wholly.
fn carry_out(queue: &mut dyn Queue, request: Request) -> Result<()> {
    let bytes = request.operation.buffer().map_or(0, |buffer| buffer.len());
    queue.submit(&mut vec![request]);
    let mut completions = Vec::new();
    queue.drain(&mut completions)?;
    let done = completions.pop().context("no completion")?.result?;
    ensure!(done as usize == bytes, "{done} bytes of {bytes} were written");
    Ok(())
}

/// The kernel's trace of the commands that its NVMe driver prepares.
struct Trace;

impl Trace {
    const FOLDER: &str = "/sys/kernel/tracing";
    const SWITCH: &str = "events/nvme/nvme_setup_cmd/enable";

    fn begin() -> Result<Self> {
        for (file, text) in [("trace", ""), (Self::SWITCH, "1")] {
            let file = format!("{}/{file}", Self::FOLDER);
            std::fs::write(&file, text).with_context(|| file)?;
        }
        Ok(Self)
    }

    /// How many writes to these offsets were to be durable at once: `ctrl` is the upper half of their dword 12, FUA its bit 14.
    fn forced_writes(&self, offsets: &[u64], target: &Target) -> Result<u64> {
        let text = std::fs::read_to_string(format!("{}/trace", Self::FOLDER))?;
        let field = |line: &str, name: &str| -> Option<u64> {
            let (_, rest) = line.split_once(name)?;
            let value = rest.split([',', ')']).next()?;
            value.strip_prefix("0x").map_or_else(|| value.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
        };
        let is_forced = |line: &&str| {
            let offset = field(line, "slba=").map(|block| block * u64::from(target.block_bytes()));
            let control = field(line, "ctrl=").unwrap_or(0);
            line.contains("nvme_cmd_write ") && offset.is_some_and(|at| offsets.contains(&at)) && control & 1 << 14 != 0
        };
        Ok(text.lines().filter(is_forced).count() as u64)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::write(format!("{}/{}", Self::FOLDER, Self::SWITCH), "0");
    }
}

/// What the store calls its two files.
fn file_targets() -> Result<[TargetId; 2]> {
    let other = iolane_core::Targets::new(2, ()).attach(()).map_err(|_| anyhow!("no room for a second target"))?;
    Ok([TargetId::FIRST, other])
}
