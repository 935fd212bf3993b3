//! What is read and written: a file, a block device, an NVMe namespace's character device, or a made-up device.
//! Opening checks everything a path may rely on, so that paths need not check again.

use std::any::Any;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::units::Bytes;

/// What kind of thing a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// The generic character device of an NVMe namespace, `/dev/ngXnY`.
    NvmeGeneric,
    /// A namespace of an NVMe controller that no kernel driver has (`pci:0000:00:04.0`).
    NvmeController,
    /// A device that answers at once and moves nothing (`null`, `null:1g`): what the engine itself costs.
    Null,
    /// A device simulated in memory and virtual time (`sim`, `sim:64m,seed=7`).
    Sim,
}

impl TargetKind {
    /// The kind's name in records: `file`, `block`, `nvme`, `null`, `sim`. How a namespace is reached, its path says.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Block => "block",
            Self::NvmeGeneric | Self::NvmeController => "nvme",
            Self::Null => "null",
            Self::Sim => "sim",
        }
    }
}

/// A kind of target that another crate brings: what follows its scheme and a colon is its own to read.
///
/// Each stands in [`SCHEMES`] once. Null and sim need none: they open nothing.
pub struct Scheme {
    /// What begins the target's name, such as `pci`.
    pub name: &'static str,
    /// Opens what the rest of the name says.
    pub open: fn(rest: &str, name: &str) -> Result<Device>,
}

/// What a [`Scheme`] opened.
pub struct Device {
    /// Its kind.
    pub kind: TargetKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// The unit of offsets and lengths in bytes.
    pub block_bytes: u32,
    /// What its interface keeps with it; [`Target::state`] finds it again.
    pub state: Box<dyn Any + Send + Sync>,
}

/// Every scheme that is linked into the program.
#[linkme::distributed_slice]
pub static SCHEMES: [Scheme];

/// An opened target. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Target(Arc<Opened>);

struct Opened {
    name: String,
    kind: TargetKind,
    /// None for made-up devices.
    fd: Option<OwnedFd>,
    bytes: u64,
    block_bytes: u32,
    direct: bool,
    writable: bool,
    /// Number of the block device that holds the data.
    device: Option<(u32, u32)>,
    /// What stands behind the size of a made-up device; its interface reads it.
    settings: String,
    /// What the interface of a made-up device keeps with it.
    state: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// How to open a [`Target`]; reading alone and O_DIRECT unless said otherwise.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    write: bool,
    direct: bool,
    create_bytes: Option<u64>,
    name: Option<String>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self { write: false, direct: true, create_bytes: None, name: None }
    }
}

/// Why a file is not made: the cause that leaves it alone.
const EXISTS: &str = "it exists already";

/// Sizes of made-up devices that are not given one.
const NULL_BYTES: u64 = 1 << 40;
const SIM_BYTES: u64 = 64 << 20;
const SIM_BYTES_MAX: u64 = 4 << 30;

impl TargetOptions {
    /// Whether requests may write.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Whether the page cache is passed by (O_DIRECT, open(2)).
    #[must_use]
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// Makes a new file of this size, readable by its owner; fails if it exists. Implies [`write`](Self::write).
    #[must_use]
    pub fn create(mut self, bytes: u64) -> Self {
        self.create_bytes = Some(bytes);
        self.write = true;
        self
    }

    /// What the target is called in messages and records, if not by the name it is opened by.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Opens a file, a block device, `/dev/ngXnY`, `null[:SIZE]`, `sim[:SIZE][,SETTING...]`, or what one of the [`SCHEMES`]
    /// stands for, such as `pci:0000:00:04.0`.
    ///
    /// # Errors
    /// `Unavailable` if it is missing, empty, a directory, not permitted, or its file system has no O_DIRECT; `Usage` if
    /// a made-up device's size is wrong; `Exhausted` if descriptors run out.
    pub fn open(&self, name: impl AsRef<OsStr>) -> Result<Target> {
        let name = name.as_ref();
        if let Some(target) = self.open_made_up(name)? {
            return Ok(target);
        }
        if let Some(target) = self.open_by_scheme(name)? {
            return Ok(target);
        }
        let shown = self.name.clone().unwrap_or_else(|| name.to_string_lossy().into_owned());
        let was_there = rustix::fs::lstat(name).is_ok();
        let opened = self.open_fd(name, &shown).and_then(|fd| self.describe(fd, shown));
        if let (Err(error), Some(_)) = (&opened, self.create_bytes)
            && !was_there
            && error.cause() != EXISTS
        {
            // Made for nothing: too large for its file system, or one without O_DIRECT.
            let _ = rustix::fs::unlink(name);
        }
        opened.map(|opened| Target(Arc::new(opened)))
    }

    fn open_made_up(&self, name: &OsStr) -> Result<Option<Target>> {
        let Some(text) = name.to_str() else { return Ok(None) };
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        let (kind, default_bytes) = match scheme {
            "null" => (TargetKind::Null, NULL_BYTES),
            "sim" => (TargetKind::Sim, SIM_BYTES),
            _ => return Ok(None),
        };
        let (size, settings) = match rest.split_once(',') {
            Some((size, settings)) => (size, settings),
            None if rest.contains('=') => ("", rest),
            None => (rest, ""),
        };
        let bytes = if size.is_empty() { default_bytes } else { size.parse::<Bytes>()?.0 };
        if bytes < 4096 || (kind == TargetKind::Sim && bytes > SIM_BYTES_MAX) {
            return Err(Error::usage(format!("target {text}"), "its size is 4k or more, and for sim 4g or less"));
        }
        Ok(Some(Target(Arc::new(Opened {
            name: self.name.clone().unwrap_or_else(|| text.into()),
            kind,
            fd: None,
            bytes,
            block_bytes: 512,
            direct: true,
            writable: self.write,
            device: None,
            settings: settings.into(),
            state: OnceLock::new(),
        }))))
    }

    fn open_by_scheme(&self, name: &OsStr) -> Result<Option<Target>> {
        let Some((scheme, rest)) = name.to_str().and_then(|name| name.split_once(':')) else { return Ok(None) };
        let Some(scheme) = SCHEMES.iter().find(|known| known.name == scheme) else { return Ok(None) };
        let shown = self.name.clone().unwrap_or_else(|| name.to_string_lossy().into_owned());
        let device = (scheme.open)(rest, &shown)?;
        Ok(Some(Target(Arc::new(Opened {
            name: shown,
            kind: device.kind,
            fd: None,
            bytes: device.bytes,
            block_bytes: device.block_bytes,
            direct: true,
            writable: self.write,
            device: None,
            settings: String::new(),
            state: OnceLock::from(device.state),
        }))))
    }

    fn open_fd(&self, name: &OsStr, shown: &str) -> Result<OwnedFd> {
        // Looked at before it is opened: opening a device just to refuse it can have effects (a tape rewinds).
        let kind = match rustix::fs::stat(name) {
            Ok(stat) => Some(classify(&stat, shown)?.0),
            Err(_) => None,
        };
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        flags |= if self.write { OFlags::RDWR } else { OFlags::RDONLY };
        // Passthrough knows no page cache, and its device no flag to pass it by.
        if self.direct && kind != Some(TargetKind::NvmeGeneric) {
            flags |= OFlags::DIRECT;
        }
        if self.create_bytes.is_some() {
            flags |= OFlags::CREATE | OFlags::EXCL;
        }
        // A FIFO or a terminal must not block the open; on files and block devices the flag means nothing.
        let open = |flags| rustix::fs::open(name, flags, Mode::RUSR | Mode::WUSR);
        // Looking at its access time costs the kernel some 150 instructions per read, and measuring should not change it;
        // but it is for the owner to leave it alone (open(2), O_NOATIME).
        let opened = match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => open(flags),
            opened => opened,
        };
        opened.map_err(|errno| {
            let what = format!("target {shown}");
            match errno {
                Errno::NOENT | Errno::NOTDIR => {
                    Error::unavailable(what, "no such file or device").remedy("check the name")
                }
                Errno::INVAL if self.direct => Error::unavailable(what, "its file system does not do O_DIRECT")
                    .remedy("use --direct false, or another file system"),
                Errno::ACCESS | Errno::PERM => Error::unavailable(what, "permission denied")
                    .remedy("run as a user who may open it (root, or group `disk` for block devices)"),
                Errno::ROFS => Error::unavailable(what, "its file system is read-only").remedy("choose another target"),
                Errno::EXIST => Error::failed(what, EXISTS).remedy("choose a new name"),
                errno => Error::system(what, errno),
            }
        })
    }

    fn describe(&self, fd: OwnedFd, name: String) -> Result<Opened> {
        let what = || format!("target {name}");
        let stat = rustix::fs::fstat(&fd).map_err(|errno| Error::system(what(), errno))?;
        let (kind, device) = classify(&stat, &name)?;
        if let Some(bytes) = self.create_bytes {
            rustix::fs::ftruncate(&fd, bytes).map_err(|errno| Error::system(what(), errno))?;
        }
        let bytes = match kind {
            TargetKind::File => stat.st_size as u64,
            TargetKind::NvmeGeneric => device.and_then(|device| block_attribute(device, "size")).unwrap_or(0) * 512,
            _ => rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(|errno| Error::system(what(), errno))?,
        };
        let bytes = self.create_bytes.unwrap_or(bytes);
        if bytes == 0 {
            return Err(Error::unavailable(what(), "it is empty")
                .remedy("fill it first (dd if=/dev/urandom of=FILE bs=1M count=1024)"));
        }
        let device_block_bytes =
            || device.and_then(|device| block_attribute(device, "queue/logical_block_size")).unwrap_or(512) as u32;
        let block_bytes = match kind {
            TargetKind::Block => rustix::fs::ioctl_blksszget(&fd).unwrap_or_else(|_| device_block_bytes()),
            TargetKind::NvmeGeneric => device_block_bytes(),
            _ if self.direct => direct_alignment(&fd).unwrap_or_else(device_block_bytes),
            _ => 1,
        };
        if bytes < u64::from(block_bytes) {
            return Err(Error::unavailable(
                what(),
                format!("its {bytes} bytes are less than one block of {block_bytes}"),
            )
            .remedy("use a larger file, or --direct false"));
        }
        Ok(Opened {
            kind,
            fd: Some(fd),
            bytes,
            block_bytes: if self.direct || kind != TargetKind::Block { block_bytes } else { 1 },
            direct: self.direct || kind == TargetKind::NvmeGeneric,
            writable: self.write,
            device,
            settings: String::new(),
            state: OnceLock::new(),
            name,
        })
    }
}

/// What kind of target this is, and the block device that holds its data.
fn classify(stat: &rustix::fs::Stat, name: &str) -> Result<(TargetKind, Option<(u32, u32)>)> {
    let what = || format!("target {name}");
    let number = |device| (rustix::fs::major(device), rustix::fs::minor(device));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((TargetKind::File, Some(number(stat.st_dev)))),
        FileType::BlockDevice => Ok((TargetKind::Block, Some(number(stat.st_rdev)))),
        FileType::CharacterDevice => match nvme_namespace(number(stat.st_rdev)) {
            Some(device) => Ok((TargetKind::NvmeGeneric, Some(device))),
            None => Err(Error::unavailable(what(), "a character device that is no NVMe namespace")
                .remedy("name a file, a block device or /dev/ngXnY")),
        },
        FileType::Directory => Err(Error::unavailable(what(), "it is a directory")
            .remedy(format!("name a file in it: {}/scratch", name.trim_end_matches('/')))),
        _ => Err(Error::unavailable(what(), "neither a file nor a block device").remedy("check the name")),
    }
}

/// The unit of offsets that a file takes with O_DIRECT, where the kernel tells (statx(2), STATX_DIOALIGN, Linux 6.1).
fn direct_alignment(fd: &OwnedFd) -> Option<u32> {
    let statx = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    (statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(statx.stx_dio_offset_align).filter(|align| *align > 0)
}

/// A number from the sysfs folder of a block device, or of the disk that holds the partition.
fn block_attribute((major, minor): (u32, u32), attribute: &str) -> Option<u64> {
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: String| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    read(format!("{folder}/{attribute}")).or_else(|| read(format!("{folder}/../{attribute}")))
}

/// The block device of the namespace that a character device (`/dev/ng0n1`) reaches.
fn nvme_namespace((major, minor): (u32, u32)) -> Option<(u32, u32)> {
    let link = std::fs::read_link(format!("/sys/dev/char/{major}:{minor}")).ok()?;
    let name = link.file_name()?.to_str()?.strip_prefix("ng")?.to_owned();
    let number = std::fs::read_to_string(Path::new("/sys/block").join(format!("nvme{name}")).join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Target {
    /// How to open a target.
    pub fn options() -> TargetOptions {
        TargetOptions::default()
    }

    /// Opens a target for reading, past the page cache.
    ///
    /// # Errors
    /// As [`TargetOptions::open`].
    pub fn open(name: impl AsRef<OsStr>) -> Result<Self> {
        Self::options().open(name)
    }

    /// What it is called in messages and records.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> TargetKind {
        self.0.kind
    }

    /// Its size in bytes when it was opened.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// The unit of offsets and lengths in bytes: the logical block size with O_DIRECT, 1 without.
    pub fn block_bytes(&self) -> u32 {
        self.0.block_bytes
    }

    /// Whether the page cache is passed by.
    pub fn direct(&self) -> bool {
        self.0.direct
    }

    /// Whether requests may write.
    pub fn writable(&self) -> bool {
        self.0.writable
    }

    /// Major and minor number of the block device that holds the data, where there is one. For a file on a file
    /// system without a device of its own (tmpfs, btrfs, overlayfs) the number names no block device.
    pub fn device(&self) -> Option<(u32, u32)> {
        self.0.device
    }

    /// A number that sysfs tells of the block device, such as `queue/io_poll`; a partition's disk answers for it.
    pub fn device_attribute(&self, attribute: &str) -> Option<u64> {
        block_attribute(self.0.device?, attribute)
    }

    /// Whether a file has parts that were never written, holes or merely allocated (lseek(2), SEEK_HOLE): a read of them
    /// never reaches the device. False where the file system does not tell.
    pub fn has_unwritten_parts(&self) -> bool {
        let Some(fd) = self.fd().filter(|_| self.kind() == TargetKind::File) else { return false };
        rustix::fs::seek(fd, SeekFrom::Hole(0)).is_ok_and(|hole| hole < self.bytes())
    }

    /// What followed the size of a made-up device, for its interface to read.
    pub fn settings(&self) -> &str {
        &self.0.settings
    }

    /// What the interface of a made-up device keeps with its target, made on first use; every handle to the target sees
    /// the same. `None` if something of another type is kept there.
    pub fn state<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.state.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// What the interface keeps with the target, if that is of this type.
    pub fn state_of<T: Any>(&self) -> Option<&T> {
        self.0.state.get()?.downcast_ref()
    }

    /// The open descriptor; `None` for what is no file.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd.as_ref().map(AsFd::as_fd)
    }

    /// The open descriptor, for an interface that reaches files and devices alone.
    ///
    /// # Errors
    /// `Unavailable` for what is no file.
    pub fn require_fd(&self, interface: &str) -> Result<BorrowedFd<'_>> {
        self.fd().ok_or_else(|| {
            Error::usage(
                format!("{interface} on {}", self.name()),
                format!("it is reached by path `{}` alone", self.0.kind.name()),
            )
            .with_kind(ErrorKind::Unavailable)
            .remedy("name a file or a block device")
        })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({} {}, {})", self.0.kind.name(), self.0.name, Bytes(self.0.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str) -> String {
        Target::open(name).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_a_target_is_named_with_its_cause() {
        assert!(error("/no/such/thing").contains("no such file"));
        assert!(error("/dev/null/under").contains("no such file"));
        assert!(error("/proc").contains("directory"));
        assert!(error("/dev/zero").contains("character device"));
        assert!(error("null:1").contains("4k or more"));
        assert!(error("null:99999999999999999999k").contains("2^64"));
        assert!(error("sim:5g").contains("4g or less"));
    }

    #[test]
    fn an_empty_file_is_no_target() {
        let path = std::env::temp_dir().join(format!("iolane-empty-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let error = Target::options().direct(false).open(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("it is empty"), "{error}");
    }

    #[test]
    fn a_file_that_could_not_be_made_in_its_size_is_not_left_behind_and_one_that_was_there_stays() {
        let path = std::env::temp_dir().join(format!("iolane-create-{}", std::process::id()));
        let create = |bytes| Target::options().direct(false).create(bytes).open(&path);
        assert!(create(1 << 62).is_err());
        assert!(!path.exists());
        drop(create(4096).unwrap());
        let error = create(4096).unwrap_err().to_string();
        assert!(path.exists() && error.contains(EXISTS), "{error}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_was_never_written_is_told_from_one_that_was() {
        let path = std::env::temp_dir().join(format!("iolane-holes-{}", std::process::id()));
        let target = Target::options().direct(false).create(1 << 20).open(&path).unwrap();
        let before = target.has_unwritten_parts();
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let after = target.has_unwritten_parts();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((before, after), (true, false));
    }

    #[test]
    fn a_fifo_is_refused_and_does_not_block() {
        let path = std::env::temp_dir().join(format!("iolane-fifo-{}", std::process::id()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR).unwrap();
        let error = Target::options().direct(false).open(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("neither a file nor a block device"), "{error}");
    }

    #[test]
    fn made_up_devices_take_a_size_and_settings() {
        let sim = Target::open("sim:1m,seed=7,short=0.5").unwrap();
        assert_eq!((sim.kind(), sim.bytes(), sim.settings()), (TargetKind::Sim, 1 << 20, "seed=7,short=0.5"));
        let sim = Target::open("sim:seed=7").unwrap();
        assert_eq!((sim.bytes(), sim.settings()), (SIM_BYTES, "seed=7"));
        assert_eq!(Target::open("null").unwrap().bytes(), NULL_BYTES);
    }
}
