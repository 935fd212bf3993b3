//! The requests a queue has in flight, each in a slot whose number travels through the kernel and back.
//! While a request sits here its buffer belongs to the kernel; taking it out is what `reap` does.

use iolane_core::Request;

/// As many slots as the queue is deep; finding a free one and giving it back are a push and a pop.
pub(crate) struct Slots {
    requests: Box<[Option<Request>]>,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn new(depth: usize) -> Self {
        Self {
            requests: (0..depth).map(|_| None).collect(),
            // Reversed, so that slot 0 is given out first and a shallow load stays in few cache lines.
            free: (0..depth as u32).rev().collect(),
        }
    }

    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Stores a request and says in which slot; the caller has checked that one is free.
    #[inline]
    pub(crate) fn insert(&mut self, request: Request) -> u32 {
        let slot = self.free.pop().expect("the queue checks for a free slot before it takes a request");
        // The place was empty; forgetting that saves looking for something to drop.
        std::mem::forget(self.requests[slot as usize].replace(request));
        slot
    }

    /// Looks at the request in a slot.
    #[cfg(target_env = "gnu")]
    pub(crate) fn get(&self, slot: u32) -> Option<&Request> {
        self.requests.get(slot as usize)?.as_ref()
    }

    /// Takes a request out, or `None` for a slot that holds none: a number the kernel made up.
    #[inline]
    pub(crate) fn take(&mut self, slot: u64) -> Option<Request> {
        let request = self.requests.get_mut(usize::try_from(slot).ok()?)?.take()?;
        self.free.push(slot as u32);
        Some(request)
    }
}
