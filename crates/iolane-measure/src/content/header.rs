//! The header of a unit: the first 48 bytes, which say where the unit belongs, which write it is of and whether it is
//! whole. `units` stamps and reads it; nothing here performs I/O.

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"iolane 2");

/// Which generations a block may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// This one.
    Exactly(u64),
    /// One of these: where writes overlapped or power failed, each unit may hold any of them.
    AnyOf(&'a [u64]),
    /// Unknown; not checked.
    Unwritten,
}

impl Expected<'_> {
    pub(super) fn generations(&self) -> &[u64] {
        match self {
            Self::Exactly(generation) => std::slice::from_ref(generation),
            Self::AnyOf(generations) => generations,
            Self::Unwritten => &[],
        }
    }
}

/// Who wrote a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The seed of the workload.
    pub seed: u64,
    /// A number that no other run has; 0 for content that a target is prepared with.
    pub run: u64,
}

impl Origin {
    /// That of the content that a target is prepared with.
    pub fn prefill(seed: u64) -> Self {
        Self { seed, run: 0 }
    }
}

/// The start of a unit. The rest of the unit is filling, derived from the header.
///
/// On the target: the fields in this order, little-endian, without gaps. The checksum is the CRC-32 (IEEE 802.3) of the
/// unit after the checksum itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) checksum: u32,
    pub(super) unit_bytes: u32,
    pub(super) magic: u64,
    pub(super) offset: u64,
    pub(super) generation: u64,
    pub(super) origin: Origin,
}

impl Header {
    pub(super) const BYTES: usize = 48;
    const CHECKSUM_BYTES: usize = 4;

    pub(super) fn read(unit: &[u8]) -> Self {
        let (words, _) = unit[..Self::BYTES].as_chunks::<8>();
        let word = |place: usize| u64::from_le_bytes(words[place]);
        Self {
            checksum: word(0) as u32,
            unit_bytes: (word(0) >> 32) as u32,
            magic: word(1),
            offset: word(2),
            generation: word(3),
            origin: Origin { seed: word(4), run: word(5) },
        }
    }

    /// Writes a whole unit with this header, and computes the checksum.
    pub(super) fn stamp(&self, unit: &mut [u8]) {
        let (words, filling) = unit.split_at_mut(Self::BYTES);
        let Origin { seed, run } = self.origin;
        let values = [u64::from(self.unit_bytes) << 32, self.magic, self.offset, self.generation, seed, run];
        for (word, value) in words.as_chunks_mut::<8>().0.iter_mut().zip(values) {
            *word = value.to_le_bytes();
        }
        self.write_filling(filling);
        let checksum = checksum(unit);
        unit[..Self::CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Writes bytes that no drive can compress or deduplicate, at one multiplication per 8 bytes.
    fn write_filling(&self, filling: &mut [u8]) {
        let Origin { seed, run } = self.origin;
        let mut state = mix(self.offset ^ mix(self.generation ^ mix(run ^ mix(seed))));
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state).to_le_bytes()
        };
        let (words, rest) = filling.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = next());
        rest.copy_from_slice(&next()[..rest.len()]);
    }

    /// The first field by which `unit`, which has this header, differs from what any run with this seed writes at `offset`.
    pub(super) fn difference_from_seed(&self, unit: &[u8], offset: u64, seed: u64) -> Option<Field> {
        // Magic and length come before the checksum, because they narrow down the cause of a bad checksum. The other fields
        // come after it, because they mean nothing in a unit that is not whole.
        if self.magic != MAGIC {
            Some(Field::Magic)
        } else if self.unit_bytes as usize != unit.len() {
            Some(Field::UnitBytes)
        } else if self.checksum != checksum(unit) {
            Some(Field::Checksum)
        } else if self.origin.seed != seed {
            Some(Field::Seed)
        } else if self.offset != offset {
            Some(Field::Offset)
        } else {
            None
        }
    }

    /// The first field by which a whole unit with this header differs from the writes of one run.
    pub(super) fn difference_from_write(&self, expected: Expected<'_>, run: u64) -> Option<Field> {
        if self.origin.run != run {
            Some(Field::Run)
        } else if !expected.generations().contains(&self.generation) {
            Some(Field::Generation)
        } else {
            None
        }
    }
}

pub(super) fn checksum(unit: &[u8]) -> u32 {
    crc32fast::hash(&unit[Header::CHECKSUM_BYTES..])
}

#[inline]
pub(super) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// The part of a unit that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The mark of content written by `--verify`.
    Magic,
    /// The length of the unit.
    UnitBytes,
    /// The checksum over the unit.
    Checksum,
    /// The seed of the workload that wrote it.
    Seed,
    /// The run that wrote it.
    Run,
    /// Where on the target it belongs.
    Offset,
    /// Which write it belongs to.
    Generation,
}
