//! Writes what the applications read, once before the first run.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use iolane::{Error, IoPath, Result, Target};
use iolane_measure::scratch::nameless_file;

use super::database;
use super::layout::{ALIGN, Layout, Part};
use super::packed::{PACKED_BYTES, Packed};
use super::sorted::{BLOCK_BYTES, Sorted};
use crate::application::Application;
use crate::by::By;
use crate::channel::Channel;

/// A target that holds what some applications read.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) layout: Layout,
    database: Option<File>,
    folder: Option<PathBuf>,
}

const _: () = assert!(ALIGN.is_multiple_of(BLOCK_BYTES as u64) && ALIGN.is_multiple_of(PACKED_BYTES as u64));

/// Bytes of a write.
const CHUNK_BYTES: usize = 1 << 20;
const DEPTH: u32 = 8;

impl Prepared {
    /// Overwrites the part of a target that these applications use. Calls `progress` with the share that is written, from 0 to 1.
    ///
    /// # Errors
    /// As [`Layout::of`]; `Unavailable` without a path that can write; `Failed` if `stop` was set.
    pub fn make(
        target: &Target,
        layout: Layout,
        applications: &[Application],
        stop: &AtomicBool,
        mut progress: impl FnMut(f64),
    ) -> Result<Self> {
        let any = |wanted: fn(Application) -> bool| applications.iter().any(|application| wanted(*application));
        let reads_target = any(|application| !application.has_database());
        let has_database = any(Application::has_database);
        let folder = folder_of(target);
        let mut database = None;
        if reads_target {
            let share = if has_database { 0.7 } else { 1.0 };
            write(target, &layout, stop, &mut |done| progress(done * share))?;
        }
        if let Some(folder) = folder.as_ref().filter(|_| has_database) {
            let file = file_in(folder)?;
            database::fill(&file, stop)?;
            database = Some(file);
        }
        progress(1.0);
        Ok(Self { layout, database, folder })
    }

    /// The filled database, or an empty file for one, opened again.
    pub(crate) fn database(&self, is_filled: bool, direct: bool) -> Result<File> {
        let missing = || Error::unavailable("database", "it was not made");
        let fresh = match is_filled {
            true => None,
            false => Some(file_in(self.folder.as_deref().ok_or_else(missing)?)?),
        };
        let file = fresh.as_ref().or(self.database.as_ref()).ok_or_else(missing)?;
        // What the page cache has of it would be read without the drive.
        file.sync_all().map_err(|error| Error::system("database", error))?;
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
        reopened(file, direct)
    }
}

/// The folder of a target that is a file: where a database's own file can be.
pub(crate) fn folder_of(target: &Target) -> Option<PathBuf> {
    let fd = target.fd().filter(|_| target.kind() == iolane::TargetKind::File)?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    Some(name.parent()?.to_owned())
}

fn file_in(folder: &Path) -> Result<File> {
    let what = || format!("a file for a database in {}", folder.display());
    Ok(File::from(nameless_file(folder).map_err(|error| Error::system(what(), error))?))
}

fn reopened(file: &File, direct: bool) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = if direct { rustix::fs::OFlags::DIRECT } else { rustix::fs::OFlags::empty() };
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = File::options().read(true).write(true).custom_flags(flags.bits() as i32).open(name);
    opened.map_err(|error| Error::system("the database's file", error))
}

fn write(target: &Target, layout: &Layout, stop: &AtomicBool, progress: &mut dyn FnMut(f64)) -> Result<()> {
    let paths = ["io_uring", "libaio", "psync", "nvme", "io_uring_cmd"].map(IoPath::new);
    let mut channels = paths.into_iter().map(|path| Channel::open(&By::Path(path), target, DEPTH, CHUNK_BYTES));
    let mut channel = channels.find_map(Result::ok).ok_or_else(|| {
        Error::unavailable(
            format!("target {}", target.name()),
            "no available path can write what the applications read",
        )
    })?;
    let total = (layout.sorted().bytes + layout.packed.bytes) as f64;
    let mut written = 0.0;
    let mut packed = Packed::new();
    for (number, part) in [layout.runs[0], layout.runs[1], layout.packed].into_iter().enumerate() {
        fill(&mut channel, part, stop, &mut |first_byte, chunk| {
            written += chunk.len() as f64;
            progress(written / total);
            if number < 2 {
                Sorted::fill(number as u64, first_byte / BLOCK_BYTES as u64, chunk);
                return Ok(());
            }
            let first = first_byte / PACKED_BYTES as u64;
            let mut blocks = (first..).zip(chunk.chunks_exact_mut(PACKED_BYTES));
            blocks.try_for_each(|(number, block)| packed.fill(number, block))
        })?;
    }
    channel.sync(0);
    channel.finish()?;
    // Through the page cache, what was written would be read from memory.
    if let Some(fd) = target.fd() {
        let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
    }
    Ok(())
}

/// Writes a part, in chunks that `content` fills: it is given the offset in the part.
fn fill(
    channel: &mut Channel,
    part: Part,
    stop: &AtomicBool,
    content: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while at < part.bytes {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::failed("writing what the applications read", "it was interrupted"));
        }
        if channel.room() == 0 {
            channel.wait(1)?.clear();
            continue;
        }
        let mut chunk = channel.take((part.bytes - at).min(CHUNK_BYTES as u64) as usize)?;
        content(at, &mut chunk)?;
        let bytes = chunk.len() as u64;
        channel.write(at, part.start + at, chunk);
        at += bytes;
    }
    channel.finish()
}
