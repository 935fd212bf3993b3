//! What the applications read: where it is on a target, how it is written before the first run, and how a block of it is read.

pub(crate) mod database;
mod layout;
mod packed;
mod prepared;
mod sorted;

pub use layout::Layout;
pub(crate) use layout::Part;
pub(crate) use packed::{PACKED_BYTES, Packed, UNPACKED_BYTES};
pub use prepared::Prepared;
pub(crate) use prepared::folder_of;
pub(crate) use sorted::{BLOCK_BYTES, RECORD_BYTES, Record, Sorted, record_at};
