//! A virtual machine with NVMe controllers, made for one command and removed after it.
//!
//! [`KernelSource`] names a kernel and finds it with the modules it needs, [`machine`] describes the hardware, [`session`] boots it and copies
//! results back; [`guest`] is what runs as process 1 inside. Data flows one way: a [`Job`] goes in with the initramfs, frames
//! come out of a [`channel`].
//!
//! Nothing here measures anything, and nothing is left behind: drives, initramfs and console are files without a name.

// Only the command line and xtask use this crate; what a name says is not repeated in a comment.
#![allow(missing_docs)]

mod accelerator;
mod boot_image;
pub mod cache;
pub mod channel;
mod code_patching;
mod compression;
pub mod debian;
mod drive_speed;
mod emulator;
mod files;
pub mod guest;
mod initramfs;
pub mod job;
pub mod kernel;
mod kernel_log;
mod kernel_source;
mod kernel_store;
pub mod machine;
mod modules;
mod program;
mod qemu;
mod qmp;
mod returned_files;
pub mod session;
mod shared_time;

pub use accelerator::Accelerator;
pub use drive_speed::DriveSpeed;
pub use job::{GuestCommand, Job};
pub use kernel::Kernel;
pub use kernel_source::{FALLBACK_VERSION, KernelSource};
pub use machine::{Attached, Backing, Drive, Machine, NULL_BLK_TAGS};
pub use session::{Ended, Events, Lab, Stream};
