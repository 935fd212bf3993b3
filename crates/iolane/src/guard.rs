//! Decides whether a target may be written, so that nobody's data is lost by a slip of the hand.
//! Whoever is about to open a target for writing asks here first and keeps the permit until done; nothing here writes.
//! Whatever cannot be found out counts against writing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use iolane_core::error::describe;
use iolane_core::{Error, Result, Target};
use rustix::fs::{Advice, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Proof that writing is permitted.
///
/// On a block device it holds the exclusive claim (O_EXCL without O_CREAT, open(2)) until it is dropped: meanwhile
/// nobody can mount the device or a partition of it, swap to it, or build a RAID or a volume group on it.
#[derive(Debug)]
#[must_use = "the claim on a block device ends when the permit is dropped"]
pub struct WritePermit {
    /// What was checked; `None` if it is made up or was missing.
    identity: Option<Identity>,
    /// The claim on a block device; of a file a mere handle (O_PATH), so that its inode number is not given away.
    _held: Option<OwnedFd>,
}

impl WritePermit {
    /// Checks that an opened target is the very thing that was permitted: a name may lead elsewhere by now.
    ///
    /// A permit for a target that was missing covers made-up devices alone; a file that the run created itself
    /// ([`create`](iolane_core::TargetOptions::create)) needs no permit.
    ///
    /// # Errors
    /// `Unavailable` if it is something else.
    pub fn covers(&self, opened: &Target) -> Result<()> {
        let Some(fd) = opened.fd() else { return Ok(()) };
        let what = || format!("writing to {}", opened.name());
        let stat = rustix::fs::fstat(fd).map_err(|errno| Error::system(what(), errno))?;
        if self.identity.is_some() && Identity::of(&stat) == self.identity {
            return Ok(());
        }
        Err(Error::unavailable(what(), "the name led to something else when it was checked").remedy("start again"))
    }
}

/// Checks that `target` may be written. `allowed`: the names given with `--allow-writes`; `erase`: `--erase`.
///
/// A made-up device is permitted, and so is a target that does not exist: opening it will say so. Any other must be
/// among `allowed`, by whatever name, and must not be in use:
/// - a block device: not mounted, swap, claimed, held by another device (md, dm, bcache) or behind a loop device,
///   nor may its partitions or, for a partition, its disk be; and without `erase` it must carry no signature of a
///   file system, a RAID, a volume manager or a partition table (as wipefs(8) lists them);
/// - the character device of an NVMe namespace: as the block device of that namespace;
/// - a regular file: not swap, not mounted, not behind a loop device, not a door to the kernel (/proc, /sys).
///
/// The device is claimed first and checked while the claim is held, so that nothing can change in between.
/// Sources: open(2), proc_pid_mountinfo(5), proc_swaps(5), Documentation/ABI/stable/sysfs-block.
///
/// # Errors
/// `Usage` if the target is not among `allowed`; `Unavailable` if it is in use, carries a signature, is nothing that
/// can be written, or if any of that cannot be found out.
pub fn permit_writes(target: &OsStr, allowed: &[OsString], erase: bool) -> Result<WritePermit> {
    let nothing_to_harm = WritePermit { identity: None, _held: None };
    if is_made_up(target) {
        return Ok(nothing_to_harm);
    }
    let name = shown(target);
    let Some(found) = find(target).map_err(|refusal| refusal.on(&name))? else { return Ok(nothing_to_harm) };
    if !allowed.iter().any(|allowed| identify(allowed) == Some(found.identity)) {
        return Err(Error::usage(format!("writing to {name}"), "it exists, and what is in it would be lost")
            .remedy(format!("to permit it add --allow-writes {name}")));
    }
    let identity = Some(found.identity);
    let held = match found.identity {
        Identity::File { .. } => check_file(found),
        Identity::Block(number) => check_device(found, number, erase),
    };
    Ok(WritePermit { identity, _held: Some(held.map_err(|refusal| refusal.on(&name))?) })
}

/// Refuses a list of targets in which two are the same thing: a file and its hard link, a device under two names,
/// a partition and its disk. Made-up devices and what cannot be looked up are passed over; opening tells of the latter.
///
/// # Errors
/// `Unavailable`, naming the two.
pub fn refuse_doubles(targets: &[OsString]) -> Result<()> {
    let mut seen: Vec<(&OsString, Identity, Option<Identity>)> = Vec::new();
    for target in targets.iter().filter(|target| !is_made_up(target)) {
        let Some(identity) = identify(target) else { continue };
        let disk = disk_of(identity);
        for (other, other_identity, other_disk) in &seen {
            let cause = if identity == *other_identity {
                format!("it is the same as {}", shown(other))
            } else if disk == Some(*other_identity) {
                format!("it is a partition of {}", shown(other))
            } else if *other_disk == Some(identity) {
                format!("{} is a partition of it", shown(other))
            } else {
                continue;
            };
            return Err(Error::usage(format!("target {}", shown(target)), cause).remedy("name one of them"));
        }
        seen.push((target, identity, disk));
    }
    Ok(())
}

/// Why writing is refused, before it is known by what name the target goes.
#[derive(Debug)]
struct Refusal {
    cause: String,
    remedy: String,
}

impl Refusal {
    fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause: cause.into(), remedy: remedy.into() }
    }

    fn unreadable(what: impl AsRef<OsStr>, error: impl Into<io::Error>) -> Self {
        let cause = format!("whether it is in use cannot be told from {}", shown(what.as_ref()));
        Self::new(format!("{cause} ({})", describe(&error.into())), "run where /proc and /sys can be read")
    }

    fn on(self, name: &str) -> Error {
        Error::unavailable(format!("writing to {name}"), self.cause).remedy(self.remedy)
    }
}

/// A name fit for one line of a message.
fn shown(name: &OsStr) -> String {
    name.to_string_lossy().replace(char::is_control, "?")
}

/// Whether the target is a device that `iolane_core::target` makes up, which wins over a file of that name.
fn is_made_up(target: &OsStr) -> bool {
    let scheme = target.to_str().and_then(|target| target.split(':').next());
    matches!(scheme, Some("null" | "sim"))
}

/// Major and minor number of a block device.
type Number = (u32, u32);

/// What a name stands for, however it is spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    File { device: u64, inode: u64 },
    Block(Number),
}

impl Identity {
    /// `None` for what can be no target. An NVMe namespace is the same thing by both of its devices.
    fn of(stat: &Stat) -> Option<Self> {
        let number = || (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Self::File { device: stat.st_dev, inode: stat.st_ino }),
            FileType::BlockDevice => Some(Self::Block(number())),
            FileType::CharacterDevice => Sysfs::HERE.nvme_namespace(number()).map(Self::Block),
            _ => None,
        }
    }
}

/// What a name leads to, if it leads to anything that can be a target.
fn identify(name: &OsStr) -> Option<Identity> {
    Identity::of(&rustix::fs::stat(name).ok()?)
}

/// The disk that a partition is on, where sysfs tells.
fn disk_of(identity: Identity) -> Option<Identity> {
    let Identity::Block(number) = identity else { return None };
    let disk = Sysfs::HERE.block(number).ok()?.disk().ok()??;
    Some(Identity::Block(disk.number))
}

/// A target that exists.
struct Found {
    /// A handle that neither reads nor writes (O_PATH): from here on the name is not looked up again.
    node: OwnedFd,
    stat: Stat,
    identity: Identity,
}

fn find(target: &OsStr) -> Result<Option<Found>, Refusal> {
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

fn check_file(found: Found) -> Result<OwnedFd, Refusal> {
    check_file_system(&found.node)?;
    Survey::of_file(found.identity, found.stat.st_size as u64).check(&System::read()?, &System::resolve)?;
    Ok(found.node)
}

/// File systems whose files are doors to the kernel or the firmware; numbers of statfs(2) and linux/magic.h.
const DOORS: &[(u32, &str)] = &[
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0xde5e_81e4, "efivarfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x0765_5821, "resctrl"),
    (0x6e73_6673, "nsfs"),
];

fn check_file_system(node: &OwnedFd) -> Result<(), Refusal> {
    let statfs = rustix::fs::fstatfs(node).map_err(|errno| Refusal::unreadable("its file system", errno))?;
    // The type is signed on some machines; the numbers have 32 bits on all.
    match DOORS.iter().find(|(magic, _)| *magic == statfs.f_type as u32) {
        Some((_, name)) => {
            Err(Refusal::new(format!("it is a file of {name}, which steers the kernel"), "name another file"))
        }
        None => Ok(()),
    }
}

fn check_device(found: Found, number: Number, erase: bool) -> Result<OwnedFd, Refusal> {
    let device = Sysfs::HERE.block(number)?;
    let claim = claim(&found, &device)?;
    Survey::of_device(&device)?.check(&System::read()?, &System::resolve)?;
    if !erase {
        check_signatures(&claim, &device)?;
    }
    Ok(claim)
}

/// Takes the device for ourselves; whatever is mounted, swap or part of an array has been taken likewise.
fn claim(found: &Found, device: &BlockDevice) -> Result<OwnedFd, Refusal> {
    let device_node;
    let node = match FileType::from_raw_mode(found.stat.st_mode) {
        FileType::BlockDevice => &found.node,
        _ => {
            device_node = device.node()?;
            &device_node
        }
    };
    // Through the handle and not by name, which may have been moved to something else since it was looked up.
    let path = format!("/proc/self/fd/{}", node.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::BUSY => why_claimed(device),
        errno => Refusal::new(
            format!("it cannot be opened to see what is on it ({})", describe(&errno.into())),
            "run as a user who may read it (root, or group `disk`)",
        ),
    })
}

fn why_claimed(device: &BlockDevice) -> Refusal {
    let known = Survey::of_device(device).and_then(|survey| survey.check(&System::read()?, &System::resolve));
    known.err().unwrap_or_else(|| {
        Refusal::new(
            "it is claimed, by a mount elsewhere, an array or another program",
            format!("find and stop its user (lsblk, fuser -v /dev/{})", device.name),
        )
    })
}

/// The block devices of a sysfs tree; a field, so that tests can bring a tree of their own.
struct Sysfs<'a>(&'a str);

impl Sysfs<'_> {
    const HERE: Sysfs<'static> = Sysfs("/sys");

    fn block(&self, (major, minor): Number) -> Result<BlockDevice, Refusal> {
        let link = Path::new(self.0).join(format!("dev/block/{major}:{minor}"));
        let folder = fs::canonicalize(&link).map_err(|error| Refusal::unreadable(&link, error))?;
        BlockDevice::at(folder)
    }

    /// The block device of the namespace that a character device (`/dev/ng0n1`) reaches.
    fn nvme_namespace(&self, (major, minor): Number) -> Option<Number> {
        let link = fs::read_link(Path::new(self.0).join(format!("dev/char/{major}:{minor}"))).ok()?;
        let namespace = link.file_name()?.to_str()?.strip_prefix("ng")?;
        let number = fs::read(Path::new(self.0).join(format!("class/block/nvme{namespace}/dev"))).ok()?;
        parse_number(number.trim_ascii())
    }

    /// Every loop device that is made of something.
    fn loops(&self) -> Result<Vec<Loop>, Refusal> {
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

/// The names in a sysfs folder.
fn names_in(folder: &Path) -> Result<Vec<OsString>, Refusal> {
    fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect())
        .map_err(|error| Refusal::unreadable(folder, error))
}

/// A block device as sysfs tells of it.
struct BlockDevice {
    number: Number,
    /// The kernel's name, as `sda1`.
    name: String,
    folder: PathBuf,
}

impl BlockDevice {
    fn at(folder: PathBuf) -> Result<Self, Refusal> {
        let path = folder.join("dev");
        let text = fs::read(&path).map_err(|error| Refusal::unreadable(&path, error))?;
        let number = parse_number(text.trim_ascii()).ok_or_else(|| Refusal::unreadable(&path, Errno::INVAL))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { number, name, folder })
    }

    /// The node in /dev, as a handle that opens nothing (O_PATH).
    fn node(&self) -> Result<OwnedFd, Refusal> {
        // The kernel writes `!` where a device's name has a slash (cciss!c0d0).
        let path = Path::new("/dev").join(self.name.replace('!', "/"));
        let unreadable = |errno| Refusal::unreadable(&path, errno);
        let node = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(unreadable)?;
        let stat = rustix::fs::fstat(&node).map_err(unreadable)?;
        match Identity::of(&stat) {
            Some(Identity::Block(number)) if number == self.number => Ok(node),
            _ => Err(unreadable(Errno::NODEV)),
        }
    }

    fn is_partition(&self) -> Result<bool, Refusal> {
        let path = self.folder.join("partition");
        path.try_exists().map_err(|error| Refusal::unreadable(path, error))
    }

    /// The disk that a partition is on; `None` for a disk.
    fn disk(&self) -> Result<Option<Self>, Refusal> {
        match self.folder.parent() {
            Some(disk) if self.is_partition()? => Self::at(disk.to_owned()).map(Some),
            _ => Ok(None),
        }
    }

    fn partitions(&self) -> Result<Vec<Self>, Refusal> {
        let mut partitions = Vec::new();
        for name in names_in(&self.folder)? {
            // The kernel names a partition after its disk: sda1 is on sda, nvme0n1p1 on nvme0n1.
            if name.as_bytes().starts_with(self.name.as_bytes()) {
                partitions.push(Self::at(self.folder.join(name))?);
            }
        }
        Ok(partitions)
    }

    /// The devices built on this one: md, dm, bcache.
    fn holders(&self) -> Result<Vec<Self>, Refusal> {
        let folder = self.folder.join("holders");
        let holder = |name: &OsString| {
            let link = folder.join(name);
            fs::canonicalize(&link).map_err(|error| Refusal::unreadable(&link, error)).and_then(Self::at)
        };
        names_in(&folder)?.iter().map(holder).collect()
    }

    fn attribute(&self, name: &str) -> Result<u64, Refusal> {
        self.try_attribute(name).map_err(|error| Refusal::unreadable(self.folder.join(name), error))
    }

    fn try_attribute(&self, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(name))?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// What a loop device is made of; `None` for other devices and for loop devices that are free.
    fn as_loop(&self) -> Result<Option<Loop>, Refusal> {
        match self.try_loop() {
            Ok(made) => Ok((!made.backing.is_empty()).then_some(made)),
            // Free, or detached while it was being looked at.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
            Err(error) => Err(Refusal::unreadable(self.folder.join("loop"), error)),
        }
    }

    fn try_loop(&self) -> io::Result<Loop> {
        let mut backing = fs::read(self.folder.join("loop/backing_file"))?;
        // One newline is the attribute's; others may be the name's.
        backing.pop_if(|byte| *byte == b'\n');
        let end = self.try_attribute("loop/offset")?.saturating_add(sector_bytes(self.try_attribute("size")?));
        let limited = self.try_attribute("loop/sizelimit")? != 0;
        Ok(Loop { name: self.name.clone(), backing: OsString::from_vec(backing), end, limited })
    }

    fn bytes(&self) -> Result<u64, Refusal> {
        self.attribute("size").map(sector_bytes)
    }
}

/// sysfs counts in sectors of 512 bytes, whatever the device's blocks are.
fn sector_bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(512)
}

fn parse_number(text: &[u8]) -> Option<Number> {
    let (major, minor) = str::from_utf8(text).ok()?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A loop device in use.
struct Loop {
    name: String,
    /// The name its file had when last it was renamed, or what is left of it when it was deleted.
    backing: OsString,
    /// Where in its file the device ends, in bytes.
    end: u64,
    /// Whether it ends before its file does.
    limited: bool,
}

impl Loop {
    /// Whether it may be made of something of this size. All there is to tell where the name leads nowhere: the file
    /// was deleted but has another link, or the name is that of another mount namespace.
    fn may_be_made_of(&self, bytes: u64) -> bool {
        self.end <= bytes && (self.limited || bytes - self.end < 512)
    }
}

/// How a thing is bound up with the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Itself,
    Partition,
    Disk,
    Holder,
    Backing,
}

/// A thing that writing to the target may harm.
#[derive(Debug)]
struct Concern {
    identity: Identity,
    role: Role,
    name: String,
    bytes: u64,
}

impl Concern {
    /// How a message speaks of it, the target being "it".
    fn phrase(&self) -> String {
        match self.role {
            Role::Itself => "it".into(),
            Role::Partition => format!("its partition {}", self.name),
            Role::Disk => format!("its disk {}", self.name),
            Role::Holder => format!("{} (built on it)", self.name),
            Role::Backing => format!("{} (which it is made of)", self.name),
        }
    }
}

/// Finds out what a name stands for.
type Resolve<'a> = &'a dyn Fn(&OsStr) -> Option<Identity>;

/// Everything that writing to the target may harm.
#[derive(Debug, Default)]
struct Survey {
    concerns: Vec<Concern>,
    /// The loop devices that lead from the target down to what it is made of: they do not speak against it.
    own_loops: Vec<String>,
}

impl Survey {
    fn of_file(identity: Identity, bytes: u64) -> Self {
        let concern = Concern { identity, role: Role::Itself, name: String::new(), bytes };
        Self { concerns: vec![concern], own_loops: Vec::new() }
    }

    fn of_device(device: &BlockDevice) -> Result<Self, Refusal> {
        let mut survey = Self::default();
        survey.add_with_disk(device, Role::Itself)?;
        Ok(survey)
    }

    /// Adds a device with everything above it, its disk, and everything below it.
    fn add_with_disk(&mut self, device: &BlockDevice, role: Role) -> Result<(), Refusal> {
        self.add_with_partitions(device, role)?;
        let Some(disk) = device.disk()? else { return self.add_backing(device) };
        // The other partitions of that disk are none of the target's business.
        self.add_with_holders(&disk, if role == Role::Itself { Role::Disk } else { role })?;
        self.add_backing(&disk)
    }

    fn add_with_partitions(&mut self, device: &BlockDevice, role: Role) -> Result<(), Refusal> {
        if self.add_with_holders(device, role)? {
            for partition in device.partitions()? {
                self.add_with_partitions(&partition, if role == Role::Itself { Role::Partition } else { role })?;
            }
        }
        Ok(())
    }

    /// Adds a device and, level by level, what is built on it; false if it was known already.
    fn add_with_holders(&mut self, device: &BlockDevice, role: Role) -> Result<bool, Refusal> {
        let identity = Identity::Block(device.number);
        if self.concerns.iter().any(|concern| concern.identity == identity) {
            return Ok(false);
        }
        self.concerns.push(Concern { identity, role, name: device.name.clone(), bytes: device.bytes()? });
        for holder in device.holders()? {
            self.add_with_partitions(&holder, Role::Holder)?;
        }
        Ok(true)
    }

    /// Adds what a loop device is made of: having a loop device keeps nobody from mounting that.
    fn add_backing(&mut self, device: &BlockDevice) -> Result<(), Refusal> {
        let Some(made) = device.as_loop()? else { return Ok(()) };
        self.own_loops.push(made.name);
        match identify(&made.backing) {
            Some(Identity::Block(number)) => self.add_with_disk(&Sysfs::HERE.block(number)?, Role::Backing),
            Some(identity) => {
                let name = shown(&made.backing);
                self.concerns.push(Concern { identity, role: Role::Backing, name, bytes: made.end });
                Ok(())
            }
            // Deleted, or of another mount namespace: nobody here can come by it in any other way.
            None => Ok(()),
        }
    }

    /// Refuses if any of it is in use.
    fn check(&self, system: &System, resolve: Resolve<'_>) -> Result<(), Refusal> {
        let refusal = self
            .mounted(&system.mounts, resolve)
            .or_else(|| self.swapped_to(&system.swaps, resolve))
            .or_else(|| self.held())
            .or_else(|| self.behind_loop(&system.loops, resolve));
        refusal.map_or(Ok(()), Err)
    }

    fn concern(&self, identity: Option<Identity>) -> Option<&Concern> {
        self.concerns.iter().find(|concern| Some(concern.identity) == identity)
    }

    /// By number, and by name too: the number is an invented one for btrfs, and for a file that is mounted (erofs).
    fn mounted(&self, mounts: &[Mount], resolve: Resolve<'_>) -> Option<Refusal> {
        mounts.iter().find_map(|mount| {
            let by_number = self.concern(Some(Identity::Block(mount.number)));
            let concern = by_number.or_else(|| self.concern(resolve(&mount.source)))?;
            let point = shown(&mount.point);
            let cause = format!("{} is mounted at {point}", concern.phrase());
            Some(Refusal::new(cause, format!("unmount it first (umount {point})")))
        })
    }

    /// A name that leads nowhere (deleted, or of another mount namespace) is passed over: the kernel claims the
    /// devices it swaps to, and lets nobody write to the files (ETXTBSY).
    fn swapped_to(&self, swaps: &[OsString], resolve: Resolve<'_>) -> Option<Refusal> {
        swaps.iter().find_map(|swap| {
            let cause = format!("{} is in use as swap", self.concern(resolve(swap))?.phrase());
            Some(Refusal::new(cause, format!("turn that off first (swapoff {})", shown(swap))))
        })
    }

    fn held(&self) -> Option<Refusal> {
        let holder = self.concerns.iter().find(|concern| concern.role == Role::Holder)?;
        Some(Refusal::new(format!("{} is built on it", holder.name), format!("stop {} first (lsblk)", holder.name)))
    }

    fn behind_loop(&self, loops: &[Loop], resolve: Resolve<'_>) -> Option<Refusal> {
        loops.iter().filter(|made| !self.own_loops.contains(&made.name)).find_map(|made| {
            let backing = resolve(&made.backing);
            let is_behind = |concern: &&Concern| match backing {
                Some(backing) => concern.identity == backing,
                None => made.may_be_made_of(concern.bytes),
            };
            let concern = self.concerns.iter().find(is_behind)?;
            let cause = match backing {
                Some(_) => format!("loop device {} is made of {}", made.name, concern.phrase()),
                None => format!("loop device {} may be made of {}, by its size", made.name, concern.phrase()),
            };
            Some(Refusal::new(cause, format!("detach it first (losetup -d /dev/{})", made.name)))
        })
    }
}

/// What is in use on this machine.
struct System {
    mounts: Vec<Mount>,
    swaps: Vec<OsString>,
    loops: Vec<Loop>,
}

impl System {
    fn read() -> Result<Self, Refusal> {
        Ok(Self { mounts: read_mounts()?, swaps: read_swaps()?, loops: Sysfs::HERE.loops()? })
    }

    /// What a name in a list of the kernel's stands for. A mount's source may be any word (`tmpfs`), which must not
    /// be taken for a file in the working directory.
    fn resolve(name: &OsStr) -> Option<Identity> {
        Path::new(name).is_absolute().then(|| identify(name)).flatten()
    }
}

fn read_mounts() -> Result<Vec<Mount>, Refusal> {
    let path = "/proc/self/mountinfo";
    let text = fs::read(path).map_err(|error| Refusal::unreadable(path, error))?;
    parse_mountinfo(&text).ok_or_else(|| Refusal::unreadable(path, Errno::INVAL))
}

fn read_swaps() -> Result<Vec<OsString>, Refusal> {
    let path = "/proc/swaps";
    match fs::read(path) {
        Ok(text) => parse_swaps(&text).ok_or_else(|| Refusal::unreadable(path, Errno::INVAL)),
        // A kernel built without swap has no such file; that /proc is there has shown in the list of mounts.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Refusal::unreadable(path, error)),
    }
}

/// A line of /proc/self/mountinfo.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    number: Number,
    point: OsString,
    source: OsString,
}

/// Reads a list of mounts, proc_pid_mountinfo(5); `None` if a line is not of that form.
///
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_mountinfo(text: &[u8]) -> Option<Vec<Mount>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            // One space apart, always: a source may be empty.
            let mut fields = line.split(|byte| *byte == b' ');
            let number = parse_number(fields.nth(2)?)?;
            let point = unescape(fields.nth(1)?);
            fields.find(|field| *field == b"-")?;
            Some(Mount { number, point, source: unescape(fields.nth(1)?) })
        })
        .collect()
}

/// Reads the names of the files and devices in use as swap, proc_swaps(5); `None` if the text is not of that form.
fn parse_swaps(text: &[u8]) -> Option<Vec<OsString>> {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    if !lines.next()?.starts_with(b"Filename") {
        return None;
    }
    lines
        .map(|line| {
            let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
            (end > 0).then(|| unescape(&line[..end]))
        })
        .collect()
}

/// Undoes the kernel's escapes: a space is written `\040`.
fn unescape(field: &[u8]) -> OsString {
    let mut name = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        rest = match rest {
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..] => {
                name.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                after
            }
            _ => {
                name.push(*first);
                after
            }
        };
    }
    OsString::from_vec(name)
}

fn check_signatures(claim: &OwnedFd, device: &BlockDevice) -> Result<(), Refusal> {
    // The partitions are read through the disk, whose page cache knows nothing of what was written through theirs:
    // what it remembers is dropped first.
    let _ = rustix::fs::fadvise(claim, 0, None, Advice::DontNeed);
    check_signature(claim, "it", 0, device.bytes()?)?;
    for partition in device.partitions()? {
        let start = partition.attribute("start").map(sector_bytes)?;
        check_signature(claim, &format!("its partition {}", partition.name), start, partition.bytes()?)?;
    }
    Ok(())
}

fn check_signature(fd: &OwnedFd, phrase: &str, start: u64, bytes: u64) -> Result<(), Refusal> {
    let found = find_signature(bytes, &mut |offset, buffer| {
        let within = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        Ok(rustix::io::pread(fd, &mut buffer[..within], start.saturating_add(offset))?)
    });
    match found {
        Ok(None) => Ok(()),
        Ok(Some(name)) => {
            Err(Refusal::new(format!("{phrase} carries {name}"), "if all that is on it may be lost add --erase"))
        }
        Err(error) => Err(Refusal::new(
            format!("what {phrase} carries cannot be read ({})", describe(&error)),
            "if all that is on it may be lost add --erase",
        )),
    }
}

/// Reads some bytes at an offset, as pread(2) does.
type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> io::Result<usize> + 'a;

/// Where a magic number stands.
enum Place {
    /// At any of these offsets.
    Start(&'static [u64]),
    /// This many bytes before the end, rounded down to a multiple of the second number.
    End(u64, u64),
}

use Place::{End, Start};

/// A swap header ends its page, which is as large as the machine that wrote it has them.
const PAGE_ENDS: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
const LUKS2_SECOND_HEADERS: &[u64] =
    &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
const MD: &[u8] = b"\xfc\x4e\x2b\xa9";
const MD_BIG_ENDIAN: &[u8] = b"\xa9\x2b\x4e\xfc";

/// What tells that a device is in somebody's use, after wipefs(8) and the documents of each. Of two that a device may
/// carry at once the one that says more comes first.
const SIGNATURES: &[(&str, Place, &[u8])] = &[
    ("a LUKS encrypted volume", Start(&[0]), b"LUKS\xba\xbe"),
    ("a LUKS encrypted volume (second header)", Start(LUKS2_SECOND_HEADERS), b"SKUL\xba\xbe"),
    ("a BitLocker volume", Start(&[3]), b"-FVE-FS-"),
    ("an LVM2 physical volume", Start(&[0, 512, 1024, 1536]), b"LABELONE"),
    ("an md RAID member (1.1 or 1.2)", Start(&[0, 4096]), MD),
    ("an md RAID member (1.0)", End(8192, 4096), MD),
    ("an md RAID member (0.90)", End(65536, 65536), MD),
    ("an md RAID member (0.90)", End(65536, 65536), MD_BIG_ENDIAN),
    ("an Intel RAID member", End(1024, 512), b"Intel Raid ISM Cfg Sig."),
    ("an Intel RAID member", End(8192, 4096), b"Intel Raid ISM Cfg Sig."),
    ("a DDF RAID member", End(512, 512), b"\xde\x11\xde\x11"),
    ("a DDF RAID member", End(4096, 4096), b"\xde\x11\xde\x11"),
    ("a bcache device", Start(&[0x1018]), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("a bcachefs file system", Start(&[0x1018]), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("a Ceph BlueStore device", Start(&[0]), b"bluestore block device"),
    ("a Stratis device", Start(&[0x204, 0x1204]), b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("a VDO volume", Start(&[0]), b"dmvdo001"),
    ("a dm-verity hash tree", Start(&[0]), b"verity\0\0"),
    ("a dm-integrity device", Start(&[0]), b"integrt\0"),
    ("an Oracle ASM disk", Start(&[32]), b"ORCLDISK"),
    ("a VMFS volume", Start(&[0x10_0000]), b"\x0d\xd0\x01\xc0"),
    ("a btrfs file system", Start(&[0x1_0040]), b"_BHRfS_M"),
    ("an xfs file system", Start(&[0]), b"XFSB"),
    ("an external xfs log", Start(&[0]), b"\xfe\xed\xba\xbe"),
    ("an ext2, ext3 or ext4 file system", Start(&[0x438]), b"\x53\xef"),
    ("an f2fs file system", Start(&[1024, 5120]), b"\x10\x20\xf5\xf2"),
    ("an erofs file system", Start(&[1024]), b"\xe2\xe1\xf5\xe0"),
    ("a squashfs file system", Start(&[0]), b"hsqs"),
    ("an NTFS file system", Start(&[3]), b"NTFS    "),
    ("a ReFS file system", Start(&[0]), b"\0\0\0ReFS\0"),
    ("an exFAT file system", Start(&[3]), b"EXFAT   "),
    ("a FAT file system", Start(&[0x52]), b"FAT32   "),
    ("a FAT file system", Start(&[0x36]), b"FAT16   "),
    ("a FAT file system", Start(&[0x36]), b"FAT12   "),
    ("a FAT file system", Start(&[0x36]), b"FAT     "),
    ("an ISO 9660 file system", Start(&[0x8001]), b"CD001"),
    ("a UDF file system", Start(&[0x8001]), b"BEA01"),
    ("an APFS container", Start(&[32]), b"NXSB"),
    ("an HFS+ file system", Start(&[1024]), b"H+\0\x04"),
    ("an HFS+ file system", Start(&[1024]), b"HX\0\x05"),
    ("a nilfs2 file system", Start(&[1030]), b"\x34\x34"),
    ("a JFS file system", Start(&[0x8000]), b"JFS1"),
    ("a reiserfs file system", Start(&[0x2034, 0x1_0034]), b"ReIsEr"),
    ("a GFS2 file system", Start(&[0x1_0000]), b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", Start(&[1024, 2048, 4096, 8192]), b"OCFSV2"),
    ("a swap area", Start(PAGE_ENDS), b"SWAPSPACE2"),
    ("a swap area", Start(PAGE_ENDS), b"SWAP-SPACE"),
    ("a hibernation image", Start(PAGE_ENDS), b"S1SUSPEND"),
    ("a hibernation image", Start(PAGE_ENDS), b"ULSUSPEND"),
    ("a hibernation image", Start(PAGE_ENDS), b"LINHIB0001"),
    ("a GPT partition table", Start(&[512, 4096]), b"EFI PART"),
    ("a GPT partition table (backup)", End(512, 512), b"EFI PART"),
    ("a GPT partition table (backup)", End(4096, 4096), b"EFI PART"),
    ("an Apple partition table", Start(&[512]), b"PM\0\0"),
    ("an SGI partition table", Start(&[0]), b"\x0b\xe5\xa9\x41"),
    ("a BSD partition table", Start(&[512]), b"\x57\x45\x56\x82"),
    ("a Sun partition table", Start(&[508]), b"\xda\xbe"),
    ("an MBR partition table or boot sector", Start(&[510]), b"\x55\xaa"),
];

/// The name of the first signature found on a device of this size, read by `read`.
fn find_signature(bytes: u64, read: &mut ReadAt<'_>) -> io::Result<Option<&'static str>> {
    if has_zfs_label(bytes, read)? {
        return Ok(Some("a ZFS pool member"));
    }
    for (name, place, magic) in SIGNATURES {
        let from_end = |back: u64, unit: u64| bytes.checked_sub(back).map(|offset| offset / unit * unit);
        let offsets = match place {
            Start(offsets) => offsets.to_vec(),
            End(back, unit) => from_end(*back, *unit).into_iter().collect(),
        };
        for offset in offsets {
            let mut buffer = vec![0; magic.len()];
            if read_fully(read, offset, &mut buffer)? == *magic {
                return Ok(Some(name));
            }
        }
    }
    Ok(None)
}

/// ZFS keeps four labels of 256 KiB, two at each end. The second half of each is a ring of uberblocks, of which any may
/// have been written last (ZFS On-Disk Specification, section 1.3).
fn has_zfs_label(bytes: u64, read: &mut ReadAt<'_>) -> io::Result<bool> {
    const LABEL: u64 = 256 << 10;
    const UBERBLOCK: u64 = 0x00ba_b10c;
    let end = bytes / LABEL * LABEL;
    let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    let mut ring = vec![0; LABEL as usize / 2];
    for label in labels.into_iter().flatten() {
        let ring = read_fully(read, label + LABEL / 2, &mut ring)?;
        let starts =
            |block: &[u8]| block.starts_with(&UBERBLOCK.to_le_bytes()) || block.starts_with(&UBERBLOCK.to_be_bytes());
        if ring.chunks(1024).any(starts) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fills the buffer, or as much of it as there is before the end.
fn read_fully<'b>(read: &mut ReadAt<'_>, offset: u64, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(offset + filled as u64, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_mountinfo_gives_number_point_and_source() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue\n\
            41 27 0:40 /a /my\\040disk rw - btrfs /dev/\\134x\\011y rw\n\
            42 27 0:41 / /empty rw - fuse  rw\n";
        let mount = |number, point: &str, source: &str| Mount { number, point: point.into(), source: source.into() };
        let expected = [
            mount((98, 0), "/mnt2", "/dev/root"),
            mount((0, 40), "/my disk", "/dev/\\x\ty"),
            mount((0, 41), "/empty", ""),
        ];
        assert_eq!(parse_mountinfo(text).unwrap(), expected);
    }

    #[test]
    fn a_line_of_mountinfo_that_makes_no_sense_is_not_passed_over() {
        for line in
            ["x", "1 2 3 / / rw - ext4 /dev/a", "1 2 8:1 / / rw ext4 /dev/a", "1 2 8:1 / / rw -", "1 2 8:-1 / / - a b"]
        {
            let text = format!("36 35 98:0 / / rw - ext3 /dev/root rw\n{line}\n");
            assert_eq!(parse_mountinfo(text.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn swaps_are_named_without_the_padding_and_the_escapes() {
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let text = format!(
            "{header}/dev/sda2                               partition\t8\t\t0\t\t-2\n\
             /a\\040b\\040(deleted)\t\t\t\tfile\t\t8\t\t0\t\t-3\n"
        );
        assert_eq!(parse_swaps(text.as_bytes()).unwrap(), ["/dev/sda2", "/a b (deleted)"]);
        assert_eq!(parse_swaps(header.as_bytes()).unwrap(), [""; 0]);
        for text in ["", "/dev/sda2 partition 8 0 -2\n", &format!("{header}noend"), &format!("{header} x\n")] {
            assert_eq!(parse_swaps(text.as_bytes()), None, "{text}");
        }
    }

    /// As the kernel writes names in its lists (seq_path).
    fn escape(name: &[u8]) -> Vec<u8> {
        let escaped = |byte: &u8| match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
            _ => vec![*byte],
        };
        name.iter().flat_map(escaped).collect()
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "(\\PC|[ \t\n\\\\0-9:-]|Filename ){0,60}", bytes: Vec<u8>) {
            for text in [text.as_bytes(), &bytes] {
                let _ = parse_mountinfo(text);
                let _ = parse_swaps(text);
                let _ = parse_number(text);
                let _ = unescape(text);
            }
        }

        #[test]
        fn names_of_any_bytes_survive_the_lists(point: Vec<u8>, source: Vec<u8>, major: u32, minor: u32) {
            let (point_text, source_text) = (escape(&point), escape(&source));
            let start = format!("1 2 {major}:{minor} / ");
            let line = [start.as_bytes(), &point_text, b" rw - x ", &source_text, b" rw\n"].concat();
            let (point, source) = (OsString::from_vec(point), OsString::from_vec(source));
            let expected = Mount { number: (major, minor), point, source: source.clone() };
            prop_assert_eq!(parse_mountinfo(&line).unwrap(), [expected]);
            if !source.is_empty() {
                let swaps = [b"Filename\n", &source_text[..], b" file\n"].concat();
                prop_assert_eq!(parse_swaps(&swaps).unwrap(), [source]);
            }
        }
    }

    fn signature_of(image: &[u8]) -> Option<&'static str> {
        let mut read = |offset: u64, buffer: &mut [u8]| {
            let rest = image.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len()).min(1000);
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        find_signature(image.len() as u64, &mut read).unwrap()
    }

    fn image_with(bytes: usize, offset: usize, magic: &[u8]) -> Vec<u8> {
        let mut image = vec![0; bytes];
        image[offset..offset + magic.len()].copy_from_slice(magic);
        image
    }

    #[test]
    fn every_signature_is_found_wherever_it_may_stand() {
        let bytes = (5 << 20) + 0x1a00;
        for (name, place, magic) in SIGNATURES {
            let offsets = match place {
                Start(offsets) => offsets.to_vec(),
                End(back, unit) => vec![(bytes - back) / unit * unit],
            };
            for offset in offsets {
                assert_eq!(
                    signature_of(&image_with(bytes as usize, offset as usize, magic)),
                    Some(*name),
                    "at {offset}"
                );
            }
        }
    }

    #[test]
    fn signatures_at_the_end_are_found_on_a_device_of_odd_size() {
        // 200 KiB and 3 sectors of 512 bytes; md counts its places in units of 4 KiB and 64 KiB.
        let bytes = 200 * 1024 + 1536;
        for (offset, magic, name) in [
            (128 * 1024, MD, "an md RAID member (0.90)"),
            (192 * 1024, MD, "an md RAID member (1.0)"),
            (bytes - 512, b"EFI PART", "a GPT partition table (backup)"),
            (bytes - 1024, b"Intel Raid ISM Cfg Sig.", "an Intel RAID member"),
        ] {
            assert_eq!(signature_of(&image_with(bytes, offset, magic)), Some(name), "at {offset}");
        }
    }

    #[test]
    fn a_zfs_uberblock_is_found_in_any_label_and_either_byte_order() {
        let (bytes, label) = ((3 << 20) + 70_000, 256 << 10);
        for start in [0, label, (3 << 20) - 2 * label, (3 << 20) - label] {
            for slot in [0, 4, 127] {
                let offset = start + label / 2 + slot * 1024;
                for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
                    assert_eq!(signature_of(&image_with(bytes, offset, &magic)), Some("a ZFS pool member"), "{offset}");
                }
            }
        }
    }

    #[test]
    fn a_blank_device_of_any_size_carries_no_signature() {
        for bytes in [0, 1, 511, 512, 4096, 65_535, 65_536, 300_000, 1 << 20] {
            assert_eq!(signature_of(&vec![0; bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn a_device_that_cannot_be_read_is_not_taken_for_blank() {
        let fails_at = |bad: u64| {
            let mut read = move |offset: u64, buffer: &mut [u8]| match offset {
                offset if offset == bad => Err(Errno::IO.into()),
                _ => Ok(buffer.len()),
            };
            find_signature(1 << 20, &mut read)
        };
        assert!(fails_at(0).is_err());
        assert!(fails_at((1 << 20) - 512).is_err());
        assert_eq!(fails_at(7).unwrap(), None);
    }

    /// A sysfs tree with a disk of two partitions, an array on the first and a partition on the array.
    struct FakeSysfs(PathBuf);

    impl FakeSysfs {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("iolane-sysfs-{test}-{}", std::process::id()));
            let fake = Self(root);
            fake.device("sda", "8:0");
            fake.device("sda/sda1", "8:1");
            fake.device("sda/sda2", "8:2");
            fake.device("md0", "9:0");
            fake.device("md0/md0p1", "259:0");
            fake.device("nvme0n1", "259:7");
            fake.link("devices/sda/sda1/holders/md0", "../../../md0");
            fake.link("class/block/nvme0n1", "../../devices/nvme0n1");
            fake.link("dev/char/240:3", "../../devices/nvme0/ng0n1");
            fake
        }

        fn device(&self, path: &str, number: &str) {
            let folder = self.0.join("devices").join(path);
            fs::create_dir_all(folder.join("holders")).unwrap();
            fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
            fs::write(folder.join("size"), "2048\n").unwrap();
            if path.contains('/') {
                fs::write(folder.join("partition"), "1\n").unwrap();
            }
            self.link(&format!("dev/block/{number}"), &format!("../../devices/{path}"));
        }

        fn link(&self, path: &str, to: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(to, path).unwrap();
        }

        fn sysfs(&self) -> Sysfs<'_> {
            Sysfs(self.0.to_str().unwrap())
        }

        fn survey(&self, number: Number) -> Survey {
            Survey::of_device(&self.sysfs().block(number).unwrap()).unwrap()
        }

        fn concerns(&self, number: Number) -> Vec<(String, Role)> {
            let survey = self.survey(number);
            let mut concerns: Vec<_> = survey.concerns.into_iter().map(|c| (c.name, c.role)).collect();
            concerns.sort_by(|a, b| a.0.cmp(&b.0));
            concerns
        }
    }

    impl Drop for FakeSysfs {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_disk_answers_for_its_partitions_and_a_partition_not_for_its_siblings() {
        let fake = FakeSysfs::new("survey");
        let named =
            |list: &[(&str, Role)]| list.iter().map(|(name, role)| (name.to_string(), *role)).collect::<Vec<_>>();
        let (md0, md0p1) = (("md0", Role::Holder), ("md0p1", Role::Holder));
        let sda1 = [md0, md0p1, ("sda", Role::Disk), ("sda1", Role::Itself)];
        let sda = [md0, md0p1, ("sda", Role::Itself), ("sda1", Role::Partition), ("sda2", Role::Partition)];
        assert_eq!(fake.concerns((8, 1)), named(&sda1));
        assert_eq!(fake.concerns((8, 2)), named(&[("sda", Role::Disk), ("sda2", Role::Itself)]));
        assert_eq!(fake.concerns((8, 0)), named(&sda));
        assert_eq!(fake.concerns((9, 0)), named(&[("md0", Role::Itself), ("md0p1", Role::Partition)]));
    }

    const IDLE: System = System { mounts: Vec::new(), swaps: Vec::new(), loops: Vec::new() };

    fn mount(number: Number, source: &str) -> System {
        System { mounts: vec![Mount { number, point: "/data".into(), source: source.into() }], ..IDLE }
    }

    /// What the tests' names stand for.
    fn resolve(name: &OsStr) -> Option<Identity> {
        match name.to_str()? {
            "/dev/sda" => Some(Identity::Block((8, 0))),
            "/dev/sda1" => Some(Identity::Block((8, 1))),
            "/dev/sda2" => Some(Identity::Block((8, 2))),
            "/file" => Some(Identity::File { device: 1, inode: 2 }),
            _ => None,
        }
    }

    fn cause(survey: &Survey, system: &System) -> String {
        survey.check(system, &resolve).err().map(|refusal| refusal.cause).unwrap_or_default()
    }

    #[test]
    fn a_mount_speaks_against_the_device_by_number_by_name_and_through_a_holder() {
        let fake = FakeSysfs::new("mounts");
        let (sda, sda1, sda2) = (fake.survey((8, 0)), fake.survey((8, 1)), fake.survey((8, 2)));
        assert_eq!(cause(&sda1, &mount((8, 1), "/dev/root")), "it is mounted at /data");
        assert_eq!(cause(&sda1, &mount((0, 40), "/dev/sda1")), "it is mounted at /data");
        assert_eq!(cause(&sda, &mount((0, 40), "/dev/sda2")), "its partition sda2 is mounted at /data");
        assert_eq!(cause(&sda, &mount((259, 0), "/dev/md0p1")), "md0p1 (built on it) is mounted at /data");
        assert_eq!(cause(&sda2, &mount((8, 0), "/dev/sda")), "its disk sda is mounted at /data");
        assert_eq!(cause(&sda2, &mount((8, 1), "/dev/sda1")), "");
        assert_eq!(cause(&sda2, &mount((0, 40), "sda2")), "");
    }

    #[test]
    fn a_device_with_a_holder_is_refused_though_nothing_is_mounted() {
        let fake = FakeSysfs::new("holders");
        assert_eq!(cause(&fake.survey((8, 1)), &IDLE), "md0 is built on it");
        assert_eq!(cause(&fake.survey((8, 0)), &IDLE), "md0 is built on it");
        assert_eq!(cause(&fake.survey((8, 2)), &IDLE), "");
        assert_eq!(cause(&fake.survey((9, 0)), &IDLE), "");
    }

    #[test]
    fn swap_speaks_against_device_and_file() {
        let fake = FakeSysfs::new("swaps");
        let swaps = |name: &str| System { swaps: vec![name.into()], ..IDLE };
        let file = Survey::of_file(Identity::File { device: 1, inode: 2 }, 4096);
        assert_eq!(cause(&fake.survey((8, 0)), &swaps("/dev/sda2")), "its partition sda2 is in use as swap");
        assert_eq!(cause(&file, &swaps("/file")), "it is in use as swap");
        assert_eq!(cause(&file, &swaps("/dev/sda2")), "");
    }

    #[test]
    fn a_loop_device_whose_file_cannot_be_found_is_matched_by_size() {
        let of = |backing: &str, end, limited| System {
            loops: vec![Loop { name: "loop3".into(), backing: backing.into(), end, limited }],
            ..IDLE
        };
        let file = Survey::of_file(Identity::File { device: 1, inode: 2 }, 4196);
        assert_eq!(cause(&file, &of("/file", 512, false)), "loop device loop3 is made of it");
        assert_eq!(
            cause(&file, &of("/gone (deleted)", 4096, false)),
            "loop device loop3 may be made of it, by its size"
        );
        assert_eq!(
            cause(&file, &of("/gone (deleted)", 1024, true)),
            "loop device loop3 may be made of it, by its size"
        );
        assert_eq!(cause(&file, &of("/gone (deleted)", 1024, false)), "");
        assert_eq!(cause(&file, &of("/gone (deleted)", 8192, true)), "");
        assert_eq!(cause(&file, &of("/dev/sda", 4096, false)), "");
    }

    #[test]
    fn a_word_in_the_kernels_lists_is_not_taken_for_a_file_here() {
        assert!(identify(OsStr::new("Cargo.toml")).is_some());
        assert_eq!(System::resolve(OsStr::new("Cargo.toml")), None);
    }

    #[test]
    fn an_nvme_character_device_stands_for_its_block_device() {
        let fake = FakeSysfs::new("nvme");
        assert_eq!(fake.sysfs().nvme_namespace((240, 3)), Some((259, 7)));
        assert_eq!(fake.sysfs().nvme_namespace((1, 5)), None);
    }

    #[test]
    fn what_sysfs_does_not_tell_counts_against_writing() {
        let fake = FakeSysfs::new("broken");
        assert!(fake.sysfs().block((8, 9)).is_err());
        fs::remove_dir(fake.0.join("devices/sda/sda2/holders")).unwrap();
        let refusal = Survey::of_device(&fake.sysfs().block((8, 2)).unwrap()).unwrap_err();
        assert!(refusal.cause.contains("cannot be told from"), "{refusal:?}");
        assert!(refusal.cause.contains("sda2/holders"), "{refusal:?}");
        fs::write(fake.0.join("devices/sda/sda1/size"), "many").unwrap();
        assert!(Survey::of_device(&fake.sysfs().block((8, 1)).unwrap()).is_err());
    }

    #[test]
    fn made_up_devices_are_told_as_the_core_tells_them() {
        for (name, expected) in
            [("null", true), ("null:1g", true), ("sim:seed=7", true), ("nullx", false), ("/sim", false)]
        {
            assert_eq!(is_made_up(OsStr::new(name)), expected, "{name}");
        }
        assert!(!is_made_up(OsStr::from_bytes(b"null:\xff")));
    }
}
