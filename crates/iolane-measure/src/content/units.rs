//! Writes and checks the content of blocks, unit by unit, without knowing which generation a block should hold: the map
//! knows that. The map and scratch files call it; nothing here performs I/O.

use super::header::{Expected, Field, Header, MAGIC, Origin};
use super::mismatch::{Cause, Mismatch, Wanted};

/// The smallest block that can be filled and checked, in bytes: a header and some filling.
pub const UNIT_BYTES_MIN: usize = 64;

/// The generation of the content that a target is prepared with before the first write of a run. A later run with the
/// same seed recognises it.
pub const PREFILL: u64 = 0;

/// Blocks are stamped in units of the smallest sector size, so that a write torn between sectors is detected.
const SECTOR_BYTES: usize = 512;

/// Writes the content of a generation that belongs at target offset `offset` (bytes) into `buffer`.
///
/// The buffer is stamped in units of 512 bytes if its offset and length are multiples of that. Otherwise it is one unit,
/// which can only be checked at the same offset and length; [`ContentMap::fill`](super::ContentMap::fill) ensures that.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn fill(buffer: &mut [u8], offset: u64, generation: u64, origin: Origin) {
    let unit_bytes = unit_bytes(offset, buffer.len());
    let mut header = Header { checksum: 0, unit_bytes: unit_bytes as u32, magic: MAGIC, offset, generation, origin };
    for unit in buffer.chunks_exact_mut(unit_bytes) {
        header.stamp(unit);
        header.offset += unit_bytes as u64;
    }
}

/// Compares what was read into `buffer` from target offset `offset` (bytes) with what one run wrote there.
///
/// # Errors
/// The first unit that does not hold the expected content.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn check(buffer: &[u8], offset: u64, expected: Expected<'_>, origin: Origin) -> Result<(), Mismatch> {
    if matches!(expected, Expected::Unwritten) {
        return Ok(());
    }
    let difference = |(at, unit): (u64, &[u8])| {
        let header = Header::read(unit);
        let from_seed = header.difference_from_seed(unit, at, origin.seed);
        from_seed.or_else(|| header.difference_from_write(expected, origin.run))
    };
    for (at, unit) in units(buffer, offset) {
        if let Some(field) = difference((at, unit)) {
            let others_are_right = units(buffer, offset).any(|other| difference(other).is_none());
            let cause = Cause::in_this_run(field, unit, expected, others_are_right);
            let wanted = Wanted { seed: origin.seed, write: Some((expected, origin.run)) };
            return Err(Mismatch::new(at, unit, field, wanted, cause));
        }
    }
    Ok(())
}

/// Checks that a single write of any run with this seed wrote what was read into `buffer` from target offset `offset`
/// (bytes).
///
/// # Errors
/// The first unit that no such run wrote there, or that is of another write than the start of the buffer.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn check_earlier(buffer: &[u8], offset: u64, seed: u64) -> Result<(), Mismatch> {
    let mismatch = |(at, unit), field: Field, write| {
        Err(Mismatch::new(at, unit, field, Wanted { seed, write }, Cause::of_earlier_run(field)))
    };
    let first = Header::read(buffer);
    for (at, unit) in units(buffer, offset) {
        let header = Header::read(unit);
        if let Some(field) = header.difference_from_seed(unit, at, seed) {
            return mismatch((at, unit), field, None);
        }
        let (expected, run) = (Expected::Exactly(first.generation), first.origin.run);
        if let Some(field) = header.difference_from_write(expected, run) {
            return mismatch((at, unit), field, Some((expected, run)));
        }
    }
    Ok(())
}

/// The units of a buffer with their target offsets.
fn units(buffer: &[u8], offset: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let unit_bytes = unit_bytes(offset, buffer.len());
    (offset..).step_by(unit_bytes).zip(buffer.chunks_exact(unit_bytes))
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

    const ORIGIN: Origin = Origin { seed: 7, run: 77 };

    fn filled(bytes: usize, offset: u64, generation: u64) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        fill(&mut buffer, offset, generation, ORIGIN);
        buffer
    }

    fn mismatch(buffer: &[u8], offset: u64, expected: Expected<'_>) -> Mismatch {
        check(buffer, offset, expected, ORIGIN).unwrap_err()
    }

    #[test]
    fn content_is_found_whole_where_and_when_it_was_written() {
        for (bytes, offset) in [(64, 0), (100, 100), (512, 512), (1000, 3000), (4096, 1 << 40), (4097, 3), (4096, 100)]
        {
            let buffer = filled(bytes, offset, 5);
            assert_eq!(check(&buffer, offset, Expected::Exactly(5), ORIGIN), Ok(()));
        }
    }

    #[test]
    fn content_written_in_large_blocks_can_be_read_in_smaller_ones() {
        let buffer = filled(8192, 4096, 3);
        for (place, part) in buffer.chunks(1024).enumerate() {
            assert_eq!(check(part, 4096 + place as u64 * 1024, Expected::Exactly(3), ORIGIN), Ok(()));
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
        for cut in [49, 256, 511] {
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
        let of = |origin| check(&filled(512, 0, 1), 0, Expected::Exactly(1), origin).unwrap_err();
        for (origin, difference) in [
            (Origin { run: 78, ..ORIGIN }, "run differs: expected 78, found 77"),
            (Origin { seed: 8, ..ORIGIN }, "seed differs: expected 8, found 7"),
        ] {
            let mismatch = of(origin);
            assert_eq!(mismatch.cause, Cause::OtherRun);
            assert!(mismatch.to_string().contains(difference), "{mismatch}");
        }
    }

    #[test]
    fn what_may_hold_several_generations_takes_each_and_what_is_unwritten_is_not_checked() {
        let mut buffer = filled(1024, 0, 7);
        fill(&mut buffer[512..], 512, 8, ORIGIN);
        assert_eq!(check(&buffer, 0, Expected::AnyOf(&[7, 8]), ORIGIN), Ok(()));
        assert!(check(&buffer, 0, Expected::AnyOf(&[7, 9]), ORIGIN).is_err());
        assert!(check(&buffer, 0, Expected::AnyOf(&[]), ORIGIN).is_err());
        assert_eq!(check(&[1; 1024], 0, Expected::Unwritten, ORIGIN), Ok(()));
    }

    #[test]
    fn what_any_run_with_the_seed_wrote_is_recognised_whatever_its_generation() {
        for (generation, run) in [(PREFILL, 0), (1, 77), (9, 78)] {
            let mut buffer = vec![0; 4096];
            fill(&mut buffer, 8192, generation, Origin { run, ..ORIGIN });
            assert_eq!(check_earlier(&buffer, 8192, ORIGIN.seed), Ok(()));
        }
        assert_eq!(check_earlier(&filled(1000, 3000, 2), 3000, ORIGIN.seed), Ok(()));
    }

    #[test]
    fn a_block_that_no_earlier_run_wrote_whole_is_reported_with_the_likely_cause() {
        let cause = |buffer: &[u8], offset| check_earlier(buffer, offset, ORIGIN.seed).unwrap_err().cause;
        assert_eq!((cause(&[0; 4096], 0), cause(&[0xff; 4096], 0)), (Cause::NeverWritten, Cause::NeverWritten));
        assert_eq!(check_earlier(&filled(4096, 0, 1), 0, 8).unwrap_err().cause, Cause::OtherSeed);
        assert_eq!(cause(&filled(4096, 8192, 1), 4096), Cause::Misdirected);
        assert_eq!(cause(&filled(1000, 0, 1)[..100], 0), Cause::OtherBlockSize);
        let mut altered = filled(4096, 0, 1);
        altered[700] ^= 1;
        assert_eq!(cause(&altered, 0), Cause::Corrupt);
        for (generation, run) in [(2, 77), (4, 77), (3, 78)] {
            let mut torn = filled(4096, 0, 3);
            fill(&mut torn[1024..], 1024, generation, Origin { run, ..ORIGIN });
            let mismatch = check_earlier(&torn, 0, ORIGIN.seed).unwrap_err();
            assert_eq!((mismatch.offset, mismatch.cause), (1024, Cause::SeveralWrites), "{mismatch}");
        }
    }

    #[test]
    fn a_block_that_was_never_written_is_reported_with_how_that_happens() {
        let line = check_earlier(&[0; 4096], 8192, 5).unwrap_err().to_string();
        for part in [
            "target offset 8192: likely iolane never wrote here, or with another --seed or --bs; magic differs: expected 0x",
            ", found 0x0000000000000000",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn no_eight_bytes_of_filling_occur_twice() {
        let mut words = Vec::new();
        let places = [(0, 0), (0, 1), (1 << 18, 0), (1 << 18, 1)];
        let origins = [(0, 0), (0, 1), (1, 0)].map(|(seed, run)| Origin { seed, run });
        for ((offset, generation), origin) in places.iter().flat_map(|place| origins.map(|origin| (*place, origin))) {
            let mut buffer = vec![0; 1 << 18];
            fill(&mut buffer, offset, generation, origin);
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
        fill(&mut [0; 63], 0, 0, ORIGIN);
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
            let mismatch = check(&buffer, offset, Expected::Exactly(generation), ORIGIN).unwrap_err();
            let unit_bytes = unit_bytes(offset, bytes);
            prop_assert_eq!(mismatch.offset, offset + (bit / 8 / unit_bytes * unit_bytes) as u64);
            let header_bits = 32..128;
            let in_header = header_bits.contains(&(bit % (unit_bytes * 8)));
            prop_assert_eq!(mismatch.field == Field::Checksum, !in_header);
        }
    }
}
