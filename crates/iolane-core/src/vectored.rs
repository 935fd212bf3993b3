//! The memory of a vectored request: several buffers that one read fills, or one write empties, in their order. Queues take it by
//! `Operation::ReadVectored` and `WriteVectored`. It performs no I/O.

use std::fmt;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::units::Bytes;

/// Most buffers in a vectored request: `UIO_MAXIOV` (linux/uio.h), which readv(2) calls `IOV_MAX`.
pub const BUFFERS_MAX: usize = 1024;

/// Buffers that one request moves, in order, as if they were one piece of memory: 1 to 1024 of them, less than 4 GiB in total.
///
/// It is one word. The lengths of the buffers are fixed while they are in here; [`exchange`](Self::exchange) changes the buffers
/// and keeps the allocations, for a program that makes many such requests.
pub struct Buffers(Box<Inner>);

struct Inner {
    buffers: Vec<Buffer>,
    /// Address and length of each buffer, in the same order.
    iovecs: Vec<libc::iovec>,
    /// The sum of the lengths.
    bytes: u32,
}

// SAFETY: the pointers in `iovecs` are those of `buffers`, which may be sent, and nothing here reads or writes through them.
unsafe impl Send for Buffers {}
// SAFETY: as above; a shared reference gives out only shared buffers, and copies of the pointers, which take `unsafe` to use.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// The buffers of a request, each with the length that it has now.
    ///
    /// # Errors
    /// `Usage` if there are none or more than 1024, or their lengths add up to 4 GiB or more. The buffers return to their pools.
    pub fn new(buffers: Vec<Buffer>) -> Result<Self> {
        let bytes = total(&buffers)?;
        let mut inner = Inner { iovecs: Vec::with_capacity(buffers.len()), buffers, bytes };
        inner.describe();
        Ok(Self(Box::new(inner)))
    }

    /// Takes the buffers from `others` and leaves in it those that were here until now. It allocates only if they are more than
    /// there were ever.
    ///
    /// # Errors
    /// As for [`new`](Self::new); both stay as they were.
    pub fn exchange(&mut self, others: &mut Vec<Buffer>) -> Result<()> {
        self.0.bytes = total(others)?;
        std::mem::swap(&mut self.0.buffers, others);
        self.0.describe();
        Ok(())
    }

    /// Number of buffers.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.buffers.len()
    }

    /// Bytes that the request moves: the sum of the buffers' lengths.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.bytes as usize
    }

    /// The buffers in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Buffer> {
        self.0.buffers.iter()
    }

    /// The bytes of each buffer in order, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        // Not the buffers themselves: the request moves the bytes at the addresses and lengths noted here.
        self.0.buffers.iter_mut().map(|buffer| &mut buffer[..])
    }

    /// The buffers in order.
    pub fn into_vec(self) -> Vec<Buffer> {
        self.0.buffers
    }

    /// Address and length of each buffer in order, for a queue to hand to the kernel. They stay in place, wherever this is moved,
    /// until it is changed or dropped.
    #[inline]
    pub fn iovecs(&self) -> &[libc::iovec] {
        debug_assert!(self.0.iovecs.len() == self.0.buffers.len(), "each buffer has its vector");
        &self.0.iovecs
    }
}

impl Inner {
    /// Notes addresses and lengths again.
    fn describe(&mut self) {
        self.iovecs.clear();
        self.iovecs.extend(
            self.buffers.iter().map(|buffer| libc::iovec { iov_base: buffer.address().cast(), iov_len: buffer.len() }),
        );
    }
}

/// The sum of the lengths of buffers that make a request.
fn total(buffers: &[Buffer]) -> Result<u32> {
    let what = || format!("a vectored request of {} buffers", buffers.len());
    if buffers.is_empty() {
        return Err(Error::usage(what(), "there is nothing to move").remedy("give it a buffer"));
    }
    if buffers.len() > BUFFERS_MAX {
        return Err(Error::usage(what(), format!("the kernel takes {BUFFERS_MAX} at most"))
            .remedy("divide them among several requests"));
    }
    let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    u32::try_from(bytes).map_err(|_| {
        Error::usage(what(), format!("they hold {}, and a request moves less than 4 GiB", Bytes(bytes as u64)))
            .remedy("divide them among several requests")
    })
}

impl<'a> IntoIterator for &'a Buffers {
    type Item = &'a Buffer;
    type IntoIter = std::slice::Iter<'a, Buffer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({} buffers, {} bytes)", self.len(), self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::{IoError, Operation, Operations, Pages, Pool, Request};

    fn taken(pool: &Pool, lengths: &[usize]) -> Vec<Buffer> {
        let with_length = |bytes: &usize| {
            let mut buffer = pool.take().unwrap();
            buffer.set_len(*bytes).unwrap();
            buffer
        };
        lengths.iter().map(with_length).collect()
    }

    /// Addresses and lengths as the buffers have them, and as the kernel gets them.
    fn seen(buffers: &Buffers) -> [Vec<(usize, usize)>; 2] {
        let own = buffers.iter().map(|buffer| (buffer.address().addr(), buffer.len()));
        let kernel = buffers.iovecs().iter().map(|iovec| (iovec.iov_base.addr(), iovec.iov_len));
        [own.collect(), kernel.collect()]
    }

    #[test]
    fn the_kernel_gets_address_and_length_of_each_buffer_in_order() {
        let pool = Pool::new(4, 8192, Pages::Base).unwrap();
        let parts = taken(&pool, &[512, 8192, 0, 100]);
        let expected: Vec<_> = parts.iter().map(|buffer| (buffer.address().addr(), buffer.len())).collect();
        let buffers = Buffers::new(parts).unwrap();
        assert_eq!((buffers.len(), buffers.bytes()), (4, 8804));
        let place = buffers.iovecs().as_ptr();
        let request = Request::read_vectored(1, 0, buffers);
        let Operation::ReadVectored(buffers) = &request.operation else { unreachable!("it reads") };
        assert_eq!(buffers.iovecs().as_ptr(), place, "moving a request must not move what the kernel reads");
        assert_eq!(seen(buffers), [expected.clone(), expected]);
    }

    #[test]
    fn buffers_are_exchanged_whole_or_not_at_all() {
        let pool = Pool::new(8, 4096, Pages::Base).unwrap();
        let mut buffers = Buffers::new(taken(&pool, &[1, 2, 3])).unwrap();
        let mut others = taken(&pool, &[4, 5]);
        let expected: Vec<_> = others.iter().map(|buffer| (buffer.address().addr(), buffer.len())).collect();
        buffers.exchange(&mut others).unwrap();
        assert_eq!((buffers.len(), buffers.bytes(), others.len()), (2, 9, 3));
        assert_eq!(seen(&buffers), [expected.clone(), expected.clone()]);
        assert!(buffers.exchange(&mut Vec::new()).is_err());
        assert_eq!((buffers.bytes(), seen(&buffers)), (9, [expected.clone(), expected]));
    }

    #[test]
    fn a_request_without_buffers_or_with_too_many_is_refused_and_its_buffers_return() {
        let pool = Pool::new(1025, 4096, Pages::Base).unwrap();
        let all = |count| (0..count).map(|_| pool.take().unwrap()).collect::<Vec<_>>();
        for (count, allowed) in [(0, false), (1, true), (1024, true), (1025, false)] {
            assert_eq!(Buffers::new(all(count)).is_ok(), allowed, "{count}");
        }
        assert!(pool.take_frames(0, 1025).is_some());
    }

    #[test]
    fn a_request_of_4_gib_is_refused() {
        const HALF: usize = 1 << 31;
        /// Address space without memory, which nothing touches.
        fn reserve(bytes: usize) -> NonNull<u8> {
            let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::NORESERVE;
            let rights = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
            // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
            let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, rights, flags) };
            NonNull::new(base.unwrap().cast()).unwrap()
        }
        // SAFETY: the mapping is readable and writable, is never unmapped, and only the pool knows of it.
        let pool = unsafe { Pool::from_region(reserve(2 * HALF), 2, HALF, ()) }.unwrap();
        let mut parts = taken(&pool, &[HALF, HALF]);
        let mut buffers = Buffers::new(taken(&Pool::new(1, 4096, Pages::Base).unwrap(), &[7])).unwrap();
        let error = buffers.exchange(&mut parts).unwrap_err().to_string();
        assert!(error.contains("less than 4 GiB"), "{error}");
        parts[1].set_len(HALF - 1).unwrap();
        buffers.exchange(&mut parts).unwrap();
        assert_eq!(buffers.bytes(), u32::MAX as usize);
    }

    #[test]
    fn a_vectored_request_has_the_size_of_any_other_and_returns_its_buffers() {
        assert_eq!((size_of::<Buffers>(), size_of::<Option<Buffers>>()), (8, 8));
        let pool = Pool::new(3, 4096, Pages::Base).unwrap();
        let mut buffers = Buffers::new(taken(&pool, &[1000, 2000])).unwrap();
        buffers.iter_mut().zip(1..).for_each(|(bytes, value)| bytes.fill(value));
        let request = Request::write_vectored(7, 4096, buffers);
        assert_eq!(Operations::of(&request.operation), Operations::VECTORED);
        assert_eq!((request.operation.bytes(), request.operation.buffer().is_none()), (3000, true));
        let completion = request.complete(Err(IoError::CANCELLED));
        assert!(completion.buffer.is_none());
        let parts = completion.buffers.unwrap().into_vec();
        assert_eq!(parts.iter().map(|buffer| (buffer.len(), buffer[0])).collect::<Vec<_>>(), [(1000, 1), (2000, 2)]);
    }

    #[test]
    fn buffers_may_go_to_another_thread() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<Buffers>();
    }
}
