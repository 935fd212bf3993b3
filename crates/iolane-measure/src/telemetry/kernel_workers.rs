//! Processor time of the kernel's own threads: workers (`kworker`), journals (`jbd2`) and others. They carry out parts of
//! requests, such as the fsync of libaio, and the kernel charges their time to no program.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::cpu::Stat;
use super::{Reading, Unavailable};

/// The kernel's threads. They are told from programs when they are first seen, because that costs more than reading their time.
#[derive(Debug)]
pub(super) struct KernelWorkers {
    proc: PathBuf,
    /// All processes that were looked at, programs included.
    seen: HashSet<i32>,
    /// Those among them that are threads of the kernel.
    workers: Vec<i32>,
}

/// The nanoseconds that each kernel thread has used so far. The difference of two snapshots is that of a run and of whatever
/// else the machine did meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkersSnapshot(HashMap<i32, u64>);

impl KernelWorkers {
    /// Looks for the threads in this /proc.
    ///
    /// # Errors
    /// Unavailable in a container, which sees only its own processes, and where the kernel does not count the time of each
    /// thread (CONFIG_SCHED_INFO).
    pub(super) fn find(proc: &Path) -> Reading<Self> {
        let mut found = Self { proc: proc.to_owned(), seen: HashSet::new(), workers: Vec::new() };
        found.find_new()?;
        if found.workers.is_empty() {
            return Err(Unavailable::new("a container does not see the kernel's threads").remedy("run it on the host"));
        }
        match found.take().0.is_empty() {
            true => Err(Unavailable::new("this kernel counts no time of its threads (CONFIG_SCHED_INFO)")),
            false => Ok(found),
        }
    }

    /// Looks for threads that began since. A number that is used again meanwhile, by a program, is taken for the thread that had
    /// it before; the kernel gives all others first.
    pub(super) fn find_new(&mut self) -> Reading<()> {
        let entries = fs::read_dir(&self.proc).map_err(|error| {
            let proc = self.proc.display();
            Unavailable::new(format!("{proc}: {}", iolane::error::describe(&error))).remedy("mount /proc")
        })?;
        for pid in entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
            // A process that ends meanwhile is left out.
            if self.seen.insert(pid)
                && self.read(pid, "stat").and_then(|stat| Stat::parse(&stat)).is_some_and(|stat| stat.is_of_kernel())
            {
                self.workers.push(pid);
            }
        }
        Ok(())
    }

    /// Reads the time of each thread; one that has ended is left out.
    pub(super) fn take(&self) -> WorkersSnapshot {
        let used_ns = |pid: &i32| Some((*pid, cpu_ns(&self.read(*pid, "schedstat")?)?));
        WorkersSnapshot(self.workers.iter().filter_map(used_ns).collect())
    }

    fn read(&self, pid: i32, file: &str) -> Option<String> {
        let text = fs::read(self.proc.join(format!("{pid}/{file}"))).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

impl WorkersSnapshot {
    /// Seconds that kernel threads used from this snapshot to a later one. A thread that ended in between is not counted.
    pub(super) fn seconds_until(&self, later: &Self) -> f64 {
        let used_ns = |(pid, ns): (&i32, &u64)| ns.saturating_sub(self.0.get(pid).copied().unwrap_or(0));
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

    /// Id, name, flags, start and schedstat.
    type Thread = (i32, &'static str, u64, u64, &'static str);

    fn add(proc: &Fixture, (pid, name, flags, start, schedstat): Thread) {
        let stat = format!("{pid} ({name}) I 2 0 0 0 -1 {flags} 0 0 0 0 7 9 0 0 20 0 1 0 {start} 0 0");
        proc.write(&format!("{pid}/stat"), &stat).write(&format!("{pid}/schedstat"), schedstat);
    }

    fn proc_with(threads: &[Thread]) -> Fixture {
        let proc = Fixture::new();
        threads.iter().for_each(|thread| add(&proc, *thread));
        proc
    }

    #[test]
    fn the_time_of_all_kernel_threads_is_added_up_and_that_of_programs_is_not() {
        let worker = 0x0420_8060;
        let proc = proc_with(&[(7, "kworker/0:1 (x)", worker, 5, "1000000000 1 1"), (9, "fio", 0x40_0000, 8, "5 1 1")]);
        let mut workers = KernelWorkers::find(&proc.0).unwrap();
        let before = workers.take();
        proc.write("7/schedstat", "1500000000 1 1").write("9/schedstat", "9000000000 1 1");
        add(&proc, (8, "jbd2/vda-8", worker, 90, "250000000 1 1"));
        add(&proc, (10, "sh", 0x40_0000, 90, "7000000000 1 1"));
        workers.find_new().unwrap();
        assert_eq!(before.seconds_until(&workers.take()), 0.75);
        std::fs::remove_file(proc.path("7/schedstat")).unwrap();
        assert_eq!(before.seconds_until(&workers.take()), 0.25, "a thread that ended is not counted");
    }

    #[test]
    fn where_no_kernel_thread_is_seen_or_counted_the_time_is_unavailable() {
        let why = |threads| KernelWorkers::find(&proc_with(threads).0).unwrap_err().reason;
        assert!(why(&[(1, "sh", 0x40_0000, 5, "1 1 1")]).contains("a container"));
        assert!(why(&[(2, "kthreadd", 0x20_8040, 0, "")]).contains("CONFIG_SCHED_INFO"));
        assert!(KernelWorkers::find(Path::new("/nonexistent")).unwrap_err().remedy.contains("/proc"));
    }
}
