//! The atomics of modules that tests check with others in their place, and a pair of fences of unequal cost.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// Longer than any processor keeps a store to itself.
const STORES_ARE_SEEN: Duration = Duration::from_millis(1);

/// A full fence beside [`heavy_fence`] in another thread of this process, at no cost but the order in which the compiler leaves stores and
/// loads.
#[inline(always)]
pub(crate) fn light_fence() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A full fence in every thread of this process (membarrier(2)), which takes microseconds, the first time milliseconds. Where a filter of
/// system calls forbids it, as long as any store takes to be seen.
pub(crate) fn heavy_fence() {
    let barrier = || membarrier(MembarrierCommand::PrivateExpedited);
    let registered = || membarrier(MembarrierCommand::RegisterPrivateExpedited).and_then(|()| barrier());
    if barrier().or_else(|_| registered()).is_err() {
        fence(Ordering::SeqCst);
        std::thread::sleep(STORES_ARE_SEEN);
    }
}
