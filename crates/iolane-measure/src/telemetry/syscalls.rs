//! Counts system calls with the kernel's tracepoint raw_syscalls:sys_enter, through perf_event_open(2). Each thread of a run
//! opens a counter before its queue and counts a short phase; the count proves what a path claims (no system calls with a
//! submission thread) and is compared with the queue's own count.

use std::io;
use std::marker::PhantomData;

use iolane::error::describe;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::perf::{Permission, explain_open, explain_use};
use super::{Reading, Unavailable};

/// Counts the system calls of the thread that opened it and of the threads started, directly or not, from then on.
///
/// It does not count threads that existed before, other processes, or the work of io_uring's kernel threads, which enter no
/// system call. A call answered by the vDSO (clock_gettime(2)) is not a system call. Starting and ending a thread costs a
/// dozen system calls, which are counted if they happen between start and stop.
///
/// While a counter is open, every system call on the machine takes the kernel's traced entry, which is some nanoseconds
/// slower (7 in addition to 84 on the machine where this was tried); a counted call takes some tens longer (25). Do not
/// report the speed of such a run without saying so. Dropping the counter ends this and takes tens of milliseconds.
///
/// The counter is not `Send`, because the `stop` of the thread that opened it is subtracted from the count.
#[derive(Debug)]
pub struct SyscallCounter {
    counter: Counter,
    /// The count when it was last started. The kernel cannot reset the share of threads that have ended
    /// (`_perf_event_reset` in kernel/events/core.c), so the result is a difference.
    started_at: Option<u64>,
    opening_thread_only: PhantomData<*const ()>,
}

/// System calls of `stop` that a running counter counts: the ioctl(2) that stops it. The ioctl that starts it is entered
/// before the counter runs, and it is read while stopped.
const STOP_SYSCALLS: u64 = 1;
/// Cheap system calls that a counter must count correctly after it is opened.
const CHECK_SYSCALLS: u64 = 64;

impl SyscallCounter {
    /// Opens a stopped counter, and checks that it counts system calls.
    ///
    /// # Errors
    /// If the tracepoint cannot be found or counted: no permission, no tracefs, a kernel built without it, or a sandbox
    /// whose counter reads 0.
    pub fn open() -> Reading<Self> {
        let builder = builder()?;
        // Excludes child processes where the kernel can (Linux 5.13).
        let counter = match builder.clone().inherit_thread(true).build() {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => builder.build(),
            other => other,
        };
        Self::checked(counter)
    }

    /// The same with the processes started from then on.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(super) fn open_for_children() -> Reading<Self> {
        Self::checked(builder()?.build())
    }

    fn checked(counter: io::Result<Counter>) -> Reading<Self> {
        let counter = counter.map_err(|error| explain_open(&error, Permission::of_this_process(), no_tracepoints))?;
        let mut counter = Self { counter, started_at: None, opening_thread_only: PhantomData };
        counter.start()?;
        for _ in 0..CHECK_SYSCALLS {
            let _ = rustix::process::getppid();
        }
        let (entered, seen) = (CHECK_SYSCALLS + STOP_SYSCALLS, counter.stop_raw()?);
        // A signal handler may add to the count, but no call may be missed.
        if seen < entered {
            return Err(Unavailable::new(format!("the kernel's counter read {seen} for {entered} system calls"))
                .remedy("run outside the sandbox or emulator"));
        }
        Ok(counter)
    }

    /// Starts counting from 0.
    ///
    /// # Errors
    /// If the kernel refuses to read or start the counter.
    pub fn start(&mut self) -> Reading<()> {
        self.counter.disable().map_err(|error| explain_use("stop", &error))?;
        self.started_at = Some(self.counter.read().map_err(|error| explain_use("read", &error))?);
        self.counter.enable().map_err(|error| explain_use("start", &error))
    }

    /// Stops, and returns the number of system calls entered since [`start`](Self::start), without its own.
    ///
    /// # Errors
    /// If it was not started, or the kernel refuses to stop or read the counter.
    pub fn stop(&mut self) -> Reading<u64> {
        let missed = || Unavailable::new("the kernel's counter missed the system call that stopped it");
        self.stop_raw()?.checked_sub(STOP_SYSCALLS).ok_or_else(missed)
    }

    fn stop_raw(&mut self) -> Reading<u64> {
        let started_at = self.started_at.take().ok_or_else(|| Unavailable::new("the counter was not started"))?;
        self.counter.disable().map_err(|error| explain_use("stop", &error))?;
        Ok(self.counter.read().map_err(|error| explain_use("read", &error))?.saturating_sub(started_at))
    }
}

/// A counter of the calling thread, and of all that it starts.
fn builder<'a>() -> Reading<Builder<'a>> {
    let mut builder = Builder::new(Tracepoint::with_id(tracepoint_id()?));
    // System call entry is traced in kernel mode: a counter that excludes the kernel reads 0.
    builder.exclude_kernel(false).exclude_hv(false).inherit(true);
    Ok(builder)
}

const TRACEPOINT: &str = "events/raw_syscalls/sys_enter/id";
const TRACEFS_MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The number of the tracepoint, which differs between kernels and is only listed in tracefs.
fn tracepoint_id() -> Reading<u64> {
    let mut refused = false;
    for mount_point in TRACEFS_MOUNT_POINTS {
        match std::fs::read_to_string(format!("{mount_point}/{TRACEPOINT}")) {
            Ok(text) => return parse_id(&text),
            Err(error) => refused |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    match read_detached() {
        Ok(text) => parse_id(&text),
        Err(errno) => Err(explain_tracefs(errno, refused)),
    }
}

/// Reads the number through a detached mount, which disappears when its descriptor closes (fsopen(2), fsmount(2),
/// Linux 5.2).
fn read_detached() -> Result<String, Errno> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let root = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let file = rustix::fs::openat(&root, TRACEPOINT, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; 32];
    let length = rustix::io::read(&file, &mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn parse_id(text: &str) -> Reading<u64> {
    let unreadable = |_| Unavailable::new(format!("the tracepoint's number `{}` is not a number", text.trim()));
    text.trim().parse().map_err(unreadable)
}

fn explain_tracefs(errno: Errno, refused: bool) -> Unavailable {
    match errno {
        Errno::NODEV => Unavailable::new("the kernel has no tracefs").remedy("use a kernel built with CONFIG_TRACING"),
        Errno::NOENT => Unavailable::new("the kernel has no tracepoint raw_syscalls:sys_enter")
            .remedy("use a kernel built with CONFIG_FTRACE_SYSCALLS"),
        Errno::NOSYS => {
            Unavailable::new("tracefs is not mounted").remedy("mount -t tracefs tracefs /sys/kernel/tracing")
        }
        _ if refused => Unavailable::new("tracefs, which lists the tracepoints, is not readable for this user")
            .remedy("run as root"),
        Errno::PERM | Errno::ACCESS => {
            Unavailable::new("tracefs is not mounted, and reading it without a mount needs CAP_SYS_ADMIN")
                .remedy("run as root, or mount -t tracefs tracefs /sys/kernel/tracing")
        }
        errno => Unavailable::new(format!("reading tracefs failed: {}", describe(&errno.into()))),
    }
}

/// The kernel has no such tracepoint, or no tracepoints at all.
fn no_tracepoints(error: &io::Error) -> Unavailable {
    Unavailable::new(format!("perf cannot count tracepoints here: {}", describe(error)))
        .remedy("use a kernel built with CONFIG_EVENT_TRACING and CONFIG_FTRACE_SYSCALLS")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;

    const COUNT: u64 = 1000;
    const LAST: u32 = 9;

    fn open_or_skip(test: &str) -> Option<SyscallCounter> {
        SyscallCounter::open().inspect_err(|unavailable| eprintln!("SKIPPED {test}: {unavailable}")).ok()
    }

    fn call_getppid() {
        for _ in 0..COUNT {
            let _ = rustix::process::getppid();
        }
    }

    /// Waits without a system call, so that waiting is not counted.
    fn spin_until(stage: &AtomicU32, least: u32) {
        while stage.load(Ordering::Acquire) < least {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn every_system_call_between_start_and_stop_is_counted_and_no_other() {
        let Some(mut counter) = open_or_skip("every_system_call_between_start_and_stop_is_counted_and_no_other") else {
            return;
        };
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut byte = [0; 1];

        counter.start().unwrap();
        assert_eq!(counter.stop().unwrap(), 0, "starting and stopping counted something of their own");

        counter.start().unwrap();
        call_getppid();
        for offset in 0..7 {
            rustix::io::pread(&zero, &mut byte, offset).unwrap();
        }
        let counted = counter.stop().unwrap();
        call_getppid();
        assert_eq!(counted, COUNT + 7);

        counter.start().unwrap();
        call_getppid();
        counter.start().unwrap();
        let _ = rustix::process::getppid();
        assert_eq!(counter.stop().unwrap(), 1, "a second start does not begin at 0");
        assert!(counter.stop().unwrap_err().reason.contains("not started"));
    }

    #[test]
    fn threads_made_after_opening_are_counted_and_older_ones_are_not() {
        let name = "threads_made_after_opening_are_counted_and_older_ones_are_not";
        // Each thread does its calls at its own stage, and both stay until the end: their ends are not counted.
        let stage = AtomicU32::new(0);
        let ready = AtomicU32::new(0);
        let call_at = |mine: u32| {
            ready.fetch_add(1, Ordering::Release);
            spin_until(&stage, mine);
            if stage.load(Ordering::Acquire) == mine {
                call_getppid();
                stage.store(mine + 1, Ordering::Release);
            }
            spin_until(&stage, LAST);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| call_at(1));
            let counter = open_or_skip(name);
            scope.spawn(|| call_at(3));
            spin_until(&ready, 2);
            let counted = counter.map(|mut counter| {
                let mut count = |mine: u32| {
                    counter.start()?;
                    stage.store(mine, Ordering::Release);
                    spin_until(&stage, mine + 1);
                    counter.stop()
                };
                [count(1), count(3)]
            });
            stage.store(LAST, Ordering::Release);
            assert!(matches!(counted, None | Some([Ok(0), Ok(COUNT)])), "{counted:?}");
        });
    }

    #[test]
    fn what_an_ended_thread_counted_is_kept_once() {
        let Some(mut counter) = open_or_skip("what_an_ended_thread_counted_is_kept_once") else { return };
        counter.start().unwrap();
        std::thread::spawn(call_getppid).join().unwrap();
        let counted = counter.stop().unwrap();
        assert!((COUNT..COUNT + 200).contains(&counted), "{counted}");

        counter.start().unwrap();
        let _ = rustix::process::getppid();
        assert_eq!(counter.stop().unwrap(), 1, "the ended thread was counted again");
    }

    #[test]
    fn a_counter_that_sees_nothing_is_refused_when_it_is_opened() {
        let name = "a_counter_that_sees_nothing_is_refused_when_it_is_opened";
        if open_or_skip(name).is_none() {
            return;
        }
        let mut builder = Builder::new(Tracepoint::with_id(tracepoint_id().unwrap()));
        builder.exclude_kernel(true);
        let unavailable = SyscallCounter::checked(builder.build()).unwrap_err();
        assert_eq!(unavailable.reason, "the kernel's counter read 0 for 65 system calls");
    }

    #[test]
    fn reading_the_tracepoint_mounts_nothing() {
        // Other programs may mount other things meanwhile.
        let mounts = || {
            let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            mountinfo.lines().filter(|line| line.contains(" - tracefs ")).count()
        };
        let before = mounts();
        match read_detached() {
            Ok(text) => assert!(parse_id(&text).is_ok(), "{text}"),
            Err(errno) => eprintln!("SKIPPED reading_the_tracepoint_mounts_nothing: {errno}"),
        }
        assert_eq!(mounts(), before);
    }

    #[test]
    fn a_missing_tracefs_is_reported_with_a_remedy() {
        assert!(explain_tracefs(Errno::NODEV, false).remedy.contains("CONFIG_TRACING"));
        assert!(explain_tracefs(Errno::NOENT, false).remedy.contains("CONFIG_FTRACE_SYSCALLS"));
        assert!(explain_tracefs(Errno::PERM, false).remedy.contains("mount -t tracefs"));
        assert_eq!(explain_tracefs(Errno::PERM, true).remedy, "run as root");
    }

    #[test]
    fn the_number_of_the_tracepoint_is_a_number() {
        assert_eq!(parse_id("348\n"), Ok(348));
        assert!(parse_id("").is_err());
        assert!(parse_id("-1\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_number_parser_panic(text in "\\PC{0,24}") {
            let _ = parse_id(&text);
        }
    }
}
