//! Access to a controller: its registers, its access to memory and its interrupts. [`crate::vfio`] implements it for a real
//! controller over PCIe, [`crate::model`] for a simulated one in memory.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::Duration;

use iolane_core::Result;

use crate::registers::Registers;

/// A controller's registers and its access to memory.
///
/// A [`Controller`](crate::controller::Controller) consumes its transport, so that one driver at a time has a controller: a second
/// one would ring the doorbells of the first one's queues, and the controller would carry out commands whose buffers have gone back
/// to their owners.
///
/// ```
/// use iolane_nvme::controller::{Controller, ControllerOptions};
/// use iolane_nvme::model::{Model, ModelConfig};
///
/// let port = Model::new(ModelConfig::default()).port();
/// let controller = Controller::start(port, ControllerOptions::default())?;
/// # Ok::<(), iolane_core::Error>(())
/// ```
///
/// A second one does not compile, and neither does a doorbell rung without `unsafe`; with it, it does:
///
/// ```compile_fail,E0382
/// # use iolane_nvme::controller::{Controller, ControllerOptions};
/// # use iolane_nvme::model::{Model, ModelConfig};
/// # let port = Model::new(ModelConfig::default()).port();
/// let controller = Controller::start(port, ControllerOptions::default())?;
/// let second = Controller::start(port, ControllerOptions::default())?;
/// # Ok::<(), iolane_core::Error>(())
/// ```
///
/// ```no_run
/// # use iolane_nvme::model::{Model, ModelConfig};
/// # use iolane_nvme::registers::DOORBELLS;
/// # use iolane_nvme::transport::Transport;
/// # let port = Model::new(ModelConfig::default()).port();
/// unsafe { port.registers() }.write(DOORBELLS, 1);
/// ```
///
/// ```compile_fail,E0133
/// # use iolane_nvme::model::{Model, ModelConfig};
/// # use iolane_nvme::registers::DOORBELLS;
/// # use iolane_nvme::transport::Transport;
/// # let port = Model::new(ModelConfig::default()).port();
/// port.registers().write(DOORBELLS, 1);
/// ```
///
/// # Safety
/// The registers stay mapped until the value is dropped. The controller accesses no memory but that of [`map`](Self::map), at the
/// address returned, until [`unmap`](Self::unmap) or the drop. While the value exists, nothing else gives access to the controller.
pub unsafe trait Transport: Send + Sync {
    /// The controller's name in messages, such as `pci:0000:00:04.0`.
    fn name(&self) -> &str;

    /// Its registers.
    ///
    /// # Safety
    /// They are used only until the transport is dropped. A write to one may have the controller carry out commands: whoever writes
    /// answers for the memory that these name.
    unsafe fn registers(&self) -> Registers;

    /// Maps `memory .. memory + bytes`, whole pages, for the controller to read and write, and returns the controller's address of
    /// it: contiguous, and a multiple of 4096.
    ///
    /// # Errors
    /// `Exhausted` if locked memory or addresses run out.
    ///
    /// # Safety
    /// The memory stays mapped in this process until [`unmap`](Self::unmap) has returned or the transport is dropped. While
    /// commands name it, nothing else reads or writes the parts that the controller may write.
    unsafe fn map(&self, memory: NonNull<u8>, bytes: usize) -> Result<u64>;

    /// Unmaps the memory at this address: afterwards the controller cannot access it.
    ///
    /// # Errors
    /// `Failed` if there is no such mapping.
    ///
    /// # Safety
    /// No command in flight names the memory: the address may be given to other memory.
    unsafe fn unmap(&self, address: u64, bytes: usize) -> Result<()>;

    /// The controller's first interrupt vectors, `most` at most, each as a descriptor that counts its interrupts
    /// (eventfd(2), non-blocking). Called once.
    ///
    /// # Errors
    /// `Unavailable` if it has none.
    fn interrupts(&self, most: u32) -> Result<Vec<OwnedFd>>;

    /// Whether the controller is about to be removed, or its driver is asked to release it.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Waits a moment between two polls; the argument counts the polls so far without a result.
    fn relax(&self, looks: u32) {
        let _ = looks;
        std::hint::spin_loop();
    }

    /// The time for timeouts, since an arbitrary start.
    fn now(&self) -> Duration {
        rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).try_into().unwrap_or_default()
    }

    /// Enables or disables the controller's access to memory and its interrupts (bus mastering), in any state of the controller.
    ///
    /// # Errors
    /// `Failed` if the controller is gone.
    ///
    /// # Safety
    /// When it is enabled, the controller has no command that names memory which has gone back to its owner.
    unsafe fn set_bus_master(&self, on: bool) -> Result<()>;
}

/// The time that a controller is given to do something. Between two looks no more than a part of it counts: a machine that stood still
/// meanwhile, such as a paused guest, gave the controller no time either.
pub(crate) struct Patience {
    most: Duration,
    waited: Duration,
    last: Duration,
}

/// The looks, at least, before a controller is given up.
const LOOKS_MIN: u32 = 5;

impl Patience {
    pub(crate) fn new(transport: &dyn Transport, most: Duration) -> Self {
        Self { most, waited: Duration::ZERO, last: transport.now() }
    }

    /// Whether it is over, to be asked after each look.
    pub(crate) fn is_over(&mut self, transport: &dyn Transport) -> bool {
        let now = transport.now();
        self.waited += now.saturating_sub(self.last).min(self.most / (LOOKS_MIN - 1));
        self.last = now;
        self.waited > self.most
    }
}
