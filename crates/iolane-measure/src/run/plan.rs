//! What one run does, and the proof that it can be done: `RunPlan` is what a caller asks for, `CheckedPlan` what the run
//! takes. Commands and studies check their plans here; nothing here opens a queue that outlives the check.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use iolane::capability::check_depth;
use iolane::units::{Bytes, CpuList};
use iolane::{Capabilities, Error, IoPath, Operations, Pages, PathMemory, Result, Target};

use crate::clock::RealClock;
use crate::engine::Engine;
use crate::pace::Pace;
use crate::placement::Placement;
use crate::telemetry::{Reading, Unavailable};
use crate::workload::{Rate, ThreadShare, Workload};

/// Set-up, two short phases, and the end of tracing.
const SET_UP: Duration = Duration::from_millis(220);

/// How long the floor of a rate is measured.
pub(super) const FLOOR: Duration = Duration::from_millis(250);

/// The most threads of a run; also fio's limit of jobs (`REAL_MAX_JOBS`). Some tens of thousands exhaust the memory mappings
/// that Linux gives a process (`vm.max_map_count`), and a thread that cannot map its signal stack ends the process.
pub const THREADS_MAX: usize = 4096;

/// One arm: path, targets, workload, threads and lengths. [`check`](Self::check) makes it runnable.
#[derive(Debug, Clone)]
pub struct RunPlan {
    pub path: IoPath,
    /// Thread `i` uses target `i` modulo the number of targets.
    pub targets: Vec<Target>,
    pub workload: Workload,
    /// Threads, each with a queue of its own; at least one per target.
    pub threads: usize,
    pub placement: Placement,
    /// Length of the measured phase.
    pub runtime: Duration,
    /// Length of the load that precedes it and is not measured.
    pub warmup: Duration,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Whether the targets hold generation 0 of the workload's seed, as a scratch file does.
    pub prefilled: bool,
    /// With --verify and a load that only writes: whether what was written is read back and checked after the measured
    /// phase. Without it, a later run can check it.
    pub read_back: bool,
    /// Whether telemetry is read around the measured phase. Without it a run shows what reading telemetry costs.
    pub watched: bool,
    /// What the queues of `auto` begin with, and add to.
    pub memory: Option<PathMemory>,
}

/// A plan that was checked against its path and its targets, with the capabilities found. Only
/// [`RunPlan::check`] and [`RunPlan::check_with`] make one.
#[derive(Debug, Clone)]
pub struct CheckedPlan {
    plan: RunPlan,
    /// Of the path on the first target.
    capabilities: Capabilities,
}

/// Results of probing, so that plans which share a path and targets probe each pair once: probing io_uring sets up a
/// ring. Targets are known by their names, which must therefore be distinct.
#[derive(Debug, Default)]
pub struct Probes {
    capabilities: HashMap<(IoPath, String), Capabilities>,
}

impl Probes {
    /// What a path can do on a target.
    ///
    /// # Errors
    /// As [`iolane::probe`]. Failures are not remembered.
    pub fn probe(&mut self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        let key = (path.clone(), target.name().to_owned());
        if let Some(known) = self.capabilities.get(&key) {
            return Ok(known.clone());
        }
        let capabilities = iolane::probe(path, target)?;
        self.capabilities.insert(key, capabilities.clone());
        Ok(capabilities)
    }
}

impl CheckedPlan {
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// What the path can do on the first target.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The same plan at another rate. It must have one: what a rate contradicts was checked with it.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        assert!(self.plan.workload.rate.is_some(), "the plan was checked without a rate");
        self.plan.workload.rate = Some(rate);
        self
    }

    /// The same plan with another length of the measured phase, the only part that no check depends on.
    #[must_use]
    pub fn with_runtime(mut self, runtime: Duration) -> Self {
        self.plan.runtime = runtime;
        self
    }
}

impl RunPlan {
    /// A watched run with a thread for each target, on CPUs of the scheduler's choice, without a warm-up, on targets whose
    /// content is not known.
    pub fn new(path: IoPath, targets: Vec<Target>, workload: Workload, runtime: Duration) -> Self {
        Self {
            path,
            threads: targets.len(),
            targets,
            workload,
            placement: Placement::default(),
            runtime,
            warmup: Duration::ZERO,
            pages: Pages::Base,
            prefilled: false,
            read_back: true,
            watched: true,
            memory: None,
        }
    }

    /// Checks everything that can be known before the run, on every target.
    ///
    /// # Errors
    /// `Usage` for a workload that is contradictory or does not fit a target, `Unavailable` if the path cannot be used on
    /// one of them.
    pub fn check(self) -> Result<CheckedPlan> {
        self.check_with(&mut Probes::default())
    }

    /// As [`check`](Self::check), with the results of earlier probes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_with(self, probes: &mut Probes) -> Result<CheckedPlan> {
        self.workload.validate()?;
        iolane::interface_of(&self.path)?.validate(&self.path)?;
        self.check_verify()?;
        self.check_threads()?;
        let mut first = None;
        for target in &self.targets {
            self.check_target(target)?;
            let capabilities = probes.probe(&self.path, target)?;
            self.check_capabilities(target, &capabilities)?;
            first.get_or_insert(capabilities);
        }
        let capabilities = first.ok_or_else(|| Error::usage("run", "there is no target"))?;
        Ok(CheckedPlan { plan: self, capabilities })
    }

    /// Time that a run takes besides warm-up and measurement: set-up, the short phases, the floor of a rate, and reading
    /// back, which is assumed to take as long as writing.
    pub fn overhead(&self) -> Duration {
        let floor = if self.workload.rate.is_some() { FLOOR } else { Duration::ZERO };
        let read_back = if self.reads_back() { self.warmup + self.runtime } else { Duration::ZERO };
        SET_UP + floor + read_back
    }

    /// Whether blocks are read back and checked after the measured phase.
    pub fn reads_back(&self) -> bool {
        self.workload.verify && self.read_back && !self.workload.access.reads()
    }

    /// Whether reads are checked, during the measured phase or after it.
    pub fn checks_reads(&self) -> bool {
        self.workload.verify && (self.workload.access.reads() || self.read_back)
    }

    /// Whether its time is the machine's, and otherwise why not: telemetry and meters have no meaning in virtual time.
    ///
    /// # Errors
    /// If a target is simulated.
    pub fn keeps_real_time(&self) -> Reading<()> {
        match self.targets.iter().any(|target| target.kind().has_virtual_time()) {
            false => Ok(()),
            true => Err(Unavailable::new("the target is simulated and runs in virtual time")),
        }
    }

    fn check_target(&self, target: &Target) -> Result<()> {
        let bytes = self.region_bytes(target)?;
        self.workload.block_sizes.check(target.name(), target.block_bytes(), bytes)?;
        let (align, block_bytes) = (self.workload.align_bytes(), target.block_bytes());
        if !align.is_multiple_of(block_bytes) {
            let cause = format!("{} has blocks of {}", target.name(), Bytes(block_bytes.into()));
            return Err(Error::usage(format!("--align {}", Bytes(align.into())), cause)
                .remedy(format!("use a multiple of {}", Bytes(block_bytes.into()))));
        }
        if self.workload.access.writes() && !target.writable() {
            return Err(Error::usage(
                format!("--rw {} on {}", self.workload.access, target.name()),
                "the target was opened for reading",
            ));
        }
        if self.workload.durable && !target.durable() {
            return Err(Error::usage(
                format!("--durable on {}", target.name()),
                "the target was opened without O_DSYNC",
            ));
        }
        Ok(())
    }

    fn check_capabilities(&self, target: &Target, capabilities: &Capabilities) -> Result<()> {
        let mut required = Engine::<RealClock>::required_operations(&self.workload);
        if self.reads_back() {
            required = required.with(Operations::READ);
        }
        let missing = required.without(capabilities.operations);
        if missing != Operations::default() {
            return Err(Error::usage(
                format!("{} on {}", self.path, target.name()),
                format!("this path does not support {missing}"),
            )
            .remedy("choose another path or workload"));
        }
        let request_bytes_max = capabilities.request_bytes_max.unwrap_or(u64::MAX);
        if u64::from(self.workload.block_sizes.max()) > request_bytes_max {
            let what = format!("{} on {} with blocks of {}", self.path, target.name(), self.workload.block_sizes);
            let cause = format!("a request on this path moves at most {request_bytes_max} bytes here");
            return Err(Error::unavailable(what, cause).remedy("use smaller blocks, or another path"));
        }
        check_depth(&self.path, self.workload.depth, capabilities.depth_max)
    }

    fn check_threads(&self) -> Result<()> {
        if self.threads == 0 {
            return Err(Error::usage("--threads 0", "a run needs at least one thread"));
        }
        if self.threads > THREADS_MAX {
            return Err(Error::usage(format!("--threads {}", self.threads), "a run has too many threads")
                .remedy(format!("use --threads {THREADS_MAX} or less")));
        }
        if self.targets.len() > self.threads {
            let cause = format!("{} targets need a thread each", self.targets.len());
            return Err(Error::usage(format!("--threads {}", self.threads), cause)
                .remedy(format!("use --threads {} or more", self.targets.len())));
        }
        let mut clocks = self.targets.iter().map(iolane::sim::clock);
        let first = clocks.next();
        if !clocks.all(|clock| Some(clock) == first) {
            return Err(Error::usage("simulated targets", "each has a clock of its own")
                .remedy("give all targets of the run the same world (sim:64m,world=NAME)"));
        }
        Ok(())
    }

    /// Refuses a --verify of a target that keeps nothing, and of a scratch file in blocks that its content is not made of.
    fn check_verify(&self) -> Result<()> {
        let sizes = &self.workload.block_sizes;
        if !self.workload.verify {
            return Ok(());
        }
        if let Some(target) = self.targets.iter().find(|target| !target.kind().keeps_data()) {
            return Err(Error::usage(format!("--verify on {}", target.name()), "it keeps nothing of what is written")
                .remedy("name another target"));
        }
        if self.prefilled && !self.knows_content() {
            let cause = "a scratch file is filled and checked in units of 512 bytes";
            return Err(Error::usage(format!("--verify with --rw {} --bs {sizes}", self.workload.access), cause)
                .remedy("use blocks of 512 bytes or a multiple, or write as well (--rw randrw)"));
        }
        Ok(())
    }

    /// Whether the content of the targets is known for verification: this run writes it, or the targets hold that of a
    /// scratch file in units that the blocks are made of, and keep it. Otherwise an earlier run wrote it.
    pub(super) fn knows_content(&self) -> bool {
        let sectors = self.workload.block_sizes.min().is_multiple_of(512);
        self.workload.access.writes() || (self.prefilled && sectors)
    }

    /// Bytes of a target that are used, from the start of the workload.
    pub(super) fn region_bytes(&self, target: &Target) -> Result<u64> {
        let start = self.workload.start;
        let has = format!("{} has {}", target.name(), Bytes(target.bytes()));
        match (target.bytes().checked_sub(start), self.workload.size) {
            (None | Some(0), _) if start > 0 => {
                Err(Error::usage(format!("--start {}", Bytes(start)), has).remedy("use a smaller --start"))
            }
            (Some(left), Some(size)) if size > left => {
                let from = if start > 0 { format!(" from {}", Bytes(start)) } else { String::new() };
                Err(Error::usage(format!("--size {}{from}", Bytes(size)), has)
                    .remedy("use a smaller --size, or leave it out to use the whole target"))
            }
            (left, size) => Ok(size.or(left).unwrap_or(0)),
        }
    }

    /// The CPUs of its threads and of the submission threads of its path; `None` where the scheduler chooses.
    pub fn cpus(&self) -> Option<CpuList> {
        let sqpoll_cpus = self.placement.sqpoll_cpus.as_ref().filter(|_| self.path.polls_submissions());
        let lists = [Some(self.placement.cpus.as_ref()?), sqpoll_cpus];
        Some(lists.into_iter().flatten().flat_map(|list| list.cpus()).copied().collect())
    }

    /// When the requests of a thread are due; `None` without a rate.
    pub(super) fn pace(&self, thread: usize) -> Option<Pace> {
        let cpus = self.placement.cpus.as_ref().map_or_else(
            || std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            |list| list.cpus().iter().collect::<HashSet<_>>().len(),
        );
        Pace::of(&self.workload, thread, self.threads, self.threads <= cpus)
    }

    pub(super) fn target_of(&self, thread: usize) -> &Target {
        &self.targets[thread % self.targets.len()]
    }

    /// Which share of its target a thread has.
    pub(super) fn share(&self, thread: usize) -> ThreadShare {
        assert!(thread < self.threads, "thread {thread} of {}", self.threads);
        let targets = self.targets.len();
        let on_this_target = (self.threads - thread % targets).div_ceil(targets);
        ThreadShare { index: (thread / targets) as u32, count: on_this_target as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Access;

    fn plan(path: &str, targets: &[&str]) -> RunPlan {
        let targets = targets.iter().map(|target| Target::open(target).unwrap()).collect();
        RunPlan::new(IoPath::new(path), targets, Workload::default(), Duration::from_secs(1))
    }

    #[track_caller]
    fn refused(plan: RunPlan) -> String {
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn plans_on_the_same_path_and_target_probe_it_once() {
        let mut probes = Probes::default();
        for depth in [1, 2, 4] {
            let workload = Workload { depth, ..Workload::default() };
            let checked = RunPlan { workload, ..plan("null", &["null"]) }.check_with(&mut probes).unwrap();
            assert_eq!(checked.plan().workload.depth, depth);
            assert_eq!(probes.capabilities.len(), 1);
        }
        assert!(plan("sim", &["null"]).check_with(&mut probes).is_err());
        assert_eq!(probes.capabilities.len(), 1, "a failure was remembered");
    }

    #[test]
    fn another_runtime_leaves_a_plan_checked_and_otherwise_unchanged() {
        let checked = plan("null", &["null"]).check().unwrap();
        let longer = checked.clone().with_runtime(Duration::from_secs(9));
        assert_eq!(longer.plan().runtime, Duration::from_secs(9));
        let back = longer.with_runtime(checked.plan().runtime);
        assert_eq!(format!("{back:?}"), format!("{checked:?}"));
    }

    #[test]
    fn threads_must_fit_the_targets() {
        assert!(refused(plan("null", &[])).contains("at least one thread"));
        let two = RunPlan { threads: 1, ..plan("null", &["null", "null"]) };
        assert!(refused(two).contains("use --threads 2 or more"));
        let apart = plan("sim", &["sim:16m", "sim:16m,seed=2"]);
        assert!(refused(apart).contains("the same world"));
        plan("sim", &["sim:16m,world=plan", "sim:16m,world=plan,seed=2"]).check().unwrap();
    }

    #[test]
    fn a_scratch_file_is_not_verified_in_blocks_that_its_content_is_not_made_of() {
        let plan = |block_sizes: &str, prefilled| {
            let workload = Workload { verify: true, block_sizes: block_sizes.parse().unwrap(), ..Workload::default() };
            RunPlan { workload, prefilled, ..plan("sim", &["sim:16m"]) }
        };
        assert!(refused(plan("1000", true)).contains("--verify with --rw randread --bs 1000"));
        assert!(!refused(plan("1000", false)).contains("--verify"));
        assert!(plan("1k", true).check().is_ok());
    }

    #[test]
    fn a_target_that_keeps_nothing_is_not_verified() {
        let workload = Workload { access: Access::RandRw, verify: true, ..Workload::default() };
        assert!(refused(RunPlan { workload, ..plan("null", &["null"]) }).contains("it keeps nothing"));
    }

    #[test]
    fn only_verified_writes_are_read_back_and_take_their_time_again() {
        let plan = |access, verify, read_back| {
            let workload = Workload { access, verify, ..Workload::default() };
            RunPlan { workload, read_back, ..plan("null", &["null"]) }
        };
        let of = |plan: RunPlan| (plan.reads_back(), plan.checks_reads(), plan.overhead() > plan.runtime);
        assert_eq!(of(plan(Access::RandWrite, true, true)), (true, true, true));
        assert_eq!(of(plan(Access::Write, true, false)), (false, false, false));
        assert_eq!(of(plan(Access::Write, false, true)), (false, false, false));
        assert_eq!(of(plan(Access::RandRw, true, true)), (false, true, false));
        assert_eq!(of(plan(Access::Read, true, true)), (false, true, false));
    }

    #[test]
    fn threads_on_one_target_share_it_completely() {
        let plan = RunPlan { threads: 5, ..plan("null", &["null", "null"]) };
        let shares: Vec<(u32, u32)> = (0..5).map(|thread| plan.share(thread)).map(|s| (s.index, s.count)).collect();
        assert_eq!(shares, [(0, 3), (0, 2), (1, 3), (1, 2), (2, 3)]);
    }
}
