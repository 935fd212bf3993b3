//! What control groups grant this process (cgroups(7)): processor time, and how long they stopped it, and requests to a drive. The limits of
//! Kubernetes, and CPUQuota and IOReadIOPSMax of systemd are such quotas. A run that is stopped by one measures the quota, and not the path.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iolane::Target;

use super::{Reading, Unavailable};
use crate::host::disk_number;

/// The most processors that the control groups of this process grant it; `None` if they set no limit.
pub(crate) fn granted_cpus(sys: &Path, proc: &Path) -> Option<f64> {
    folders(sys, proc, "cpu").iter().filter_map(|folder| granted_by(folder)).reduce(f64::min)
}

/// How long a quota has stopped one of those groups so far, summed over processors, with other processes in it. The group that was stopped for
/// the longest counts: groups within groups are stopped at the same time.
///
/// # Errors
/// Unavailable without a CPU controller.
pub(super) fn stopped(sys: &Path, proc: &Path) -> Reading<Duration> {
    let stopped = folders(sys, proc, "cpu").iter().filter_map(|folder| stopped_in(folder)).max();
    stopped.ok_or_else(|| Unavailable::new("no control group of this process has a CPU controller"))
}

/// The limits that control groups of this process set on a target's disk, such as `riops=1000` (io.max, cgroups(7)).
pub fn limits_on(target: &Target) -> Vec<String> {
    let sys = Path::new("/sys");
    disk_number(sys, target).map_or_else(Vec::new, |disk| io_limits(sys, Path::new("/proc"), &disk))
}

/// The limits of this process's control groups on a disk, named by its number (`259:0`), as the kernel writes them: `riops=1000`,
/// `wbps=1048576`. Those of its own group first; none if there are none.
fn io_limits(sys: &Path, proc: &Path, disk: &str) -> Vec<String> {
    // Version 2 has them in a file, and version 1 in one for each.
    const OF_VERSION_1: [(&str, &str); 4] =
        [("read_bps", "rbps"), ("write_bps", "wbps"), ("read_iops", "riops"), ("write_iops", "wiops")];
    let mut limits = Vec::new();
    for folder in folders(sys, proc, "blkio") {
        let of_disk = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix(disk)?.strip_prefix(' ').map(str::to_owned))
        };
        if let Some(line) = of_disk("io.max") {
            limits.extend(line.split(' ').filter(|limit| !limit.ends_with("=max")).map(str::to_owned));
        }
        limits.extend(OF_VERSION_1.iter().filter_map(|(file, name)| {
            let most = of_disk(&format!("blkio.throttle.{file}_device"))?;
            Some(format!("{name}={most}"))
        }));
    }
    limits
}

/// The folders of the groups of this process in the hierarchy of a controller: its own, and those that it is in.
fn folders(sys: &Path, proc: &Path, controller: &str) -> Vec<PathBuf> {
    let text = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    text.lines().filter_map(|line| of_line(sys, line, controller)).flatten().collect()
}

/// Those of a line in /proc/PID/cgroup, if the controller is in its hierarchy: `0::/a/b`, or `3:cpu,cpuacct:/a/b` in version 1.
fn of_line(sys: &Path, line: &str, controller: &str) -> Option<Vec<PathBuf>> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let mounts = match controllers {
        "" => ["", "unified"],
        list if list.split(',').any(|listed| listed == controller) => [list, controller],
        _ => return None,
    };
    let mounts = mounts.map(|mount| sys.join("fs/cgroup").join(mount));
    let mount = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists())?;
    let groups = Path::new(group.trim_start_matches('/')).ancestors();
    Some(groups.map(|group| mount.join(group)).collect())
}

fn granted_by(folder: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    // `max`, and -1 in version 1, are no limit.
    let (quota, period) = (quota.trim().parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

fn stopped_in(folder: &Path) -> Option<Duration> {
    let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    value("throttled_usec ").map(Duration::from_micros).or_else(|| value("throttled_time ").map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    #[test]
    fn the_smallest_quota_of_all_groups_counts_and_the_longest_time() {
        let fixture = Fixture::new();
        fixture
            .write("proc/self/cgroup", "0::/pods/own\n")
            .write("sys/fs/cgroup/cgroup.procs", "")
            .write("sys/fs/cgroup/pods/cpu.max", "50000 100000\n")
            .write("sys/fs/cgroup/pods/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 1500\n")
            .write("sys/fs/cgroup/pods/own/cpu.max", "max 100000\n")
            .write("sys/fs/cgroup/pods/own/cpu.stat", "usage_usec 9\nnr_throttled 1\nthrottled_usec 500\n");
        let (sys, proc) = (fixture.path("sys"), fixture.path("proc"));
        assert_eq!(granted_cpus(&sys, &proc), Some(0.5));
        assert_eq!(stopped(&sys, &proc).unwrap(), Duration::from_micros(1500));
    }

    #[test]
    fn version_1_has_a_hierarchy_of_its_own() {
        let fixture = Fixture::new();
        fixture
            .write("proc/self/cgroup", "8:memory:/\n2:cpu,cpuacct:/own\n0::/\n")
            .write("sys/fs/cgroup/cpu,cpuacct/cgroup.procs", "")
            .write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
            .write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
            .write("sys/fs/cgroup/cpu,cpuacct/own/cpu.cfs_quota_us", "20000\n")
            .write("sys/fs/cgroup/cpu,cpuacct/own/cpu.cfs_period_us", "100000\n")
            .write("sys/fs/cgroup/cpu,cpuacct/own/cpu.stat", "nr_periods 3\nthrottled_time 7000000\n");
        let (sys, proc) = (fixture.path("sys"), fixture.path("proc"));
        assert_eq!(granted_cpus(&sys, &proc), Some(0.2));
        assert_eq!(stopped(&sys, &proc).unwrap(), Duration::from_millis(7));
    }

    #[test]
    fn limits_on_a_disk_are_those_of_all_groups() {
        let fixture = Fixture::new();
        fixture
            .write("proc/self/cgroup", "4:blkio:/old\n0::/pods/own\n")
            .write("sys/fs/cgroup/unified/cgroup.procs", "")
            .write("sys/fs/cgroup/unified/pods/io.max", "8:0 rbps=9 wbps=max riops=max wiops=max\n")
            .write(
                "sys/fs/cgroup/unified/pods/own/io.max",
                "259:0 rbps=max wbps=max riops=1000 wiops=5\n259:01 rbps=1\n",
            )
            .write("sys/fs/cgroup/blkio/cgroup.procs", "")
            .write("sys/fs/cgroup/blkio/old/blkio.throttle.write_bps_device", "8:0 77\n259:0 1048576\n");
        let limits = |disk| io_limits(&fixture.path("sys"), &fixture.path("proc"), disk);
        assert_eq!(limits("259:0"), ["wbps=1048576", "riops=1000", "wiops=5"]);
        assert_eq!(limits("8:0"), ["wbps=77", "rbps=9"]);
        assert_eq!(limits("8:16"), Vec::<String>::new());
    }

    #[test]
    fn without_a_controller_nothing_is_granted_and_the_time_is_unavailable() {
        let fixture = Fixture::new();
        fixture.write("proc/self/cgroup", "0::/\n").write("sys/fs/cgroup/cgroup.procs", "");
        let (sys, proc) = (fixture.path("sys"), fixture.path("proc"));
        assert_eq!(granted_cpus(&sys, &proc), None);
        assert!(stopped(&sys, &proc).is_err());
    }
}
