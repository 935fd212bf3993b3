//! Memory that a controller can access: the driver's own rings and lists, and the caller's pools. Used by the controller and its
//! queues; what the bytes mean is their business.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use iolane_core::{Buffer, Error, Pool, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::transport::Transport;

/// The memory page size of the driver (CC.MPS 0), of which PRP entries are multiples.
pub const PAGE_BYTES: usize = 4096;

/// Zeroed pages that the driver owns, mapped for one controller until they are dropped.
///
/// Both sides access them concurrently, so they are accessed by atomics and raw pointers, never by plain references.
pub struct DmaPages {
    base: NonNull<u8>,
    bytes: usize,
    address: u64,
    transport: Arc<dyn Transport>,
}

// SAFETY: a pointer and a length; its users argue which accesses are sound.
unsafe impl Send for DmaPages {}
// SAFETY: as above.
unsafe impl Sync for DmaPages {}

impl DmaPages {
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

    /// The address of the first byte in the process.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The address of the first byte for the controller.
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
        // SAFETY: the word lies within the pages, which are aligned; both sides access them only by atomics.
        unsafe { self.base.cast::<AtomicU64>().add(index).as_ref() }
    }

    /// Zeroes the pages.
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

impl Drop for DmaPages {
    fn drop(&mut self) {
        // SAFETY: the owner of the pages dropped them when no command named them any more.
        if unsafe { self.transport.unmap(self.address, self.bytes) }.is_err() {
            // The controller may still access them, so they are never reused.
            return;
        }
        // SAFETY: our own mapping of exactly this size, which nothing uses after this.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A pool that a controller can access until this is dropped.
///
/// Whole pages are mapped: if a region begins or ends within a page, the controller can access the rest of that page too.
pub struct DmaPool {
    pool: Pool,
    /// The controller's address of the first byte of the pool.
    address: u64,
    /// The mapped pages.
    mapped_address: u64,
    mapped_bytes: usize,
    transport: Arc<dyn Transport>,
}

impl DmaPool {
    /// Maps a pool.
    ///
    /// # Errors
    /// As [`Transport::map`].
    pub fn new(transport: &Arc<dyn Transport>, pool: &Pool) -> Result<Self> {
        let (base, bytes) = pool.span();
        let before = base.addr().get() % PAGE_BYTES;
        let mapped_bytes = (before + bytes).next_multiple_of(PAGE_BYTES);
        // SAFETY: the page in which the pool begins is mapped, since the pool is.
        let pages = unsafe { base.sub(before) };
        // SAFETY: `self.pool` keeps the memory mapped; commands name only the buffer of their request.
        let mapped_address = unsafe { transport.map(pages, mapped_bytes) }?;
        debug_assert!(mapped_address.is_multiple_of(PAGE_BYTES as u64), "the transport gives addresses of pages");
        debug_assert!(before + bytes <= mapped_bytes, "the mapped pages hold the pool");
        let address = mapped_address + before as u64;
        Ok(Self { pool: pool.clone(), address, mapped_address, mapped_bytes, transport: transport.clone() })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The controller's address of the first byte of a buffer, if it is from this pool.
    #[inline]
    pub fn address_of(&self, buffer: &Buffer) -> Option<u64> {
        self.pool.owns(buffer).then(|| self.address + buffer.offset_in_pool() as u64)
    }
}

impl Drop for DmaPool {
    fn drop(&mut self) {
        // SAFETY: the queues that used the pool hold it until the controller has none of their commands.
        if unsafe { self.transport.unmap(self.mapped_address, self.mapped_bytes) }.is_err() {
            // The controller may still access it, so it is never reused.
            std::mem::forget(self.pool.clone());
        }
    }
}
