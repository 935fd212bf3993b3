//! Processor time of the kernel's workers that carry out requests of io_uring which would have blocked their caller (io-wq). From Linux
//! 5.12 on they are threads of the process, named `iou-wrk-TID` for the thread that submits; before, they cannot be told apart.

use std::mem::MaybeUninit;

use rustix::fs::{Mode, OFlags, RawDir};

use crate::thread_usage::{CLOSE_SYSCALLS, clock_ns};

/// The workers of one thread.
#[derive(Debug)]
pub struct IoWorkers {
    /// The number of the thread.
    own: u32,
    /// The threads of the process that were seen.
    threads: Vec<Thread>,
    /// System calls that looking took.
    syscalls: u64,
}

/// A thread of the process.
#[derive(Debug)]
struct Thread {
    id: libc::pid_t,
    /// Of a worker, the number of the thread that it works for.
    works_for: Option<u32>,
    /// Its processor time at the last look, if it is a worker of ours.
    used_ns: Option<u64>,
}

impl IoWorkers {
    /// Those of the calling thread. Time that they have used so far does not count.
    pub fn of_this_thread() -> Self {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut workers = Self { own, threads: Vec::new(), syscalls: 1 };
        workers.find();
        workers.used_ns();
        workers
    }

    /// Looks for new workers. What they have used so far counts, if their threads are new, too.
    pub fn find(&mut self) {
        let Ok(there) = self.threads_of_process() else { return };
        self.threads.retain(|thread| there.contains(&thread.id));
        let known = self.threads.len();
        for id in there {
            if !self.threads.iter().any(|known| known.id == id) {
                let works_for = self.works_for(id);
                self.threads.push(Thread { id, works_for, used_ns: None });
            }
        }
        let own = self.own_number();
        for (place, thread) in self.threads.iter_mut().enumerate() {
            let is_own = own.is_some() && thread.works_for == own;
            let before = || if place < known { processor_time_ns(thread.id) } else { Some(0) };
            self.syscalls += u64::from(is_own && place < known && thread.used_ns.is_none());
            thread.used_ns = if is_own { thread.used_ns.or_else(before) } else { None };
        }
    }

    /// The threads of this process.
    fn threads_of_process(&mut self) -> rustix::io::Result<Vec<libc::pid_t>> {
        self.syscalls += 1;
        let folder =
            rustix::fs::open(c"/proc/self/task", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        self.syscalls += CLOSE_SYSCALLS;
        // A thread takes 24 bytes of it. It is not allocated: the allocator makes system calls of its own for large blocks.
        let mut buffer = [MaybeUninit::uninit(); 4 << 10];
        let mut entries = RawDir::new(folder, &mut buffer);
        let mut threads = Vec::new();
        loop {
            self.syscalls += u64::from(entries.is_buffer_empty());
            let Some(entry) = entries.next() else { return Ok(threads) };
            threads.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<libc::pid_t>().ok()));
        }
    }

    /// For which thread this one works, by its name.
    fn works_for(&mut self, id: libc::pid_t) -> Option<u32> {
        self.syscalls += 1;
        let name = format!("/proc/self/task/{id}/comm");
        let file = rustix::fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        self.syscalls += 1 + CLOSE_SYSCALLS;
        let mut name = [0; 32];
        let length = rustix::io::read(&file, &mut name).ok()?;
        str::from_utf8(&name[..length]).ok()?.trim_end().strip_prefix("iou-wrk-")?.parse().ok()
    }

    /// The number that the workers of the thread have in their names. It is that of the initial PID namespace, which a thread in another one,
    /// as in a container, cannot know: there the workers are taken to be its own if all of the process work for one thread.
    fn own_number(&self) -> Option<u32> {
        let numbers = || self.threads.iter().filter_map(|thread| thread.works_for);
        let is_here = |number: u32| self.threads.iter().any(|thread| thread.id as u32 == number);
        let only = numbers().next().filter(|first| numbers().all(|number| number == *first) && !is_here(*first));
        if numbers().any(|number| number == self.own) { Some(self.own) } else { only }
    }

    /// System calls since the last call of this.
    pub fn take_syscalls(&mut self) -> u64 {
        std::mem::take(&mut self.syscalls)
    }

    /// The number of known workers.
    pub fn count(&self) -> usize {
        self.threads.iter().filter(|thread| thread.used_ns.is_some()).count()
    }

    /// Nanoseconds that the known workers have used since the last call: one system call each.
    pub fn used_ns(&mut self) -> u64 {
        self.syscalls += self.count() as u64;
        let of_workers = self.threads.iter_mut().filter_map(|thread| Some((thread.id, thread.used_ns.as_mut()?)));
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
        // The others work for the first thread of the process, and for none.
        let names = [workers.own, std::process::id()].map(|thread| format!("iou-wrk-{thread}"));
        let names = [names[0].clone(), names[1].clone(), "other".into()];
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
        // A scope ends a little before its threads.
        while workers.count() > 0 {
            workers.find();
        }
    }

    #[test]
    fn in_a_container_the_workers_are_ours_if_all_work_for_one_thread_that_is_not_here() {
        let thread = |id, works_for| Thread { id, works_for, used_ns: None };
        let own_number = |threads| IoWorkers { own: 7, threads, syscalls: 0 }.own_number();
        assert_eq!(own_number(vec![thread(7, None)]), None);
        assert_eq!(own_number(vec![thread(7, None), thread(8, Some(7)), thread(9, Some(6))]), Some(7));
        assert_eq!(own_number(vec![thread(7, None), thread(8, Some(4071)), thread(9, Some(4071))]), Some(4071));
        assert_eq!(own_number(vec![thread(7, None), thread(8, Some(4071)), thread(9, Some(4072))]), None);
        // Those of another thread, which is here.
        assert_eq!(own_number(vec![thread(7, None), thread(6, None), thread(9, Some(6))]), None);
    }
}
