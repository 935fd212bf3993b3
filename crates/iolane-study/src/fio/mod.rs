//! fio's job files: `job_file` parses the syntax, `translate` turns sections into jobs that iolane can run, `write` writes
//! arms of a study as a job file. Nothing here opens a target.

pub(crate) mod engine;
mod job;
mod job_file;
mod numbers;
mod options;
mod substitute;
mod translate;
pub(crate) mod wording;
mod write;

pub use job::{Amount, Ends, Job, Place, Size};
pub use job_file::{Entry, JobFile, Section};
pub use options::Unsupported;
pub use translate::{jobs, jobs_with};
pub use write::{JobSpec, job_text, left_out, sections};
