//! A study on this machine: which of its arms can run here, how long that takes, and the runs themselves, interleaved
//! in random order, each synced to disk before the next begins. Progress goes to a callback; nothing is printed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolane::{Error, Result, Target};
use iolane_measure::host::{Host, LabMachine};
use iolane_measure::progress::RunProgress;
use iolane_measure::workload::{Workload, random_stream};

use super::applications::Written;
use super::attempt::attempt;
use super::budget::Budget;
use super::conditions::Conditions;
use super::measured::Measured;
use super::planned::Planned;
use super::progress::{Now, Progress};
use super::run_list::{RunList, shuffled};
use super::searches::Searches;
use super::setup::{Machine, Pinning, Setup};
use super::{arms, precondition};
use crate::claims::{Looks, undecided};
use crate::energy::EnergyNotes;
use crate::fio::JobSpec;
use crate::plan::{Arm, LatencyBound, Lengths, Study};
use crate::rows::journal::Journal;
use crate::rows::{LeftOut, Preconditioned, Results, Row};
use crate::run_record::TargetRecord;
use crate::search::{RateSearch, runtime_s};

/// A study whose arms have been checked and can run.
#[derive(Debug)]
pub struct Session {
    study: Study,
    conditions: Conditions,
    planned: Vec<Planned>,
    left_out: Vec<LeftOut>,
    runtime: Duration,
    run_progress: Arc<RunProgress>,
}

/// The state of a study so far, and the journal that stores it.
#[derive(Debug)]
struct Kept {
    rows: Vec<Row>,
    preconditioned: Vec<Preconditioned>,
    energy: EnergyNotes,
    journal: Journal,
    /// What the applications read.
    written: Written,
}

/// A shorter run is too noisy.
const RUNTIME_MIN: Duration = Duration::from_millis(200);
/// The share of the time that every arm has its part of, before the first look at claims.
const FIRST_SHARE: f64 = 0.4;
/// What these repeats do not decide is too close to a bound.
const REPEATS_OF_A_LOOK_MAX: u32 = 40;
/// A limit against mistyped studies: no one waits for more runs.
const RUNS_MAX: usize = 1_000_000;
impl Session {
    /// Checks which arms can run here.
    ///
    /// # Errors
    /// `Usage` for an invalid workload; `Unavailable` if no arm can run.
    pub fn new(study: Study, conditions: Conditions) -> Result<Self> {
        let (planned, left_out) = arms::plan(&study, &conditions)?;
        if planned.is_empty() {
            let Some(first) = left_out.first() else {
                return Err(Error::usage("study", "it has no arms"));
            };
            let why = format!("no arm can be run ({}: {})", first.arm.label(), first.reason);
            return Err(Error::unavailable("study", why).remedy(&first.remedy));
        }
        if planned.len().saturating_mul(conditions.lengths.repeats) > RUNS_MAX {
            let cause = format!("{} arms, {} repeats each", planned.len(), conditions.lengths.repeats);
            return Err(Error::usage(format!("study {}", study.name), cause)
                .remedy(format!("it may have {RUNS_MAX} runs at most")));
        }
        let mut session =
            Self { study, conditions, planned, left_out, runtime: Duration::ZERO, run_progress: Arc::default() };
        session.set_runtime(session.fitting_runtime());
        Ok(session)
    }

    /// The runtime asked for, or the one with which all runs fit into the time.
    fn fitting_runtime(&self) -> Duration {
        let Lengths { runtime, warmup, time, runtime_max, .. } = self.conditions.lengths;
        let time = if self.may_look_again() { time.mul_f64(FIRST_SHARE) } else { time };
        let each = time / (self.runs().max(1) as u32);
        let fixed = warmup + self.overhead() / (self.planned.len().max(1) as u32);
        runtime.unwrap_or_else(|| each.saturating_sub(fixed).clamp(RUNTIME_MIN, runtime_max))
    }

    /// The time that one run of every arm takes besides warm-up and measurement.
    fn overhead(&self) -> Duration {
        self.planned.iter().map(|planned| planned.plan.plan().overhead()).sum()
    }

    fn set_runtime(&mut self, runtime: Duration) {
        self.runtime = runtime;
        for planned in &mut self.planned {
            planned.plan = planned.plan.clone().with_runtime(runtime);
        }
    }

    pub fn study(&self) -> &Study {
        &self.study
    }

    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The arms that will run.
    pub fn arms(&self) -> impl Iterator<Item = &Arm> {
        self.planned.iter().map(|planned| &planned.arm)
    }

    /// The arms as fio job sections, each with a unique name.
    pub fn fio_jobs(&self) -> Vec<JobSpec> {
        let own = self.planned.iter().filter(|planned| planned.peer.is_none() && planned.by.is_none());
        let own = own.map(|planned| (&planned.arm, planned.plan.plan()));
        own.map(|(arm, plan)| JobSpec {
            name: arm.to_string().replace(", ", " "),
            path: plan.path.clone(),
            workload: Workload {
                size: plan.workload.size.or_else(|| Some(plan.targets.first()?.bytes()).filter(|_| plan.prefilled)),
                ..plan.workload.clone()
            },
            threads: plan.threads,
            targets: match plan.prefilled {
                true => Vec::new(),
                false => plan.targets.iter().map(|target| target.name().to_owned()).collect(),
            },
            runtime: plan.runtime,
            warmup: plan.warmup,
            direct: plan.targets.iter().all(Target::direct),
            cpus: plan.placement.cpus.clone(),
            sqpoll_cpus: plan.placement.sqpoll_cpus.clone(),
        })
        .collect()
    }

    /// The arms that will not run.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Measured time of each run.
    pub fn runtime(&self) -> Duration {
        self.runtime
    }

    /// The live rate of the current run, while [`run`](Self::run) is active; peers report none before their end.
    pub fn run_progress(&self) -> Arc<RunProgress> {
        Arc::clone(&self.run_progress)
    }

    /// The number of runs; of a rate search about as many.
    pub fn runs(&self) -> usize {
        self.planned.len() * self.runs_of_an_arm()
    }

    fn runs_of_an_arm(&self) -> usize {
        let repeats = self.conditions.lengths.repeats;
        if self.study.rate_until.is_some() { RateSearch::expected_trials(repeats) } else { repeats }
    }

    /// The duration of the runs until the first look at claims, without the preparation before them.
    pub fn time_of_runs(&self) -> Duration {
        let of_all = (self.runtime + self.conditions.lengths.warmup) * self.planned.len() as u32 + self.overhead();
        of_all.mul_f64(self.runs_of_an_arm() as f64)
    }

    /// The approximate duration, preparation included.
    pub fn estimated_time(&self) -> Duration {
        let runs = self.time_of_runs();
        let runs = if self.looks() > 1 { runs.max(self.conditions.lengths.time) } else { runs };
        runs + self.preparation_time()
    }

    /// The approximate duration of what precedes the runs.
    pub fn preparation_time(&self) -> Duration {
        precondition::estimated_time(&self.planned, self.conditions.scale) + self.conditions.metering.estimated_time()
    }

    fn setup(&self) -> Setup {
        let Conditions { targets, placement, lengths, metering, .. } = &self.conditions;
        let host = Host::gather();
        Setup {
            study: self.study.name.clone(),
            targets: targets.iter().map(TargetRecord::new).collect(),
            placement: placement.as_ref().map(Pinning::new),
            kernel: host.kernel_release.clone(),
            machine: Some(Machine::of(host)),
            repeats: lengths.repeats,
            warmup_ns: nanoseconds(lengths.warmup),
            asked_runtime_ns: lengths.runtime.map(nanoseconds),
            // The runs of a search do not depend on its time, and another time continues it.
            asked_time_ns: if self.study.rate_until.is_some() { 0 } else { nanoseconds(lengths.time) },
            arms: self.arms().cloned().collect(),
            rate_until: self.study.rate_until.map(|bound| bound.to_string()),
            meter: metering.spec.to_string(),
            runtime_ns: nanoseconds(self.runtime),
        }
    }

    /// Runs every arm once per repeat, in a new random order for each repeat, or continues the study of the same set-up
    /// from the folder's journal. When stopped, it keeps the completed runs; the same call continues from there.
    ///
    /// # Errors
    /// `Failed` if the journal cannot be written, or belongs to another study.
    pub fn run(mut self, folder: &Path, stop: &AtomicBool, mut progress: impl FnMut(Progress<'_>)) -> Result<Measured> {
        let mut kept = self.open(folder)?;
        if let Some(bound) = self.study.rate_until {
            return self.search(bound, kept, stop, &mut progress);
        }
        let mut runs = RunList::new(&self.planned, &kept.rows);
        let order = self.order();
        let mut budget = Budget::new(self.conditions.time_max);
        let mut looks = self.first_look();
        let is_whole = self.prepare(&order, &runs, &mut kept, stop, &mut progress)?
            && self.run_wanted((0, &order), &mut runs, &mut budget, &mut kept, stop, &mut progress)?
            && self.run_undecided((&mut runs, &mut looks), &mut budget, &mut kept, stop, &mut progress)?;
        Ok(self.measured(kept, looks, !is_whole))
    }

    /// Searches the highest rate of each arm, the arms in turn.
    fn search(
        self,
        bound: LatencyBound,
        mut kept: Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<Measured> {
        let repeats = self.conditions.lengths.repeats;
        let mut searches = Searches::new(&self.planned, bound, repeats, &kept.rows);
        let is_whole = self.prepare_all(&mut kept, stop, progress)?
            && self.run_searches(bound, &mut searches, &mut kept, stop, progress)?;
        Ok(self.searched(&searches, kept, !is_whole))
    }

    /// Makes the runs of the searches. `false` if it was stopped, or the time was over before their end.
    fn run_searches(
        &self,
        bound: LatencyBound,
        searches: &mut Searches,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        let mut random = random_stream(self.study.workload.seed, ORDER_STREAM);
        let mut budget = Budget::new(self.conditions.time_max);
        loop {
            let mut has_run = false;
            if !budget.allows_another() {
                let is_whole = self.make_load_steps(kept.rows.len(), kept, stop, progress)?;
                return Ok(is_whole && searches.runs_left() == 0);
            }
            for index in shuffled(self.planned.len(), &mut random) {
                let Some(next) = searches.next(index) else { continue };
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                has_run = true;
                let bounded_per_s = next.rate.per_s() * bound.share_of_requests(&self.planned[index].arm.workload);
                let runtime_s = runtime_s(bound.percentile, bounded_per_s, self.runtime.as_secs_f64());
                let planned = self.planned[index].at_rate(next.rate, Duration::from_secs_f64(runtime_s));
                let now = if next.attempt == 0 { Now::Runs(&planned.arm) } else { Now::RunsAgain(&planned.arm) };
                let done = kept.rows.len();
                progress(Progress { done, total: done + searches.runs_left(), now, rows: &kept.rows });
                match self.run_once(&planned, (next.repeat, next.attempt), searches.may_retry(), kept, stop)? {
                    Some(row) => searches.note(index, row),
                    None => return Ok(false),
                }
            }
            if !has_run {
                return self.make_load_steps(kept.rows.len(), kept, stop, progress);
            }
        }
    }

    fn searched(mut self, searches: &Searches, kept: Kept, interrupted: bool) -> Measured {
        let Kept { rows, preconditioned, energy, journal, .. } = kept;
        for (index, Planned { arm, .. }) in self.planned.iter().enumerate() {
            let of_arm = |row: &&Row| row.arm.without_rate() == arm.without_rate();
            let is_measured = rows.iter().filter(of_arm).any(|row| row.rejected.is_none());
            let (reason, remedy) = match rows.iter().rev().find(of_arm).and_then(|row| row.rejected.clone()) {
                Some(trouble) if searches.gave_up(index) => (trouble, ""),
                _ if is_measured => continue,
                _ => ("the search was interrupted before a run of this arm was complete".into(), "repeat the command"),
            };
            let failed = searches.gave_up(index);
            self.left_out.push(LeftOut { arm: arm.without_rate(), reason, remedy: remedy.into(), failed });
        }
        let whole_repeats = rows.iter().map(|row| row.repeat as usize + 1).max().unwrap_or(0);
        let (left_out, runtime) = (self.left_out, self.runtime);
        let looks = Looks::default();
        Measured { rows, left_out, preconditioned, energy, runtime, whole_repeats, looks, interrupted, journal }
    }

    /// Opens the journal, and takes over the runs of an interrupted study of the same set-up.
    fn open(&mut self, folder: &Path) -> Result<Kept> {
        let (mut journal, begun) = Journal::open::<Setup>(folder)?;
        let mut setup = self.setup();
        let Some(begun) = begun else {
            journal.begin(&setup)?;
            let (rows, preconditioned) = (Vec::new(), Vec::new());
            return Ok(Kept {
                rows,
                preconditioned,
                energy: EnergyNotes::default(),
                journal,
                written: Written::default(),
            });
        };
        setup.runtime_ns = begun.setup.runtime_ns;
        if let Some(differs) = begun.setup.differs_in(&setup) {
            return Err(another_study(folder, differs));
        }
        self.set_runtime(Duration::from_nanos(setup.runtime_ns));
        let energy = begun.energy.unwrap_or_default();
        let (rows, preconditioned) = (begun.rows, begun.preconditioned);
        Ok(Kept { rows, preconditioned, energy, journal, written: Written::default() })
    }

    /// The preparation for the first run: preconditioning, idle power, load steps. `false` if it was stopped.
    fn prepare(
        &self,
        order: &[(u32, usize)],
        runs: &RunList,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        let is_wanted = |(repeat, index): &&(u32, usize)| runs.wants(*index, *repeat);
        let done = order.len() - order.iter().filter(is_wanted).count();
        let writes = order.iter().filter(is_wanted).any(|(_, index)| self.planned[*index].needs_preconditioning());
        self.prepare_machine(done, writes, kept, stop, progress)
    }

    /// The same for a rate search, of which any arm may have runs left.
    fn prepare_all(&self, kept: &mut Kept, stop: &AtomicBool, progress: &mut impl FnMut(Progress<'_>)) -> Result<bool> {
        let writes = self.planned.iter().any(Planned::needs_preconditioning);
        self.prepare_machine(kept.rows.len(), writes, kept, stop, progress)
    }

    fn prepare_machine(
        &self,
        done: usize,
        writes: bool,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        let total = self.runs().max(done);
        // First: a drive that was just preconditioned goes on working, and takes more power than an idle one.
        let metering = &self.conditions.metering;
        if !metering.idle_time().is_zero() {
            progress(Progress { done, total, now: Now::MeasuresIdle, rows: &kept.rows });
        }
        let Some(energy) = metering.begin(&kept.energy, stop) else { return Ok(false) };
        kept.energy = energy;
        kept.journal.note_energy(&kept.energy)?;
        if writes {
            let rows = &kept.rows;
            let tell = |target: &str| progress(Progress { done, total, now: Now::Preconditions(target), rows });
            match precondition::precondition(&self.planned, &self.conditions, (stop, &self.run_progress), tell) {
                Ok(preconditioned) => kept.preconditioned = preconditioned,
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) => return Err(error),
            }
            kept.journal.note_preconditioning(&kept.preconditioned)?;
        }
        let rows = &kept.rows;
        let tell = |target: &str| progress(Progress { done, total, now: Now::WritesData(target), rows });
        match Written::make(&self.planned, stop, tell) {
            Ok(written) => kept.written = written,
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.make_load_steps(done, kept, stop, progress)
    }

    /// Makes the runs that are not done yet, in this order, after the runs `before` it. `false` if it was stopped.
    fn run_wanted(
        &self,
        (before, order): (usize, &[(u32, usize)]),
        runs: &mut RunList,
        budget: &mut Budget,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        let metering = &self.conditions.metering;
        let total = self.runs().max(before + order.len());
        let mut last_repeat = None;
        for (done, &(repeat, index)) in order.iter().enumerate() {
            let done = before + done;
            let planned = &self.planned[index];
            if runs.wants(index, repeat) {
                if last_repeat.is_some_and(|last| last < repeat) && metering.steps_are_due(&kept.energy) {
                    // Load steps between repeats only correct drift; if they are stopped, the next run does not begin.
                    self.make_load_steps(done, kept, stop, progress)?;
                }
                if last_repeat != Some(repeat) && !budget.allows_another() {
                    return self.make_load_steps(done, kept, stop, progress);
                }
                last_repeat = Some(repeat);
            }
            while runs.wants(index, repeat) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let attempts = runs.attempts(index, repeat);
                let now = if attempts == 0 { Now::Runs(&planned.arm) } else { Now::RunsAgain(&planned.arm) };
                progress(Progress { done, total, now, rows: &kept.rows });
                match self.run_once(planned, (repeat, attempts), runs.may_retry(total), kept, stop)? {
                    Some(row) => runs.note(index, row),
                    None => return Ok(false),
                }
            }
        }
        self.make_load_steps(total, kept, stop, progress)
    }

    /// Spends the rest of the time on the arms of claims that are undecided, look by look. `false` if it was stopped.
    fn run_undecided(
        &self,
        (runs, looks): (&mut RunList, &mut Looks),
        budget: &mut Budget,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        if looks.repeats().is_empty() {
            // Without time for more, claims are decided once, on all repeats.
            return Ok(true);
        }
        let mut random = random_stream(self.study.workload.seed, LOOKS_STREAM);
        let mut before = self.runs();
        for _ in looks.repeats().len()..self.looks() {
            let first = looks.repeats().last().copied().unwrap_or_default();
            // A study that is continued decides on the same repeats as it did.
            let lab = LabMachine::of_this_guest();
            let further = self.conditions.lengths.repeats as u32;
            let results = Results { lab, ..Results::of_looks(&kept.rows, Vec::new(), further) };
            let undecided = undecided(&self.study, &results, looks);
            let indices: Vec<usize> =
                (0..self.planned.len()).filter(|index| undecided.contains(&&self.planned[*index].arm)).collect();
            let end = first + self.repeats_of_a_look(&indices);
            if indices.is_empty() {
                break;
            }
            if end == first {
                // No more repeats fit. The same ones are looked at with the error that is left.
                looks.add(first);
                continue;
            }
            let order: Vec<(u32, usize)> = (first..end)
                .flat_map(|repeat| {
                    let order = shuffled(indices.len(), &mut random);
                    order.into_iter().map(|at| (repeat, indices[at])).collect::<Vec<_>>()
                })
                .collect();
            if !self.run_wanted((before, &order), runs, budget, kept, stop, progress)? {
                return Ok(false);
            }
            looks.add(end);
            before += order.len();
        }
        Ok(true)
    }

    /// How many repeats of these arms fit into the time of one later look.
    fn repeats_of_a_look(&self, indices: &[usize]) -> u32 {
        let Lengths { warmup, time, .. } = self.conditions.lengths;
        let length = |index: &usize| self.runtime + warmup + self.planned[*index].plan.plan().overhead();
        let round: Duration = indices.iter().map(length).sum();
        let left = time.saturating_sub(self.time_of_runs()) / (Looks::MAX as u32 - 1);
        match round.is_zero() {
            true => 0,
            false => ((left.as_secs_f64() / round.as_secs_f64()) as u32).min(REPEATS_OF_A_LOOK_MAX),
        }
    }

    /// How often claims can be decided.
    pub fn looks(&self) -> usize {
        let has_time = self.time_of_runs() < self.conditions.lengths.time;
        if self.may_look_again() && has_time { Looks::MAX } else { 1 }
    }

    fn first_look(&self) -> Looks {
        match self.looks() {
            1 => Looks::default(),
            _ => Looks::first(self.conditions.lengths.repeats as u32),
        }
    }

    /// Whether the time goes where it decides: if there are claims, and the length of runs comes from the time.
    fn may_look_again(&self) -> bool {
        !self.study.claims.is_empty() && self.conditions.lengths.runtime.is_none() && self.study.rate_until.is_none()
    }

    /// Makes one attempt at a run, and keeps its row. `None` if it was stopped.
    fn run_once<'a>(
        &self,
        planned: &Planned,
        (repeat, attempts): (u32, u32),
        may_retry: bool,
        kept: &'a mut Kept,
        stop: &AtomicBool,
    ) -> Result<Option<&'a Row>> {
        let run = attempt(planned, repeat, attempts, may_retry, &kept.written, (stop, &self.run_progress));
        let Some((mut row, span)) = run else { return Ok(None) };
        self.conditions.metering.fill(&mut row, span, &kept.energy);
        kept.journal.append(&row)?;
        kept.rows.push(row);
        Ok(kept.rows.last())
    }

    /// Makes load steps for an external meter. `false` if it was stopped: a study without the steps at its end is
    /// incomplete.
    fn make_load_steps(
        &self,
        done: usize,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        if !self.conditions.metering.steps {
            return Ok(true);
        }
        progress(Progress { done, total: self.runs().max(done), now: Now::MakesLoadSteps, rows: &kept.rows });
        let are_made = self.conditions.metering.make_steps(&mut kept.energy, stop);
        if are_made {
            kept.journal.note_energy(&kept.energy)?;
        }
        Ok(are_made)
    }

    /// Every run, repeat by repeat, the arms of each repeat in random order; the same order for the same seed.
    fn order(&self) -> Vec<(u32, usize)> {
        let mut random = random_stream(self.study.workload.seed, ORDER_STREAM);
        let repeats = 0..self.conditions.lengths.repeats as u32;
        let arms = self.planned.len();
        repeats.flat_map(|repeat| shuffled(arms, &mut random).into_iter().map(move |arm| (repeat, arm))).collect()
    }

    fn measured(mut self, kept: Kept, looks: Looks, interrupted: bool) -> Measured {
        let Kept { rows, preconditioned, energy, journal, .. } = kept;
        let runs = RunList::new(&self.planned, &rows);
        let repeats = self.conditions.lengths.repeats;
        let mut whole_repeats = repeats;
        for (index, Planned { arm, .. }) in self.planned.iter().enumerate() {
            let good = rows.iter().filter(|row| row.arm == *arm && row.rejected.is_none()).count();
            let trouble = rows.iter().rev().find(|row| row.arm == *arm).and_then(|row| row.rejected.clone());
            let trouble = runs.peer_trouble(index).or(trouble);
            // In a later look it keeps its repeats before.
            let gave_up = runs.gave_up(index).is_some_and(|repeat| (repeat as usize) < repeats);
            let (reason, remedy) = match trouble.filter(|_| gave_up) {
                // Its other repeats could not be paired with those of other arms.
                Some(trouble) => (trouble, ""),
                None => {
                    whole_repeats = whole_repeats.min(good);
                    if good > 0 {
                        continue;
                    }
                    (
                        "the study was interrupted before a run of this arm was complete".into(),
                        "repeat the command: it continues where it stopped",
                    )
                }
            };
            self.left_out.push(LeftOut { arm: arm.clone(), reason, remedy: remedy.into(), failed: gave_up });
        }
        let (left_out, runtime) = (self.left_out, self.runtime);
        Measured { rows, left_out, preconditioned, energy, runtime, whole_repeats, looks, interrupted, journal }
    }
}

/// Distinct from the random streams of requests.
const ORDER_STREAM: u32 = 63;
const LOOKS_STREAM: u32 = 62;

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn another_study(folder: &Path, differs: &str) -> Error {
    let what = format!("continuing the study in {}", folder.display());
    Error::usage(what, format!("the study that began there differs in {differs}"))
        .remedy("repeat the command that began it, choose another folder for the results, or start over with --fresh")
}
