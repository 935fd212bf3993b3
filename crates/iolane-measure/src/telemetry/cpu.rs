//! Processor time and context switches of this process, per thread, with io_uring's kernel threads separate.
//! [`Watch`](super::Watch) takes a snapshot before and after a measurement. It costs some microseconds per thread.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Reading, Unavailable};

/// Processor time of one thread of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// `iolane-0` is the first thread of the run, `iou-sqp` a submission thread of the kernel.
    pub name: String,
    pub cpu_s: f64,
}

/// What the process has used so far. The difference of two snapshots is a [`CpuUse`].
///
/// Take both while the measured rings are open. The time of a kernel thread that has ended is only in the process's total,
/// where it cannot be separated: [`CpuUse::kernel_threads_ended`] counts such threads. A worker that started and ended
/// between the snapshots (io-wq ends idle ones after 5 s) is not counted at all.
#[derive(Debug, Clone)]
pub struct CpuSnapshot {
    process: Used,
    kernel_threads: HashMap<ThreadKey, KernelThread>,
    /// Name and processor nanoseconds of every live thread, kernel threads included.
    threads: HashMap<ThreadKey, (String, u64)>,
    /// Whether io_uring's kernel threads are threads of this process.
    kernel_threads_are_ours: bool,
}

/// What the process used between two snapshots. The three times add up to the kernel's charge to the process.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuUse {
    /// Seconds in user mode, of all threads, including those that have ended.
    pub user_s: f64,
    /// Seconds in the kernel, without io_uring's threads. The sum of user and system time is precise to microseconds. The
    /// split is sampled at the timer tick (1 to 10 ms) unless the kernel was built with CONFIG_VIRT_CPU_ACCOUNTING_GEN, so
    /// in a run of few ticks it is coarse.
    pub system_s: f64,
    /// Seconds of io_uring's kernel threads, submission threads and workers, that are alive at the later snapshot.
    /// Unavailable before Linux 5.12, where they were not threads of the process.
    pub kernel_threads_s: Reading<f64>,
    /// Kernel threads of the earlier snapshot that had ended by the later one. If this is not 0, `system_s` and
    /// `context_switches` include what they used in between.
    pub kernel_threads_ended: usize,
    /// Context switches, voluntary and involuntary, of all threads, including those that have ended, but without io_uring's
    /// kernel threads.
    pub context_switches: u64,
    /// Context switches of io_uring's kernel threads; unavailable before Linux 5.12.
    pub kernel_thread_context_switches: Reading<u64>,
    /// Seconds of each thread that worked, summed by name: a thread started by a library has the name of the thread that
    /// started it. io_uring's threads are `iou-sqp` and `iou-wrk`; `ended` sums threads that had ended by the later snapshot.
    pub threads: Vec<ThreadUse>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    user_ns: u64,
    system_ns: u64,
    context_switches: u64,
}

/// Identifies a thread: the kernel reuses thread numbers, but not together with a start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ThreadKey {
    tid: i32,
    start_ticks: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct KernelThread {
    cpu_ns: u64,
    context_switches: u64,
}

/// Most time that kernel threads may use between the reading of their clocks and of the total, in nanoseconds.
const APART_NS: u64 = 50_000;
/// How far the total may exceed the sum of its threads though none has ended, in nanoseconds.
const ENDED_NS_MIN: u64 = 1_000_000;
/// Attempts to read the two close together; the closest is kept.
const TRIES: u32 = 5;

impl CpuSnapshot {
    /// Reads what the process has used so far.
    ///
    /// # Errors
    /// If /proc is not mounted or does not list this process.
    pub fn take() -> Reading<Self> {
        let tids = tids()?;
        let all: Vec<(ThreadKey, Stat)> = tids.iter().filter_map(|&tid| thread(tid)).collect();
        let switches =
            |(key, _): &(ThreadKey, Stat)| Some((*key, parse_context_switches(&read_of(key.tid, "status")?)?));
        let threads: Vec<_> = all.iter().filter(|(_, stat)| stat.is_io_uring()).filter_map(switches).collect();
        // The total and the kernel threads' part of it cannot be read atomically. If this thread loses the CPU in between,
        // the part is wrong by as much as they ran meanwhile, so the reading is repeated.
        let (mut process, mut kernel_threads, mut apart_ns) = read_together(&tids, &threads)?;
        for _ in 1..TRIES {
            if apart_ns <= APART_NS {
                break;
            }
            let again = read_together(&tids, &threads)?;
            if again.2 < apart_ns {
                (process, kernel_threads, apart_ns) = again;
            }
        }
        Ok(Self {
            process,
            kernel_threads_are_ours: !kernel_threads.is_empty() || threads_are_ours_since_5_12(),
            kernel_threads,
            threads: all
                .into_iter()
                .filter_map(|(key, stat)| Some((key, (stat.name, thread_cpu_ns(key.tid)?))))
                .collect(),
        })
    }

    /// What was used from this snapshot to a later one.
    pub fn delta(&self, later: &Self) -> CpuUse {
        let mut kernel = KernelThread::default();
        for (key, thread) in &later.kernel_threads {
            let before = self.kernel_threads.get(key).copied().unwrap_or_default();
            kernel.cpu_ns += thread.cpu_ns.saturating_sub(before.cpu_ns);
            kernel.context_switches += thread.context_switches.saturating_sub(before.context_switches);
        }
        let ended = self.kernel_threads.keys().filter(|key| !later.kernel_threads.contains_key(key)).count();
        let system_ns = later.process.system_ns.saturating_sub(self.process.system_ns);
        let total_ns = later.process.user_ns.saturating_sub(self.process.user_ns) + system_ns;
        let own_ns = total_ns.saturating_sub(kernel.cpu_ns);
        // The kernel threads' time is exact while system time is sampled, so system time may be less than theirs.
        let own_system_ns = system_ns.saturating_sub(kernel.cpu_ns).min(own_ns);
        let switches = later.process.context_switches.saturating_sub(self.process.context_switches);
        let seen = if self.kernel_threads_are_ours || later.kernel_threads_are_ours {
            Ok(())
        } else {
            Err(Unavailable::new("before Linux 5.12 io_uring's kernel threads are not threads of the process")
                .remedy("use Linux 5.12 or later"))
        };
        CpuUse {
            user_s: seconds(own_ns - own_system_ns),
            system_s: seconds(own_system_ns),
            kernel_threads_s: seen.clone().map(|()| seconds(kernel.cpu_ns)),
            kernel_threads_ended: ended,
            context_switches: switches.saturating_sub(kernel.context_switches),
            kernel_thread_context_switches: seen.map(|()| kernel.context_switches),
            threads: self.threads_delta(later, total_ns),
        }
    }

    /// What each thread used; `total_ns` is what all used together.
    fn threads_delta(&self, later: &Self, total_ns: u64) -> Vec<ThreadUse> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (key, (name, cpu_ns)) in &later.threads {
            let before_ns = self.threads.get(key).map_or(0, |(_, before_ns)| *before_ns);
            *by_name.entry(group(name)).or_default() += cpu_ns.saturating_sub(before_ns);
        }
        // Threads are read some microseconds after the total, so a smaller difference is not an ended thread.
        let ended_ns = total_ns.saturating_sub(by_name.values().sum());
        let ended = (ended_ns > ENDED_NS_MIN).then_some(("ended", ended_ns));
        let worked = by_name.into_iter().filter(|(_, cpu_ns)| *cpu_ns > 0).chain(ended);
        worked.map(|(name, cpu_ns)| ThreadUse { name: name.to_owned(), cpu_s: seconds(cpu_ns) }).collect()
    }
}

/// The total, the kernel threads' part, and the nanoseconds that these used while both were read.
fn read_together(tids: &[i32], threads: &[(ThreadKey, u64)]) -> Reading<(Used, HashMap<ThreadKey, KernelThread>, u64)> {
    // The kernel's totals of a thread on another CPU are as old as that CPU's last timer tick. Reading the thread's own
    // clock updates them (`task_sched_runtime` in kernel/sched/core.c).
    for &tid in tids {
        thread_cpu_ns(tid);
    }
    let read = |&(key, context_switches): &(ThreadKey, u64)| {
        Some((key, KernelThread { cpu_ns: thread_cpu_ns(key.tid)?, context_switches }))
    };
    let kernel_threads: HashMap<_, _> = threads.iter().filter_map(read).collect();
    let process = process_used()?;
    let used_since =
        |(key, thread): (&ThreadKey, &KernelThread)| Some(thread_cpu_ns(key.tid)?.saturating_sub(thread.cpu_ns));
    let apart_ns = kernel_threads.iter().filter_map(used_since).sum();
    Ok((process, kernel_threads, apart_ns))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn tids() -> Reading<Vec<i32>> {
    let unreadable = |error| {
        Unavailable::new(format!("/proc/self/task: {}", iolane::error::describe(&error)))
            .remedy("mount -t proc proc /proc")
    };
    let entries = fs::read_dir("/proc/self/task").map_err(unreadable)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Times and context switches of the process. getrusage(2) sums all threads, including ended ones and io_uring's. Its user
/// and system time add up to the scheduler's count of the time on a CPU (`cputime_adjust` in kernel/sched/cputime.c).
fn process_used() -> Reading<Used> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)
        .map_err(|errno| Unavailable::new(format!("getrusage: {}", iolane::error::describe(&errno.into()))))?;
    let ns = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1000;
    Ok(Used {
        user_ns: ns(usage.user_time()),
        system_ns: ns(usage.system_time()),
        context_switches: (usage.voluntary_context_switches() + usage.involuntary_context_switches()) as u64,
    })
}

/// The time that a thread of this process has spent on a CPU until now, to the nanosecond; `None` if it has ended. The clock
/// id is built as by pthread_getcpuclockid(3): the inverted thread id, then the bits for a single thread (4) and scheduler
/// time (2), include/linux/posix-timers_types.h.
fn thread_cpu_ns(tid: i32) -> Option<u64> {
    let time = clock_gettime(ClockId::from_raw((!tid << 3) | 4 | 2)).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// A file in a thread's folder of /proc; `None` if the thread has ended.
fn read_of(tid: i32, file: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(format!("/proc/self/task/{tid}/{file}")).ok()?).into_owned())
}

fn thread(tid: i32) -> Option<(ThreadKey, Stat)> {
    let stat = Stat::parse(&read_of(tid, "stat")?)?;
    Some((ThreadKey { tid, start_ticks: stat.start_ticks }, stat))
}

/// The name under which a thread is summed: for kernel threads, without the process id.
fn group(name: &str) -> &str {
    ["iou-sqp", "iou-wrk"].into_iter().find(|group| name.starts_with(group)).unwrap_or(name)
}

/// Whether io_uring's kernel threads are threads of the process that they work for, which they are since Linux 5.12.
pub fn threads_are_ours_since_5_12() -> bool {
    let uname = rustix::system::uname();
    parse_release(&uname.release().to_string_lossy()).is_none_or(|version| version >= (5, 12))
}

/// Fields of /proc/PID/task/TID/stat, proc_pid_stat(5).
#[derive(Debug, PartialEq)]
pub(super) struct Stat {
    name: String,
    flags: u64,
    start_ticks: u64,
}

/// The flag of a task that io_uring made in the kernel, include/linux/sched.h.
const PF_IO_WORKER: u64 = 0x10;
/// The flag of a thread of the kernel itself.
const PF_KTHREAD: u64 = 0x0020_0000;

impl Stat {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The name may contain anything, including parentheses and blanks; the fields after it do not.
        let (before, rest) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        // The first field after the name is number 3.
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse().ok();
        Some(Self { name: name.to_owned(), flags: field(9)?, start_ticks: field(22)? })
    }

    /// Whether it is a thread of the kernel itself, and of no program.
    pub(super) fn is_of_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// io_uring's threads name themselves `iou-sqp-PID` (submission) and `iou-wrk-PID` (worker) when they first run
    /// (io_uring/sqpoll.c, io-wq.c). Until then they have the name of the thread that made them, and only the flag identifies
    /// them. The flag is not a stable interface, the names in practice are, so either is accepted.
    fn is_io_uring(&self) -> bool {
        self.flags & PF_IO_WORKER != 0 || self.name.starts_with("iou-sqp-") || self.name.starts_with("iou-wrk-")
    }
}

/// Voluntary and involuntary switches in a thread's status, proc_pid_status(5).
fn parse_context_switches(status: &str) -> Option<u64> {
    let number = |key: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
    };
    number("voluntary_ctxt_switches")?.checked_add(number("nonvoluntary_ctxt_switches")?)
}

/// Major and minor version in a kernel release such as `6.18.44-fc`.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
