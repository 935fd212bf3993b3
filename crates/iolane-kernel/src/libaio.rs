//! `libaio`: the kernel's native asynchronous I/O by raw system calls (io_submit(2), io_getevents(2)).
//! Where the layout is known, completions are read without a system call from the ring that the kernel maps into the process;
//! with `getevents` they are fetched by calls, as programs on libaio's own functions do.

pub(crate) mod context;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;

use iolane_core::capability::check_depth;
use iolane_core::targets::{check_detach, no_room_for};
use iolane_core::{
    Capabilities, Completion, Error, Interface, IoError, IoPath, Operation, PathOptions, Queue, QueueConfig,
    QueueStats, Request, Result, Slots, Target, TargetId, Targets,
};

use crate::checks;
use crate::control_blocks::ControlBlocks;
use context::{AioCalls, Context, IoEvent, Linux};

pub(crate) struct Libaio;

const OPTIONS: PathOptions = PathOptions { getevents: true, ..PathOptions::NONE };

const DEPTH_MAX: u32 = 65_536;

impl Interface for Libaio {
    fn name(&self) -> &'static str {
        "libaio"
    }

    fn summary(&self) -> &'static str {
        "io_submit/io_getevents by raw system calls; asynchronous only with O_DIRECT; never polls"
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![IoPath::new(self.name())]
    }

    fn option_variants(&self) -> Vec<IoPath> {
        let mut path = IoPath::new(self.name());
        path.options = OPTIONS;
        vec![path]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        checks::only_options(path, OPTIONS)?;
        checks::no_sqpoll(path)?;
        checks::no_polling(path, "the kernel's aio has no polled completion (a patch for it never landed)")
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        checks::file_or_block(path, target)?;
        // The kernel may lack it (CONFIG_AIO), or the machine may be out of contexts.
        Context::new(Linux, path, 1)?;
        Ok(Capabilities::new(DEPTH_MAX, checks::transfers_and_syncs(target))
            .atomic_writes(target.atomic_writes())
            .event_fd(true)
            .note(
                (!target.direct())
                    .then(|| "without O_DIRECT io_submit blocks until the data is read or written".into()),
            ))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        check_depth(path, config.depth, DEPTH_MAX)?;
        self.validate(path)?;
        checks::file_or_block(path, target)?;
        Ok(Box::new(LibaioQueue::over(Linux, path, target, config)?))
    }
}

/// Most completions of one io_getevents(2) call, unless the configuration asks for fewer.
const EVENTS_AT_ONCE: usize = 256;

pub(crate) struct LibaioQueue<K: AioCalls = Linux> {
    // Dropped first: that waits until the kernel no longer uses the fields below.
    context: Context<K>,
    path: IoPath,
    targets: Targets<Target>,
    slots: Slots,
    /// The control block of each slot; the kernel copies it during io_submit.
    blocks: ControlBlocks<libc::iocb>,
    /// Blocks submitted and not yet given to the kernel.
    pending: Vec<*mut libc::iocb>,
    /// Requests that completed without the kernel: operations that libaio lacks, and those that io_submit rejected.
    refused: Vec<Completion>,
    events: Box<[IoEvent]>,
    event_fd: Option<OwnedFd>,
    syscalls: u64,
    /// Calls that handed over requests.
    batches: u64,
}

// SAFETY: the context belongs to the address space, and any thread may call on it (io_submit(2)). Its ring is mapped until the
// context is destroyed, and the pending pointers lead into `blocks`, which the queue owns and which do not move with it.
unsafe impl<K: AioCalls + Send> Send for LibaioQueue<K> {}

impl<K: AioCalls> LibaioQueue<K> {
    /// A queue in a new context of this kernel.
    pub(crate) fn over(calls: K, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Self> {
        let mut context = Context::new(calls, path, config.depth)?;
        if path.options.getevents {
            context.ring = None;
        }
        let event_fd = match config.event_fd {
            false => None,
            true => Some(
                rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)
                    .map_err(|errno| Error::system(format!("{path}: eventfd"), errno))?,
            ),
        };
        let depth = config.depth as usize;
        let per_call = config.completions_per_call.map_or(EVENTS_AT_ONCE, |most| most.max(1) as usize);
        Ok(Self {
            context,
            path: path.clone(),
            targets: Targets::new(config.targets, target.clone()),
            slots: Slots::new(depth),
            // SAFETY: an iocb is plain integers, for which zero is a value.
            blocks: unsafe { ControlBlocks::zeroed(depth) },
            pending: Vec::with_capacity(depth),
            refused: Vec::new(),
            events: vec![IoEvent::default(); depth.min(per_call).min(EVENTS_AT_ONCE)].into(),
            event_fd,
            syscalls: 0,
            batches: 0,
        })
    }

    /// Completes a request that the kernel does not have, and makes the event descriptor readable in its place: an event loop
    /// sleeps until then.
    #[cold]
    fn refuse(&mut self, request: Request, error: IoError) {
        self.refused.push(request.complete(Err(error)));
        if let Some(event_fd) = &self.event_fd {
            self.syscalls += 1;
            // It fails only if the counter is full, and then the descriptor is readable.
            let _ = rustix::io::write(event_fd, &1u64.to_ne_bytes());
        }
    }

    fn prepare(&mut self, request: Request) {
        const FSYNC: u16 = 2;
        const FDSYNC: u16 = 3;
        const PREADV: u16 = 7;
        const PWRITEV: u16 = 8;
        // Of a vectored request, the address and the number of its vectors.
        let (opcode, address, bytes) = match &request.operation {
            Operation::Read(buffer) => (0u16, buffer.address(), buffer.len()),
            Operation::Write(buffer) | Operation::DurableWrite(buffer) | Operation::AtomicWrite(buffer) => {
                (1, buffer.address(), buffer.len())
            }
            // The kernel copies the vectors during io_submit, like the block.
            Operation::ReadVectored(buffers) => (PREADV, buffers.iovecs().as_ptr().cast_mut().cast(), buffers.len()),
            Operation::WriteVectored(buffers) | Operation::DurableWriteVectored(buffers) => {
                (PWRITEV, buffers.iovecs().as_ptr().cast_mut().cast(), buffers.len())
            }
            Operation::Fsync => (FSYNC, std::ptr::null_mut(), 0),
            Operation::Fdatasync => (FDSYNC, std::ptr::null_mut(), 0),
            _ => return self.refuse(request, IoError::NOT_SUPPORTED),
        };
        let Some(fd) = self.targets.get(request.target).and_then(Target::fd).map(|fd| fd.as_raw_fd()) else {
            return self.refuse(request, IoError::NOT_ATTACHED);
        };
        // The kernel rejects a sync with an offset (aio_fsync in fs/aio.c); a request's is not used.
        let offset = if matches!(opcode, FSYNC | FDSYNC) { 0 } else { request.offset };
        let rw_flags = match request.operation {
            Operation::DurableWrite(_) | Operation::DurableWriteVectored(_) => libc::RWF_DSYNC,
            Operation::AtomicWrite(_) => libc::RWF_ATOMIC,
            _ => 0,
        };
        let slot = self.slots.insert(request);
        let block = self.blocks.at(slot);
        // SAFETY: the block is that of a slot. The kernel reads blocks only during io_submit, and this one is not pending yet.
        unsafe {
            (*block).aio_data = u64::from(slot);
            (*block).aio_lio_opcode = opcode;
            (*block).aio_fildes = fd as u32;
            (*block).aio_buf = address.expose_provenance() as u64;
            (*block).aio_nbytes = bytes as u64;
            (*block).aio_offset = offset as i64;
            (*block).aio_rw_flags = rw_flags;
            if let Some(event_fd) = &self.event_fd {
                const IOCB_FLAG_RESFD: u32 = 1;
                (*block).aio_flags = IOCB_FLAG_RESFD;
                (*block).aio_resfd = event_fd.as_raw_fd() as u32;
            }
        }
        self.pending.push(block);
    }

    /// Appends the completions in the mapped ring and returns how many; `None` if the ring cannot be read in user space.
    #[inline]
    fn reap_mapped(&mut self, completions: &mut Vec<Completion>) -> Option<usize> {
        let header = self.context.ring?;
        // SAFETY: the ring stays mapped until the context is destroyed, in our `Drop`. `nr`, `header_length` and the
        // events before `tail` are not written by the kernel while we read: it fills an event before it publishes the
        // tail (fs/aio.c, aio_complete: smp_wmb between the two), with which the Acquire below pairs, and it does not
        // fill that place again before it sees our head move past it, which the Release below publishes after the copy.
        // Nothing else moves the head: io_getevents is called by this queue alone, on one thread at a time.
        unsafe {
            let ring = &*header;
            let events = header.byte_add(ring.header_length as usize).cast::<IoEvent>();
            let mut head = ring.head.load(Ordering::Relaxed);
            let tail = ring.tail.load(Ordering::Acquire);
            debug_assert!(
                head < ring.nr && tail < ring.nr,
                "both are indices of the ring: {head}, {tail} of {}",
                ring.nr
            );
            let before = completions.len();
            while head != tail {
                let event = *events.add(head as usize);
                complete(&mut self.slots, event, completions);
                head = if head + 1 == ring.nr { 0 } else { head + 1 };
            }
            ring.head.store(head, Ordering::Release);
            Some(completions.len() - before)
        }
    }

    /// Appends at least `min` completions from the kernel. With a timeout it waits once, and may append fewer.
    fn reap_by_call(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<usize> {
        let wait_max = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let before = completions.len();
        loop {
            let wanted = min.saturating_sub(completions.len() - before).min(self.events.len());
            self.take_by_call(wanted, wait_max.as_ref(), completions)?;
            let count = completions.len() - before;
            if count >= min || timeout.is_some() {
                return Ok(count);
            }
        }
    }

    /// Appends the completions of one call, and returns how many events it brought, those of no request included; `None` if it was
    /// interrupted.
    #[inline(always)]
    fn take_by_call(
        &mut self,
        min: usize,
        timeout: Option<&libc::timespec>,
        completions: &mut Vec<Completion>,
    ) -> Result<Option<usize>> {
        self.syscalls += 1;
        let got = match self.context.events(min, &mut self.events, timeout) {
            Ok(got) => got,
            Err(Errno::INTR) => return Ok(None),
            Err(errno) => return Err(Error::system("libaio: io_getevents", errno)),
        };
        debug_assert!(got <= self.events.len(), "the kernel returns no more events than fit");
        for event in &self.events[..got] {
            complete(&mut self.slots, *event, completions);
        }
        Ok(Some(got))
    }

    /// Hands over what is pending, and appends the completions that need no call.
    fn flush_only(&mut self, completions: &mut Vec<Completion>) -> Result<usize> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        let count = self.refused.len();
        completions.append(&mut self.refused);
        Ok(count)
    }

    /// Hands over what is pending, and appends the completions that are there.
    fn flush_and_look(&mut self, completions: &mut Vec<Completion>) -> Result<usize> {
        let count = self.flush_only(completions)?;
        if let Some(event_fd) = &self.event_fd {
            // Reset before the ring is read, so that a later completion makes it readable again.
            let mut counter = [0; 8];
            self.syscalls += 1;
            let _ = rustix::io::read(event_fd, &mut counter);
        }
        match self.reap_mapped(completions) {
            Some(mapped) => Ok(count + mapped),
            None if self.event_fd.is_some() => Ok(count + self.take_all_by_call(completions)?),
            None => Ok(count + self.reap_by_call(0, Some(Duration::ZERO), completions)?),
        }
    }

    /// Appends all completions that are there. With the descriptor reset, nothing would announce those that stay.
    #[cold]
    fn take_all_by_call(&mut self, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        while self.take_by_call(0, Some(&now), completions)? == Some(self.events.len()) {}
        Ok(completions.len() - before)
    }

    /// Hands over what found no room before, where the completions that made room were the last that could bring the caller back.
    #[inline(always)]
    fn before_returning(&mut self, count: usize) -> Result<usize> {
        if !self.pending.is_empty() && self.in_kernel() == 0 {
            self.flush()?;
        }
        Ok(count)
    }

    /// [`flush_and_look`](Self::flush_and_look), without the call that looks where one that waits for `min` completions
    /// follows.
    fn before_waiting(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        match min {
            1.. if self.context.ring.is_none() && self.event_fd.is_none() => self.flush_only(completions),
            _ => self.flush_and_look(completions),
        }
    }

    /// Requests that the kernel has.
    fn in_kernel(&self) -> usize {
        self.slots.in_flight() - self.pending.len()
    }
}

#[inline]
fn complete(slots: &mut Slots, event: IoEvent, completions: &mut Vec<Completion>) {
    if let Some(request) = slots.take(event.data) {
        completions.push(request.complete(IoError::check(event.res)));
    }
}

impl<K: AioCalls> Queue for LibaioQueue<K> {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.slots.depth() - self.in_flight());
        requests.drain(..count).for_each(|request| self.prepare(request));
        count
    }

    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.submit(requests);
        self.reap(min, completions)
    }

    fn flush(&mut self) -> Result<()> {
        debug_assert!(self.pending.len() <= self.slots.in_flight(), "every pending block has a slot");
        let mut first = 0;
        while first < self.pending.len() {
            let rest = &self.pending[first..];
            self.syscalls += 1;
            // SAFETY: `rest` points to control blocks of `self.blocks`, which the kernel reads during the call. The
            // buffers they point to are in `self.slots` until the completion, and `Drop` destroys the context first.
            let errno = match unsafe { self.context.submit(rest) } {
                Ok(taken @ 1..) => {
                    first += taken;
                    self.batches += 1;
                    continue;
                }
                Ok(0) => Errno::AGAIN,
                Err(errno) => errno,
            };
            let in_kernel = self.slots.in_flight() - rest.len();
            match errno {
                Errno::INTR => {}
                // The kernel has no room: requests in flight will make some.
                Errno::AGAIN if in_kernel > 0 => break,
                _ => {
                    // The first of the rest was rejected (io_submit(2)); it completes with the error, the others continue.
                    // SAFETY: as above, the pointer is to a control block of ours.
                    let slot = unsafe { (*rest[0]).aio_data };
                    if let Some(request) = self.slots.take(slot) {
                        self.refuse(request, errno.into());
                    }
                    first += 1;
                }
            }
        }
        self.pending.drain(..first);
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let mut count = 0;
        loop {
            count += self.before_waiting(min, completions)?;
            if count >= min {
                return self.before_returning(count);
            }
            count += self.reap_by_call((min - count).min(self.in_kernel()), None, completions)?;
            if count >= min {
                return self.before_returning(count);
            }
        }
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let count = self.before_waiting(min, completions)?;
        if count >= min {
            return self.before_returning(count);
        }
        let waited = self.reap_by_call((min - count).min(self.in_kernel()), Some(timeout), completions)?;
        self.before_returning(count + waited)
    }

    /// Those that were not handed over: io_cancel(2) ends no request to a file or block device (fs/aio.c, ki_cancel).
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let mut count = 0;
        for slot in self.slots.tagged(tag) {
            let block = self.blocks.at(slot);
            let Some(place) = self.pending.iter().position(|pending| *pending == block) else { continue };
            self.pending.remove(place);
            if let Some(request) = self.slots.take(slot.into()) {
                self.refuse(request, IoError::CANCELLED);
                count += 1;
            }
        }
        Ok(count)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        checks::file_or_block(&self.path, target)?;
        self.targets.attach(target.clone()).map_err(|target| no_room_for(&target, self.targets.most()))
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        check_detach(&self.targets, target, self.slots.targets())?;
        self.targets.detach(target);
        Ok(())
    }

    fn depth(&self) -> usize {
        self.slots.depth()
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight() + self.refused.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }

    fn stats(&self) -> QueueStats {
        QueueStats::new(self.depth(), self.in_flight(), self.syscalls()).batches(Some(self.batches))
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.event_fd.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_of_this_kernel_can_be_read_in_user_space() {
        let context = Context::new(Linux, &IoPath::new("libaio"), 4).unwrap();
        assert!(context.ring.is_some(), "the kernel changed the ring's layout");
    }
}
