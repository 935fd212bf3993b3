//! CPUs of a run's threads and of the kernel's submission threads: as given, or by default one CPU each. Commands and studies
//! choose; `run` pins.

use std::path::Path;

use iolane::units::CpuList;
use iolane::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Cpus for the threads of a run and for the submission threads of its queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of threads, in turn; the scheduler's choice if `None`.
    pub cpus: Option<CpuList>,
    /// CPUs of submission threads, in turn; the scheduler's choice if `None`.
    pub sqpoll_cpus: Option<CpuList>,
}

impl Placement {
    /// A CPU for each thread and another for its submission thread, the first of these; the scheduler's choice if there are too few.
    /// Without it the scheduler may put a spinning thread and the submission thread it waits for on one CPU, and a study would
    /// measure that accident.
    pub fn apart(cpus: &[u32], threads: usize) -> Self {
        if threads == 0 || cpus.len() / 2 < threads {
            return Self::default();
        }
        let list = |first: usize| Some(cpus[first..first + threads].iter().copied().collect());
        Self { cpus: list(0), sqpoll_cpus: list(threads) }
    }

    /// All threads and submission threads on the first `cores` of these CPUs. First the threads take them in turn, then the submission
    /// threads, which therefore have CPUs of their own once there are twice as many CPUs as threads.
    ///
    /// # Errors
    /// `Unavailable` if there are fewer.
    pub fn within(cpus: &[u32], cores: usize, threads: usize) -> Result<Self> {
        let Some(used) = cpus.get(..cores).filter(|used| !used.is_empty()) else {
            let cause = format!("needs {cores} cpus; this process may use {}", cpus.len());
            return Err(Error::unavailable("study", cause).remedy("run it on a machine with more cores"));
        };
        let turn = |first: usize| Some((first..first + threads).map(|index| used[index % used.len()]).collect());
        Ok(Self { cpus: turn(0), sqpoll_cpus: turn(threads) })
    }

    /// Checks that this process can use the CPUs.
    ///
    /// # Errors
    /// `Usage` for a cpu that this process may not run on, or that does not exist.
    pub fn check(&self) -> Result<()> {
        let allowed = allowed_cpus();
        let of = |list: &Option<CpuList>| list.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec());
        if let Some(cpu) = of(&self.cpus).iter().find(|cpu| !allowed.contains(cpu)) {
            let shown: CpuList = allowed.into_iter().collect();
            return Err(Error::usage(format!("--cpus {cpu}"), "this process may not run there")
                .remedy(format!("choose among {shown}")));
        }
        let exists = |cpu: &&u32| Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists();
        match of(&self.sqpoll_cpus).iter().find(|cpu| !exists(cpu)) {
            Some(cpu) => Err(Error::usage(format!("--sqpoll-cpus {cpu}"), "there is no such cpu")
                .remedy("see /sys/devices/system/cpu/online")),
            None => Ok(()),
        }
    }
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> Vec<u32> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_submission_threads_have_a_cpu_each_where_there_are_enough() {
        let placement = Placement::apart(&[0, 2, 5, 6], 2);
        assert_eq!(placement.cpus, Some("0,2".parse().unwrap()));
        assert_eq!(placement.sqpoll_cpus, Some("5-6".parse().unwrap()));
    }

    #[test]
    fn threads_and_submission_threads_share_a_given_number_of_cpus() {
        let within = |cores, threads| {
            let placement = Placement::within(&[0, 1, 2, 3, 8, 9], cores, threads).unwrap();
            let list = |list: Option<CpuList>| list.unwrap().cpus().to_vec();
            (list(placement.cpus), list(placement.sqpoll_cpus))
        };
        assert_eq!(within(1, 1), (vec![0], vec![0]));
        assert_eq!(within(2, 1), (vec![0], vec![1]));
        assert_eq!(within(3, 2), (vec![0, 1], vec![0, 2]));
        assert_eq!(within(6, 3), (vec![0, 1, 2], vec![3, 8, 9]));
        let error = Placement::within(&[0, 1], 3, 1).unwrap_err().to_string();
        assert!(error.contains("3 cpus") && error.contains("may use 2"), "{error}");
    }

    #[test]
    fn with_too_few_cpus_the_scheduler_chooses() {
        assert_eq!(Placement::apart(&[0], 1), Placement::default());
        assert_eq!(Placement::apart(&[0, 1, 2], 2), Placement::default());
        assert_eq!(Placement::apart(&[0, 1, 2], usize::MAX), Placement::default());
    }
}
