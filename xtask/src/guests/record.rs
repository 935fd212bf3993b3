//! What the conformance suite found in a guest, as it writes it for `IOLANE_CONFORMANCE_RECORD`. Data and nothing else.

use serde::Deserialize;

/// The suite's record: a row for each path on each device.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) rows: Vec<Row>,
}

/// A path on a device.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) path: String,
    pub(super) device: String,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: Vec<String>,
}

/// What one kernel's guest found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) release: String,
    pub(super) record: Record,
}
