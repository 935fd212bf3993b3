//! What the driver needs of a controller, however it is reached: its registers, and a way to let it touch memory.
//! [`crate::vfio`] reaches a real one over PCIe; [`crate::model`] plays one in memory.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::Duration;

use iolane_core::Result;

use crate::registers::Registers;

/// A controller's registers and its access to memory.
pub trait Transport: Send + Sync {
    /// What the controller is called in messages, such as `pci:0000:00:04.0`.
    fn name(&self) -> &str;

    /// Its registers.
    fn registers(&self) -> Registers;

    /// Lets the controller read and write `memory .. memory + bytes`, whole pages, and gives the address that the
    /// controller has for it: contiguous, and a multiple of 4096.
    ///
    /// # Errors
    /// `Exhausted` if locked memory or addresses run out.
    ///
    /// # Safety
    /// The memory stays mapped in this process until [`unmap`](Self::unmap) has returned or the transport is dropped. While
    /// commands name it, what the controller may write of it is read or written by no one else.
    unsafe fn map(&self, memory: NonNull<u8>, bytes: usize) -> Result<u64>;

    /// Takes the memory back that was mapped at this address: afterwards the controller reaches none of it.
    ///
    /// # Errors
    /// `Failed` if nothing was mapped so.
    fn unmap(&self, address: u64, bytes: usize) -> Result<()>;

    /// The first interrupt vectors that the controller has, `most` at most, each as a descriptor that counts its interrupts
    /// (eventfd(2), non-blocking). Called once.
    ///
    /// # Errors
    /// `Unavailable` if it has none.
    fn interrupts(&self, most: u32) -> Result<Vec<OwnedFd>>;

    /// Whether the controller is about to be taken away, or its driver is asked to let go of it.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Lets time pass while the driver waits for the controller, which it has looked at so many times in vain.
    fn relax(&self, looks: u32) {
        let _ = looks;
        std::hint::spin_loop();
    }

    /// The time by which the driver judges what takes too long, from any beginning.
    fn now(&self) -> Duration {
        rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).try_into().unwrap_or_default()
    }

    /// Lets the controller reach memory and raise interrupts (bus mastering), or cuts it off, whatever state it is in.
    ///
    /// # Errors
    /// `Failed` if the controller cannot be told: it is gone.
    fn set_bus_master(&self, on: bool) -> Result<()>;
}
