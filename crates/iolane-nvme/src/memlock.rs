//! The limit on locked memory (getrlimit(2), RLIMIT_MEMLOCK), checked before the kernel is asked to lock some, because the
//! kernel's error does not name the limit. Called by `vfio`.

use iolane_core::units::Bytes;
use iolane_core::{Error, ErrorKind, Result};
use rustix::process::{Resource, getrlimit};

/// CAP_IPC_LOCK (linux/capability.h), with which there is no limit.
const CAP_IPC_LOCK: u32 = 14;

/// Refuses `bytes` more of locked memory if that exceeds the limit.
pub(crate) fn ensure_room(name: &str, bytes: usize) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    check(name, bytes as u64, &status, getrlimit(Resource::Memlock).current)
}

fn check(name: &str, bytes: u64, status: &str, limit: Option<u64>) -> Result<()> {
    let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next());
    let capabilities = field("CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    let locked = field("VmLck:").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) << 10;
    match limit {
        Some(limit) if locked + bytes > limit && capabilities >> CAP_IPC_LOCK & 1 == 0 => Err(Error::unavailable(
            format!("{name}: memory that it may reach"),
            format!(
                "{} more than the {} that are locked already exceed the limit of {} (RLIMIT_MEMLOCK)",
                Bytes(bytes),
                Bytes(locked),
                Bytes(limit)
            ),
        )
        .with_kind(ErrorKind::Exhausted)
        .remedy(format!(
            "raise it (ulimit -l {} or more), or lower the depth or block size",
            (locked + bytes).div_ceil(1024)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_named_before_the_kernel_refuses() {
        let status = |capabilities: &str| format!("VmLck:\t    1024 kB\nCapEff:\t{capabilities}\n");
        let error = check("pci:x", 8 << 20, &status("0000000000000000"), Some(8 << 20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.to_string().contains("ulimit -l 9216"), "{error}");
        assert!(check("pci:x", 7 << 20, &status("0000000000000000"), Some(8 << 20)).is_ok());
        assert!(check("pci:x", 8 << 20, &status("000001ffffffffff"), Some(8 << 20)).is_ok());
        assert!(check("pci:x", 8 << 20, &status("0000000000000000"), None).is_ok());
    }
}
