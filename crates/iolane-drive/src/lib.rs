//! A drive in virtual time: when it completes a request that reaches it now. The model of a machine and the simulated device of the
//! library serve their requests with it.
//!
//! [`Drive`] has the numbers, [`Service`] is a drive with requests in it. Nothing here reads a clock or performs I/O; chance comes from
//! the caller's random numbers.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod drive;
mod profile;
mod service;

pub use drive::{Drive, Link};
pub use profile::{PROFILES, Profile};
pub use service::{Lanes, Service, Time};
