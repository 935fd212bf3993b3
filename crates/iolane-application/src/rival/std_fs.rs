//! One call after the other, in the thread that reaps.

use std::collections::VecDeque;
use std::fs::File;

use iolane::{Completion, Queue, Request, Result};

use super::calls::carry_out;

pub(super) struct StdFs {
    file: File,
    depth: usize,
    waiting: VecDeque<Request>,
    syscalls: u64,
}

impl StdFs {
    pub(super) fn new(file: File, depth: usize) -> Self {
        Self { file, depth, waiting: VecDeque::new(), syscalls: 0 }
    }
}

impl Queue for StdFs {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.waiting.len());
        self.waiting.extend(requests.drain(..count));
        count
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let count = min.max(1).min(self.waiting.len());
        for request in self.waiting.drain(..count) {
            self.syscalls += 1;
            completions.push(carry_out(&self.file, request));
        }
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}
