//! What the file system of a target's file tells of it.

use rustix::fs::SeekFrom;

use super::{Target, TargetKind};

impl Target {
    /// Whether a file has parts that were never written, holes or merely allocated (lseek(2), SEEK_HOLE): a read of them
    /// never reaches the device. False where the file system does not report holes.
    pub fn has_unwritten_parts(&self) -> bool {
        let Some(fd) = self.fd().filter(|_| self.kind() == TargetKind::File) else { return false };
        rustix::fs::seek(fd, SeekFrom::Hole(0)).is_ok_and(|hole| hole < self.bytes())
    }

    /// Whether it is a file in memory (tmpfs, ramfs), which no drive holds.
    pub fn is_in_memory(&self) -> bool {
        const TMPFS: i64 = 0x0102_1994;
        const RAMFS: i64 = 0x8584_58f6;
        self.file_system().is_some_and(|magic| [TMPFS, RAMFS].contains(&magic))
    }

    /// Whether it is a file of a file system that keeps its data on block devices of this machine: ext4, xfs, btrfs or f2fs.
    pub fn is_on_local_disk(&self) -> bool {
        const LOCAL: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
        self.file_system().is_some_and(|magic| LOCAL.contains(&magic))
    }

    /// The number of a file's file system (statfs(2), `f_type`).
    fn file_system(&self) -> Option<i64> {
        let fd = self.fd().filter(|_| self.kind() == TargetKind::File)?;
        rustix::fs::fstatfs(fd).ok().map(|found| found.f_type)
    }
}
