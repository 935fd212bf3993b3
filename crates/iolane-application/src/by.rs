//! What an application reaches its data by.

use iolane::{IoPath, Result, Target, probe};

use crate::rival::Rival;

/// A path of iolane, or the way of a program without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    Path(IoPath),
    Rival(Rival),
}

impl By {
    /// The depth that it takes of the depth that is asked for.
    ///
    /// # Errors
    /// As of [`probe`].
    pub(crate) fn depth(&self, target: &Target, depth: u32) -> Result<u32> {
        match self {
            Self::Path(path) => Ok(depth.min(probe(path, target)?.depth_max)),
            // It makes one call after the other.
            Self::Rival(Rival::Std) => Ok(1),
            Self::Rival(Rival::Tokio | Rival::Compio) => Ok(depth),
        }
    }
}
