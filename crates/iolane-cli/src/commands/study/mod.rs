//! `iolane study`: a built-in study, a study file, or a comparison of every path; its results as text and in a folder.

mod dry_run;
mod find;
mod job;
mod live;
pub(super) mod page;
mod skipped;
mod view;

pub(crate) use find::results_folder;

use std::path::{Path, PathBuf};

use iolane::Error;
use iolane_measure::host::LabMachine;
use iolane_study::results::{Asked, RECORDS_FILE, REPORT_FILE, ResultsFolder, StudyReport, Written};
use iolane_study::session::Session;
use iolane_study::{files, fio};

use self::job::{Job, Measurement, Work};
use self::live::Live;
use super::report_page;
use crate::arguments::StudyArguments;
use crate::interrupt::{STOP, is_stopped};
use crate::outcome::Outcome;
use crate::output::{self, Bar, printable, wrap};
use crate::targets::{self, describe};

pub(crate) fn study(arguments: StudyArguments) -> anyhow::Result<Outcome> {
    match Job::of_arguments(arguments)? {
        Job::Print(text) => output::print(text)?,
        Job::DryRun(Work { session, outputs, .. }) => dry_run::show(&session, &outputs)?,
        Job::WriteFioJobs(Work { session, .. }, file, _made) => {
            write_fio_jobs(&file, &session.fio_jobs())?;
        }
        Job::Measure(measurement) => return measure(measurement),
    }
    Ok(Outcome::Done)
}

/// Writes the arms as a job file, and says on standard error which of them fio cannot run.
fn write_fio_jobs(file: &Path, jobs: &[fio::JobSpec]) -> anyhow::Result<()> {
    let left_out = fio::left_out(jobs);
    let arms: usize = left_out.iter().map(|(_, arms)| arms).sum();
    if arms == jobs.len()
        && let Some((reason, _)) = left_out.first()
    {
        return Err(Error::unavailable("--fio", format!("fio can run none of the {arms} arms: {reason}")).into());
    }
    files::write(file, fio::job_text(jobs).as_bytes())?;
    for (reason, arms) in left_out {
        output::warn(&format!("{}: {arms} of {} arms are only comments: {reason}", file.display(), jobs.len()));
    }
    output::print(&format!("{}\n", file.display()))
}

/// Runs a study without printing its results, and returns their folder.
///
/// # Errors
/// As [`study`]; `Failed` if it was interrupted or is not complete.
pub(crate) fn measure_for(arguments: StudyArguments, goes_on: &str) -> anyhow::Result<PathBuf> {
    let Job::Measure(measurement) = Job::of_arguments(arguments)? else { unreachable!("nothing else was asked for") };
    let Measurement { work, folder, starts_over, .. } = measurement;
    let Work { session, _opener, .. } = work;
    let (_, report, written) = run(session, &folder, starts_over)?;
    if is_stopped() || !report.complete || written == Written::KeptEarlier {
        let what = printable(folder.path());
        return Err(Error::failed(what, "the measurement was interrupted").remedy(goes_on).into());
    }
    report_page::renew(folder.path());
    Ok(folder.path().to_owned())
}

fn measure(measurement: Measurement) -> anyhow::Result<Outcome> {
    let Measurement { work, folder, starts_over, is_unspecific } = measurement;
    // The write permits last until the results are written.
    let Work { session, outputs, _opener } = work;
    let (asked, report, written) = run(session, &folder, starts_over)?;
    let page = match written {
        Written::Yes => report_page::renew(folder.path()),
        Written::KeptEarlier => None,
    };
    let targets: Vec<String> = asked.conditions.targets.iter().map(describe).collect();
    outputs.text(&page::text(&report, &targets.join("\n")))?;
    if is_unspecific {
        outputs.text(&controllers_note())?;
    }
    let shown = folder.path().join(REPORT_FILE);
    outputs.text(&match (written, &page) {
        (Written::Yes, Some(page)) => format!("Results: {}, {REPORT_FILE}, {RECORDS_FILE}\n", page.display()),
        (Written::Yes, None) => format!("Results: {}, {RECORDS_FILE}\n", shown.display()),
        (Written::KeptEarlier, _) => kept_earlier(&shown.display().to_string()),
    })?;
    outputs.document(&report)?;
    Ok(outcome(&report, &outputs, written == Written::Yes && page.is_none()))
}

/// Runs what is left of a study, or all of it if it starts over, and writes its results.
fn run(session: Session, folder: &ResultsFolder, starts_over: bool) -> anyhow::Result<(Asked, StudyReport, Written)> {
    if let Some(damage) = folder.damage() {
        output::warn(damage);
    }
    let asked = Asked { study: session.study().clone(), conditions: session.conditions().clone() };
    if starts_over {
        folder.discard_journal()?;
    }
    let measured = {
        let mut live = Live::of(&session);
        session.run(folder.path(), &STOP, |progress| live.at(&progress))?
    };
    let _bar = Bar::unknown("evaluating the results");
    let (report, written) = folder.write(&asked, measured)?;
    Ok((asked, report, written))
}

/// The exit code, with the warnings on standard error where they were not printed.
fn outcome(report: &StudyReport, outputs: &output::Outputs, lacks_page: bool) -> Outcome {
    let gave_up = report.skipped.iter().any(|skipped| skipped.failed);
    let failed = is_stopped() || gave_up || !report.complete;
    if failed {
        outputs.warnings(&report.warnings);
    }
    Outcome::failed_if(failed || lacks_page)
}

/// A line for each controller that a study without a target does not measure.
fn controllers_note() -> String {
    let note = |name| format!("note: paths nvme and nvme+int need no kernel driver: iolane study --target {name}");
    targets::free_controllers().map(|name| format!("{}\n", wrap(&note(name), 6))).collect()
}

/// Where an interrupted study leaves what it measured if complete results are there already.
fn kept_earlier(report: &str) -> String {
    let goes_on = match LabMachine::of_this_guest() {
        None => "The interrupted study continues when the same command is given again; --fresh starts over.",
        Some(_) => "The same command starts over: a study in a guest is not resumed.",
    };
    let text = format!("Results: {report} is that of an earlier, complete study and was not replaced. {goes_on}");
    format!("{}\n", wrap(&text, 0))
}
