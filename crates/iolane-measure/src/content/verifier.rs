//! `Verifier`: what --verify does around each request of an engine. It fills what is written, and checks what was read
//! against the content map of the run, or against the headers of an earlier run. It performs no I/O.

use std::sync::Arc;

use iolane::{Error, IoError, Result};

use super::header::Expected;
use super::map::ContentMap;
use super::units::check_earlier;
use crate::workload::PlannedRequest;

/// What the blocks of a target should hold.
#[derive(Debug, Clone)]
pub(crate) enum Verifier {
    /// What the map says, which all engines on the target share.
    Map(Arc<ContentMap>),
    /// What any earlier run with this seed wrote in blocks of `unit_bytes`. For reads only.
    EarlierRun { seed: u64, unit_bytes: u32 },
}

impl Verifier {
    /// Claims the blocks of a request and fills the buffer of a write. Returns false if one of the blocks is in use.
    pub(crate) fn begin(&self, request: PlannedRequest, buffer: &mut [u8]) -> bool {
        let PlannedRequest { is_read, offset, block_bytes } = request;
        match self {
            Self::EarlierRun { .. } => {
                assert!(is_read, "a run that writes knows its content");
                true
            }
            Self::Map(map) if is_read => map.try_begin_read(offset, block_bytes.into()),
            Self::Map(map) => match map.try_begin_write(offset, block_bytes.into()) {
                None => false,
                Some(generation) => {
                    map.fill(buffer, offset, generation);
                    true
                }
            },
        }
    }

    /// Checks what was read or records what was written, and releases the blocks. Returns whether content was compared.
    ///
    /// # Errors
    /// `Failed` for content that does not belong there.
    // Not inlined, so that the engine's loop is as short without --verify as if there were none.
    #[inline(never)]
    pub(crate) fn end(&self, request: PlannedRequest, result: Result<u32, IoError>, buffer: &[u8]) -> Result<bool> {
        let PlannedRequest { is_read, offset, block_bytes } = request;
        let whole = result == Ok(block_bytes);
        let checked = match self {
            Self::Map(map) if !is_read => {
                map.end_write(offset, block_bytes.into(), whole);
                return Ok(false);
            }
            Self::Map(map) => {
                let known = whole && map.expected(offset) != Expected::Unwritten;
                let checked = if whole { map.check(buffer, offset) } else { Ok(()) };
                map.end_read(offset, block_bytes.into());
                checked.map(|()| known)
            }
            Self::EarlierRun { .. } if !whole => Ok(false),
            Self::EarlierRun { seed, unit_bytes } => {
                let mut blocks =
                    (offset..).step_by(*unit_bytes as usize).zip(buffer.chunks_exact(*unit_bytes as usize));
                blocks.try_for_each(|(at, block)| check_earlier(block, at, *seed)).map(|()| true)
            }
        };
        checked.map_err(|mismatch| Error::failed("verify", mismatch.to_string()))
    }
}
