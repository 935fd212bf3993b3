//! Peak resident memory of a run. [`Watch`](super::Watch) resets the kernel's high-water mark before the run and reads it after.

use std::fs;
use std::path::Path;

use super::{Reading, Sourced, Unavailable};

/// The kernel's high-water mark of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryMark {
    reset: bool,
}

impl MemoryMark {
    /// Sets the mark to what is resident now (proc_pid_clear_refs(5), Linux 4.0), if that is permitted.
    pub(super) fn reset(proc: &Path) -> Self {
        Self { reset: fs::write(proc.join("self/clear_refs"), "5").is_ok() }
    }

    /// The mark in bytes, a multiple of the page size.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub(super) fn peak(self, proc: &Path) -> Reading<Sourced<u64>> {
        let untold = || Unavailable::new("/proc/self/status has no VmHWM").remedy("mount /proc");
        let status = fs::read_to_string(proc.join("self/status")).map_err(|_| untold())?;
        let kibibytes = parse_peak(&status).ok_or_else(untold)?;
        let source = match self.reset {
            true => "/proc/self/status, VmHWM since the run was set up",
            false => "/proc/self/status, VmHWM since the program started",
        };
        Ok(Sourced::new(kibibytes.saturating_mul(1024), source))
    }
}

/// `VmHWM:     5120 kB`, proc_pid_status(5), in units of 1024 bytes.
fn parse_peak(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sysfs_fixture::Fixture;

    #[test]
    fn the_mark_is_in_bytes_and_says_since_when() {
        let fixture = Fixture::new();
        fixture.write("self/status", "Name:\tiolane\nVmPeak:\t 9000 kB\nVmHWM:\t    5120 kB\nVmRSS:\t 4000 kB\n");
        let since_the_beginning = MemoryMark::reset(&fixture.path("nothing")).peak(&fixture.path("")).unwrap();
        assert_eq!(since_the_beginning.value, 5120 * 1024);
        assert!(since_the_beginning.source.ends_with("since the program started"));
        let reset = MemoryMark::reset(&fixture.path("")).peak(&fixture.path("")).unwrap();
        assert!(reset.source.ends_with("since the run was set up"));
        assert_eq!(fs::read_to_string(fixture.path("self/clear_refs")).unwrap(), "5");
    }

    #[test]
    fn what_the_kernel_does_not_report_is_unavailable() {
        let fixture = Fixture::new();
        let mark = MemoryMark::reset(&fixture.path(""));
        assert!(mark.peak(&fixture.path("")).is_err());
        fixture.write("self/status", "Name:\tiolane\n");
        assert!(mark.peak(&fixture.path("")).unwrap_err().reason.contains("VmHWM"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\PC\n]{0,80}", value in "[0-9 kB]{0,24}") {
            let _ = (parse_peak(&text), parse_peak(&format!("VmHWM:{value}")));
        }
    }
}
