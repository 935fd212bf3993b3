//! Which cpus a study's threads take when no one says: one each, and one each for the kernel's submission threads.

use std::path::Path;

use iolane::units::CpuList;
use iolane::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Cpus for the threads of a run and for the submission threads of its queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Where threads run, in turn; the scheduler's choice if `None`.
    pub cpus: Option<CpuList>,
    /// Where submission threads run, in turn; the scheduler's choice if `None`.
    pub spoll_cpus: Option<CpuList>,
}

impl Placement {
    /// A cpu for each thread and another one for its submission thread, of those this process may use; left to the
    /// scheduler if there are not that many. Without it a thread that waits by spinning and the submission thread it
    /// waits for can be put on one cpu, and a study would measure that accident.
    pub fn apart(threads: usize) -> Self {
        Self::apart_on(&allowed_cpus(), threads)
    }

    /// All threads and submission threads on `cores` cpus, as in a machine that has no more of them: threads take them in
    /// turn, and then the submission threads do, so that they have cpus of their own once there are twice as many as
    /// threads.
    ///
    /// # Errors
    /// `Unavailable` if this process may use fewer cpus.
    pub fn within(cores: usize, threads: usize) -> Result<Self> {
        Self::within_these(&allowed_cpus(), cores, threads)
    }

    fn within_these(allowed: &[u32], cores: usize, threads: usize) -> Result<Self> {
        let Some(cpus) = allowed.get(..cores).filter(|cpus| !cpus.is_empty()) else {
            let cause = format!("it takes {cores} cpus, and this process may use {}", allowed.len());
            return Err(Error::unavailable("study", cause).remedy("run it on a machine with more cores"));
        };
        let turn = |first: usize| Some((first..first + threads).map(|index| cpus[index % cpus.len()]).collect());
        Ok(Self { cpus: turn(0), spoll_cpus: turn(threads) })
    }

    /// Finds out whether the cpus can be had.
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
        match of(&self.spoll_cpus).iter().find(|cpu| !exists(cpu)) {
            Some(cpu) => Err(Error::usage(format!("--spoll-cpus {cpu}"), "there is no such cpu")
                .remedy("see /sys/devices/system/cpu/online")),
            None => Ok(()),
        }
    }

    fn apart_on(allowed: &[u32], threads: usize) -> Self {
        if threads == 0 || allowed.len() < 2 * threads {
            return Self::default();
        }
        let list = |first: usize| Some(allowed[first..first + threads].iter().copied().collect());
        Self { cpus: list(0), spoll_cpus: list(threads) }
    }
}

pub(crate) fn allowed_cpus() -> Vec<u32> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_their_submission_threads_are_apart_where_there_are_cpus_enough() {
        let placement = Placement::apart_on(&[0, 2, 5, 6], 2);
        assert_eq!(placement.cpus, Some("0,2".parse().unwrap()));
        assert_eq!(placement.spoll_cpus, Some("5-6".parse().unwrap()));
    }

    #[test]
    fn threads_and_submission_threads_make_do_with_so_many_cpus() {
        let within = |cores, threads| {
            let placement = Placement::within_these(&[0, 1, 2, 3, 8, 9], cores, threads).unwrap();
            let list = |list: Option<CpuList>| list.unwrap().cpus().to_vec();
            (list(placement.cpus), list(placement.spoll_cpus))
        };
        assert_eq!(within(1, 1), (vec![0], vec![0]));
        assert_eq!(within(2, 1), (vec![0], vec![1]));
        assert_eq!(within(3, 2), (vec![0, 1], vec![0, 2]));
        assert_eq!(within(6, 3), (vec![0, 1, 2], vec![3, 8, 9]));
        let error = Placement::within_these(&[0, 1], 3, 1).unwrap_err().to_string();
        assert!(error.contains("3 cpus") && error.contains("may use 2"), "{error}");
    }

    #[test]
    fn with_too_few_cpus_the_scheduler_chooses() {
        assert_eq!(Placement::apart_on(&[0], 1), Placement::default());
        assert_eq!(Placement::apart_on(&[0, 1, 2], 2), Placement::default());
    }
}
