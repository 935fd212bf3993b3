//! `OffsetPattern`: how random offsets spread, parsed from `--offsets`. `offsets` draws by it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use iolane::{Error, Result};

/// The distribution of random accesses over the region.
///
/// | written | means |
/// |---|---|
/// | `uniform` (or fio's `random`) | every block equally often |
/// | `zipf:1.2` | the block of rank r in proportion to r^-1.2 |
/// | `pareto:0.2` | a share h = 0.2 of the blocks takes 1 - h of the accesses, and so on within it (fio's `pareto`) |
/// | `hot:90/10` | 90 % of the accesses go to 10 % of the blocks, the others to the rest, each evenly |
///
/// The seed decides which blocks are hot; they are scattered over the region. Printing and parsing are inverse.
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

    /// The percentages of accesses and of blocks, if it is [`hot`](Self::hot).
    pub fn hot_shares(self) -> Option<(u8, u8)> {
        match self.0 {
            Distribution::Hot { access_percent, space_percent } => Some((access_percent, space_percent)),
            _ => None,
        }
    }
}

fn refused(text: &str, cause: &str) -> Error {
    Error::usage(format!("offset pattern `{text}`"), cause)
        .remedy("write it like uniform, zipf:1.2, pareto:0.2 or hot:90/10")
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
        }
    }
}
