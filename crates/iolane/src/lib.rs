//! Every path Linux offers to a disk, behind one API.
#![forbid(unsafe_code)]

pub mod guard;

pub use iolane_core::*;
