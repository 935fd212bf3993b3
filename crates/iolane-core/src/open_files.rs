//! The processes that have a file or a device open, from /proc. Only root sees the processes of other users, and nobody sees those
//! of other PID namespaces. Asked before a target is written, and before a controller is taken or returned.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};

use crate::error::{Error, Result};
use crate::target::parse_number;

/// A process that has a file or a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Its process ID.
    pub pid: u32,
    /// The name of its program, as the kernel has it (15 bytes at most).
    pub program: String,
}

impl Opener {
    /// Whether a descriptor that it has of this file or device may write; also if that cannot be told.
    pub fn may_write(&self, file: OpenFile) -> bool {
        let threads = match numbers(&format!("/proc/{}/task", self.pid).into()) {
            Ok(threads) => threads,
            Err(error) => return !has_ended(&error),
        };
        threads.iter().any(|thread| match count_descriptors(&format!("/proc/{}/task/{thread}", self.pid), file) {
            Ok((_, writing)) => writing > 0,
            // Of this thread alone.
            Err(error) => !has_ended(&error),
        })
    }
}

impl fmt::Display for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.program, self.pid)
    }
}

/// What a descriptor leads to, as stat(2) numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenFile {
    /// A block device, by major and minor number.
    Block((u32, u32)),
    /// A character device, by major and minor number.
    Character((u32, u32)),
    /// A regular file.
    File {
        /// `st_dev`.
        device: u64,
        /// `st_ino`.
        inode: u64,
    },
}

impl OpenFile {
    /// What a name leads to; `None` if that is none of these.
    pub fn at(path: &Path) -> Option<Self> {
        Self::look_up(path).ok().flatten()
    }

    /// The device of an attribute `dev` in sysfs, such as `259:0`, with its kind.
    pub fn of_sysfs(text: &str, kind: fn((u32, u32)) -> Self) -> Option<Self> {
        parse_number(text).map(kind)
    }

    fn look_up(path: &Path) -> io::Result<Option<Self>> {
        // What the kernel knows is enough: asking a file server that does not answer would block.
        let flags = AtFlags::STATX_DONT_SYNC;
        Ok(Self::of(&rustix::fs::statx(CWD, path, flags, StatxFlags::TYPE | StatxFlags::INO)?))
    }

    fn of(found: &Statx) -> Option<Self> {
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::BlockDevice => Some(Self::Block((found.stx_rdev_major, found.stx_rdev_minor))),
            FileType::CharacterDevice => Some(Self::Character((found.stx_rdev_major, found.stx_rdev_minor))),
            FileType::RegularFile => {
                let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
                Some(Self::File { device, inode: found.stx_ino })
            }
            _ => None,
        }
    }
}

/// Everything that other processes have open, at one moment.
#[derive(Debug, Default)]
pub struct OpenFiles {
    openers: HashMap<OpenFile, Vec<Opener>>,
    /// How many processes could not be looked into.
    hidden: usize,
}

impl OpenFiles {
    /// Scans every process but this one. Those that end meanwhile are left out.
    ///
    /// # Errors
    /// If /proc cannot be listed.
    pub fn scan() -> Result<Self> {
        let mut found = Self::default();
        let processes = fs::read_dir("/proc").and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let processes = processes.map_err(|error| Error::system("reading /proc", error))?;
        for pid in processes.iter().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if pid != std::process::id() {
                found.add_process(pid);
            }
        }
        // Mounted so that processes of others do not appear at all (proc(5), hidepid).
        found.hidden += usize::from(!processes.iter().any(|entry| entry.file_name() == "1"));
        Ok(found)
    }

    /// Of the descriptors of this process that lead to the file, how many there are, and how many may write.
    pub fn of_this_process(file: OpenFile) -> (usize, usize) {
        count_descriptors("/proc/self", file).unwrap_or_default()
    }

    /// The processes that have the file or the device of this name open; none if there is no such name.
    pub fn of(&self, name: &Path) -> &[Opener] {
        OpenFile::at(name).map_or(&[], |file| self.openers_of(file))
    }

    /// The processes that have this file or device open, whatever its names.
    pub fn openers_of(&self, file: OpenFile) -> &[Opener] {
        self.openers.get(&file).map_or(&[], Vec::as_slice)
    }

    /// Everything that was found open, with its openers.
    pub fn iter(&self) -> impl Iterator<Item = (OpenFile, &[Opener])> {
        self.openers.iter().map(|(file, openers)| (*file, openers.as_slice()))
    }

    /// How many processes could not be looked into, mostly for lack of permission; all that /proc does not show count as one. Process
    /// 1, threads of the kernel, which have no descriptors, and processes that have ended do not count.
    pub fn hidden(&self) -> usize {
        self.hidden
    }

    /// Refuses an answer that some processes are missing from.
    ///
    /// # Errors
    /// `Unavailable` if there are any that could not be looked into; `what` begins its message.
    pub fn require_all_seen(&self, what: &str) -> Result<()> {
        match self.hidden {
            0 => Ok(()),
            hidden => Err(Error::unavailable(what, unseen(hidden)).remedy(SEE_ALL)),
        }
    }

    fn add_process(&mut self, pid: u32) {
        let files = match files_of(pid) {
            Ok(files) => files,
            // It has ended meanwhile.
            Err(error) if has_ended(&error) => return,
            Err(_) => {
                let stat = fs::read(format!("/proc/{pid}/stat"));
                let may_have_some = stat.map_or_else(|error| !has_ended(&error), |stat| may_have_files(&stat));
                // Process 1 started this machine or container, and may have capabilities that nobody else has. It opens no disk but
                // to mount it, which shows otherwise.
                self.hidden += usize::from(may_have_some && pid != 1);
                return;
            }
        };
        if files.is_empty() {
            return;
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let program = name.trim_end().replace(char::is_control, "?");
        for file in files.into_iter().collect::<HashSet<_>>() {
            self.openers.entry(file).or_default().push(Opener { pid, program: program.clone() });
        }
    }
}

/// What is unknown where this many processes cannot be looked into.
pub fn unseen(hidden: usize) -> String {
    format!("whether one of {hidden} processes that cannot be looked into has it open cannot be told")
}

/// What makes every process visible.
pub const SEE_ALL: &str = "run as root, with CAP_SYS_PTRACE";

/// What a process has open, by any of its threads: they may have descriptors of their own, and outlive the first.
fn files_of(pid: u32) -> io::Result<Vec<OpenFile>> {
    let mut files = Vec::new();
    // Threads whose tables were read, and the numbers in them. Most threads share one table, which is read once.
    let mut asked: Vec<(u32, Vec<u32>)> = Vec::new();
    for thread in numbers(&format!("/proc/{pid}/task").into())? {
        let folder = PathBuf::from(format!("/proc/{pid}/task/{thread}/fd"));
        let numbers = match numbers(&folder) {
            Err(error) if has_ended(&error) => continue,
            numbers => numbers?,
        };
        // Where the kernel does not tell, equal numbers are taken for one table.
        let is_shared =
            asked.iter().any(|(other, known)| share_descriptors(*other, thread).unwrap_or(*known == numbers));
        if !is_shared {
            files.extend(descriptors(&folder, &numbers)?);
            asked.push((thread, numbers));
        }
    }
    Ok(files)
}

/// Whether two threads have one table of descriptors (kcmp(2)); `None` where the kernel or a filter of a container has no such call.
fn share_descriptors(a: u32, b: u32) -> Option<bool> {
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: the call takes numbers and touches no memory of this process.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_FILES, 0, 0) };
    (compared >= 0).then_some(compared == 0)
}

/// The numbers that name the entries of a folder in /proc.
fn numbers(folder: &PathBuf) -> io::Result<Vec<u32>> {
    fs::read_dir(folder)?
        .filter_map(|entry| entry.map(|entry| entry.file_name().to_str()?.parse().ok()).transpose())
        .collect()
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// What the descriptors with these numbers, in a folder of /proc, lead to. The descriptor itself is asked, since its name may be one in another mount
/// namespace.
///
/// # Errors
/// Also for a descriptor that may not be asked, as without CAP_SYS_PTRACE.
fn descriptors(folder: &Path, numbers: &[u32]) -> io::Result<Vec<OpenFile>> {
    let mut files = Vec::new();
    for number in numbers {
        match OpenFile::look_up(&folder.join(number.to_string())) {
            Ok(file) => files.extend(file),
            // Closed meanwhile.
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// Of the descriptors in a folder of /proc, of a process or a thread, that lead to the file, how many there are, and how many may write.
fn count_descriptors(folder: &str, file: OpenFile) -> io::Result<(usize, usize)> {
    let (mut all, mut writing) = (0, 0);
    for number in numbers(&format!("{folder}/fd").into())? {
        let found = OpenFile::look_up(&PathBuf::from(format!("{folder}/fd/{number}")));
        let info = || fs::read_to_string(format!("{folder}/fdinfo/{number}"));
        let may_write = match found {
            Ok(found) if found != Some(file) => continue,
            found => found.and_then(|_| info()).map(|info| may_write(&info)),
        };
        match may_write {
            Ok(may_write) => (all, writing) = (all + 1, writing + usize::from(may_write)),
            // Closed meanwhile.
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((all, writing))
}

/// Whether a descriptor may write, by its text in /proc/PID/fdinfo (proc_pid_fdinfo(5)), whose flags are octal.
fn may_write(info: &str) -> bool {
    const ACCESS_MODE: u32 = 0o3;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & ACCESS_MODE != 0))
}

/// Whether a process can have descriptors, by its line in /proc/PID/stat (proc_pid_stat(5)): a zombie and a thread of the kernel
/// have none. What cannot be parsed may have some.
fn may_have_files(stat: &[u8]) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    // The name in parentheses may hold any byte, so that the fields are counted from the last parenthesis.
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else { return true };
    let mut fields = stat[end + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let (state, flags) = (fields.next(), fields.nth(5));
    let flags = flags.and_then(|flags| str::from_utf8(flags).ok()?.parse::<u64>().ok());
    !matches!(state, Some(b"Z" | b"X")) && flags.is_none_or(|flags| flags & PF_KTHREAD == 0)
}

/// Tests that start processes, and tests that count who has a file open, take turns: a process being started shares every
/// descriptor of this one until its exec.
#[cfg(test)]
pub(crate) static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::PoisonError;

    #[test]
    fn a_process_is_found_by_a_device_it_has_open_and_not_by_another() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let full = fs::File::open("/dev/full").unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::from(full)).spawn().unwrap();
        let openers = OpenFiles::scan().unwrap();
        let has_child = |node: &str| openers.of(Path::new(node)).iter().any(|opener| opener.pid == child.id());
        let seen = (has_child("/dev/full"), has_child("/dev/zero"), has_child("/nonexistent"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, (true, false, false));
    }

    #[test]
    fn a_process_that_only_reads_may_not_write_and_one_that_has_ended_neither() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let full = OpenFile::at(Path::new("/dev/full")).unwrap();
        let may_write = |options: &fs::OpenOptions| {
            let held = Stdio::from(options.open("/dev/full").unwrap());
            let mut child = Command::new("sleep").arg("60").stdin(held).spawn().unwrap();
            let opener = Opener { pid: child.id(), program: String::new() };
            let (running, other) = (opener.may_write(full), opener.may_write(OpenFile::Character((1, 5))));
            child.kill().unwrap();
            child.wait().unwrap();
            (running, other, opener.may_write(full))
        };
        assert_eq!(may_write(fs::OpenOptions::new().read(true)), (false, false, false));
        assert_eq!(may_write(fs::OpenOptions::new().read(true).write(true)), (true, false, false));
    }

    #[test]
    fn a_process_is_found_by_a_file_it_has_open_under_any_name_and_after_its_last() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = std::env::temp_dir().join(format!("iolane-open-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, "x").unwrap();
        fs::hard_link(&file, &link).unwrap();
        let held = Stdio::from(fs::File::open(&file).unwrap());
        let mut child = Command::new("sleep").arg("60").stdin(held).spawn().unwrap();
        let has_child = |openers: &[Opener]| openers.iter().any(|opener| opener.pid == child.id());
        let by_link = has_child(OpenFiles::scan().unwrap().of(&link));
        let numbers = OpenFile::at(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let deleted = OpenFiles::scan().unwrap().iter().any(|(file, openers)| file == numbers && has_child(openers));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((by_link, deleted), (true, true));
    }

    #[test]
    fn a_thread_with_descriptors_of_its_own_is_asked_for_them_though_their_numbers_are_those_of_the_others() {
        let path = std::env::temp_dir().join(format!("iolane-open-thread-{}", std::process::id()));
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (opened, is_open) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let placeholder = fs::File::open("/dev/null").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&placeholder);
        let thread = std::thread::spawn({
            let path = path.clone();
            move || {
                // SAFETY: the thread has a copy of the table from here on.
                let is_apart = unsafe { libc::unshare(libc::CLONE_FILES) } == 0;
                if is_apart {
                    let file = fs::File::create(path).unwrap();
                    // SAFETY: both are descriptors of this thread's table, and nothing in it uses the one that is replaced.
                    let replaced = unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&file), number) };
                    assert_eq!(replaced, number);
                }
                opened.send(is_apart).unwrap();
                let _ = may_end.recv();
            }
        });
        if !is_open.recv().unwrap() || share_descriptors(std::process::id(), std::process::id()).is_none() {
            println!(
                "SKIPPED descriptors of a thread: unshare(2) or kcmp(2) is refused, as by a filter of a container"
            );
            drop(end);
            return thread.join().unwrap();
        }
        let found = files_of(std::process::id()).unwrap().contains(&OpenFile::at(&path).unwrap());
        drop(end);
        thread.join().unwrap();
        fs::remove_file(path).unwrap();
        assert!(found);
    }

    #[test]
    fn what_this_process_has_open_is_counted_apart() {
        let path = std::env::temp_dir().join(format!("iolane-open-here-{}", std::process::id()));
        let held = [fs::File::create(&path).unwrap(), fs::File::open(&path).unwrap()];
        let file = OpenFile::at(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(OpenFiles::of_this_process(file), (2, 1));
        drop(held);
        assert_eq!(OpenFiles::of_this_process(file), (0, 0));
    }

    #[test]
    fn threads_of_the_kernel_and_ended_processes_have_no_files_and_a_name_hides_none() {
        for (stat, expected) in [
            (&b"7 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0\n"[..], false),
            (b"9 (a) Z 1 9 9 0 -1 4194304 0 0\n", false),
            (b"9 (a) S 1 9 9 0 -1 4194304 0 0\n", true),
            (b"9 (Z) Z (x) S 1 9 9 0 -1 4194304 0 0\n", true),
            (b"9 (a) S 1 9\n", true),
            (b"", true),
        ] {
            assert_eq!(may_have_files(stat), expected, "{}", String::from_utf8_lossy(stat));
        }
    }
}
