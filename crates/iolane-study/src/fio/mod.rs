//! fio's job files: `job_file` reads their sections, `translate` makes jobs of them that can be run here, `write` puts
//! arms of a study down as a file that fio can run. Nothing here opens a target.

mod given;
mod job_file;
mod numbers;
mod translate;
mod write;

pub use job_file::{Entry, JobFile, Section};
pub use translate::{Amount, Job, Place, jobs};
pub use write::{JobSpec, job_text, sections};
