//! A database on iolane: a `StorageBackend` of redb that reads and writes its file by any path. Threads share the backend, and each
//! has a queue of its own. `cargo xtask redb` runs redb's own tests on it.
//! Run: cargo run --release --example redb_backend -- FILE [PATH]      FILE is created.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use iolane::{Blocking, IoPath, Target};
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition};

/// A database's file, and how to reach it.
#[derive(Debug)]
pub(crate) struct IolaneBackend {
    file: File,
    target: Target,
    path: IoPath,
    /// Held by a write, which may read a block that it covers in part. Threads know the backend by it.
    one_write: Arc<Mutex<()>>,
}

thread_local! {
    /// The queues of this thread, one for each backend that it uses.
    static QUEUES: RefCell<Vec<(Weak<Mutex<()>>, Blocking)>> = const { RefCell::new(Vec::new()) };
}

impl IolaneBackend {
    pub(crate) fn new(file: File, path: IoPath) -> io::Result<Self> {
        let target = Target::from_file(file.try_clone()?, "the database")?;
        Ok(Self { file, target, path, one_write: Arc::default() })
    }

    /// Makes a call on the queue of this thread.
    fn call(&self, call: impl FnOnce(&mut Blocking) -> io::Result<()>) -> io::Result<()> {
        QUEUES.with_borrow_mut(|queues| {
            let is_ours = |(backend, _): &(Weak<Mutex<()>>, Blocking)| {
                std::ptr::eq(backend.as_ptr(), Arc::as_ptr(&self.one_write))
            };
            let at = match queues.iter().position(is_ours) {
                Some(at) => at,
                None => {
                    queues.retain(|(backend, _)| backend.strong_count() > 0);
                    queues.push((Arc::downgrade(&self.one_write), Blocking::open(&self.path, &self.target)?));
                    queues.len() - 1
                }
            };
            let outcome = call(&mut queues[at].1);
            if outcome.is_err() {
                // It may be the queue that has failed.
                queues.swap_remove(at);
            }
            outcome
        })
    }
}

impl StorageBackend for IolaneBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(|queue| queue.read_exact_at(out, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Every write has completed by now, and a sync covers the file, whichever queue wrote (fdatasync(2)).
    fn sync_data(&self) -> io::Result<()> {
        self.call(Blocking::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _alone = self.one_write.lock().unwrap_or_else(PoisonError::into_inner);
        self.call(|queue| queue.write_all_at(data, offset))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const NUMBERS: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: redb_backend FILE [PATH]")?;
    let path: IoPath = arguments.next().as_deref().unwrap_or("io_uring").parse()?;
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    let database = Database::builder().create_with_backend(IolaneBackend::new(file, path.clone())?)?;
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
