//! Targets that are no files: a scheme opens them by name, such as `sim:64m` or `pci:0000:00:04.0`, and one interface reaches them.
//! Each scheme is registered beside its interface; `Target::open` looks it up here.

use std::any::Any;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::error::{Error, Result};
use crate::units::Bytes;

/// A kind of target of an interface's own, and how to open one.
///
/// ```
/// use iolane_core::scheme::{Device, SCHEMES, Scheme, size_and_settings};
///
/// #[linkme::distributed_slice(SCHEMES)]
/// static RAM: Scheme = Scheme { simulated: true, ..Scheme::new("ram", open) };
///
/// fn open(rest: &str, name: &str) -> iolane_core::Result<Device> {
///     let (bytes, _) = size_and_settings(rest, name, 1 << 20, 1 << 30)?;
///     Ok(Device { bytes, block_bytes: 512, state: Box::new(()) })
/// }
///
/// # fn main() -> iolane_core::Result<()> {
/// let target = iolane_core::Target::open("ram:4m")?;
/// assert_eq!((target.kind().name(), target.bytes()), ("ram", 4 << 20));
/// # Ok(())
/// # }
/// ```
pub struct Scheme {
    /// What begins the target's name, before a colon, such as `pci`.
    pub name: &'static str,
    /// The name of the kind in records, such as `nvme`.
    pub kind: &'static str,
    /// Whether its targets exist in memory only, so that opening one needs no permission and harms nothing. The scheme's name alone
    /// opens one, too.
    pub simulated: bool,
    /// Whether a read returns what was written.
    pub keeps_data: bool,
    /// Whether its time is virtual, so that clocks and meters of the machine say nothing about it.
    pub virtual_time: bool,
    /// Opens what follows the colon. The second argument is the name for messages.
    pub open: fn(rest: &str, name: &str) -> Result<Device>,
}

/// What a [`Scheme`] opened.
pub struct Device {
    /// Its size in bytes.
    pub bytes: u64,
    /// The unit of offsets and lengths in bytes.
    pub block_bytes: u32,
    /// What its interface keeps with it; [`Target::state_of`](crate::Target::state_of) finds it again.
    pub state: Box<dyn Any + Send + Sync>,
}

/// Every scheme that is linked into the program.
#[linkme::distributed_slice]
pub static SCHEMES: [Scheme];

impl Scheme {
    /// A scheme of hardware that keeps its data. Its kind has the same name.
    pub const fn new(name: &'static str, open: fn(rest: &str, name: &str) -> Result<Device>) -> Self {
        Self { name, kind: name, simulated: false, keeps_data: true, virtual_time: false, open }
    }

    /// The scheme whose targets are of a kind with this name.
    pub fn of_kind(kind: &str) -> Option<&'static Self> {
        SCHEMES.iter().find(|known| known.kind == kind)
    }

    /// The scheme that a target's name begins with, and what follows it.
    pub fn of(name: &OsStr) -> Option<(&'static Self, &str)> {
        let name = name.to_str()?;
        let (scheme, rest) = name.split_once(':').map_or((name, None), |(scheme, rest)| (scheme, Some(rest)));
        let scheme = SCHEMES.iter().find(|known| known.name == scheme)?;
        match rest {
            Some(rest) => Some((scheme, rest)),
            None => scheme.simulated.then_some((scheme, "")),
        }
    }
}

/// Schemes are the same if their names are.
impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Scheme {}

impl Hash for Scheme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheme({})", self.name)
    }
}

/// Splits `SIZE,SETTING,...`, where both may be missing, into a size in bytes and the text of the settings.
///
/// # Errors
/// `Usage` for a size that is none, under 4 KiB, or above `bytes_max`.
pub fn size_and_settings<'a>(rest: &'a str, name: &str, default_bytes: u64, bytes_max: u64) -> Result<(u64, &'a str)> {
    let (size, settings) = match rest.split_once(',') {
        _ if rest.split(',').next().is_some_and(|first| first.contains('=')) => ("", rest),
        Some((size, settings)) => (size, settings),
        None => (rest, ""),
    };
    let bytes = if size.is_empty() { default_bytes } else { size.parse::<Bytes>()?.0 };
    if !(4096..=bytes_max).contains(&bytes) {
        let cause = match bytes_max {
            u64::MAX => "its size is 4k or more".into(),
            most => format!("its size is 4k to {}", Bytes(most)),
        };
        return Err(Error::usage(format!("target {name}"), cause));
    }
    Ok((bytes, settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_and_settings_may_both_be_missing() {
        let split = |rest| size_and_settings(rest, "sim", 8192, 1 << 30).unwrap();
        assert_eq!(split(""), (8192, ""));
        assert_eq!(split("1m"), (1 << 20, ""));
        assert_eq!(split("1m,seed=7,short=0.5"), (1 << 20, "seed=7,short=0.5"));
        assert_eq!(split("seed=7,short=0.5"), (8192, "seed=7,short=0.5"));
        for (wrong, cause) in [("2g", "4k to 1"), ("100", "4k to 1"), ("x", "x"), ("99999999999999999999k", "2^64")] {
            let error = size_and_settings(wrong, "sim", 8192, 1 << 30).unwrap_err().to_string();
            assert!(error.contains(cause), "{error}");
        }
    }
}
