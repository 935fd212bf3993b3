//! The differences between the machines and the settings of results: every fact in `study.json`, in words.

use iolane::units::Bytes;
use iolane_measure::host::{DeviceHost, FileSystem, Host, HugePages, Limit, Mitigations};
use iolane_measure::workload::Workload;
use serde::Serialize;

use crate::results::{Loaded, StudyReport};
use crate::run_record::TargetRecord;

/// A fact about the machine or the settings that differs between folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of the fact.
    pub what: &'static str,
    /// Its value in each folder; `unknown` where the kernel or that version of iolane did not report it.
    pub values: Vec<String>,
}

/// The facts that differ between folders, settings first.
pub(super) fn differences(folders: &[Loaded]) -> Vec<Difference> {
    let of_each: Vec<Vec<Fact>> = folders.iter().map(|folder| facts(&folder.document)).collect();
    let Some(first) = of_each.first() else { return Vec::new() };
    let difference = |(index, (what, _)): (usize, &Fact)| Difference {
        what,
        values: of_each.iter().map(|facts| facts[index].1.clone().unwrap_or_else(|| "unknown".into())).collect(),
    };
    let all = first.iter().enumerate().map(difference);
    all.filter(|difference| difference.values.iter().any(|value| *value != difference.values[0])).collect()
}

/// A fact and its value in words; `None` where the kernel or that version of iolane did not report it.
type Fact = (&'static str, Option<String>);

/// The facts of a folder, in the same order for each folder.
fn facts(report: &StudyReport) -> Vec<Fact> {
    let mut facts = settings(report);
    facts.extend(host(&report.host.host));
    facts.extend(device(report.host.device.clone().unwrap_or_default()));
    facts
}

fn settings(report: &StudyReport) -> Vec<Fact> {
    let seconds = |seconds: f64| Some(format!("{seconds:.2} s"));
    vec![
        ("study", Some(report.name.clone())),
        ("scale", Some(report.scale.name().into())),
        ("targets", Some(report.targets.iter().map(target).collect::<Vec<_>>().join(", "))),
        ("repeats", plain(Some(report.repeats))),
        ("runtime", seconds(report.runtime_s)),
        ("warm-up", seconds(report.warmup_s)),
        ("pinned to CPUs", Some(report.cpus.clone().unwrap_or_else(|| "no".into()))),
        ("submission threads", Some(report.sqpoll_cpus.clone().unwrap_or_else(|| "none".into()))),
    ]
    .into_iter()
    .chain(loads(report))
    .collect()
}

/// Every field of the workloads, with the values that arms have of it in their order.
fn loads(report: &StudyReport) -> Vec<Fact> {
    let arms: Vec<_> = report.arms.iter().map(|arm| arm.arm.workload.fields()).collect();
    let values = |index: usize| {
        let mut distinct: Vec<&str> = Vec::new();
        for fields in &arms {
            let value = fields[index].1.as_str();
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        distinct.sort_unstable();
        (!distinct.is_empty()).then(|| distinct.join(", "))
    };
    let names = Workload::default().fields().map(|(name, _)| name);
    names.into_iter().enumerate().map(|(index, name)| (name, values(index))).collect()
}

/// The fields of the workloads whose values differ.
pub(super) fn unequal_loads(a: &StudyReport, b: &StudyReport) -> Vec<&'static str> {
    let pairs = loads(a).into_iter().zip(loads(b));
    pairs.filter(|((name, a), (_, b))| *name != "seed" && a != b).map(|((name, _), _)| name).collect()
}

/// Names every field, so that the compiler demands a fact for each new one.
fn host(host: &Host) -> Vec<Fact> {
    let Host {
        iolane_version,
        command_line: _,
        arch,
        kernel_release,
        kernel_version,
        cpu_model,
        cpus_online,
        governor,
        smt,
        hypervisor,
        mitigations: of_mitigations,
        memory_bytes,
        huge_pages,
        transparent_huge_pages,
        io_uring_disabled,
        memlock_bytes,
        nofile,
        iommu_groups,
        lab,
    } = host;
    let HugePages { count, page_bytes } = huge_pages.unwrap_or(HugePages { count: 0, page_bytes: 0 });
    vec![
        ("iolane", text(iolane_version)),
        ("kernel", text(kernel_release)),
        ("kernel build", text(kernel_version)),
        ("architecture", text(arch)),
        ("processor", cpu_model.clone()),
        ("CPUs online", cpus_online.clone()),
        ("governor", governor.clone()),
        ("SMT", yes_no(*smt)),
        ("virtual machine", yes_no(*hypervisor)),
        ("mitigations", of_mitigations.as_ref().map(mitigations)),
        ("memory", memory_bytes.map(gibibytes)),
        ("huge pages", plain(huge_pages.map(|_| count))),
        ("huge page bytes", plain(huge_pages.map(|_| page_bytes))),
        ("transparent huge pages", transparent_huge_pages.clone()),
        ("io_uring_disabled", plain(*io_uring_disabled)),
        ("locked memory", memlock_bytes.map(|limit| of_limit(limit, gibibytes))),
        ("descriptors", nofile.map(|limit| of_limit(limit, |count| count.to_string()))),
        ("IOMMU groups", plain(*iommu_groups)),
        ("cpus of the lab's host", plain(lab.map(|lab| lab.host_cpus))),
    ]
}

fn device(device: DeviceHost) -> Vec<Fact> {
    let DeviceHost {
        name,
        disk: _,
        model,
        scheduler,
        io_poll,
        nr_requests,
        iostats,
        nomerges,
        logical_block_bytes,
        rotational,
        write_cache,
        numa_node,
        poll_queues,
        file_system,
    } = device;
    let (kind, mount_point) = match file_system {
        Some(FileSystem { kind, mount_point }) => (Some(kind), Some(mount_point)),
        None => (None, None),
    };
    vec![
        ("device", name),
        ("device model", model),
        ("scheduler", scheduler),
        ("can be polled", yes_no(io_poll)),
        ("poll queues", plain(poll_queues)),
        ("nr_requests", plain(nr_requests)),
        ("iostats", yes_no(iostats)),
        ("nomerges", plain(nomerges)),
        ("logical block", plain(logical_block_bytes)),
        ("rotational", yes_no(rotational)),
        ("write cache", write_cache),
        ("NUMA node", plain(numa_node)),
        ("file system", kind),
        ("mounted at", mount_point),
    ]
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn plain(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn yes_no(value: Option<bool>) -> Option<String> {
    value.map(|yes| if yes { "yes" } else { "no" }.into())
}

/// Rounded: how much memory a kernel reserves differs, and such a difference is irrelevant.
fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn of_limit(limit: Limit, value: impl Fn(u64) -> String) -> String {
    match limit {
        Limit::AtMost(most) => value(most),
        Limit::Unlimited => "unlimited".into(),
    }
}

fn mitigations(of: &Mitigations) -> String {
    let mut text = format!("{} mitigated, {} vulnerable", of.mitigated, of.vulnerable);
    if let Some(option) = &of.boot_option {
        text.push_str(&format!(", mitigations={option}"));
    }
    text
}

fn target(target: &TargetRecord) -> String {
    let TargetRecord { kind, name, bytes, block_bytes, direct } = target;
    let cached = if *direct { "" } else { ", through the page cache" };
    format!("{name} ({} {kind}, blocks of {block_bytes}{cached})", Bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_record::HostRecord;

    fn value(facts: &[Fact], what: &str) -> String {
        facts.iter().find(|(name, _)| *name == what).unwrap().1.clone().unwrap_or_else(|| "unknown".into())
    }

    #[test]
    fn facts_are_in_words() {
        let of = |kind: &str, name: &str, bytes, direct| TargetRecord {
            kind: kind.into(),
            name: name.into(),
            bytes,
            block_bytes: 512,
            direct,
        };
        assert_eq!(target(&of("block", "nvme0", 1 << 30, true)), "nvme0 (1g block, blocks of 512)");
        assert_eq!(target(&of("file", "f", 4096, false)), "f (4k file, blocks of 512, through the page cache)");
        let facts = host(&Host {
            smt: Some(false),
            memory_bytes: Some(2_092_000_000),
            memlock_bytes: Some(Limit::Unlimited),
            mitigations: Some(Mitigations {
                mitigated: 3,
                vulnerable: 2,
                boot_option: Some("off".into()),
                ..Mitigations::default()
            }),
            ..Host::default()
        });
        assert_eq!((value(&facts, "SMT"), value(&facts, "memory")), ("no".into(), "1.9 GiB".into()));
        assert_eq!(value(&facts, "locked memory"), "unlimited");
        assert_eq!(value(&facts, "mitigations"), "3 mitigated, 2 vulnerable, mitigations=off");
        assert_eq!(value(&facts, "governor"), "unknown");
    }

    #[test]
    fn a_machine_without_a_device_has_the_same_facts_in_the_same_order() {
        let of = |device: Option<DeviceHost>| -> Vec<&'static str> {
            let host = HostRecord { device, ..HostRecord::default() };
            device_facts(&host)
        };
        assert_eq!(of(None), of(Some(DeviceHost { name: Some("nvme0n1".into()), ..DeviceHost::default() })));
    }

    fn device_facts(host: &HostRecord) -> Vec<&'static str> {
        device(host.device.clone().unwrap_or_default()).into_iter().map(|(what, _)| what).collect()
    }
}
