//! Threads that take turns in virtual time: one runs, the others wait, so that a run of many threads is the same every time. `world` moves
//! the time when all of them wait.

use std::thread::{Thread, current};

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
}

#[derive(Debug, Clone)]
enum Member {
    Expected,
    /// It goes on when it has what it waits for.
    Waits(Wait, Thread),
    Runs,
    Left,
}

impl Turns {
    /// Whose turn it is; `None` while nobody takes turns.
    pub(super) fn current(&self) -> Option<usize> {
        self.current
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
        self.wait(thread, Wait { queue: None, latest: 0 });
        if !self.threads.iter().any(|thread| matches!(thread, Member::Expected)) {
            self.give(0);
        }
    }

    fn give(&mut self, thread: usize) {
        if let Member::Waits(_, of) = std::mem::replace(&mut self.threads[thread], Member::Runs)
            && of.id() != current().id()
        {
            of.unpark();
        }
        self.current = Some(thread);
    }

    /// The calling thread waits.
    pub(super) fn wait(&mut self, thread: usize, wait: Wait) {
        self.threads[thread] = Member::Waits(wait, current());
    }

    /// It takes no more turns. Returns whether others do.
    pub(super) fn leave(&mut self, thread: usize) -> bool {
        let Some(member) = self.threads.get_mut(thread) else { return false };
        *member = Member::Left;
        if self.threads.iter().all(|thread| matches!(thread, Member::Left)) {
            *self = Self::default();
        }
        !self.threads.is_empty()
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
