//! The records of the database redb, and the file that is filled with them.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use iolane::{Error, Result};
use redb::TableDefinition;
use redb::backends::FileBackend;

pub(crate) const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
/// About 80 MB of file.
pub(crate) const RECORDS: u64 = 400_000;
const VALUE_BYTES: usize = 128;
pub(crate) const RECORD_BYTES: usize = size_of::<u64>() + VALUE_BYTES;
pub(crate) fn failed(error: impl Into<redb::Error>) -> Error {
    Error::failed("redb", error.into().to_string())
}

pub(crate) fn value(key: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&key.wrapping_mul(key).to_le_bytes());
    value
}

/// Fills an empty file with a database of 400,000 records.
///
/// # Errors
/// If the database fails, or `stop` is set.
pub(super) fn fill(file: &File, stop: &AtomicBool) -> Result<()> {
    let copy = file.try_clone().map_err(|error| Error::system("the database's file", error))?;
    let backend = FileBackend::new(copy).map_err(failed)?;
    let database = redb::Builder::new().create_with_backend(backend).map_err(failed)?;
    for first in (0..RECORDS).step_by(RECORDS as usize / 10) {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::failed("filling a database", "it was interrupted"));
        }
        insert(&database, first..first + RECORDS / 10)?;
    }
    Ok(())
}

/// One transaction, durable when it returns.
pub(crate) fn insert(database: &redb::Database, keys: impl Iterator<Item = u64>) -> Result<()> {
    let transaction = database.begin_write().map_err(failed)?;
    {
        let mut table = transaction.open_table(TABLE).map_err(failed)?;
        for key in keys {
            table.insert(key, value(key).as_slice()).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}
