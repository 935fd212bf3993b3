//! Refuses files that are interfaces to the kernel or the firmware rather than data: those of /proc, /sys and similar file
//! systems. Called by `mod.rs`.

use std::os::fd::OwnedFd;

use super::refusal::{Reason, Refusal};

/// File systems of such files, by their numbers in statfs(2) and linux/magic.h.
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

/// Refuses a file on one of these.
pub(super) fn check(node: &OwnedFd) -> Result<(), Refusal> {
    let statfs = rustix::fs::fstatfs(node).map_err(|errno| Refusal::unreadable("its file system", errno))?;
    // The field is signed on some architectures; the numbers have 32 bits on all.
    match DOORS.iter().find(|(magic, _)| *magic == statfs.f_type as u32) {
        Some((_, name)) => {
            let cause = format!("it is a file of {name}, which steers the kernel");
            Err(Refusal::new(Reason::Unsuitable, cause, "name another file"))
        }
        None => Ok(()),
    }
}
