//! Scratch files, loop devices, small file systems, and a device that can be stopped, from which `places` makes targets. Nothing
//! here outlives the process, even if it is killed: open files have no name, loop devices detach and mounts end when their last
//! descriptor is closed, and a child thaws a stopped file system.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iolane::{Pages, Pool};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::content;
use crate::places::wanted;
use crate::report::{self, Skip};

const REMEDY: &str = "run as root where losetup, mkfs.ext4 and fsfreeze are installed";

/// A file without a name: `path` reaches it by its descriptor, in this process and its children.
pub(crate) struct ScratchFile {
    pub(crate) file: File,
}

impl ScratchFile {
    pub(crate) fn new(folder: &Path, bytes: u64) -> std::io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = folder.join(format!("iolane-conformance-{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name)?;
        std::fs::remove_file(&name)?;
        file.set_len(bytes)?;
        Ok(Self { file })
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }
}

/// A loop device over a scratch file; it detaches when its last descriptor is closed.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    pub(crate) backing: ScratchFile,
    _device: File,
}

impl LoopDevice {
    pub(crate) fn new(backing: ScratchFile, sector_bytes: u32) -> Result<Self, Skip> {
        wanted(if sector_bytes == 512 { "loop512" } else { "loop4k" })?;
        let sector = sector_bytes.to_string();
        let file = backing.path();
        let output = output(Command::new("losetup").args(["--find", "--show", "--sector-size", &sector]).arg(file))?;
        let path = PathBuf::from(output.trim());
        let device = File::open(&path);
        // While it is open this asks for no more than to detach it at the last close (drivers/block/loop.c, loop_clr_fd).
        let detached = crate::fixtures::output(Command::new("losetup").arg("--detach").arg(&path));
        let device = device.map_err(|error| Skip::new(format!("opening {}: {error}", path.display()), REMEDY))?;
        detached?;
        Ok(Self { path, backing, _device: device })
    }

    /// Reads and writes that the device has and has not ended.
    pub(crate) fn in_flight(&self) -> (u64, u64) {
        let text = self.attribute("inflight");
        let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// How often it was flushed, by the 16th number of its statistics (Documentation/block/stat.rst). It has a cache, and no writes
    /// that bypass it.
    pub(crate) fn flushes(&self) -> Option<u64> {
        self.attribute("stat").split_whitespace().nth(15)?.parse().ok()
    }

    fn attribute(&self, name: &str) -> String {
        let device = self.path.file_name().unwrap_or_default().to_string_lossy();
        std::fs::read_to_string(format!("/sys/block/{device}/{name}")).unwrap_or_default()
    }
}

/// What a command prints, or why there is nothing.
fn output(command: &mut Command) -> Result<String, Skip> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Skip::new(format!("{name}: {error}"), REMEDY))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // The last part is the cause; those before name a descriptor, another each time.
    let text = String::from_utf8_lossy(&output.stderr);
    let cause = text.lines().next().and_then(|line| line.rsplit(": ").next()).unwrap_or("it failed");
    Err(Skip::new(format!("{name}: {cause}"), REMEDY))
}

/// An ext4 of its own on a loop device, mounted nowhere: its descriptor is its mount.
pub(crate) struct SmallFileSystem {
    root: OwnedFd,
    _device: LoopDevice,
}

impl SmallFileSystem {
    pub(crate) fn new(bytes: u64) -> Result<Self, Skip> {
        let failed = |what: &str, error: std::io::Error| Skip::new(format!("{what}: {error}"), REMEDY);
        let backing =
            ScratchFile::new(&std::env::temp_dir(), bytes).map_err(|error| failed("a file in TMPDIR", error))?;
        let device = LoopDevice::new(backing, 512)?;
        output(
            Command::new("mkfs.ext4").args(["-q", "-m", "0", "-E", "nodiscard,lazy_itable_init=0"]).arg(&device.path),
        )?;
        let mount = || -> rustix::io::Result<OwnedFd> {
            let context = rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
            rustix::mount::fsconfig_set_string(&context, "source", &device.path)?;
            rustix::mount::fsconfig_create(&context)?;
            let flags = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
            let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
            rustix::fs::openat(&mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        let root = mount().map_err(|errno| failed("mounting ext4", errno.into()))?;
        Ok(Self { root, _device: device })
    }

    /// The folder that files can be made in.
    pub(crate) fn folder(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.root.as_raw_fd()).into()
    }
}

/// A loop device that can be stopped: while it is, what it is asked for stays in flight.
///
/// Its backing file lies on a file system of its own. Freezing that one blocks a write of the loop driver, and all
/// that comes after it, reads too, waits behind it, for the driver does one after the other.
pub(crate) struct StoppableDevice {
    pub(crate) device: LoopDevice,
    pub(crate) bytes: u64,
    root: OwnedFd,
    _file_system: SmallFileSystem,
}

/// `FIFREEZE` and `FITHAW` (linux/fs.h): `_IOWR('X', 119, int)` and `_IOWR('X', 120, int)`.
const FIFREEZE: libc::Ioctl = 0xc004_5877_u32 as libc::Ioctl;
const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;

impl StoppableDevice {
    /// The device; `None`, with a SKIPPED line, if there can be none.
    pub(crate) fn or_skipped() -> Option<Self> {
        Self::new().inspect_err(|skip| report::skipped_everywhere("a stopped device", skip)).ok()
    }

    fn new() -> Result<Self, Skip> {
        const BYTES: u64 = 16 << 20;
        let file_system = SmallFileSystem::new(4 * BYTES)?;
        let root = file_system.root.try_clone().map_err(|error| Skip::new(error.to_string(), REMEDY))?;
        output(Command::new("fsfreeze").arg("--version"))?;
        let whole = content::content(BYTES as usize, 0, 0);
        let backing =
            ScratchFile::new(&file_system.folder(), BYTES).map_err(|error| Skip::new(error.to_string(), REMEDY))?;
        backing.file.write_all_at(&whole, 0).map_err(|error| Skip::new(error.to_string(), REMEDY))?;
        let device = LoopDevice::new(backing, 512)?;
        Ok(Self { device, bytes: BYTES, root, _file_system: file_system })
    }

    /// Stops the device until the guard is released or dropped. Its last 4096 bytes are written meanwhile.
    pub(crate) fn stop(&self) -> anyhow::Result<Stopped<'_>> {
        let watchdog = Watchdog::start(&self.root)?;
        let mut stopped =
            Stopped { device: self, released: AtomicBool::new(false), blocker: None, _watchdog: watchdog };
        self.freeze(FIFREEZE)?;
        stopped.blocker = Some(block_driver(self.device.path.clone(), self.bytes - 4096));
        wait_until("a write stops the loop driver", || self.device.in_flight().1 > 0)?;
        Ok(stopped)
    }

    fn freeze(&self, request: libc::Ioctl) -> std::io::Result<()> {
        // SAFETY: both requests take no argument that the kernel reads (fs/ioctl.c, ioctl_fsfreeze and ioctl_fsthaw).
        match unsafe { libc::ioctl(self.root.as_raw_fd(), request, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// Writes one block, which blocks the loop driver of a frozen device.
fn block_driver(path: PathBuf, offset: u64) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let open = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path);
        let buffer = Pool::new(1, 4096, Pages::Base).ok().and_then(|pool| pool.take());
        if let (Ok(device), Some(buffer)) = (open, buffer) {
            let _ = device.write_all_at(&buffer, offset);
        }
    })
}

/// A stopped device, which runs again when this is released or dropped.
pub(crate) struct Stopped<'a> {
    device: &'a StoppableDevice,
    released: AtomicBool,
    blocker: Option<JoinHandle<()>>,
    _watchdog: Watchdog,
}

impl Stopped<'_> {
    pub(crate) fn release(&self) {
        if !self.released.swap(true, Ordering::SeqCst) {
            // It fails where it is not frozen: freezing failed, or the watchdog was first.
            let _ = self.device.freeze(FITHAW);
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::SeqCst)
    }

    /// Releases the device and waits until nothing is in flight on it.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        self.release();
        wait_until("the device ends all it has", || self.device.device.in_flight() == (0, 0))
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.release();
        if let Some(blocker) = self.blocker.take() {
            let _ = blocker.join();
        }
    }
}

/// A child in a process group of its own that thaws a file system after a while. Were we killed while it is frozen, our
/// threads in it could not end, nor close what they have open: nobody else would be left to thaw it.
struct Watchdog(Child);

/// Far longer than any check keeps the device stopped; one that blocks with the device goes on then, and fails.
const THAW_AFTER_S: u32 = 20;

impl Watchdog {
    fn start(root: &OwnedFd) -> std::io::Result<Self> {
        // The sleeper is not to hold the mount, which stands in for the output of the shell.
        let script = format!("sleep {THAW_AFTER_S} >/dev/null; exec fsfreeze --unfreeze /proc/self/fd/1");
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(root.try_clone()?)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Waits for something that comes true on its own, for ten seconds at most.
pub(crate) fn wait_until(what: &str, mut true_now: impl FnMut() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !true_now() {
        anyhow::ensure!(Instant::now() < deadline, "ten seconds went by before {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
