//! Drives that the kernel of a guest has in use in every way, while the guard is asked for them: crates/iolane/tests/guard_drives. What the
//! guest has for it: two drives, modules, and programs of the host that make file systems, arrays and volumes.

use iolane_core::units::Bytes;
use iolane_lab::{Drive, GuestCommand};

use super::steps::Step;
use crate::packages::{self, Package};

pub(super) const PROGRAM: &str = "/bin/guard_drives";
/// What the guest loads.
pub(super) const MODULES: &[&str] = &[
    "crc32c_generic",
    "xxhash_generic",
    "blake2b_generic",
    "ext4",
    "btrfs",
    "loop",
    "dm_mod",
    "md_mod",
    "raid1",
    "bcache",
    "configfs",
    "nvmet",
];
/// The programs that not every Debian machine has.
const PACKAGES: [Package; 5] = [
    needed("e2fsprogs", "mkfs.ext4"),
    needed("btrfs-progs", "mkfs.btrfs"),
    needed("lvm2", "lvm"),
    packages::MDADM,
    packages::BCACHE_TOOLS,
];
/// All that the scripts call.
pub(super) const TOOLS: [&str; 23] = [
    "addpart",
    "cat",
    "delpart",
    "dmsetup",
    "head",
    "ln",
    "losetup",
    "lvm",
    "make-bcache",
    "mdadm",
    "mkdir",
    "mkfs.btrfs",
    "mkfs.ext4",
    "mkswap",
    "mount",
    "rmdir",
    "sh",
    "sleep",
    "swapoff",
    "swapon",
    "touch",
    "umount",
    "unshare",
];
const DRIVE_BYTES: Bytes = Bytes(256 << 20);

const fn needed(name: &'static str, program: &'static str) -> Package {
    Package { name, program, needed_by: packages::MDADM.needed_by }
}

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uses {
    /// Each of the ways once if `None`.
    pub(crate) attempts: Option<u64>,
    pub(crate) seed: u64,
}

/// What every run of the guests has time for.
pub(super) const SLICE: Uses = Uses { attempts: None, seed: 1 };

impl Uses {
    /// What it needs. A way whose package is missing is left out.
    pub(crate) fn packages() -> Vec<Package> {
        [packages::QEMU].into_iter().chain(PACKAGES).collect()
    }

    pub(super) fn drives() -> Vec<Drive> {
        vec![Drive { bytes: DRIVE_BYTES, ..Drive::default() }; 2]
    }

    pub(super) fn step(self) -> Step {
        let command = GuestCommand::new([PROGRAM, "--show-output"])
            .with("IOLANE_GUARD_DRIVES", "/dev/nvme0n1 /dev/nvme1n1")
            .with("IOLANE_GUARD_SEED", self.seed.to_string());
        let command = match self.attempts {
            Some(attempts) => command.with("IOLANE_GUARD_ATTEMPTS", attempts.to_string()),
            None => command,
        };
        Step { name: "drives in use", command }
    }
}
