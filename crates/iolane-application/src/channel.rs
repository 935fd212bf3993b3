//! A queue with its buffers: what the applications read and write blocks through, on any path or rival.

use std::time::Duration;

use iolane::{Buffer, Completion, Error, Pages, Pool, Queue, QueueConfig, Request, Result, Target, open_queue};

use crate::by::By;

pub(crate) struct Channel {
    queue: Box<dyn Queue>,
    pool: Pool,
    depth: usize,
    requests: Vec<Request>,
    completions: Vec<Completion>,
}

/// A request that is done.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tag: u64,
    /// What was read or written; none of a sync.
    pub(crate) buffer: Option<Buffer>,
}

impl Channel {
    /// Opens a queue with as many buffers as requests. On a path that takes fewer requests than `depth`, it is as deep as that.
    pub(crate) fn open(by: &By, target: &Target, depth: u32, buffer_bytes: usize) -> Result<Self> {
        let depth = by.depth(target, depth)?;
        let pool = Pool::new(depth as usize, buffer_bytes, Pages::Base)?;
        let config = QueueConfig::new(depth).pool(&pool);
        Self::with_pool(by, target, config, pool)
    }

    /// Opens a queue that is given buffers of this pool, which it registers only if the configuration has the pool.
    pub(crate) fn with_pool(by: &By, target: &Target, config: QueueConfig, pool: Pool) -> Result<Self> {
        let depth = config.depth as usize;
        let queue = match by {
            By::Path(path) => open_queue(path, target, &config)?,
            By::Rival(rival) => rival.open(target, depth)?,
        };
        Ok(Self { queue, pool, depth, requests: Vec::new(), completions: Vec::new() })
    }

    /// How many more requests it takes.
    pub(crate) fn room(&self) -> usize {
        self.depth - self.queue.in_flight() - self.requests.len()
    }

    /// A buffer of that many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<Buffer> {
        let mut buffer = self.pool.take().ok_or_else(|| Error::failed("a request", "every buffer is in use"))?;
        buffer.set_len(bytes)?;
        Ok(buffer)
    }

    /// Begins to read a block into a buffer of the pool.
    pub(crate) fn read(&mut self, tag: u64, offset: u64, bytes: usize) -> Result<()> {
        let buffer = self.take(bytes)?;
        self.read_into(tag, offset, buffer);
        Ok(())
    }

    pub(crate) fn read_into(&mut self, tag: u64, offset: u64, buffer: Buffer) {
        self.requests.push(Request::read(tag, offset, buffer));
    }

    pub(crate) fn write(&mut self, tag: u64, offset: u64, buffer: Buffer) {
        self.requests.push(Request::write(tag, offset, buffer));
    }

    pub(crate) fn sync(&mut self, tag: u64) {
        self.requests.push(Request::fdatasync(tag));
    }

    /// Hands over what was begun, so that it is carried out while the program computes.
    ///
    /// # Errors
    /// If the queue failed.
    pub(crate) fn submit(&mut self) -> Result<()> {
        if !self.requests.is_empty() {
            self.queue.submit(&mut self.requests);
            self.queue.flush()?;
        }
        Ok(())
    }

    /// Submits, waits for at least `min` requests, and returns those that are done.
    ///
    /// # Errors
    /// If the queue or one of the requests failed, or moved fewer bytes than asked for.
    pub(crate) fn wait(&mut self, min: usize) -> Result<Vec<Done>> {
        self.queue.turn(&mut self.requests, min, &mut self.completions)?;
        self.done()
    }

    /// The same, for a time at most.
    pub(crate) fn wait_within(&mut self, min: usize, timeout: Duration) -> Result<Vec<Done>> {
        self.queue.submit(&mut self.requests);
        self.queue.reap_within(min, timeout, &mut self.completions)?;
        self.done()
    }

    fn done(&mut self) -> Result<Vec<Done>> {
        self.completions.drain(..).map(done).collect()
    }

    /// Waits for everything in flight.
    pub(crate) fn finish(&mut self) -> Result<()> {
        while self.in_flight() > 0 {
            self.wait(1)?;
        }
        Ok(())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.requests.len()
    }

    /// The system calls it made, where it can count them.
    pub(crate) fn syscalls(&self) -> Option<u64> {
        self.queue.syscalls()
    }
}

fn done(completion: Completion) -> Result<Done> {
    let failed = |cause: String| Error::failed("a request of the application", cause);
    let Completion { tag, result, buffer, .. } = completion;
    let moved = result.map_err(|error| failed(error.to_string()))? as usize;
    let wanted = buffer.as_ref().map_or(moved, |buffer| buffer.len());
    match moved == wanted {
        true => Ok(Done { tag, buffer }),
        false => Err(failed(format!("it moved {moved} of {wanted} bytes"))),
    }
}
