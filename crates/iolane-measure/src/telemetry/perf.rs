//! Explains why perf_event_open(2) failed, for the counters of system calls and of the processor. It opens nothing itself.

use std::io;

use iolane::error::describe;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::Unavailable;

/// Whether this process may count work in the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permission {
    /// The sysctl kernel.perf_event_paranoid; `None` where the kernel has none.
    pub(crate) paranoid: Option<i32>,
    /// Whether the process has a capability that lifts the limit, in its own user namespace.
    pub(crate) may_perfmon: bool,
}

impl Permission {
    pub(crate) fn of_this_process() -> Self {
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
        let lifting = CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
        Self {
            paranoid: paranoid.and_then(|text| text.trim().parse().ok()),
            may_perfmon: rustix::thread::capabilities(None).is_ok_and(|held| held.effective.intersects(lifting)),
        }
    }
}

/// Why perf_event_open(2) failed; `unsupported` explains an event that the kernel or the machine does not have.
///
/// Counting in kernel mode, without samples, needs `perf_event_paranoid` 1 or less, or CAP_PERFMON (before Linux 5.8
/// CAP_SYS_ADMIN): `perf_allow_kernel` in include/linux/perf_event.h.
pub(crate) fn explain_open(
    error: &io::Error,
    permission: Permission,
    unsupported: impl FnOnce(&io::Error) -> Unavailable,
) -> Unavailable {
    let Permission { paranoid, may_perfmon } = permission;
    match (error.raw_os_error().map(Errno::from_raw_os_error), paranoid) {
        (Some(Errno::ACCESS | Errno::PERM), Some(paranoid @ 2..)) if !may_perfmon => Unavailable::new(format!(
            "perf_event_open was refused: kernel.perf_event_paranoid is {paranoid} and CAP_PERFMON is missing"
        ))
        .remedy("run as root, or sysctl kernel.perf_event_paranoid=1"),
        (Some(Errno::ACCESS | Errno::PERM), _) => Unavailable::new(
            "perf_event_open was refused by a seccomp filter, a security module or a user namespace",
        )
        .remedy("run outside the container, or allow perf_event_open in its seccomp profile and give it CAP_PERFMON"),
        (Some(Errno::NOSYS), _) => Unavailable::new("the kernel or sandbox has no perf_event_open")
            .remedy("use a kernel built with CONFIG_PERF_EVENTS"),
        (Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL), _) => unsupported(error),
        (Some(Errno::MFILE), _) => Unavailable::new("perf_event_open: too many open files").remedy("raise ulimit -n"),
        _ => Unavailable::new(format!("perf_event_open failed: {}", describe(error))),
    }
}

/// Why an open counter failed to start, stop or be read.
pub(crate) fn explain_use(action: &str, error: &io::Error) -> Unavailable {
    Unavailable::new(format!("the kernel did not {action} the counter: {}", describe(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_cause_and_remedy() {
        let text = |errno: Errno, paranoid, may_perfmon| {
            let permission = Permission { paranoid, may_perfmon };
            explain_open(&io::Error::from(errno), permission, |_| Unavailable::new("no such event")).to_string()
        };
        let refused = text(Errno::ACCESS, Some(3), false);
        assert!(refused.contains("perf_event_paranoid is 3") && refused.contains("perf_event_paranoid=1"), "{refused}");
        let refused = text(Errno::PERM, Some(2), true);
        assert!(refused.contains("seccomp") && !refused.contains("paranoid"), "{refused}");
        assert!(text(Errno::NOSYS, None, true).contains("CONFIG_PERF_EVENTS"));
        assert!(text(Errno::MFILE, None, true).contains("ulimit -n"));
        assert_eq!(text(Errno::NOENT, Some(1), true), "no such event");
    }
}
