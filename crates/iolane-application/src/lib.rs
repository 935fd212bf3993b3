//! What databases do with a drive, as programs that measure themselves: lookups in sorted files, decompression, reads into a large
//! memory map, merges, and the database redb. Each runs on any of iolane's paths, and beside them as programs without iolane do it.
//! Studies run them as arms; nothing here knows of studies, prints or writes results.

mod application;
mod by;
mod channel;
mod data;
mod job;
mod loads;
mod rival;
mod run;
mod tally;

pub use application::Application;
pub use by::By;
pub use data::{Layout, Prepared};
pub use job::Job;
pub use rival::Rival;
pub use run::{Measured, check, run};
