//! The targets of a queue, each with a number that requests name. Queues attach and detach them, and look one up for every
//! request. A number is never given twice, so that a request that names a detached target reaches no other.

use crate::error::{Error, Result};
use crate::target::Target;

/// The number of a target of a queue. [`Request::on`](crate::Request::on) takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TargetId(u64);

/// The place of a number in the table is in its lower bits; the upper ones, more than a process lives for, count how often the place was
/// used.
const PLACE_BITS: u32 = 18;

impl TargetId {
    /// The target that the queue was opened with.
    pub const FIRST: Self = Self(0);

    /// The place of its target in a queue's table: below the number of targets that the queue was opened for.
    #[inline]
    pub const fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

/// What a queue keeps for each of its targets.
pub struct Targets<T> {
    /// The target of [`TargetId::FIRST`], apart from the others because most queues have no other one: finding it takes a
    /// comparison.
    first: Option<T>,
    /// The places. That of the first target is here, too, for those that follow it.
    others: Vec<Place<T>>,
    /// Places among them without a target. Those beyond them are free too.
    free: Vec<u32>,
    most: usize,
}

struct Place<T> {
    /// The number of the target that is here, or of the next one.
    id: TargetId,
    target: Option<T>,
}

impl<T> Place<T> {
    /// A place whose target was that of `before`.
    fn after(before: TargetId) -> Self {
        Self { id: TargetId(before.0 + (1 << PLACE_BITS)), target: None }
    }
}

impl<T> Targets<T> {
    /// Most targets of a queue: 262,144.
    pub const MOST: u32 = 1 << PLACE_BITS;

    /// A table for at most this number of targets, at least 1, with the first one.
    pub fn new(most: u32, first: T) -> Self {
        let most = most.clamp(1, Self::MOST) as usize;
        Self { first: Some(first), others: vec![Place::after(TargetId::FIRST)], free: Vec::new(), most }
    }

    /// Most targets at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The target of this number, if it is attached.
    #[inline(always)]
    pub fn get(&self, id: TargetId) -> Option<&T> {
        if id == TargetId::FIRST { self.first.as_ref() } else { self.other(id) }
    }

    /// The target that it was made with, if it is attached.
    #[inline(always)]
    pub fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    fn other(&self, id: TargetId) -> Option<&T> {
        let place = self.others.get(id.place())?;
        if place.id == id { place.target.as_ref() } else { None }
    }

    /// The number that [`attach`](Self::attach) gives next; `None` if there is no room.
    pub fn next(&self) -> Option<TargetId> {
        let beyond = self.others.len();
        match self.free.last() {
            Some(index) => Some(self.others[*index as usize].id),
            None if beyond < self.most => Some(TargetId(beyond as u64)),
            None => None,
        }
    }

    /// Adds a target.
    ///
    /// # Errors
    /// The target itself, if the table is full.
    pub fn attach(&mut self, target: T) -> std::result::Result<TargetId, T> {
        let Some(id) = self.next() else { return Err(target) };
        let target = Some(target);
        match self.free.pop() {
            Some(index) => self.others[index as usize].target = target,
            None => self.others.push(Place { id, target }),
        }
        Ok(id)
    }

    /// Removes the target of this number; `None` if it is not attached.
    pub fn detach(&mut self, id: TargetId) -> Option<T> {
        let target = if id == TargetId::FIRST {
            self.first.take()?
        } else {
            let place = self.others.get_mut(id.place()).filter(|place| place.id == id)?;
            let target = place.target.take()?;
            *place = Place::after(id);
            target
        };
        self.free.push(id.place() as u32);
        Some(target)
    }

    /// The number of targets that are attached.
    pub fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.iter().filter(|place| place.target.is_some()).count()
    }
}

/// The error of a queue that has no room for a target.
pub fn no_room_for(target: &Target, most: usize) -> Error {
    Error::exhausted(format!("target {}", target.name()), format!("the queue has room for {most} at a time"))
        .remedy("open it with room for more (QueueConfig::targets), or detach one")
}

/// Whether a target can be detached, given those that the requests in flight name.
///
/// # Errors
/// `Usage` if it is not attached, or a request in flight names it.
pub fn check_detach<T>(
    targets: &Targets<T>,
    id: TargetId,
    in_flight: impl IntoIterator<Item = TargetId>,
) -> Result<()> {
    if targets.get(id).is_none() {
        return Err(Error::usage("detaching a target", "it is not attached to this queue"));
    }
    match in_flight.into_iter().filter(|of| *of == id).count() {
        0 => Ok(()),
        count => Err(Error::usage("detaching a target", format!("requests on it in flight: {count}"))
            .remedy("reap their completions first")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet, VecDeque};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_target_has_the_number_that_requests_have_by_default() {
        let targets = Targets::new(1, 'a');
        assert_eq!((targets.get(TargetId::default()), targets.next()), (Some(&'a'), None));
    }

    #[test]
    fn a_full_table_hands_the_target_back() {
        let mut targets = Targets::new(2, 'a');
        let second = targets.attach('b').unwrap();
        assert_eq!(targets.attach('c'), Err('c'));
        assert_eq!((targets.detach(second), targets.detach(second)), (Some('b'), None));
        assert!(targets.attach('c').is_ok());
    }

    #[test]
    fn all_places_are_used_again_that_of_the_first_target_too() {
        let mut targets = Targets::new(2, 0);
        let mut held = VecDeque::from([(TargetId::FIRST, 0), (targets.attach(1).unwrap(), 1)]);
        let mut seen: HashSet<TargetId> = held.iter().map(|(id, _)| *id).collect();
        for value in 2..100_000 {
            let (id, expected) = held.pop_front().unwrap();
            assert_eq!((targets.detach(id), targets.detach(id)), (Some(expected), None));
            let id = targets.attach(value).unwrap();
            assert!(seen.insert(id), "{id:?} came again");
            held.push_back((id, value));
            assert_eq!((targets.attach(0), targets.count()), (Err(0), 2));
        }
    }

    proptest! {
        #[test]
        fn a_number_leads_to_its_own_target_or_to_none(steps in prop::collection::vec((any::<bool>(), 0usize..64), 1..200)) {
            let mut targets = Targets::new(8, 0usize);
            let mut model = HashMap::from([(TargetId::FIRST, 0usize)]);
            let mut ids = vec![TargetId::FIRST];
            for (number, (attaches, pick)) in steps.into_iter().enumerate() {
                if attaches {
                    let next = targets.next();
                    match targets.attach(number + 1) {
                        Ok(id) => {
                            prop_assert_eq!(next, Some(id));
                            prop_assert!(model.insert(id, number + 1).is_none() && !ids.contains(&id));
                            ids.push(id);
                        }
                        Err(_) => prop_assert!(next.is_none() && model.len() == 8),
                    }
                } else {
                    let id = ids[pick % ids.len()];
                    prop_assert_eq!(targets.detach(id), model.remove(&id));
                }
                for id in &ids {
                    prop_assert_eq!(targets.get(*id), model.get(id));
                }
                prop_assert_eq!(targets.count(), model.len());
            }
        }
    }
}
