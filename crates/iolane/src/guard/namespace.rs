//! Checks of targets `pci:...`, namespaces of controllers without a kernel driver. The kernel does not see them, so they cannot
//! be mounted; their signatures are read through the driver in this process. Called by `mod.rs`.

use std::ffi::OsStr;
use std::io;

use iolane_core::{Error, IoPath, Pages, Pool, Queue, QueueConfig, Request, Result, Target};

use super::refusal::{Reason, Refused, shown};
use super::signature;

/// Opens the target and checks for signatures. While it is open no other process can open the controller: an IOMMU group is
/// opened by one process at a time (Documentation/driver-api/vfio.rst).
pub(super) fn check(target: &OsStr, erase: bool) -> Result<Target, Refused> {
    let unsuitable = |error| Refused::new(Reason::Unsuitable, error);
    let opened = Target::open(target).map_err(unsuitable)?;
    if !erase {
        let mut blocks = Blocks::of(&opened).map_err(unsuitable)?;
        let checked = signature::check_extent("it", opened.bytes(), &mut |offset, buffer| blocks.read(offset, buffer));
        checked.map_err(|refusal| refusal.of(format!("writing to {}", shown(target))))?;
    }
    Ok(opened)
}

/// The most bytes of one read, which holds the longest signature area.
const FRAME_BYTES: u64 = 128 << 10;

/// Reads at any offset and of any length, by whole blocks on a queue of path `nvme`.
struct Blocks {
    queue: Box<dyn Queue>,
    pool: Pool,
    block_bytes: u64,
    bytes: u64,
}

impl Blocks {
    fn of(target: &Target) -> Result<Self> {
        let pool = Pool::new(1, FRAME_BYTES as usize, Pages::Base)?;
        let queue = crate::open_queue(&IoPath::new("nvme"), target, &QueueConfig::new(1).pool(&pool))?;
        Ok(Self { queue, pool, block_bytes: target.block_bytes().into(), bytes: target.bytes() })
    }

    /// As pread(2): a short read is not the end unless it returns 0 bytes.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.bytes {
            return Ok(0);
        }
        let first = offset / self.block_bytes * self.block_bytes;
        let wanted_end = offset.saturating_add(buffer.len() as u64).min(self.bytes);
        let end = wanted_end.next_multiple_of(self.block_bytes).min(first + FRAME_BYTES);
        let blocks = self.read_blocks(first, (end - first) as usize)?;
        let found = &blocks[(offset - first) as usize..];
        let count = found.len().min(buffer.len());
        buffer[..count].copy_from_slice(&found[..count]);
        Ok(count)
    }

    fn read_blocks(&mut self, offset: u64, bytes: usize) -> io::Result<iolane_core::Buffer> {
        let failed = |error: Error| io::Error::other(error.to_string());
        let mut buffer = self.pool.take().ok_or_else(|| io::Error::other("its buffer is taken"))?;
        buffer.set_len(bytes).map_err(failed)?;
        self.queue.submit(&mut [Request::read(0, offset, buffer)].into());
        let mut completions = Vec::new();
        self.queue.reap(1, &mut completions).map_err(failed)?;
        let completion = completions.pop().ok_or_else(|| io::Error::other("a read was not answered"))?;
        let count = completion.result.map_err(io::Error::other)?;
        match completion.buffer {
            Some(buffer) if count as usize == bytes => Ok(buffer),
            _ => Err(io::Error::other("a read came short")),
        }
    }
}
