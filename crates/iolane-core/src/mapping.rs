//! Memory of our own: anonymous mappings of zeroes.

use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a base page, and of what a present mapping is touched by.
const PAGE_BYTES: usize = 4096;

/// The size of the huge pages used, 2 MiB on x86-64 and on arm64 with 4 KiB base pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An anonymous mapping, unmapped on drop.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it gives out its address and accesses the memory only while it is made; whoever uses the address answers for that.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroes whose pages are allocated as they are first touched.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn lazy(bytes: usize) -> Result<Self, Errno> {
        Self::new(bytes, MapFlags::NORESERVE)
    }

    /// Zeroes in huge pages of 2 MiB of the machine's reserve, whatever its default size; `bytes` is a multiple of that.
    ///
    /// # Errors
    /// Those of mmap(2); `NOMEM` if too few are reserved.
    pub(crate) fn of_reserved_huge_pages(bytes: usize) -> Result<Self, Errno> {
        Self::new(bytes, MapFlags::POPULATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB)
    }

    /// Zeroes that are present. From 2 MiB on they begin at a multiple of 2 MiB, and the kernel is asked for huge pages where it has some to
    /// spare (transparent huge pages, madvise(2)): the kernel hands over each run of adjacent pages to a device as one segment, and
    /// base pages are seldom adjacent.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn present(bytes: usize) -> Result<Self, Errno> {
        if bytes < HUGE_PAGE_BYTES {
            return Self::new(bytes, MapFlags::POPULATE);
        }
        let widened = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::NOMEM)?;
        let mapping = Self::new(widened, MapFlags::empty())?.trimmed(bytes)?;
        // Only a request: a kernel without such pages refuses it.
        let _ = mapping.advise(Advice::LinuxHugepage);
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: the mapping is writable, has `bytes` bytes, and nothing else knows of it.
            unsafe { mapping.base.add(offset).write_volatile(0) };
        }
        Ok(mapping)
    }

    fn new(bytes: usize, flags: MapFlags) -> Result<Self, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | flags);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }?;
        NonNull::new(base.cast()).map(|base| Self { base, bytes }).ok_or(Errno::NOMEM)
    }

    /// The `bytes` from the first multiple of 2 MiB on, of a mapping with at least 2 MiB more; what lies before and behind is unmapped.
    fn trimmed(self, bytes: usize) -> Result<Self, Errno> {
        let before = self.base.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let behind = self.bytes.checked_sub(before + bytes).ok_or(Errno::INVAL)?;
        let whole = std::mem::ManuallyDrop::new(self);
        // SAFETY: `before + bytes + behind` is the mapping, so the addresses lie in it or at its end.
        let [base, end] = [before, before + bytes].map(|offset| unsafe { whole.base.add(offset) });
        for (start, bytes) in [(whole.base, before), (end, behind)] {
            if bytes > 0 {
                // SAFETY: a part of the mapping, which nothing else knows of, and which the result does not have.
                unsafe { munmap(start.as_ptr().cast(), bytes) }?;
            }
        }
        Ok(Self { base, bytes })
    }

    /// Gives a child of fork(2) nothing of it.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub(crate) fn keep_from_children(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxDontFork)
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        debug_assert!(
            matches!(advice, Advice::LinuxDontFork | Advice::LinuxHugepage),
            "advice that leaves the content as it is"
        );
        // SAFETY: the mapping is ours, and the advice leaves its content as it is.
        unsafe { madvise(self.base.as_ptr().cast(), self.bytes, advice) }
    }

    /// The address of the first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of exactly this size; what was made of `base` does not outlive `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of a whole mapping fails only for a wrong address");
    }
}
