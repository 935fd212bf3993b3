//! The machine of a record, as the model needs it: cores, SMT, NUMA nodes, scheduler. What no record has is assumed, and noted.

use iolane::units::CpuList;
use iolane::{Error, Result};
use iolane_measure::host::Host;
use iolane_model::{Processor, Scheduler, SchedulerKind};

use crate::run_record::TargetRecord;

/// Ticks per second of most distributions' kernels.
const HZ: u32 = 250;
/// Two hardware threads of a core together do a quarter more than one.
const SMT_SPEED: f64 = 0.62;

/// The processor and the scheduler of a machine.
pub(super) struct Facts {
    pub(super) processor: Processor<Option<f64>>,
    pub(super) scheduler: Scheduler,
    /// What was assumed, and what to know of the machine.
    pub(super) notes: Vec<String>,
}

impl Facts {
    /// Those of a record; `numa_nodes` is the list of nodes, such as `0-1`.
    ///
    /// # Errors
    /// `Failed` if it does not tell how many CPUs there were.
    pub(super) fn of(host: &Host, numa_nodes: Option<&str>, place: &str) -> Result<Self> {
        let count = |list: &str| list.parse::<CpuList>().map_or(0, |list| list.cpus().len());
        let cores = host.cpus_online.as_deref().map_or(0, count);
        if cores == 0 {
            return Err(Error::failed(place, "it does not tell how many CPUs the machine had")
                .remedy("measure again with this version of iolane"));
        }
        let smt = host.smt.unwrap_or(false) && cores > 1;
        let nodes = numa_nodes.map_or(1, count).clamp(1, cores);
        let mut notes =
            vec![format!("the record has no CONFIG_HZ: {HZ} ticks per second are assumed (scheduler.hz in the file)")];
        if smt {
            notes.push(format!(
                "two hardware threads share a core: each is assumed to keep {SMT_SPEED} of its speed beside the other \
                 (processor.smt_speed in the file)"
            ));
        }
        if host.hypervisor == Some(true) || host.lab.is_some() {
            notes.push(
                "it was measured in a virtual machine: costs are those of this machine, hypervisor included".into(),
            );
        }
        Ok(Self {
            processor: Processor { cores, nodes, smt, smt_speed: SMT_SPEED, idle_exit_ns: None },
            scheduler: Scheduler { kind: scheduler(&host.kernel_release), hz: HZ },
            notes,
        })
    }
}

/// EEVDF replaced CFS in Linux 6.6. A release that cannot be read counts as new.
fn scheduler(release: &str) -> SchedulerKind {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (6, 6) => SchedulerKind::Cfs,
        _ => SchedulerKind::Eevdf,
    }
}

/// Why results of these targets tell the model nothing; `None` if they do.
pub(super) fn why_not_targets(targets: &[TargetRecord]) -> Option<String> {
    let cached = |target: &&TargetRecord| matches!(target.kind.as_str(), "file" | "block") && !target.direct;
    targets
        .iter()
        .find(cached)
        .map(|target| format!("{} was read through the page cache, which the model leaves out", target.name))
}

/// What to know of the targets.
pub(super) fn note_of_targets(targets: &[TargetRecord]) -> Option<String> {
    targets
        .iter()
        .any(|target| target.kind == "file")
        .then(|| "a file was measured: costs include those of its file system".to_owned())
}

/// What a machine is called.
pub(super) fn name(of: &str, host: &Host) -> String {
    let cpu = host.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!("{of}: {cpu}, Linux {}", host.kernel_release).replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(cpus: &str, release: &str, smt: bool) -> Host {
        Host { cpus_online: Some(cpus.into()), kernel_release: release.into(), smt: Some(smt), ..Host::default() }
    }

    #[test]
    fn the_scheduler_follows_from_the_release() {
        for (release, kind) in [
            ("6.1.0-41-amd64", SchedulerKind::Cfs),
            ("5.13.0", SchedulerKind::Cfs),
            ("6.5.3", SchedulerKind::Cfs),
            ("6.6.0-rc1", SchedulerKind::Eevdf),
            ("7.2", SchedulerKind::Eevdf),
            ("", SchedulerKind::Eevdf),
        ] {
            assert_eq!(scheduler(release), kind, "{release}");
        }
    }

    #[test]
    fn cores_and_nodes_are_counted_and_what_is_assumed_is_noted() {
        let facts = Facts::of(&host("0-3,8-11", "6.1", true), Some("0-1"), "a").unwrap();
        assert_eq!((facts.processor.cores, facts.processor.nodes, facts.processor.smt), (8, 2, true));
        assert!(facts.notes.iter().any(|note| note.contains("CONFIG_HZ: 250")), "{:?}", facts.notes);
        assert!(facts.notes.iter().any(|note| note.contains("0.62")), "{:?}", facts.notes);
        let error = Facts::of(&Host::default(), None, "results/a").err().unwrap().to_string();
        assert!(error.starts_with("results/a: ") && error.contains("how many CPUs"), "{error}");
    }
}
