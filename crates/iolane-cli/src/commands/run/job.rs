//! The arguments of `iolane run` as a job: everything is checked, every named target is open, and nothing reads the
//! arguments again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iolane::{Error, IoPath, PathMemory, guard};
use iolane_measure::run::RunPlan;
use iolane_study::files;
use iolane_study::fio::{self, JobFile, Place, Unsupported};
use iolane_study::runs::{RunJob, Schedule, ScratchFiles, in_job};

use crate::arguments::RunArguments;
use crate::meter;
use crate::output::{Destination, Outputs, printable};
use crate::targets::{Chosen, Opener, SCRATCH_BYTES};

/// What `iolane run` does.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) schedule: Schedule,
    pub(super) outputs: Outputs,
    /// What queues of `auto` learn, and the file for it.
    memory: Option<(PathMemory, PathBuf)>,
    /// Keeps the write permits for as long as the targets are open.
    _opener: Opener,
}

impl Job {
    pub(super) fn of_arguments(arguments: RunArguments) -> anyhow::Result<Self> {
        match arguments.job_file.clone() {
            None => Self::of_options(arguments),
            Some(file) => Self::of_file(&file, arguments),
        }
    }

    fn of_options(arguments: RunArguments) -> anyhow::Result<Self> {
        let size = arguments.targets.size;
        let workload = arguments.workload.workload(arguments.depth, arguments.targets.start, size);
        let plan = RunPlan {
            threads: arguments.threads.unwrap_or(1),
            placement: arguments.placement.placement(),
            warmup: arguments.warmup(),
            pages: arguments.pages(),
            watched: !arguments.unwatched,
            ..RunPlan::new(arguments.path()?.clone(), Vec::new(), workload, arguments.runtime())
        };
        // Before a device is claimed or opened for writing.
        plan.workload.validate()?;
        let interface = iolane::interface_of(&plan.path)?;
        interface.validate(&plan.path)?;
        let memory =
            arguments.path_memory.as_ref().map(|file| memory(file, interface.chooses(), &plan.path)).transpose()?;
        let plan = RunPlan { memory: memory.as_ref().map(|(memory, _)| memory.clone()), ..plan };
        plan.placement.check()?;
        let chosen = Chosen::of_arguments(&arguments.targets, Some(&plan.path))?;
        let remembered = memory.iter().map(|(_, file)| OsString::from(file));
        let kept: Vec<OsString> = chosen.names().iter().cloned().chain(remembered).collect();
        let outputs = Outputs::checked(arguments.json.clone(), &kept)?;
        memory.as_ref().map_or(Ok(()), |(_, file)| files::check_writable(file, chosen.names()))?;
        let mut opener = Opener::new(&arguments.targets);
        let direct = arguments.targets.direct;
        let job = match &chosen {
            Chosen::Scratch => {
                let bytes = size.map_or(SCRATCH_BYTES, |bytes| bytes.0);
                let mut plan = plan;
                // The file has the size; all of it is used.
                plan.workload.size = None;
                RunJob::on_scratch(plan, ScratchFiles { folder: ".".into(), bytes, count: 1, direct })?
            }
            Chosen::Named(names) => {
                let options = plan.workload.target_options(direct);
                let writes = plan.workload.access.writes();
                let open = |name: &OsString| opener.open(name, &options, writes);
                let targets = names.iter().map(open).collect::<iolane::Result<Vec<_>>>()?;
                let threads = arguments.threads.unwrap_or(targets.len());
                RunJob::on_targets(RunPlan { targets, threads, ..plan })?
            }
        };
        let metering = meter::open(&arguments.meter, false)?;
        let schedule = Schedule { jobs: vec![job], repeats: arguments.repeats(), metering };
        Ok(Self { schedule, outputs, memory, _opener: opener })
    }

    /// Keeps what was learnt.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn keep_memory(&self) -> iolane::Result<()> {
        self.memory.as_ref().map_or(Ok(()), |(memory, file)| memory.save(file))
    }

    fn of_file(file: &Path, arguments: RunArguments) -> anyhow::Result<Self> {
        let unsupported = if arguments.lenient { Unsupported::Ignored } else { Unsupported::Refused };
        let jobs = fio::jobs_with(&JobFile::read_sections(file, &arguments.section)?, unsupported)?;
        for job in &jobs {
            job.placement.check().map_err(|error| in_job(&job.name, &error))?;
        }
        let overriding = Some(arguments.targets.target.clone()).filter(|names| !names.is_empty());
        let named: Vec<Option<Vec<OsString>>> =
            jobs.iter().map(|job| overriding.clone().or_else(|| names_of(&job.place))).collect();
        if let Some(json) = arguments.json.as_ref().and_then(Destination::file)
            && guard::refuse_doubles(&[json.into(), file.into()]).is_err()
        {
            let what = format!("writing {}", printable(json));
            return Err(Error::usage(what, "it is the job file, and would be lost")
                .remedy("choose another file for the results")
                .into());
        }
        let targets: Vec<OsString> = named.iter().flatten().flatten().cloned().collect();
        let outputs = Outputs::checked(arguments.json.clone(), &targets)?;
        let mut opener = Opener::new(&arguments.targets);
        let mut ready = Vec::new();
        for (job, names) in jobs.into_iter().zip(named) {
            let options = job.workload.target_options(job.direct);
            let targets = match names {
                None => None,
                Some(names) => {
                    guard::refuse_doubles(&names)?;
                    let writes = job.workload.access.writes();
                    let open = |name: &OsString| {
                        let opened = opener.open(name, &options, writes);
                        opened.map_err(|error| if overriding.is_none() { in_job_file(name, error) } else { error })
                    };
                    Some(names.iter().map(open).collect::<iolane::Result<Vec<_>>>()?)
                }
            };
            let adapt = |plan: RunPlan| RunPlan { pages: arguments.pages(), watched: !arguments.unwatched, ..plan };
            ready.push(RunJob::of_file(job, targets, adapt)?);
        }
        let metering = meter::open(&arguments.meter, false)?;
        let schedule = Schedule { jobs: ready, repeats: arguments.repeats(), metering };
        Ok(Self { schedule, outputs, memory: None, _opener: opener })
    }
}

/// A memory from its file.
fn memory(file: &Path, chooses: bool, path: &IoPath) -> iolane::Result<(PathMemory, PathBuf)> {
    if !chooses {
        let what = format!("--path-memory with --path {path}");
        return Err(Error::usage(what, "only a path that chooses among others learns").remedy("use --path auto"));
    }
    Ok((PathMemory::load(file)?, file.to_owned()))
}

/// The targets that a job file names for a job; `None` for scratch files.
fn names_of(place: &Place) -> Option<Vec<OsString>> {
    match place {
        Place::Named(names) => Some(names.iter().map(OsString::from).collect()),
        Place::Scratch { .. } => None,
    }
}

/// An error about a target that a job file names: fio would create a missing file.
fn in_job_file(name: &OsString, error: Error) -> Error {
    match std::fs::symlink_metadata(name) {
        Ok(_) => error,
        Err(_) => error.remedy(
            "check the name, make the file first (dd if=/dev/urandom of=FILE bs=1M count=1024; reads of a file without \
             data measure nothing), or leave filename out: with only size a scratch file is used",
        ),
    }
}
