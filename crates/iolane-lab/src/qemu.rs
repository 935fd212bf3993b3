//! The QEMU process: started with everything it opens as inherited descriptors of files that have no name, so that
//! however it or we end, nothing stays behind.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use iolane_core::{Error, Result};
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::accelerator::Accelerator;
use crate::cache::Cache;
use crate::channel::PORT_NAME;
use crate::emulator::{Emulator, PROGRAM};
use crate::machine::{Disk, Machine};

/// A running guest, killed when this is dropped.
pub(crate) struct Qemu {
    child: Child,
    console: File,
    complaints: File,
}

/// The ends of a guest's channels that stay with us.
pub(crate) struct Wires {
    pub(crate) frames: UnixStream,
    pub(crate) monitor: UnixStream,
}

impl Qemu {
    /// Starts a machine on a kernel and an initramfs. The calling thread has to live as long as the guest: the kernel
    /// kills QEMU when that thread ends (`PR_SET_PDEATHSIG`).
    pub(crate) fn start(
        emulator: &Emulator,
        machine: &Machine,
        accelerator: Accelerator,
        image: &Path,
        initramfs: &File,
        plugin: Option<&str>,
        cache: &Cache,
    ) -> Result<(Self, Wires)> {
        let mut fds = Inherited::default();
        let initramfs = fds.path(duplicate(initramfs)?);
        let console = tempfile::tempfile().map_err(|error| Error::system("the console's log", error))?;
        let console_path = fds.path(duplicate(&console)?);
        let complaints = tempfile::tempfile().map_err(|error| Error::system("QEMU's log", error))?;
        let mut disks = Vec::new();
        for drive in &machine.drives {
            let data = drive.has_file().then(|| disk(cache, drive.bytes.0)).transpose()?;
            let log = drive.log.as_deref().map(log_file).transpose()?;
            disks.push(Disk { data: data.map(|file| fds.path(file)), log: log.map(|file| fds.path(file)) });
        }
        let (frames, frames_there) = socket_pair()?;
        let (monitor, monitor_there) = socket_pair()?;
        let (frames_fd, monitor_fd) = (fds.number(frames_there.into()), fds.number(monitor_there.into()));

        let mut command = Command::new(&emulator.program);
        command
            .args(emulator.arguments())
            .args(machine.arguments(accelerator, &disks))
            .arg("-kernel")
            .arg(image)
            .args(["-initrd", &initramfs, "-append", &machine.kernel_line(accelerator)])
            .args(["-chardev", &format!("file,id=console,path={console_path}"), "-serial", "chardev:console"])
            .args(["-device", "virtio-serial-pci", "-chardev", &format!("socket,id=frames,fd={frames_fd}")])
            .args(["-device", &format!("virtserialport,chardev=frames,name={PORT_NAME}")])
            .args(["-chardev", &format!("socket,id=monitor,fd={monitor_fd}"), "-mon", "chardev=monitor,mode=control"])
            .args(plugin.into_iter().flat_map(|plugin| ["-plugin", plugin]))
            .stdin(Stdio::null())
            .stdout(duplicate(&complaints)?)
            .stderr(duplicate(&complaints)?)
            // A signal from the terminal is for us; we pass on what the guest should know.
            .process_group(0)
            .fd_mappings(fds.0)
            .map_err(|error| Error::failed(PROGRAM, format!("its descriptors collide: {error}")))?;
        let parent = rustix::process::getpid();
        let processor = accelerator.shares_a_processor().then(this_processor).flatten();
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; these are three bare system calls
        // (sched_setaffinity, prctl and getppid) that allocate nothing and take no lock.
        unsafe {
            command.pre_exec(move || {
                if let Some(processor) = &processor {
                    sched_setaffinity(None, processor)?;
                }
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // We may have been killed before the line above took effect.
                match rustix::process::getppid() {
                    Some(there) if there == parent => Ok(()),
                    _ => Err(io::ErrorKind::NotFound.into()),
                }
            });
        }
        let child = command.spawn().map_err(|error| emulator.not_started(&error))?;
        Ok((Self { child, console, complaints }, Wires { frames, monitor }))
    }

    /// What the guest's kernel and process 1 wrote to the serial line so far.
    pub(crate) fn console(&mut self) -> Vec<u8> {
        content(&mut self.console)
    }

    /// What QEMU itself complained of, in a line.
    pub(crate) fn complaint(&mut self) -> Option<String> {
        let text = String::from_utf8_lossy(&content(&mut self.complaints)).into_owned();
        let first = text.lines().find(|line| !line.trim().is_empty() && !line.contains("warning:"))?;
        Some(first.trim_start_matches(&format!("{PROGRAM}: ")).to_owned())
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        // One that has ended already needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The host's processor on which the calling thread is. Threads that share one see each other's memory accesses in their order,
/// with barriers or without (decision 8). `None` beyond the processors that a set has room for.
fn this_processor() -> Option<CpuSet> {
    let mut processor = CpuSet::new();
    let number = Some(sched_getcpu()).filter(|number| *number < CpuSet::MAX_CPU)?;
    processor.set(number);
    Some(processor)
}

/// The whole of a file that another process writes through a descriptor of its own.
fn content(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A log that cannot be read is told as an empty one; there is nobody to report that to but its reader.
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    bytes
}

/// Descriptors that QEMU inherits, numbered from 10 up there.
#[derive(Default)]
struct Inherited(Vec<FdMapping>);

impl Inherited {
    fn number(&mut self, fd: OwnedFd) -> i32 {
        let child_fd = 10 + self.0.len() as i32;
        self.0.push(FdMapping { parent_fd: fd, child_fd });
        child_fd
    }

    fn path(&mut self, fd: OwnedFd) -> String {
        format!("/proc/self/fd/{}", self.number(fd))
    }
}

fn duplicate(file: &File) -> Result<OwnedFd> {
    file.try_clone().map(OwnedFd::from).map_err(|error| Error::system("the guest's files", error))
}

fn socket_pair() -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().map_err(|error| Error::system("the guest's channel", error))
}

fn log_file(path: &Path) -> Result<OwnedFd> {
    let opened = File::options().read(true).write(true).create(true).truncate(true).open(path);
    opened.map(OwnedFd::from).map_err(|error| Error::system(format!("a drive's log {}", path.display()), error))
}

/// A sparse file without a name, which takes room only where it is written.
fn disk(cache: &Cache, bytes: u64) -> Result<OwnedFd> {
    let made = tempfile::tempfile_in(cache.folder()).and_then(|file| file.set_len(bytes).map(|()| file));
    made.map(OwnedFd::from).map_err(|error| {
        Error::system(format!("a drive's file in {}", cache.folder().display()), error)
            .remedy("free space, or set IOLANE_LAB_CACHE to a folder elsewhere")
    })
}
