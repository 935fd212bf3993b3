//! Which part of a target holds what: two sorted runs, packed blocks, and room for the output of a merge.

use iolane::units::Bytes;
use iolane::{Error, Result, Target};

/// Where each kind of data is, in bytes from the start of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(crate) runs: [Part; 2],
    pub(crate) packed: Part,
    pub(crate) output: Part,
}

/// A part of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Part {
    /// How many blocks of this size it has.
    pub(crate) fn blocks(self, block_bytes: usize) -> u64 {
        self.bytes / block_bytes as u64
    }
}

/// The least that a target must have for the applications.
const BYTES_MIN: u64 = 16 << 20;
/// Reads of more than this are no more random.
const RUN_BYTES_MAX: u64 = 256 << 20;
/// All parts begin at a multiple of it.
pub(super) const ALIGN: u64 = 1 << 20;

impl Layout {
    /// Divides `bytes` of a target from `start` on, or what it has, up to 1 GiB: a quarter for each run, an eighth for packed blocks, the
    /// rest for output.
    ///
    /// # Errors
    /// `Usage` if there are fewer than 16 MiB.
    pub fn of(target: &Target, start: u64, bytes: Option<u64>) -> Result<Self> {
        let bytes = bytes.unwrap_or(u64::MAX).min(target.bytes().saturating_sub(start));
        if bytes < BYTES_MIN {
            let cause = format!("applications need {} of it, and {} are given", Bytes(BYTES_MIN), Bytes(bytes));
            return Err(Error::usage(format!("target {}", target.name()), cause).remedy("give it a larger --size"));
        }
        let aligned = |bytes: u64| bytes / ALIGN * ALIGN;
        let run = aligned(bytes / 4).min(RUN_BYTES_MAX);
        let packed = aligned(bytes / 8).min(RUN_BYTES_MAX / 4);
        let mut next = start;
        let mut part = |bytes| {
            let start = next;
            next += bytes;
            Part { start, bytes }
        };
        let runs = [part(run), part(run)];
        Ok(Self { runs, packed: part(packed), output: part(aligned(bytes - 2 * run - packed).min(2 * run - packed)) })
    }

    /// Both runs: what is read at random.
    pub(crate) fn sorted(&self) -> Part {
        Part { start: self.runs[0].start, bytes: self.runs[0].bytes + self.runs[1].bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_lie_one_after_the_other_within_the_bytes_that_are_given() {
        let target = Target::open("null").unwrap();
        for bytes in [BYTES_MIN, 1 << 30, 3 << 30] {
            let layout = Layout::of(&target, 4096, Some(bytes)).unwrap();
            let parts = [layout.runs[0], layout.runs[1], layout.packed, layout.output];
            assert_eq!(parts[0].start, 4096);
            for pair in parts.windows(2) {
                assert_eq!(pair[0].start + pair[0].bytes, pair[1].start);
            }
            let end = parts[3].start + parts[3].bytes;
            assert!(parts.iter().all(|part| part.bytes > 0) && end <= 4096 + bytes.min(1 << 30), "{end}");
        }
        let error = Layout::of(&target, 0, Some(BYTES_MIN - 1)).unwrap_err().to_string();
        assert!(error.contains("applications need 16m of it") && error.contains("--size"), "{error}");
    }
}
