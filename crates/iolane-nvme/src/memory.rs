//! Memory that a controller may reach: the driver's own rings and lists, and the caller's pools.

use std::ptr::NonNull;
use std::sync::Arc;

use iolane_core::{Error, Result};
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
