//! `OffsetPattern`: how offsets spread over the region, parsed from `--offsets`. `offsets` draws by it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use iolane::units::Bytes;
use iolane::{Error, Result};

/// How offsets spread over the region.
///
/// | written | means |
/// |---|---|
/// | `uniform` (or fio's `random`) | random access: every block equally often; sequential access: one block after another |
/// | `zipf:1.2` | random: the block of rank r in proportion to r^-1.2 |
/// | `pareto:0.2` | random: a share h = 0.2 of the blocks takes 1 - h of the accesses, and so on within it (fio's `pareto`) |
/// | `hot:90/10` | random: 90 % of the accesses go to 10 % of the blocks, the others to the rest, each evenly |
/// | `zoned:50/5:30/15:20/80` | random: 50 % of the accesses go to the first 5 % of the region, 30 % to the next 15 %, 20 % to the rest (fio's `zoned`) |
/// | `sequence:2:0:1` | random: the blocks 2, 0 and 1 of the region in this order, over and over (fio's `sequence:2,0,1`) |
/// | `sequence:2:0:1/3` | random: the same, 3 blocks further on after each round (fio's `random_sequence_stride=1`) |
/// | `skip:64k` | sequential: skip 64 KiB after each block (fio's `rw=read:64k`) |
/// | `skip:-8k` | sequential: go back 8 KiB after each block; with blocks of 4 KiB, from the end to the start |
/// | `skip:2g/256m` | sequential: skip 2 GiB after every 256 MiB (fio's `zonemode=strided`) |
///
/// The seed decides which blocks are hot with `zipf`, `pareto` and `hot`; they are scattered over the region. Printing and
/// parsing are inverse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffsetPattern(pub(super) Distribution);

/// Its numbers are never NaN.
impl Eq for OffsetPattern {}

impl Hash for OffsetPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    Zipf { theta: f64 },
    Pareto { h: f64 },
    Hot { access_percent: u8, space_percent: u8 },
    Zoned(Zones),
    Sequence(Sequence),
    Skip(Skip),
}

/// Adjoining parts of the region, in percent of the accesses and of the space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zones {
    count: u8,
    zones: [(u8, u8); OffsetPattern::ZONES_MAX],
}

impl Zones {
    /// Percentages of the accesses and of the space of each zone, in their order.
    pub(super) fn shares(&self) -> &[(u8, u8)] {
        &self.zones[..self.count.into()]
    }
}

/// Blocks in an order of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sequence {
    count: u8,
    blocks: [u32; OffsetPattern::SEQUENCE_MAX],
    /// Blocks that each round is further on than the one before.
    pub(super) advance: u32,
}

impl Sequence {
    /// Numbers of the blocks, in their order.
    pub(super) fn blocks(&self) -> &[u32] {
        &self.blocks[..self.count.into()]
    }
}

/// Bytes that sequential access leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Skip {
    /// Bytes skipped; backwards if negative.
    pub(super) bytes: i64,
    /// After how many bytes; after each block if 0.
    pub(super) every: u64,
}

impl Skip {
    fn check(&self, align_bytes: u32, block_bytes_max: u32) -> Result<()> {
        let align = u64::from(align_bytes);
        let odd = [self.bytes.unsigned_abs(), self.every].into_iter().find(|bytes| !bytes.is_multiple_of(align));
        match odd {
            Some(odd) => Err(Error::usage(
                format!("offset pattern `{self}`"),
                format!("{odd} is not a multiple of {}, by which offsets are aligned", Bytes(align)),
            )
            .remedy("skip a multiple of the smallest block, or of --align")),
            None if self.bytes < 0 && self.bytes.unsigned_abs() <= u64::from(block_bytes_max) => Err(Error::usage(
                format!("offset pattern `{self}`"),
                format!("a block of {} moves forward by as much or more", Bytes(block_bytes_max.into())),
            )
            .remedy(format!("skip:-{} reads backwards without a gap", Bytes(2 * u64::from(block_bytes_max))))),
            None => Ok(()),
        }
    }
}

impl OffsetPattern {
    /// Every block equally often.
    pub const UNIFORM: Self = Self(Distribution::Uniform);

    /// The largest zipf exponent accepted; with it, one block gets all but 2^-100 of the accesses.
    pub const THETA_MAX: f64 = 100.0;

    /// Zipf's law with exponent `theta`, above 0 and at most [`THETA_MAX`](Self::THETA_MAX).
    ///
    /// # Errors
    /// `Usage` if it is outside.
    pub fn zipf(theta: f64) -> Result<Self> {
        if theta > 0.0 && theta <= Self::THETA_MAX {
            return Ok(Self(Distribution::Zipf { theta }));
        }
        Err(refused(&format!("zipf:{theta}"), "theta is above 0 and at most 100"))
    }

    /// Pareto's rule: a share `h` of the blocks takes `1 - h` of the accesses; 0.5 is uniform.
    ///
    /// # Errors
    /// `Usage` if it is not between 0 and 1.
    pub fn pareto(h: f64) -> Result<Self> {
        if h > 0.0 && h < 1.0 {
            return Ok(Self(Distribution::Pareto { h }));
        }
        Err(refused(&format!("pareto:{h}"), "h is above 0 and below 1"))
    }

    /// `access_percent` of the accesses go to `space_percent` of the blocks.
    ///
    /// # Errors
    /// `Usage` if one of them is not between 1 and 99.
    pub fn hot(access_percent: u8, space_percent: u8) -> Result<Self> {
        if (1..=99).contains(&access_percent) && (1..=99).contains(&space_percent) {
            return Ok(Self(Distribution::Hot { access_percent, space_percent }));
        }
        Err(refused(&format!("hot:{access_percent}/{space_percent}"), "both are percentages between 1 and 99"))
    }

    /// The most zones of [`zoned`](Self::zoned).
    pub const ZONES_MAX: usize = 8;

    /// Zones from the start of the region to its end, each with its percentage of the accesses and of the space.
    ///
    /// # Errors
    /// `Usage` if there are more than [`ZONES_MAX`](Self::ZONES_MAX), one of them has no space, or the percentages of the
    /// accesses or of the space do not add up to 100.
    pub fn zoned(shares: &[(u8, u8)]) -> Result<Self> {
        let text = || zones_text(shares);
        if shares.len() > Self::ZONES_MAX {
            return Err(refused(&text(), &format!("there are at most {} zones", Self::ZONES_MAX)));
        }
        let sum = |part: fn(&(u8, u8)) -> u8| shares.iter().map(|share| u32::from(part(share))).sum::<u32>();
        match (sum(|(access, _)| *access), sum(|(_, space)| *space)) {
            _ if shares.iter().any(|(_, space)| *space == 0) => {
                Err(refused(&text(), "each zone has 1 % of the space or more"))
            }
            (100, 100) => {
                let mut zones = [(0, 0); Self::ZONES_MAX];
                zones[..shares.len()].copy_from_slice(shares);
                Ok(Self(Distribution::Zoned(Zones { count: shares.len() as u8, zones })))
            }
            (access, 100) => Err(refused(&text(), &format!("the accesses add up to {access} %, not to 100"))),
            (_, space) => Err(refused(&text(), &format!("the space adds up to {space} %, not to 100"))),
        }
    }

    /// The longest [`sequence`](Self::sequence).
    pub const SEQUENCE_MAX: usize = 16;

    /// These blocks of the region, by number, in this order, over and over; each round is `advance` blocks further on than the
    /// one before.
    ///
    /// # Errors
    /// `Usage` if there is no block, or more than [`SEQUENCE_MAX`](Self::SEQUENCE_MAX).
    pub fn sequence(numbers: &[u32], advance: u32) -> Result<Self> {
        if !(1..=Self::SEQUENCE_MAX).contains(&numbers.len()) {
            let cause = format!("it has between 1 and {} blocks", Self::SEQUENCE_MAX);
            return Err(refused(&sequence_text(numbers, advance), &cause));
        }
        let mut blocks = [0; Self::SEQUENCE_MAX];
        blocks[..numbers.len()].copy_from_slice(numbers);
        Ok(Self(Distribution::Sequence(Sequence { count: numbers.len() as u8, blocks, advance })))
    }

    /// Sequential access that skips `bytes`, backwards if negative, after each block, or after `every` bytes.
    ///
    /// # Errors
    /// `Usage` if nothing is skipped, or after a number of bytes backwards.
    pub fn skip(bytes: i64, every: Option<u64>) -> Result<Self> {
        let skip = Skip { bytes, every: every.unwrap_or(0) };
        match (bytes, every) {
            (0, _) => Err(refused(&skip.to_string(), "nothing is skipped")),
            (_, Some(0)) => Err(refused(&format!("skip:{bytes}/0"), "the bytes between two skips are 1 or more")),
            (i64::MIN..=-1, Some(_)) => Err(refused(&skip.to_string(), "only single blocks can be read backwards")),
            _ => Ok(Self(Distribution::Skip(skip))),
        }
    }

    /// Checks that blocks stay aligned to `align_bytes` whatever is skipped, and that going backwards by blocks of up to
    /// `block_bytes_max` gets anywhere.
    ///
    /// # Errors
    /// `Usage` if not.
    pub(super) fn check(self, align_bytes: u32, block_bytes_max: u32) -> Result<()> {
        match self.0 {
            Distribution::Skip(skip) => skip.check(align_bytes, block_bytes_max),
            _ => Ok(()),
        }
    }

    /// Whether random access, or sequential access, can have it.
    pub fn suits(self, is_random: bool) -> bool {
        match self.0 {
            Distribution::Uniform => true,
            Distribution::Skip(_) => !is_random,
            _ => is_random,
        }
    }

    /// The numbers of the blocks, and how far each round is further on, if it is a [`sequence`](Self::sequence).
    pub fn ordered(&self) -> Option<(&[u32], u32)> {
        match &self.0 {
            Distribution::Sequence(sequence) => Some((sequence.blocks(), sequence.advance)),
            _ => None,
        }
    }

    /// Whether hot blocks are scattered over the region in two classes ([`hot`](Self::hot)).
    pub fn is_hot(self) -> bool {
        matches!(self.0, Distribution::Hot { .. })
    }

    /// The bytes skipped, backwards if negative, and after how many (`None` if after each block), if it is
    /// [`skip`](Self::skip).
    pub fn skipped(self) -> Option<(i64, Option<u64>)> {
        match self.0 {
            Distribution::Skip(Skip { bytes, every }) => Some((bytes, Some(every).filter(|every| *every > 0))),
            _ => None,
        }
    }
}

fn refused(text: &str, cause: &str) -> Error {
    Error::usage(format!("offset pattern `{text}`"), cause)
        .remedy("write it like uniform, zipf:1.2, pareto:0.2, hot:90/10, zoned:50/5:50/95 or skip:64k")
}

fn zones_text(shares: &[(u8, u8)]) -> String {
    let zones: Vec<String> = shares.iter().map(|(access, space)| format!("{access}/{space}")).collect();
    format!("zoned:{}", zones.join(":"))
}

fn sequence_text(blocks: &[u32], advance: u32) -> String {
    let blocks: Vec<String> = blocks.iter().map(u32::to_string).collect();
    let advance = if advance > 0 { format!("/{advance}") } else { String::new() };
    format!("sequence:{}{advance}", blocks.join(":"))
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.bytes < 0 { "-" } else { "" };
        write!(f, "skip:{sign}{}", Bytes(self.bytes.unsigned_abs()))?;
        match self.every {
            0 => Ok(()),
            every => write!(f, "/{}", Bytes(every)),
        }
    }
}

impl FromStr for OffsetPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number =
            |value: &str| value.parse::<f64>().map_err(|_| refused(text, &format!("`{value}` is not a number")));
        match text.split_once(':') {
            None if matches!(text, "uniform" | "random") => Ok(Self::UNIFORM),
            Some(("zipf", theta)) => Self::zipf(number(theta)?),
            Some(("pareto", h)) => Self::pareto(number(h)?),
            Some(("hot", shares)) => match shares.split_once('/').map(|(a, b)| (a.parse(), b.parse())) {
                Some((Ok(access_percent), Ok(space_percent))) => Self::hot(access_percent, space_percent),
                _ => Err(refused(text, "not two percentages")),
            },
            Some(("zoned", zones)) => {
                let share = |zone: &str| {
                    let (access, space) = zone.split_once('/')?;
                    Some((access.parse().ok()?, space.parse().ok()?))
                };
                let shares: Option<Vec<(u8, u8)>> = zones.split(':').map(share).collect();
                Self::zoned(&shares.ok_or_else(|| refused(text, "a zone is two percentages, ACCESS/SPACE"))?)
            }
            Some(("sequence", sequence)) => {
                let (blocks, advance) = sequence.split_once('/').unwrap_or((sequence, "0"));
                let number = |text: &str| text.parse::<u32>().ok();
                let blocks: Option<Vec<u32>> = blocks.split(':').map(number).collect();
                let numbers = blocks.zip(number(advance)).ok_or_else(|| refused(text, "not numbers of blocks"))?;
                Self::sequence(&numbers.0, numbers.1)
            }
            Some(("skip", skip)) => {
                let bytes = |bytes: &str| bytes.parse::<Bytes>().map_err(|error| refused(text, error.cause()));
                let (skipped, every) = skip.split_once('/').map_or((skip, None), |(skip, every)| (skip, Some(every)));
                let (magnitude, sign) = skipped.strip_prefix('-').map_or((skipped, 1), |back| (back, -1));
                let skipped =
                    i64::try_from(bytes(magnitude)?.0).map_err(|_| refused(text, "it is 2^63 bytes or more"))?;
                Self::skip(sign * skipped, every.map(bytes).transpose()?.map(|every| every.0))
            }
            _ => Err(refused(text, "no pattern of that name")),
        }
    }
}

impl fmt::Display for OffsetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
            Distribution::Pareto { h } => write!(f, "pareto:{h}"),
            Distribution::Hot { access_percent, space_percent } => write!(f, "hot:{access_percent}/{space_percent}"),
            Distribution::Zoned(zones) => f.write_str(&zones_text(zones.shares())),
            Distribution::Sequence(sequence) => f.write_str(&sequence_text(sequence.blocks(), sequence.advance)),
            Distribution::Skip(skip) => skip.fmt(f),
        }
    }
}
