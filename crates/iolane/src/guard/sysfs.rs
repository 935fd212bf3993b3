//! Block devices in sysfs: number, size, partitions, disk, holders, and the backing of loop devices. An attribute that cannot be
//! read refuses the target; it never counts as absent. Source: Documentation/ABI/stable/sysfs-block.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use iolane_core::target::parse_number;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::refusal::Refusal;

/// Major and minor number of a block device.
pub(super) type Number = (u32, u32);

/// The number of the device of a node in /dev.
pub(super) fn device_number(stat: &Stat) -> Number {
    (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
}

/// The block devices of a sysfs tree; a field, so that tests can supply their own tree.
pub(super) struct Sysfs<'a>(pub(super) &'a str);

impl Sysfs<'_> {
    pub(super) const HERE: Sysfs<'static> = Sysfs("/sys");

    pub(super) fn block(&self, (major, minor): Number) -> Result<BlockDevice, Refusal> {
        let link = Path::new(self.0).join(format!("dev/block/{major}:{minor}"));
        let folder = fs::canonicalize(&link).map_err(|error| Refusal::unreadable(&link, error))?;
        BlockDevice::at(folder)
    }

    /// The block device of this name, as `nvme0n1`.
    pub(super) fn named(&self, name: &str) -> Result<BlockDevice, Refusal> {
        let link = Path::new(self.0).join("class/block").join(name);
        let folder = fs::canonicalize(&link).map_err(|error| Refusal::unreadable(&link, error))?;
        BlockDevice::at(folder)
    }

    /// The block device of the namespace that a character device (`/dev/ng0n1`) reaches.
    pub(super) fn nvme_namespace(&self, (major, minor): Number) -> Option<Number> {
        let link = fs::read_link(Path::new(self.0).join(format!("dev/char/{major}:{minor}"))).ok()?;
        let namespace = link.file_name()?.to_str()?.strip_prefix("ng")?;
        parse_number(&fs::read_to_string(Path::new(self.0).join(format!("class/block/nvme{namespace}/dev"))).ok()?)
    }

    /// Every loop device with a backing.
    pub(super) fn loops(&self) -> Result<Vec<Loop>, Refusal> {
        let folder = Path::new(self.0).join("block");
        let mut loops = Vec::new();
        for name in names_in(&folder)? {
            if name.as_bytes().starts_with(b"loop") {
                loops.extend(BlockDevice::at(folder.join(name))?.as_loop()?);
            }
        }
        Ok(loops)
    }
}

/// The names in a folder of sysfs or configfs, in order.
pub(super) fn try_names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn names_in(folder: &Path) -> Result<Vec<OsString>, Refusal> {
    try_names_in(folder).map_err(|error| Refusal::unreadable(folder, error))
}

/// A block device in sysfs.
pub(super) struct BlockDevice {
    pub(super) number: Number,
    /// The kernel's name, as `sda1`.
    pub(super) name: String,
    folder: PathBuf,
}

impl BlockDevice {
    fn at(folder: PathBuf) -> Result<Self, Refusal> {
        let path = folder.join("dev");
        let text = fs::read_to_string(&path).map_err(|error| Refusal::unreadable(&path, error))?;
        let number = parse_number(&text).ok_or_else(|| Refusal::unreadable(&path, Errno::INVAL))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { number, name, folder })
    }

    /// The node in /dev, as a handle that opens nothing (O_PATH).
    pub(super) fn node(&self) -> Result<OwnedFd, Refusal> {
        // The kernel writes `!` where a device's name has a slash (cciss!c0d0).
        let path = Path::new("/dev").join(self.name.replace('!', "/"));
        let unreadable = |errno| Refusal::unreadable(&path, errno);
        let node = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(unreadable)?;
        let stat = rustix::fs::fstat(&node).map_err(unreadable)?;
        let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        if is_block && device_number(&stat) == self.number { Ok(node) } else { Err(unreadable(Errno::NODEV)) }
    }

    fn is_partition(&self) -> Result<bool, Refusal> {
        let path = self.folder.join("partition");
        path.try_exists().map_err(|error| Refusal::unreadable(path, error))
    }

    /// The disk of a partition; `None` for a disk.
    pub(super) fn disk(&self) -> Result<Option<Self>, Refusal> {
        match self.folder.parent() {
            Some(disk) if self.is_partition()? => Self::at(disk.to_owned()).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn partitions(&self) -> Result<Vec<Self>, Refusal> {
        let mut partitions = Vec::new();
        for name in names_in(&self.folder)? {
            // The kernel names a partition after its disk: sda1 is on sda, nvme0n1p1 on nvme0n1.
            if !name.as_bytes().starts_with(self.name.as_bytes()) {
                continue;
            }
            let device = Self::at(self.folder.join(name))?;
            // The boot areas of an eMMC (mmcblk0boot0) are in the folder of its disk too, but are separate disks.
            if device.is_partition()? {
                partitions.push(device);
            }
        }
        Ok(partitions)
    }

    /// The devices built on this one: md, dm, bcache.
    pub(super) fn holders(&self) -> Result<Vec<Self>, Refusal> {
        self.linked("holders")
    }

    /// The devices that this one is built on. Only a disk has such a list.
    pub(super) fn slaves(&self) -> Result<Vec<Self>, Refusal> {
        if self.is_partition()? { Ok(Vec::new()) } else { self.linked("slaves") }
    }

    /// The devices to which the links in a folder of this one lead.
    fn linked(&self, folder: &str) -> Result<Vec<Self>, Refusal> {
        let folder = self.folder.join(folder);
        let device = |name: &OsString| {
            let link = folder.join(name);
            fs::canonicalize(&link).map_err(|error| Refusal::unreadable(&link, error)).and_then(Self::at)
        };
        names_in(&folder)?.iter().map(device).collect()
    }

    fn attribute(&self, name: &str) -> Result<u64, Refusal> {
        self.try_attribute(name).map_err(|error| Refusal::unreadable(self.folder.join(name), error))
    }

    fn try_attribute(&self, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(name))?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The backing of a loop device; `None` for other devices and for free loop devices.
    pub(super) fn as_loop(&self) -> Result<Option<Loop>, Refusal> {
        match self.try_loop() {
            Ok(made) => Ok((!made.backing.is_empty()).then_some(made)),
            // Free, or detached meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
            Err(error) => Err(Refusal::unreadable(self.folder.join("loop"), error)),
        }
    }

    fn try_loop(&self) -> io::Result<Loop> {
        let mut backing = fs::read(self.folder.join("loop/backing_file"))?;
        // The last newline belongs to the attribute, others to the name.
        backing.pop_if(|byte| *byte == b'\n');
        let end = self.try_attribute("loop/offset")?.saturating_add(sector_bytes(self.try_attribute("size")?));
        let limited = self.try_attribute("loop/sizelimit")? != 0;
        Ok(Loop { name: self.name.clone(), backing: OsString::from_vec(backing), end, limited })
    }

    /// Its size, in bytes.
    pub(super) fn bytes(&self) -> Result<u64, Refusal> {
        self.attribute("size").map(sector_bytes)
    }

    /// The offset of a partition on its disk, in bytes.
    pub(super) fn start(&self) -> Result<u64, Refusal> {
        self.attribute("start").map(sector_bytes)
    }
}

/// sysfs counts in sectors of 512 bytes, independent of the device's block size.
fn sector_bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(512)
}

/// A loop device in use.
pub(super) struct Loop {
    pub(super) name: String,
    /// The last name of its file, with a suffix if it was deleted.
    pub(super) backing: OsString,
    /// The offset in its file at which the device ends, in bytes.
    pub(super) end: u64,
    /// Whether it ends before its file does.
    pub(super) limited: bool,
}

impl Loop {
    /// Whether its backing may be a file of this size. That is the only evidence if the name leads nowhere: the file was deleted
    /// but has another link, or the name is of another mount namespace.
    pub(super) fn may_be_made_of(&self, bytes: u64) -> bool {
        self.end <= bytes && (self.limited || bytes - self.end < 512)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::fake_sysfs::FakeSysfs;

    #[test]
    fn an_nvme_character_device_stands_for_its_block_device() {
        let fake = FakeSysfs::new("nvme");
        assert_eq!(fake.sysfs().nvme_namespace((240, 3)), Some((259, 7)));
        assert_eq!(fake.sysfs().nvme_namespace((1, 5)), None);
        assert_eq!(fake.sysfs().named("nvme0n1").unwrap().number, (259, 7));
        assert!(fake.sysfs().named("nvme9n1").is_err());
    }

    #[test]
    fn a_boot_area_of_an_emmc_is_no_partition_of_its_disk() {
        let fake = FakeSysfs::new("emmc");
        for (name, number) in [("mmcblk0", "179:0"), ("mmcblk0/mmcblk0p1", "179:1"), ("mmcblk0/mmcblk0boot0", "179:8")]
        {
            fake.device(name, number);
        }
        fs::remove_file(fake.0.join("devices/mmcblk0/mmcblk0boot0/partition")).unwrap();
        let partitions = fake.sysfs().block((179, 0)).unwrap().partitions().unwrap();
        assert_eq!(partitions.iter().map(|partition| partition.name.as_str()).collect::<Vec<_>>(), ["mmcblk0p1"]);
        assert!(fake.sysfs().block((179, 8)).unwrap().disk().unwrap().is_none());
    }
}
