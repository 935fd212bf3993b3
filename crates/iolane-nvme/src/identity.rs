//! The Identify data of a controller and its namespaces (NVMe Base Specification 2.0, section 5.17, figure 275; NVM Command Set
//! Specification 1.0, figure 97), parsed once by `controller`. The data may be wrong, so nothing here trusts it.

use iolane_core::{Error, Result};

/// Bytes of an identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// The largest offset that files have (off_t).
const BYTES_MAX: u64 = i64::MAX as u64;

/// The Identify data of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerIdentity {
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// Largest transfer of one command in bytes (MDTS), where there is a limit.
    pub transfer_bytes_max: Option<u64>,
    /// It supports SGLs, with any alignment or dword alignment.
    pub scatter_gather_lists: bool,
    /// It supports the Doorbell Buffer Config command.
    pub doorbell_buffers: bool,
    /// It supports Dataset Management.
    pub dataset_management: bool,
    /// It supports Write Zeroes.
    pub write_zeroes: bool,
    /// It has a volatile write cache.
    pub volatile_write_cache: bool,
}

impl ControllerIdentity {
    /// Parses the data structure; `page_bytes_min` is CAP.MPSMIN, the unit of MDTS.
    pub fn parse(data: &[u8; IDENTIFY_BYTES], page_bytes_min: u64) -> Self {
        let text = |range: std::ops::Range<usize>| {
            let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' };
            data[range].iter().map(shown).collect::<String>().trim().to_owned()
        };
        let (oacs, oncs) = (u16_at(data, 256), u16_at(data, 520));
        Self {
            serial: text(4..24),
            model: text(24..64),
            firmware: text(64..72),
            transfer_bytes_max: match data[77] {
                0 => None,
                // A limit above any request is none.
                shift => page_bytes_min.checked_shl(u32::from(shift)).filter(|bytes| *bytes >= page_bytes_min),
            },
            scatter_gather_lists: matches!(u32_at(data, 536) & 3, 1 | 2),
            doorbell_buffers: oacs >> 8 & 1 == 1,
            dataset_management: oncs >> 2 & 1 == 1,
            write_zeroes: oncs >> 3 & 1 == 1,
            volatile_write_cache: data[525] & 1 == 1,
        }
    }
}

/// A namespace that can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier, 1 or more.
    pub identifier: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of a logical block: 512 or 4096, or another power of two up to 64 KiB.
    pub block_bytes: u32,
}

impl Namespace {
    /// Parses the data structure.
    ///
    /// # Errors
    /// `Unavailable` if it is not active, or has a format that this driver does not support: metadata, protection information, or
    /// an invalid block size.
    pub fn parse(data: &[u8; IDENTIFY_BYTES], identifier: u32, controller: &str) -> Result<Self> {
        let refuse = |cause: String, remedy: &str| {
            Err(Error::unavailable(format!("namespace {identifier} of {controller}"), cause).remedy(remedy))
        };
        let blocks = u64::from_le_bytes(data[0..8].try_into().expect("eight bytes"));
        if blocks == 0 {
            return refuse("the controller has no such active namespace".into(), "name one it has: ns=1");
        }
        let flbas = data[26];
        let format = usize::from(flbas & 0xf | flbas >> 1 & 0x30);
        let format_data = u32_at(data, 128 + 4 * format);
        let (metadata_bytes, shift) = (format_data & 0xffff, format_data >> 16 & 0xff);
        if metadata_bytes != 0 {
            return refuse(
                format!("its format has {metadata_bytes} bytes of metadata with each block, which is not supported"),
                "choose a format without (nvme format --lbaf), which erases it, or use a path through the kernel",
            );
        }
        if data[29] & 7 != 0 {
            return refuse(
                "it is formatted with protection information, which is not supported".into(),
                "choose a format without (nvme format --pi=0), which erases it, or use a path through the kernel",
            );
        }
        let block_bytes = if (9..=16).contains(&shift) { 1u32 << shift } else { 0 };
        match blocks.checked_mul(block_bytes.into()) {
            Some(bytes @ 1..=BYTES_MAX) => Ok(Self { identifier, bytes, block_bytes }),
            _ => refuse(
                format!("it reports {blocks} blocks of 2^{shift} bytes, which is invalid"),
                "check the drive and its firmware",
            ),
        }
    }
}

fn u16_at(data: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([data[offset], data[offset + 1]])
}

fn u32_at(data: &[u8], offset: usize) -> u32 {
    u32::from(u16_at(data, offset)) | u32::from(u16_at(data, offset + 2)) << 16
}
