//! Translates the sections of a job file into jobs: fio's options become a path, a workload, threads and targets.
//! Unsupported options are refused by line; other differences from fio become notes of the job. Opens no target.

mod exits;
mod offsets;
mod path;
mod target;
mod workload;

use std::time::Duration;

use iolane::{Error, Result};
use iolane_measure::run::THREADS_MAX;
use iolane_measure::workload::Workload;

use super::job::{Amount, Job, Place, Size};
use super::job_file::{JobFile, Section};
use super::options::{Options, SECOND_US, Unsupported};

/// The jobs of a file, in the order of the file.
///
/// # Errors
/// `Usage` naming the line of an option that is unknown, invalid or not supported, with the reason and the remedy; several
/// together: all options that are unknown or not supported, and the first invalid value of each job.
pub fn jobs(file: &JobFile) -> Result<Vec<Job>> {
    jobs_with(file, Unsupported::Refused)
}

/// The jobs of a file, in the order of the file, with or without the options that are not supported.
///
/// # Errors
/// As [`jobs`], except for options that are ignored. Invalid values and contradictions are always refused.
pub fn jobs_with(file: &JobFile, unsupported: Unsupported) -> Result<Vec<Job>> {
    let of_jobs = file.sections.iter().enumerate().filter(|(_, section)| !Section::is_global(section));
    let mut jobs = Vec::new();
    let mut refused: Vec<Error> = Vec::new();
    let (mut threads, mut group) = (0, 0);
    for (index, _) in of_jobs {
        let mut options = match Options::of_job(file, index, unsupported) {
            Ok(options) => options,
            Err(error) => {
                refused.push(error);
                continue;
            }
        };
        let is_known = options.refused.is_empty();
        refused.append(&mut options.refused);
        // Jobs that were refused are not in the list of those to wait for.
        let waits = |job: Job| match refused.is_empty() {
            true => waits_for(&options, &jobs, file).map(|waits| Job { stonewall: job.stonewall || waits, ..job }),
            false => Ok(job),
        };
        let begins_group = exits::begins_group(&options);
        let job = match job(&options).and_then(waits).and_then(|job| Ok((job, begins_group?))) {
            Ok((job, begins_group)) => {
                group += usize::from(begins_group && !jobs.is_empty());
                Job { group, ..job }
            }
            Err(error) => {
                refused.extend(Some(error).filter(|error| is_known || !options.is_about_job(error)));
                continue;
            }
        };
        threads += job.threads;
        if threads > THREADS_MAX {
            let cause = format!("the jobs have more than {THREADS_MAX} threads in total");
            return Err(options.refused_job(cause, "use a smaller numjobs"));
        }
        jobs.push(job);
    }
    if let Some(error) = together(file, refused) {
        return Err(error);
    }
    exits::apply(file, &mut jobs);
    Ok(jobs)
}

/// Whether fio's wait_for makes a job wait for the one that it names, which is the only one that runs.
fn waits_for(options: &Options<'_>, before: &[Job], file: &JobFile) -> Result<bool> {
    let Some(name) = options.text("wait_for")? else { return Ok(false) };
    let refuse = |cause: &str, remedy: &str| Err(options.refuse("wait_for", cause, remedy));
    if !before.iter().any(|job| job.name == name) {
        return refuse(&format!("no job of that name comes before it in {}", file.name), "name a job before it");
    }
    let running = before.iter().rposition(|job| job.stonewall).unwrap_or(0);
    match before[running..].iter().filter(|job| job.name == name).count() {
        0 => Ok(false),
        count if count == before.len() - running => Ok(true),
        _ => {
            refuse("fio would start it while other jobs still run", "use stonewall, which waits for all jobs before it")
        }
    }
}

/// All errors as one, each once: options of `[global]` are refused for every job.
fn together(file: &JobFile, errors: Vec<Error>) -> Option<Error> {
    let mut lines: Vec<String> = Vec::new();
    for error in &errors {
        let line = error.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.len() {
        0 | 1 => errors.into_iter().next(),
        count => {
            let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
            Some(Error::usage(format!("job file {}", file.name), format!("it has {count} errors:{lines}")))
        }
    }
}

fn job(options: &Options<'_>) -> Result<Job> {
    let mut notes = Vec::new();
    let path = path::translate(options, &mut notes)?;
    let threads = options.count("numjobs", 1, THREADS_MAX as u32)? as usize;
    let workload = workload::translate(options, &path, threads, &mut notes)?;
    let size = target::size(options)?;
    target::check_fill(options, workload.access, size, &mut notes)?;
    let place = target::place(options, &path, size, workload.start)?;
    let (amount, runtime) = target::end(options, size, &workload, &mut notes)?;
    let direct = match options.last_of("direct", "buffered") {
        "direct" => options.flag("direct")?,
        _ => options.flag("buffered")?.map(|buffered| !buffered),
    };
    target::check_end_sync(options, workload.access, direct == Some(true), &mut notes)?;
    target::note_files(options, &mut notes)?;
    let job = Job {
        name: options.job_name()?,
        path,
        workload,
        threads,
        place,
        size,
        amount,
        runtime,
        warmup: Duration::from_micros(options.time_us("ramp_time", SECOND_US)?.unwrap_or(0)),
        direct: direct.unwrap_or(false),
        placement: target::placement(options, threads, &mut notes)?,
        read_back: options.flag("do_verify")? != Some(false),
        stonewall: options.flag("stonewall")?.unwrap_or(false),
        delay: Duration::from_micros(options.time_us("startdelay", SECOND_US)?.unwrap_or(0)),
        group: 0,
        ends: Some(exits::what(options)?),
        notes,
    };
    check(options, &job)?;
    Ok(Job {
        notes: [
            options.notes_on_ignored(),
            &job.notes,
            &notes_on_places(options, &job)?,
            &options.notes_on_no_effect(),
        ]
        .concat(),
        ..job
    })
}

/// Checks that need no open target.
fn check(options: &Options<'_>, job: &Job) -> Result<()> {
    if let Place::Named(names) = &job.place {
        match names.len() {
            count if count > 1 && matches!(job.size, Some(Size::Percent(_))) => {
                let cause = "a percentage needs a single target";
                return Err(options.refuse("size", cause, "use one job per target, or a size in bytes"));
            }
            0 => return Err(options.refuse("filename", "it names no target", "leave it out for a scratch file")),
            count if count > job.threads => {
                let cause = format!("{count} targets need at least as many threads");
                let remedy = format!("use numjobs={count}, or a job per target");
                return Err(options.refuse("filename", &cause, &remedy));
            }
            _ => {}
        }
    }
    let interface = iolane::interface_of(&job.path).and_then(|interface| interface.validate(&job.path));
    let bytes_max = if let Amount::Bytes(bytes) = job.amount { Some(bytes) } else { None };
    let workload = Workload { size: job.size.and_then(Size::bytes), bytes_max, ..job.workload.clone() };
    interface.and_then(|()| workload.validate()).map_err(|error| options.in_job(error))
}

/// Differences from fio that depend on the targets.
fn notes_on_places(options: &Options<'_>, job: &Job) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let is_null = job.path.interface() == "null";
    if is_null && options.has("filename") {
        notes.push("ioengine=null uses a simulated device; `filename` is not opened".into());
    }
    if job.threads > 1 && options.flag("group_reporting")? != Some(true) {
        notes.push("results are the total of all threads, as with group_reporting".into());
    }
    let Place::Named(names) = &job.place else { return Ok(notes) };
    if names.len() > 1 {
        notes.push("each thread uses one target, assigned in turn; in fio every thread uses all of them".into());
    }
    if job.threads > names.len() && !job.workload.access.is_random() {
        notes.push("threads start at different offsets of their target; in fio all start at offset 0".into());
    }
    if !job.direct && !is_null {
        notes.push("the page cache of the targets is not dropped first; fio drops it".into());
    }
    Ok(notes)
}

#[cfg(test)]
mod tests;
