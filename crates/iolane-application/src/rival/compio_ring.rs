//! compio, an async runtime on io_uring: a future for each request.

use std::fs::File;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::slice;
use std::time::Duration;

use compio_buf::{BufResult, IoBuf, IoBufMut, SetLen};
use compio_driver::ProactorBuilder;
use compio_io::{AsyncReadAt, AsyncWriteAt};
use compio_runtime::{Runtime, RuntimeBuilder};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use iolane::{Buffer, Completion, Error, IoError, Operation, Queue, Request, Result};

use super::calls::io_error;

type Answer = Pin<Box<dyn Future<Output = Completion>>>;

pub(super) struct CompioRing {
    // Dropped before the runtime that carries them out.
    answers: FuturesUnordered<Answer>,
    file: Rc<compio_fs::File>,
    runtime: Runtime,
    depth: usize,
    /// Completions that `flush` found.
    early: Vec<Completion>,
}

impl CompioRing {
    pub(super) fn new(file: File, depth: usize) -> Result<Self> {
        let failed = |error| Error::system("the runtime of compio", error);
        let mut proactor = ProactorBuilder::new();
        proactor.capacity(depth.next_power_of_two() as u32);
        let runtime = RuntimeBuilder::new().with_proactor(proactor).build().map_err(failed)?;
        if !runtime.driver_type().is_iouring() {
            return Err(Error::unavailable("compio", "it has no io_uring here"));
        }
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
        let mut options = compio_fs::OpenOptions::new();
        options.read(true).write(flags.contains(rustix::fs::OFlags::RDWR));
        options.custom_flags((flags & rustix::fs::OFlags::DIRECT).bits() as i32);
        let file = runtime.block_on(options.open(&name)).map_err(failed)?;
        Ok(Self { answers: FuturesUnordered::new(), file: Rc::new(file), runtime, depth, early: Vec::new() })
    }

    /// Takes the answers that are there without waiting. A future begins when it is first polled, which this does.
    fn take_ready(&mut self, completions: &mut Vec<Completion>) {
        while let Some(Some(completion)) = self.answers.next().now_or_never() {
            completions.push(completion);
        }
    }

    /// Waits until there are `min` completions, or none is in flight.
    async fn take(&mut self, min: usize, completions: &mut Vec<Completion>) {
        while completions.len() < min
            && let Some(completion) = self.answers.next().await
        {
            completions.push(completion);
        }
        self.take_ready(completions);
    }
}

/// A buffer as compio takes it.
struct Lent(Buffer);

impl IoBuf for Lent {
    fn as_init(&self) -> &[u8] {
        &self.0
    }
}

impl SetLen for Lent {
    /// All of it is always initialised.
    unsafe fn set_len(&mut self, _len: usize) {}
}

impl IoBufMut for Lent {
    fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        let bytes: &mut [u8] = &mut self.0;
        // SAFETY: MaybeUninit<u8> has the layout of u8, and the slice borrows from `self` alone. What may be written through it is what
        // the kernel transfers, which is initialised: compio never stores an uninitialised byte in a buffer.
        unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
    }
}

async fn carry_out(file: Rc<compio_fs::File>, request: Request) -> Completion {
    let Request { tag, offset, operation, .. } = request;
    let moved = |result: std::io::Result<usize>| result.map(|bytes| bytes as u32).map_err(|error| io_error(&error));
    match operation {
        Operation::Read(buffer) => {
            let BufResult(result, Lent(buffer)) = file.read_at(Lent(buffer), offset).await;
            Request::read(tag, offset, buffer).complete(moved(result))
        }
        Operation::Write(buffer) => {
            let BufResult(result, Lent(buffer)) = (&*file).write_at(Lent(buffer), offset).await;
            Request::write(tag, offset, buffer).complete(moved(result))
        }
        Operation::Fdatasync => Request::fdatasync(tag).complete(moved(file.sync_data().await.map(|()| 0))),
        other => Request::new(tag, offset, other).complete(Err(IoError::NOT_SUPPORTED)),
    }
}

impl Queue for CompioRing {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.in_flight());
        for request in requests.drain(..count) {
            self.answers.push(Box::pin(carry_out(Rc::clone(&self.file), request)));
        }
        count
    }

    fn flush(&mut self) -> Result<()> {
        let (runtime, mut early) = (self.runtime.clone(), std::mem::take(&mut self.early));
        runtime.block_on(async { self.take_ready(&mut early) });
        // What was submitted is handed to the kernel here, and not only when somebody waits.
        runtime.flush();
        self.early = early;
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let mut done = std::mem::take(&mut self.early);
        let runtime = self.runtime.clone();
        runtime.block_on(self.take(min, &mut done));
        let count = done.len();
        completions.append(&mut done);
        Ok(count)
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let mut done = std::mem::take(&mut self.early);
        let runtime = self.runtime.clone();
        // Late is no error: fewer have completed.
        let _ = runtime.block_on(compio_runtime::time::timeout(timeout, self.take(min, &mut done)));
        let count = done.len();
        completions.append(&mut done);
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.answers.len() + self.early.len()
    }

    /// The runtime counts none.
    fn syscalls(&self) -> Option<u64> {
        None
    }
}

impl Drop for CompioRing {
    /// The runtime closes its ring without waiting, and the kernel may go on writing to the buffers of what is in flight.
    fn drop(&mut self) {
        let runtime = self.runtime.clone();
        runtime.block_on(async { while self.answers.next().await.is_some() {} });
    }
}
