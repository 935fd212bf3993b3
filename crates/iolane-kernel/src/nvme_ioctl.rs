//! The ioctls of an NVMe character device `/dev/ngXnY` (linux/nvme_ioctl.h), and the command that they and io_uring carry. Called by
//! `io_uring_cmd` when it opens a target; reads and writes are its own.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use iolane_core::nvme::{self, IDENTIFY, IDENTIFY_BYTES, Namespace};
use iolane_core::{Error, Pages, Pool, Result};

/// `NVME_IOCTL_ID`: `_IO('N', 0x40)`, which answers with the namespace identifier.
const NVME_IOCTL_ID: libc::Ioctl = 0x4e40;
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_admin_cmd)`, 72 bytes. It answers with the status of the command.
const NVME_IOCTL_ADMIN_CMD: libc::Ioctl = 0xc048_4e41_u32 as libc::Ioctl;

/// The 72 bytes of `struct nvme_passthru_cmd`, and of `struct nvme_uring_cmd`, which differ only in the last eight: time-out and
/// result there, nothing here. An entry of io_uring has room for 80.
#[derive(Default)]
pub(crate) struct NvmeCommand {
    pub(crate) opcode: u8,
    pub(crate) namespace: u32,
    pub(crate) address: u64,
    pub(crate) data_bytes: u32,
    /// Command dwords 10 to 15.
    pub(crate) dwords: [u32; 6],
}

impl NvmeCommand {
    pub(crate) fn to_bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[0] = self.opcode;
        bytes[4..8].copy_from_slice(&self.namespace.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.address.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.data_bytes.to_le_bytes());
        for (dword, place) in self.dwords.iter().zip(bytes[40..64].chunks_exact_mut(4)) {
            place.copy_from_slice(&dword.to_le_bytes());
        }
        bytes
    }
}

/// The namespace of a character device, whose commands move only the blocks of `block_bytes` that they name; `what` is the start of
/// a message.
///
/// The kernel passes a command on as it is. In a format with metadata or protection information a read without a metadata pointer
/// has the controller write metadata to address 0, or past the end of the buffer (CVE-2023-6238), so such formats are refused. The
/// format is read once: one that changes while the namespace is open is not noticed.
///
/// # Errors
/// As [`Namespace::parse`]; `Unavailable` if the controller does not identify the namespace, or with other blocks than the kernel.
pub(crate) fn namespace(fd: BorrowedFd<'_>, block_bytes: u32, what: &str) -> Result<Namespace> {
    // SAFETY: NVME_IOCTL_ID takes no argument and returns a number.
    let identifier = unsafe { libc::ioctl(fd.as_raw_fd(), NVME_IOCTL_ID) };
    if identifier <= 0 {
        return Err(Error::system(format!("{what}: NVME_IOCTL_ID"), io::Error::last_os_error()));
    }
    let (data, status) = identify(fd, nvme::identify::NAMESPACE, identifier as u32);
    require_identified(status, what)?;
    let namespace = Namespace::parse(&data, identifier as u32, what)?;
    require_blocks(&namespace, block_bytes, what)?;
    Ok(namespace)
}

/// The most blocks of an atomic write on any namespace of the controller ([`nvme::atomic_write_blocks`]); `None` if it is not
/// identified.
pub(crate) fn atomic_write_blocks(fd: BorrowedFd<'_>) -> Option<u32> {
    let (data, status) = identify(fd, nvme::identify::CONTROLLER, 0);
    status.is_ok_and(|status| status == 0).then(|| nvme::atomic_write_blocks(&data))
}

/// A structure of Identify data, and the status of the command. Passthrough needs the same rights for it as for reads:
/// CAP_SYS_ADMIN before Linux 6.2, none beyond those of the file since (drivers/nvme/host/ioctl.c, nvme_cmd_allowed).
fn identify(fd: BorrowedFd<'_>, structure: u32, namespace: u32) -> (Box<[u8; IDENTIFY_BYTES]>, io::Result<u16>) {
    let mut data = Box::new([0; IDENTIFY_BYTES]);
    let status = identify_into(&mut data, fd, structure, namespace);
    (data, status)
}

/// The controller writes to a pool's memory, not to the caller's: a fork(2) of another thread meanwhile could leave the data to the child
/// alone ([`Pool::new`]).
fn identify_into(
    data: &mut [u8; IDENTIFY_BYTES],
    fd: BorrowedFd<'_>,
    structure: u32,
    namespace: u32,
) -> io::Result<u16> {
    let mut buffer = Pool::new(1, IDENTIFY_BYTES, Pages::Base)?.take().ok_or(io::ErrorKind::OutOfMemory)?;
    let address = buffer.as_mut_ptr().expose_provenance() as u64;
    let data_bytes = IDENTIFY_BYTES as u32;
    let dwords = [structure, 0, 0, 0, 0, 0];
    let command = NvmeCommand { opcode: IDENTIFY, namespace, address, data_bytes, dwords };
    let mut bytes = command.to_bytes();
    // SAFETY: the request reads 72 of the 80 bytes and writes the result there; the command fills the buffer, which is as long as it
    // says, before the call returns.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), NVME_IOCTL_ADMIN_CMD, bytes.as_mut_ptr()) };
    data.copy_from_slice(&buffer);
    u16::try_from(status).map_err(|_| io::Error::last_os_error())
}

/// Refuses a namespace that was not identified: its format is unknown, and may have metadata.
fn require_identified(status: io::Result<u16>, what: &str) -> Result<()> {
    let (cause, remedy) = match status {
        Ok(0) => return Ok(()),
        Ok(status) => (format!("Identify failed with status {status:#05x}"), "check the drive"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            ("Identify needs CAP_SYS_ADMIN before Linux 6.2".into(), "run as root")
        }
        Err(error) => (format!("Identify failed: {}", iolane_core::error::describe(&error)), "check the drive"),
    };
    let cause = format!("its format is unknown, and passthrough has to know it: {cause}");
    Err(Error::unavailable(what, cause).remedy(format!("{remedy}, or use its block device")))
}

/// Refuses a namespace whose blocks are not those in which offsets and lengths are counted.
fn require_blocks(namespace: &Namespace, block_bytes: u32, what: &str) -> Result<()> {
    if namespace.block_bytes == block_bytes {
        return Ok(());
    }
    let cause = format!("its blocks have {} bytes, and the kernel says {block_bytes}", namespace.block_bytes);
    Err(Error::unavailable(what, cause).remedy("have the kernel look again (nvme ns-rescan /dev/nvmeX)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_read_of_eight_blocks_fills_the_fields_of_the_specification() {
        let command = NvmeCommand {
            opcode: 2,
            namespace: 1,
            address: 0x1122_3344_5566_7788,
            data_bytes: 4096,
            dwords: [5, 6, 7, 0, 0, 0],
        };
        let bytes = command.to_bytes();
        assert_eq!((bytes[0], bytes[4]), (2, 1));
        assert_eq!(bytes[24..32], 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(bytes[36..40], 4096u32.to_le_bytes());
        assert_eq!((bytes[40], bytes[44], bytes[48]), (5, 6, 7));
    }

    #[test]
    fn a_namespace_that_is_not_identified_is_refused_with_the_reason() {
        assert!(require_identified(Ok(0), "x").is_ok());
        let failed = |errno| Err(io::Error::from_raw_os_error(errno));
        for (status, says) in [
            (Ok(0x00b), "Identify failed with status 0x00b; check the drive, or use its block device"),
            (
                failed(libc::EACCES),
                "Identify needs CAP_SYS_ADMIN before Linux 6.2; run as root, or use its block device",
            ),
            (failed(libc::ENODEV), "Identify failed: no such device; check the drive, or use its block device"),
        ] {
            let text = require_identified(status, "x").unwrap_err().to_string();
            assert_eq!(text, format!("x: its format is unknown, and passthrough has to know it: {says}"));
        }
    }

    #[test]
    fn blocks_other_than_those_of_the_kernel_are_refused() {
        let atomic = nvme::AtomicBlocks::default();
        let namespace = Namespace { identifier: 1, bytes: 1 << 20, block_bytes: 4096, atomic };
        assert!(require_blocks(&namespace, 4096, "x").is_ok());
        let text = require_blocks(&namespace, 512, "x").unwrap_err().to_string();
        assert!(text.starts_with("x: its blocks have 4096 bytes, and the kernel says 512; "), "{text}");
    }

    #[test]
    fn a_device_without_namespaces_is_no_target() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let text = namespace(null.as_fd(), 512, "x").unwrap_err().to_string();
        assert!(text.starts_with("x: NVME_IOCTL_ID"), "{text}");
        assert!(identify(null.as_fd(), nvme::identify::NAMESPACE, 1).1.is_err());
    }
}
