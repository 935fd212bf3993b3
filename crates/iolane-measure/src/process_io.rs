//! What the kernel has accounted to a process or a thread: proc_pid_io(5). Telemetry of peers and watched processes read it.

use crate::host::parse_colon_value;

/// The counters of `/proc/PID/io`, since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessIo {
    /// Calls of read(2) and its like, and their bytes (`syscr`, `rchar`).
    pub(crate) reads: Calls,
    /// Those of write(2) and its like (`syscw`, `wchar`).
    pub(crate) writes: Calls,
    /// Bytes read from storage (`read_bytes`).
    pub(crate) read_bytes: u64,
    /// Bytes that were or will be written to it (`write_bytes`).
    pub(crate) written_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

impl ProcessIo {
    /// `None` if the text lacks one of them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| parse_colon_value(text, name)?.parse::<u64>().ok();
        Some(Self {
            reads: Calls { calls: value("syscr")?, bytes: value("rchar")? },
            writes: Calls { calls: value("syscw")?, bytes: value("wchar")? },
            read_bytes: value("read_bytes")?,
            written_bytes: value("write_bytes")?,
        })
    }

    /// Bytes from and to storage.
    pub(crate) fn stored_bytes(&self) -> Option<u64> {
        self.read_bytes.checked_add(self.written_bytes)
    }
}
