//! Buffers registered with a ring (`fixedbufs`): which pieces of the pools the kernel gets, and which of them holds a buffer.
//! `queue` registers when it opens and looks a buffer up for every request.

use ::io_uring::IoUring;

use iolane_core::buffer::PoolId;
use iolane_core::{Buffer, Error, IoError, IoPath, Pool, Result};

use super::encode::{Encode, REGISTERED_BYTES_MAX};
use crate::kernel::memory_lock_limit;

/// Most frames to register individually; the kernel takes 16384 buffers, pieces included
/// (io_uring/rsrc.c, IORING_MAX_REG_BUFFERS).
const REGISTERED_FRAMES_MAX: usize = 16_000;

/// A pool registered with the ring: whole or in pieces, and if there is room each frame individually too.
pub(super) struct RegisteredPool {
    pool: Pool,
    first_piece: u16,
    /// Bytes of the pool from one piece to the next: whole frames.
    piece_bytes: usize,
    /// Bytes of a piece that are registered: all, unless one frame is larger than the limit.
    covered_bytes: usize,
    /// The index of the first frame. A frame registered individually saves the kernel some 140 instructions per request: it
    /// need not check whether the pages are adjacent (block/blk-merge.c, bio_may_exceed_limits).
    first_frame: Option<u16>,
}

/// The frames of a pool, each of which is registered: what a loop over requests needs of the pool.
#[derive(Clone, Copy)]
pub(super) struct Frames {
    pool: PoolId,
    first: u16,
    count: usize,
    frame_bytes: usize,
}

impl Frames {
    /// The frame that covers all of `buffer`, if it is one of these.
    #[inline(always)]
    pub(super) fn index_of(self, buffer: &Buffer) -> Option<u16> {
        let covered = buffer.is_of(self.pool) && buffer.len() <= self.frame_bytes;
        debug_assert!(buffer.frame() < self.count || !covered, "each frame of the pool has an index");
        covered.then(|| self.first + buffer.frame() as u16)
    }
}

impl RegisteredPool {
    /// The index of the registered buffer that holds `buffer`, if any are registered. A buffer across two registered ones has
    /// none, and is used as unregistered memory.
    pub(super) fn find(pools: &[Self], buffer: &Buffer) -> Result<Option<u16>, IoError> {
        match pools.iter().find(|pool| pool.pool.owns(buffer)) {
            Some(pool) => Ok(pool.frame_of(buffer).or_else(|| pool.piece_of(buffer))),
            None if pools.is_empty() => Ok(None),
            None => Err(IoError::NOT_REGISTERED),
        }
    }

    /// Its frames, if they are registered individually.
    pub(super) fn frames(&self) -> Option<Frames> {
        let first = self.first_frame?;
        let (count, frame_bytes) = (self.pool.frames(), self.pool.frame_bytes());
        Some(Frames { pool: self.pool.id(), first, count, frame_bytes })
    }

    fn frame_of(&self, buffer: &Buffer) -> Option<u16> {
        self.frames()?.index_of(buffer)
    }

    fn piece_of(&self, buffer: &Buffer) -> Option<u16> {
        debug_assert!(self.pool.owns(buffer), "only a buffer of this pool has a place in it");
        let start = buffer.offset_in_pool();
        let piece = start / self.piece_bytes;
        let end = start + buffer.len();
        (end <= piece * self.piece_bytes + self.covered_bytes).then_some(self.first_piece + piece as u16)
    }
}

/// Registers the pools with a ring, `bytes_max` at most as one buffer.
pub(super) fn register<E: Encode>(
    ring: &IoUring<E::Submission, E::Completion>,
    path: &IoPath,
    pools: &[Pool],
    bytes_max: usize,
) -> Result<Vec<RegisteredPool>> {
    if pools.is_empty() {
        return Err(Error::usage(path.to_string(), "fixedbufs registers pools, and none is given")
            .remedy("pass the pool in QueueConfig"));
    }
    if let Some(pool) = pools.iter().find(|pool| pool.frame_bytes() > REGISTERED_BYTES_MAX) {
        let cause = format!("{pool:?} has buffers larger than the 1 GiB that the kernel registers");
        return Err(Error::usage(path.to_string(), cause).remedy("use smaller buffers, or leave fixedbufs out"));
    }
    let frames: usize = pools.iter().map(Pool::frames).sum();
    let attempt = |by_frame| {
        let (vectors, registered) = registration(pools, bytes_max, by_frame);
        // SAFETY: the pools' memory outlives the registration: `registered` holds the pools, and the queue keeps it until the
        // ring is dropped. The kernel touches the memory only for requests, which own their buffer.
        unsafe { ring.submitter().register_buffers(&vectors) }.map(|()| registered)
    };
    // Frames registered individually count twice against the limit of locked memory, so that it can fail for them only.
    let outcome = match frames <= REGISTERED_FRAMES_MAX {
        true => attempt(true).or_else(|_| attempt(false)),
        false => attempt(false),
    };
    outcome.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => Error::exhausted(
            format!("{path}: registering buffers"),
            format!("they are locked in memory, and the limit is {}", memory_lock_limit()),
        )
        .remedy("raise it (ulimit -l), lower the depth or the block size, or leave fixedbufs out"),
        _ => Error::system(format!("{path}: registering buffers"), error),
    })
}

/// The vectors to register for the pools, and the indices at which each pool is found in them.
fn registration(pools: &[Pool], bytes_max: usize, by_frame: bool) -> (Vec<libc::iovec>, Vec<RegisteredPool>) {
    let mut vectors = Vec::new();
    let registered = pools.iter().map(|pool| {
        let frame_bytes = pool.frame_bytes();
        let piece_bytes = (bytes_max / frame_bytes).max(1) * frame_bytes;
        let covered_bytes = piece_bytes.min(bytes_max);
        let first_piece = add_pieces(&mut vectors, pool, piece_bytes, covered_bytes);
        let by_frame = by_frame && frame_bytes <= bytes_max;
        let first_frame = by_frame.then(|| add_pieces(&mut vectors, pool, frame_bytes, frame_bytes));
        RegisteredPool { pool: pool.clone(), first_piece, piece_bytes, covered_bytes, first_frame }
    });
    let registered = registered.collect();
    (vectors, registered)
}

/// Adds a pool, cut into pieces, and returns the index of the first.
fn add_pieces(vectors: &mut Vec<libc::iovec>, pool: &Pool, piece_bytes: usize, covered_bytes: usize) -> u16 {
    let first = vectors.len() as u16;
    let (base, bytes) = pool.span();
    vectors.extend((0..bytes).step_by(piece_bytes).map(|start| libc::iovec {
        iov_base: base.as_ptr().wrapping_add(start).cast(),
        iov_len: covered_bytes.min(bytes - start),
    }));
    first
}
