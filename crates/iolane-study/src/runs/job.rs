//! One job: a plan on targets that are open, or on scratch files that are made when its turn comes. Made from the options of
//! a command line or from a section of a job file, and checked as far as it can be before anything runs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolane::units::Bytes;
use iolane::{Error, Result, Target};
use iolane_measure::run::{CheckedPlan, RunPlan};
use iolane_measure::scratch::Scratch;

use crate::fio;
use crate::fio::wording::in_words_of_fio;

/// A job that can be run.
#[derive(Debug)]
pub struct RunJob {
    /// Its name in a job file; `None` for a run of the command line.
    pub name: Option<String>,
    /// What is run.
    pub plan: JobPlan,
    /// How long it is measured, with its warm-up; `None` for a job that ends with its bytes.
    pub measured: Option<Duration>,
    /// Whether it starts only when all jobs before it have ended.
    pub waits: bool,
    /// How much later than the jobs beside it it starts.
    pub delay: Duration,
    /// The jobs that end when it ends.
    pub ends: Option<fio::Ends>,
    /// Number of its group among the jobs of a file.
    pub group: usize,
    /// Differences from what was asked for, for its record.
    pub notes: Vec<String>,
}

/// What a job runs.
#[derive(Debug)]
pub enum JobPlan {
    /// On open targets.
    Ready(CheckedPlan),
    /// On scratch files that are made when its turn comes; the plan has no targets until then.
    OnScratch(RunPlan, ScratchFiles),
}

/// Scratch files that a job needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchFiles {
    /// The folder they are made in.
    pub folder: PathBuf,
    /// Size of each.
    pub bytes: u64,
    /// Their number.
    pub count: usize,
    /// Whether they are opened with O_DIRECT.
    pub direct: bool,
}

/// A smaller file has no room for one page.
const SCRATCH_BYTES_MIN: u64 = 4096;

impl RunJob {
    /// A run of the command line on open targets.
    ///
    /// # Errors
    /// As [`RunPlan::check`].
    pub fn on_targets(plan: RunPlan) -> Result<Self> {
        Ok(Self::of_command_line(JobPlan::measured(&plan), JobPlan::Ready(plan.check()?)))
    }

    /// A run of the command line on scratch files.
    ///
    /// # Errors
    /// `Usage` for what is wrong on any target: workload, path, placement, size.
    pub fn on_scratch(plan: RunPlan, files: ScratchFiles) -> Result<Self> {
        check_without_target(&plan, &files)?;
        Ok(Self::of_command_line(JobPlan::measured(&plan), JobPlan::OnScratch(plan, files)))
    }

    fn of_command_line(measured: Duration, plan: JobPlan) -> Self {
        Self {
            name: None,
            plan,
            measured: Some(measured),
            waits: false,
            delay: Duration::ZERO,
            ends: None,
            group: 0,
            notes: Vec::new(),
        }
    }

    /// A job of a job file, on the targets opened for it, or on scratch files if there are none. `adapt` changes the plan by
    /// what the command line adds to the file.
    ///
    /// # Errors
    /// As [`RunPlan::check`], naming the job.
    pub fn of_file(
        mut job: fio::Job,
        targets: Option<Vec<Target>>,
        adapt: impl Fn(RunPlan) -> RunPlan,
    ) -> Result<Self> {
        if let Some(targets) = &targets {
            job.place = fio::Place::Named(targets.iter().map(|target| target.name().to_owned()).collect());
        }
        let files = match &job.place {
            fio::Place::Named(_) => None,
            fio::Place::Scratch { folder, bytes, shared } => {
                let count = if *shared { 1 } else { job.threads };
                Some(ScratchFiles { folder: folder.clone(), bytes: *bytes, count, direct: job.direct })
            }
        };
        let plan = adapt(job.plan(targets.unwrap_or_default()));
        let plan = match files {
            None => plan.check().map(JobPlan::Ready),
            Some(files) => check_without_target(&plan, &files).map(|()| JobPlan::OnScratch(plan, files)),
        };
        let plan = plan.map_err(|error| in_job(&job.name, &error))?;
        Ok(Self {
            measured: job.runtime.map(|runtime| runtime + job.warmup),
            waits: job.stonewall,
            delay: job.delay,
            ends: job.ends,
            group: job.group,
            notes: std::mem::take(&mut job.notes),
            name: Some(job.name),
            plan,
        })
    }

    /// What messages call it.
    pub fn label(&self) -> String {
        let plan = self.plan.plan();
        self.name.clone().unwrap_or_else(|| format!("{} at depth {}", plan.path, plan.workload.depth))
    }

    /// How long one run takes; `None` for a job that ends with its bytes.
    pub(super) fn length(&self) -> Option<Duration> {
        Some(self.delay + self.measured? + self.plan.plan().overhead())
    }

    /// Whether a job that runs at the same time ends when this one ends.
    pub(super) fn ends(&self, other: &Self) -> bool {
        match self.ends {
            None => false,
            Some(fio::Ends::Group) => self.group == other.group,
            Some(fio::Ends::Running | fio::Ends::All) => true,
        }
    }

    /// Whether a job that comes later does not run, because this one ended.
    pub(super) fn drops(&self, later: &Self) -> bool {
        self.ends != Some(fio::Ends::Running) && self.ends(later)
    }

    /// An error, with the name of this job if it has one.
    pub(super) fn named(&self, error: Error) -> Error {
        match &self.name {
            Some(name) => in_job(name, &error),
            None => error,
        }
    }

    /// The plan on its targets; scratch files are made for it, which live as long as the plan.
    ///
    /// # Errors
    /// As [`Scratch::create`] and [`RunPlan::check`], naming the job.
    pub(super) fn ready(&self, stop: &AtomicBool, mut progress: impl FnMut(u64, u64)) -> Result<CheckedPlan> {
        let (plan, files) = match &self.plan {
            JobPlan::Ready(plan) => return Ok(plan.clone()),
            JobPlan::OnScratch(plan, files) => (plan, files),
        };
        let mut targets = Vec::new();
        for index in 0..files.count as u64 {
            let total = files.bytes.saturating_mul(files.count as u64);
            let tell = |written| progress(index * files.bytes + written, total);
            let scratch = Scratch::create(&files.folder, files.bytes, plan.workload.seed, stop, tell)?;
            let options = plan.workload.target_options(files.direct);
            targets.push(scratch.open(options, plan.workload.access.writes())?);
        }
        RunPlan { targets, prefilled: true, ..plan.clone() }.check().map_err(|error| self.named(error))
    }
}

impl JobPlan {
    fn plan(&self) -> &RunPlan {
        match self {
            Self::Ready(checked) => checked.plan(),
            Self::OnScratch(plan, _) => plan,
        }
    }

    fn measured(plan: &RunPlan) -> Duration {
        plan.runtime + plan.warmup
    }
}

/// Checks what does not depend on the target, before a scratch file is written.
fn check_without_target(plan: &RunPlan, files: &ScratchFiles) -> Result<()> {
    plan.workload.validate()?;
    iolane::interface_of(&plan.path)?.validate(&plan.path)?;
    plan.placement.check()?;
    if files.bytes < SCRATCH_BYTES_MIN {
        let what = format!("--size {}", Bytes(files.bytes));
        return Err(Error::usage(what, "a scratch file needs 4k or more"));
    }
    if files.bytes <= plan.workload.start {
        let cause = format!("the scratch file has {}", Bytes(files.bytes));
        let what = format!("--start {}", Bytes(plan.workload.start));
        return Err(Error::usage(what, cause).remedy("use a smaller --start or a larger --size"));
    }
    Ok(())
}

/// An error, with the name of the job of a job file that it is about, and in its words.
pub fn in_job(name: &str, error: &Error) -> Error {
    let error = in_words_of_fio(error);
    Error::usage(format!("job [{name}]: {}", error.what()), error.cause())
        .with_kind(error.kind())
        .remedy(error.remedy_text())
}
