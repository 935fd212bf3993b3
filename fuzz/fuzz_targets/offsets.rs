//! Offset patterns: no text makes the parser panic, what it takes it prints back to the same pattern, and every offset
//! drawn is aligned, with its block inside the region, whatever region the generator takes.
#![no_main]

use iolane_measure::workload::{Access, OffsetGenerator, OffsetPattern, Region, ThreadShare};
use libfuzzer_sys::{arbitrary, fuzz_target};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    text: &'a str,
    sequential: bool,
    start: u64,
    bytes: u64,
    align_bytes: u32,
    block_bytes_max: u32,
    /// Few: a thread's stream is reached by one jump for each thread before it.
    index: u8,
    count: u8,
    seed: u64,
    blocks: [u32; 8],
}

fuzz_target!(|input: Input<'_>| {
    let Ok(pattern) = input.text.parse::<OffsetPattern>() else { return };
    assert_eq!(pattern.to_string().parse::<OffsetPattern>().as_ref().ok(), Some(&pattern), "{input:?}");

    let Input { start, bytes, align_bytes, block_bytes_max, .. } = input;
    let access = if input.sequential { Access::Read } else { Access::RandRead };
    let region = Region { start, bytes, align_bytes, block_bytes_max };
    let thread = ThreadShare { index: input.index.into(), count: input.count.into() };
    let Ok(mut offsets) = OffsetGenerator::new(pattern, access, region, thread, input.seed) else { return };
    for block in input.blocks {
        let block_bytes = 1 + block % block_bytes_max;
        let offset = offsets.next(block_bytes);
        assert!(offset.is_multiple_of(align_bytes.into()), "{offset} in {input:?}");
        assert!(offset >= start && offset + u64::from(block_bytes) <= start + bytes, "{offset} in {input:?}");
    }
});
