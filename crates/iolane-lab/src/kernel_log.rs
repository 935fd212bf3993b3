//! The guest kernel's warnings while a command ran (/dev/kmsg, Documentation/ABI/testing/dev-kmsg): shown if the command failed, because
//! they often tell why, and are lost with the guest.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

/// Most messages that are shown.
const MESSAGES_MAX: usize = 20;
/// Of one record; the kernel refuses a smaller buffer than the record is long (`PRINTK_MESSAGE_MAX`, 2048 with its dictionary).
const RECORD_BYTES_MAX: usize = 8192;
/// `KERN_WARNING`; lower is worse.
const WARNING: u8 = 4;

/// The log from where it was opened.
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// From here on.
    pub(crate) fn from_now() -> io::Result<Self> {
        let flags = OFlags::NONBLOCK.bits() as i32;
        let mut file = File::options().read(true).custom_flags(flags).open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self(file))
    }

    /// The last warnings and errors since then, a line each.
    pub(crate) fn warnings(&mut self) -> Vec<String> {
        let (mut found, mut record) = (VecDeque::new(), [0; RECORD_BYTES_MAX]);
        loop {
            match self.0.read(&mut record) {
                Ok(length @ 1..) => found.extend(warning(&String::from_utf8_lossy(&record[..length]))),
                // Records were overwritten before they were read; the next ones are there.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                // WouldBlock is the end.
                _ => return found.into(),
            }
            if found.len() > MESSAGES_MAX {
                found.pop_front();
            }
        }
    }
}

/// The text of a record, `4,339,5140900,-;nvme nvme0: ...`, if it is a warning or worse, with the seconds since boot.
fn warning(record: &str) -> Option<String> {
    let (fields, text) = record.split_once(';')?;
    let mut fields = fields.split(',');
    let (priority, microseconds) = (fields.next()?.parse::<u32>().ok()?, fields.nth(1)?.parse::<u64>().ok()?);
    // Facility above, level in the lowest three bits.
    let level = (priority & 7) as u8;
    let seconds = microseconds as f64 / 1e6;
    (level <= WARNING).then(|| format!("[{seconds:.6}] {}", text.lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_and_the_rest_is_not() {
        for (record, expected) in [
            ("4,339,5140900,-;nvme nvme0: timeout\n SUBSYSTEM=pci\n", Some("[5.140900] nvme nvme0: timeout")),
            ("3,1,7,c,caller=T1;broken\n", Some("[0.000007] broken")),
            // A program wrote it, with facility 1 (user-level messages).
            ("12,2,1000000,-;from user space\n", Some("[1.000000] from user space")),
            ("6,339,5140900,-;nvme nvme0: 2/0/0 queues\n", None),
            ("nothing of the kind", None),
            ("4,;x", None),
        ] {
            assert_eq!(warning(record).as_deref(), expected, "{record}");
        }
    }
}
