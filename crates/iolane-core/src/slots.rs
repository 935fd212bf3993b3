//! The requests a queue has in flight, each in a slot whose number travels through kernel or device and back.
//! While a request sits here its buffer belongs to them; taking it out is what `reap` does.

use crate::request::Request;

/// As many slots as the queue is deep. Those that are free form a chain, the last given back first.
pub struct Slots {
    slots: Box<[Slot]>,
    first_free: u32,
    in_flight: u32,
}

enum Slot {
    Free { next: u32 },
    Taken(Request),
}

impl Slots {
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

    /// The slot that the next request will be in, if one is free.
    #[inline]
    pub fn next(&self) -> u32 {
        self.first_free
    }

    /// Stores a request and says in which slot.
    ///
    /// # Panics
    /// If none is free, which the caller has checked.
    #[inline]
    pub fn insert(&mut self, request: Request) -> u32 {
        let number = self.first_free;
        let slot = &mut self.slots[number as usize];
        let Slot::Free { next } = *slot else { unreachable!("the chain of free slots holds no other") };
        // There is nothing to drop; forgetting that saves looking for it.
        std::mem::forget(std::mem::replace(slot, Slot::Taken(request)));
        self.first_free = next;
        self.in_flight += 1;
        number
    }

    /// Looks at the request in a slot.
    pub fn get(&self, slot: u32) -> Option<&Request> {
        match self.slots.get(slot as usize)? {
            Slot::Free { .. } => None,
            Slot::Taken(request) => Some(request),
        }
    }

    /// Takes a request out, or `None` for a slot that holds none: a number that kernel or device made up.
    #[inline]
    pub fn take(&mut self, number: u64) -> Option<Request> {
        let slot = self.slots.get_mut(usize::try_from(number).ok()?)?;
        if let Slot::Free { .. } = slot {
            return None;
        }
        let Slot::Taken(request) = std::mem::replace(slot, Slot::Free { next: self.first_free }) else { return None };
        self.first_free = number as u32;
        self.in_flight -= 1;
        Some(request)
    }
}
