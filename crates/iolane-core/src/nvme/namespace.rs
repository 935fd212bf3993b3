//! The Identify data of a namespace (NVM Command Set Specification 1.0, figure 97): which formats the paths that send NVMe commands
//! themselves support. The data may be wrong, so nothing here trusts it. Called by passthrough and by the user-space driver.

use super::fields::{u16_at, u32_at};
use crate::atomic_writes::AtomicWrites;
use crate::error::{Error, Result};

/// Bytes of an identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// The largest offset that files have (off_t).
const BYTES_MAX: u64 = i64::MAX as u64;

/// A namespace that can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier, 1 or more.
    pub identifier: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of a logical block: 512 or 4096, or another power of two up to 64 KiB.
    pub block_bytes: u32,
    /// What it tells of atomic writes by itself.
    pub atomic: AtomicBlocks,
}

/// What a namespace tells of writes that a power cut leaves whole or undone, in blocks (NVM Command Set Specification 1.0, section
/// 2.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtomicBlocks {
    /// The most blocks (NAWUPF), where it has a number of its own.
    pub most: Option<u32>,
    /// The boundaries that such a write does not cross: every N blocks (NABSPF), where there are any.
    pub boundary: Option<u32>,
    /// The first boundary (NABO).
    pub first_boundary: u16,
}

impl AtomicBlocks {
    fn parse(data: &[u8; IDENTIFY_BYTES]) -> Self {
        // NSFEAT bit 1: the namespace has fields of its own. Those of 0 are one less than the number, or there is none.
        let own = |offset: usize| match u16_at(data, offset) {
            blocks @ 1.. if data[24] >> 1 & 1 == 1 => Some(u32::from(blocks) + 1),
            _ => None,
        };
        Self { most: own(36), boundary: own(44), first_boundary: u16_at(data, 42) }
    }
}

impl Namespace {
    /// Parses the data structure.
    ///
    /// # Errors
    /// `Unavailable` if it is not active, or has a format that no path here supports: metadata, in the blocks or beside them,
    /// protection information, or an invalid block size.
    pub fn parse(data: &[u8; IDENTIFY_BYTES], identifier: u32, device: &str) -> Result<Self> {
        let refuse = |cause: String, remedy: &str| {
            Err(Error::unavailable(format!("namespace {identifier} of {device}"), cause).remedy(remedy))
        };
        let blocks = u64::from_le_bytes(data[0..8].try_into().expect("eight bytes"));
        if blocks == 0 {
            return refuse("the controller has no such active namespace".into(), "name one it has: ns=1");
        }
        // FLBAS: bit 4 is set for extended LBAs, bits 6:5 are the upper bits of the format's index.
        let flbas = data[26];
        let format = usize::from(flbas & 0xf | flbas >> 1 & 0x30);
        let format_data = u32_at(data, 128 + 4 * format);
        let (metadata_bytes, shift) = (format_data & 0xffff, format_data >> 16 & 0xff);
        if metadata_bytes != 0 {
            let place = if flbas >> 4 & 1 == 1 { "in" } else { "with" };
            return refuse(
                format!("its format has {metadata_bytes} bytes of metadata {place} each block, which is not supported"),
                "choose a format without (nvme format --lbaf), which erases it, or use its block device",
            );
        }
        // DPS: the type of protection information.
        if data[29] & 7 != 0 {
            return refuse(
                "it is formatted with protection information, which is not supported".into(),
                "choose a format without (nvme format --pi=0), which erases it, or use its block device",
            );
        }
        let block_bytes = if (9..=16).contains(&shift) { 1u32 << shift } else { 0 };
        match blocks.checked_mul(block_bytes.into()) {
            Some(bytes @ 1..=BYTES_MAX) => {
                Ok(Self { identifier, bytes, block_bytes, atomic: AtomicBlocks::parse(data) })
            }
            _ => refuse(
                format!("it reports {blocks} blocks of 2^{shift} bytes, which is invalid"),
                "check the drive and its firmware",
            ),
        }
    }

    /// The writes that a power cut leaves whole or undone: those of one command that are powers of two at multiples of themselves, where
    /// the controller has `controller_blocks` ([`atomic_write_blocks`](super::atomic_write_blocks)) and a command moves
    /// `command_bytes_max`. `None` where boundaries do not begin at the first block, as the kernel takes it too (drivers/nvme/host/core.c).
    pub fn atomic_writes(&self, controller_blocks: u32, command_bytes_max: u64) -> Option<AtomicWrites> {
        let block_bytes = u64::from(self.block_bytes);
        let blocks = u64::from(self.atomic.most.unwrap_or(controller_blocks)).min(command_bytes_max / block_bytes);
        // A power of two that divides the distance of boundaries crosses none.
        let dividing = self.atomic.boundary.map_or(u64::MAX, |boundary| 1 << boundary.trailing_zeros());
        let longest = (1 << blocks.checked_ilog2()?).min(dividing);
        let writes = AtomicWrites { bytes_min: block_bytes, bytes_max: longest * block_bytes };
        (self.atomic.first_boundary == 0).then_some(writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2048 blocks of 512 bytes, in a format at this index with these bytes of metadata.
    fn identify(index: u8, metadata_bytes: u16) -> [u8; IDENTIFY_BYTES] {
        let mut data = [0; IDENTIFY_BYTES];
        data[..8].copy_from_slice(&2048u64.to_le_bytes());
        data[26] = index & 0xf | (index & 0x30) << 1;
        let format = 128 + 4 * usize::from(index);
        data[format..format + 2].copy_from_slice(&metadata_bytes.to_le_bytes());
        data[format + 2] = 9;
        data
    }

    fn refused(data: &[u8; IDENTIFY_BYTES]) -> String {
        Namespace::parse(data, 1, "/dev/ng0n1").unwrap_err().to_string()
    }

    #[test]
    fn the_format_in_use_is_the_one_that_counts() {
        for index in [0, 1, 15, 16, 63] {
            let namespace = Namespace::parse(&identify(index, 0), 1, "/dev/ng0n1").unwrap();
            let atomic = AtomicBlocks::default();
            assert_eq!(namespace, Namespace { identifier: 1, bytes: 1 << 20, block_bytes: 512, atomic });
            assert!(refused(&identify(index, 8)).contains("8 bytes of metadata with each block"));
        }
    }

    #[test]
    fn metadata_extended_blocks_and_protection_information_are_refused_with_a_remedy() {
        let mut extended = identify(0, 8);
        extended[26] |= 1 << 4;
        let mut protected = identify(0, 0);
        protected[29] = 1;
        for (data, cause) in [
            (identify(0, 8), "its format has 8 bytes of metadata with each block, which is not supported"),
            (identify(0, 64), "its format has 64 bytes of metadata with each block, which is not supported"),
            (extended, "its format has 8 bytes of metadata in each block, which is not supported"),
            (protected, "it is formatted with protection information, which is not supported"),
        ] {
            let text = refused(&data);
            assert!(
                text.starts_with(&format!("namespace 1 of /dev/ng0n1: {cause}; choose a format without")),
                "{text}"
            );
            assert!(text.ends_with("which erases it, or use its block device"), "{text}");
        }
    }

    #[test]
    fn atomic_writes_are_powers_of_two_within_the_drives_unit_one_command_and_the_boundaries() {
        let bytes = |nsfeat: u8, nawupf: u16, nabo: u16, nabspf: u16, controller: u32, command: u64| {
            let mut data = identify(0, 0);
            data[24] = nsfeat;
            for (offset, value) in [(36, nawupf), (42, nabo), (44, nabspf)] {
                data[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
            }
            let namespace = Namespace::parse(&data, 1, "/dev/ng0n1").unwrap();
            namespace.atomic_writes(controller, command).map(|writes| (writes.bytes_min, writes.bytes_max))
        };
        let all = u64::MAX;
        assert_eq!(bytes(0, 0, 0, 0, 1, all), Some((512, 512)), "one block at least");
        assert_eq!(bytes(0, 0, 0, 0, 48, all), Some((512, 32 * 512)), "48 blocks have room for 32");
        assert_eq!(bytes(0, 63, 0, 0, 8, all), Some((512, 8 * 512)), "NSFEAT does not name NAWUPF");
        assert_eq!(bytes(2, 63, 0, 0, 8, all), Some((512, 64 * 512)), "NAWUPF instead of AWUPF");
        assert_eq!(bytes(2, 0, 0, 0, 8, all), Some((512, 8 * 512)), "a NAWUPF of 0 is none");
        assert_eq!(bytes(2, 63, 0, 0, 8, 16 << 10), Some((512, 16 << 10)), "one command");
        assert_eq!(bytes(2, 63, 0, 23, 8, all), Some((512, 8 * 512)), "boundaries at 24 blocks");
        assert_eq!(bytes(2, 63, 4, 0, 8, all), None, "boundaries that begin at a later block");
        assert_eq!(bytes(0, 0, 0, 0, 1, 256), None, "a command has no room for a block");
        assert_eq!(bytes(0, 0, 0, 0, 65_536, all), Some((512, 32 << 20)));
    }

    #[test]
    fn a_namespace_without_blocks_or_with_impossible_ones_is_refused() {
        assert!(refused(&[0; IDENTIFY_BYTES]).contains("no such active namespace"));
        for (blocks, shift) in [(1u64, 0u8), (1, 8), (1, 17), (1, 255), (u64::MAX, 9), (1 << 54, 9)] {
            let mut data = identify(0, 0);
            data[..8].copy_from_slice(&blocks.to_le_bytes());
            data[130] = shift;
            assert!(refused(&data).contains(&format!("{blocks} blocks of 2^{shift} bytes, which is invalid")));
        }
    }
}
