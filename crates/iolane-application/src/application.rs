//! The applications, by name: what each does, what one operation of it is, and what it needs.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};
use iolane_measure::workload::{Access, BlockSizes};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::rival::Rival;

/// What is done with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Application {
    /// Looks up as many keys at once as the depth says, as the MultiGet of an LSM tree. An operation is a key; its latency that of its
    /// batch.
    MultiGet,
    /// Reads small compressed blocks and decompresses each to another place in memory. An operation is a block.
    Decompress,
    /// Reads large blocks to places all over a memory map that is too large to be registered. An operation is a block.
    MemoryMap,
    /// Merges two sorted runs into one, with syncs, as a compaction does. An operation is a chunk of the output.
    Merge,
    /// Looks up keys at a rate, under a load that shifts: single keys, then batches of 64, then single keys beside a merge. An
    /// operation is a key; its latency counts from its arrival.
    Mixed,
    /// Loads an empty database. An operation is a record.
    RedbLoad,
    /// Commits single records, each durable. An operation is a commit.
    RedbCommit,
    /// Reads single records. An operation is a record.
    RedbRead,
    /// Reads ranges of 100 records. An operation is a range.
    RedbScan,
}

/// What is the same in each run of an application.
struct Description {
    application: Application,
    name: &'static str,
    summary: &'static str,
    /// Operations per second.
    rate_unit: &'static str,
    block_bytes: u32,
    access: Access,
    rivals: &'static [Rival],
}

const ALL_RIVALS: &[Rival] = &[Rival::Std, Rival::Tokio, Rival::Compio];
/// redb calls its backend and waits.
const BLOCKING_RIVALS: &[Rival] = &[Rival::Std];

const fn described(application: Application, name: &'static str, summary: &'static str) -> Description {
    Description {
        application,
        name,
        summary,
        rate_unit: "keys/s",
        block_bytes: 16 << 10,
        access: Access::RandRead,
        rivals: ALL_RIVALS,
    }
}

const fn redb(application: Application, name: &'static str, summary: &'static str) -> Description {
    Description {
        rate_unit: "records/s",
        block_bytes: 4 << 10,
        rivals: BLOCKING_RIVALS,
        ..described(application, name, summary)
    }
}

const DESCRIPTIONS: [Description; 9] = [
    described(Application::MultiGet, "multi-get", "lookups of keys in a sorted file of 16 KiB blocks, many at once"),
    Description {
        rate_unit: "blocks/s",
        block_bytes: 4 << 10,
        ..described(
            Application::Decompress,
            "decompress",
            "random 4 KiB blocks, decompressed (lz4) to another place in memory",
        )
    },
    Description {
        rate_unit: "blocks/s",
        block_bytes: 128 << 10,
        ..described(
            Application::MemoryMap,
            "memory-map",
            "random 128 KiB reads to places all over a memory map that is too large to be registered",
        )
    },
    Description {
        rate_unit: "chunks/s",
        block_bytes: 256 << 10,
        access: Access::Rw,
        ..described(Application::Merge, "merge", "two sorted runs merged into one, with syncs, in chunks of 256 KiB")
    },
    Description {
        access: Access::RandRw,
        ..described(
            Application::Mixed,
            "mixed",
            "lookups at a rate: single keys, then batches of 64, then single keys beside a merge",
        )
    },
    Description {
        access: Access::RandWrite,
        ..redb(Application::RedbLoad, "redb-load", "a new redb database, filled with records")
    },
    Description {
        rate_unit: "commits/s",
        access: Access::RandWrite,
        ..redb(Application::RedbCommit, "redb-commit", "durable commits of single records in redb")
    },
    redb(Application::RedbRead, "redb-read", "single records of redb, read at random"),
    Description { rate_unit: "ranges/s", ..redb(Application::RedbScan, "redb-scan", "ranges of 100 records of redb") },
];

impl Application {
    /// All of them, in the order of texts.
    pub fn all() -> impl Iterator<Item = Self> {
        DESCRIPTIONS.iter().map(|described| described.application)
    }

    fn described(self) -> &'static Description {
        let found = DESCRIPTIONS.iter().find(|described| described.application == self);
        found.expect("the table names every application, as a test checks")
    }

    /// Its name in study files and results.
    pub fn name(self) -> &'static str {
        self.described().name
    }

    /// One line.
    pub fn summary(self) -> &'static str {
        self.described().summary
    }

    /// What it counts, per second: `keys/s`.
    pub fn rate_unit(self) -> &'static str {
        self.described().rate_unit
    }

    /// The size of its requests; redb's vary.
    pub fn block_sizes(self) -> BlockSizes {
        BlockSizes::fixed(self.described().block_bytes).expect("the sizes of the table are valid, as a test checks")
    }

    /// What it asks of a target while it is measured. All of them write before, to have something to read.
    pub fn access(self) -> Access {
        self.described().access
    }

    /// Whether its requests come at a rate.
    pub fn has_rate(self) -> bool {
        self == Self::Mixed
    }

    /// Whether it keeps a database in a file of its own, beside the target.
    pub fn has_database(self) -> bool {
        matches!(self, Self::RedbLoad | Self::RedbCommit | Self::RedbRead | Self::RedbScan)
    }

    /// The programs without iolane that it is compared with.
    pub fn rivals(self) -> &'static [Rival] {
        self.described().rivals
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Application {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl FromStr for Application {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        DESCRIPTIONS.iter().find(|described| described.name == text).map(|described| described.application).ok_or_else(
            || {
                let names: Vec<&str> = DESCRIPTIONS.iter().map(|described| described.name).collect();
                Error::usage(format!("application `{text}`"), "no application has that name")
                    .remedy(format!("use {}", names.join(", ")))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_is_described_and_found_by_its_name() {
        let every = [
            Application::MultiGet,
            Application::Decompress,
            Application::MemoryMap,
            Application::Merge,
            Application::Mixed,
            Application::RedbLoad,
            Application::RedbCommit,
            Application::RedbRead,
            Application::RedbScan,
        ];
        assert_eq!(Application::all().collect::<Vec<_>>(), every);
        for application in every {
            assert_eq!(application.name().parse::<Application>().unwrap(), application);
            assert_eq!(application.block_sizes().min(), application.block_sizes().max());
            assert!(!application.rivals().is_empty() && !application.summary().is_empty(), "{application}");
        }
        let error = "multiget".parse::<Application>().unwrap_err().to_string();
        assert!(error.contains("use multi-get, decompress"), "{error}");
    }
}
