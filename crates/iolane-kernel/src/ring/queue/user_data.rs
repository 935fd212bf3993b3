//! The user data of entries, by which completions are told apart. `queue` takes completions by it, and `submit` gives it.

use iolane_core::{Completion, IoError, Slots};

/// The user data of an entry: its slot, and in the upper half the errno of a refused request.
#[inline]
pub(super) fn to_user_data(slot: u32, refusal: Option<IoError>) -> u64 {
    let errno = refusal.map_or(0, IoError::errno) as u32;
    u64::from(errno) << 32 | u64::from(slot)
}

/// The completion of a refused request, whose user data is larger than any slot. It is one of `refused`: the kernel may have what is in
/// any other slot.
#[cold]
pub(super) fn take_refused(slots: &mut Slots, refused: &mut Vec<u64>, user_data: u64) -> Option<Completion> {
    refused.swap_remove(refused.iter().position(|refused| *refused == user_data)?);
    let request = slots.take(user_data & u64::from(u32::MAX))?;
    Some(request.complete(Err(IoError::from_errno((user_data >> 32) as i32))))
}
