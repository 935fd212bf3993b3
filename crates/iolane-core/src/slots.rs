//! The requests a queue has in flight, each in a slot whose number travels through the kernel or device and back. While a
//! request is here, its buffer belongs to kernel or device. Queues insert in `submit` and take out in `reap`. A queue over another
//! queue keeps here what it has to know of each request.

use crate::request::Request;
use crate::targets::TargetId;

/// As many slots as the queue is deep. The free ones form a linked list, the last freed first.
pub struct Slots<T = Request> {
    slots: Box<[Slot<T>]>,
    first_free: u32,
    in_flight: u32,
}

enum Slot<T> {
    Free { next: u32 },
    Taken(T),
}

impl<T> Slots<T> {
    /// All free.
    pub fn new(depth: usize) -> Self {
        Self { slots: (1..=depth as u32).map(|next| Slot::Free { next }).collect(), first_free: 0, in_flight: 0 }
    }

    /// How many there are.
    #[inline]
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// How many hold a request.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.in_flight as usize
    }

    /// The slot of the next request, if one is free.
    #[inline]
    pub fn next(&self) -> u32 {
        self.first_free
    }

    /// Stores a request and returns its slot.
    ///
    /// # Panics
    /// If none is free, which the caller has checked.
    #[inline]
    pub fn insert(&mut self, request: T) -> u32 {
        debug_assert!((self.in_flight as usize) < self.slots.len(), "the caller checked that a slot is free");
        let number = self.first_free;
        let slot = &mut self.slots[number as usize];
        let Slot::Free { next } = *slot else { unreachable!("the list of free slots holds only free ones") };
        // A free slot has nothing to drop; `forget` saves the check.
        std::mem::forget(std::mem::replace(slot, Slot::Taken(request)));
        self.first_free = next;
        self.in_flight += 1;
        number
    }

    /// The request in a slot.
    pub fn get(&self, slot: u32) -> Option<&T> {
        match self.slots.get(slot as usize)? {
            Slot::Free { .. } => None,
            Slot::Taken(request) => Some(request),
        }
    }

    /// The requests in flight, each with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter_map(|(number, slot)| match slot {
            Slot::Free { .. } => None,
            Slot::Taken(request) => Some((number, request)),
        })
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.slots).filter_map(|(number, slot)| match slot {
            Slot::Free { .. } => None,
            Slot::Taken(request) => Some((number, request)),
        })
    }

    /// Takes a request out, or `None` for a slot that holds none, since kernel or device may return any number.
    #[inline]
    pub fn take(&mut self, number: u64) -> Option<T> {
        let slot = self.slots.get_mut(usize::try_from(number).ok()?)?;
        if let Slot::Free { .. } = slot {
            return None;
        }
        let Slot::Taken(request) = std::mem::replace(slot, Slot::Free { next: self.first_free }) else { return None };
        debug_assert!(self.in_flight > 0, "a taken slot is counted");
        self.first_free = number as u32;
        self.in_flight -= 1;
        Some(request)
    }
}

impl Slots {
    /// The slots of the requests with this tag.
    pub fn tagged(&self, tag: u64) -> Vec<u32> {
        self.iter().filter(|(_, request)| request.tag == tag).map(|(slot, _)| slot).collect()
    }

    /// The target of each request in flight.
    pub fn targets(&self) -> impl Iterator<Item = TargetId> {
        self.iter().map(|(_, request)| request.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots beside what they are to hold.
    struct Pair {
        slots: Slots<u32>,
        held: Vec<Option<u32>>,
        inserted: u32,
    }

    impl Pair {
        fn new(depth: usize) -> Self {
            Self { slots: Slots::new(depth), held: vec![None; depth], inserted: 0 }
        }

        /// Inserts, if the action is the depth and a slot is free, or takes the slot of this number out.
        fn act(&mut self, action: usize) {
            let depth = self.held.len();
            if action != depth {
                let expected = self.held.get_mut(action).and_then(Option::take);
                assert_eq!(self.slots.take(action as u64), expected);
            } else if self.slots.in_flight() < depth {
                let next = self.slots.next();
                let slot = self.slots.insert(self.inserted);
                assert_eq!(slot, next);
                assert_eq!(self.held[slot as usize].replace(self.inserted), None, "the slot was free");
                self.inserted += 1;
            }
            let held: Vec<(u32, u32)> =
                (0..).zip(&self.held).filter_map(|(slot, request)| Some((slot, (*request)?))).collect();
            assert_eq!(self.slots.iter().map(|(slot, request)| (slot, *request)).collect::<Vec<_>>(), held);
            assert_eq!(self.slots.in_flight(), held.len());
        }
    }

    /// Every sequence of as many actions: to insert, to take each of the slots out, and to take one that does not exist.
    #[test]
    fn every_short_sequence_of_insertions_and_removals_gives_back_what_was_stored() {
        for (depth, length) in [(1_usize, 9), (2, 8), (3, 8)] {
            let actions = depth + 2;
            for sequence in 0..actions.pow(length) {
                let mut pair = Pair::new(depth);
                let mut rest = sequence;
                for _ in 0..length {
                    pair.act(rest % actions);
                    rest /= actions;
                }
            }
        }
    }

    #[test]
    fn numbers_that_no_slot_has_are_answered_with_nothing() {
        let mut slots = Slots::new(2);
        slots.insert(7);
        assert_eq!((slots.take(2), slots.take(u64::from(u32::MAX) + 1), slots.take(u64::MAX)), (None, None, None));
        assert_eq!(slots.take(0), Some(7));
    }
}
