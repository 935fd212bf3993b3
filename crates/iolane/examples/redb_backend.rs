//! A database on iolane: a `StorageBackend` of redb that reads and writes its file by any path. Threads share it: each call has a queue
//! of its own. `cargo xtask redb` runs redb's own tests on it.
//! Run: cargo run --release --example redb_backend -- FILE [PATH]      FILE is created.

use std::fs::File;
use std::io;

use iolane::{Blocking, IoPath, Target};
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition};

/// A database's file, and how to reach it.
#[derive(Debug)]
pub(crate) struct IolaneBackend {
    file: File,
    reached: Blocking,
}

impl IolaneBackend {
    /// The file is the database's own, and locked by whoever opened it.
    pub(crate) fn new(file: File, path: &IoPath) -> io::Result<Self> {
        let target = Target::from_file(file.try_clone()?, "the database")?;
        Ok(Self { file, reached: Blocking::open(path, &target)? })
    }
}

impl StorageBackend for IolaneBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reached.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Every write has completed by now, and a sync covers the file, whichever call wrote.
    fn sync_data(&self) -> io::Result<()> {
        self.reached.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.reached.write_all_at(data, offset)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const NUMBERS: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: redb_backend FILE [PATH]")?;
    let path: IoPath = arguments.next().as_deref().unwrap_or("io_uring").parse()?;
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    file.try_lock()?;
    let database = Database::builder().create_with_backend(IolaneBackend::new(file, &path)?)?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(NUMBERS)?;
        (0..1000).try_for_each(|number| table.insert(number, number * number).map(|_| ()))?;
    }
    transaction.commit()?;
    let read = database.begin_read()?.open_table(NUMBERS)?.get(31)?.map(|value| value.value());
    println!("{name} by {path}: 1000 numbers committed, the square of 31 is {}", read.unwrap_or(0));
    Ok(())
}
