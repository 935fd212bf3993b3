//! What every queue owes its caller ([`Queue`]), as a checker for tests. The conformance suite on `sim` and on real paths, the fake kernels, and
//! the model of an NVMe controller use it; each adds what it alone can see, such as the memory that a device may still write.
//!
//! * `submit` takes as many requests as there is room for, from the front, and leaves the others as they are.
//! * `reap` returns the number of completions that it appends: at least as many as asked for, or as are in flight.
//! * Each request is answered once, under its own tag, with its own buffers in their order and of their lengths.
//! * No more bytes are moved than were asked for, and none by a request without buffers.
//! * What is not answered is in flight.
//!
//! A violation is an error with a line that says what the queue did. That of the queue itself, which it may return when the kernel refuses a
//! call, is none.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use iolane_core::{Buffer, Completion, Queue, Request, Result};

/// What a queue did against the contract.
#[derive(Debug)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// What the contract allows, or a violation.
pub type Kept<T> = std::result::Result<T, Violation>;

fn ensure(is_kept: bool, violation: impl FnOnce() -> String) -> Kept<()> {
    if is_kept { Ok(()) } else { Err(Violation(violation())) }
}

/// A request that has no answer yet, with a note of the test about it.
#[derive(Debug)]
pub struct Owed<T> {
    /// The test's own.
    pub note: T,
    /// Bytes that it moves if it is not cut short.
    pub bytes: usize,
    /// Whether it was to be cancelled.
    pub asked_to_cancel: bool,
    /// Address and length of each buffer.
    buffers: Vec<(usize, usize)>,
}

/// The requests of one queue, from when they are made until they are answered.
#[derive(Debug)]
pub struct Contract<T> {
    owed: HashMap<u64, Owed<T>>,
}

impl<T> Default for Contract<T> {
    fn default() -> Self {
        Self { owed: HashMap::new() }
    }
}

impl<T> Contract<T> {
    /// A request was made, which the queue will get. No other that waits for its answer may have its tag.
    ///
    /// # Panics
    /// If one has: the mistake is the test's.
    pub fn asks(&mut self, request: &Request, note: T) {
        let operation = &request.operation;
        let buffers = operation.memory().map(place).collect();
        let owed = Owed { note, bytes: operation.bytes(), asked_to_cancel: false, buffers };
        assert!(self.owed.insert(request.tag, owed).is_none(), "tag {} is given twice", request.tag);
    }

    /// The queue will not get this request after all.
    ///
    /// # Panics
    /// If it was not made, or has its answer.
    pub fn withdraws(&mut self, tag: u64) -> T {
        self.owed.remove(&tag).unwrap_or_else(|| panic!("tag {tag} is not owed")).note
    }

    /// The requests without an answer, by tag.
    pub fn owed(&self) -> &HashMap<u64, Owed<T>> {
        &self.owed
    }

    /// Submits what waits; what the queue has no room for stays.
    ///
    /// # Errors
    /// If it took more than it had room for, or fewer.
    pub fn submit(&self, queue: &mut (impl Queue + ?Sized), waiting: &mut Vec<Request>) -> Kept<usize> {
        let offered = waiting.len();
        let room = queue.depth().saturating_sub(queue.in_flight());
        let next = waiting.get(room.min(offered)).map(|request| request.tag);
        let taken = queue.submit(waiting);
        ensure(taken == offered.min(room), || format!("{taken} of {offered} requests are taken where {room} fit"))?;
        let left = waiting.len();
        ensure(left == offered - taken, || {
            format!("it counts {taken} of {offered} requests as taken, and leaves {left}")
        })?;
        let front = waiting.first().map(|request| request.tag);
        ensure(front == next, || format!("the first of those left is {front:?}, and should be {next:?}"))?;
        Ok(taken)
    }

    /// Reaps at least `min` completions, or as many as are in flight.
    ///
    /// # Errors
    /// If there are fewer, or the count is another; the inner error is the queue's.
    pub fn reap(
        &self,
        queue: &mut (impl Queue + ?Sized),
        min: usize,
        ended: &mut Vec<Completion>,
    ) -> Kept<Result<usize>> {
        let (before, due) = (ended.len(), min.min(queue.in_flight()));
        let reaped = counted(queue.reap(min, ended), ended.len() - before)?;
        enough(reaped, due)
    }

    /// Reaps with a time limit.
    ///
    /// # Errors
    /// If the count is another than that of the completions; the inner error is the queue's.
    pub fn reap_within(
        &self,
        queue: &mut (impl Queue + ?Sized),
        min: usize,
        timeout: Duration,
        ended: &mut Vec<Completion>,
    ) -> Kept<Result<usize>> {
        let before = ended.len();
        counted(queue.reap_within(min, timeout, ended), ended.len() - before)
    }

    /// Submits and reaps in one call.
    ///
    /// # Errors
    /// As for `submit` and `reap`; the inner error is the queue's.
    pub fn turn(
        &self,
        queue: &mut (impl Queue + ?Sized),
        waiting: &mut Vec<Request>,
        min: usize,
        ended: &mut Vec<Completion>,
    ) -> Kept<Result<usize>> {
        let (offered, in_flight, before) = (waiting.len(), queue.in_flight(), ended.len());
        let room = queue.depth().saturating_sub(in_flight);
        let turned = counted(queue.turn(waiting, min, ended), ended.len() - before)?;
        let taken = offered.saturating_sub(waiting.len());
        ensure(waiting.len() + offered.min(room) == offered, || {
            format!("{taken} of {offered} requests are taken where {room} fit")
        })?;
        enough(turned, min.min(in_flight + taken))
    }

    /// Asks to cancel the request with this tag, if it has no answer yet; the queue may know nothing of it.
    ///
    /// # Errors
    /// The queue's.
    pub fn cancel(&mut self, queue: &mut (impl Queue + ?Sized), tag: u64) -> Result<usize> {
        if let Some(owed) = self.owed.get_mut(&tag) {
            owed.asked_to_cancel = true;
        }
        queue.cancel(tag)
    }

    /// The request that is answered.
    ///
    /// # Errors
    /// If none with its tag waits for an answer, or its buffers or its bytes are wrong.
    pub fn answers(&mut self, completion: &Completion) -> Kept<Owed<T>> {
        let tag = completion.tag;
        let owed = self.owed.remove(&tag);
        let owed = owed.ok_or_else(|| Violation(format!("tag {tag} is answered twice, or was never given")))?;
        let back: Vec<_> = completion.buffer.iter().chain(completion.buffers.iter().flatten()).map(place).collect();
        ensure(back == owed.buffers, || {
            format!("tag {tag} comes back with the buffers {back:x?}, not {:x?}", owed.buffers)
        })?;
        let moved = completion.result.unwrap_or(0) as usize;
        ensure(moved <= owed.bytes, || format!("tag {tag} moved {moved} bytes of {}", owed.bytes))?;
        Ok(owed)
    }

    /// Compares what the queue has in flight with what it owes, apart from requests that wait to be submitted.
    ///
    /// # Errors
    /// If they differ.
    pub fn counts(&self, queue: &(impl Queue + ?Sized), waiting: usize) -> Kept<()> {
        let (counted, owed) = (queue.in_flight(), self.owed.len());
        ensure(counted + waiting == owed, || {
            format!("the queue has {counted} in flight, {waiting} wait, and {owed} have no answer")
        })
    }
}

/// Address and length of a buffer.
fn place(buffer: &Buffer) -> (usize, usize) {
    (buffer.address().addr(), buffer.len())
}

fn counted(reaped: Result<usize>, appended: usize) -> Kept<Result<usize>> {
    if let Ok(count) = reaped {
        ensure(count == appended, || format!("it counts {count} completions, and appends {appended}"))?;
    }
    Ok(reaped)
}

fn enough(reaped: Result<usize>, due: usize) -> Kept<Result<usize>> {
    if let Ok(count) = reaped {
        ensure(count >= due, || format!("{count} completions where {due} were to come"))?;
    }
    Ok(reaped)
}

#[cfg(test)]
mod tests;
