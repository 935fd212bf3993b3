//! What differs between the machines and the settings of results: every fact that `study.json` tells of them, in words.

use serde::Serialize;
use serde_json::Value;

use crate::report::Loaded;

/// A fact of the machine or of the settings, where folders differ in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is of.
    pub what: &'static str,
    /// How it is in each folder; `not told` where its kernel or its version of iolane did not say.
    pub values: Vec<String>,
}

/// The facts that are not the same in all folders, settings first.
pub(super) fn differences(folders: &[Loaded]) -> Vec<Difference> {
    let facts = FACTS.iter().map(|fact| Difference {
        what: fact.what,
        values: folders.iter().map(|folder| fact.shown(&folder.json)).collect(),
    });
    facts.filter(|difference| difference.values.iter().any(|value| *value != difference.values[0])).collect()
}

/// A fact, and where `study.json` has it.
struct Fact {
    what: &'static str,
    pointer: &'static str,
    show: fn(&Value) -> Option<String>,
}

impl Fact {
    fn shown(&self, json: &Value) -> String {
        json.pointer(self.pointer).and_then(self.show).unwrap_or_else(|| "not told".into())
    }
}

const fn fact(what: &'static str, pointer: &'static str, show: fn(&Value) -> Option<String>) -> Fact {
    Fact { what, pointer, show }
}

const FACTS: &[Fact] = &[
    fact("study", "/name", plain),
    fact("scale", "/scale", plain),
    fact("targets", "/targets", targets),
    fact("repeats", "/repeats", plain),
    fact("runtime", "/runtime_s", seconds),
    fact("warm-up", "/warmup_s", seconds),
    fact("pinned to cpus", "/cpus", plain),
    fact("submission threads", "/spoll_cpus", plain),
    fact("seed", "/seed", plain),
    fact("iolane", "/host/iolane_version", plain),
    fact("kernel", "/host/kernel_release", plain),
    fact("kernel build", "/host/kernel_version", plain),
    fact("architecture", "/host/arch", plain),
    fact("processor", "/host/cpu_model", plain),
    fact("cpus online", "/host/cpus_online", plain),
    fact("governor", "/host/governor", plain),
    fact("SMT", "/host/smt", plain),
    fact("virtual machine", "/host/hypervisor", plain),
    fact("mitigations", "/host/mitigations", mitigations),
    fact("memory", "/host/memory_bytes", gibibytes),
    fact("huge pages", "/host/huge_pages/count", plain),
    fact("huge page bytes", "/host/huge_pages/page_bytes", plain),
    fact("io_uring_disabled", "/host/io_uring_disabled", plain),
    fact("locked memory", "/host/memlock_bytes", gibibytes),
    fact("descriptors", "/host/nofile", plain),
    fact("IOMMU groups", "/host/iommu_groups", plain),
    fact("device", "/host/device/name", plain),
    fact("device model", "/host/device/model", plain),
    fact("scheduler", "/host/device/scheduler", plain),
    fact("can be polled", "/host/device/io_poll", plain),
    fact("poll queues", "/host/device/poll_queues", plain),
    fact("nr_requests", "/host/device/nr_requests", plain),
    fact("logical block", "/host/device/logical_block_bytes", plain),
    fact("rotational", "/host/device/rotational", plain),
    fact("NUMA node", "/host/device/numa_node", plain),
    fact("file system", "/host/device/file_system/kind", plain),
    fact("mounted at", "/host/device/file_system/mount_point", plain),
];

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn seconds(value: &Value) -> Option<String> {
    Some(format!("{:.2} s", value.as_f64()?))
}

/// Kernels keep some of a machine's memory for themselves, each another part: no difference that matters.
fn gibibytes(value: &Value) -> Option<String> {
    match value.as_f64() {
        Some(bytes) => Some(format!("{:.1} GiB", bytes / (1u64 << 30) as f64)),
        None => plain(value),
    }
}

fn mitigations(value: &Value) -> Option<String> {
    let count = |state: &str| value[state].as_u64();
    let mut text = format!("{} mitigated, {} vulnerable", count("mitigated")?, count("vulnerable")?);
    if let Some(option) = value["boot_option"].as_str() {
        text.push_str(&format!(", mitigations={option}"));
    }
    Some(text)
}

fn targets(value: &Value) -> Option<String> {
    let target = |target: &Value| {
        let (name, kind) = (target["name"].as_str()?, target["kind"].as_str()?);
        let bytes = iolane::units::Bytes(target["bytes"].as_u64()?);
        let cached = if target["direct"].as_bool()? { "" } else { ", through the page cache" };
        Some(format!("{name} ({bytes} {kind}, blocks of {}{cached})", target["block_bytes"].as_u64()?))
    };
    Some(value.as_array()?.iter().map(target).collect::<Option<Vec<_>>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::telemetry::{DeviceHost, Host};

    fn shown(what: &str, json: &Value) -> String {
        FACTS.iter().find(|fact| fact.what == what).unwrap().shown(json)
    }

    /// What is in the record of a host and in no fact would differ in silence.
    #[test]
    fn every_fact_of_the_host_and_its_device_is_compared_but_the_command_line() {
        let host = serde_json::to_value(Host::gather()).unwrap();
        let device = serde_json::to_value(DeviceHost::default()).unwrap();
        let keys = |place: &str, value: &Value| -> Vec<String> {
            value.as_object().unwrap().keys().map(|key| format!("{place}/{key}")).collect()
        };
        let all = [keys("/host", &host), keys("/host/device", &device)].concat();
        let is_compared = |key: &&String| {
            FACTS.iter().any(|fact| fact.pointer == key.as_str() || fact.pointer.starts_with(&format!("{key}/")))
        };
        let left_out: Vec<&String> = all.iter().filter(|key| !is_compared(key)).collect();
        assert_eq!(left_out, ["/host/command_line"]);
    }

    #[test]
    fn facts_are_told_in_words() {
        let json = json!({
            "runtime_s": 0.2,
            "targets": [
                {"kind": "block", "name": "nvme0", "bytes": 1u64 << 30, "block_bytes": 512, "direct": true},
                {"kind": "file", "name": "f", "bytes": 4096, "block_bytes": 512, "direct": false},
            ],
            "host": {
                "smt": false, "memory_bytes": 2_092_000_000u64, "memlock_bytes": "unlimited",
                "mitigations": {"mitigated": 3, "vulnerable": 2, "boot_option": "off"},
            },
        });
        assert_eq!(shown("runtime", &json), "0.20 s");
        let targets = "nvme0 (1g block, blocks of 512), f (4k file, blocks of 512, through the page cache)";
        assert_eq!(shown("targets", &json), targets);
        assert_eq!((shown("SMT", &json), shown("memory", &json)), ("no".into(), "1.9 GiB".into()));
        assert_eq!(shown("locked memory", &json), "unlimited");
        assert_eq!(shown("mitigations", &json), "3 mitigated, 2 vulnerable, mitigations=off");
        assert_eq!(shown("governor", &json), "not told");
    }
}
