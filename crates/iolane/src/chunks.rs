//! Drives with chunks, as some by Intel and many arrays have: where the kernel splits no request of a path, one that crosses the border of
//! a chunk is refused. `auto` and `Blocking` do not look for borders, and take no such path.

use iolane_core::{Capabilities, Error, IoPath, Result, Target, TargetKind};

/// Checks that a path takes requests at any offset of a target.
///
/// # Errors
/// `Unavailable` if it refuses those that cross a border.
pub(crate) fn ignores_chunks(path: &IoPath, target: &Target, capabilities: &Capabilities) -> Result<()> {
    // A drive takes a passthrough command across the border.
    let has_chunks =
        target.kind() != TargetKind::NvmeGeneric && target.device_attribute("queue/chunk_sectors") > Some(0);
    if capabilities.request_bytes_max.is_some() && has_chunks {
        let cause = "it refuses requests that cross a border of the device's chunks";
        return Err(
            Error::unavailable(format!("{path} on {}", target.name()), cause).remedy("use a path without polling")
        );
    }
    Ok(())
}
