//! The order in which threads take CPUs, as the published studies place theirs: one thread per core, on the drive's NUMA node.

use std::path::Path;

use iolane::Target;
use iolane::units::CpuList;

use crate::host::{numa_node_of, read};
use crate::placement::allowed_cpus;
use crate::telemetry::cpus_of;

/// The CPUs that this process may use: one hardware thread of each core before a second one, and of these first those on the NUMA nodes
/// of the targets.
pub fn nearest_cpus(targets: &[Target]) -> Vec<u32> {
    let sys = Path::new("/sys");
    let nodes = targets.iter().filter_map(|target| numa_node_of(sys, target));
    let near: Vec<u32> = nodes.filter_map(|node| cpus_of(node, sys)).flat_map(|list| list.cpus().to_vec()).collect();
    ordered(allowed_cpus(), &near, sys)
}

fn ordered(mut cpus: Vec<u32>, near: &[u32], sys: &Path) -> Vec<u32> {
    let allowed = cpus.clone();
    // How many hardware threads of its core come before it.
    let before = |cpu: u32| {
        let list = sys.join(format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        let siblings: Option<CpuList> = read(list).and_then(|text| text.parse().ok());
        let is_before = |other: &&u32| **other < cpu && allowed.contains(other);
        siblings.map_or(0, |list| list.cpus().iter().filter(is_before).count())
    };
    cpus.sort_by_cached_key(|cpu| (before(*cpu), !near.contains(cpu), *cpu));
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    #[test]
    fn cores_come_before_their_second_threads_and_those_near_the_drive_before_others() {
        let sys = Fixture::new();
        // Two nodes of two cores each, with two threads each: 0 and 4 are one core.
        for cpu in 0..8_u32 {
            let core = cpu % 4;
            sys.write(
                &format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
                &format!("{core},{}\n", core + 4),
            );
        }
        let of = |cpus: &[u32], near: &[u32]| ordered(cpus.to_vec(), near, &sys.path(""));
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(of(&all, &[2, 3, 6, 7]), [2, 3, 0, 1, 6, 7, 4, 5]);
        assert_eq!(of(&all, &[]), all);
        // A core of which only the second thread may be used is a core like others.
        assert_eq!(of(&[0, 4, 5], &[]), [0, 5, 4]);
        // Without a topology, as they are numbered.
        assert_eq!(ordered(all.clone(), &[], &sys.path("nothing")), all);
    }
}
