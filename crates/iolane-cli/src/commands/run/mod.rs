//! `iolane run`: one path with one workload, or the jobs of a fio job file; a text for each run, or its record as JSON.

mod job;
mod page;
mod progress;

use iolane::Error;
use iolane_study::rows::is_cut_short;
use iolane_study::run_record::RunRecord;
use iolane_study::runs::{Ran, RunsDocument};

use self::job::Job;
use self::progress::Progress;
use crate::arguments::RunArguments;
use crate::interrupt::{STOP, is_stopped};
use crate::outcome::Outcome;

pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<Outcome> {
    if arguments.searches_rate() {
        return super::study::study(arguments.into_study());
    }
    let job = Job::of_arguments(arguments)?;
    let mut progress = Progress::new(&job.outputs);
    let Ran { records, error } = job.schedule.run(&STOP, &mut |event| progress.show(&event));
    progress.end()?;
    // Records of jobs that ended are written even if a later job failed.
    if let Some(document) = RunsDocument::new(job.schedule.jobs.len(), &records) {
        job.outputs.document(&document)?;
    }
    let kept = job.keep_memory();
    match error {
        Some(error) => return Err(error.into()),
        None if records.is_empty() => {
            return Err(Error::failed("run", "interrupted before anything was measured").into());
        }
        None => kept?,
    }
    let has_failed =
        |record: &RunRecord| record.result.errors > 0 || is_cut_short(record.result.short, record.result.ios);
    let failed = is_stopped() || records.iter().any(has_failed);
    if failed {
        job.outputs.warnings(records.iter().flat_map(|record| &record.warnings));
    }
    Ok(Outcome::failed_if(failed))
}
