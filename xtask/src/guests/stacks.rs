//! What people keep their data on: encrypted disks, arrays, and files of the file systems that are common. The conformance suite runs on
//! each, in a guest of its own. What lies between a request and the drive may wait where the drive does not, and refuse what it takes.

use iolane_core::units::Bytes;
use iolane_lab::{Drive, GuestCommand};

use super::steps::{self, Step};
use crate::packages::{self, Package};

/// What the guest loads.
pub(super) const MODULES: &[&str] =
    &["crc32c_generic", "xxhash_generic", "blake2b_generic", "xfs", "btrfs", "dm_mod", "dm_crypt", "md_mod", "raid1"];
const PACKAGES: [Package; 4] = [
    needed("xfsprogs", "mkfs.xfs"),
    needed("btrfs-progs", "mkfs.btrfs"),
    needed("dmsetup", "dmsetup"),
    Package { needed_by: NEEDED_BY, ..packages::MDADM },
];
const NEEDED_BY: &str = "what is built on drives, in guests";
/// All that the script calls.
pub(super) const TOOLS: [&str; 7] = ["dmsetup", "mdadm", "mkdir", "mkfs.btrfs", "mkfs.xfs", "mount", "sh"];
/// xfs takes no smaller drive.
const DRIVE_BYTES: Bytes = Bytes(512 << 20);

/// A disk whose cipher changes nothing, since it is the way of a request that matters; an array of two drives; two file systems.
const MAKE: &str = "set -e
dmsetup create encrypted --table '0 131072 crypt cipher_null-ecb - 0 /dev/nvme0n1 0'
mdadm --quiet --create /dev/md7 --run --assume-clean --level=1 --raid-devices=2 --size=64M /dev/nvme1n1 /dev/nvme2n1
mkfs.xfs -q /dev/nvme3n1
mkfs.btrfs -q /dev/nvme4n1
mkdir /run/xfs /run/btrfs
mount -t xfs /dev/nvme3n1 /run/xfs
mount -t btrfs /dev/nvme4n1 /run/btrfs
echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

const fn needed(name: &'static str, program: &'static str) -> Package {
    Package { name, program, needed_by: NEEDED_BY }
}

/// What a guest needs.
pub(super) fn packages() -> [Package; 4] {
    PACKAGES
}

pub(super) fn drives() -> Vec<Drive> {
    vec![Drive { bytes: DRIVE_BYTES, ..Drive::default() }; 5]
}

pub(super) fn steps() -> Vec<Step> {
    let on = |name, folder: &str| Step { name, command: steps::conformance_in(folder) };
    vec![
        Step { name: "making what is built on drives", command: GuestCommand::new(["/bin/sh", "-c", MAKE]) },
        Step {
            name: "conformance on an encrypted disk and an array",
            command: steps::conformance("/dev/dm-0 /dev/md7", &[]),
        },
        on("conformance on xfs", "/run/xfs"),
        on("conformance on btrfs", "/run/btrfs"),
    ]
}
