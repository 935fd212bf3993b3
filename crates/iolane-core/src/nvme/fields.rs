//! The numbers in Identify data, little-endian (NVMe Base Specification 2.0, section 1.8). Panics past the end, as slices do.

/// A number of 16 bits.
pub fn u16_at(data: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([data[offset], data[offset + 1]])
}

/// A number of 32 bits.
pub fn u32_at(data: &[u8], offset: usize) -> u32 {
    u32::from(u16_at(data, offset)) | u32::from(u16_at(data, offset + 2)) << 16
}
