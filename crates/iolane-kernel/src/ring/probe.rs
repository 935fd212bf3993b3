//! What a ring can do on a target, found by opening a queue and reading one block. `io_uring` and `io_uring_cmd` call it.

use iolane_core::{Capabilities, Error, IoErrorKind, IoPath, Pages, Pool, Queue, QueueConfig, Request, Result, Target};

use super::encode::Encode;
use super::flags::{depth_max, offers_event_fd};
use super::queue::{RingQueue, Stays};

/// Opens a queue on the path and reads one block, which proves that kernel and device do what the path asks for.
pub(crate) fn probe<E: Encode>(path: &IoPath, target: &Target) -> Result<Capabilities> {
    let pool = Pool::new(1, (target.block_bytes() as usize).max(4096), Pages::Base)?;
    let config = QueueConfig::new(1).pool(&pool);
    let encode = E::for_target(path, target)?;
    let mut queue = RingQueue::<E, Stays>::open(path, target, &config)?;
    let mut buffer =
        pool.take().ok_or_else(|| Error::failed(path.to_string(), "the pool of the probe has no buffer"))?;
    // A file may be shorter, or empty: such a read is short, and has to begin and end at blocks all the same.
    buffer.set_len((target.block_bytes() as usize).max(512))?;
    let mut completions = Vec::new();
    queue.submit(&mut vec![Request::read(0, 0, buffer)]);
    queue.reap(1, &mut completions)?;
    let what = format!("{path} on {}", target.name());
    match completions.first().map(|completion| completion.result) {
        Some(Ok(_)) => Ok(Capabilities::new(depth_max(path), encode.operations(path, target))
            .request_bytes_max(encode.request_bytes_max())
            .atomic_writes(encode.atomic_writes(target))
            .event_fd(offers_event_fd(path))
            .unregistered_memory(
                (!path.options.fixed_buffers)
                    .then_some("with O_DIRECT, pages are pinned for each request; fixedbufs pins them once"),
            )),
        Some(Err(error)) if error.kind() == IoErrorKind::NotSupported && path.asks_for_polling() => {
            Err(Error::unavailable(what, "the device or its file system does not poll for completions")
                .remedy("use a path without iopoll, or a drive with poll queues (nvme.poll_queues=N)"))
        }
        Some(Err(error)) => Err(Error::unavailable(what, format!("a read of its first block failed: {error}"))),
        None => Err(Error::failed(what, "a read of its first block never completed")),
    }
}
