//! The structures that Identify answers (NVMe Base Specification 2.0, section 5.17.2; NVM Command Set Specification 1.0,
//! section 4.1.5), correct ones and invalid ones.

use super::chance::Chance;
use super::config::{ModelConfig, NamespaceConfig};

/// Bytes of every structure.
pub(super) const BYTES: usize = 4096;

pub(super) type Structure = [u8; BYTES];

/// VS and VER: 1.4.0.
pub(super) const VERSION: u32 = 0x0001_0400;

/// Most asynchronous event requests at a time.
pub(super) const EVENT_REQUESTS_MAX: u32 = 4;

pub(super) fn controller(config: &ModelConfig) -> Structure {
    let mut data = [0; BYTES];
    put(&mut data, 4, b"MODEL0              ");
    put(&mut data, 24, b"iolane model controller                 ");
    put(&mut data, 64, b"1       ");
    data[77] = config.transfer_pages_log2;
    put(&mut data, 80, &VERSION.to_le_bytes());
    // CNTRLTYPE: an I/O controller.
    data[111] = 1;
    // OACS bit 8: Doorbell Buffer Config.
    put(&mut data, 256, &(u16::from(config.shadow_doorbells) << 8).to_le_bytes());
    // ACL and AERL, each one less.
    data[258] = 3;
    data[259] = EVENT_REQUESTS_MAX as u8 - 1;
    // SQES and CQES: 64 and 16 bytes, at least and at most.
    data[512] = 0x66;
    data[513] = 0x44;
    put(&mut data, 516, &(config.namespaces.len() as u32).to_le_bytes());
    // ONCS: Dataset Management and Write Zeroes.
    put(&mut data, 520, &(1u16 << 2 | 1 << 3).to_le_bytes());
    data[525] = u8::from(config.volatile_write_cache);
    put(&mut data, 528, &(config.atomic_write_blocks - 1).to_le_bytes());
    put(&mut data, 536, &u32::from(config.sgl).to_le_bytes());
    put(&mut data, 768, b"nqn.2024-01.io.iolane:model");
    put(&mut data, 0, &config.identify_controller);
    data
}

pub(super) fn namespace(config: &ModelConfig, namespace: NamespaceConfig) -> Structure {
    let mut data = [0; BYTES];
    for offset in [0, 8, 16] {
        put(&mut data, offset, &namespace.blocks.to_le_bytes());
    }
    // DLFEAT: deallocated blocks read as zeroes.
    data[33] = 1;
    // LBAF0: no metadata, and the block size as a power of two.
    data[130] = namespace.block_bytes.ilog2() as u8;
    put(&mut data, 0, &config.identify_namespace);
    data
}

/// The identifiers of `count` namespaces after `after`.
pub(super) fn active_namespaces(count: u32, after: u32) -> Structure {
    let mut data = [0; BYTES];
    for (place, identifier) in data.chunks_exact_mut(4).zip(after.saturating_add(1)..=count) {
        place.copy_from_slice(&identifier.to_le_bytes());
    }
    data
}

fn put(data: &mut Structure, offset: usize, bytes: &[u8]) {
    let length = bytes.len().min(BYTES - offset);
    data[offset..offset + length].copy_from_slice(&bytes[..length]);
}

/// Fields that a driver relies on, as offset and length: of the controller MDTS, VER, OACS, entry sizes, NN, ONCS to AWUPF, SGLS; of
/// a namespace NSZE, NCAP, NSFEAT to MC, NAWUN to NABSPF, metadata and block size of LBAF0.
const FIELDS: [(usize, usize); 12] =
    [(77, 1), (80, 4), (256, 2), (512, 2), (516, 4), (520, 10), (536, 4), (0, 8), (8, 8), (24, 4), (34, 12), (128, 4)];

/// Corrupts a structure: all of it, a piece of it, or a field that the driver relies on.
pub(super) fn falsify(data: &mut Structure, chance: &mut Chance) {
    match chance.below(4) {
        0 => chance.fill(data),
        1 => {
            let start = chance.below(BYTES as u64) as usize;
            let length = 1 + chance.below((BYTES - start) as u64) as usize;
            chance.fill(&mut data[start..start + length]);
        }
        _ => {
            let (offset, length) = FIELDS[chance.below(FIELDS.len() as u64) as usize];
            let field = &mut data[offset..offset + length];
            match chance.below(3) {
                0 => field.fill(0),
                1 => field.fill(0xff),
                _ => chance.fill(field),
            }
        }
    }
}
