//! What one thread of an application does, over and over.

use iolane::Result;

use crate::tally::Tally;

/// What one thread of an application does. It stays in the thread that opened it.
pub(crate) trait Load {
    /// Does a part that takes some milliseconds at most, and counts what ended. `share` is how much of the measured phase is over, from
    /// 0 to 1; 0 before it.
    ///
    /// # Errors
    /// If a request failed, or the data is not what was written.
    fn turn(&mut self, share: f64, tally: &mut Tally) -> Result<()>;

    /// System calls so far, where they are counted.
    fn syscalls(&self) -> Option<u64>;
}
