//! One file for each application. A load is what one of its threads does over and over.

mod database;
mod decompress;
mod direct;
mod load;
mod memory_map;
mod merge;
mod mixed;
mod multi_get;

pub(crate) use load::Load;

use iolane::Result;

use self::database::Database;
use crate::application::Application;
use crate::job::Job;

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
    pub(crate) fn background_threads(application: Application) -> usize {
        usize::from(application == Application::Mixed)
    }

    /// What the thread of that number does.
    pub(crate) fn load<'a>(&'a self, job: &'a Job<'a>, thread: usize) -> Result<Box<dyn Load + 'a>> {
        let seed = job.seed ^ (thread as u64) << 48;
        Ok(match (job.application, self) {
            (Application::Decompress, _) => Box::new(decompress::Decompress::open(job, seed)?),
            (Application::MemoryMap, _) => Box::new(memory_map::MemoryMap::open(job, seed)?),
            (Application::Merge, _) => Box::new(merge::Merge::open(job)?),
            (Application::Mixed, _) if thread == job.threads => Box::new(merge::Background::open(job)?),
            (Application::Mixed, _) => Box::new(mixed::Mixed::open(job, seed, thread)?),
            (_, Self::Database(database)) => database.load(job.application, seed),
            (_, Self::Nothing) => Box::new(multi_get::MultiGet::open(job, seed)?),
        })
    }
}
