//! The Identify data of a controller (NVMe Base Specification 2.0, section 5.17, figure 275), parsed once by `controller`; that of
//! a namespace is parsed in `iolane-core`, for passthrough too. The data may be wrong, so nothing here trusts it.

pub use iolane_core::nvme::{IDENTIFY_BYTES, Namespace};
use iolane_core::nvme::{atomic_write_blocks, u16_at, u32_at};

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
    /// The most blocks of an atomic write on any of its namespaces ([`atomic_write_blocks`]).
    pub atomic_write_blocks: u32,
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
            atomic_write_blocks: atomic_write_blocks(data),
        }
    }
}
