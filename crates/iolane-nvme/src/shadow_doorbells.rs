//! The two pages of Doorbell Buffer Config, with a word of each for every doorbell of a controller (NVMe Base Specification 2.0, annex B.5).

use std::sync::Arc;

use iolane_core::Result;

use crate::doorbell::Shadow;
use crate::memory::{DmaPages, PAGE_BYTES};
use crate::transport::Transport;

pub(crate) struct ShadowDoorbells {
    values: DmaPages,
    event_indices: DmaPages,
}

impl ShadowDoorbells {
    /// # Errors
    /// As [`DmaPages::new`].
    pub(crate) fn new(transport: &Arc<dyn Transport>) -> Result<Self> {
        Ok(Self { values: DmaPages::new(transport, PAGE_BYTES)?, event_indices: DmaPages::new(transport, PAGE_BYTES)? })
    }

    /// The size of each page.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes().min(self.event_indices.bytes())
    }

    /// Device addresses of the values and of the event indices.
    pub(crate) fn addresses(&self) -> [u64; 2] {
        [self.values.address(), self.event_indices.address()]
    }

    pub(crate) fn clear(&self) {
        [&self.values, &self.event_indices].into_iter().for_each(DmaPages::clear);
    }

    /// The words of the doorbell at `offset` from the first one.
    ///
    /// # Safety
    /// The pages live as long as the words are used, and are accessed only by atomics.
    ///
    /// # Panics
    /// If the offset lies outside a page.
    pub(crate) unsafe fn at(&self, offset: usize) -> Shadow {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes());
        // SAFETY: the words lie within the pages by the assertion; the caller promises the rest.
        unsafe { Shadow::new(self.values.base().add(offset).cast(), self.event_indices.base().add(offset).cast()) }
    }
}
