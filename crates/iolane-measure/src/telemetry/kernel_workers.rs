//! Processor time of the kernel's own threads: workers (`kworker`), journals (`jbd2`) and others. They carry out parts of
//! requests, such as the fsync of libaio, and the kernel charges their time to no program.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::cpu::Stat;
use super::{Reading, Unavailable};

/// The time that each kernel thread has used so far. The difference of two snapshots is that of a run and of whatever else
/// the machine did meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkersSnapshot(HashMap<Worker, u64>);

/// Identifies a thread: the kernel reuses thread numbers, but not together with a start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Worker {
    pid: i32,
    start_ticks: u64,
}

impl WorkersSnapshot {
    /// Reads the threads in this /proc.
    ///
    /// # Errors
    /// Unavailable in a container, which sees only its own processes, and where the kernel does not count the time of each
    /// thread (CONFIG_SCHED_INFO).
    pub(super) fn take(proc: &Path) -> Reading<Self> {
        let entries = fs::read_dir(proc).map_err(|error| {
            Unavailable::new(format!("{}: {}", proc.display(), iolane::error::describe(&error))).remedy("mount /proc")
        })?;
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let workers: Vec<(Worker, Option<u64>)> = pids
            .filter_map(|pid| {
                let folder = proc.join(pid.to_string());
                // A thread that ends meanwhile is left out.
                let read = |file: &str| Some(String::from_utf8_lossy(&fs::read(folder.join(file)).ok()?).into_owned());
                let stat = Stat::parse(&read("stat")?).filter(Stat::is_of_kernel)?;
                let cpu_ns = read("schedstat").as_deref().and_then(cpu_ns);
                Some((Worker { pid, start_ticks: stat.start_ticks }, cpu_ns))
            })
            .collect();
        if workers.is_empty() {
            return Err(Unavailable::new("a container does not see the kernel's threads").remedy("run it on the host"));
        }
        let counted: HashMap<_, _> = workers.into_iter().filter_map(|(worker, ns)| Some((worker, ns?))).collect();
        match counted.is_empty() {
            true => Err(Unavailable::new("this kernel counts no time of its threads (CONFIG_SCHED_INFO)")),
            false => Ok(Self(counted)),
        }
    }

    /// Seconds that kernel threads used from this snapshot to a later one. A thread that ended in between is not counted.
    pub(super) fn seconds_until(&self, later: &Self) -> f64 {
        let used_ns = |(worker, ns): (&Worker, &u64)| ns.saturating_sub(self.0.get(worker).copied().unwrap_or(0));
        later.0.iter().map(used_ns).sum::<u64>() as f64 / 1e9
    }
}

/// The first number of schedstat: nanoseconds on a processor (Documentation/scheduler/sched-stats.rst).
fn cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    /// A /proc with these threads: id, name, flags, start and schedstat.
    fn proc_with(threads: &[(i32, &str, u64, u64, &str)]) -> Fixture {
        let proc = Fixture::new();
        for (pid, name, flags, start, schedstat) in threads {
            let stat = format!("{pid} ({name}) I 2 0 0 0 -1 {flags} 0 0 0 0 7 9 0 0 20 0 1 0 {start} 0 0");
            proc.write(&format!("{pid}/stat"), &stat).write(&format!("{pid}/schedstat"), schedstat);
        }
        proc
    }

    fn used(before: &[(i32, &str, u64, u64, &str)], after: &[(i32, &str, u64, u64, &str)]) -> f64 {
        let take = |threads| WorkersSnapshot::take(&proc_with(threads).0).unwrap();
        take(before).seconds_until(&take(after))
    }

    #[test]
    fn the_time_of_all_kernel_threads_is_added_up_and_that_of_programs_is_not() {
        let worker = 0x0420_8060;
        let before = [(7, "kworker/0:1 (x)", worker, 5, "1000000000 1 1"), (9, "fio", 0x40_0000, 8, "5 1 1")];
        let after = [
            (7, "kworker/0:1 (x)", worker, 5, "1500000000 1 1"),
            (8, "jbd2/vda-8", worker, 90, "250000000 1 1"),
            (9, "fio", 0x40_0000, 8, "9000000000 1 1"),
        ];
        assert_eq!(used(&before, &after), 0.75);
        // The number of a thread that ended is used again.
        assert_eq!(used(&before, &[(7, "kworker/1:0", worker, 77, "20000000 1 1")]), 0.02);
    }

    #[test]
    fn where_no_kernel_thread_is_seen_or_counted_the_time_is_unavailable() {
        let why = |threads| WorkersSnapshot::take(&proc_with(threads).0).unwrap_err().reason;
        assert!(why(&[(1, "sh", 0x40_0000, 5, "1 1 1")]).contains("a container"));
        assert!(why(&[(2, "kthreadd", 0x20_8040, 0, "")]).contains("CONFIG_SCHED_INFO"));
        assert!(WorkersSnapshot::take(Path::new("/nonexistent")).unwrap_err().remedy.contains("/proc"));
    }
}
