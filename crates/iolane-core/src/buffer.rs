//! Memory for I/O: a `Pool` of equal, aligned frames, and the `Buffer`s taken from it. A buffer is the only handle to its
//! bytes, so that moving it into a request moves the right to access them.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::claims::Claims;
use crate::error::{Error, Result};
use crate::mapping::{HUGE_PAGE_BYTES, Mapping};
use crate::units::Bytes;

/// Frames of a pool begin at multiples of this many bytes: enough for O_DIRECT on any device, and one page.
pub const FRAME_ALIGNMENT_BYTES: usize = 4096;

/// The pages of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// The machine's base pages; in a pool of 2 MiB or more, transparent huge pages, as far as the kernel has them.
    #[default]
    Base,
    /// 2 MiB pages from the machine's reserve (`vm.nr_hugepages`).
    Huge,
}

/// Memory cut into frames of one size, from which buffers are taken and to which they return when dropped.
///
/// Cloning is cheap and gives another handle to the same memory, which lives as long as a handle or a buffer does.
/// Taking and returning are lock-free.
#[derive(Clone)]
pub struct Pool(Arc<Memory>);

struct Memory {
    base: NonNull<u8>,
    frame_bytes: usize,
    /// A slip for each frame, in a separate mapping whose pages are allocated as frames are first taken.
    slips: Mapping,
    /// The frames that buffers hold.
    claims: Claims,
    /// What keeps the memory alive: our own mapping, or a value of the caller's.
    _keeps_alive: Box<dyn Any + Send + Sync>,
}

/// The description of a buffer, kept with the first of its frames. A [`Buffer`] is a pointer to it: one word, which is cheap
/// to move through requests and completions.
struct Slip {
    start: NonNull<u8>,
    /// A counted reference (`Arc::into_raw`) that the buffer owns.
    memory: *const Memory,
    /// The first of its frames.
    frame: usize,
    len: u32,
    capacity: u32,
}

// SAFETY: `base` and `slips` are memory that lives until `Memory` is dropped and that is reached only through
// `Buffer`s, each of which holds frames, and their slips, that no other holds (`claims`).
unsafe impl Send for Memory {}
// SAFETY: as above; the shared fields are atomics or never change.
unsafe impl Sync for Memory {}

impl Pool {
    /// From this many bytes on, 2 MiB, a pool begins at a huge page, and the kernel is asked for transparent huge pages. The adjacent pages
    /// of a frame are one segment for the device, where scattered ones are one each: on a device that costs nothing itself, a read
    /// of 128 KiB takes half of the instructions or less (docs/decisions/0032). One large pool can serve several queues.
    pub const HUGE_PAGES_FROM_BYTES: usize = HUGE_PAGE_BYTES;

    /// Maps `frames` frames of `frame_bytes` each, zeroed and present; sizes are rounded up to 4096 bytes. From
    /// [`HUGE_PAGES_FROM_BYTES`](Self::HUGE_PAGES_FROM_BYTES) on its frames are on huge pages, as far as the kernel has them.
    ///
    /// A child of fork(2) does not have them: before Linux 6.3 a fork during a direct read could leave its bytes to the child alone
    /// (open(2), O_DIRECT and fork; MADV_DONTFORK). Memory of the caller's own, as for [`from_region`](Self::from_region), is as the
    /// caller made it.
    ///
    /// # Errors
    /// `Usage` if either number is 0 or the product overflows, `Exhausted` if memory or huge pages run out.
    pub fn new(frames: usize, frame_bytes: usize, pages: Pages) -> Result<Self> {
        let what = || format!("a pool of {frames} buffers of {}", Bytes(frame_bytes as u64));
        if frames == 0 || frame_bytes == 0 {
            return Err(Error::usage(what(), "both numbers are 1 or more"));
        }
        let page_bytes = match pages {
            Pages::Base => FRAME_ALIGNMENT_BYTES,
            Pages::Huge => HUGE_PAGE_BYTES,
        };
        let (frame_bytes, mapped_bytes) = frame_bytes
            .checked_next_multiple_of(FRAME_ALIGNMENT_BYTES)
            .filter(|frame_bytes| u32::try_from(*frame_bytes).is_ok())
            .and_then(|frame_bytes| {
                let bytes = frame_bytes.checked_mul(frames)?.checked_next_multiple_of(page_bytes)?;
                Some((frame_bytes, bytes))
            })
            .ok_or_else(|| Error::usage(what(), "more than the address space, or a buffer of 4 GiB"))?;
        let mapped = match pages {
            Pages::Base => {
                let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
                check_available(mapped_bytes as u64, &meminfo).map_err(|cause| {
                    Error::exhausted(what(), cause).remedy("use fewer or smaller buffers, or free memory")
                })?;
                Mapping::present(mapped_bytes)
            }
            Pages::Huge => Mapping::of_reserved_huge_pages(mapped_bytes),
        };
        let mapping = mapped.map_err(|errno| {
            let error = Error::system(what(), errno);
            match pages {
                Pages::Base => error,
                Pages::Huge => error
                    .remedy(format!("reserve huge pages: sysctl vm.nr_hugepages={}", mapped_bytes / HUGE_PAGE_BYTES)),
            }
        })?;
        mapping.keep_from_children().map_err(|errno| Error::system(what(), errno))?;
        Self::over(mapping.base(), frames, frame_bytes, Box::new(mapping))
    }

    /// Makes a pool of memory that the caller owns, such as an existing buffer pool.
    ///
    /// `frames` frames of `frame_bytes` bytes each, the first at `base`; `keeps_alive` is dropped when the last handle and
    /// buffer are gone. O_DIRECT needs frames aligned as the target asks (commonly 512 or 4096 bytes).
    ///
    /// # Errors
    /// `Usage` if a number is 0, a frame is 4 GiB or more, or the region is larger than the address space.
    ///
    /// # Safety
    /// The caller promises that, until `keeps_alive` is dropped,
    /// 1. `base .. base + frames * frame_bytes` is mapped, initialised, readable and writable;
    /// 2. nothing but buffers of this pool (and of its clones) reads or writes any of it: no reference, no other pool,
    ///    no other process, no device. To read what arrived, hold the buffer and read through it.
    pub unsafe fn from_region(
        base: NonNull<u8>,
        frames: usize,
        frame_bytes: usize,
        keeps_alive: impl Any + Send + Sync,
    ) -> Result<Self> {
        let what = || format!("a region of {frames} frames of {frame_bytes} bytes");
        let fits = frame_bytes.checked_mul(frames).is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if frames == 0 || frame_bytes == 0 || u32::try_from(frame_bytes).is_err() || !fits {
            return Err(Error::usage(
                what(),
                "both numbers are 1 or more, a frame is under 4 GiB, all of it addressable",
            ));
        }
        Self::over(base, frames, frame_bytes, Box::new(keeps_alive))
    }

    fn over(
        base: NonNull<u8>,
        frames: usize,
        frame_bytes: usize,
        keeps_alive: Box<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let slips = Mapping::lazy(frames.saturating_mul(size_of::<Slip>()))
            .map_err(|errno| Error::system(format!("the slips of {frames} buffers"), errno))?;
        let claims = Claims::new(frames);
        Ok(Self(Arc::new(Memory { base, frame_bytes, slips, claims, _keeps_alive: keeps_alive })))
    }

    /// Takes any free frame, or `None` if all are held.
    pub fn take(&self) -> Option<Buffer> {
        Some(self.buffer(self.0.claims.claim_any()?, 1))
    }

    /// Takes the given frames as one buffer, or `None` if one of them is held or does not exist, or their size is 4 GiB or more.
    pub fn take_frames(&self, first: usize, count: usize) -> Option<Buffer> {
        first.checked_add(count).filter(|end| count > 0 && *end <= self.frames())?;
        u32::try_from(count.checked_mul(self.0.frame_bytes)?).ok()?;
        self.0.claims.claim_all(first, count).then(|| self.buffer(first, count))
    }

    /// A buffer of frames that the caller has claimed.
    fn buffer(&self, first: usize, count: usize) -> Buffer {
        debug_assert!(count > 0 && first + count <= self.frames(), "the frames exist: {first} + {count}");
        debug_assert!(
            (first..first + count).all(|frame| self.0.claims.is_claimed(frame)),
            "the caller has claimed the frames"
        );
        let bytes = (count * self.0.frame_bytes) as u32;
        // SAFETY: the frames exist, so the offsets lie within the pool's memory and its slips; they are claimed, so the
        // slip belongs to no other buffer.
        unsafe {
            let start = self.0.base.add(first * self.0.frame_bytes);
            let slip = self.0.slips.base().cast::<Slip>().add(first);
            slip.write(Slip {
                start,
                memory: Arc::into_raw(self.0.clone()),
                frame: first,
                len: bytes,
                capacity: bytes,
            });
            Buffer(slip)
        }
    }

    /// Bytes in a frame.
    pub fn frame_bytes(&self) -> usize {
        self.0.frame_bytes
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.0.claims.frames()
    }

    /// The address of the first byte and the length in bytes, for a queue to register with the kernel or a device.
    pub fn span(&self) -> (NonNull<u8>, usize) {
        (self.0.base, self.frames() * self.0.frame_bytes)
    }

    /// Whether `buffer` was taken from this pool.
    #[inline]
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.is_of(self.id())
    }

    /// What tells its buffers from those of other pools, as long as it exists.
    #[inline]
    pub fn id(&self) -> PoolId {
        PoolId(Arc::as_ptr(&self.0).addr())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} x {})", self.frames(), Bytes(self.0.frame_bytes as u64))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        debug_assert!(self.claims.all_free(), "every buffer was returned");
    }
}

/// Refuses more memory than there is, by /proc/meminfo (proc_meminfo(5), MemAvailable): the pages are made present at once, and the kernel
/// would end a process, this one or another, to have them. Where nothing is known, nothing is refused.
fn check_available(bytes: u64, meminfo: &str) -> Result<(), String> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    match kib.map(|kib| kib.saturating_mul(1024)) {
        Some(available) if bytes > available => Err(format!("only {} of memory are available", Bytes(available))),
        _ => Ok(()),
    }
}

/// Which pool a buffer is of ([`Pool::id`]). A later pool may have the number of one that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolId(usize);

/// Exclusive access to one or more frames of a [`Pool`]; they return to it when this is dropped.
///
/// It dereferences to the `len` bytes that a request moves, from the start of the frame.
pub struct Buffer(NonNull<Slip>);

// SAFETY: a buffer is the only handle to its slip and its bytes, like a `Box<[u8]>`.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer gives out only shared slices.
unsafe impl Sync for Buffer {}

impl Buffer {
    #[inline]
    fn slip(&self) -> &Slip {
        // SAFETY: the slip was written when the buffer was made, lives as long as the memory that the buffer keeps alive,
        // and is changed only through `&mut self`.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn memory(&self) -> &Memory {
        // SAFETY: the buffer owns a counted reference to it.
        unsafe { &*self.slip().memory }
    }

    /// Whether it was taken from this pool.
    #[inline]
    pub fn is_of(&self, pool: PoolId) -> bool {
        self.slip().memory.addr() == pool.0
    }

    /// Most bytes a request with this buffer can move.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slip().capacity as usize
    }

    /// Sets how many bytes, from the start, a request will move.
    ///
    /// # Errors
    /// `Usage` if it is more than the capacity; the length stays as it was.
    #[inline]
    pub fn set_len(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.capacity() {
            return Err(self.too_small(bytes));
        }
        // SAFETY: as in `slip`, and `&mut self` makes the access exclusive.
        unsafe { self.0.as_mut() }.len = bytes as u32;
        Ok(())
    }

    #[cold]
    fn too_small(&self, bytes: usize) -> Error {
        Error::usage(format!("{bytes} bytes in a buffer"), format!("it holds {}", self.capacity()))
    }

    /// The address of the first byte, for a queue to hand to the kernel or a device.
    #[inline]
    pub fn address(&self) -> *mut u8 {
        self.slip().start.as_ptr()
    }

    /// The offset of the buffer in its pool, in bytes.
    #[inline]
    pub fn offset_in_pool(&self) -> usize {
        self.address().addr() - self.memory().base.as_ptr().addr()
    }

    /// The frame at which the buffer begins.
    #[inline]
    pub fn frame(&self) -> usize {
        self.slip().frame
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the reference was made by `Arc::into_raw` for this buffer, which gives it up here. It is read before
        // the frames are released, for then the slip may become another buffer's.
        let memory = unsafe { Arc::from_raw(self.slip().memory) };
        let first = self.frame();
        let count = self.capacity() / memory.frame_bytes;
        debug_assert!(count > 0 && first + count <= memory.claims.frames(), "a buffer is whole frames of its pool");
        (first..first + count).for_each(|frame| memory.claims.release(frame));
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let slip = self.slip();
        // SAFETY: `start .. start + len` lies in frames that only this buffer holds; the memory is initialised (mapped
        // zeroed, or promised by `from_region`) and lives as long as `memory`. No kernel or device writes it now: to let
        // one do so, the buffer has to be moved into a request.
        unsafe { std::slice::from_raw_parts(slip.start.as_ptr(), slip.len as usize) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let slip = self.slip();
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(slip.start.as_ptr(), slip.len as usize) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer(frame {}, {} of {} bytes)", self.frame(), self.len(), self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pool_gives_each_frame_once_and_takes_it_back() {
        let pool = Pool::new(70, 512, Pages::Base).unwrap();
        assert_eq!(pool.frame_bytes(), 4096);
        let mut held: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(held.len(), 70);
        let mut frames: Vec<usize> = held.iter().map(Buffer::frame).collect();
        frames.sort_unstable();
        assert_eq!(frames, (0..70).collect::<Vec<_>>());
        assert!(held.iter().all(|buffer| buffer.address().addr() % 4096 == 0));
        let returned = held.swap_remove(40).frame();
        assert_eq!(pool.take().unwrap().frame(), returned);
    }

    #[test]
    fn more_memory_than_is_available_is_refused_before_it_is_taken() {
        let meminfo = "MemTotal:       16384 kB\nMemFree:          100 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(check_available(8 << 20, meminfo), Ok(()));
        let cause = check_available((8 << 20) + 4096, meminfo).unwrap_err();
        assert_eq!(cause, "only 8m of memory are available");
        for unknown in ["", "MemAvailable: many kB", "MemAvailable: 1 MB"] {
            assert_eq!(check_available(u64::MAX, unknown), Ok(()), "{unknown}");
        }
        let error = Pool::new(1 << 40, 1 << 12, Pages::Base).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Exhausted, "{error}");
    }

    /// The kernel's flags of the mapping that holds an address (proc_pid_smaps(5), VmFlags).
    fn mapping_flags(address: usize) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.and_then(|(start, end)| {
                Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
            });
            inside = ends.map_or(inside, |range| range.contains(&address));
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return flags.split_whitespace().map(str::to_owned).collect();
            }
        }
        panic!("no mapping holds {address:#x}");
    }

    #[test]
    fn a_child_of_fork_does_not_have_the_frames() {
        let pool = Pool::new(3, 4096, Pages::Base).unwrap();
        let flags = mapping_flags(pool.take().unwrap().address().addr());
        assert!(flags.contains(&"dc".into()), "{flags:?}");
    }

    #[test]
    fn a_pool_of_2_mib_or_more_begins_at_a_huge_page_and_asks_for_such() {
        for (frames, is_asked_for) in [(3, false), (511, false), (512, true), (1300, true)] {
            let pool = Pool::new(frames, 4096, Pages::Base).unwrap();
            let address = pool.span().0.as_ptr().addr();
            assert!(!is_asked_for || address.is_multiple_of(HUGE_PAGE_BYTES), "{frames} at {address:#x}");
            let last = pool.take_frames(frames - 1, 1).unwrap();
            assert!(last.iter().all(|byte| *byte == 0), "{frames}");
            if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
                let flags = mapping_flags(address);
                assert_eq!(flags.contains(&"hg".into()), is_asked_for, "{frames}: {flags:?}");
            }
        }
    }

    #[test]
    fn a_buffer_is_one_word_that_requests_move_around() {
        assert_eq!(size_of::<Option<Buffer>>(), 8);
        assert_eq!((size_of::<crate::Request>(), size_of::<crate::Completion>()), (40, 32));
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let mut buffer = Pool::new(1, 4096, Pages::Base).unwrap().take().unwrap();
        buffer.fill(7);
        assert!(buffer.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn frames_held_by_one_buffer_cannot_be_taken_by_another() {
        let pool = Pool::new(8, 4096, Pages::Base).unwrap();
        let span = pool.take_frames(2, 3).unwrap();
        assert_eq!(span.len(), 3 * 4096);
        assert!(pool.take_frames(4, 1).is_none() && pool.take_frames(0, 3).is_none());
        assert!(pool.take_frames(0, 2).is_some(), "a failed take gives back what it had claimed");
        assert!(pool.take_frames(7, 2).is_none() && pool.take_frames(usize::MAX, 2).is_none());
        drop(span);
        assert!(pool.take_frames(0, 8).is_some());
    }

    #[test]
    fn a_region_keeps_its_owner_until_the_last_buffer_is_gone() {
        let owner = Arc::new(());
        let memory = Box::leak(vec![1u8; 8192].into_boxed_slice());
        let base = NonNull::from(&mut *memory).cast();
        // SAFETY: the leaked box is used only through the pool.
        let pool = unsafe { Pool::from_region(base, 2, 4096, owner.clone()) }.unwrap();
        let buffer = pool.take().unwrap();
        drop(pool);
        assert_eq!((buffer[0], Arc::strong_count(&owner)), (1, 2));
        drop(buffer);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for (frames, frame_bytes) in [(0, 4096), (1, 0), (usize::MAX, 4096), (1, 1 << 32), (1 << 60, 1 << 20)] {
            assert!(Pool::new(frames, frame_bytes, Pages::Base).is_err(), "{frames} x {frame_bytes}");
        }
        let mut buffer = Pool::new(1, 4096, Pages::Base).unwrap().take().unwrap();
        assert!(buffer.set_len(4097).is_err() && buffer.set_len(100).is_ok());
        assert_eq!((buffer.len(), buffer.capacity()), (100, 4096));
    }

    #[test]
    fn threads_never_hold_the_same_frame() {
        let pool = Pool::new(3, 4096, Pages::Base).unwrap();
        std::thread::scope(|scope| {
            for id in 1..=4u8 {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let Some(mut buffer) = pool.take() else { continue };
                        buffer.fill(id);
                        assert!(buffer.iter().all(|byte| *byte == id));
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len(), 3);
    }

    proptest! {
        #[test]
        fn takes_and_returns_in_any_order_leave_the_pool_whole(
            frames in 1usize..130, steps in prop::collection::vec((0usize..140, 0usize..5), 0..200),
        ) {
            let pool = Pool::new(frames, 4096, Pages::Base).unwrap();
            let mut held: Vec<Buffer> = Vec::new();
            for (frame, count) in steps {
                let before = held.iter().map(|buffer| buffer.capacity() / 4096).sum::<usize>();
                prop_assert!(before <= frames);
                match count {
                    0 if !held.is_empty() => drop(held.swap_remove(frame % held.len())),
                    count => held.extend(pool.take_frames(frame, count)),
                }
            }
            held.clear();
            prop_assert!(pool.take_frames(0, frames).is_some());
        }
    }
}
