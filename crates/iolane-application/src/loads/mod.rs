//! One file for each application. A load is what one of its threads does over and over.

mod channel;
mod database;
mod decompress;
mod memory_map;
mod merge;
mod mixed;
mod multi_get;

pub(crate) use channel::Channel;
pub(crate) use database::fill_database;

use iolane::Result;

use self::database::Database;
use crate::application::Application;
use crate::run::Job;
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

/// What all threads of an application share, opened before they start.
pub(crate) enum Shared {
    /// Nothing: each thread has a queue.
    Nothing,
    Database(Database),
}

impl Shared {
    pub(crate) fn open(job: &Job<'_>) -> Result<Self> {
        match job.application.has_database() {
            true => Ok(Self::Database(Database::open(job)?)),
            false => Ok(Self::Nothing),
        }
    }

    /// Threads beside those of the job.
    pub(crate) fn background_threads(&self, application: Application) -> usize {
        usize::from(application == Application::Mixed)
    }

    /// What the thread of that number does.
    pub(crate) fn load<'a>(&'a self, job: &'a Job<'a>, thread: usize) -> Result<Box<dyn Load + 'a>> {
        let seed = job.seed.wrapping_add(thread as u64);
        Ok(match (job.application, self) {
            (Application::Decompress, _) => Box::new(decompress::Decompress::open(job, seed)?),
            (Application::MemoryMap, _) => Box::new(memory_map::MemoryMap::open(job, seed)?),
            (Application::Merge, _) => Box::new(merge::Merge::open(job)?),
            (Application::Mixed, _) if thread == job.threads => Box::new(merge::Background::open(job)?),
            (Application::Mixed, _) => Box::new(mixed::Mixed::open(job, seed)?),
            (_, Self::Database(database)) => database.load(job.application, seed),
            (_, Self::Nothing) => Box::new(multi_get::MultiGet::open(job, seed)?),
        })
    }
}
