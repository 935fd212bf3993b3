//! `iolane study`: a published study, one's own, or every path on the targets; compared, decided, with the answer in a
//! sentence.

mod dry_run;
mod live;
mod text;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use iolane::units::Bytes;
use iolane::{Error, ErrorKind};
use iolane_study::fio;
use iolane_study::plan::{self, Lengths, Scale, Study, Survey};
use iolane_study::records::{journal, parquet};
use iolane_study::report::{Asked, PAGE_FILE, RECORDS_FILE, REPORT_FILE, RecordsFile, StudyReport};
use iolane_study::session::{Conditions, InstalledPeer, Measured, Session};
use iolane_study::workload::Workload;

use crate::arguments::StudyArguments;
use crate::energy;
use crate::interrupt::STOP;
use crate::output::{self, MadeFolders};
use crate::report;
use crate::study::live::Live;
use crate::targets::{self, OpenTargets, Writing};
use crate::{Outcome, arguments::TargetArguments};

/// A study's file is read whole; a larger one is none.
const STUDY_BYTES_MAX: u64 = 1 << 20;

/// What a dry run tries paths on where a scratch file would be made.
const DRY_SCRATCH: Bytes = Bytes(16 << 20);

pub(crate) fn study(arguments: &StudyArguments) -> anyhow::Result<Outcome> {
    if let Some(name) = &arguments.print {
        return print(name);
    }
    let named = arguments.study.as_deref().map(find).transpose()?;
    check(arguments, named.as_ref())?;
    let folder = folder(arguments, named.as_ref());
    let measures = !arguments.dry_run && arguments.fio.is_none();
    let results = measures.then_some(folder.as_path());
    let _made = prepare_output(arguments, results)?;
    let (session, _open) = session(arguments, named, measures)?;
    if let Some(folder) = &arguments.fio {
        return write_fio_jobs(arguments, &session, folder);
    }
    if arguments.dry_run {
        return dry_run::say(&session, arguments.json.as_deref());
    }
    let asked = Asked { study: session.study().clone(), conditions: session.conditions().clone() };
    if arguments.fresh {
        journal::discard(&folder)?;
    }
    let measured = measure(session, &folder)?;
    let report = keep(&asked, measured, &folder)?;
    show(arguments, &asked, &report, &folder)?;
    let interrupted = STOP.load(Ordering::Relaxed);
    let gave_up = report.skipped.iter().any(|skipped| skipped.failed);
    let failed = interrupted || gave_up;
    if failed && output::json_on_stdout(arguments.json.as_deref()) {
        report.warnings.iter().for_each(|warning| output::complain(&format!("iolane: {warning}")));
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// Where a study that measures leaves its results.
///
/// # Errors
/// If there is no such study.
pub(crate) fn results_folder(arguments: &StudyArguments) -> anyhow::Result<PathBuf> {
    let named = arguments.study.as_deref().map(find).transpose()?;
    Ok(folder(arguments, named.as_ref()))
}

fn folder(arguments: &StudyArguments, named: Option<&Study>) -> PathBuf {
    let name = named.map_or("survey", |study| study.name.as_str());
    arguments.out.clone().unwrap_or_else(|| Path::new("results").join(name))
}

fn print(name: &str) -> anyhow::Result<Outcome> {
    let Some(built_in) = plan::built_in(name) else { return Err(unknown(Path::new(name)).into()) };
    output::print(built_in.text)?;
    Ok(Outcome::Done)
}

/// The built-in study of that name, or the one in that file.
fn find(name: &Path) -> anyhow::Result<Study> {
    if let Some(built_in) = name.to_str().and_then(plan::built_in) {
        return Ok(Study::parse(built_in.text, built_in.name)?);
    }
    let shown = output::shown(name);
    let metadata = std::fs::metadata(name).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unknown(name),
        _ => Error::system(format!("study {shown}"), error),
    })?;
    if !metadata.is_file() || metadata.len() > STUDY_BYTES_MAX {
        return Err(Error::usage(format!("study {shown}"), "not a file of 1 MiB or less").into());
    }
    let bytes = std::fs::read(name).map_err(|error| Error::system(format!("study {shown}"), error))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("study {shown}"), "not UTF-8 text"))?;
    Ok(Study::parse(&text, &shown)?)
}

fn unknown(name: &Path) -> Error {
    let known: Vec<&str> = plan::BUILT_IN.iter().map(|study| study.name).collect();
    Error::usage(
        format!("study {}", output::shown(name)),
        "no study of that name is built in, and no such file is here",
    )
    .remedy(format!("use {}, or the file of one of your own", known.join(", ")))
}

/// What is wrong in itself is said before a scratch file is made for it.
fn check(arguments: &StudyArguments, named: Option<&Study>) -> anyhow::Result<()> {
    arguments.placement.placement().check()?;
    if let Some(study) = named {
        let asked = arguments.workload.workload(1, None);
        let is_asked = !arguments.path.is_empty()
            || !arguments.depth.is_empty()
            || asked != (Workload { seed: asked.seed, ..Workload::default() });
        if is_asked {
            let cause = "its paths, depths and workload are its own";
            return Err(Error::usage(format!("study {}", study.name), cause)
                .remedy("change them in a file: `iolane study --print systor22 > my.toml`")
                .into());
        }
        return Ok(());
    }
    for depth in depths(arguments) {
        arguments.workload.workload(depth, arguments.targets.size).validate()?;
    }
    Ok(arguments.path.iter().try_for_each(|path| iolane::interface_of(path)?.validate(path))?)
}

fn depths(arguments: &StudyArguments) -> Vec<u32> {
    if arguments.depth.is_empty() { vec![1, 32] } else { arguments.depth.clone() }
}

/// Finds out whether the results can be written, before anything is measured for them.
fn prepare_output(arguments: &StudyArguments, results: Option<&Path>) -> anyhow::Result<Option<MadeFolders>> {
    let targets = targets::named(&arguments.targets.target);
    if let Some(file) = &arguments.json {
        output::check_writable(file, &targets)?;
    }
    let Some(folder) = results else { return Ok(None) };
    let made = MadeFolders::make(folder)?;
    for file in [REPORT_FILE, RECORDS_FILE, journal::FILE, PAGE_FILE] {
        output::check_writable(&folder.join(file), &targets)?;
    }
    if !arguments.fresh {
        journal::check(folder)?;
    }
    Ok(Some(made))
}

/// Opens what the study is to be run on, and finds out which of its arms can be.
fn session(arguments: &StudyArguments, named: Option<Study>, measures: bool) -> anyhow::Result<(Session, OpenTargets)> {
    let only_path = match &arguments.path[..] {
        [only] => Some(only),
        _ => None,
    };
    let mut workload = arguments.workload.workload(1, None);
    let writing = match &named {
        Some(study) if study.writes() => Writing::WhereAllowed,
        Some(_) => Writing::No,
        None => Writing::of(&workload),
    };
    if let Some(stray) =
        arguments.targets.allow_writes.iter().find(|name| !targets::named(&arguments.targets.target).contains(name))
    {
        let what = format!("--allow-writes {}", output::shown(Path::new(stray)));
        return Err(Error::usage(what, "it is no target of this study").remedy("name it by --target as well").into());
    }
    let mut target_arguments: TargetArguments = arguments.targets.clone();
    if !measures && target_arguments.size.is_none() && targets::would_be_scratch(&target_arguments, only_path) {
        target_arguments.size = Some(DRY_SCRATCH);
    }
    let metering = energy::metering(&arguments.meter, arguments.meter_steps)?;
    let open = targets::open(&target_arguments, writing, workload.seed, only_path)?;
    let scale = if arguments.full { Scale::Full } else { Scale::Scaled };
    let study = match named {
        Some(mut study) => {
            study.workload.seed = workload.seed;
            study
        }
        None => {
            workload.size = open.size.map(|Bytes(size)| size);
            Survey { paths: arguments.path.clone(), depths: depths(arguments), workload }.study(&open.targets)
        }
    };
    let conditions = Conditions {
        targets: open.targets.clone(),
        size: open.size.map(|Bytes(size)| size),
        prefilled: open.prefilled,
        placement: arguments.placement.asked(),
        scale,
        lengths: lengths(arguments, study.lengths.at(scale)),
        peers: peers(&arguments.peer)?,
        metering,
    };
    Ok((Session::new(study, conditions)?, open))
}

/// The peers that are asked for and installed; one that is missing is said, and the study goes on without it.
fn peers(names: &[String]) -> anyhow::Result<Vec<InstalledPeer>> {
    let mut found = Vec::new();
    for name in names {
        match InstalledPeer::find(name) {
            Ok(peer) => found.push(peer),
            Err(error) if error.kind() == ErrorKind::Unavailable => output::complain(&format!("iolane: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// The study's lengths, but for those that were asked for.
fn lengths(arguments: &StudyArguments, own: &Lengths) -> Lengths {
    Lengths {
        runtime: arguments.runtime.or(own.runtime.filter(|_| arguments.time.is_none())),
        warmup: arguments.warmup.unwrap_or(own.warmup),
        repeats: arguments.repeat.map_or(own.repeats, Into::into),
        time: arguments.time.unwrap_or(own.time),
        // Who names a time wants it used.
        runtime_max: arguments.time.map_or(own.runtime_max, |_| Duration::MAX),
    }
}

fn write_fio_jobs(arguments: &StudyArguments, session: &Session, folder: &Path) -> anyhow::Result<Outcome> {
    let _made = MadeFolders::make(folder)?;
    let file = folder.join(format!("{}.fio", session.study().name));
    output::check_writable(&file, &targets::named(&arguments.targets.target))?;
    output::write_file(&file, fio::job_text(&session.fio_jobs()).as_bytes())?;
    output::print(&format!("{}\n", file.display()))?;
    Ok(Outcome::Done)
}

fn measure(session: Session, folder: &Path) -> anyhow::Result<Measured> {
    let mut live = Live::of(&session);
    Ok(session.run(folder, &STOP, |progress| live.at(&progress))?)
}

/// Writes what was measured, and takes the journal away if that is all there will be.
fn keep(asked: &Asked, measured: Measured, folder: &Path) -> anyhow::Result<StudyReport> {
    if measured.rows.iter().all(|row| row.worthless.is_some()) {
        let interrupted = measured.interrupted;
        let first =
            measured.left_out.last().map(|left_out| format!(" ({}: {})", left_out.arm.label(), left_out.reason));
        measured.journal.remove()?;
        return Err(match interrupted {
            true => Error::failed("study", "it was interrupted before a run ended"),
            false => Error::failed("study", format!("nothing was measured{}", first.unwrap_or_default())),
        }
        .into());
    }
    let bytes = parquet::write(&measured.rows)?;
    let records = RecordsFile { file: RECORDS_FILE, rows: measured.rows.len(), crc32: parquet::checksum(&bytes) };
    let report = StudyReport::new(asked, &measured, records);
    // One without the other is not whole.
    let json = output::json(&report)?;
    output::write_files(&[(&folder.join(RECORDS_FILE), &bytes), (&folder.join(REPORT_FILE), json.as_bytes())])?;
    if !measured.interrupted {
        measured.journal.remove()?;
    }
    Ok(report)
}

fn show(arguments: &StudyArguments, asked: &Asked, report: &StudyReport, folder: &Path) -> anyhow::Result<()> {
    let page = report::page_of(folder);
    if !output::json_on_stdout(arguments.json.as_deref()) {
        let names: Vec<String> = asked.conditions.targets.iter().map(targets::describe).collect();
        output::print(&text::report(report, &names.join("\n")))?;
        if targets::named(&arguments.targets.target).is_empty()
            && arguments.study.is_none()
            && arguments.path.is_empty()
        {
            for name in targets::taken_controllers() {
                let hint =
                    format!("note: paths nvme and nvme+int, without a kernel driver: iolane study --target {name}");
                output::print(&format!("{}\n", output::wrap(&hint, 6)))?;
            }
        }
        let files = match page {
            Some(page) => format!("{}, {REPORT_FILE}", page.display()),
            None => folder.join(REPORT_FILE).display().to_string(),
        };
        output::print(&format!("Results: {files}, {RECORDS_FILE}\n"))?;
    }
    match &arguments.json {
        Some(json) => output::write_json(json, report),
        None => Ok(()),
    }
}
