//! Every path to a disk through the Linux kernel, one file per interface, and the registry that lists them.
//! To add an interface, write its file and add its line to [`INTERFACES`]; help, `probe`, surveys, charts and the
//! conformance suite read the registry.
#![warn(missing_docs)]

mod blocking;
mod checks;
mod command_limits;
mod control_blocks;
#[cfg(test)]
mod fake_kernel;
mod io_uring;
mod io_uring_cmd;
mod io_workers;
mod kernel;
mod libaio;
mod null;
mod nvme_ioctl;
#[cfg(target_env = "gnu")]
mod posix_aio;
mod psync;
mod ring;
pub mod sim;

use iolane_core::Interface;

/// Every interface of this crate, in the order they are shown.
pub static INTERFACES: &[&dyn Interface] = &[
    &psync::Psync,
    #[cfg(target_env = "gnu")]
    &posix_aio::PosixAio,
    &libaio::Libaio,
    &io_uring::IoUringInterface,
    &io_uring_cmd::IoUringCmd,
    &null::Null,
    &sim::Sim,
];
