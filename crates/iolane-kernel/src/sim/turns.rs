//! Threads that take turns in virtual time: one runs, the others wait, so that a run of many threads is the same every time. `world` moves
//! the time when all of them wait.

use std::thread::{Thread, ThreadId, current};

use iolane_drive::Time;

/// What a thread waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// A completion of this queue, if one is given,
    pub(super) queue: Option<usize>,
    /// or this time.
    pub(super) latest: Time,
}

/// The threads that take turns; none, unless they [arrive](Self::arrive).
#[derive(Debug, Default)]
pub(super) struct Turns {
    threads: Vec<Member>,
    /// Whose turn it is.
    current: Option<usize>,
    /// Nobody waits for a turn any more.
    cancelled: bool,
    /// How often a turn was given.
    given: u64,
}

#[derive(Debug, Clone)]
enum Member {
    Expected,
    /// It goes on when it has what it waits for.
    Waits(Wait, Thread),
    Runs(ThreadId),
    Left,
}

impl Turns {
    /// Whose turn it is, which must be the calling thread's; `None` while nobody takes turns.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn current(&self) -> Option<usize> {
        let thread = self.current?;
        let is_of_caller = matches!(&self.threads[thread], Member::Runs(of) if *of == current().id());
        assert!(
            is_of_caller,
            "a thread without a turn (not {thread}) waits in a simulated world whose threads take turns"
        );
        Some(thread)
    }

    /// How often a turn was given.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// What keeps a turn from being passed on.
    pub(super) fn why_not(&self) -> String {
        if let Some(thread) = self.current {
            return format!(
                "thread {thread} has it; does it wait for something else than a simulated queue or the clock?"
            );
        }
        let missing = (0..self.threads.len()).filter(|at| matches!(self.threads[*at], Member::Expected));
        format!("threads {:?} of {} have not come", missing.collect::<Vec<_>>(), self.threads.len())
    }

    /// Whether a thread need not wait: it is its turn, or turns were cancelled.
    pub(super) fn may_go_on(&self, thread: usize) -> bool {
        self.cancelled || self.current == Some(thread)
    }

    /// Ends all turns for good: the threads that wait for one go on.
    pub(super) fn cancel(&mut self) {
        for thread in std::mem::take(&mut self.threads) {
            if let Member::Waits(_, of) = thread {
                of.unpark();
            }
        }
        (self.current, self.cancelled) = (None, true);
    }

    /// A thread of as many has come. When all have, it is the turn of the first one.
    pub(super) fn arrive(&mut self, thread: usize, threads: usize) {
        if self.cancelled {
            return;
        }
        if self.threads.is_empty() {
            self.threads = vec![Member::Expected; threads];
        }
        assert_eq!(threads, self.threads.len(), "the threads that take turns disagree on how many they are");
        assert!(matches!(self.threads.get(thread), Some(Member::Expected)), "thread {thread} of {threads} came twice");
        self.wait(thread, Wait { queue: None, latest: 0 });
        if !self.threads.iter().any(|thread| matches!(thread, Member::Expected)) {
            self.give(0);
        }
    }

    fn give(&mut self, thread: usize) {
        if let Member::Waits(_, of) = self.threads[thread].clone() {
            self.threads[thread] = Member::Runs(of.id());
            if of.id() != current().id() {
                of.unpark();
            }
        }
        self.current = Some(thread);
        self.given += 1;
    }

    /// The calling thread waits.
    pub(super) fn wait(&mut self, thread: usize, wait: Wait) {
        self.threads[thread] = Member::Waits(wait, current());
    }

    /// It takes no more turns. Returns whether the turn was its own, and others wait for it.
    pub(super) fn leave(&mut self, thread: usize) -> bool {
        let Some(member) = self.threads.get_mut(thread) else { return false };
        *member = Member::Left;
        // One that panicked because another one keeps the turn has none to pass on.
        let had_it = self.current == Some(thread);
        if self.threads.iter().all(|thread| matches!(thread, Member::Left)) {
            *self = Self { given: self.given, ..Self::default() };
        }
        had_it && !self.threads.is_empty()
    }

    /// Gives the turn to the first thread that can go on now; returns false if none can.
    pub(super) fn pass(&mut self, now: Time, has_completions: impl Fn(usize) -> bool) -> bool {
        let can_go_on = |thread: &Member| match thread {
            Member::Waits(Wait { queue, latest }, _) => *latest <= now || queue.is_some_and(&has_completions),
            _ => false,
        };
        let next = self.threads.iter().position(can_go_on);
        next.into_iter().for_each(|thread| self.give(thread));
        next.is_some()
    }

    /// The earliest time that a thread waits for.
    pub(super) fn earliest(&self) -> Option<Time> {
        let waits = |thread: &Member| match thread {
            Member::Waits(wait, _) => Some(wait.latest),
            _ => None,
        };
        self.threads.iter().filter_map(waits).min()
    }

    /// Ends every wait.
    pub(super) fn release(&mut self) {
        for thread in &mut self.threads {
            if let Member::Waits(wait, _) = thread {
                wait.latest = 0;
            }
        }
    }
}
