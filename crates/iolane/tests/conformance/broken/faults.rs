//! What the bugs do: each changes the requests on their way to the good queue, or the completions on their way back.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;

use iolane::{Completion, IoError, Operation, Request, Target, TargetId};

use super::{Asked, Kind, STRUCK};

/// What becomes of a request.
pub(super) enum Taken {
    /// The good queue gets it.
    Passed(Request),
    /// It completes at once.
    Done(Completion),
}

/// The hooks of a bug; the defaults change nothing.
pub(super) trait Fault {
    /// A request is submitted.
    fn take(&mut self, _asked: &Asked, request: Request) -> Taken {
        Taken::Passed(request)
    }

    /// The good queue has completed a request.
    fn end(&mut self, _asked: &Asked, completion: Completion, ended: &mut Vec<Completion>) {
        ended.push(completion);
    }

    /// Completions that it keeps back; the caller counts them as in flight.
    fn kept(&self) -> usize {
        0
    }

    /// The good queue has nothing in flight.
    fn idle(&mut self, _ended: &mut Vec<Completion>) {}

    /// A request of this tag was cancelled; the completion to add.
    fn cancelled(&self, _tag: u64) -> Option<Completion> {
        None
    }

    fn ignores_timeouts(&self) -> bool {
        false
    }
}

/// No bug.
pub(super) struct Sound;

impl Fault for Sound {}

/// True at every `nth` call.
pub(super) fn every(nth: u64) -> impl FnMut() -> bool {
    let mut count = 0_u64;
    move || {
        count += 1;
        count.is_multiple_of(nth)
    }
}

/// The completion of a request that moved all its bytes.
pub(super) fn whole(request: Request) -> Completion {
    let bytes = request.operation.bytes() as u32;
    request.complete(Ok(bytes))
}

type Take = dyn FnMut(&Asked, Request) -> Taken;

/// Changes requests.
pub(super) struct OnTake(Box<Take>);

impl OnTake {
    pub(super) fn fault(take: impl FnMut(&Asked, Request) -> Taken + 'static) -> Box<dyn Fault> {
        Box::new(Self(Box::new(take)))
    }
}

impl Fault for OnTake {
    fn take(&mut self, asked: &Asked, request: Request) -> Taken {
        (self.0)(asked, request)
    }
}

type Outcome = Result<u32, IoError>;

/// Changes results.
pub(super) struct OnEnd(fn(&Asked, Outcome) -> Outcome);

impl OnEnd {
    pub(super) fn fault(result: fn(&Asked, Outcome) -> Outcome) -> Box<dyn Fault> {
        Box::new(Self(result))
    }
}

impl Fault for OnEnd {
    fn end(&mut self, asked: &Asked, mut completion: Completion, ended: &mut Vec<Completion>) {
        completion.result = (self.0)(asked, completion.result);
        ended.push(completion);
    }
}

/// Brings a read's buffer as it was before.
#[derive(Default)]
pub(super) struct EarlyRead {
    before: HashMap<u64, Vec<u8>>,
}

impl Fault for EarlyRead {
    fn take(&mut self, asked: &Asked, request: Request) -> Taken {
        if let Operation::Read(buffer) = &request.operation
            && asked.number.is_multiple_of(5)
        {
            self.before.insert(asked.number, buffer.to_vec());
        }
        Taken::Passed(request)
    }

    fn end(&mut self, asked: &Asked, mut completion: Completion, ended: &mut Vec<Completion>) {
        if let (Some(before), Some(buffer)) = (self.before.remove(&asked.number), &mut completion.buffer) {
            buffer.copy_from_slice(&before);
        }
        ended.push(completion);
    }
}

/// Reports writes to the first target at once, and carries them out when a request of some kind comes, or at the end.
pub(super) struct Held {
    file: File,
    releases: Box<dyn Fn(&Request) -> bool>,
    held: Vec<(u64, Vec<u8>)>,
}

impl Held {
    pub(super) fn until(target: &Target, releases: impl Fn(&Request) -> bool + 'static) -> Self {
        Self { file: file_of(target), releases: Box::new(releases), held: Vec::new() }
    }

    fn release(&mut self) {
        for (offset, bytes) in self.held.drain(..) {
            let _ = self.file.write_all_at(&bytes, offset);
        }
    }
}

impl Fault for Held {
    fn take(&mut self, _asked: &Asked, request: Request) -> Taken {
        if (self.releases)(&request) {
            self.release();
        }
        match &request.operation {
            Operation::Write(buffer) if request.target == TargetId::FIRST => {
                self.held.push((request.offset, buffer.to_vec()));
                Taken::Done(whole(request))
            }
            _ => Taken::Passed(request),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

fn file_of(target: &Target) -> File {
    let descriptor = target.fd().expect("libaio reaches targets with a descriptor");
    descriptor.try_clone_to_owned().expect("there are descriptors left").into()
}

/// Completes twice, the second time without a buffer.
pub(super) struct Doubled(pub(super) Box<dyn FnMut() -> bool>);

impl Fault for Doubled {
    fn end(&mut self, _asked: &Asked, completion: Completion, ended: &mut Vec<Completion>) {
        let again = Request::fsync(completion.tag).complete(completion.result);
        ended.push(completion);
        ended.extend((self.0)().then_some(again));
    }
}

/// Loses completions.
pub(super) struct Lost {
    pub(super) is_due: Box<dyn FnMut() -> bool>,
    pub(super) lost: usize,
}

impl Fault for Lost {
    fn end(&mut self, _asked: &Asked, completion: Completion, ended: &mut Vec<Completion>) {
        if (self.is_due)() {
            self.lost += 1;
        } else {
            ended.push(completion);
        }
    }

    fn kept(&self) -> usize {
        self.lost
    }
}

/// Keeps a completion until the next of its kind, and exchanges something between the two.
pub(super) struct Exchanged {
    concerns: fn(&Asked) -> bool,
    exchange: fn(&mut Completion, &mut Completion),
    kept: Option<Completion>,
}

impl Exchanged {
    pub(super) fn fault(
        concerns: fn(&Asked) -> bool,
        exchange: fn(&mut Completion, &mut Completion),
    ) -> Box<dyn Fault> {
        Box::new(Self { concerns, exchange, kept: None })
    }
}

impl Fault for Exchanged {
    fn end(&mut self, asked: &Asked, mut completion: Completion, ended: &mut Vec<Completion>) {
        if !(self.concerns)(asked) {
            return ended.push(completion);
        }
        match self.kept.take() {
            None => self.kept = Some(completion),
            Some(mut other) => {
                (self.exchange)(&mut completion, &mut other);
                ended.extend([other, completion]);
            }
        }
    }

    fn kept(&self) -> usize {
        usize::from(self.kept.is_some())
    }

    fn idle(&mut self, ended: &mut Vec<Completion>) {
        ended.extend(self.kept.take());
    }
}

/// Shortens writes, to whole sectors where they are of sectors, and reports them whole.
#[derive(Default)]
pub(super) struct Torn {
    writes: u64,
    torn: HashMap<u64, usize>,
}

impl Fault for Torn {
    fn take(&mut self, asked: &Asked, mut request: Request) -> Taken {
        if let Operation::Write(buffer) = &mut request.operation
            && asked.bytes >= 1024
        {
            self.writes += 1;
            let unit = if asked.bytes.is_multiple_of(512) { 512 } else { 1 };
            if self.writes.is_multiple_of(7) && buffer.set_len(asked.bytes / 2 / unit * unit).is_ok() {
                self.torn.insert(asked.number, asked.bytes);
            }
        }
        Taken::Passed(request)
    }

    fn end(&mut self, asked: &Asked, mut completion: Completion, ended: &mut Vec<Completion>) {
        if let (Some(bytes), Some(buffer)) = (self.torn.remove(&asked.number), &mut completion.buffer) {
            buffer.set_len(bytes).expect("its length before");
            completion.result = completion.result.map(|_| bytes as u32);
        }
        ended.push(completion);
    }
}

/// Adds a completion when it cancels.
pub(super) struct CancelledTwice;

impl Fault for CancelledTwice {
    fn cancelled(&self, tag: u64) -> Option<Completion> {
        eprintln!("{STRUCK}");
        Some(Request::fsync(tag).complete(Err(IoError::CANCELLED)))
    }
}

/// Waits on when the timeout is over.
pub(super) struct WaitsOn;

impl Fault for WaitsOn {
    fn ignores_timeouts(&self) -> bool {
        true
    }
}

/// Opens a descriptor that nobody closes.
pub(super) struct LeakedDescriptor;

impl LeakedDescriptor {
    pub(super) fn of(target: &Target) -> Box<dyn Fault> {
        let _ = file_of(target).into_raw_fd();
        Box::new(Self)
    }
}

impl Fault for LeakedDescriptor {}

/// Copies reads out of a mapping of the first target, as long as it was when the queue was opened.
pub(super) struct Mapped {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Mapped {
    pub(super) fn of(target: &Target) -> Self {
        let bytes = target.bytes() as usize;
        let descriptor = target.fd().map_or(-1, |descriptor| descriptor.as_raw_fd());
        // SAFETY: a new mapping where the kernel chooses, of which nobody else knows.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0) };
        Self { start, bytes: if start == libc::MAP_FAILED { 0 } else { bytes } }
    }
}

impl Fault for Mapped {
    fn take(&mut self, asked: &Asked, mut request: Request) -> Taken {
        let end = request.offset.saturating_add(asked.bytes as u64);
        if asked.kind != Kind::Read || request.target != TargetId::FIRST || end > self.bytes as u64 {
            return Taken::Passed(request);
        }
        let offset = request.offset as usize;
        if let Operation::Read(buffer) = &mut request.operation {
            // SAFETY: the range lies within the mapping, and the buffer is this queue's own memory. That the file may have become
            // shorter, which ends the process by SIGBUS, is the bug.
            unsafe {
                std::ptr::copy_nonoverlapping(self.start.cast::<u8>().add(offset), buffer.as_mut_ptr(), asked.bytes);
            }
        }
        Taken::Done(whole(request))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping is this value's own, and nothing refers into it.
            unsafe { libc::munmap(self.start, self.bytes) };
        }
    }
}
