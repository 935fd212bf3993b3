//! Writes and checks the content of blocks, unit by unit, without knowing which generation a block should hold: the map
//! knows that. The map and scratch files call it; nothing here performs I/O.

use super::header::{Expected, Header, MAGIC};
use super::mismatch::Mismatch;

/// The smallest block that can be filled and checked, in bytes: a header and some filling.
pub const UNIT_BYTES_MIN: usize = 64;

/// The generation of the content that a target is prepared with before the first write of a run. A later run with the
/// same run id recognises it.
pub const PREFILL: u64 = 0;

/// Blocks are stamped in units of the smallest sector size, so that a write torn between sectors is detected.
const SECTOR_BYTES: usize = 512;

/// Writes the content of a generation that belongs at target offset `offset` (bytes) into `buffer`, for the run `run`.
///
/// The buffer is stamped in units of 512 bytes if its offset and length are multiples of that. Otherwise it is one unit,
/// which can only be checked at the same offset and length; [`ContentMap::fill`](super::ContentMap::fill) ensures that.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn fill(buffer: &mut [u8], offset: u64, generation: u64, run: u64) {
    let unit_bytes = unit_bytes(offset, buffer.len());
    let mut header = Header { checksum: 0, unit_bytes: unit_bytes as u32, magic: MAGIC, offset, generation, run };
    for unit in buffer.chunks_exact_mut(unit_bytes) {
        header.stamp(unit);
        header.offset += unit_bytes as u64;
    }
}

/// Compares what was read into `buffer` from target offset `offset` (bytes) with what the run `run` wrote there.
///
/// # Errors
/// The first unit that does not hold the expected content.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn check(buffer: &[u8], offset: u64, expected: Expected<'_>, run: u64) -> Result<(), Mismatch> {
    let unit_bytes = unit_bytes(offset, buffer.len());
    if matches!(expected, Expected::Unwritten) {
        return Ok(());
    }
    let units = || (offset..).step_by(unit_bytes).zip(buffer.chunks_exact(unit_bytes));
    let difference = |(at, unit): (u64, &[u8])| Header::read(unit).difference(unit, at, expected, run);
    for (at, unit) in units() {
        if let Some(field) = difference((at, unit)) {
            let others_are_right = units().any(|other| difference(other).is_none());
            return Err(Mismatch::new(at, unit, field, expected, run, others_are_right));
        }
    }
    Ok(())
}

fn unit_bytes(offset: u64, block_bytes: usize) -> usize {
    assert!(block_bytes >= UNIT_BYTES_MIN, "a block of {block_bytes} bytes; content needs {UNIT_BYTES_MIN} at least");
    let in_sectors = offset.is_multiple_of(SECTOR_BYTES as u64) && block_bytes.is_multiple_of(SECTOR_BYTES);
    if in_sectors { SECTOR_BYTES } else { block_bytes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::header::{Field, checksum};
    use super::super::mismatch::Cause;
    use super::*;

    const RUN: u64 = 77;

    fn filled(bytes: usize, offset: u64, generation: u64) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        fill(&mut buffer, offset, generation, RUN);
        buffer
    }

    fn mismatch(buffer: &[u8], offset: u64, expected: Expected<'_>) -> Mismatch {
        check(buffer, offset, expected, RUN).unwrap_err()
    }

    #[test]
    fn content_is_found_whole_where_and_when_it_was_written() {
        for (bytes, offset) in [(64, 0), (100, 100), (512, 512), (1000, 3000), (4096, 1 << 40), (4097, 3), (4096, 100)]
        {
            let buffer = filled(bytes, offset, 5);
            assert_eq!(check(&buffer, offset, Expected::Exactly(5), RUN), Ok(()));
        }
    }

    #[test]
    fn content_written_in_large_blocks_can_be_read_in_smaller_ones() {
        let buffer = filled(8192, 4096, 3);
        for (place, part) in buffer.chunks(1024).enumerate() {
            assert_eq!(check(part, 4096 + place as u64 * 1024, Expected::Exactly(3), RUN), Ok(()));
        }
    }

    #[test]
    fn a_misdirected_write_is_reported_with_both_offsets() {
        let mismatch = mismatch(&filled(4096, 8192, 7), 4096, Expected::Exactly(7));
        assert_eq!((mismatch.offset, mismatch.field, mismatch.cause), (4096, Field::Offset, Cause::Misdirected));
        let line = mismatch.to_string();
        assert!(line.starts_with("target offset 4096: offset differs: expected 4096, found 8192; "), "{line}");
        assert!(line.contains("misdirected") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn a_lost_write_is_reported_with_both_generations() {
        let mismatch = mismatch(&filled(4096, 4096, 6), 4096, Expected::Exactly(7));
        assert_eq!((mismatch.field, mismatch.cause), (Field::Generation, Cause::LostWrite));
        let line = mismatch.to_string();
        assert!(line.contains("generation differs: expected 7, found 6") && line.contains("lost write"), "{line}");
    }

    #[test]
    fn a_write_torn_between_sectors_is_distinguished_from_a_lost_one() {
        let mut buffer = filled(4096, 0, 7);
        buffer[1024..].copy_from_slice(&filled(4096, 0, 6)[1024..]);
        let mismatch = mismatch(&buffer, 0, Expected::Exactly(7));
        assert_eq!((mismatch.offset, mismatch.field, mismatch.cause), (1024, Field::Generation, Cause::TornWrite));
        assert!(mismatch.to_string().contains("torn write"), "{mismatch}");
    }

    #[test]
    fn a_write_torn_within_a_sector_is_reported_with_both_checksums() {
        for cut in [41, 256, 511] {
            let mut buffer = filled(512, 0, 7);
            buffer[cut..].copy_from_slice(&filled(512, 0, 6)[cut..]);
            let mismatch = mismatch(&buffer, 0, Expected::Exactly(7));
            assert_eq!((mismatch.field, mismatch.cause), (Field::Checksum, Cause::Corrupt), "{cut}");
            let (stored, of_data) = (u32::from_le_bytes(buffer[..4].try_into().unwrap()), checksum(&buffer));
            let both = format!("expected {stored:#010x}, found {of_data:#010x}");
            assert!(
                mismatch.to_string().contains(&both) && mismatch.to_string().contains("torn or corrupt"),
                "{mismatch}"
            );
        }
    }

    #[test]
    fn content_newer_than_any_acknowledged_write_is_reported_as_such() {
        let mismatch = mismatch(&filled(512, 0, 9), 0, Expected::AnyOf(&[7, 8]));
        assert_eq!((mismatch.field, mismatch.cause), (Field::Generation, Cause::UnknownWrite));
        assert!(mismatch.to_string().contains("expected 7 or 8, found 9"), "{mismatch}");
    }

    #[test]
    fn zeroes_foreign_data_other_runs_and_other_block_sizes_are_distinguished() {
        assert_eq!(mismatch(&[0; 4096], 0, Expected::Exactly(0)).cause, Cause::Zeroes);
        assert_eq!(mismatch(&[0xff; 4096], 0, Expected::Exactly(0)).cause, Cause::Foreign);
        assert_eq!(mismatch(&filled(1000, 0, 1)[..100], 0, Expected::Exactly(1)).cause, Cause::OtherBlockSize);
        let mismatch = check(&filled(512, 0, 1), 0, Expected::Exactly(1), RUN + 1).unwrap_err();
        assert_eq!(mismatch.cause, Cause::OtherRun);
        assert!(mismatch.to_string().contains("run differs: expected 78, found 77"), "{mismatch}");
    }

    #[test]
    fn what_may_hold_several_generations_takes_each_and_what_is_unwritten_is_not_checked() {
        let mut buffer = filled(1024, 0, 7);
        fill(&mut buffer[512..], 512, 8, RUN);
        assert_eq!(check(&buffer, 0, Expected::AnyOf(&[7, 8]), RUN), Ok(()));
        assert!(check(&buffer, 0, Expected::AnyOf(&[7, 9]), RUN).is_err());
        assert!(check(&buffer, 0, Expected::AnyOf(&[]), RUN).is_err());
        assert_eq!(check(&[1; 1024], 0, Expected::Unwritten, RUN), Ok(()));
    }

    #[test]
    fn no_eight_bytes_of_filling_occur_twice() {
        let mut words = Vec::new();
        for (offset, generation, run) in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1 << 18, 0, 0), (1 << 18, 1, 1)] {
            let mut buffer = vec![0; 1 << 18];
            fill(&mut buffer, offset, generation, run);
            words.extend(buffer.chunks(512).flat_map(|unit| unit[Header::BYTES..].as_chunks::<8>().0.to_vec()));
        }
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
    }

    #[test]
    #[should_panic(expected = "a block of 63 bytes")]
    fn a_block_too_small_for_a_header_is_refused() {
        fill(&mut [0; 63], 0, 0, 0);
    }

    proptest! {
        #[test]
        fn any_single_flipped_bit_is_found(
            (bytes, offset) in prop_oneof![
                (64usize..3000, 0u64..1 << 50),
                (1usize..20, 0u64..1 << 40).prop_map(|(sectors, at)| (sectors * 512, at * 512)),
            ],
            generation: u64,
            bit in 0.0f64..1.0,
        ) {
            let mut buffer = filled(bytes, offset, generation);
            let bit = (bytes as f64 * 8.0 * bit) as usize;
            buffer[bit / 8] ^= 1 << (bit % 8);
            let mismatch = check(&buffer, offset, Expected::Exactly(generation), RUN).unwrap_err();
            let unit_bytes = unit_bytes(offset, bytes);
            prop_assert_eq!(mismatch.offset, offset + (bit / 8 / unit_bytes * unit_bytes) as u64);
            let header_bits = 32..128;
            let in_header = header_bits.contains(&(bit % (unit_bytes * 8)));
            prop_assert_eq!(mismatch.field == Field::Checksum, !in_header);
        }
    }
}
