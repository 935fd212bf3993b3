//! The processes that have a device open, from /proc. Only root sees the processes of other users. Called before a controller is
//! taken or returned.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A process that has a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Its process ID.
    pub pid: u32,
    /// The name of its program, as the kernel has it (15 bytes at most).
    pub program: String,
}

impl fmt::Display for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.program, self.pid)
    }
}

/// Every device that another process has open, at one moment.
#[derive(Debug, Default)]
pub struct OpenFiles {
    /// By kind and number: a block and a character device may have the same.
    by_device: HashMap<(bool, u64), Vec<Opener>>,
}

impl OpenFiles {
    /// Scans every process. Those that end meanwhile, or cannot be read, are skipped.
    pub fn scan() -> Self {
        let mut openers = Self::default();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if pid != std::process::id() {
                openers.add_process(pid);
            }
        }
        openers
    }

    /// The processes that have the device of this node open; none if there is no such node.
    pub fn of(&self, node: &Path) -> &[Opener] {
        let device = fs::metadata(node).ok().and_then(|found| device_of(&found));
        device.and_then(|device| self.by_device.get(&device)).map_or(&[], Vec::as_slice)
    }

    fn add_process(&mut self, pid: u32) {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        // The descriptor itself is asked, since its name may be one in another mount namespace.
        let mut devices: Vec<_> =
            descriptors.filter_map(|entry| device_of(&fs::metadata(entry.path()).ok()?)).collect();
        devices.sort_unstable();
        devices.dedup();
        if devices.is_empty() {
            return;
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let program = name.trim_end().replace(char::is_control, "?");
        for device in devices {
            self.by_device.entry(device).or_default().push(Opener { pid, program: program.clone() });
        }
    }
}

fn device_of(found: &fs::Metadata) -> Option<(bool, u64)> {
    let is_block = found.file_type().is_block_device();
    (is_block || found.file_type().is_char_device()).then(|| (is_block, found.rdev()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_found_by_a_device_it_has_open_and_not_by_another() {
        let full = fs::File::open("/dev/full").unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::from(full)).spawn().unwrap();
        let openers = OpenFiles::scan();
        let has_child = |node: &str| openers.of(Path::new(node)).iter().any(|opener| opener.pid == child.id());
        let seen = (has_child("/dev/full"), has_child("/dev/zero"), has_child("/nonexistent"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, (true, false, false));
    }
}
