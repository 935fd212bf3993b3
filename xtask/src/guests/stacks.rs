//! What people keep their data on: encrypted disks, arrays, volumes, caches, and files of the file systems that are common. The conformance
//! suite runs on each, in a guest of its own. What lies between a request and the drive may wait where the drive does not, and refuse what
//! it takes.

use anyhow::{Result, ensure};
use iolane_core::units::Bytes;
use iolane_lab::{Drive, GuestCommand};

use super::steps::{self, Step};
use crate::packages::{self, Package};

/// What is built on drives.
#[derive(Debug)]
pub(super) struct Stack {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// What a shell does to build it on `nvme0n1` and `nvme1n1`, of blocks of 512 bytes, and `nvme2n1`, of 4 KiB.
    make: &'static str,
    place: Place,
    /// What makes it, but for what every Debian machine has.
    packages: &'static [Package],
}

/// Where the suite runs.
#[derive(Debug)]
enum Place {
    /// On a device.
    Disk(&'static str),
    /// On files in this folder.
    Files,
}

impl Stack {
    const fn disk(name: &'static str, device: &'static str, packages: &'static [Package], make: &'static str) -> Self {
        Self { name, make, place: Place::Disk(device), packages }
    }

    /// Files in `/run/files`.
    const fn files(name: &'static str, packages: &'static [Package], make: &'static str) -> Self {
        Self { name, make, place: Place::Files, packages }
    }

    /// Installs what makes it, and returns what is still missing.
    pub(super) fn missing(&self) -> Result<Vec<&'static Package>> {
        packages::install(self.packages)
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let script = format!("set -e\nmkdir {FOLDER}\n{}\n{MADE}", self.make);
        let command = match self.place {
            Place::Disk(device) => steps::conformance(device, &[]),
            Place::Files => steps::conformance_in(FOLDER),
        };
        vec![
            Step { name: self.name, command: GuestCommand::new(["/bin/sh", "-c", &script]) },
            Step { name: self.name, command },
        ]
    }
}

pub(super) const STACKS: &[Stack] = &[
    // A cipher that changes nothing, since it is the way of a request that matters.
    Stack::disk(
        "dm-crypt",
        "/dev/dm-0",
        &[DMSETUP],
        "dmsetup create encrypted --table '0 131072 crypt cipher_null-ecb - 0 /dev/nvme0n1 0'",
    ),
    Stack::disk(
        "dm-thin",
        "/dev/dm-2",
        &[DMSETUP],
        "dmsetup create metadata --table '0 16384 linear /dev/nvme0n1 0'
         dmsetup create pool --table '0 262144 thin-pool /dev/dm-0 /dev/nvme1n1 128 0'
         dmsetup message pool 0 'create_thin 0'
         dmsetup create thin --table '0 131072 thin /dev/dm-1 0'",
    ),
    Stack::disk(
        "raid1",
        "/dev/md7",
        &[MDADM],
        "mdadm --quiet --create /dev/md7 --run --assume-clean --level=1 --raid-devices=2 --size=64M /dev/nvme0n1 /dev/nvme1n1",
    ),
    Stack::disk(
        "raid0",
        "/dev/md7",
        &[MDADM],
        "mdadm --quiet --create /dev/md7 --run --level=0 --chunk=64 --raid-devices=2 /dev/nvme0n1 /dev/nvme1n1",
    ),
    Stack::disk(
        "bcache",
        "/dev/bcache0",
        &[BCACHE_TOOLS],
        "make-bcache -B /dev/nvme0n1 -C /dev/nvme1n1 --writeback >/run/bcache.log
         for drive in nvme0n1 nvme1n1; do echo /dev/$drive >/sys/fs/bcache/register; done
         for attempt in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/bcache0 ] || sleep 0.5; done
         [ -e /dev/bcache0 ]",
    ),
    Stack::files("xfs", &[XFSPROGS], "mkfs.xfs -q /dev/nvme0n1; mount -t xfs /dev/nvme0n1 /run/files"),
    Stack::files("btrfs", &[BTRFS_PROGS], "mkfs.btrfs -q /dev/nvme0n1; mount -t btrfs /dev/nvme0n1 /run/files"),
    Stack::files(
        "ext4-journal",
        &[E2FSPROGS],
        "mkfs.ext4 -q -F /dev/nvme0n1; mount -t ext4 -o data=journal /dev/nvme0n1 /run/files",
    ),
    Stack::files(
        "overlay-4k",
        &[E2FSPROGS],
        "mkfs.ext4 -q -F -b 4096 /dev/nvme2n1; mkdir /run/layers; mount -t ext4 /dev/nvme2n1 /run/layers
         cd /run/layers; mkdir lower upper work
         mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay /run/files",
    ),
];

/// What the guest loads.
pub(super) const MODULES: &[&str] = &[
    "crc32c_generic",
    "xxhash_generic",
    "blake2b_generic",
    "ext4",
    "xfs",
    "btrfs",
    "overlay",
    "dm_mod",
    "dm_crypt",
    "dm_thin_pool",
    "md_mod",
    "raid0",
    "raid1",
    "bcache",
];
const E2FSPROGS: Package = needed("e2fsprogs", "mkfs.ext4");
const XFSPROGS: Package = needed("xfsprogs", "mkfs.xfs");
const BTRFS_PROGS: Package = needed("btrfs-progs", "mkfs.btrfs");
const DMSETUP: Package = needed("dmsetup", "dmsetup");
const MDADM: Package = Package { needed_by: NEEDED_BY, ..packages::MDADM };
const BCACHE_TOOLS: Package = Package { needed_by: NEEDED_BY, ..packages::BCACHE_TOOLS };
const NEEDED_BY: &str = "what is built on drives, in guests";
/// All that the scripts call.
pub(super) const TOOLS: [&str; 10] =
    ["dmsetup", "make-bcache", "mdadm", "mkdir", "mkfs.btrfs", "mkfs.ext4", "mkfs.xfs", "mount", "sh", "sleep"];
/// xfs takes no smaller drive.
const DRIVE_BYTES: Bytes = Bytes(512 << 20);
const FOLDER: &str = "/run/files";
/// A line of a test that passed, so that a stack that cannot be built is counted as one that failed.
const MADE: &str = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

const fn needed(name: &'static str, program: &'static str) -> Package {
    Package { name, program, needed_by: NEEDED_BY }
}

pub(super) fn drives() -> Vec<Drive> {
    let drive = Drive { bytes: DRIVE_BYTES, ..Drive::default() };
    vec![drive.clone(), drive.clone(), Drive { block_bytes: 4096, ..drive }]
}

/// The stacks of these names, and the kernels among the words; all stacks if none is named.
///
/// # Errors
/// For a word that is neither the name of a stack nor a version.
pub(super) fn named<'a>(words: &[&'a str]) -> Result<(Vec<&'static Stack>, Vec<&'a str>)> {
    let is_kernel = |word: &&&str| word.starts_with(|first: char| first.is_ascii_digit());
    let (kernels, names): (Vec<&str>, Vec<&str>) = words.iter().partition(is_kernel);
    let known = || STACKS.iter().map(|stack| stack.name).collect::<Vec<_>>().join(", ");
    for name in &names {
        ensure!(STACKS.iter().any(|stack| stack.name == *name), "there is no stack `{name}`; there are {}", known());
    }
    let is_named = |stack: &&Stack| names.is_empty() || names.contains(&stack.name);
    Ok((STACKS.iter().filter(is_named).collect(), kernels))
}
