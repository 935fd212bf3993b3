//! An NVMe driver in the process itself: registers mapped over PCIe, queues in memory that the controller reads and writes,
//! no system call per request. In the order in which to read it:
//!
//! - [`registers`] and [`command`]: the words that host and controller exchange (NVMe Base Specification 2.0);
//! - [`transport`]: what a driver needs of the controller it drives, real over VFIO or played by a model;
//! - [`vfio`], and `address_space` and `memlock` beside it: the real one;
//! - [`memory`]: memory that the controller may reach;
//! - `queue_pair`, [`controller`] with [`identity`], [`queue`] with `data_pointer`: from one pair of rings to a queue of the
//!   library's;
//! - `interface`: the paths `nvme` and `nvme+int`, and the targets `pci:...`, whose names [`name`] reads;
//! - [`pci`], [`openers`], [`binding`]: which controllers there are, who has one open, and how one is taken from the kernel
//!   and given back.
//!
//! Nothing here looks at file systems or mounts: whether a drive may be taken is decided in `iolane`, by its guard.

mod address_space;
pub mod binding;
pub mod command;
pub mod controller;
mod data_pointer;
pub mod identity;
mod interface;
mod memlock;
pub mod memory;
pub mod model;
pub mod name;
pub mod openers;
pub mod pci;
pub mod queue;
mod queue_pair;
pub mod registers;
pub mod transport;
pub mod vfio;

#[cfg(test)]
mod fake_machine;

pub use interface::namespace_of;
use iolane_core::Interface;

/// Every interface of this crate.
pub static INTERFACES: &[&dyn Interface] = &[&interface::Nvme];
