//! The arguments of `iolane study` as a job: the study is parsed, its targets are open, its arms are checked, its outputs can
//! be written. Nothing reads the arguments again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use iolane::units::Bytes;
use iolane::{Error, ErrorKind, IoPath, Target};
use iolane_measure::workload::Workload;
use iolane_report::PAGE_FILE;
use iolane_study::files::{self, MadeFolders};
use iolane_study::format;
use iolane_study::plan::{Lengths, Scale, Study};
use iolane_study::results::ResultsFolder;
use iolane_study::session::{Conditions, InstalledPeer, Session};

use super::find::{self, find};
use crate::arguments::StudyArguments;
use crate::meter;
use crate::output::{Destination, Outputs, warn};
use crate::targets::{self, Chosen, Opener, SCRATCH_BYTES};

/// What `iolane study` does.
pub(super) enum Job {
    /// Prints the file of a built-in study.
    Print(&'static str),
    /// Shows what a study would run.
    DryRun(Work),
    /// Writes the arms as a fio job file.
    WriteFioJobs(Work, PathBuf, MadeFolders),
    /// Runs a study.
    Measure(Measurement),
}

/// A study on open targets.
pub(super) struct Work {
    pub(super) session: Session,
    pub(super) outputs: Outputs,
    /// Keeps the write permits for as long as the targets are open.
    pub(super) _opener: Opener,
}

/// A study to be run.
pub(super) struct Measurement {
    pub(super) work: Work,
    pub(super) folder: ResultsFolder,
    /// Whether what an interrupted study left is discarded.
    pub(super) starts_over: bool,
    /// Whether its user named nothing, and may not know of the controllers bound for the user-space driver.
    pub(super) is_unspecific: bool,
}

/// What the arms of a study are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// They are only listed or exported; paths are probed.
    Plan,
    Measurement,
}

impl Job {
    pub(super) fn of_arguments(arguments: StudyArguments) -> anyhow::Result<Self> {
        if let Some(name) = &arguments.print {
            return Ok(Self::Print(find::built_in(name)?));
        }
        let named = arguments.study.as_deref().map(find).transpose()?;
        check_workload(&arguments, named.as_ref())?;
        let paths = arguments.survey.paths();
        let only_path = if let [only] = &paths[..] { Some(only) } else { None };
        let chosen = Chosen::of_arguments(&arguments.targets, only_path)?;
        let read = arguments.study.iter().map(OsString::from);
        let kept: Vec<OsString> = chosen.names().iter().cloned().chain(read).collect();
        let outputs = Outputs::checked(arguments.json.clone(), &kept)?;
        if let Some(folder) = &arguments.fio {
            let work = work(&arguments, named, &chosen, outputs, Purpose::Plan)?;
            let made = MadeFolders::make(folder)?;
            let file = folder.join(format!("{}.fio", work.session.study().name));
            files::check_writable(&file, chosen.names())?;
            return Ok(Self::WriteFioJobs(work, file, made));
        }
        if arguments.dry_run {
            return Ok(Self::DryRun(work(&arguments, named, &chosen, outputs, Purpose::Plan)?));
        }
        let path = find::folder(&arguments, named.as_ref());
        let folder = ResultsFolder::prepare(&path, &[PAGE_FILE], chosen.names(), arguments.fresh)?;
        if let Some(file) = arguments.json.as_ref().and_then(Destination::file) {
            files::check_writable(file, &folder.files(&[PAGE_FILE]))?;
        }
        Ok(Self::Measure(Measurement {
            work: work(&arguments, named, &chosen, outputs, Purpose::Measurement)?,
            folder,
            starts_over: arguments.fresh,
            is_unspecific: chosen == Chosen::Scratch && arguments.study.is_none() && paths.is_empty(),
        }))
    }
}

/// Checks paths and workload before a scratch file is written for them.
fn check_workload(arguments: &StudyArguments, named: Option<&Study>) -> anyhow::Result<()> {
    arguments.placement.placement().check()?;
    let Some(study) = named else {
        arguments.survey.paths().iter().try_for_each(|path| iolane::interface_of(path)?.validate(path))?;
        return check_loads(arguments);
    };
    if arguments.survey.is_given() {
        let cause = "a study defines its own paths, depths and workload";
        return Err(Error::usage(format!("study {}", study.name), cause)
            .remedy("change them in a file: `iolane study --print systor22 > my.toml`")
            .into());
    }
    Ok(())
}

/// Refuses a survey none of whose loads is valid. Of several, those that are not are left out with the reason.
fn check_loads(arguments: &StudyArguments) -> anyhow::Result<()> {
    let mut survey = arguments.survey.survey(arguments.targets.start.0, size(arguments), seed(arguments, None));
    survey.paths = vec![IoPath::new("null")];
    let bound = survey.rate_until;
    let arms = survey.study(&[]).arms(Scale::Scaled)?;
    let is_valid = |workload: &Workload| {
        workload.validate()?;
        bound.map_or(Ok(()), |bound| bound.check(workload))
    };
    let mut checked = arms.iter().map(|arm| is_valid(&arm.workload));
    match checked.clone().any(|checked| checked.is_ok()) {
        true => Ok(()),
        false => Ok(checked.next().unwrap_or(Ok(()))?),
    }
}

/// The seed of the command line, or else that of the study.
fn seed(arguments: &StudyArguments, named: Option<&Study>) -> u64 {
    let of_study = || named.map_or(Workload::default().seed, |study| study.workload.seed);
    arguments.seed.unwrap_or_else(of_study)
}

/// Bytes of each target to use; `None` for all.
fn size(arguments: &StudyArguments) -> Option<u64> {
    arguments.targets.size.map(|Bytes(size)| size)
}

/// Opens the targets, or a scratch file, and finds out which arms can run on them.
fn work(
    arguments: &StudyArguments,
    named: Option<Study>,
    chosen: &Chosen,
    outputs: Outputs,
    purpose: Purpose,
) -> anyhow::Result<Work> {
    let metering = meter::open(&arguments.meter, arguments.meter_steps)?;
    let peers = peers(&arguments.peer)?;
    let writes = named.as_ref().map_or(arguments.survey.writes(), Study::writes);
    let peers_write = peers.iter().any(InstalledPeer::opens_for_writing_to_read);
    let durable = named.as_ref().map_or(arguments.survey.durable(), |study| study.workload.durable);
    let options = Target::options().direct(arguments.targets.direct).durable(durable);
    let mut opener = Opener::new(&arguments.targets);
    let (start, size, seed) = (arguments.targets.start.0, size(arguments), seed(arguments, named.as_ref()));
    let (targets, size, prefilled) = match chosen {
        Chosen::Named(names) => {
            let mut targets = Vec::new();
            for name in names {
                // A study reads the targets that it may not write; a survey of writes needs all of them.
                let writes = (writes && named.is_none()) || (writes || peers_write) && opener.allows(name);
                targets.push(opener.open(name, &options, writes)?);
            }
            (targets, size, false)
        }
        Chosen::Scratch => {
            let (bytes, writes) = (size.unwrap_or(SCRATCH_BYTES), writes || peers_write);
            let scratch = match purpose {
                Purpose::Plan => targets::open_sparse_scratch(bytes, options, writes),
                Purpose::Measurement => targets::open_scratch(bytes, seed, options, writes),
            };
            (vec![scratch?], None, true)
        }
    };
    let scale = if arguments.full { Scale::Full } else { Scale::Scaled };
    let study = match named {
        Some(mut study) => {
            study.workload.seed = seed;
            study.workload.start = start;
            study.workload.size = size;
            study
        }
        None => arguments.survey.survey(start, size, seed).study(&targets),
    };
    let conditions = Conditions {
        prefilled,
        placement: arguments.placement.given(),
        scale,
        lengths: lengths(arguments, study.lengths.at(scale)),
        time_max: arguments.time,
        peers,
        metering,
        targets,
    };
    let session = Session::new(study, conditions)?;
    if let Some(time) = arguments.time {
        warn_of_short_time(&session, time);
    }
    Ok(Work { session, outputs, _opener: opener })
}

/// The peers that are asked for and installed. A missing one is reported, and the study runs without it.
fn peers(names: &[String]) -> anyhow::Result<Vec<InstalledPeer>> {
    let mut found = Vec::new();
    for name in names {
        match InstalledPeer::find(name) {
            Ok(peer) => found.push(peer),
            Err(error) if error.kind() == ErrorKind::Unavailable => warn(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// The study's lengths, except those that were given.
fn lengths(arguments: &StudyArguments, own: &Lengths) -> Lengths {
    Lengths {
        runtime: arguments.runtime.or(own.runtime.filter(|_| arguments.time.is_none())),
        warmup: arguments.warmup.unwrap_or(own.warmup),
        repeats: arguments.repeat.map_or(own.repeats, Into::into),
        time: arguments.time.unwrap_or(own.time),
        // A given time budget is used up.
        runtime_max: arguments.time.map_or(own.runtime_max, |_| Duration::MAX),
    }
}

/// Shorter preparation is not worth a line.
const PREPARATION_MIN: Duration = Duration::from_secs(1);

/// Runs have a shortest length, so that many arms may need more than the time that was given; and drives are prepared before
/// the runs.
fn warn_of_short_time(session: &Session, time: Duration) {
    let needed = session.time_of_runs();
    if needed > time.mul_f64(1.05) {
        warn(&format!(
            "--time {} is too short for {} runs of at least {}, which take about {}: it ends after the repeats that fit; \
             name fewer paths or loads, fewer repeats, or more time",
            format::duration(time),
            session.runs(),
            format::duration(session.runtime()),
            format::duration(needed)
        ));
    }
    let before = session.preparation_time();
    if before >= PREPARATION_MIN {
        warn(&format!("preparation takes about {} in addition to --time", format::duration(before)));
    }
}
