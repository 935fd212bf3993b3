//! What `iolane run --json` writes: one record, or those of the jobs of a file.

use serde::Serialize;

use crate::run_record::RunRecord;

/// The document of a command's runs.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum RunsDocument<'a> {
    /// Schema `iolane.run/1`.
    One(&'a RunRecord),
    /// Schema `iolane.runs/1`.
    Several {
        /// The schema's name.
        schema: &'static str,
        /// In the order of the file.
        jobs: &'a [RunRecord],
    },
}

impl<'a> RunsDocument<'a> {
    /// The records of `jobs` jobs, of which some may not have run. `None` without a record.
    pub fn new(jobs: usize, records: &'a [RunRecord]) -> Option<Self> {
        match (jobs, records) {
            (_, []) => None,
            (1, [record]) => Some(Self::One(record)),
            (_, jobs) => Some(Self::Several { schema: "iolane.runs/1", jobs }),
        }
    }
}
