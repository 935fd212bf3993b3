//! What a queue of `auto` takes from a memory of paths, and gives to it: candidates by name there, by number here.

use iolane_core::{AutoOptions, IoPath, KnownLoad, PathMemory, Target};
use iolane_policy::{Cost, Known, Load};

/// A memory, and the place in it that a queue is at.
pub(super) struct Recall {
    memory: PathMemory,
    place: String,
}

impl Recall {
    /// At the place of a target, for queues that choose among the same paths for the same goal.
    pub(super) fn new(memory: &PathMemory, target: &Target, options: AutoOptions, has_pool: bool) -> Self {
        Self { memory: memory.clone(), place: place(target, options, has_pool) }
    }

    /// What is known of these candidates.
    pub(super) fn known(&self, candidates: &[&IoPath]) -> Vec<Known> {
        let of_load = |load: KnownLoad| {
            let cost = |path: &&IoPath| {
                let found = load.costs.iter().find(|(known, _)| known == *path);
                found.map(|(_, [first, second, cores])| Cost { first: *first, second: *second, cores: *cores })
            };
            Known { load: Load::new(load.request_bytes, load.in_flight), costs: candidates.iter().map(cost).collect() }
        };
        self.memory.at(&self.place).into_iter().map(of_load).collect()
    }

    /// Adds what was learnt of these candidates.
    pub(super) fn note(&self, candidates: &[&IoPath], known: Vec<Known>) {
        let of_load = |Known { load, costs }: Known| {
            let mut learnt = KnownLoad::new(load.request_bytes(), load.in_flight());
            let measured = candidates.iter().zip(costs).filter_map(|(path, cost)| Some(((*path).clone(), cost?)));
            // A path on which nothing completed says nothing of its cost.
            let measured = measured.filter(|(_, cost)| cost.first.is_finite() && cost.second.is_finite());
            learnt.costs = measured.map(|(path, cost)| (path, [cost.first, cost.second, cost.cores])).collect();
            learnt
        };
        self.memory.note(&self.place, known.into_iter().map(of_load).collect());
    }
}

/// The kernel, the drive, the goal, and what decides which paths are candidates.
fn place(target: &Target, options: AutoOptions, has_pool: bool) -> String {
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy();
    let cache = if target.direct() { "direct" } else { "cached" };
    let pool = if has_pool { "pool" } else { "no pool" };
    let cores = options.cores_max_percent.map_or_else(String::new, |percent| format!(" cores {percent} %"));
    let sqpoll = if options.no_sqpoll { " nosqpoll" } else { "" };
    format!("{kernel} {} {cache} {} {pool}{cores}{sqpoll}", drive(target), options.goal.unwrap_or_default())
}

/// The drive by its name and size, or what else is known of it. A partition counts as its drive.
fn drive(target: &Target) -> String {
    let kind = target.kind().name();
    let Some((major, minor)) = target.device() else { return kind.to_owned() };
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok();
    let disk = folder.map(|folder| match (folder.join("partition").exists(), folder.parent()) {
        (true, Some(disk)) => disk.to_owned(),
        _ => folder,
    });
    let name = disk.as_ref().and_then(|disk| Some(disk.file_name()?.to_string_lossy().into_owned()));
    let sectors = disk.and_then(|disk| std::fs::read_to_string(disk.join("size")).ok());
    match (name, sectors) {
        (Some(name), Some(sectors)) => format!("{kind} {name} {}", sectors.trim()),
        _ => format!("{kind} {major}:{minor}"),
    }
}
