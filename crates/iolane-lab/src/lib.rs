//! A virtual machine with real NVMe controllers, made for one command and gone after it.
//!
//! [`kernel`] finds a kernel and the modules it needs, [`machine`] describes the hardware, [`session`] boots it and brings
//! results back; [`guest`] is the other end: what runs as process 1 inside. Data flows one way: a [`Job`] goes in with the
//! initramfs, frames come out of a [`channel`].
//!
//! Nothing here measures anything, and nothing is left behind: drives, initramfs and console are files without a name.

mod boot_image;
pub mod cache;
pub mod channel;
mod compression;
pub mod debian;
mod files;
pub mod guest;
mod initramfs;
pub mod job;
pub mod kernel;
pub mod machine;
mod modules;
mod program;
mod qemu;
mod qmp;
pub mod session;

pub use job::{GuestCommand, Job};
pub use kernel::{Kernel, KernelSource};
pub use machine::{Accelerator, Backing, Drive, Machine};
pub use session::{Ended, Events, Lab, Stream};
