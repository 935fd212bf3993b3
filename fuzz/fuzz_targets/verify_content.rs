//! What `--verify` writes: no bytes make checking panic, what was written passes, and a change of any of its bytes is
//! found.
#![no_main]

use iolane_measure::content::{Expected, Origin, UNIT_BYTES_MIN, check, check_earlier, fill};
use libfuzzer_sys::{arbitrary, fuzz_target};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    offset: u64,
    in_sectors: bool,
    generation: u64,
    seed: u64,
    run: u64,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let Input { in_sectors, generation, seed, run, bytes, .. } = input;
    let origin = Origin { seed, run };
    if bytes.len() < UNIT_BYTES_MIN {
        return;
    }
    // Where a target can be: no file reaches beyond 2^63 - 1 bytes (loff_t).
    let offset = input.offset >> 1;
    let offset = if in_sectors { offset / 512 * 512 } else { offset };
    let expected = Expected::Exactly(generation);

    let mut written = vec![0; bytes.len()];
    fill(&mut written, offset, generation, origin);
    assert_eq!(check(&written, offset, expected, origin), Ok(()));
    assert_eq!(check_earlier(&written, offset, seed), Ok(()));
    assert_eq!(check(bytes, offset, Expected::Unwritten, origin), Ok(()));
    if let Err(mismatch) = check_earlier(bytes, offset, seed) {
        assert!(!mismatch.to_string().contains('\n'), "{mismatch}");
    }
    if let Err(mismatch) = check(bytes, offset, Expected::AnyOf(&[generation, 0]), origin) {
        assert!(!mismatch.to_string().contains('\n'), "{mismatch}");
    }

    // Each byte of the input turns one of the written bytes into another.
    for (place, change) in bytes.iter().enumerate().filter(|(_, change)| **change != 0) {
        written[place] ^= change;
        let mismatch =
            check(&written, offset, expected, origin).expect_err("a changed byte passed for what was written");
        assert!((offset..=offset + place as u64).contains(&mismatch.offset), "{mismatch}");
        written[place] ^= change;
    }
});
