//! The identity of a target, independent of the name it is given by, and the disk of a partition. Two names with one `Identity`
//! are the same data. Nothing here reads or writes a target.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use iolane_core::Target;
use iolane_core::error::describe;
use iolane_nvme::name::TargetName;
use iolane_nvme::pci::Bdf;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::refusal::{Reason, Refusal};
use super::sysfs::{Number, Sysfs, device_number};

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    Block(Number),
    /// A namespace of a controller without a kernel driver; the first active one if there is no identifier.
    Namespace {
        bdf: Bdf,
        identifier: Option<u32>,
    },
}

impl Identity {
    /// `None` if it cannot be a target. Both devices of an NVMe namespace have the same identity.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Self::File { device: stat.st_dev, inode: stat.st_ino }),
            FileType::BlockDevice => Some(Self::Block(device_number(stat))),
            FileType::CharacterDevice => Sysfs::HERE.nvme_namespace(device_number(stat)).map(Self::Block),
            _ => None,
        }
    }

    /// That of a named namespace of a controller without a kernel driver.
    pub(super) fn of_namespace(name: &TargetName) -> Self {
        Self::Namespace { bdf: name.bdf, identifier: name.namespace }
    }

    /// That of an opened target, if it is a namespace of a controller without a kernel driver.
    pub(super) fn of_opened_namespace(target: &Target) -> Option<Self> {
        let (bdf, identifier) = iolane_nvme::namespace_of(target)?;
        Some(Self::Namespace { bdf, identifier: Some(identifier) })
    }

    /// Whether the names leave open if these are the same: one names a namespace of the controller, the other none.
    pub(super) fn may_be(self, other: Self) -> bool {
        match (self, other) {
            (Self::Namespace { bdf, identifier }, Self::Namespace { bdf: other_bdf, identifier: other_identifier }) => {
                bdf == other_bdf && identifier.is_some() != other_identifier.is_some()
            }
            _ => false,
        }
    }
}

/// The parsed name of a target `pci:...`; `None` for any other name.
pub(super) fn namespace_name(target: &OsStr) -> Option<iolane_core::Result<TargetName>> {
    TargetName::parse(target.to_str()?)
}

/// The identity of what a name leads to, if that can be a target.
pub(super) fn identify(name: &OsStr) -> Option<Identity> {
    if let Some(name) = namespace_name(name).and_then(Result::ok) {
        return Some(Identity::of_namespace(&name));
    }
    Identity::of(&rustix::fs::stat(name).ok()?)
}

/// The disk of a partition, if sysfs lists it.
pub(super) fn disk_of(identity: Identity) -> Option<Identity> {
    let Identity::Block(number) = identity else { return None };
    let disk = Sysfs::HERE.block(number).ok()?.disk().ok()??;
    Some(Identity::Block(disk.number))
}

/// A target that exists.
pub(super) struct Found {
    /// A handle that neither reads nor writes (O_PATH), so that the name is not looked up again.
    pub(super) node: OwnedFd,
    pub(super) stat: Stat,
    pub(super) identity: Identity,
}

/// Looks a target up; `None` if it does not exist.
pub(super) fn find(target: &OsStr) -> Result<Option<Found>, Refusal> {
    let cannot = |errno: Errno| {
        let cause = format!("it cannot be looked up ({})", describe(&errno.into()));
        Refusal::new(Reason::Unanswered, cause, "check the name, or run as a user who may see it")
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
            Reason::Unsuitable,
            "it is neither a file, a block device nor an NVMe namespace",
            "name a file, a block device or /dev/ngXnY",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Option<Identity> {
        identify(OsStr::new(name))
    }

    #[test]
    fn a_namespace_is_the_same_under_every_spelling_of_its_address_and_with_any_settings() {
        let same = identity("pci:0000:00:04.0,ns=2").unwrap();
        for name in ["pci:00:04.0,ns=2", "pci:0000:00:04.0,timeout=2s,ns=2,sgl=off"] {
            assert_eq!(identity(name), Some(same), "{name}");
        }
        for name in ["pci:0000:00:04.0", "pci:0000:00:04.0,ns=1", "pci:0000:00:04.1,ns=2", "pci:0001:00:04.0,ns=2"] {
            assert_ne!(identity(name), Some(same), "{name}");
        }
    }

    #[test]
    fn a_name_that_cannot_be_parsed_has_no_identity() {
        for name in ["pci:04.0", "pci:0000:00:04.0,ns=x", "0000:00:04.0", "null"] {
            assert_eq!(identity(name), None, "{name}");
        }
    }
}
