//! What a failed check found: the first field that differs, the likely cause, and both as one line for a person.
//! `units` makes it.

use std::fmt;

use super::header::{Expected, Field, Header, MAGIC, Origin, checksum};

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
    /// No earlier run with this seed wrote a block here.
    NeverWritten,
    /// An earlier run with another seed wrote it.
    OtherSeed,
    /// It belongs to another write of an earlier run than the start of the block.
    SeveralWrites,
}

impl Cause {
    /// What happened to what this run wrote.
    pub(super) fn in_this_run(field: Field, unit: &[u8], expected: Expected<'_>, others_are_right: bool) -> Self {
        let found = Header::read(unit);
        match field {
            Field::Magic if unit.iter().all(|byte| *byte == 0) => Self::Zeroes,
            Field::Magic => Self::Foreign,
            Field::UnitBytes => Self::OtherBlockSize,
            Field::Checksum => Self::Corrupt,
            Field::Seed | Field::Run => Self::OtherRun,
            Field::Offset => Self::Misdirected,
            Field::Generation if expected.generations().iter().all(|generation| *generation < found.generation) => {
                Self::UnknownWrite
            }
            Field::Generation if others_are_right => Self::TornWrite,
            Field::Generation => Self::LostWrite,
        }
    }

    /// What happened to what an earlier run should have written.
    pub(super) fn of_earlier_run(field: Field) -> Self {
        match field {
            Field::Magic => Self::NeverWritten,
            Field::UnitBytes => Self::OtherBlockSize,
            Field::Checksum => Self::Corrupt,
            Field::Seed => Self::OtherSeed,
            Field::Offset => Self::Misdirected,
            Field::Run | Field::Generation => Self::SeveralWrites,
        }
    }
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
            Self::NeverWritten => "iolane never wrote here, or with another --seed or --bs",
            Self::OtherSeed => "iolane wrote here with another --seed",
            Self::SeveralWrites => "a torn write, or content written with a smaller --bs: parts are of another write",
        })
    }
}

/// What a unit should hold besides its offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) seed: u64,
    /// The generations of a run and the run; `None` for any write.
    pub(super) write: Option<(Expected<'a>, u64)>,
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
    expected_seed: u64,
    /// The generations and the run; `None` for any write.
    expected_write: Option<(Vec<u64>, u64)>,
    found: Header,
    unit_bytes: usize,
    /// Checksum of the bytes as read.
    checksum: u32,
}

impl std::error::Error for Mismatch {}

impl Mismatch {
    #[cold]
    pub(super) fn new(offset: u64, unit: &[u8], field: Field, wanted: Wanted<'_>, cause: Cause) -> Self {
        Self {
            offset,
            field,
            cause,
            expected_seed: wanted.seed,
            expected_write: wanted.write.map(|(expected, run)| (expected.generations().to_vec(), run)),
            found: Header::read(unit),
            unit_bytes: unit.len(),
            checksum: checksum(unit),
        }
    }

    fn expected_generation(&self) -> String {
        let generations = self.expected_write.iter().flat_map(|(generations, _)| generations);
        generations.map(u64::to_string).collect::<Vec<_>>().join(" or ")
    }

    /// What the unit should hold besides its offset.
    fn expected(&self) -> String {
        match &self.expected_write {
            Some(_) => format!("generation {}", self.expected_generation()),
            None => format!("of seed {}", self.expected_seed),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, offset, unit_bytes, .. } = self;
        let Origin { seed, run } = found.origin;
        write!(f, "target offset {offset}: ")?;
        if let (Field::Magic, Cause::NeverWritten | Cause::Foreign) = (self.field, self.cause) {
            // What stands there is no header: its fields say nothing.
            return write!(
                f,
                "likely {}; magic differs: expected {MAGIC:#018x}, found {:#018x}",
                self.cause, found.magic
            );
        }
        match self.field {
            Field::Magic => write!(f, "magic differs: expected {MAGIC:#018x}, found {:#018x}", found.magic),
            Field::UnitBytes => write!(f, "unit length differs: expected {unit_bytes}, found {}", found.unit_bytes),
            Field::Checksum => {
                write!(f, "checksum differs: expected {:#010x}, found {:#010x}", found.checksum, self.checksum)
            }
            Field::Seed => write!(f, "seed differs: expected {}, found {seed}", self.expected_seed),
            Field::Run => {
                let expected = self.expected_write.as_ref().map_or(0, |(_, run)| *run);
                write!(f, "run differs: expected {expected}, found {run}")
            }
            Field::Offset => write!(f, "offset differs: expected {offset}, found {}", found.offset),
            Field::Generation => {
                write!(f, "generation differs: expected {}, found {}", self.expected_generation(), found.generation)
            }
        }?;
        write!(
            f,
            "; these {unit_bytes} bytes should hold offset {offset} {} and hold \
             offset {} generation {} checksum {:#010x} over data of {:#010x}; likely {}",
            self.expected(),
            found.offset,
            found.generation,
            found.checksum,
            self.checksum,
            self.cause
        )
    }
}
