//! redb, an embedded database, on a backend of the path: [`Blocking`] on iolane's, the calls of the standard library without it.

use std::fs::File;
use std::io;
use std::time::Instant;

use iolane::{Blocking, Error, IoPath, Result, Target};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use redb::backends::FileBackend;
use redb::{ReadableDatabase, StorageBackend};

use super::direct::Direct;
use super::load::Load;
use crate::application::Application;
use crate::by::By;
use crate::data::database::{RECORD_BYTES, RECORDS, TABLE, failed, insert, value};
use crate::job::Job;
use crate::tally::Tally;

/// Much less than the file has, so that most reads reach the drive.
const CACHE_BYTES: usize = 8 << 20;
/// Records of a transaction that loads.
const LOADED_AT_ONCE: u64 = 1000;
const SCANNED: usize = 100;

/// The file of a database, reached by a path.
#[derive(Debug)]
struct OnPath {
    file: File,
    reached: Blocking,
}

impl OnPath {
    fn open(file: File, path: &IoPath) -> Result<Self> {
        let copy = file.try_clone().map_err(|error| Error::system("the database's file", error))?;
        let target = Target::from_file(copy, "the database")?;
        Ok(Self { file, reached: Blocking::open(path, &target)? })
    }
}

impl StorageBackend for OnPath {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reached.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.reached.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.reached.write_all_at(data, offset)
    }
}

/// A database that the threads of a run share.
pub(crate) struct Database {
    database: redb::Database,
}

impl Database {
    pub(crate) fn open(job: &Job<'_>) -> Result<Self> {
        let is_filled = job.application != Application::RedbLoad;
        let is_direct = job.target.direct();
        let file = job.prepared.database(is_filled, is_direct)?;
        let mut builder = redb::Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let opened = match &job.by {
            By::Path(path) => builder.create_with_backend(OnPath::open(file, path)?),
            By::Rival(_) if is_direct => builder.create_with_backend(Direct::new(file, job.target.block_bytes())),
            By::Rival(_) => builder.create_with_backend(FileBackend::new(file).map_err(failed)?),
        };
        Ok(Self { database: opened.map_err(failed)? })
    }

    pub(super) fn load(&self, application: Application, seed: u64) -> Box<dyn Load + '_> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Box::new(DatabaseLoad { database: &self.database, application, random })
    }
}

struct DatabaseLoad<'a> {
    database: &'a redb::Database,
    application: Application,
    random: Xoshiro256PlusPlus,
}

impl DatabaseLoad<'_> {
    /// Does one operation, or one transaction of the load, and returns how many operations that were.
    fn once(&mut self) -> Result<(u64, usize)> {
        let key = self.random.next_u64() % RECORDS;
        match self.application {
            Application::RedbLoad => {
                let random = &mut self.random;
                insert(self.database, (0..LOADED_AT_ONCE).map(|_| random.next_u64()))?;
                Ok((LOADED_AT_ONCE, LOADED_AT_ONCE as usize * RECORD_BYTES))
            }
            Application::RedbCommit => {
                insert(self.database, [key].into_iter())?;
                Ok((1, RECORD_BYTES))
            }
            Application::RedbScan => {
                let key = key.min(RECORDS - SCANNED as u64);
                let table = self.database.begin_read().map_err(failed)?.open_table(TABLE).map_err(failed)?;
                let mut expected = key..;
                for record in table.range(key..).map_err(failed)?.take(SCANNED) {
                    let (found, read) = record.map_err(failed)?;
                    check(expected.next() == Some(found.value()) && read.value() == value(found.value()))?;
                }
                check(expected.start == key + SCANNED as u64)?;
                Ok((1, SCANNED * RECORD_BYTES))
            }
            _ => {
                let table = self.database.begin_read().map_err(failed)?.open_table(TABLE).map_err(failed)?;
                let read = table.get(key).map_err(failed)?;
                check(read.is_some_and(|read| read.value() == value(key)))?;
                Ok((1, RECORD_BYTES))
            }
        }
    }
}

fn check(is_right: bool) -> Result<()> {
    if is_right { Ok(()) } else { Err(Error::failed("redb", "a record is not what was written")) }
}

impl Load for DatabaseLoad<'_> {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        let begun = Instant::now();
        let (operations, bytes) = self.once()?;
        tally.note(operations, bytes, begun.elapsed());
        Ok(())
    }

    /// Made by the backend's queues, or by the standard library.
    fn syscalls(&self) -> Option<u64> {
        None
    }
}
