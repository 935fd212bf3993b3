//! fio's exitall and exit_what: which jobs end when one ends.

use iolane::Result;

use crate::fio::job::{Amount, Ends, Job};
use crate::fio::job_file::JobFile;
use crate::fio::options::Options;

/// What exit_what makes a job end if the file has exitall.
pub(super) fn what(options: &Options<'_>) -> Result<Ends> {
    let ends = |text: &str| match text {
        "group" => Ok(Ends::Group),
        "stonewall" => Ok(Ends::Running),
        "all" => Ok(Ends::All),
        _ => Err("expected group, stonewall or all".into()),
    };
    Ok(options.parsed("exit_what", ends)?.unwrap_or(Ends::Group))
}

/// Whether a job begins another of fio's groups.
pub(super) fn begins_group(options: &Options<'_>) -> Result<bool> {
    Ok(options.flag("stonewall")? == Some(true) || options.flag("new_group")? == Some(true))
}

/// Applies exitall, which counts for the whole file wherever it is, as in fio; `=0` sets it too.
pub(super) fn apply(file: &JobFile, jobs: &mut [Job]) {
    let mut entries = file.sections.iter().flat_map(|section| &section.entries);
    let Some(exitall) = entries.find(|entry| entry.key == "exitall") else {
        for job in jobs.iter_mut() {
            if job.ends.take() != Some(Ends::Group) {
                job.notes.push("exit_what has no effect without exitall, as in fio".into());
            }
        }
        return;
    };
    let is_zero = exitall.value.as_deref() == Some("0");
    let spares_delayed = jobs.iter().any(|job| job.ends == Some(Ends::Running));
    for job in jobs {
        if is_zero {
            job.notes.push("exitall=0 ends other jobs like exitall, as in fio".into());
        }
        if job.threads > 1 && job.amount != Amount::Unlimited {
            job.notes.push("it ends other jobs when all of its threads have ended; in fio the first one does".into());
        }
        if spares_delayed && !job.delay.is_zero() {
            job.notes
                .push("exit_what=stonewall of another job ends it during its startdelay too; fio starts it".into());
        }
    }
}
