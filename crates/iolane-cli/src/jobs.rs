//! `iolane run JOBFILE`: the jobs of a file of fio's, one after the other or at the same time, as the file says; a page
//! for people for each, or their records for programs.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use iolane::units::Bytes;
use iolane::{Error, Target, guard};
use iolane_study::fio::{self, Job, JobFile, Place};
use iolane_study::record::{HostRecord, RunRecord};
use iolane_study::run::{RunOutcome, RunPlan};
use iolane_study::session::Metering;
use iolane_study::telemetry::Unavailable;
use serde::Serialize;

use crate::arguments::RunArguments;
use crate::interrupt::STOP;
use crate::output::{self, Bar};
use crate::run::{outcome, text};
use crate::targets::{self, Permits};
use crate::{Outcome, energy};

/// A job and the targets that were opened for it; none if it has scratch files, which are made when its turn comes.
struct Prepared {
    job: Job,
    targets: Vec<Target>,
}

/// The records of several jobs.
#[derive(Serialize)]
struct RunsRecord<'a> {
    schema: &'static str,
    jobs: &'a [RunRecord],
}

pub(crate) fn run(file: &Path, arguments: &RunArguments) -> anyhow::Result<Outcome> {
    let jobs = fio::jobs(&JobFile::read(file)?)?;
    for job in &jobs {
        job.placement.check().map_err(|error| of_job(job, error))?;
    }
    check_json(file, &jobs, arguments)?;
    let mut permits = Permits::default();
    let prepare = |job| prepare(job, arguments, &mut permits);
    let prepared = jobs.into_iter().map(prepare).collect::<anyhow::Result<Vec<Prepared>>>()?;
    let metering = energy::metering(&arguments.meter, false)?;
    let mut records = Vec::new();
    let ran = run_in_order(&prepared, arguments, &metering, &mut records);
    // What was measured is kept, also if a later job failed.
    if let Some(json) = &arguments.json {
        write_json(json, prepared.len(), &records)?;
    }
    ran?;
    if STOP.load(Ordering::Relaxed) && records.iter().all(|record| record.result.ios == 0) {
        return Err(Error::failed("run", "interrupted before anything was measured").into());
    }
    Ok(outcome(&records, arguments))
}

/// An error, with the job it is about.
fn of_job(job: &Job, error: Error) -> Error {
    Error::usage(format!("job [{}]: {}", job.name, error.what()), error.cause())
        .with_kind(error.kind())
        .remedy(error.remedy_text())
}

/// What --target names, or else the job; `None` for scratch files.
fn names(job: &Job, arguments: &RunArguments) -> Option<Vec<OsString>> {
    match &job.place {
        _ if !arguments.targets.target.is_empty() => Some(arguments.targets.target.clone()),
        Place::Named(names) => Some(names.iter().map(OsString::from).collect()),
        Place::Scratch { .. } => None,
    }
}

fn check_json(file: &Path, jobs: &[Job], arguments: &RunArguments) -> anyhow::Result<()> {
    let Some(json) = &arguments.json else { return Ok(()) };
    if guard::refuse_doubles(&[json.into(), file.into()]).is_err() {
        return Err(Error::usage(format!("writing {}", json.display()), "it is the job file, and would be lost")
            .remedy("choose another file for the results")
            .into());
    }
    let targets: Vec<OsString> = jobs.iter().filter_map(|job| names(job, arguments)).flatten().collect();
    output::check_writable(json, &targets)
}

/// Opens what a job works on, and checks that it can.
fn prepare(mut job: Job, arguments: &RunArguments, permits: &mut Permits) -> anyhow::Result<Prepared> {
    let Some(names) = names(&job, arguments) else { return Ok(Prepared { job, targets: Vec::new() }) };
    guard::refuse_doubles(&names)?;
    let mut targets = Vec::new();
    for name in &names {
        let opened = permits.open(name, &arguments.targets, job.workload.access.writes(), job.direct);
        targets.push(opened.map_err(|error| missing(name, arguments, error))?);
    }
    job.place = Place::Named(names.iter().map(|name| name.to_string_lossy().into_owned()).collect());
    job.plan(targets.clone()).check().map_err(|error| of_job(&job, error))?;
    Ok(Prepared { job, targets })
}

/// fio would make a file that is not there.
fn missing(name: &OsString, arguments: &RunArguments, error: anyhow::Error) -> anyhow::Error {
    let is_there = std::fs::symlink_metadata(name).is_ok();
    match error.downcast::<Error>() {
        Ok(error) if !is_there && arguments.targets.target.is_empty() => error
            .remedy(
                "check the name, or leave filename out: with size alone a scratch file is made, and gone afterwards",
            )
            .into(),
        Ok(error) => error.into(),
        Err(error) => error,
    }
}

/// Runs the jobs; those without a stonewall between them at the same time.
fn run_in_order(
    prepared: &[Prepared],
    arguments: &RunArguments,
    metering: &Metering,
    records: &mut Vec<RunRecord>,
) -> anyhow::Result<()> {
    for group in prepared.chunk_by(|_, next| !next.job.stonewall) {
        let plans = group.iter().map(|prepared| plan(prepared, arguments)).collect::<anyhow::Result<Vec<_>>>()?;
        let outcomes = measure(group, &plans, arguments.repeat)?;
        for ((prepared, plan), outcomes) in group.iter().zip(&plans).zip(outcomes) {
            let host = HostRecord::gather(plan.targets.first());
            let Some(mut record) = RunRecord::new(plan, &outcomes, host) else { continue };
            match group.len() {
                1 => energy::fill(&mut record, plan, &outcomes, metering),
                _ => {
                    record.set_no_energy(&Unavailable::new("it ran beside other jobs, whose joules are not told apart"))
                }
            }
            record.job = Some(prepared.job.name.clone());
            record.warnings.splice(0..0, prepared.job.notes.iter().cloned().chain(note_on_others(prepared, group)));
            if !output::json_on_stdout(arguments.json.as_deref()) {
                let gap = if records.is_empty() { "" } else { "\n" };
                output::print(&format!("{gap}[{}]\n{}", prepared.job.name, text(plan, &record)))?;
            }
            records.push(record);
        }
        if STOP.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

fn note_on_others(prepared: &Prepared, group: &[Prepared]) -> Option<String> {
    let others = group.iter().filter(|other| !std::ptr::eq(*other, prepared));
    let others: Vec<String> = others.map(|other| format!("[{}]", other.job.name)).collect();
    let others = Some(others.join(", ")).filter(|others| !others.is_empty())?;
    Some(format!("it ran beside {others}: processor time and context switches are of all of them"))
}

/// The plan of a job whose turn has come.
fn plan(prepared: &Prepared, arguments: &RunArguments) -> anyhow::Result<RunPlan> {
    let job = &prepared.job;
    let (targets, prefilled) = match &job.place {
        Place::Named(_) => (prepared.targets.clone(), false),
        Place::Scratch { folder, bytes } => {
            let scratch = || -> anyhow::Result<Target> {
                let scratch = targets::scratch(folder, Bytes(*bytes), job.workload.seed)?;
                Ok(scratch.open(job.workload.access.writes(), job.direct)?)
            };
            ((0..job.threads).map(|_| scratch()).collect::<anyhow::Result<_>>()?, true)
        }
    };
    let watched = !arguments.unwatched;
    let plan = RunPlan { pages: arguments.pages(), prefilled, watched, ..job.plan(targets) };
    plan.check().map_err(|error| of_job(job, error))?;
    Ok(plan)
}

/// Runs jobs at the same time, as often as asked for: by job, what each time measured.
fn measure(group: &[Prepared], plans: &[RunPlan], repeats: u16) -> anyhow::Result<Vec<Vec<RunOutcome>>> {
    let jobs: Vec<&str> = group.iter().map(|prepared| prepared.job.name.as_str()).collect();
    let lengths = group.iter().map(|prepared| Some(prepared.job.runtime? + prepared.job.warmup));
    let _bar = match lengths.collect::<Option<Vec<Duration>>>().and_then(|lengths| lengths.into_iter().max()) {
        Some(length) => Bar::time((length + Duration::from_millis(200)) * repeats.into(), &jobs.join(", ")),
        None => Bar::unknown(&jobs.join(", ")),
    };
    let mut outcomes = vec![Vec::new(); plans.len()];
    for _ in 0..repeats {
        for (of_job, outcome) in outcomes.iter_mut().zip(measure_once(group, plans)?) {
            of_job.push(outcome);
        }
        if STOP.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(outcomes)
}

fn measure_once(group: &[Prepared], plans: &[RunPlan]) -> iolane::Result<Vec<RunOutcome>> {
    let run = |prepared: &Prepared, plan: &RunPlan| {
        iolane_study::run::run(plan, &STOP).map_err(|error| {
            // Nobody will be told what the others measure.
            STOP.store(true, Ordering::Relaxed);
            of_job(&prepared.job, error)
        })
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            group.iter().zip(plans).map(|(prepared, plan)| scope.spawn(move || run(prepared, plan))).collect();
        let panicked = |_| Err(Error::failed("a job", "it panicked, which is a bug in iolane"));
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        joined.into_iter().collect()
    })
}

/// A plain record for a file of one job, as for a run without a file.
fn write_json(json: &Path, jobs: usize, records: &[RunRecord]) -> anyhow::Result<()> {
    match (jobs, records) {
        (_, []) => Ok(()),
        (1, [record]) => output::write_json(json, record),
        (_, records) => output::write_json(json, &RunsRecord { schema: "iolane.runs/1", jobs: records }),
    }
}
