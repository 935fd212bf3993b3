//! A real controller over VFIO: its registers are mapped, the IOMMU limits its access to memory, its interrupts are event
//! descriptors (linux/vfio.h, Documentation/driver-api/vfio.rst). The only file that uses /dev/vfio.
//!
//! When the last descriptor is closed, also by a kill of the process, the kernel resets the device and removes all mappings: no
//! memory is written afterwards.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use iolane_core::units::Bytes;
use iolane_core::{Error, ErrorKind, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use vfio_bindings::bindings::vfio;

use crate::iova::IovaAllocator;
use crate::memlock;
use crate::registers::Registers;
use crate::transport::Transport;

/// `_IO(';', 100 + number)`, the form of all VFIO requests.
const fn request(number: u64) -> libc::Ioctl {
    (0x3b << 8 | (100 + number)) as libc::Ioctl
}

const GET_API_VERSION: libc::Ioctl = request(0);
const CHECK_EXTENSION: libc::Ioctl = request(1);
const SET_IOMMU: libc::Ioctl = request(2);
const GROUP_GET_STATUS: libc::Ioctl = request(3);
const GROUP_SET_CONTAINER: libc::Ioctl = request(4);
const GROUP_GET_DEVICE_FD: libc::Ioctl = request(6);
const DEVICE_GET_REGION_INFO: libc::Ioctl = request(8);
const DEVICE_GET_IRQ_INFO: libc::Ioctl = request(9);
const DEVICE_SET_IRQS: libc::Ioctl = request(10);
const IOMMU_MAP_DMA: libc::Ioctl = request(13);
const IOMMU_UNMAP_DMA: libc::Ioctl = request(14);
/// The second version of the type 1 IOMMU (linux/vfio.h, VFIO_TYPE1v2_IOMMU).
const TYPE1V2: libc::c_ulong = 3;
/// PCI command register: offset in configuration space, and the bits for memory access and bus mastering.
const COMMAND: u64 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;

/// A PCI device opened through its IOMMU group.
pub struct VfioDevice {
    name: String,
    registers: Registers,
    _register_memory: Mapping,
    addresses: Mutex<IovaAllocator>,
    device: File,
    config_offset: u64,
    looks_per_pause: u32,
    /// Counts the kernel's requests to release the device, which repeat until it is released.
    wanted_back: OwnedFd,
    /// Closed after the device: the container holds the group as long as the group is open.
    _group: File,
    container: File,
}

/// A mapping of the device's memory.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a pointer and a length, given out only as `Registers`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping of this size; users of its `Registers` hold the device.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl VfioDevice {
    /// Opens the device at a PCI address, such as `0000:00:04.0`, which is bound to vfio-pci.
    ///
    /// # Errors
    /// `Unavailable` if it has no IOMMU group, is not bound to vfio-pci, is used by another process, shares its group with
    /// a device that is in use, may not be opened by this user, or the IOMMU cannot be used.
    pub fn open(bdf: &str) -> Result<Self> {
        let name = format!("pci:{bdf}");
        let device_folder = Path::new("/sys/bus/pci/devices").join(bdf);
        let group = group_of(&device_folder, bdf, &name)?;
        let container = open_container(&name)?;
        let group = open_group(&group, &name)?;
        attach(&container, &group, &name)?;
        let device = open_device(&group, bdf, &name)?;
        let registers = region(&device, vfio::VFIO_PCI_BAR0_REGION_INDEX, &name)?;
        let config = region(&device, vfio::VFIO_PCI_CONFIG_REGION_INDEX, &name)?;
        if registers.flags & vfio::VFIO_REGION_INFO_FLAG_MMAP == 0 {
            return Err(Error::unavailable(name, "its registers (BAR 0) cannot be mapped").remedy("check the drive"));
        }
        let register_memory = map_registers(&device, &registers, &name)?;
        let wanted_back = event_descriptor(&name)?;
        // A kernel before 4.0 removes the device without a request.
        let _ = set_interrupts(&device, vfio::VFIO_PCI_REQ_IRQ_INDEX, std::slice::from_ref(&wanted_back));
        Ok(Self {
            // SAFETY: the mapping is whole pages of the device's memory and lives as long as `self`, which all users of the
            // registers hold; nothing else in the process uses it.
            registers: unsafe { Registers::new(register_memory.base, register_memory.bytes) },
            _register_memory: register_memory,
            addresses: Mutex::new(IovaAllocator::default()),
            config_offset: config.offset,
            looks_per_pause: if has_one_processor() { 1 } else { 1 << 14 },
            device,
            wanted_back,
            _group: group,
            container,
            name,
        })
    }

    fn failed(&self, what: &str) -> Error {
        Error::system(format!("{}: {what}", self.name), io::Error::last_os_error())
    }
}

fn group_of(device_folder: &Path, bdf: &str, name: &str) -> Result<PathBuf> {
    if !device_folder.exists() {
        return Err(
            Error::unavailable(name, "there is no such PCI device").remedy("iolane nvme list shows the controllers")
        );
    }
    let driver = std::fs::read_link(device_folder.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|driver| driver.to_string_lossy().into_owned());
    match driver.as_deref() {
        Some("vfio-pci") => {}
        Some(driver) => {
            let cause = format!("the kernel's driver {driver} has it");
            return Err(Error::unavailable(name, cause).remedy(format!("take it with: iolane nvme bind {bdf}")));
        }
        None => {
            return Err(
                Error::unavailable(name, "no driver has it").remedy(format!("take it with: iolane nvme bind {bdf}"))
            );
        }
    }
    let group = std::fs::read_link(device_folder.join("iommu_group")).ok();
    let Some(group) = group.as_deref().and_then(Path::file_name) else {
        return Err(Error::unavailable(name, "it has no IOMMU group: the machine's IOMMU is off or missing")
            .remedy("enable VT-d or AMD-Vi in the firmware, and boot with intel_iommu=on or amd_iommu=on"));
    };
    Ok(Path::new("/dev/vfio").join(group))
}

fn open_container(name: &str) -> Result<File> {
    let path = "/dev/vfio/vfio";
    let container = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        let what = format!("{name}: opening {path}");
        match error.kind() {
            io::ErrorKind::NotFound => Error::unavailable(what, "the kernel has no VFIO").remedy("modprobe vfio-pci"),
            _ => Error::system(what, error),
        }
    })?;
    // SAFETY: both requests take only numbers.
    let (version, type1) = unsafe {
        (
            libc::ioctl(container.as_raw_fd(), GET_API_VERSION),
            libc::ioctl(container.as_raw_fd(), CHECK_EXTENSION, TYPE1V2),
        )
    };
    if version != vfio::VFIO_API_VERSION as i32 || type1 <= 0 {
        return Err(Error::unavailable(format!("{name}: {path}"), "the kernel's VFIO has no type 1 IOMMU")
            .remedy("modprobe vfio_iommu_type1"));
    }
    Ok(container)
}

fn open_group(path: &Path, name: &str) -> Result<File> {
    let what = || format!("{name}: opening its IOMMU group {}", path.display());
    OpenOptions::new().read(true).write(true).open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => Error::unavailable(what(), "another process uses it").remedy("end that process"),
        Some(libc::EACCES | libc::EPERM) => Error::unavailable(what(), "permission denied")
            .remedy("bind it for this user, as root: iolane nvme bind --user NAME BDF"),
        _ => Error::system(what(), error),
    })
}

/// Joins group and container, which sets the IOMMU up.
fn attach(container: &File, group: &File, name: &str) -> Result<()> {
    let mut status = vfio::vfio_group_status { argsz: size_of::<vfio::vfio_group_status>() as u32, flags: 0 };
    // SAFETY: the request fills the structure, whose size it is given.
    let asked = unsafe { libc::ioctl(group.as_raw_fd(), GROUP_GET_STATUS, &raw mut status) };
    if asked != 0 || status.flags & vfio::VFIO_GROUP_FLAGS_VIABLE == 0 {
        return Err(Error::unavailable(name, "its IOMMU group has other devices that the kernel's drivers hold")
            .remedy(
                "bind all of them to vfio-pci, or move the drive to another slot; iolane nvme list shows the groups",
            ));
    }
    let container_fd = container.as_raw_fd();
    // SAFETY: the request reads the descriptor's number from the pointer.
    if unsafe { libc::ioctl(group.as_raw_fd(), GROUP_SET_CONTAINER, &raw const container_fd) } != 0 {
        return Err(Error::system(format!("{name}: joining its IOMMU group"), io::Error::last_os_error()));
    }
    // SAFETY: the request takes a number.
    if unsafe { libc::ioctl(container_fd, SET_IOMMU, TYPE1V2) } != 0 {
        let error = io::Error::last_os_error();
        let what = format!("{name}: setting up the IOMMU");
        return Err(match error.raw_os_error() {
            // Without interrupt remapping a device could forge interrupts (drivers/vfio/vfio_iommu_type1.c).
            Some(libc::EPERM) => Error::unavailable(what, "the IOMMU does not remap interrupts")
                .remedy("switch interrupt remapping on (x2APIC in the firmware; intremap=on for QEMU's intel-iommu)"),
            _ => Error::system(what, error),
        });
    }
    Ok(())
}

fn open_device(group: &File, bdf: &str, name: &str) -> Result<File> {
    let text = std::ffi::CString::new(bdf).map_err(|_| Error::usage(name, "a PCI address has no zero byte"))?;
    // SAFETY: the request reads the text, which ends with a zero.
    let fd = unsafe { libc::ioctl(group.as_raw_fd(), GROUP_GET_DEVICE_FD, text.as_ptr()) };
    if fd < 0 {
        return Err(Error::system(format!("{name}: opening the device"), io::Error::last_os_error()));
    }
    // SAFETY: the kernel gave a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn region(device: &File, index: u32, name: &str) -> Result<vfio::vfio_region_info> {
    let argsz = size_of::<vfio::vfio_region_info>() as u32;
    let mut info = vfio::vfio_region_info { argsz, flags: 0, index, cap_offset: 0, size: 0, offset: 0 };
    // SAFETY: the request fills the structure, whose size it is given.
    match unsafe { libc::ioctl(device.as_raw_fd(), DEVICE_GET_REGION_INFO, &raw mut info) } {
        0 => Ok(info),
        _ => Err(Error::system(format!("{name}: asking for region {index}"), io::Error::last_os_error())),
    }
}

fn map_registers(device: &File, region: &vfio::vfio_region_info, name: &str) -> Result<Mapping> {
    let bytes = region.size as usize;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, device, region.offset) }
        .map_err(|errno| Error::system(format!("{name}: mapping its registers"), errno))?;
    let base =
        NonNull::new(base.cast()).ok_or_else(|| Error::failed(name, "its registers were mapped at address 0"))?;
    Ok(Mapping { base, bytes })
}

/// Whether the machine has one processor online, whatever part of it this thread may use.
fn has_one_processor() -> bool {
    // SAFETY: sysconf(3) with this name reads nothing and returns a number.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) == 1 }
}

fn event_descriptor(name: &str) -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|errno| Error::system(format!("{name}: an event descriptor"), errno))
}

/// Lets these descriptors count the interrupts of an index, from the first one on.
fn set_interrupts(device: &File, index: u32, fds: &[OwnedFd]) -> io::Result<()> {
    // struct vfio_irq_set, followed by the descriptors.
    let argsz = (size_of::<vfio::vfio_irq_set>() + 4 * fds.len()) as u32;
    let flags = vfio::VFIO_IRQ_SET_DATA_EVENTFD | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
    let mut words = vec![argsz, flags, index, 0, fds.len() as u32];
    words.extend(fds.iter().map(|fd| fd.as_raw_fd() as u32));
    // SAFETY: the request reads the number of bytes in the first word, all of which exist.
    match unsafe { libc::ioctl(device.as_raw_fd(), DEVICE_SET_IRQS, words.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

// SAFETY: the mapping of the registers lives in the device, the IOMMU limits the controller to what was mapped, and the kernel lets
// one process at a time open the group.
unsafe impl Transport for VfioDevice {
    fn name(&self) -> &str {
        &self.name
    }

    unsafe fn registers(&self) -> Registers {
        self.registers
    }

    unsafe fn map(&self, memory: NonNull<u8>, bytes: usize) -> Result<u64> {
        memlock::ensure_room(&self.name, bytes)?;
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(address) = addresses.take(bytes as u64) else {
            return Err(Error::unavailable(
                &self.name,
                format!("no room for {} in its address space", Bytes(bytes as u64)),
            )
            .with_kind(ErrorKind::Exhausted));
        };
        let map = vfio::vfio_iommu_type1_dma_map {
            argsz: size_of::<vfio::vfio_iommu_type1_dma_map>() as u32,
            flags: vfio::VFIO_DMA_MAP_FLAG_READ | vfio::VFIO_DMA_MAP_FLAG_WRITE,
            vaddr: memory.as_ptr().expose_provenance() as u64,
            iova: address,
            size: bytes as u64,
        };
        // SAFETY: the request reads the structure; the caller promised that the memory stays mapped.
        if unsafe { libc::ioctl(self.container.as_raw_fd(), IOMMU_MAP_DMA, &raw const map) } == 0 {
            return Ok(address);
        }
        let error = self.failed(&format!("letting it reach {}", Bytes(bytes as u64)));
        addresses.give_back(address, bytes as u64);
        Err(error)
    }

    unsafe fn unmap(&self, address: u64, bytes: usize) -> Result<()> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unmap = vfio::vfio_iommu_type1_dma_unmap {
            argsz: size_of::<vfio::vfio_iommu_type1_dma_unmap>() as u32,
            flags: 0,
            iova: address,
            size: bytes as u64,
            data: Default::default(),
        };
        // SAFETY: the request reads the structure and writes the size that it unmapped.
        let unmapped = unsafe { libc::ioctl(self.container.as_raw_fd(), IOMMU_UNMAP_DMA, &raw mut unmap) };
        if unmapped != 0 || unmap.size != bytes as u64 {
            return Err(self.failed("taking memory back from it"));
        }
        addresses.give_back(address, bytes as u64);
        Ok(())
    }

    fn interrupts(&self, most: u32) -> Result<Vec<OwnedFd>> {
        let index = vfio::VFIO_PCI_MSIX_IRQ_INDEX;
        let argsz = size_of::<vfio::vfio_irq_info>() as u32;
        let mut info = vfio::vfio_irq_info { argsz, flags: 0, index, count: 0 };
        // SAFETY: the request fills the structure, whose size it is given.
        let asked = unsafe { libc::ioctl(self.device.as_raw_fd(), DEVICE_GET_IRQ_INFO, &raw mut info) };
        if asked != 0 || info.count == 0 {
            return Err(
                Error::unavailable(&self.name, "it has no MSI-X interrupts").remedy("use path nvme, which polls")
            );
        }
        let count = info.count.min(most);
        let fds: Vec<OwnedFd> = (0..count).map(|_| event_descriptor(&self.name)).collect::<Result<_>>()?;
        set_interrupts(&self.device, index, &fds).map_err(|_| self.failed("setting up interrupts"))?;
        Ok(fds)
    }

    /// Executes the pause instruction now and then. In a virtual machine it may cause an exit, so every poll would be too often,
    /// except where the device needs the machine's only processor.
    fn relax(&self, looks: u32) {
        if looks.is_multiple_of(self.looks_per_pause) {
            std::hint::spin_loop();
        }
    }

    fn is_leaving(&self) -> bool {
        poll(&mut [PollFd::new(&self.wanted_back, PollFlags::IN)], Some(&Timespec::default()))
            .is_ok_and(|ready| ready > 0)
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<()> {
        let at = self.config_offset + COMMAND;
        let failed = |error| Error::system(format!("{}: its PCI command register", self.name), error);
        let mut command = [0; 2];
        self.device.read_exact_at(&mut command, at).map_err(failed)?;
        let command = u16::from_le_bytes(command) | COMMAND_MEMORY;
        let command = if on { command | COMMAND_BUS_MASTER } else { command & !COMMAND_BUS_MASTER };
        self.device.write_all_at(&command.to_le_bytes(), at).map_err(failed)
    }
}
