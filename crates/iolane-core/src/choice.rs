//! What a queue that chooses among paths says of its choices. `auto` is such a queue.

use std::time::Duration;

use crate::path::IoPath;

/// The choices of a queue since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choices {
    /// The path that takes new requests.
    pub now: IoPath,
    /// Each path that was used, with the number of requests that completed on it, the most used first.
    pub used: Vec<(IoPath, u64)>,
    /// Each path that could not be used, with the reason.
    pub unusable: Vec<(IoPath, String)>,
    /// The last changes, the oldest first.
    pub changes: Vec<Change>,
}

impl Choices {
    /// Of a queue that uses `now`, and has used nothing yet.
    pub fn new(now: IoPath) -> Self {
        Self { now, used: Vec::new(), unusable: Vec::new(), changes: Vec::new() }
    }
}

/// A change to another path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Since the queue was opened.
    pub after: Duration,
    /// To this path.
    pub path: IoPath,
    /// Why, in one line.
    pub reason: &'static str,
}

impl Change {
    /// A change to `path`, this long after the queue was opened.
    pub fn new(after: Duration, path: IoPath, reason: &'static str) -> Self {
        Self { after, path, reason }
    }
}
