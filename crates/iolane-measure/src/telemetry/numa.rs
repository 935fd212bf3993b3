//! NUMA nodes of CPUs, from sysfs. [`Watch`](super::Watch) records those of a run's CPUs; `iolane probe --host` compares them
//! with the device's node.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use iolane::units::CpuList;

use super::{Reading, Sourced, Unavailable};

/// The nodes of these CPUs, as a list such as `0-1`.
///
/// # Errors
/// If the kernel was built without NUMA, or lists none of the cpus.
pub(crate) fn nodes_of(cpus: &[u32], sys: &Path) -> Reading<Sourced<String>> {
    let folder = sys.join("devices/system/node");
    let entries = fs::read_dir(&folder).map_err(|_| {
        Unavailable::new("the kernel lists no NUMA nodes (/sys/devices/system/node)")
            .remedy("use a kernel built with CONFIG_NUMA")
    })?;
    let node = |entry: fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let list: CpuList = fs::read_to_string(entry.path().join("cpulist")).ok()?.trim().parse().ok()?;
        cpus.iter().any(|cpu| list.cpus().contains(cpu)).then_some(number)
    };
    let nodes: BTreeSet<u32> = entries.flatten().filter_map(node).collect();
    if nodes.is_empty() {
        return Err(Unavailable::new("no NUMA node lists the cpus"));
    }
    let nodes: CpuList = nodes.into_iter().collect();
    Ok(Sourced::new(nodes.to_string(), "/sys/devices/system/node, of the cpus that its threads may use"))
}

pub(crate) fn cpus_of(node: u32, sys: &Path) -> Option<CpuList> {
    let list = fs::read_to_string(sys.join(format!("devices/system/node/node{node}/cpulist"))).ok()?;
    list.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    #[test]
    fn cpus_belong_to_the_nodes_that_list_them() {
        let fixture = Fixture::new();
        fixture
            .write("devices/system/node/node0/cpulist", "0-3\n")
            .write("devices/system/node/node1/cpulist", "4-7\n")
            .write("devices/system/node/node2/cpulist", "\n")
            .write("devices/system/node/online", "0-2\n");
        let nodes = |cpus: &[u32]| nodes_of(cpus, &fixture.path("")).map(|nodes| nodes.value);
        assert_eq!(nodes(&[2]).unwrap(), "0");
        assert_eq!(nodes(&[3, 4]).unwrap(), "0-1");
        assert_eq!(cpus_of(1, &fixture.path("")).unwrap().to_string(), "4-7");
        assert_eq!(cpus_of(7, &fixture.path("")), None);
        assert!(nodes(&[9]).unwrap_err().reason.contains("no NUMA node"));
        assert!(nodes_of(&[0], &fixture.path("nothing")).unwrap_err().remedy.contains("CONFIG_NUMA"));
    }
}
