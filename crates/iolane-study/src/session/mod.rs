//! A study on this machine: which of its arms can be run here, how long that takes, and the runs themselves, interleaved
//! in an order of chance, each on the disk before the next begins. It says how far it is by a callback, and prints nothing.

mod arms;
pub(crate) mod energy;
mod judge;
mod peers;
mod precondition;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use iolane::{Error, Result, Target};
use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::energy::{EnergyNotes, Span};
use crate::fio::JobSpec;
use crate::gauge::Gauge;
use crate::placement::Placement;
use crate::plan::{Arm, Lengths, Scale, Study};
use crate::record::{self, TargetRecord};
use crate::records::journal::Journal;
use crate::records::{LeftOut, Preconditioned, RETRIES, Row, gives_up};
use crate::run::{RunOutcome, RunPlan, run_seen};
use crate::session::judge::Worth;
use crate::telemetry::{Reading, RunTelemetry, Unavailable};
use crate::workload::random_stream;

pub use energy::Metering;
pub use peers::InstalledPeer;

/// What a study is run on.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Opened targets; those that a path can reach are its drives.
    pub targets: Vec<Target>,
    /// Bytes of each target that are used, from its start; all if `None`.
    pub size: Option<u64>,
    /// Whether the targets hold what a scratch file does.
    pub prefilled: bool,
    /// Where threads run in arms without a limit of cores; each on a cpu of its own, where there are enough, if `None`.
    pub placement: Option<Placement>,
    /// Which of the study's values and lengths.
    pub scale: Scale,
    /// Lengths and repeats.
    pub lengths: Lengths,
    /// Other tools that run the same arms.
    pub peers: Vec<InstalledPeer>,
    /// What tells the joules of runs.
    pub metering: Metering,
}

/// A study whose arms are known to be possible.
#[derive(Debug)]
pub struct Session {
    study: Study,
    conditions: Conditions,
    planned: Vec<Planned>,
    left_out: Vec<LeftOut>,
    runtime: Duration,
    gauge: Arc<Gauge>,
}

/// An arm, and how it is run here.
#[derive(Debug, Clone)]
struct Planned {
    arm: Arm,
    plan: RunPlan,
    /// What runs it, if that is not iolane itself.
    peer: Option<InstalledPeer>,
}

/// Where a study is.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Runs that have ended.
    pub done: usize,
    /// Runs there are.
    pub total: usize,
    /// What is done now.
    pub now: Now<'a>,
    /// What has been measured, the latest last.
    pub rows: &'a [Row],
}

/// What a study does.
#[derive(Debug, Clone)]
pub enum Now<'a> {
    /// It writes a target whole, and then at random until it is steady.
    Preconditions(&'a str),
    /// It lets the machine rest, and measures what that takes.
    MeasuresIdle,
    /// It makes every cpu busy and idle by turns, for an external meter.
    MakesLoadSteps,
    /// It runs an arm.
    Runs(&'a Arm),
    /// It runs an arm again, for the run before was worth nothing.
    RunsAgain(&'a Arm),
}

/// What a session measured, or as much of it as there was time for.
#[derive(Debug)]
pub struct Measured {
    /// Every run.
    pub rows: Vec<Row>,
    /// Arms that were not run, and those that were given up.
    pub left_out: Vec<LeftOut>,
    /// What was done to targets before writes were measured.
    pub preconditioned: Vec<Preconditioned>,
    /// What is known of energy beside the runs.
    pub energy: EnergyNotes,
    /// Length of each run.
    pub runtime: Duration,
    /// Repeats in which every arm that was not given up has a run that counts.
    pub whole_repeats: usize,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The journal; to be removed once the rows are kept.
    pub journal: Journal,
}

/// What there is of a study so far, and where it is kept.
#[derive(Debug)]
struct Kept {
    rows: Vec<Row>,
    preconditioned: Vec<Preconditioned>,
    energy: EnergyNotes,
    journal: Journal,
}

/// What has to be the same for an interrupted study to go on, and the length of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Setup {
    study: String,
    workload: String,
    targets: Vec<String>,
    placement: String,
    kernel: String,
    repeats: usize,
    warmup_ns: u64,
    asked_runtime_ns: Option<u64>,
    asked_time_ns: u64,
    arms: Vec<Arm>,
    #[serde(default)]
    meter: String,
    /// What `asked_time` came to; the one thing that is taken over and not compared.
    runtime_ns: u64,
}

/// What a run costs beside its warm-up and its measurement: set-up, the two slices, tracing's end.
const OVERHEAD: Duration = Duration::from_millis(220);
/// A run shorter than this says little.
const RUNTIME_MIN: Duration = Duration::from_millis(200);
/// More runs than this no one waits for.
const RUNS_MAX: usize = 1_000_000;
/// Disturbed runs that are repeated, as a share of all: on a machine that is never quiet a study must end too.
const RETRIES_SHARE: f64 = 0.1;

impl Session {
    /// Finds out which arms are possible here.
    ///
    /// # Errors
    /// `Usage` for a workload that no path can be asked for, `Unavailable` if no arm at all can be run.
    pub fn new(study: Study, conditions: Conditions) -> Result<Self> {
        let (planned, left_out) = arms::plan(&study, &conditions)?;
        if planned.is_empty() {
            let Some(first) = left_out.first() else {
                return Err(Error::usage("study", "it has no arm"));
            };
            let why = format!("no arm can be run ({}: {})", first.arm.label(), first.reason);
            return Err(Error::unavailable("study", why).remedy(&first.remedy));
        }
        if planned.len().saturating_mul(conditions.lengths.repeats) > RUNS_MAX {
            let cause = format!("{} arms, {} repeats each", planned.len(), conditions.lengths.repeats);
            return Err(Error::usage(format!("study {}", study.name), cause)
                .remedy(format!("it may have {RUNS_MAX} runs at most")));
        }
        let mut session = Self { study, conditions, planned, left_out, runtime: Duration::ZERO, gauge: Arc::default() };
        session.set_runtime(session.fitting_runtime());
        Ok(session)
    }

    /// What is asked for, or what makes all runs fit into the time.
    fn fitting_runtime(&self) -> Duration {
        let Lengths { runtime, warmup, time, runtime_max, .. } = self.conditions.lengths;
        let each = time / (self.runs().max(1) as u32);
        runtime.unwrap_or_else(|| each.saturating_sub(warmup + OVERHEAD).clamp(RUNTIME_MIN, runtime_max))
    }

    fn set_runtime(&mut self, runtime: Duration) {
        self.runtime = runtime;
        self.planned.iter_mut().for_each(|planned| planned.plan.runtime = runtime);
    }

    /// The study.
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// What it is run on.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The arms that will be run.
    pub fn arms(&self) -> impl Iterator<Item = &Arm> {
        self.planned.iter().map(|planned| &planned.arm)
    }

    /// The arms in the words of fio's job files, each with a name of its own.
    pub fn fio_jobs(&self) -> Vec<JobSpec> {
        let own = self.planned.iter().filter(|planned| planned.peer.is_none());
        own.map(|Planned { arm, plan, .. }| JobSpec {
            name: arm.to_string().replace(", ", " "),
            path: plan.path.clone(),
            access: plan.workload.access,
            block_sizes: plan.workload.block_sizes.clone(),
            depth: plan.workload.depth,
            threads: plan.threads,
            targets: match plan.prefilled {
                true => Vec::new(),
                false => plan.targets.iter().map(|target| target.name().to_owned()).collect(),
            },
            size: plan.workload.size.or_else(|| Some(plan.targets.first()?.bytes()).filter(|_| plan.prefilled)),
            runtime: plan.runtime,
            warmup: plan.warmup,
            seed: plan.workload.seed,
            direct: plan.targets.iter().all(Target::direct),
            cpus: plan.placement.cpus.clone(),
            spoll_cpus: plan.placement.spoll_cpus.clone(),
        })
        .collect()
    }

    /// Those that will not.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Length of each run.
    pub fn runtime(&self) -> Duration {
        self.runtime
    }

    /// How fast the run that goes on is, while [`run`](Self::run) runs them; peers tell nothing meanwhile.
    pub fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// Runs there will be.
    pub fn runs(&self) -> usize {
        self.planned.len() * self.conditions.lengths.repeats
    }

    /// How long they will take, about.
    pub fn estimated_time(&self) -> Duration {
        let each = self.runtime + self.conditions.lengths.warmup + OVERHEAD;
        each.mul_f64(self.runs() as f64)
            + precondition::estimated_time(&self.planned, self.conditions.scale)
            + self.conditions.metering.estimated_time()
    }

    fn setup(&self) -> Setup {
        let Lengths { runtime, warmup, repeats, time, .. } = self.conditions.lengths;
        let nanoseconds = |duration: Duration| duration.as_nanos() as u64;
        Setup {
            study: self.study.name.clone(),
            workload: format!("{:?} {:?}", self.study.workload, self.conditions.size),
            targets: self.conditions.targets.iter().map(|target| format!("{:?}", TargetRecord::new(target))).collect(),
            placement: format!("{:?}", self.conditions.placement),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            repeats,
            warmup_ns: nanoseconds(warmup),
            asked_runtime_ns: runtime.map(nanoseconds),
            asked_time_ns: nanoseconds(time),
            arms: self.arms().cloned().collect(),
            meter: self.conditions.metering.spec.to_string(),
            runtime_ns: nanoseconds(self.runtime),
        }
    }

    /// Runs every arm so many times, in an order drawn anew for each repeat, or goes on with what a study of the same
    /// set-up left in the folder's journal. Stopped, it keeps what there is; the same call goes on from there.
    ///
    /// # Errors
    /// `Failed` if the journal cannot be written, or is another study's.
    pub fn run(mut self, folder: &Path, stop: &AtomicBool, mut progress: impl FnMut(Progress<'_>)) -> Result<Measured> {
        let mut kept = self.open(folder)?;
        let mut runs = Runs::new(&self.planned, &kept.rows);
        let order = self.order();
        let is_whole = self.prepare(&order, &runs, &mut kept, stop, &mut progress)?
            && self.run_wanted(&order, &mut runs, &mut kept, stop, &mut progress)?;
        Ok(self.measured(kept, !is_whole))
    }

    /// Opens the journal, and takes over what an interrupted study of the same set-up left in it.
    fn open(&mut self, folder: &Path) -> Result<Kept> {
        let (mut journal, begun) = Journal::open::<Setup>(folder)?;
        let mut setup = self.setup();
        let Some(begun) = begun else {
            journal.begin(&setup)?;
            return Ok(Kept { rows: Vec::new(), preconditioned: Vec::new(), energy: EnergyNotes::default(), journal });
        };
        setup.runtime_ns = begun.setup.runtime_ns;
        if begun.setup != setup {
            return Err(another_study(folder, &begun.setup, &setup));
        }
        self.set_runtime(Duration::from_nanos(setup.runtime_ns));
        let energy = begun.energy.unwrap_or_default();
        Ok(Kept { rows: begun.rows, preconditioned: begun.preconditioned, energy, journal })
    }

    /// What comes before the first run: targets that are to be written, idle power, load steps. `false` if it was stopped.
    fn prepare(
        &self,
        order: &[(u32, usize)],
        runs: &Runs,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        let is_wanted = |(repeat, index): &&(u32, usize)| runs.wants(*index, *repeat);
        let done = order.len() - order.iter().filter(is_wanted).count();
        let total = self.runs();
        if order.iter().filter(is_wanted).any(|(_, index)| self.planned[*index].arm.rw.writes()) {
            let rows = &kept.rows;
            let tell = |target: &str| progress(Progress { done, total, now: Now::Preconditions(target), rows });
            match precondition::precondition(&self.planned, &self.conditions, (stop, &self.gauge), tell) {
                Ok(preconditioned) => kept.preconditioned = preconditioned,
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) => return Err(error),
            }
            kept.journal.note_preconditioning(&kept.preconditioned)?;
        }
        let metering = &self.conditions.metering;
        if !metering.idle_time().is_zero() {
            progress(Progress { done, total, now: Now::MeasuresIdle, rows: &kept.rows });
        }
        let Some(energy) = metering.begin(&kept.energy, stop) else { return Ok(false) };
        kept.energy = energy;
        kept.journal.note_energy(&kept.energy)?;
        self.make_load_steps(done, kept, stop, progress)
    }

    /// Makes the runs that are wanted still, in that order. `false` if it was stopped.
    fn run_wanted(
        &self,
        order: &[(u32, usize)],
        runs: &mut Runs,
        kept: &mut Kept,
        stop: &AtomicBool,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<bool> {
        let (total, metering) = (self.runs(), &self.conditions.metering);
        let mut last_repeat = None;
        for (done, &(repeat, index)) in order.iter().enumerate() {
            let planned = &self.planned[index];
            if runs.wants(index, repeat) {
                if last_repeat.is_some_and(|last| last < repeat) && metering.steps_are_due(&kept.energy) {
                    // Those between repeats are for the drift alone; where one is stopped, the next run is not begun.
                    self.make_load_steps(done, kept, stop, progress)?;
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
                let watched = (stop, &*self.gauge);
                let Some((mut row, span)) = attempt(planned, repeat, attempts, runs.may_retry(total), watched) else {
                    return Ok(false);
                };
                metering.fill(&mut row, span, &kept.energy);
                kept.journal.append(&row)?;
                runs.note(index, &row);
                kept.rows.push(row);
            }
        }
        self.make_load_steps(total, kept, stop, progress)
    }

    /// Makes load steps, where an external meter is to find them. `false` if it was stopped: without those at its end a
    /// study is not whole.
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
        progress(Progress { done, total: self.runs(), now: Now::MakesLoadSteps, rows: &kept.rows });
        let are_made = self.conditions.metering.make_steps(&mut kept.energy, stop);
        if are_made {
            kept.journal.note_energy(&kept.energy)?;
        }
        Ok(are_made)
    }

    /// Every run, repeat by repeat, the arms of each in an order of chance; the same each time for the same seed.
    fn order(&self) -> Vec<(u32, usize)> {
        let mut random = random_stream(self.study.workload.seed, ORDER_STREAM);
        let repeats = 0..self.conditions.lengths.repeats as u32;
        let arms = self.planned.len();
        repeats.flat_map(|repeat| shuffled(arms, &mut random).into_iter().map(move |arm| (repeat, arm))).collect()
    }

    fn measured(mut self, kept: Kept, interrupted: bool) -> Measured {
        let Kept { rows, preconditioned, energy, journal } = kept;
        let runs = Runs::new(&self.planned, &rows);
        let mut whole_repeats = self.conditions.lengths.repeats;
        for (index, Planned { arm, .. }) in self.planned.iter().enumerate() {
            let good = rows.iter().filter(|row| row.arm == *arm && row.worthless.is_none()).count();
            let trouble = rows.iter().rev().find(|row| row.arm == *arm).and_then(|row| row.worthless.clone());
            let (reason, remedy) = match trouble.filter(|_| runs.given_up[index]) {
                // Its other repeats could not be paired with those of other arms.
                Some(trouble) => (trouble, ""),
                None => {
                    whole_repeats = whole_repeats.min(good);
                    if good > 0 {
                        continue;
                    }
                    (
                        "it was interrupted before a run of this ended".into(),
                        "the same command goes on where it stopped",
                    )
                }
            };
            let failed = runs.given_up[index];
            self.left_out.push(LeftOut { arm: arm.clone(), reason, remedy: remedy.into(), failed });
        }
        let (left_out, runtime) = (self.left_out, self.runtime);
        Measured { rows, left_out, preconditioned, energy, runtime, whole_repeats, interrupted, journal }
    }
}

/// Far from the streams that requests are drawn from.
const ORDER_STREAM: u32 = 63;

fn another_study(folder: &Path, begun: &Setup, asked: &Setup) -> Error {
    let differences: [(&str, bool); 8] = [
        ("its name", begun.study != asked.study),
        ("its targets", begun.targets != asked.targets),
        ("the kernel", begun.kernel != asked.kernel),
        ("its workload", begun.workload != asked.workload),
        ("its placement", begun.placement != asked.placement),
        ("its arms", begun.arms != asked.arms),
        ("its meter", begun.meter != asked.meter),
        ("its lengths or repeats", true),
    ];
    let differs = differences.iter().find(|(_, differs)| *differs).map_or("", |(what, _)| what);
    let what = format!("going on with the study in {}", folder.display());
    Error::usage(what, format!("another one began there, which differs in {differs}"))
        .remedy("give the command that began it, use another --out, or begin anew with --fresh")
}

/// Runs an arm once, and says when it measured; `None` if it was interrupted.
fn attempt(
    planned: &Planned,
    repeat: u32,
    attempt: u32,
    may_retry: bool,
    (stop, gauge): (&AtomicBool, &Gauge),
) -> Option<(Row, Reading<Span>)> {
    let Planned { arm, plan, peer } = planned;
    let started_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let names: Vec<&str> = plan.targets.iter().map(Target::name).collect();
    let base = Row {
        targets: names.join(", "),
        cpus: plan.placement.cpus.as_ref().map(ToString::to_string),
        spoll_cpus: plan.placement.spoll_cpus.as_ref().map(ToString::to_string),
        attempt,
        started_unix_s,
        ..Row::new(arm.clone(), repeat)
    };
    if let Some(peer) = peer {
        let from = Instant::now();
        return match peers::run(base.clone(), plan, peer, stop) {
            Ok(row) => {
                let span = energy::peer_span(from, Instant::now(), plan.warmup, row.elapsed_s);
                Some((row, span))
            }
            Err(_) if stop.load(Ordering::Relaxed) => None,
            Err(error) => Some(worthless(base, &error)),
        };
    }
    let outcome = match run_seen(plan, stop, gauge) {
        Ok(outcome) if outcome.interrupted => return None,
        Ok(outcome) => outcome,
        Err(_) if stop.load(Ordering::Relaxed) => return None,
        Err(error) => return Some(worthless(base, &error)),
    };
    let mut row = measured_row(base, plan, outcome.clone());
    match judge::worth(plan, &outcome) {
        Worth::Good => {}
        Worth::Disturbed(why) if may_retry && attempt < RETRIES => row.worthless = Some(why),
        Worth::Disturbed(why) => row.warnings.push(format!("measured on a disturbed machine: {why}")),
        Worth::Invalid(why) => row.worthless = Some(why),
    }
    Some((row, plan.keeps_real_time().map(|()| outcome.span)))
}

fn worthless(base: Row, error: &Error) -> (Row, Reading<Span>) {
    (Row { worthless: Some(error.to_string()), ..base }, Err(Unavailable::new("the run failed")))
}

fn measured_row(base: Row, plan: &RunPlan, outcome: RunOutcome) -> Row {
    let syscalls = record::syscalls_source(&outcome);
    let telemetry = match plan.keeps_real_time() {
        Ok(()) => outcome.telemetry.clone(),
        Err(why) => RunTelemetry::unavailable(&why),
    };
    let cpu = telemetry.cpu.as_ref().ok();
    let mut sources = telemetry.sources;
    sources.insert("syscalls_per_io".into(), syscalls);
    Row {
        elapsed_s: outcome.tally.elapsed_ns() as f64 / 1e9,
        ios: outcome.tally.ios,
        errors: outcome.tally.errors,
        bytes: outcome.tally.bytes,
        mean_ns: (!outcome.tally.latency.is_empty()).then(|| outcome.tally.latency.mean()),
        user_s: cpu.map(|cpu| cpu.user_s),
        system_s: cpu.map(|cpu| cpu.system_s),
        kernel_threads_s: cpu.and_then(|cpu| cpu.kernel_threads_s.as_ref().ok().copied()),
        threads: telemetry.threads,
        interrupt_s: telemetry.interrupt_s,
        device_interrupts: telemetry.device_interrupts,
        context_switches: cpu.map(|cpu| cpu.context_switches),
        syscalls_per_io: record::syscalls_per_io(&outcome),
        cycles: telemetry.cycles,
        instructions: telemetry.instructions,
        cache_references: telemetry.cache_references,
        cache_misses: telemetry.cache_misses,
        frequency_hz: telemetry.frequency_hz,
        throttled: telemetry.throttled,
        memory_bytes: telemetry.memory_bytes,
        numa_nodes: telemetry.numa_nodes,
        sources,
        warnings: record::outcome_warnings(plan, &outcome),
        latency: outcome.tally.latency,
        submit: outcome.submit,
        rates: outcome.rates,
        ..base
    }
}

/// Which runs have been made, and which are wanted still.
struct Runs {
    /// By arm and repeat: attempts, why the last was worth nothing.
    made: HashMap<(usize, u32), (u32, Option<String>)>,
    /// Arms of which a repeat could not be had.
    given_up: Vec<bool>,
    retries: usize,
}

impl Runs {
    fn new(planned: &[Planned], rows: &[Row]) -> Self {
        let mut runs = Self { made: HashMap::new(), given_up: vec![false; planned.len()], retries: 0 };
        let index: HashMap<String, usize> =
            planned.iter().enumerate().map(|(index, planned)| (planned.arm.to_string(), index)).collect();
        for row in rows {
            if let Some(index) = index.get(&row.arm.to_string()) {
                runs.note(*index, row);
            }
        }
        runs
    }

    fn note(&mut self, index: usize, row: &Row) {
        let made = self.made.entry((index, row.repeat)).or_default();
        *made = (made.0 + 1, row.worthless.clone());
        self.retries += usize::from(row.worthless.is_some());
        self.given_up[index] |= gives_up(row, made.0);
    }

    fn wants(&self, index: usize, repeat: u32) -> bool {
        let had = self.made.get(&(index, repeat)).is_some_and(|(_, trouble)| trouble.is_none());
        !had && !self.given_up[index]
    }

    fn attempts(&self, index: usize, repeat: u32) -> u32 {
        self.made.get(&(index, repeat)).map_or(0, |(attempts, _)| *attempts)
    }

    fn may_retry(&self, total: usize) -> bool {
        (self.retries as f64) < RETRIES_SHARE * total as f64
    }
}

/// The numbers below `count` in an order of chance (Fisher and Yates).
fn shuffled(count: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = ((u128::from(random.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        order.swap(last, other);
    }
    order
}
