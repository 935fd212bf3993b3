//! Processor time of the kernel's workers that carry out requests of io_uring which would have blocked their caller (io-wq). From Linux
//! 5.12 on they are threads of the process, named `iou-wrk-TID` for the thread that submits; before, they cannot be told apart.

use crate::thread_usage::clock_ns;

/// The workers of one thread.
#[derive(Debug)]
pub struct IoWorkers {
    /// The name of each.
    name: String,
    /// The threads of the process that were seen, with the processor time of those that are workers.
    threads: Vec<(libc::pid_t, Option<u64>)>,
}

impl IoWorkers {
    /// Those of the calling thread. Time that they have used so far does not count.
    pub fn of_this_thread() -> Self {
        let name = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
        let mut workers = Self { name, threads: Vec::new() };
        workers.find();
        workers.used_ns();
        workers
    }

    /// Looks for new workers: two system calls, and three more for each thread that was not there before.
    pub fn find(&mut self) {
        let Ok(folder) = std::fs::read_dir("/proc/self/task") else { return };
        let there: Vec<libc::pid_t> =
            folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        self.threads.retain(|(thread, _)| there.contains(thread));
        for thread in there {
            if !self.threads.iter().any(|(known, _)| *known == thread) {
                let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
                self.threads.push((thread, (name.trim_end() == self.name).then_some(0)));
            }
        }
    }

    /// The number of known workers.
    pub fn count(&self) -> usize {
        self.threads.iter().filter(|(_, used)| used.is_some()).count()
    }

    /// Nanoseconds that the known workers have used since the last call: one system call each.
    pub fn used_ns(&mut self) -> u64 {
        let of_workers = self.threads.iter_mut().filter_map(|(thread, used)| Some((*thread, used.as_mut()?)));
        let since = |(thread, used): (libc::pid_t, &mut u64)| {
            let now = processor_time_ns(thread).unwrap_or(*used);
            now.saturating_sub(std::mem::replace(used, now))
        };
        of_workers.map(since).sum()
    }
}

/// The processor time of a thread of this process (pthread_getcpuclockid(3), of which the kernel's part is the number of the clock).
fn processor_time_ns(thread: libc::pid_t) -> Option<u64> {
    const OF_A_THREAD: libc::clockid_t = 4;
    const BY_THE_SCHEDULER: libc::clockid_t = 2;
    clock_ns(!thread << 3 | OF_A_THREAD | BY_THE_SCHEDULER)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::Builder;

    use super::*;

    #[test]
    fn the_time_of_threads_with_the_name_of_a_worker_counts_and_that_of_others_does_not() {
        let mut workers = IoWorkers::of_this_thread();
        assert_eq!(workers.used_ns(), 0);
        let names = [workers.name.clone(), "iou-wrk-1".into(), "other".into()];
        std::thread::scope(|scope| {
            let threads = names.map(|name| {
                let (worked, has_worked) = channel();
                let (end, may_end) = channel::<()>();
                let work = move || {
                    let own = rustix::thread::gettid().as_raw_nonzero().get();
                    while processor_time_ns(own).unwrap() < 2_000_000 {
                        std::hint::spin_loop();
                    }
                    worked.send(processor_time_ns(own).unwrap()).unwrap();
                    let _ = may_end.recv();
                };
                Builder::new().name(name).spawn_scoped(scope, work).unwrap();
                (has_worked, end)
            });
            let worked_ns: Vec<u64> = threads.iter().map(|(has_worked, _)| has_worked.recv().unwrap()).collect();
            workers.find();
            let used_ns = workers.used_ns();
            assert!(used_ns >= worked_ns[0] && used_ns < worked_ns[0] + 1_900_000, "{used_ns} of {worked_ns:?}");
            drop(threads);
        });
        assert_eq!(workers.count(), 1);
        workers.find();
        assert_eq!(workers.count(), 0);
    }
}
