//! What `auto` decides: which of several paths carries the requests of a queue, from what was measured on them so far. The
//! queue of `auto` in `iolane` measures and obeys.
//!
//! Nothing here performs I/O, reads a clock or draws a random number: the same windows give the same decisions, so that a
//! test can play years of them in a second.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bounds;
mod chooser;
mod experience;
mod window;

pub use bounds::Bounds;
pub use chooser::{Chooser, Decision, Reason};
pub use experience::Known;
pub use window::{Cost, Load, Window};
