//! Tasks of an async runtime that share one queue. A task of its own has the queue, and the runtime may move it between threads; the
//! others ask it through a channel. A task that stops waiting loses nothing: the request keeps its buffer until it is answered.
//! Reads 1000 random blocks in each of 64 tasks. Run: cargo run --release --example tokio_reader -- TARGET [PATH]     io_uring

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;

use iolane::{Buffer, IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, open_movable_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) const BLOCK_BYTES: usize = 4096;
const DEPTH: u32 = 32;

/// A block that was read. Its buffer goes back to the pool when it is dropped, and another read may begin.
pub(crate) struct Block {
    buffer: Buffer,
    _room: OwnedSemaphorePermit,
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

struct Ask {
    block: u64,
    room: OwnedSemaphorePermit,
    answer: oneshot::Sender<io::Result<Block>>,
}

/// A handle to the task that has the queue.
#[derive(Clone)]
pub(crate) struct Disk {
    asks: mpsc::Sender<Ask>,
    /// As many permits as there are buffers, and requests in the queue.
    room: Arc<Semaphore>,
}

impl Disk {
    /// Starts the task. It ends when the last handle is dropped and everything is answered.
    pub(crate) fn open(path: &IoPath, target: &Target) -> io::Result<(Self, JoinHandle<io::Result<()>>)> {
        let depth = probe(path, target)?.depth_max.min(DEPTH);
        let pool = Pool::new(depth as usize, BLOCK_BYTES, Pages::Base)?;
        let queue = open_movable_queue(path, target, &QueueConfig::new(depth).pool(&pool).event_fd())?;
        let no_descriptor =
            || io::Error::other(format!("{path} has no descriptor to wait on; io_uring and libaio have one"));
        let completions_wait = queue.event_fd().ok_or_else(no_descriptor)?.try_clone_to_owned()?;
        let (asks, asked) = mpsc::channel(depth as usize);
        // SAFETY: an owned descriptor stays open and the same until the `AsyncFd` is dropped.
        let completions_wait = unsafe { AsyncFd::register(completions_wait) }?;
        let serving = tokio::spawn(serve(queue, completions_wait, pool, asked));
        Ok((Self { asks, room: Arc::new(Semaphore::new(depth as usize)) }, serving))
    }

    pub(crate) async fn read(&self, block: u64) -> io::Result<Block> {
        let room = self.room.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask { block, room, answer }).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        answered.await.map_err(|_| io::ErrorKind::BrokenPipe)?
    }
}

async fn serve(
    mut queue: Box<dyn Queue + Send>,
    completions_wait: AsyncFd<OwnedFd>,
    pool: Pool,
    mut asks: mpsc::Receiver<Ask>,
) -> io::Result<()> {
    let (mut waiting, mut requests, mut completions) = (HashMap::new(), Vec::new(), Vec::new());
    let (mut tag, mut is_open) = (0, true);
    while is_open || !waiting.is_empty() {
        tokio::select! {
            ask = asks.recv(), if is_open => {
                is_open = ask.is_some();
                // Those that came meanwhile go to the kernel by the same call.
                let others = std::iter::from_fn(|| asks.try_recv().ok());
                for ask in ask.into_iter().chain(others) {
                    let buffer = pool.take().ok_or_else(|| io::Error::other("more reads than buffers"))?;
                    requests.push(Request::read(tag, ask.block * BLOCK_BYTES as u64, buffer));
                    waiting.insert(tag, ask);
                    tag += 1;
                }
                queue.submit(&mut requests);
                queue.flush()?;
            }
            ready = completions_wait.readable() => {
                // Before the completions are taken: those that come later make it ready again.
                ready?.clear_ready();
                queue.reap(0, &mut completions)?;
            }
        }
        for completion in completions.drain(..) {
            let Some((ask, mut buffer)) = waiting.remove(&completion.tag).zip(completion.buffer) else { continue };
            let answer = completion.result.map_err(io::Error::from).and_then(|bytes| {
                buffer.set_len(bytes as usize)?;
                Ok(Block { buffer, _room: ask.room })
            });
            // Nobody may wait any more; then the buffer goes back to the pool.
            let _ = ask.answer.send(answer);
        }
    }
    Ok(())
}

async fn run() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().ok_or_else(|| io::Error::other("usage: tokio_reader TARGET [PATH]"))?;
    let path: IoPath = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;
    let target = Target::options().direct(false).open(name)?;
    let blocks = (target.bytes() / BLOCK_BYTES as u64).max(1);
    let (disk, serving) = Disk::open(&path, &target)?;
    let readers = (0..64u64).map(|seed| {
        let disk = disk.clone();
        tokio::spawn(async move {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut bytes = 0;
            for _ in 0..1000 {
                bytes += disk.read(random.next_u64() % blocks).await?.len();
            }
            io::Result::Ok(bytes)
        })
    });
    let mut bytes = 0;
    for reader in readers.collect::<Vec<_>>() {
        bytes += reader.await.map_err(io::Error::other)??;
    }
    drop(disk);
    serving.await.map_err(io::Error::other)??;
    println!("{path} on {}: {bytes} bytes read by 64 tasks through one queue", target.name());
    Ok(())
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build();
    runtime.and_then(|runtime| runtime.block_on(run())).map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
