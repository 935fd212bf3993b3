//! Memory of the caller in a pool of `Pool::from_region` works like any pool, and is kept until its last use.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use iolane::{Pool, Request};
use rustix::mm::{MapFlags, ProtFlags};

use crate::bench::{Bench, Pair, check_each};
use crate::content::{self, ensure_same};
use crate::drive;

const FRAMES: usize = 8;
const FRAME_BYTES: usize = 8192;
const REGION_BYTES: usize = FRAMES * FRAME_BYTES;
/// A vector begins anywhere; this much more has an aligned region in it.
const VECTOR_BYTES: usize = REGION_BYTES + 4096;

/// Memory that says when it is given up.
struct Owner {
    base: NonNull<u8>,
    is_mapping: bool,
    gone: Arc<AtomicBool>,
}

// SAFETY: the owner only gives the memory up; it never reads or writes it.
unsafe impl Send for Owner {}
// SAFETY: as above; it has no methods at all.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::SeqCst);
        if self.is_mapping {
            // SAFETY: the mapping is ours, of this size, and the pool that used it has let go of it.
            let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), REGION_BYTES) };
            assert!(unmapped.is_ok(), "munmap of a whole mapping");
        } else {
            // SAFETY: made from a vector of just this length and capacity in `vector`, and used no more.
            drop(unsafe { Vec::from_raw_parts(self.base.as_ptr(), VECTOR_BYTES, VECTOR_BYTES) });
        }
    }
}

fn mapping(gone: &Arc<AtomicBool>) -> Result<Pool> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), REGION_BYTES, access, MapFlags::PRIVATE) }?;
    let base = NonNull::new(base.cast::<u8>()).context("a mapping at address 0")?;
    let owner = Owner { base, is_mapping: true, gone: gone.clone() };
    // SAFETY: the mapping is zeroed, of this size, reached only through the pool, and the owner keeps it.
    Ok(unsafe { Pool::from_region(base, FRAMES, FRAME_BYTES, owner) }?)
}

fn vector(gone: &Arc<AtomicBool>) -> Result<Pool> {
    let memory = Box::leak(vec![0u8; VECTOR_BYTES].into_boxed_slice());
    let base = NonNull::from(memory).cast::<u8>();
    let owner = Owner { base, is_mapping: false, gone: gone.clone() };
    // SAFETY: the vector has 4096 bytes more than the region, and the alignment takes less.
    let aligned = unsafe { base.add(base.align_offset(4096)) };
    // SAFETY: the vector is initialised, has this size behind `aligned`, is reached only through the pool, and the owner
    // keeps it.
    Ok(unsafe { Pool::from_region(aligned, FRAMES, FRAME_BYTES, owner) }?)
}

#[test]
fn memory_of_the_callers_own_carries_data_and_is_kept_until_the_last_use() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        for make in [mapping, vector] {
            let gone = Arc::new(AtomicBool::new(false));
            let region = make(&gone)?;
            carry(pair, &region, &gone)?;
            ensure!(!gone.load(Ordering::SeqCst), "the memory is gone while its pool is there");
            drop(region);
            ensure!(gone.load(Ordering::SeqCst), "the memory stays when all that used it is gone");
        }
        Ok(())
    });
}

/// Writes from all frames and reads back into others, then drops the queue before the buffers.
fn carry(pair: &Pair<'_>, region: &Pool, gone: &AtomicBool) -> Result<()> {
    let mut queue = pair.queue(pair.depth(FRAMES as u32), region)?;
    let mut requests = Vec::new();
    for frame in 0..FRAMES {
        let mut buffer = region.take_frames(frame, 1).context("each frame is free")?;
        let offset = (frame * FRAME_BYTES) as u64;
        content::fill(&mut buffer, offset, 12);
        requests.push(Request::write(frame as u64, offset, buffer));
    }
    let written = drive::run(&mut *queue, requests)?;
    ensure!(written.iter().all(|completion| completion.result == Ok(FRAME_BYTES as u32)), "{written:?}");
    let mut requests = Vec::new();
    for completion in written {
        // The frame that was written from is read into from the other end of the area.
        let tag = FRAMES as u64 - 1 - completion.tag;
        requests.push(Request::read(tag, tag * FRAME_BYTES as u64, completion.buffer.context("a buffer each")?));
    }
    let read = drive::run(&mut *queue, requests)?;
    drop(queue);
    for completion in &read {
        let what = format!("tag {}: {:?}", completion.tag, completion.result);
        ensure!(completion.result == Ok(FRAME_BYTES as u32), "{what}");
        if pair.moves_data() {
            let expected = content::content(FRAME_BYTES, completion.tag * FRAME_BYTES as u64, 12);
            ensure_same(&what, &expected, completion.buffer.as_ref().context("a buffer each")?)?;
        }
    }
    ensure!(!gone.load(Ordering::SeqCst), "the memory is gone while buffers of it are there");
    Ok(())
}
