//! The requests of one thread, drawn one at a time: what each does, where and how long. The engine calls it; nothing here
//! performs I/O.

use iolane::Result;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::block_sizes::BlockSizes;
use super::definition::Workload;
use super::offsets::OffsetGenerator;
use super::random::random_stream;
use super::region::{Region, ThreadShare};

/// One request: what it does, where and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRequest {
    /// A read if true, a write if not.
    pub is_read: bool,
    /// Offset in bytes from the start of the target.
    pub offset: u64,
    /// Length in bytes.
    pub block_bytes: u32,
}

/// The requests of one thread, without end.
#[derive(Debug, Clone)]
pub struct RequestGenerator {
    mix: Mix,
    block_sizes: BlockSizes,
    offsets: OffsetGenerator,
    random: Xoshiro256PlusPlus,
}

#[derive(Debug, Clone)]
enum Mix {
    Read,
    Write,
    /// A read if 64 random bits are below this.
    ReadBelow(u64),
}

impl RequestGenerator {
    /// The requests of one thread over `bytes` of a target, from the start of the workload.
    ///
    /// # Errors
    /// As [`OffsetGenerator::new`].
    pub fn new(workload: &Workload, bytes: u64, thread: ThreadShare) -> Result<Self> {
        let region = Region {
            start: workload.start,
            bytes,
            align_bytes: workload.align_bytes(),
            block_bytes_max: workload.block_sizes.max(),
        };
        let offsets = OffsetGenerator::new(workload.offsets, workload.access, region, thread, workload.seed)?;
        // Far from the streams of the offsets, so that sizes and kinds do not correlate with offsets.
        let mut random = random_stream(workload.seed, thread.index);
        random.long_jump();
        random.jump();
        let mix = match workload.read_percent() {
            0 => Mix::Write,
            100.. => Mix::Read,
            percent => Mix::ReadBelow((u128::from(percent) << 64).div_euclid(100) as u64),
        };
        Ok(Self { mix, block_sizes: workload.block_sizes.clone(), offsets, random })
    }

    /// The next request. Does not allocate, lock or fail.
    #[inline(always)]
    pub fn next_request(&mut self) -> PlannedRequest {
        let is_read = match self.mix {
            Mix::Read => true,
            Mix::Write => false,
            Mix::ReadBelow(below) => self.random.next_u64() < below,
        };
        let block_bytes = self.block_sizes.pick(&mut self.random);
        PlannedRequest { is_read, offset: self.offsets.next(block_bytes), block_bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::Access;

    fn planned(workload: &Workload, count: usize) -> Vec<PlannedRequest> {
        let mut requests = RequestGenerator::new(workload, 1 << 30, ThreadShare::ALONE).unwrap();
        (0..count).map(|_| requests.next_request()).collect()
    }

    #[test]
    fn a_mix_reads_as_often_as_its_percentage_says() {
        for percent in [0, 1, 30, 70, 99, 100] {
            let workload = Workload { access: Access::RandRw, read_percent: Some(percent), ..Workload::default() };
            let reads = planned(&workload, 100_000).iter().filter(|request| request.is_read).count();
            assert!((reads as f64 / 1000.0 - f64::from(percent)).abs() < 0.6, "{percent}: {reads}");
            assert!((reads > 0 || percent == 0) && (reads < 100_000 || percent == 100), "{percent}: {reads}");
        }
        assert!(planned(&Workload { access: Access::Write, ..Workload::default() }, 9).iter().all(|r| !r.is_read));
    }

    #[test]
    fn the_kind_and_the_size_of_a_request_do_not_correlate_with_its_offset() {
        let share = |workload: &Workload, is_it: fn(&PlannedRequest) -> bool| {
            let requests = planned(workload, 100_000);
            requests.iter().filter(|request| request.offset < 1 << 29 && is_it(request)).count() as f64 / 1e5
        };
        let low_reads = share(&Workload { access: Access::RandRw, ..Workload::default() }, |request| request.is_read);
        assert!((low_reads - 0.25).abs() < 0.01, "{low_reads}");
        let sizes = Workload { block_sizes: "4k-8k".parse().unwrap(), ..Workload::default() };
        let low_small = share(&sizes, |request| request.block_bytes == 4096);
        assert!((low_small - 0.25).abs() < 0.01, "{low_small}");
    }

    proptest! {
        #[test]
        fn a_seed_decides_every_request(seed: u64, other: u64) {
            let workload = |seed| Workload { access: Access::RandRw, seed, ..Workload::default() };
            prop_assert_eq!(planned(&workload(seed), 20), planned(&workload(seed), 20));
            prop_assume!(seed != other);
            prop_assert_ne!(planned(&workload(seed), 20), planned(&workload(other), 20));
        }
    }
}
