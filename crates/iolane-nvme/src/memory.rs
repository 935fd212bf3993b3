//! Memory that a controller may reach: the driver's own rings and lists, and the caller's pools.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use iolane_core::{Buffer, Error, Pool, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::transport::Transport;

/// The memory page of the driver: what CC.MPS 0 says, and what PRP entries are multiples of.
pub const PAGE_BYTES: usize = 4096;

/// Zeroed pages of the driver's own, mapped for one controller until they are dropped.
///
/// Both sides access them at once, so they are reached by raw pointer alone, never by reference.
pub struct SharedPages {
    base: NonNull<u8>,
    bytes: usize,
    address: u64,
    transport: Arc<dyn Transport>,
}

// SAFETY: it is a pointer and a length; who may access what when is for its user to argue.
unsafe impl Send for SharedPages {}
// SAFETY: as above.
unsafe impl Sync for SharedPages {}

impl SharedPages {
    /// Maps `bytes`, rounded up to whole pages, for the process and the controller.
    ///
    /// # Errors
    /// `Exhausted` if memory, locked memory or addresses run out.
    pub fn new(transport: &Arc<dyn Transport>, bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }
            .map_err(|errno| Error::system(format!("{}: memory for its queues", transport.name()), errno))?;
        let base = NonNull::new(base.cast()).expect("mmap gives an address or an error");
        // SAFETY: the pages are unmapped from the process in `drop`, after they are unmapped from the controller.
        let mapped = unsafe { transport.map(base, bytes) };
        match mapped {
            Ok(address) => Ok(Self { base, bytes, address, transport: transport.clone() }),
            Err(error) => {
                // SAFETY: the mapping was made above, and nothing else knows of it.
                let _ = unsafe { munmap(base.as_ptr().cast(), bytes) };
                Err(error)
            }
        }
    }

    /// The first byte, for the process.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The first byte, for the controller.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at `index`.
    ///
    /// # Panics
    /// If it lies outside.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / 8);
        // SAFETY: it lies within the pages, which are aligned; both sides access them by atomics alone.
        unsafe { self.base.cast::<AtomicU64>().add(index).as_ref() }
    }

    /// Sets all of it to zero.
    pub fn clear(&self) {
        (0..self.bytes / 8).for_each(|index| self.word(index).store(0, Ordering::Relaxed));
    }

    /// A copy of the first page.
    pub fn copy(&self) -> Box<[u8; PAGE_BYTES]> {
        let mut copy = Box::new([0; PAGE_BYTES]);
        for (index, bytes) in copy.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.word(index).load(Ordering::Relaxed).to_ne_bytes());
        }
        copy
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        if self.transport.unmap(self.address, self.bytes).is_err() {
            // The controller may reach them still: they are never used for anything else.
            return;
        }
        // SAFETY: our own mapping of exactly this size, which nothing uses any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A pool that a controller may reach, until this is dropped.
///
/// A controller is given whole pages: of a region that begins or ends within one, it may reach the rest of that page too.
pub struct MappedPool {
    pool: Pool,
    /// What the controller calls the first byte of the pool.
    address: u64,
    /// The pages, as they were mapped.
    mapped_address: u64,
    mapped_bytes: usize,
    transport: Arc<dyn Transport>,
}

impl MappedPool {
    /// Maps a pool.
    ///
    /// # Errors
    /// As [`Transport::map`].
    pub fn new(transport: &Arc<dyn Transport>, pool: &Pool) -> Result<Self> {
        let (base, bytes) = pool.span();
        let before = base.addr().get() % PAGE_BYTES;
        let mapped_bytes = (before + bytes).next_multiple_of(PAGE_BYTES);
        // SAFETY: the page in which the pool begins is mapped, as the pool is.
        let pages = unsafe { base.sub(before) };
        // SAFETY: the pool that is kept beside it keeps the memory mapped; of the pool, commands name what a request's
        // buffer owns.
        let mapped_address = unsafe { transport.map(pages, mapped_bytes) }?;
        let address = mapped_address + before as u64;
        Ok(Self { pool: pool.clone(), address, mapped_address, mapped_bytes, transport: transport.clone() })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What the controller calls the first byte of a buffer, if it is from this pool.
    #[inline]
    pub fn address_of(&self, buffer: &Buffer) -> Option<u64> {
        self.pool.owns(buffer).then(|| self.address + buffer.offset_in_pool() as u64)
    }
}

impl Drop for MappedPool {
    fn drop(&mut self) {
        if self.transport.unmap(self.mapped_address, self.mapped_bytes).is_err() {
            // The controller may reach it still: it is never used for anything else.
            std::mem::forget(self.pool.clone());
        }
    }
}
