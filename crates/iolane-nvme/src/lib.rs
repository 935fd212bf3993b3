//! An NVMe driver in the process itself: registers mapped over PCIe, queues in memory that the controller reads and writes,
//! no system call per request. In the order in which to read it:
//!
//! - [`registers`] and [`command`]: the words that host and controller exchange (NVMe Base Specification 2.0);
//! - [`transport`]: what a driver needs of the controller it drives, real over VFIO or played by a model;
//! - [`memory`]: memory that the controller may reach;
//! - [`queue_pair`], [`controller`], `queue`: from one pair of rings to a queue of the library's;
//! - [`pci`], [`binding`]: which controllers there are, and how one is taken from the kernel and given back.
//!
//! Nothing here looks at file systems or mounts: whether a drive may be taken is decided in `iolane`, by its guard.

mod address_space;
pub mod command;
pub mod controller;
mod data_pointer;
pub mod identity;
mod interface;
mod memlock;
pub mod memory;
pub mod model;
pub mod queue;
mod queue_pair;
pub mod registers;
pub mod transport;
pub mod vfio;

use iolane_core::Interface;

/// Every interface of this crate.
pub static INTERFACES: &[&dyn Interface] = &[&interface::Nvme];
