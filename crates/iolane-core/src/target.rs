//! What is read and written: a file, a block device, an NVMe namespace's character device, or a simulated device.
//! Opening checks everything a path may rely on, so that paths need not check again. Nothing here reads or writes data.

mod file_system;

use std::any::Any;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::atomic_writes::AtomicWrites;
use crate::error::{Error, ErrorKind, Result};
use crate::scheme::Scheme;
use crate::units::Bytes;

/// The kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TargetKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// The generic character device of an NVMe namespace, `/dev/ngXnY`.
    NvmeGeneric,
    /// A target of a scheme, which one interface reaches: `null`, `sim:64m`, `pci:0000:00:04.0`.
    Own(&'static Scheme),
}

impl TargetKind {
    /// The kind's name in records: `file`, `block`, `nvme`, `null`, `sim`. The path shows how a namespace is reached.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Block => "block",
            Self::NvmeGeneric => "nvme",
            Self::Own(scheme) => scheme.kind,
        }
    }

    /// Whether its targets are open files of the kernel's, so that [`Target::fd`] has a descriptor.
    pub fn has_descriptor(self) -> bool {
        matches!(self, Self::File | Self::Block | Self::NvmeGeneric)
    }

    /// Whether its targets exist in memory only: opening one needs no permission and harms nothing.
    pub fn is_simulated(self) -> bool {
        matches!(self, Self::Own(scheme) if scheme.simulated)
    }

    /// Whether a read returns what was written.
    pub fn keeps_data(self) -> bool {
        !matches!(self, Self::Own(scheme) if !scheme.keeps_data)
    }

    /// Whether its time is virtual, so that clocks and meters of the machine say nothing about it.
    pub fn has_virtual_time(self) -> bool {
        matches!(self, Self::Own(scheme) if scheme.virtual_time)
    }

    /// The simulated device that a target's name stands for (`null`, `sim:64m,seed=7`), if it is one. The name wins over a
    /// file of that name.
    pub fn simulated(name: &OsStr) -> Option<Self> {
        Scheme::of(name).map(|(scheme, _)| Self::Own(scheme)).filter(|kind| kind.is_simulated())
    }
}

/// An opened target. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Target(Arc<Opened>);

struct Opened {
    name: String,
    kind: TargetKind,
    /// None for simulated devices and for controllers without a kernel driver.
    fd: Option<OwnedFd>,
    bytes: u64,
    block_bytes: u32,
    direct: bool,
    durable: bool,
    /// Holds the permission as long as the target is open.
    writing: Writing,
    /// Number of the block device that holds the data.
    device: Option<(u32, u32)>,
    /// Asked for once: a queue of thousands of files asks for each.
    atomic_writes: OnceLock<Option<AtomicWrites>>,
    /// What the interface of a scheme's device keeps with it.
    state: Option<Box<dyn Any + Send + Sync>>,
}

/// Vouches that writing to a target destroys nothing: it was found to be unused, and is kept so. `iolane::guard` gives
/// permissions for everything that exists; a program can have its own for what it created.
pub trait WritePermission: fmt::Debug + Send + Sync {
    /// Whether it is `opened` that was checked: its name may lead elsewhere by now.
    ///
    /// # Errors
    /// If it is not.
    fn covers(&self, opened: &Target) -> Result<()>;
}

/// Whether requests may write, and who answers for it.
#[derive(Debug, Clone)]
enum Writing {
    No,
    Permitted(Arc<dyn WritePermission>),
    /// The caller.
    Unguarded,
}

impl Writing {
    fn is_allowed(&self) -> bool {
        !matches!(self, Self::No)
    }
}

/// How to open a [`Target`]: by default for reading only and with O_DIRECT.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    writing: Writing,
    direct: bool,
    durable: bool,
    create_bytes: Option<u64>,
    name: Option<String>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self { writing: Writing::No, direct: true, durable: false, create_bytes: None, name: None }
    }
}

impl TargetOptions {
    /// Requests may write what the permission covers (`iolane::guard::WritePermit`). The target keeps it until its last handle is
    /// dropped.
    #[must_use]
    pub fn write(mut self, permission: impl WritePermission + 'static) -> Self {
        self.writing = Writing::Permitted(Arc::new(permission));
        self
    }

    /// Requests may write, and nothing was checked: a mounted disk, or the disk of a running virtual machine, is overwritten like any
    /// other. For files of the caller's own.
    #[must_use]
    pub fn write_unguarded(mut self) -> Self {
        self.writing = Writing::Unguarded;
        self
    }

    /// Whether requests bypass the page cache (O_DIRECT, open(2)).
    #[must_use]
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// Whether each write is durable when it completes, with the metadata needed to read it back (O_DSYNC, open(2)). Passthrough
    /// and the user-space driver do not have it.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Creates a file of this size, readable by its owner; fails if it exists. Requests may write, since nothing was in it.
    #[must_use]
    pub fn create(mut self, bytes: u64) -> Self {
        self.create_bytes = Some(bytes);
        self.write_unguarded()
    }

    /// The target's name in messages and records, if it differs from the name it is opened by.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Opens a file, a block device, `/dev/ngXnY`, or a target of one of the [`SCHEMES`](crate::scheme::SCHEMES):
    /// `null[:SIZE]`, `sim[:SIZE][,SETTING...]`, `pci:0000:00:04.0`.
    ///
    /// # Errors
    /// `Unavailable` if it is missing, empty, a directory, not permitted, or its file system has no O_DIRECT; `Usage` if
    /// what follows a scheme is wrong; `Exhausted` if descriptors run out.
    pub fn open(&self, name: impl AsRef<OsStr>) -> Result<Target> {
        let name = name.as_ref();
        if let Some((scheme, rest)) = Scheme::of(name) {
            return self
                .open_by_scheme(scheme, rest, &name.to_string_lossy())
                .and_then(|opened| self.permitted(opened));
        }
        let shown = self.name.clone().unwrap_or_else(|| name.to_string_lossy().into_owned());
        let opened = match self.create_bytes {
            None => self.open_fd(name, &shown).and_then(|fd| self.describe(fd, shown)).and_then(Opened::with_a_block),
            Some(bytes) => self.create_file(name, shown, bytes),
        };
        opened.and_then(|opened| self.permitted(opened))
    }

    /// The target, if it is what the permission covers.
    fn permitted(&self, opened: Opened) -> Result<Target> {
        let target = Target(Arc::new(opened));
        match &self.writing {
            Writing::Permitted(permission) => permission.covers(&target).map(|()| target),
            Writing::No | Writing::Unguarded => Ok(target),
        }
    }

    fn open_by_scheme(&self, scheme: &'static Scheme, rest: &str, name: &str) -> Result<Opened> {
        let shown = self.name.clone().unwrap_or_else(|| name.into());
        // A simulated device has no cache that could lose a write.
        if self.durable && !scheme.simulated {
            return Err(without_dsync(&shown));
        }
        let device = (scheme.open)(rest, &shown)?;
        Ok(Opened {
            name: shown,
            kind: TargetKind::Own(scheme),
            fd: None,
            bytes: device.bytes,
            block_bytes: device.block_bytes,
            direct: true,
            durable: self.durable,
            writing: self.writing.clone(),
            device: None,
            atomic_writes: OnceLock::new(),
            state: Some(device.state),
        })
    }

    /// Creates the file. If that fails halfway, for lack of space or of O_DIRECT, the file is removed again: the exclusive
    /// open proves that this call made it.
    fn create_file(&self, name: &OsStr, shown: String, bytes: u64) -> Result<Opened> {
        let fd = self.open_fd(name, &shown)?;
        let failed = |errno| self.open_error(errno, &shown);
        let created = rustix::fs::fstat(&fd).map_err(failed)?;
        // O_DIRECT is set after the open: an open(2) that refuses the flag leaves the new file behind, and its error does
        // not tell whether it was made.
        let direct = match self.direct {
            true => rustix::fs::fcntl_getfl(&fd).and_then(|flags| rustix::fs::fcntl_setfl(&fd, flags | OFlags::DIRECT)),
            false => Ok(()),
        };
        let opened = direct
            .and_then(|()| rustix::fs::ftruncate(&fd, bytes))
            .map_err(failed)
            .and_then(|()| self.describe(fd, shown));
        let still_named =
            || rustix::fs::lstat(name).is_ok_and(|now| (now.st_dev, now.st_ino) == (created.st_dev, created.st_ino));
        if opened.is_err() && still_named() {
            let _ = rustix::fs::unlink(name);
        }
        opened
    }

    fn open_fd(&self, name: &OsStr, shown: &str) -> Result<OwnedFd> {
        // Classified before it is opened: opening a device only to refuse it can have effects (a tape rewinds).
        let kind = match rustix::fs::stat(name) {
            Ok(stat) => Some(classify(&stat, shown)?.0),
            Err(_) => None,
        };
        if self.durable && kind == Some(TargetKind::NvmeGeneric) {
            return Err(without_dsync(shown));
        }
        // With O_NONBLOCK the open of a FIFO or terminal does not block.
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        flags |= if self.writing.is_allowed() { OFlags::RDWR } else { OFlags::RDONLY };
        if self.durable {
            flags |= OFlags::DSYNC;
        }
        if self.create_bytes.is_some() {
            flags |= OFlags::CREATE | OFlags::EXCL;
        } else if self.direct && kind != Some(TargetKind::NvmeGeneric) {
            // Passthrough has no page cache to bypass, and its device refuses the flag.
            flags |= OFlags::DIRECT;
        }
        let open = |flags| {
            let fd = rustix::fs::open(name, flags, Mode::RUSR | Mode::WUSR)?;
            let_requests_wait(&fd, flags)?;
            Ok(fd)
        };
        // Updating the access time costs the kernel some 150 instructions per read, and measuring should not change it.
        // Only the owner may ask for that (open(2), O_NOATIME).
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => open(flags),
            opened => opened,
        }
        .map_err(|errno| self.open_error(errno, shown))
    }

    fn open_error(&self, errno: Errno, shown: &str) -> Error {
        let what = format!("target {shown}");
        let error = match errno {
            Errno::NOENT | Errno::NOTDIR => Error::unavailable(what, "no such file or device").remedy("check the name"),
            Errno::LOOP | Errno::NAMETOOLONG => {
                Error::system(what, errno).with_kind(ErrorKind::Unavailable).remedy("check the name")
            }
            Errno::INVAL if self.direct => Error::unavailable(what, "its file system does not support O_DIRECT")
                .remedy("set direct to false, or use another file system"),
            Errno::ACCESS | Errno::PERM => Error::unavailable(what, "permission denied")
                .remedy("run as a user who may open it (root, or group `disk` for block devices)"),
            Errno::ROFS => Error::unavailable(what, "its file system is read-only").remedy("choose another target"),
            Errno::EXIST => Error::failed(what, "it exists already").remedy("choose a new name"),
            errno => return Error::system(what, errno),
        };
        error.errno(errno.raw_os_error())
    }

    fn describe(&self, fd: OwnedFd, name: String) -> Result<Opened> {
        let what = || format!("target {name}");
        let stat = rustix::fs::fstat(&fd).map_err(|errno| Error::system(what(), errno))?;
        let (kind, device) = classify(&stat, &name)?;
        let bytes = match kind {
            TargetKind::File => stat.st_size as u64,
            TargetKind::NvmeGeneric => device.and_then(|device| block_attribute(device, "size")).unwrap_or(0) * 512,
            _ => rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(|errno| Error::system(what(), errno))?,
        };
        let known_block_bytes =
            || device.and_then(|device| block_attribute(device, "queue/logical_block_size")).map(|bytes| bytes as u32);
        let device_block_bytes = || known_block_bytes().unwrap_or(512);
        let block_bytes = match kind {
            TargetKind::Block => rustix::fs::ioctl_blksszget(&fd).unwrap_or_else(|_| device_block_bytes()),
            TargetKind::NvmeGeneric => device_block_bytes(),
            _ if self.direct => match direct_alignment(&fd) {
                Some(0) => {
                    let cause = "its file system reads and writes it through the page cache, also with O_DIRECT";
                    return Err(Error::unavailable(
                        what(),
                        format!("{cause} (a journal of data, encryption or verity)"),
                    )
                    .remedy("set direct to false, or use another file"));
                }
                Some(bytes) => bytes,
                // A file on overlayfs, for example: nothing takes less than any drive does.
                None => known_block_bytes().unwrap_or(PAGE_BYTES),
            },
            _ => 1,
        };
        Ok(Opened {
            kind,
            fd: Some(fd),
            bytes,
            block_bytes: if self.direct || kind != TargetKind::Block { block_bytes } else { 1 },
            direct: self.direct || kind == TargetKind::NvmeGeneric,
            durable: self.durable,
            writing: self.writing.clone(),
            device,
            atomic_writes: OnceLock::new(),
            state: None,
            name,
        })
    }
}

impl Opened {
    /// Itself, if it holds something to read.
    fn with_a_block(self) -> Result<Self> {
        let what = || format!("target {}", self.name);
        if self.bytes == 0 && self.kind == TargetKind::NvmeGeneric {
            let cause = "the kernel shows no blocks of it, as for a format with metadata in each block (extended LBAs)";
            return Err(Error::unavailable(what(), cause)
                .remedy("choose a format without metadata (nvme format --lbaf), which erases it"));
        }
        if self.bytes == 0 && self.kind == TargetKind::Block {
            let cause = "it has no blocks, as a loop device without a file";
            return Err(Error::unavailable(what(), cause).remedy("attach or configure it first (lsblk)"));
        }
        if self.bytes == 0 {
            return Err(Error::unavailable(what(), "it is empty")
                .remedy("fill it first (dd if=/dev/urandom of=FILE bs=1M count=1024)"));
        }
        if self.bytes < u64::from(self.block_bytes) {
            return Err(Error::unavailable(
                what(),
                format!("its {} bytes are less than one block of {}", self.bytes, self.block_bytes),
            )
            .remedy("use a larger file, or set direct to false"));
        }
        Ok(self)
    }
}

fn without_dsync(name: &str) -> Error {
    Error::usage(format!("durable writes on target {name}"), "O_DSYNC is a flag of files and block devices")
        .remedy("use the block device, or sync after the writes")
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
            None => Err(Error::unavailable(what(), "a character device other than an NVMe namespace")
                .remedy("name a file, a block device or /dev/ngXnY")),
        },
        FileType::Directory => Err(Error::unavailable(what(), "it is a directory")
            .errno(libc::EISDIR)
            .remedy(format!("name a file in it: {}/scratch", name.trim_end_matches('/')))),
        _ => Err(Error::unavailable(what(), "neither a file nor a block device").remedy("check the name")),
    }
}

/// Clears O_NONBLOCK of a descriptor with these flags. With it io_uring ends each request with EAGAIN that it cannot begin at once, instead
/// of giving it to a worker: every one on a device whose driver may wait, such as dm-crypt (io_uring/rw.c, REQ_F_NOWAIT; seen on Linux
/// 5.10 and 6.1).
fn let_requests_wait(fd: &OwnedFd, flags: OFlags) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(fd, flags - OFlags::NONBLOCK)
}

/// The unit of offsets that a file takes with O_DIRECT, where the kernel reports it (statx(2), STATX_DIOALIGN, Linux 6.1). 0 for a file that
/// has no direct I/O, although open(2) takes the flag.
fn direct_alignment(fd: &OwnedFd) -> Option<u32> {
    let statx = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    (statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(statx.stx_dio_offset_align)
}

/// The largest logical block of a drive that a file system takes.
const PAGE_BYTES: u32 = 4096;

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
    parse_number(&number)
}

/// The major and minor number of a device as the kernel's lists have them, such as `259:0`.
pub fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Target {
    /// How to open a target.
    pub fn options() -> TargetOptions {
        TargetOptions::default()
    }

    /// Opens a target for reading with O_DIRECT.
    ///
    /// # Errors
    /// As [`TargetOptions::open`].
    pub fn open(name: impl AsRef<OsStr>) -> Result<Self> {
        Self::options().open(name)
    }

    /// A target on a file or device that the caller opened, with the access mode, O_DIRECT and O_DSYNC of its descriptor. It may be
    /// empty: a database that is about to be written, for example. `name` stands for it in messages.
    ///
    /// Requests may write if the descriptor may; whoever opened it answers for what they write to. O_NONBLOCK is cleared, for all
    /// descriptors that share its open file description.
    ///
    /// # Errors
    /// `Usage` if it is open for writing only, or with O_APPEND; `Unavailable` if it is neither a file, a block device nor `/dev/ngXnY`.
    ///
    /// ```
    /// # fn main() -> iolane_core::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("iolane-from-file-{}", std::process::id()));
    /// let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    /// # std::fs::remove_file(&path).unwrap();
    /// use iolane_core::Target; // or iolane::Target
    /// let target = Target::from_file(file, "the database")?;
    /// assert!(target.writable() && !target.direct() && target.bytes() == 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_file(file: impl Into<OwnedFd>, name: impl Into<String>) -> Result<Self> {
        let (fd, name) = (file.into(), name.into());
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(|errno| Error::system(format!("target {name}"), errno))?;
        let mode = flags & OFlags::RWMODE;
        if mode == OFlags::WRONLY {
            return Err(Error::usage(format!("target {name}"), "it is open for writing only")
                .remedy("open it for reading and writing"));
        }
        if flags.contains(OFlags::APPEND) {
            // Linux writes to the end of such a file, whatever the offset (pwrite(2), BUGS).
            return Err(Error::usage(
                format!("target {name}"),
                "it is open with O_APPEND, so that writes ignore their offsets",
            )
            .remedy("open it without O_APPEND"));
        }
        if flags.contains(OFlags::NONBLOCK) {
            let_requests_wait(&fd, flags).map_err(|errno| Error::system(format!("target {name}"), errno))?;
        }
        let writing = if mode == OFlags::RDWR { Writing::Unguarded } else { Writing::No };
        let options = TargetOptions { writing, ..TargetOptions::default() }
            .direct(flags.contains(OFlags::DIRECT) && direct_alignment(&fd) != Some(0))
            .durable(flags.contains(OFlags::DSYNC));
        options.describe(fd, name).map(|opened| Self(Arc::new(opened)))
    }

    /// The writes that are atomic on it, as the kernel reports them; `None` without O_DIRECT, which they need, and for targets
    /// without a descriptor.
    pub fn atomic_writes(&self) -> Option<AtomicWrites> {
        *self.0.atomic_writes.get_or_init(|| self.fd().filter(|_| self.direct()).and_then(AtomicWrites::of))
    }

    /// Its name in messages and records.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its kind.
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

    /// Whether requests bypass the page cache.
    pub fn direct(&self) -> bool {
        self.0.direct
    }

    /// Whether each write is durable when it completes.
    pub fn durable(&self) -> bool {
        self.0.durable
    }

    /// Whether requests may write.
    pub fn writable(&self) -> bool {
        self.0.writing.is_allowed()
    }

    /// Major and minor number of the block device that holds the data, where there is one. For a file on a file
    /// system without a device of its own (tmpfs, btrfs, overlayfs) the number names no block device.
    pub fn device(&self) -> Option<(u32, u32)> {
        self.0.device
    }

    /// A numeric sysfs attribute of the block device, such as `queue/io_poll`; for a partition, that of its disk.
    pub fn device_attribute(&self, attribute: &str) -> Option<u64> {
        block_attribute(self.0.device?, attribute)
    }

    /// What the interface keeps with the target, if it is of this type.
    pub fn state_of<T: Any>(&self) -> Option<&T> {
        self.0.state.as_ref()?.downcast_ref()
    }

    /// The open descriptor, where its kind [has one](TargetKind::has_descriptor).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd.as_ref().map(AsFd::as_fd)
    }

    /// The open descriptor, for an interface that reaches only files and devices.
    ///
    /// # Errors
    /// `Unavailable` if there is none.
    pub fn require_fd(&self, interface: &str) -> Result<BorrowedFd<'_>> {
        self.fd().ok_or_else(|| {
            Error::usage(
                format!("{interface} on {}", self.name()),
                format!("only path `{}` reaches it", self.0.kind.name()),
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
mod tests;
