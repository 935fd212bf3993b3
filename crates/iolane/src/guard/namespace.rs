//! Targets `pci:...`: namespaces of controllers that no kernel driver has. The kernel knows nothing of them, so that they
//! cannot be mounted; what they carry is read through the driver in this process. `mod.rs` asks.

use std::ffi::OsStr;
use std::io;

use iolane_core::{Error, IoPath, Pages, Pool, Queue, QueueConfig, Request, Result, Target};
use iolane_nvme::name::TargetName;

use super::identity::Identity;
use super::refusal::{Refusal, shown};
use super::signature;

/// What a name says, if it is one of these.
pub(super) fn name(target: &OsStr) -> Option<Result<TargetName>> {
    TargetName::parse(target.to_str()?)
}

/// Which namespace a name stands for; `None` if it is no such name, or cannot be read.
pub(super) fn identify(target: &OsStr) -> Option<Identity> {
    Some(identity_named(&name(target)?.ok()?))
}

/// Which namespace is named.
pub(super) fn identity_named(name: &TargetName) -> Identity {
    Identity::Namespace { bdf: name.bdf, identifier: name.namespace }
}

/// Which namespace an opened target is; `None` if it is something else.
pub(super) fn identity_of(target: &Target) -> Option<Identity> {
    let (bdf, identifier) = iolane_nvme::namespace_of(target)?;
    Some(Identity::Namespace { bdf, identifier: Some(identifier) })
}

/// Opens the target and checks that nothing would be lost. While it is open nobody else can have the controller: its
/// IOMMU group is opened by one process at a time (Documentation/driver-api/vfio.rst).
pub(super) fn check(target: &OsStr, erase: bool) -> Result<Target> {
    let opened = Target::open(target)?;
    if !erase {
        let mut blocks = Blocks::of(&opened)?;
        let checked = signature::check_extent("it", opened.bytes(), &mut |offset, buffer| blocks.read(offset, buffer));
        checked.map_err(|refusal: Refusal| refusal.of(format!("writing to {}", shown(target))))?;
    }
    Ok(opened)
}

/// What one read brings at most; the longest signature area is looked through in one go.
const FRAME_BYTES: u64 = 128 << 10;

/// Reads of any place and length, as whole blocks on a queue of the path `nvme`.
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

    /// As pread(2): fewer bytes than were asked for are not the end unless they are none.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Option<Identity> {
        identify(OsStr::new(name))
    }

    #[test]
    fn a_namespace_is_the_same_however_its_address_is_spelt_and_whatever_settings_follow() {
        let same = identity("pci:0000:00:04.0,ns=2").unwrap();
        for name in ["pci:00:04.0,ns=2", "pci:0000:00:04.0,timeout=2s,ns=2,sgl=off"] {
            assert_eq!(identity(name), Some(same), "{name}");
        }
        for name in ["pci:0000:00:04.0", "pci:0000:00:04.0,ns=1", "pci:0000:00:04.1,ns=2", "pci:0001:00:04.0,ns=2"] {
            assert_ne!(identity(name), Some(same), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_namespace() {
        for name in ["pci:04.0", "pci:0000:00:04.0,ns=x", "0000:00:04.0", "null"] {
            assert_eq!(identity(name), None, "{name}");
        }
    }
}
