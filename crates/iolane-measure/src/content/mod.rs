//! What `--verify` writes and how it is recognised: every unit of a block says where it belongs, which write it is of
//! and whether it is whole, and a map knows which write each block should hold. The engine uses both around its requests, through a verifier.

mod header;
mod map;
mod mismatch;
mod units;
mod verifier;

pub use header::{Expected, Field, Origin};
pub use map::ContentMap;
pub use mismatch::{Cause, Mismatch};
pub use units::{PREFILL, UNIT_BYTES_MIN, check, check_earlier, fill};
pub(crate) use verifier::Verifier;
