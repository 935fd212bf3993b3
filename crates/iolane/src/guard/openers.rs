//! Whether another process has the target open without a claim that keeps others away: a virtual machine on a raw disk or an image,
//! a database on a raw device, a second writer of a file. Called by `mod.rs` while the target is claimed.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use iolane_core::Error;
use iolane_core::error::describe;
use iolane_core::lease::is_open_elsewhere;
use iolane_core::open_files::{self, OpenFile, OpenFiles, Opener};
use rustix::fs::{Access, FlockOperation, OFlags, Stat};
use rustix::io::Errno;

use super::handle;
use super::identity::{Found, Identity};
use super::in_use::Survey;
use super::refusal::{Reason, Refusal};
use super::sysfs::Sysfs;

/// Refuses a device that another process has open. Processes that cannot be looked into refuse it as well: nothing else tells
/// whether they have.
pub(super) fn check_device(survey: &Survey) -> Result<(), Refusal> {
    let files = scan_twice(survey)?;
    match files.hidden() {
        0 => Ok(()),
        hidden => Err(unseen(hidden)),
    }
}

/// Refuses what a process has open, unless that is over in a moment: a process that is being started has every descriptor of the one
/// that starts it, and daemons look at disks now and then.
fn scan_twice(survey: &Survey) -> Result<OpenFiles, Refusal> {
    const MOMENT: Duration = Duration::from_millis(30);
    let files = scan()?;
    if refuse_openers(survey, &files).is_ok() {
        return Ok(files);
    }
    std::thread::sleep(MOMENT);
    let files = scan()?;
    refuse_openers(survey, &files)?;
    Ok(files)
}

/// A regular file that no other process has open, locked (flock(2)) until the descriptor is closed.
pub(super) fn claim_file(found: &Found, survey: &Survey) -> Result<OwnedFd, Refusal> {
    let file = open_to_read(&found.node)?;
    // A file system without locks has no locked files.
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(Refusal::in_use(
            "it is locked (flock(2)), as by a program that writes to it",
            "wait until it ends",
        ));
    }
    let elsewhere = is_open_elsewhere(&file, false);
    if matches!(elsewhere, Ok(false)) {
        return Ok(file);
    }
    let files = scan_twice(survey)?;
    let ours = of_this_process(&found.stat);
    match elsewhere {
        Ok(_) if leases_say_nothing(&file) => Ok(file),
        // The count without our own: nobody writes, or as far as can be seen nobody else.
        Ok(_) if ours.reading > 0 && !may_be_written(&file) => Ok(file),
        Ok(_) if ours.writing > 0 && files.hidden() == 0 => Ok(file),
        Ok(_) if is_closed_soon(&file) => Ok(file),
        Ok(_) => Err(Refusal::in_use(
            "it is open, in a process that cannot be looked into or in the kernel",
            "find and stop its user (as root: fuser -v FILE)",
        )),
        Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) && files.hidden() > 0 => {
            Err(unseen(files.hidden()))
        }
        // A file system without leases, whose files may be open on other machines too.
        Err(_) => Ok(file),
    }
}

/// Whether all others close the file within the time that the kernel needs for what an ended process had open: a ring closes its
/// files after the end of its process (io_uring/io_uring.c, io_ring_exit_work).
fn is_closed_soon(file: &OwnedFd) -> bool {
    const WAIT: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(10);
    let deadline = Instant::now() + WAIT;
    loop {
        match is_open_elsewhere(file, false) {
            Ok(true) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            elsewhere => return matches!(elsewhere, Ok(false)),
        }
    }
}

/// Whether the file is on a server: leases there need a delegation, and are refused without one, whoever has it open (fs/nfs/nfs4proc.c,
/// nfs4_add_lease; fs/smb/client/cifsfs.c, cifs_setlease).
fn leases_say_nothing(file: &OwnedFd) -> bool {
    const SERVERS: [u32; 4] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42];
    rustix::fs::fstatfs(file).is_ok_and(|found| SERVERS.contains(&(found.f_type as u32)))
}

fn open_to_read(node: &OwnedFd) -> Result<OwnedFd, Refusal> {
    let may_write = rustix::fs::access(handle::name(node), Access::READ_OK | Access::WRITE_OK);
    let opened = may_write.and_then(|()| handle::open(node, OFlags::RDONLY | OFlags::NONBLOCK));
    opened.map_err(|errno| match errno {
        Errno::WOULDBLOCK => Refusal::in_use("another process holds a lease on it", "stop that first (lslocks)"),
        errno => Refusal::new(Reason::Unsuitable, describe(&errno.into()), "run as a user who may read and write it"),
    })
}

/// Descriptors of this process for the file, besides the handle and the descriptor of the check.
struct Ours {
    reading: usize,
    writing: usize,
}

fn of_this_process(stat: &Stat) -> Ours {
    let (all, writing) = OpenFiles::of_this_process(OpenFile::File { device: stat.st_dev, inode: stat.st_ino });
    Ours { reading: all.saturating_sub(2 + writing), writing }
}

fn may_be_written(file: &OwnedFd) -> bool {
    is_open_elsewhere(file, true).unwrap_or(true)
}

fn scan() -> Result<OpenFiles, Refusal> {
    let unreadable =
        |error: Error| Refusal::new(Reason::Unanswered, error.to_string(), "run where /proc and /sys can be read");
    OpenFiles::scan().map_err(unreadable)
}

fn unseen(hidden: usize) -> Refusal {
    Refusal::new(Reason::Unanswered, open_files::unseen(hidden), open_files::SEE_ALL)
}

fn refuse_openers(survey: &Survey, files: &OpenFiles) -> Result<(), Refusal> {
    let mut found: Vec<(&Opener, Refusal)> = Vec::new();
    for (file, openers) in files.iter() {
        let identity = identity(file);
        for opener in openers {
            let refusal = survey.opened(identity, opener);
            let counts = |_: &Refusal| survey.counts_readers(identity) || opener.may_write(file);
            found.extend(refusal.filter(counts).map(|refusal| (opener, refusal)));
        }
    }
    // The oldest process first, which started the others.
    found.into_iter().min_by_key(|(opener, _)| opener.pid).map_or(Ok(()), |(_, refusal)| Err(refusal))
}

/// The character device of a namespace leads to the same data as its block device.
fn identity(file: OpenFile) -> Option<Identity> {
    match file {
        OpenFile::Block(number) => Some(Identity::Block(number)),
        OpenFile::Character(number) => Sysfs::HERE.nvme_namespace(number).map(Identity::Block),
        OpenFile::File { device, inode } => Some(Identity::File { device, inode }),
    }
}
