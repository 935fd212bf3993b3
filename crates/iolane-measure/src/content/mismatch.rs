//! What a failed check found: the first field that differs, the likely cause, and both as one line for a person.
//! `units` makes it.

use std::fmt;

use super::header::{Expected, Field, Header, MAGIC, checksum};

/// What most likely happened to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// All zeroes: never written, discarded, or its first write was lost.
    Zeroes,
    /// It was not written by `--verify`, or its header is corrupt.
    Foreign,
    /// It was written as part of a block of another size, or its header is corrupt.
    OtherBlockSize,
    /// It is not whole: torn within the unit, or corrupt.
    Corrupt,
    /// An earlier run wrote it: the write of this run was lost.
    OtherRun,
    /// It belongs elsewhere: a write went to the wrong place, or the read came from there.
    Misdirected,
    /// The whole block belongs to an older write: the last one was acknowledged and lost, or the read was stale.
    LostWrite,
    /// A part of the block belongs to an older write: the last one was acknowledged and written in part.
    TornWrite,
    /// It belongs to a write that was not acknowledged, or that is not in the map.
    UnknownWrite,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zeroes => "never written or discarded, or a lost write: all bytes are 0",
            Self::Foreign => "content not written by --verify, or a corrupt header",
            Self::OtherBlockSize => "content written with another block size, or a corrupt header",
            Self::Corrupt => "torn or corrupt data",
            Self::OtherRun => "a lost write: the content belongs to another run",
            Self::Misdirected => "a misdirected write or read: the content belongs elsewhere",
            Self::LostWrite => "a lost write or a stale read: the content belongs to an older write",
            Self::TornWrite => "a torn write: this part is older than other parts of the block",
            Self::UnknownWrite => {
                "a write that was not acknowledged: the content is newer than the last acknowledged write"
            }
        })
    }
}

/// A unit that does not hold what was written there; printed as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Target offset of the unit, in bytes.
    pub offset: u64,
    /// The first field that differs.
    pub field: Field,
    /// What most likely happened.
    pub cause: Cause,
    expected_generations: Vec<u64>,
    expected_run: u64,
    found: Header,
    unit_bytes: usize,
    /// Checksum of the bytes as read.
    checksum: u32,
}

impl std::error::Error for Mismatch {}

impl Mismatch {
    #[cold]
    pub(super) fn new(
        offset: u64,
        unit: &[u8],
        field: Field,
        expected: Expected<'_>,
        run: u64,
        others_are_right: bool,
    ) -> Self {
        let found = Header::read(unit);
        let generations = expected.generations();
        let cause = match field {
            Field::Magic if unit.iter().all(|byte| *byte == 0) => Cause::Zeroes,
            Field::Magic => Cause::Foreign,
            Field::UnitBytes => Cause::OtherBlockSize,
            Field::Checksum => Cause::Corrupt,
            Field::Run => Cause::OtherRun,
            Field::Offset => Cause::Misdirected,
            Field::Generation if generations.iter().all(|generation| *generation < found.generation) => {
                Cause::UnknownWrite
            }
            Field::Generation if others_are_right => Cause::TornWrite,
            Field::Generation => Cause::LostWrite,
        };
        Self {
            offset,
            field,
            cause,
            expected_generations: generations.to_vec(),
            expected_run: run,
            found,
            unit_bytes: unit.len(),
            checksum: checksum(unit),
        }
    }

    fn expected_generation(&self) -> String {
        self.expected_generations.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ")
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, offset, unit_bytes, .. } = self;
        let generation = self.expected_generation();
        write!(f, "target offset {offset}: ")?;
        match self.field {
            Field::Magic => write!(f, "magic differs: expected {MAGIC:#018x}, found {:#018x}", found.magic),
            Field::UnitBytes => write!(f, "unit length differs: expected {unit_bytes}, found {}", found.unit_bytes),
            Field::Checksum => {
                write!(f, "checksum differs: expected {:#010x}, found {:#010x}", found.checksum, self.checksum)
            }
            Field::Run => write!(f, "run differs: expected {}, found {}", self.expected_run, found.run),
            Field::Offset => write!(f, "offset differs: expected {offset}, found {}", found.offset),
            Field::Generation => write!(f, "generation differs: expected {generation}, found {}", found.generation),
        }?;
        write!(
            f,
            "; these {unit_bytes} bytes should hold offset {offset} generation {generation} and hold \
             offset {} generation {} checksum {:#010x} over data of {:#010x}; likely {}",
            found.offset, found.generation, found.checksum, self.checksum, self.cause
        )
    }
}
