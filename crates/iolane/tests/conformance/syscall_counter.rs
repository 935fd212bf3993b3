//! Counts this thread's system calls by the kernel's tracepoint raw_syscalls:sys_enter (perf_event_open(2)), for `proofs`.
//! A counter that misses calls is refused when it is opened, with the reason for a SKIPPED line.

use std::io;

use iolane::error::describe;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::report::Skip;

/// The counter of the thread that opened it. Threads that it makes are not counted: Linux before 5.13 may count a thread
/// that is ending twice while the sum is read (kernel/events/core.c, `perf_event_exit_event` adds the thread's count to the
/// parent's before it removes the thread from the list).
pub(crate) struct SyscallCounter {
    counter: Counter,
}

/// The calls that a running counter sees of `stop`: the ioctl(2) that stops it.
const STOP_SYSCALLS: u64 = 1;

/// How many calls a new counter must see to be trusted.
const CHECK_SYSCALLS: u64 = 64;

impl SyscallCounter {
    /// Opens a counter that does not count yet.
    pub(crate) fn open() -> Result<Self, Skip> {
        let mut builder = Builder::new(Tracepoint::with_id(tracepoint_id()?));
        // System calls are traced in kernel mode: a counter that excludes the kernel reads 0.
        builder.exclude_kernel(false).exclude_hv(false);
        let mut counter = Self { counter: builder.build().map_err(|error| refused(&error))? };
        counter.start().map_err(|error| used("start", &error))?;
        for _ in 0..CHECK_SYSCALLS {
            let _ = rustix::process::getppid();
        }
        let seen = counter.stop().map_err(|error| used("stop", &error))?;
        if seen < CHECK_SYSCALLS {
            let reason = format!("the kernel's counter read {seen} for {CHECK_SYSCALLS} system calls");
            return Err(Skip::new(reason, "run outside the sandbox or emulator"));
        }
        Ok(counter)
    }

    /// Starts to count from 0.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        self.counter.disable()?;
        self.counter.reset()?;
        self.counter.enable()
    }

    /// Stops, and returns the number of system calls since `start`, without its own.
    pub(crate) fn stop(&mut self) -> io::Result<u64> {
        self.counter.disable()?;
        Ok(self.counter.read()?.saturating_sub(STOP_SYSCALLS))
    }
}

fn refused(error: &io::Error) -> Skip {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => Skip::new(
            "perf_event_open was refused (kernel.perf_event_paranoid, a seccomp filter or a security module)",
            "run as root outside the container, or sysctl kernel.perf_event_paranoid=1",
        ),
        Some(Errno::NOSYS) => {
            Skip::new("the kernel or sandbox has no perf_event_open", "use a kernel built with CONFIG_PERF_EVENTS")
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL) => Skip::new(
            format!("perf cannot count tracepoints here: {}", describe(error)),
            "use a kernel built with CONFIG_EVENT_TRACING and CONFIG_FTRACE_SYSCALLS",
        ),
        _ => Skip::new(format!("perf_event_open failed: {}", describe(error)), "none is known"),
    }
}

fn used(action: &str, error: &io::Error) -> Skip {
    Skip::new(format!("the kernel did not {action} the counter: {}", describe(error)), "none is known")
}

const TRACEPOINT: &str = "events/raw_syscalls/sys_enter/id";

/// The number of the tracepoint, which tracefs lists.
fn tracepoint_id() -> Result<u64, Skip> {
    let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .find_map(|mount| std::fs::read_to_string(format!("{mount}/{TRACEPOINT}")).ok());
    let text = match mounted {
        Some(text) => text,
        None => read_detached().map_err(no_tracefs)?,
    };
    text.trim().parse().map_err(|_| Skip::new(format!("the tracepoint's number is `{}`", text.trim()), "none is known"))
}

/// Reads the number through a mount outside the file tree, which goes with its descriptor (fsmount(2)).
fn read_detached() -> Result<String, Errno> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let root = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let file = rustix::fs::openat(&root, TRACEPOINT, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; 32];
    let length = rustix::io::read(&file, &mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn no_tracefs(errno: Errno) -> Skip {
    match errno {
        Errno::NODEV => Skip::new("the kernel has no tracefs", "use a kernel built with CONFIG_TRACING"),
        Errno::NOENT => Skip::new(
            "the kernel has no tracepoint raw_syscalls:sys_enter",
            "use a kernel built with CONFIG_FTRACE_SYSCALLS",
        ),
        Errno::PERM | Errno::ACCESS => {
            Skip::new("tracefs, which numbers the tracepoints, is not readable for this user", "run as root")
        }
        errno => Skip::new(
            format!("reading tracefs failed: {}", describe(&errno.into())),
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
    }
}
