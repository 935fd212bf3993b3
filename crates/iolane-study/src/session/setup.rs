//! The set-up that must be equal for an interrupted study to continue: the first line of its journal. Typed, so that a
//! journal from before a path or a field was renamed still continues: old names of paths are parsed as aliases, and a
//! renamed field keeps its old name as a serde alias.

use std::collections::HashSet;

use iolane_measure::host::Host;
use iolane_measure::placement::Placement;
use iolane_measure::workload::Workload;
use serde::{Deserialize, Serialize};

use crate::plan::Arm;
use crate::run_record::TargetRecord;

/// The set-up of a study, and the length of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) study: String,
    pub(super) targets: Vec<TargetRecord>,
    #[serde(default)]
    pub(super) placement: Option<Pinning>,
    pub(super) kernel: String,
    /// `None` in a journal of an older version.
    #[serde(default)]
    pub(super) machine: Option<Machine>,
    pub(super) repeats: usize,
    pub(super) warmup_ns: u64,
    pub(super) asked_runtime_ns: Option<u64>,
    pub(super) asked_time_ns: u64,
    pub(super) arms: Vec<Arm>,
    /// The bound of a rate search.
    #[serde(default)]
    pub(super) rate_until: Option<String>,
    #[serde(default)]
    pub(super) meter: String,
    /// The runtime computed from `asked_time`: reused, and not compared.
    pub(super) runtime_ns: u64,
}

/// The machine. A folder of results can be on a disk that several share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    arch: String,
    cpu_model: Option<String>,
    cpus_online: Option<String>,
}

impl Machine {
    pub(super) fn of(host: Host) -> Self {
        let Host { arch, cpu_model, cpus_online, .. } = host;
        Self { arch, cpu_model, cpus_online }
    }
}

/// A placement as lists of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pinning {
    cpus: Option<String>,
    #[serde(alias = "spoll_cpus")]
    sqpoll_cpus: Option<String>,
}

impl Pinning {
    pub(super) fn new(placement: &Placement) -> Self {
        Self {
            cpus: placement.cpus.as_ref().map(ToString::to_string),
            sqpoll_cpus: placement.sqpoll_cpus.as_ref().map(ToString::to_string),
        }
    }
}

impl Setup {
    /// The first difference between the set-up in the journal and the one asked for; `None` if the study can continue.
    pub(super) fn differs_in(&self, asked: &Self) -> Option<&'static str> {
        // Names every field, so that the compiler demands a comparison for each new one.
        let Self {
            study,
            targets,
            placement,
            kernel,
            machine,
            repeats,
            warmup_ns,
            asked_runtime_ns,
            asked_time_ns,
            arms,
            rate_until,
            meter,
            runtime_ns: _,
        } = self;
        let differences = [
            ("its name", *study != asked.study),
            ("its bound", *rate_until != asked.rate_until),
            ("its targets", *targets != asked.targets),
            ("the kernel", *kernel != asked.kernel),
            ("the machine", machine.is_some() && *machine != asked.machine),
            ("its workload", workloads(arms) != workloads(&asked.arms)),
            ("its placement", *placement != asked.placement),
            ("its arms", *arms != asked.arms),
            ("its meter", *meter != asked.meter),
            ("its repeats", *repeats != asked.repeats),
            (
                "the lengths of its runs",
                (warmup_ns, asked_runtime_ns, asked_time_ns)
                    != (&asked.warmup_ns, &asked.asked_runtime_ns, &asked.asked_time_ns),
            ),
        ];
        differences.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what)
    }
}

/// The workloads of the arms, but for their depths.
fn workloads(arms: &[Arm]) -> HashSet<Workload> {
    arms.iter().map(|arm| Workload { depth: 0, ..arm.workload.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setup() -> Setup {
        let workload = Workload { size: Some(1 << 20), ..Workload::default() };
        let arm = Arm { path: "io_uring+sqpoll+iopoll".parse().unwrap(), workload, ..Arm::of_null("fast") };
        Setup {
            study: "own".into(),
            targets: vec![TargetRecord { kind: "file".into(), name: "f".into(), ..TargetRecord::default() }],
            placement: Some(Pinning { cpus: Some("0".into()), sqpoll_cpus: Some("1".into()) }),
            kernel: "7.2".into(),
            machine: Some(Machine { arch: "x86_64".into(), cpu_model: None, cpus_online: Some("0-1".into()) }),
            repeats: 5,
            warmup_ns: 1,
            asked_runtime_ns: None,
            asked_time_ns: 3,
            arms: vec![arm],
            rate_until: None,
            meter: "auto".into(),
            runtime_ns: 4,
        }
    }

    #[test]
    fn a_journal_from_before_paths_and_fields_were_renamed_continues() {
        let mut old = serde_json::to_value(setup()).unwrap();
        old["arms"][0]["path"] = json!("iou+spoll+cpoll");
        old["placement"] = json!({"cpus": "0", "spoll_cpus": "1"});
        let old: Setup = serde_json::from_value(old).unwrap();
        assert_eq!(old.differs_in(&setup()), None);
    }

    #[test]
    fn a_field_that_an_older_version_did_not_have_is_its_default() {
        let mut old = serde_json::to_value(setup()).unwrap();
        old["arms"][0].as_object_mut().unwrap().remove("think_us").unwrap();
        old.as_object_mut().unwrap().remove("machine").unwrap();
        let old: Setup = serde_json::from_value(old).unwrap();
        assert_eq!(old.differs_in(&setup()), None);
    }

    #[test]
    fn each_difference_is_named_but_that_of_the_runtime() {
        let with = |change: fn(&mut Setup)| {
            let mut asked = setup();
            change(&mut asked);
            setup().differs_in(&asked)
        };
        assert_eq!(with(|asked| asked.runtime_ns = 9), None);
        assert_eq!(with(|asked| asked.arms[0].workload.size = None), Some("its workload"));
        assert_eq!(with(|asked| asked.arms[0].workload.seed = 2), Some("its workload"));
        assert_eq!(with(|asked| asked.arms[0].workload.depth = 2), Some("its arms"));
        assert_eq!(with(|asked| asked.kernel.clear()), Some("the kernel"));
        assert_eq!(with(|asked| asked.machine.as_mut().unwrap().cpus_online = Some("0-3".into())), Some("the machine"));
        assert_eq!(with(|asked| asked.placement = None), Some("its placement"));
        assert_eq!(with(|asked| asked.arms[0].threads = 2), Some("its arms"));
        assert_eq!(with(|asked| asked.targets.clear()), Some("its targets"));
        assert_eq!(with(|asked| asked.repeats = 6), Some("its repeats"));
        assert_eq!(with(|asked| asked.asked_time_ns = 9), Some("the lengths of its runs"));
    }
}
