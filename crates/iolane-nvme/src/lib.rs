//! A user-space NVMe driver: registers mapped over PCIe, queues in memory that the controller reads and writes, no system call
//! per request. The modules, in reading order:
//!
//! - [`registers`] and [`command`]: the formats that host and controller exchange (NVMe Base Specification 2.0);
//! - [`transport`]: access to a controller's registers and memory; [`vfio`] with `iova` and `memlock` is the real one, [`model`]
//!   a simulated one;
//! - [`memory`]: memory that the controller can access;
//! - `doorbell`, `shadow_doorbells`, `queue_pair`, `admin_queue`, [`controller`] with [`identity`] and `reset_gate`, [`queue`]
//!   with `data_pointer`: from one pair of rings to a [`Queue`](iolane_core::Queue);
//! - `interface`: the paths `nvme` and `nvme+int`, and the targets `pci:...`, whose names [`name`] parses;
//! - [`pci`], [`binding`]: which controllers exist, and how one is taken from the kernel and returned.
//!
//! Nothing here looks at file systems or mounts: the guard in `iolane` decides whether a drive may be taken.
#![warn(missing_docs)]

mod admin_queue;
mod atomic;
pub mod binding;
pub mod command;
pub mod controller;
mod data_pointer;
mod doorbell;
pub mod identity;
mod interface;
mod iova;
mod memlock;
pub mod memory;
pub mod model;
pub mod name;
pub mod pci;
pub mod queue;
mod queue_pair;
pub mod registers;
mod reset_gate;
mod shadow_doorbells;
pub mod transport;
pub mod vfio;

#[cfg(test)]
mod fake_machine;

pub use interface::{CONTROLLER, namespace_of, release};
use iolane_core::Interface;

/// Every interface of this crate.
pub static INTERFACES: &[&dyn Interface] = &[&interface::Nvme];
