//! The queue of a path that carries requests out one at a time on the calling thread, such as `psync`. The interface
//! implements [`Transfer`], whose reads and writes are its own; [`sync_or_deallocate`] makes the other calls. Submit, flush and
//! reap are here.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use iolane_core::targets::{check_detach, no_room_for};
use iolane_core::{
    Completion, IoError, Operation, Operations, Queue, QueueConfig, QueueStats, Request, Result, Target, TargetId,
    TargetKind, Targets,
};

use crate::checks;

/// How a blocking path carries out one request.
pub(crate) trait Transfer {
    /// What it keeps for a target.
    type Target;

    /// The target as requests need it, with the operations of the path on it.
    ///
    /// # Errors
    /// `Unavailable` if the path does not work on it.
    fn target(&self, target: &Target) -> Result<(Self::Target, Operations)>;

    /// Carries the request out, for as long as it blocks, and returns the number of bytes moved. The operation is one that
    /// [`target`](Self::target) named.
    fn transfer(&mut self, target: &Self::Target, request: &mut Request) -> Result<u32, IoError>;

    /// The system calls made so far, or `None` where it cannot count them.
    fn syscalls(&self) -> Option<u64>;
}

/// A queue of depth 1 over a [`Transfer`].
pub(crate) struct Blocking<T: Transfer> {
    transfer: T,
    targets: Targets<(T::Target, Operations)>,
    state: State,
}

/// The only request there can be.
enum State {
    Idle,
    Submitted(Request),
    Done(Completion),
}

impl<T: Transfer> Blocking<T> {
    /// A queue on a target, with room for others. Requests for operations that `transfer` did not name complete with
    /// `NOT_SUPPORTED`.
    pub(crate) fn open(transfer: T, target: &Target, config: &QueueConfig) -> Result<Self> {
        let first = transfer.target(target)?;
        Ok(Self { targets: Targets::new(config.targets, first), transfer, state: State::Idle })
    }

    #[inline(always)]
    fn perform(&mut self, mut request: Request) -> Completion {
        debug_assert!(
            matches!(self.state, State::Idle),
            "the request was taken out of the queue before it is performed"
        );
        let Some((target, operations)) = self.targets.get(request.target) else {
            return request.complete(Err(IoError::NOT_ATTACHED));
        };
        if !matches!(request.operation, Operation::Read(_) | Operation::Write(_))
            && let Err(error) = checks::supported(*operations, &request.operation)
        {
            return request.complete(Err(error));
        }
        let result = self.transfer.transfer(target, &mut request);
        debug_assert!(is_possible(&request, result), "a transfer moves the length of its buffers at most: {result:?}");
        request.complete(result)
    }
}

fn is_possible(request: &Request, result: Result<u32, IoError>) -> bool {
    result.is_ok_and(|bytes| bytes as usize <= request.operation.bytes()) || result.is_err()
}

impl<T: Transfer> Queue for Blocking<T> {
    #[inline]
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        if !matches!(self.state, State::Idle) || requests.is_empty() {
            return 0;
        }
        self.state = State::Submitted(requests.remove(0));
        1
    }

    fn flush(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Submitted(request) => self.state = State::Done(self.perform(request)),
            unchanged => self.state = unchanged,
        }
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        // Performed even for `min = 0`: no other thread would carry the request out.
        let completion = match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => return Ok(0),
            State::Submitted(request) => self.perform(request),
            State::Done(completion) => completion,
        };
        completions.push(completion);
        Ok(1)
    }

    /// Performs the request without storing it first.
    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if !matches!(self.state, State::Idle) {
            return self.reap(min, completions);
        }
        if requests.is_empty() {
            return Ok(0);
        }
        completions.push(self.perform(requests.remove(0)));
        Ok(1)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        let attached = self.transfer.target(target)?;
        self.targets.attach(attached).map_err(|_| no_room_for(target, self.targets.most()))
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        let submitted = match &self.state {
            State::Submitted(request) => Some(request.target),
            State::Idle | State::Done(_) => None,
        };
        check_detach(&self.targets, target, submitted)?;
        self.targets.detach(target);
        Ok(())
    }

    /// A request that was not carried out yet.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Submitted(request) if request.tag == tag => {
                self.state = State::Done(request.complete(Err(IoError::CANCELLED)));
                Ok(1)
            }
            unchanged => {
                self.state = unchanged;
                Ok(0)
            }
        }
    }

    fn depth(&self) -> usize {
        1
    }

    fn in_flight(&self) -> usize {
        usize::from(!matches!(self.state, State::Idle))
    }

    fn syscalls(&self) -> Option<u64> {
        self.transfer.syscalls()
    }

    /// Each call hands over one request.
    fn stats(&self) -> QueueStats {
        QueueStats::new(self.depth(), self.in_flight(), self.syscalls()).batches(self.syscalls())
    }
}

/// Carries out an operation that moves no data: fsync(2), fdatasync(2), and fallocate(2) or, for a discard on a block device,
/// its ioctl. `EINVAL` for reads and writes.
pub(crate) fn sync_or_deallocate(
    fd: BorrowedFd<'_>,
    kind: TargetKind,
    offset: u64,
    operation: &Operation,
) -> Result<(), Errno> {
    let allocate =
        |flags: FallocateFlags, bytes: u64| rustix::fs::fallocate(fd, flags | FallocateFlags::KEEP_SIZE, offset, bytes);
    match operation {
        Operation::Fsync => rustix::fs::fsync(fd),
        Operation::Fdatasync => rustix::fs::fdatasync(fd),
        Operation::Discard { bytes } if kind == TargetKind::Block => discard(fd, offset, *bytes),
        Operation::Discard { bytes } => allocate(FallocateFlags::PUNCH_HOLE, *bytes),
        Operation::WriteZeroes { bytes } => allocate(FallocateFlags::ZERO_RANGE, *bytes),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// BLKDISCARD (linux/fs.h): `_IO(0x12, 119)`, with offset and length in bytes.
fn discard(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<(), Errno> {
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [offset, bytes];
    // SAFETY: BLKDISCARD reads two u64 from the pointer during the call, and `range` holds them.
    match unsafe { libc::ioctl(fd.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Carries these operations out by doing nothing.
    struct Nothing(Operations);

    fn queue(operations: Operations) -> Blocking<Nothing> {
        Blocking::open(Nothing(operations), &Target::open("null").unwrap(), &QueueConfig::new(1)).unwrap()
    }

    impl Transfer for Nothing {
        type Target = ();

        fn target(&self, _: &Target) -> Result<((), Operations)> {
            Ok(((), self.0))
        }

        fn transfer(&mut self, (): &(), _: &mut Request) -> Result<u32, IoError> {
            Ok(0)
        }

        fn syscalls(&self) -> Option<u64> {
            Some(0)
        }
    }

    #[test]
    fn a_second_flush_keeps_the_completion() {
        let mut queue = queue(Operations::ALL);
        queue.submit(&mut vec![Request::fsync(7)]);
        queue.flush().unwrap();
        queue.flush().unwrap();
        let mut completions = Vec::new();
        assert_eq!((queue.reap(1, &mut completions).unwrap(), queue.in_flight()), (1, 0));
        assert_eq!(completions[0].tag, 7);
    }

    #[test]
    fn an_operation_that_was_not_named_is_refused() {
        let mut queue = queue(Operations::READ);
        let mut completions = Vec::new();
        queue.turn(&mut vec![Request::fsync(7)], 1, &mut completions).unwrap();
        assert_eq!(completions[0].result, Err(IoError::NOT_SUPPORTED));
    }
}
