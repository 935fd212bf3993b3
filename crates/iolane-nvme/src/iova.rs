//! I/O virtual addresses: allocates the addresses under which a controller accesses memory, which the IOMMU translates. Called by
//! `vfio`, which maps them.

use std::collections::BTreeMap;

use crate::memory::PAGE_BYTES;

/// Begins above 4 GiB: below are the addresses that raise interrupts (0xfee00000). Ends at the 39 bits that the narrowest IOMMUs
/// translate.
const FIRST: u64 = 1 << 32;
const END: u64 = 1 << 39;
/// Ranges begin at multiples of the size of a huge page, so that the IOMMU can use large entries.
const ALIGNMENT: u64 = 2 << 20;

/// The allocated ranges: lengths by first address.
#[derive(Debug, Default)]
pub(crate) struct IovaAllocator(BTreeMap<u64, u64>);

impl IovaAllocator {
    /// Allocates the first free range of `bytes`.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        // One page between two ranges stays free, so that an overrun of one does not reach the next.
        const GAP: u64 = PAGE_BYTES as u64;
        let mut begin = FIRST;
        for (taken, length) in &self.0 {
            if begin.checked_add(bytes)?.checked_add(GAP)? <= *taken {
                break;
            }
            begin = (taken + length + GAP).next_multiple_of(ALIGNMENT);
        }
        if begin.checked_add(bytes)? > END {
            return None;
        }
        debug_assert!(begin >= FIRST && begin.is_multiple_of(ALIGNMENT), "ranges begin at huge pages: {begin:#x}");
        let before = self.0.insert(begin, bytes);
        debug_assert_eq!(before, None, "the range was free");
        Some(begin)
    }

    /// Frees a range.
    pub(crate) fn give_back(&mut self, begin: u64, bytes: u64) {
        if self.0.get(&begin) == Some(&bytes) {
            self.0.remove(&begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_never_touch_and_are_used_again(sizes in prop::collection::vec((1u64..1 << 24, any::<bool>()), 1..60)) {
            let mut space = IovaAllocator::default();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (bytes, give_back) in sizes {
                let begin = space.take(bytes).unwrap();
                prop_assert!(begin >= FIRST && begin + bytes <= END && begin % 4096 == 0);
                prop_assert!(held.iter().all(|(other, length)| begin >= other + length + 4096 || begin + bytes + 4096 <= *other));
                held.push((begin, bytes));
                if give_back {
                    let (begin, bytes) = held.remove(0);
                    space.give_back(begin, bytes);
                }
            }
            held.drain(..).for_each(|(begin, bytes)| space.give_back(begin, bytes));
            prop_assert_eq!(space.take(END - FIRST), Some(FIRST));
        }
    }

    /// Every sequence of six allocations and returns: a page, a huge page, or more than one is taken, or one of the first three ranges
    /// that are held is given back.
    #[test]
    fn in_every_short_sequence_ranges_are_apart_by_a_page_and_lie_within_the_bounds() {
        const SIZES: [u64; 3] = [4096, ALIGNMENT, ALIGNMENT + 4096];
        for sequence in 0..6_u32.pow(6) {
            let mut space = IovaAllocator::default();
            let mut held: Vec<(u64, u64)> = Vec::new();
            let mut rest = sequence;
            for _ in 0..6 {
                match (rest % 6) as usize {
                    size @ 0..3 => {
                        let begin = space.take(SIZES[size]).unwrap();
                        let end = begin + SIZES[size];
                        assert!(begin >= FIRST && end <= END && begin.is_multiple_of(ALIGNMENT));
                        let is_apart =
                            |(other, bytes): &(u64, u64)| begin >= other + bytes + 4096 || end + 4096 <= *other;
                        assert!(held.iter().all(is_apart), "{sequence}: {begin:#x} beside {held:x?}");
                        held.push((begin, SIZES[size]));
                    }
                    action if action - 3 < held.len() => {
                        let (begin, bytes) = held.remove(action - 3);
                        space.give_back(begin, bytes);
                    }
                    _ => {}
                }
                rest /= 6;
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut space = IovaAllocator::default();
        assert_eq!((space.take(END), space.take(u64::MAX)), (None, None));
    }
}
