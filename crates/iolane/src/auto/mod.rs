//! `auto`: a path that chooses among the others while it runs. The decisions are `iolane-policy`'s; here are the interface
//! (this file), the queue (`queue`), the queues below it (`lane`), what they take (`limits`), what is measured on them (`watch`), and
//! what other queues have measured (`recall`).

mod clock;
mod lane;
mod limits;
mod policy;
mod queue;
mod recall;
mod watch;

use iolane_core::{
    AutoOptions, Capabilities, Error, ErrorKind, Interface, IoPath, Queue, QueueConfig, Result, SyscallUse, Target,
};

use lane::{Lane, Moves, Residence, Stays};
use queue::AutoQueue;

pub(crate) struct Auto;

/// The interfaces of this module, for the registry.
pub(crate) static INTERFACES: &[&dyn Interface] = &[&Auto];

/// What takes everything that a target can do, the first that works: it carries what the path in use does not take.
const GENERAL: [&str; 4] = ["io_uring", "libaio", "psync", "io_uring_cmd"];

/// It makes a thread wake up for each request and is never the fastest, cheapest or quickest (systor22, figures 2 and 3).
const LEFT_OUT: &str = "posix_aio";

impl Interface for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn summary(&self) -> &'static str {
        "measures the other paths while it runs, takes the best, and changes when the load does"
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![IoPath::new(self.name())]
    }

    fn option_variants(&self) -> Vec<IoPath> {
        let mut restless = IoPath::new(self.name());
        restless.options.auto.restless = true;
        vec![restless]
    }

    fn chooses(&self) -> bool {
        true
    }

    fn syscall_use(&self, _path: &IoPath) -> SyscallUse {
        SyscallUse::Varies
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        let mut plain = IoPath::new(self.name());
        plain.options.auto = path.options.auto;
        if *path == plain {
            return Ok(());
        }
        Err(Error::usage(path.to_string(), "auto chooses modes and options itself")
            .remedy("write auto, with goal=, cores=, nosqpoll or noexplore, or name the path"))
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        probe_general(target)
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(Box::new(self.open_queue::<Stays>(path, target, config)?))
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        Ok(Box::new(self.open_queue::<Moves>(path, target, config)?))
    }
}

impl Auto {
    fn open_queue<R: Residence>(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<AutoQueue<R>> {
        self.validate(path)?;
        let general = open_general(target, config)?;
        let others = candidates(general.path(), target, config, path.options.auto);
        AutoQueue::open(general, others, path.options.auto, target, config)
    }
}

/// What can be done on a target: what the general path can.
fn probe_general(target: &Target) -> Result<Capabilities> {
    let mut refusal = None;
    for name in GENERAL {
        let path = IoPath::new(name);
        match lane::interface_of(&path).and_then(|interface| interface.probe(&path, target)) {
            // No descriptor tells of the completions of all queues.
            Ok(capabilities) => return Ok(capabilities.event_fd(false)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| Error::unavailable(format!("auto on {}", target.name()), "no path reaches it")))
}

/// The shortest time that a ring can be told.
const SUBMISSION_IDLE_MS: u32 = 1;

/// The general path, open. Nothing is read from the target.
fn open_general<R: Residence>(target: &Target, config: &QueueConfig) -> Result<Lane<R>> {
    let mut refusal = None;
    for name in GENERAL {
        let mut lane = Lane::new(IoPath::new(name));
        match lane.open_general(target, config) {
            Ok(()) => return Ok(lane),
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| Error::unavailable(format!("auto on {}", target.name()), "no path reaches it")))
}

/// The paths to choose from besides the general one. Where a path with registered memory differs in nothing else, it stands for the one without, if
/// there is memory to register: registering costs nothing per request (hotstorage23, figure 4).
fn candidates<R: Residence>(
    general: &IoPath,
    target: &Target,
    config: &QueueConfig,
    options: AutoOptions,
) -> Vec<Lane<R>> {
    let interfaces = iolane_kernel::INTERFACES.iter().filter(|interface| interface.own_target().is_none());
    let interfaces = interfaces.filter(|interface| interface.reaches(target.kind()) && interface.name() != LEFT_OUT);
    let all: Vec<IoPath> = interfaces.flat_map(|interface| interface.paths()).collect();
    let has_memory = !config.pools.is_empty();
    // Registered buffers save the most per request, and may cost as much on large ones: beside the general path, polled requests do without, too.
    let does_without = IoPath::new("io_uring").iopoll();
    let is_chosen = |path: &&IoPath| match path.options.fixed_buffers {
        true => has_memory,
        false => !has_memory || **path == does_without || !all.contains(&(*path).clone().registered()),
    };
    // Its polling can crash the kernel if the drive is reset (docs/decisions, 8): to be taken only if named.
    let is_safe = |path: &&IoPath| !(path.interface() == "io_uring_cmd" && path.asks_for_polling());
    let is_allowed = |path: &&IoPath| !(options.no_sqpoll && path.polls_submissions());
    let others = all.iter().filter(|path| *path != general).filter(is_safe).filter(is_allowed).filter(is_chosen);
    others.cloned().map(sleeping_soon).map(Lane::new).collect()
}

/// The same path, whose submission thread sleeps as soon as it can: lanes stay open while others are in use, and a program may rest.
fn sleeping_soon(mut path: IoPath) -> IoPath {
    path.options.sq_idle_ms = path.polls_submissions().then_some(SUBMISSION_IDLE_MS);
    path
}

#[cfg(test)]
mod tests {

    use iolane_core::{Operations, Pages, Pool, Request, TargetId};

    use super::*;

    /// A file of zeroes, without a name.
    pub(super) fn scratch(name: &str, bytes: u64) -> Target {
        let file = std::env::temp_dir().join(format!("iolane-auto-{name}-{}", std::process::id()));
        let target = Target::options().create(bytes).direct(false).open(&file).unwrap();
        let _ = std::fs::remove_file(&file);
        target
    }

    #[test]
    fn of_paths_with_and_without_registered_memory_one_is_a_candidate_and_of_polling_without_a_thread_both() {
        let target = scratch("candidates", 4096);
        let pool = Pool::new(1, 4096, Pages::Base).unwrap();
        let names = |config: &QueueConfig, options: AutoOptions| -> Vec<String> {
            let lanes = candidates::<Stays>(&IoPath::new("io_uring"), &target, config, options);
            lanes.iter().map(|lane| lane.path().to_string()).collect()
        };
        let config = QueueConfig::new(1).pool(&pool);
        let (with, without) =
            (names(&config, AutoOptions::default()), names(&QueueConfig::new(1), AutoOptions::default()));
        let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
        assert!(has(&with, "io_uring+iopoll,fixedbufs,fixedfiles") && has(&with, "io_uring+iopoll"), "{with:?}");
        assert!(!has(&with, "io_uring+sqpoll,fixedfiles,sqidle=1"), "{with:?}");
        assert!(
            has(&without, "io_uring+iopoll") && !without.iter().any(|name| name.contains("fixedbufs")),
            "{without:?}"
        );
        assert!([&with, &without].iter().all(|names| has(names, "psync") && has(names, "io_uring+hybrid")));
        assert!([&with, &without].iter().all(|names| !has(names, "io_uring") && !has(names, "posix_aio")));
        let none = names(&config, AutoOptions { no_sqpoll: true, ..AutoOptions::default() });
        assert!(none.len() > 3 && with.iter().any(|name| name.contains("sqpoll")), "{with:?}");
        // Its thread would spin for a second after each time that the path was tried.
        assert!(with.iter().all(|name| name.contains("sqpoll") == name.contains("sqidle=1")), "{with:?}");
        assert!(!none.iter().any(|name| name.contains("sqpoll")), "{none:?}");
    }

    #[test]
    fn a_target_of_another_kind_is_served_too_whatever_path_is_in_use() {
        // Two file systems differ in what they can do, if /dev/shm is one of its own.
        let folders = [std::env::temp_dir(), "/dev/shm".into()];
        let open = |folder: &std::path::PathBuf| {
            let file = folder.join(format!("iolane-auto-kinds-{}", std::process::id()));
            let target = Target::options().create(1 << 20).direct(false).open(&file);
            let _ = std::fs::remove_file(&file);
            target
        };
        let targets: Vec<Target> = folders.iter().filter_map(|folder| open(folder).ok()).collect();
        let pool = Pool::new(8, 4096, Pages::Base).unwrap();
        let config = QueueConfig::new(8).pool(&pool).targets(2);
        let mut queue = Auto.open(&"auto,restless".parse().unwrap(), &targets[0], &config).unwrap();
        let ids: Vec<TargetId> = std::iter::once(TargetId::FIRST)
            .chain(targets[1..].iter().map(|target| queue.attach(target).unwrap()))
            .collect();
        let discards = Auto.probe(&IoPath::new("auto"), targets.last().unwrap()).unwrap().operations;
        let mut completions = Vec::new();
        for round in 0..200 {
            for id in &ids {
                let (mut buffer, read) = (pool.take().unwrap(), pool.take().unwrap());
                buffer.fill(round as u8);
                let mut requests = vec![Request::write(0, 4096 * round, buffer).on(*id)];
                queue.submit(&mut requests);
                queue.drain(&mut completions).unwrap();
                requests.extend([Request::read(0, 4096 * round, read).on(*id), Request::fdatasync(0).on(*id)]);
                if *id == ids[ids.len() - 1] && discards.contains(Operations::DISCARD) {
                    requests.push(Request::discard(0, 512 << 10, 4096).on(*id));
                }
                queue.submit(&mut requests);
                queue.drain(&mut completions).unwrap();
                assert!(completions.iter().all(|completion| completion.result.is_ok()), "{completions:?}");
                completions.clear();
            }
        }
        assert!(queue.choices().unwrap().used.len() > 1, "{:?}", queue.choices());
    }

    #[test]
    fn as_many_requests_are_taken_by_a_turn_as_the_queue_has_room_for_whatever_path_is_in_use() {
        let target = scratch("turns", 1 << 20);
        let pool = Pool::new(8, 4096, Pages::Base).unwrap();
        let mut queue =
            Auto.open(&"auto,restless".parse().unwrap(), &target, &QueueConfig::new(8).pool(&pool)).unwrap();
        // psync takes one at a time, and is among the paths.
        let mut completions = Vec::new();
        for round in 0..400_usize {
            let count = round % 8 + 1;
            let read = |tag: usize| Request::read(tag as u64, 4096 * tag as u64, pool.take().unwrap());
            let mut requests: Vec<Request> = (0..count).map(read).collect();
            queue.turn(&mut requests, count, &mut completions).unwrap();
            assert!(requests.is_empty() && queue.in_flight() + completions.len() == count, "{round}: {completions:?}");
            queue.drain(&mut completions).unwrap();
            let mut tags: Vec<u64> = completions.drain(..).map(|completion| completion.tag).collect();
            tags.sort_unstable();
            assert!(tags.into_iter().eq(0..count as u64), "{round}");
        }
        assert!(queue.choices().unwrap().used.iter().any(|(path, _)| *path == IoPath::new("psync")));
    }

    #[test]
    fn a_queue_begins_with_what_an_earlier_one_has_learnt() {
        let target = scratch("memory", 1 << 20);
        let (pool, memory) = (Pool::new(1, 4096, Pages::Base).unwrap(), iolane_core::PathMemory::new());
        let config = QueueConfig::new(1).pool(&pool).memory(&memory);
        // Reads until the queue holds a path for this reason.
        let holds = |reason: &str| {
            let mut queue = Auto.open(&"auto".parse().unwrap(), &target, &config).unwrap();
            let mut completions = Vec::new();
            for _ in 0..10_000_000 {
                queue.turn(&mut vec![Request::read(0, 0, pool.take().unwrap())], 1, &mut completions).unwrap();
                completions.clear();
                if let Some(last) = queue.choices().unwrap().changes.last().filter(|last| last.reason.contains(reason))
                {
                    return (last.path.clone(), queue.choices().unwrap().changes.len());
                }
            }
            panic!("no path is held: {:?}", queue.choices());
        };
        let (best, changes) = holds("the best measured");
        assert!(changes > 3, "{changes}");
        let (remembered, changes) = holds("another queue has measured");
        assert_eq!((remembered, changes), (best, 2));
    }

    #[test]
    fn modes_and_options_are_its_own_choice() {
        for path in ["auto+iopoll", "auto,fixedbufs"] {
            let error = Auto.validate(&path.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains("chooses modes and options itself"), "{error}");
        }
    }
}
