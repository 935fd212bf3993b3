//! Each request in a thread of tokio's pool: what `tokio::fs` does with a file.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use iolane::{Completion, Error, Queue, Request, Result};
use tokio::runtime::{Builder, Runtime};

use super::calls::carry_out;

pub(super) struct TokioPool {
    runtime: Runtime,
    file: Arc<File>,
    depth: usize,
    in_flight: usize,
    send: Sender<Completion>,
    receive: Receiver<Completion>,
}

impl TokioPool {
    pub(super) fn new(file: File, depth: usize) -> Result<Self> {
        let runtime = Builder::new_current_thread().max_blocking_threads(depth.max(1)).build();
        let runtime = runtime.map_err(|error| Error::system("the runtime of tokio", error))?;
        let (send, receive) = channel();
        Ok(Self { runtime, file: Arc::new(file), depth, in_flight: 0, send, receive })
    }

    fn take(&mut self, completion: Completion, completions: &mut Vec<Completion>) -> usize {
        self.in_flight -= 1;
        completions.push(completion);
        1
    }
}

impl Queue for TokioPool {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.in_flight);
        for request in requests.drain(..count) {
            let (file, send) = (Arc::clone(&self.file), self.send.clone());
            // Who receives may be gone.
            self.runtime.spawn_blocking(move || drop(send.send(carry_out(&file, request))));
        }
        self.in_flight += count;
        count
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let (mut count, min) = (0, min.min(self.in_flight));
        while count < min {
            let completion =
                self.receive.recv().map_err(|_| Error::failed("tokio", "a thread of its pool has ended"))?;
            count += self.take(completion, completions);
        }
        while let Ok(completion) = self.receive.try_recv() {
            count += self.take(completion, completions);
        }
        Ok(count)
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let end = Instant::now() + timeout;
        let mut count = self.reap(0, completions)?;
        while count < min {
            match self.receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(completion) => count += self.take(completion, completions),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The calls are made in threads of the pool, which also wake each other.
    fn syscalls(&self) -> Option<u64> {
        None
    }
}
