//! Which thing a name leads to, however it is spelt, and which disk a partition is on.
//! Two names with one `Identity` are the same data; nothing here opens what it looks at.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use iolane_core::error::describe;
use iolane_nvme::pci::Bdf;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::namespace;
use super::refusal::Refusal;
use super::sysfs::{Number, Sysfs, device_number};

/// What a name stands for, however it is spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    Block(Number),
    /// Of a controller that no kernel driver has; without a number it is the first active one.
    Namespace {
        bdf: Bdf,
        identifier: Option<u32>,
    },
}

impl Identity {
    /// `None` for what can be no target. An NVMe namespace is the same thing by both of its devices.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Self::File { device: stat.st_dev, inode: stat.st_ino }),
            FileType::BlockDevice => Some(Self::Block(device_number(stat))),
            FileType::CharacterDevice => Sysfs::HERE.nvme_namespace(device_number(stat)).map(Self::Block),
            _ => None,
        }
    }

    /// Whether it cannot be told from the names that these are two things: one says which namespace, the other does not.
    pub(super) fn may_be(self, other: Self) -> bool {
        match (self, other) {
            (Self::Namespace { bdf, identifier }, Self::Namespace { bdf: other_bdf, identifier: other_identifier }) => {
                bdf == other_bdf && identifier.is_some() != other_identifier.is_some()
            }
            _ => false,
        }
    }
}

/// What a name leads to, if it leads to anything that can be a target.
pub(super) fn identify(name: &OsStr) -> Option<Identity> {
    if let Some(identity) = namespace::identify(name) {
        return Some(identity);
    }
    Identity::of(&rustix::fs::stat(name).ok()?)
}

/// The disk that a partition is on, where sysfs tells.
pub(super) fn disk_of(identity: Identity) -> Option<Identity> {
    let Identity::Block(number) = identity else { return None };
    let disk = Sysfs::HERE.block(number).ok()?.disk().ok()??;
    Some(Identity::Block(disk.number))
}

/// A target that exists.
pub(super) struct Found {
    /// A handle that neither reads nor writes (O_PATH): from here on the name is not looked up again.
    pub(super) node: OwnedFd,
    pub(super) stat: Stat,
    pub(super) identity: Identity,
}

/// Looks a target up; `None` if nothing is there.
pub(super) fn find(target: &OsStr) -> Result<Option<Found>, Refusal> {
    let cannot = |errno: Errno| {
        let cause = format!("it cannot be looked up ({})", describe(&errno.into()));
        Refusal::new(cause, "check the name, or run as a user who may see it")
    };
    let node = match rustix::fs::open(target, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(node) => node,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(cannot(errno)),
    };
    let stat = rustix::fs::fstat(&node).map_err(cannot)?;
    match Identity::of(&stat) {
        Some(identity) => Ok(Some(Found { node, stat, identity })),
        None => Err(Refusal::new(
            "it is neither a file, a block device nor an NVMe namespace",
            "name a file, a block device or /dev/ngXnY",
        )),
    }
}
