//! A process in /proc: its counters and its open files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use iolane::{Error, mountinfo};
use rustix::fs::{OFlags, major, minor};

use super::drive::OnDevice;
use super::interface::InterfaceWatch;
use crate::host::parse_colon_value;
use crate::process_io::ProcessIo;

/// What the kernel has counted for a process since it began.
pub(super) struct Counts {
    pub(super) taken: Instant,
    /// Seconds of processor time of all its threads.
    pub(super) processor_s: f64,
    pub(super) io: ProcessIo,
    /// Calls and bytes of each thread, in one number that only grows.
    of_threads: BTreeMap<u32, u64>,
}

impl Counts {
    /// # Errors
    /// If the process is gone, or this user may not look.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let io = fs::read_to_string(folder.join("io"))?;
        let stat = fs::read_to_string(folder.join("stat"))?;
        let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/io and stat are not as in proc(5)");
        let ticks = parse_processor_ticks(&stat).ok_or_else(unreadable)?;
        let io = ProcessIo::parse(&io).ok_or_else(unreadable)?;
        let threads = fs::read_dir(folder.join("task"))?.flatten().filter_map(|thread| {
            let number = thread.file_name().to_str()?.parse().ok()?;
            let io = ProcessIo::parse(&fs::read_to_string(thread.path().join("io")).ok()?)?;
            Some((number, all_bytes(&io)))
        });
        Ok(Self {
            taken: Instant::now(),
            processor_s: ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64,
            io,
            of_threads: threads.collect(),
        })
    }

    /// Threads that did at least a twentieth of the I/O of the busiest one.
    pub(super) fn threads_with_io(&self, after: &Self) -> usize {
        let done = |(thread, after): (&u32, &u64)| after.saturating_sub(*self.of_threads.get(thread).unwrap_or(&0));
        let done: Vec<u64> = after.of_threads.iter().map(done).collect();
        let most = done.iter().max().copied().unwrap_or(0);
        done.iter().filter(|bytes| **bytes > 0 && **bytes >= most / 20).count()
    }
}

/// A number that grows with whatever is read and written.
fn all_bytes(io: &ProcessIo) -> u64 {
    [io.reads.bytes, io.writes.bytes, io.read_bytes, io.written_bytes].into_iter().fold(0, u64::saturating_add)
}

/// Ticks of user and system time, proc_pid_stat(5). The name before them may hold blanks and parentheses.
fn parse_processor_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

/// The name of the program.
pub(super) fn program(folder: &Path) -> String {
    fs::read_to_string(folder.join("comm")).map_or_else(|_| String::new(), |name| name.trim().to_owned())
}

/// The descriptors that a process has open.
pub(super) struct OpenFiles {
    descriptors: Vec<Descriptor>,
}

struct Descriptor {
    number: OsString,
    link: String,
    /// Its text in proc_pid_fdinfo(5).
    info: String,
    /// The device that holds its data; `None` for what is neither a file nor a block device.
    device: Option<(u32, u32)>,
}

impl OpenFiles {
    /// # Errors
    /// If the process is gone, or this user may not look.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let descriptors = fs::read_dir(folder.join("fd"))?.flatten().filter_map(|entry| {
            // A descriptor that is closed meanwhile is none.
            let link = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
            let info = fs::read_to_string(folder.join("fdinfo").join(entry.file_name())).unwrap_or_default();
            let device = fs::metadata(entry.path()).ok().and_then(|metadata| match metadata.file_type() {
                kind if kind.is_block_device() => Some(metadata.rdev()),
                kind if kind.is_file() => Some(metadata.dev()),
                _ => None,
            });
            let number = entry.file_name();
            Some(Descriptor { number, link, info, device: device.map(|device| (major(device), minor(device))) })
        });
        Ok(Self { descriptors: descriptors.collect() })
    }

    /// The block devices that hold the data. A file system without a device of its own (btrfs) is on the device that it is
    /// mounted from.
    pub(super) fn on_devices(&self, folder: &Path, sys: &Path) -> Vec<OnDevice> {
        let mounts = fs::read(folder.join("mountinfo")).unwrap_or_default();
        let is_known = |(major, minor): &(u32, u32)| sys.join(format!("dev/block/{major}:{minor}")).exists();
        let mut devices: BTreeMap<(u32, u32), OnDevice> = BTreeMap::new();
        for Descriptor { info, device, .. } in &self.descriptors {
            let Some(device) = device else { continue };
            let Some(device) = Some(*device).filter(is_known).or_else(|| mounted_from(&mounts, info).filter(is_known))
            else {
                continue;
            };
            let on = devices.entry(device).or_insert(OnDevice { device, files: 0, direct_files: 0, durable_files: 0 });
            on.files += 1;
            on.direct_files += usize::from(has_flag(info, OFlags::DIRECT.bits()));
            on.durable_files += usize::from(has_flag(info, O_DSYNC));
        }
        devices.into_values().collect()
    }

    pub(super) fn interface(&self, folder: &Path) -> InterfaceWatch {
        let mut interface = InterfaceWatch::default();
        for Descriptor { number, link, .. } in &self.descriptors {
            interface.add(link, folder.join("fdinfo").join(number));
        }
        interface.add_mappings(&fs::read_to_string(folder.join("maps")).unwrap_or_default());
        interface
    }
}

/// A bit of O_SYNC, too (include/uapi/asm-generic/fcntl.h). The one of rustix has all bits of O_SYNC.
const O_DSYNC: u32 = 0o10000;

/// Whether a descriptor was opened with a flag, open(2); fdinfo has them in octal.
fn has_flag(info: &str, flag: u32) -> bool {
    let flags = parse_colon_value(info, "flags").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    flags.is_some_and(|flags| flags & flag == flag)
}

/// The block device from which the descriptor's file system is mounted, proc_pid_mountinfo(5).
fn mounted_from(mounts: &[u8], info: &str) -> Option<(u32, u32)> {
    let source = source_of(mounts, parse_colon_value(info, "mnt_id")?.parse().ok()?)?;
    let metadata = fs::metadata(source).ok().filter(|metadata| metadata.file_type().is_block_device())?;
    Some((major(metadata.rdev()), minor(metadata.rdev())))
}

fn source_of(mounts: &[u8], id: u32) -> Option<PathBuf> {
    let mount = mountinfo::find(mounts, id)?;
    Some(PathBuf::from(mount.source)).filter(|source| source.starts_with("/dev"))
}

/// Why a process could not be watched.
pub(super) fn explain(what: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::unavailable(what.to_owned(), "this user may not look at its I/O")
            .remedy("run as the user of the process, or as root"),
        io::ErrorKind::NotFound => {
            Error::unavailable(what.to_owned(), "it has ended, or the kernel does not account I/O")
                .remedy("use a kernel built with CONFIG_TASK_IO_ACCOUNTING")
        }
        _ => Error::unavailable(
            what.to_owned(),
            format!("its files in /proc cannot be read: {}", iolane::error::describe(error)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 90 0 0 0 150 25 0 0 20 0 1 0 5 0";
        assert_eq!(parse_processor_ticks(stat), Some(175));
        assert_eq!(parse_processor_ticks("7 (a) R 1"), None);
    }

    #[test]
    fn only_threads_with_a_share_of_the_io_count() {
        let counts = |threads: &[(u32, u64)]| Counts {
            taken: Instant::now(),
            processor_s: 0.0,
            io: ProcessIo::default(),
            of_threads: threads.iter().copied().collect(),
        };
        let before = counts(&[(1, 100), (2, 0), (3, 5)]);
        let after = counts(&[(1, 1100), (2, 960), (3, 6), (4, 500)]);
        assert_eq!((before.threads_with_io(&after), after.threads_with_io(&after)), (3, 0));
    }

    #[test]
    fn a_direct_descriptor_is_known_by_its_flags_and_a_mount_by_its_number() {
        let direct = format!("pos:\t0\nflags:\t0{:o}\n", OFlags::DIRECT.bits() | OFlags::CLOEXEC.bits());
        let is_direct = |info| has_flag(info, OFlags::DIRECT.bits());
        assert!(is_direct(&direct) && !is_direct("pos:\t0\nflags:\t0100002\n") && !is_direct("flags:\tx\n"));
        assert!(!has_flag(&direct, O_DSYNC) && has_flag("flags:\t02150002\n", O_DSYNC));
        assert!(has_flag(&format!("flags:\t0{:o}\n", OFlags::SYNC.bits()), O_DSYNC));
        let mounts =
            b"22 27 0:21 / /proc rw - proc proc rw\n27 1 0:40 /sub / rw shared:1 - btrfs /dev/my\\040disk rw\n";
        assert_eq!((source_of(mounts, 27), source_of(mounts, 22)), (Some("/dev/my disk".into()), None));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[\\PC\n\t:/() 0-9-]{0,120}") {
            let _ = (ProcessIo::parse(&text), parse_processor_ticks(&text), has_flag(&text, O_DSYNC));
        }
    }
}
