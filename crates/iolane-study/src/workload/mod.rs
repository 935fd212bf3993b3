//! What a run asks of a target: accesses, block sizes, offsets, depth and the rest, from a command line or a plan.
//! The engine draws its requests from here; nothing here performs I/O.

mod block_sizes;
mod offsets;

use std::fmt;
use std::str::FromStr;

use iolane::units::Bytes;
use iolane::{Error, Result};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::content;

pub use block_sizes::BlockSizes;
pub use offsets::{OffsetGenerator, OffsetPattern, Region, ThreadShare, random_stream};

/// What the requests do and in which order, by fio's names (fio(1), `rw=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Sequential reads (`read`).
    Read,
    /// Sequential writes (`write`).
    Write,
    /// Reads at random offsets (`randread`).
    RandRead,
    /// Writes at random offsets (`randwrite`).
    RandWrite,
    /// Sequential, each request a read or a write by chance (`rw`, also taken as `readwrite`).
    Rw,
    /// Random offsets, each request a read or a write by chance (`randrw`).
    RandRw,
}

impl Access {
    /// Every access there is, for help texts and tests.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::RandRead, Self::RandWrite, Self::Rw, Self::RandRw];

    /// The name it is parsed from and printed as.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::Rw => "rw",
            Self::RandRw => "randrw",
        }
    }

    /// Whether offsets are random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// Whether some requests read.
    pub fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::RandWrite)
    }

    /// Whether some requests write.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }

    /// Whether requests of both kinds occur.
    pub fn is_mixed(self) -> bool {
        self.reads() && self.writes()
    }
}

impl FromStr for Access {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = if text == "readwrite" { "rw" } else { text };
        Self::ALL.into_iter().find(|access| access.name() == name).ok_or_else(|| {
            Error::usage(format!("access `{text}`"), "no access of that name")
                .remedy("use read, write, randread, randwrite, rw or randrw")
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What to ask of a target. Plain data: [`validate`](Self::validate) says whether it makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Reads, writes or both, in sequence or at random (`--rw`).
    pub access: Access,
    /// Percentage of reads where both occur, 0 to 100 (`--read-percent`); 50 if not given.
    pub read_percent: Option<u8>,
    /// Sizes of the blocks (`--bs`).
    pub block_sizes: BlockSizes,
    /// How random offsets spread (`--offsets`).
    pub offsets: OffsetPattern,
    /// Requests in flight on each queue (`--depth`).
    pub depth: u32,
    /// Requests handed over with one submission (`--batch`); the engine's choice if not given.
    pub batch: Option<u32>,
    /// Writes after which each thread makes them durable (`--fsync`); never if not given.
    pub fsync_every: Option<u32>,
    /// Requests per second over all threads (`--rate`); as fast as they go if not given.
    pub rate: Option<f64>,
    /// Microseconds that a thread waits after each request before it begins the next, one at a time (fio's `thinktime`).
    pub think_us: Option<u64>,
    /// Whether written content names its place and what is read is compared (`--verify`).
    pub verify: bool,
    /// Bytes of the target that are used, from its start (`--size`); all of it if not given.
    pub size: Option<u64>,
    /// Bytes that each thread asks for at most, and then ends before its time; no limit if not given.
    pub bytes_max: Option<u64>,
    /// Decides every random choice (`--seed`).
    pub seed: u64,
}

impl Default for Workload {
    /// Random reads of 4 KiB, one at a time.
    fn default() -> Self {
        Self {
            access: Access::RandRead,
            read_percent: None,
            block_sizes: BlockSizes::fixed(4096).expect("4096 is between 1 and 2^30"),
            offsets: OffsetPattern::UNIFORM,
            depth: 1,
            batch: None,
            fsync_every: None,
            rate: None,
            think_us: None,
            verify: false,
            size: None,
            bytes_max: None,
            seed: 1,
        }
    }
}

impl Workload {
    /// Percentage of requests that read.
    pub fn read_percent(&self) -> u8 {
        match (self.access.reads(), self.access.writes()) {
            (true, true) => self.read_percent.unwrap_or(50),
            (true, false) => 100,
            _ => 0,
        }
    }

    /// Whether this can be asked of any target at all; what depends on the target, [`BlockSizes::check`] says.
    ///
    /// # Errors
    /// `Usage` naming the first option that cannot be, or contradicts another.
    pub fn validate(&self) -> Result<()> {
        self.validate_access()?;
        self.validate_pace()?;
        self.validate_space()
    }

    fn validate_access(&self) -> Result<()> {
        let access = self.access;
        match self.read_percent {
            Some(percent @ 101..) => {
                return Err(Error::usage(format!("--read-percent {percent}"), "a percentage is 100 at most"));
            }
            Some(percent) if !access.is_mixed() => {
                let what = format!("--read-percent {percent} with --rw {access}");
                return Err(Error::usage(what, "there is no mix of reads and writes").remedy("use --rw rw or randrw"));
            }
            _ => {}
        }
        match self.fsync_every {
            Some(0) => Err(Error::usage("--fsync 0", "the number of writes is 1 or more")
                .remedy("leave it out for no fsync at all")),
            Some(every) if !access.writes() => {
                Err(Error::usage(format!("--fsync {every} with --rw {access}"), "nothing is written"))
            }
            _ if !access.is_random() && self.offsets != OffsetPattern::UNIFORM => Err(Error::usage(
                format!("--offsets {} with --rw {access}", self.offsets),
                "the offsets are sequential",
            )
            .remedy(format!("use --rw rand{access}"))),
            _ => Ok(()),
        }
    }

    fn validate_pace(&self) -> Result<()> {
        let depth = self.depth;
        if depth == 0 {
            return Err(Error::usage("--depth 0", "depth is 1 or more"));
        }
        match self.batch {
            Some(0) => return Err(Error::usage("--batch 0", "a batch is 1 request or more")),
            Some(batch) if batch > depth => {
                return Err(Error::usage(
                    format!("--batch {batch} with --depth {depth}"),
                    "a batch cannot hold more requests than are in flight",
                )
                .remedy(format!("use --batch {depth} or less, or a larger --depth")));
            }
            _ => {}
        }
        if let Some(think_us) = self.think_us {
            let what = |with: String| format!("a think time of {think_us} us with {with}");
            match self.rate {
                Some(rate) => return Err(Error::usage(what(format!("--rate {rate}")), "both say when requests begin")),
                None if depth > 1 => {
                    let cause = "a thread that thinks has one request in flight";
                    return Err(Error::usage(what(format!("--depth {depth}")), cause).remedy("use --depth 1"));
                }
                None => {}
            }
        }
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate.is_finite()) => {
                Err(Error::usage(format!("--rate {rate}"), "a rate is a number of I/Os per second above 0")
                    .remedy("leave it out for no limit"))
            }
            _ => Ok(()),
        }
    }

    fn validate_space(&self) -> Result<()> {
        let (sizes, min, max) = (&self.block_sizes, self.block_sizes.min(), self.block_sizes.max());
        if let Some(size) = self.size.filter(|size| *size < u64::from(max)) {
            return Err(Error::usage(
                format!("--size {} with --bs {sizes}", Bytes(size)),
                format!("smaller than a block of {}", Bytes(max.into())),
            ));
        }
        if let Some(bytes_max) = self.bytes_max.filter(|bytes_max| *bytes_max < u64::from(max)) {
            return Err(Error::usage(
                format!("{} for each thread with --bs {sizes}", Bytes(bytes_max)),
                format!("smaller than a block of {}", Bytes(max.into())),
            ));
        }
        let what = || format!("--verify with --bs {sizes}");
        if self.verify && (min as usize) < content::UNIT_BYTES_MIN {
            let cause = format!("a block needs {} bytes to say what it holds", content::UNIT_BYTES_MIN);
            return Err(Error::usage(what(), cause));
        }
        match sizes.not_multiple_of(min).filter(|_| self.verify) {
            Some(odd) => Err(Error::usage(what(), format!("{odd} is not a multiple of the smallest size, {min}"))
                .remedy("blocks that overlap in part cannot be verified; use multiples of the smallest")),
            None => Ok(()),
        }
    }

    /// The requests of one thread over `bytes` of a target from `start`, a stream without end.
    ///
    /// # Errors
    /// As [`OffsetGenerator::new`].
    pub fn requests(&self, start: u64, bytes: u64, thread: ThreadShare) -> Result<RequestGenerator> {
        let (align_bytes, block_bytes_max) = (self.block_sizes.min(), self.block_sizes.max());
        let region = Region { start, bytes, align_bytes, block_bytes_max };
        let offsets = OffsetGenerator::new(self.offsets, self.access, region, thread, self.seed)?;
        // Far from the streams the offsets come from, so that sizes and kinds tell nothing about places.
        let mut random = random_stream(self.seed, thread.index);
        random.long_jump();
        random.jump();
        let mix = match self.read_percent() {
            0 => Mix::Write,
            100.. => Mix::Read,
            percent => Mix::ReadBelow((u128::from(percent) << 64).div_euclid(100) as u64),
        };
        Ok(RequestGenerator { mix, block_sizes: self.block_sizes.clone(), offsets, random })
    }
}

/// One request to come: what it does, where and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRequest {
    /// A read if true, a write if not.
    pub is_read: bool,
    /// Offset in bytes from the start of the target.
    pub offset: u64,
    /// Length in bytes.
    pub block_bytes: u32,
}

/// The requests of one thread; made by [`Workload::requests`].
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
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_access_is_printed_by_the_name_it_is_parsed_from() {
        for access in Access::ALL {
            assert_eq!(access.to_string().parse::<Access>().unwrap(), access);
        }
        assert_eq!("readwrite".parse::<Access>().unwrap(), Access::Rw);
        let error = "trim".parse::<Access>().unwrap_err().to_string();
        assert!(error.contains("`trim`") && error.contains("randrw"), "{error}");
    }

    #[test]
    fn an_access_knows_what_it_does() {
        let random: Vec<&str> = Access::ALL.into_iter().filter(|a| a.is_random()).map(Access::name).collect();
        assert_eq!(random, ["randread", "randwrite", "randrw"]);
        let reads: Vec<&str> = Access::ALL.into_iter().filter(|a| a.reads()).map(Access::name).collect();
        assert_eq!(reads, ["read", "randread", "rw", "randrw"]);
        let writes: Vec<&str> = Access::ALL.into_iter().filter(|a| a.writes()).map(Access::name).collect();
        assert_eq!(writes, ["write", "randwrite", "rw", "randrw"]);
    }

    #[test]
    fn the_default_workload_is_valid_and_a_mix_is_half_reads() {
        assert!(Workload::default().validate().is_ok());
        let percent = |access| Workload { access, ..Workload::default() }.read_percent();
        assert_eq!((percent(Access::Rw), percent(Access::RandRead), percent(Access::Write)), (50, 100, 0));
    }

    #[test]
    fn each_option_that_makes_no_sense_is_refused_by_name() {
        let base = Workload::default;
        let split: BlockSizes = "4k/50:6k/50".parse().unwrap();
        for (workload, name) in [
            (Workload { depth: 0, ..base() }, "--depth 0"),
            (Workload { batch: Some(0), ..base() }, "--batch 0"),
            (Workload { batch: Some(5), depth: 4, ..base() }, "--batch 5 with --depth 4"),
            (Workload { read_percent: Some(50), ..base() }, "--read-percent 50 with --rw randread"),
            (Workload { read_percent: Some(101), access: Access::Rw, ..base() }, "--read-percent 101"),
            (Workload { fsync_every: Some(1), ..base() }, "--fsync 1 with --rw randread"),
            (Workload { fsync_every: Some(0), access: Access::Write, ..base() }, "--fsync 0"),
            (Workload { rate: Some(0.0), ..base() }, "--rate 0"),
            (Workload { rate: Some(f64::NAN), ..base() }, "--rate NaN"),
            (Workload { rate: Some(f64::INFINITY), ..base() }, "--rate inf"),
            (Workload { size: Some(4095), ..base() }, "--size 4095 with --bs 4k"),
            (Workload { think_us: Some(5), depth: 2, ..base() }, "a think time of 5 us with --depth 2"),
            (Workload { think_us: Some(5), rate: Some(9.0), ..base() }, "a think time of 5 us with --rate 9"),
            (Workload { bytes_max: Some(4095), ..base() }, "4095 for each thread with --bs 4k"),
            (Workload { access: Access::Rw, offsets: "zipf:1.2".parse().unwrap(), ..base() }, "use --rw randrw"),
            (Workload { verify: true, block_sizes: BlockSizes::fixed(63).unwrap(), ..base() }, "--verify with --bs 63"),
            (Workload { verify: true, block_sizes: split, ..base() }, "6144 is not a multiple"),
        ] {
            let error = workload.validate().expect_err(name).to_string();
            assert!(error.contains(name), "{error}, expected {name}");
        }
    }

    #[test]
    fn options_at_their_limits_are_taken() {
        let base = Workload::default;
        for workload in [
            Workload { batch: Some(4), depth: 4, ..base() },
            Workload { read_percent: Some(0), access: Access::Rw, ..base() },
            Workload { read_percent: Some(100), access: Access::RandRw, ..base() },
            Workload { fsync_every: Some(1), access: Access::Rw, ..base() },
            Workload { rate: Some(0.1), size: Some(4096), bytes_max: Some(4096), ..base() },
            Workload { think_us: Some(u64::MAX), ..base() },
            Workload { block_sizes: "4k/50:6k/50".parse().unwrap(), ..base() },
            Workload { verify: true, block_sizes: "64".parse().unwrap(), ..base() },
            Workload { verify: true, block_sizes: "4k-64k".parse().unwrap(), ..base() },
        ] {
            assert!(workload.validate().is_ok(), "{workload:?}");
        }
    }

    fn planned(workload: &Workload, count: usize) -> Vec<PlannedRequest> {
        let mut requests = workload.requests(0, 1 << 30, ThreadShare::ALONE).unwrap();
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
    fn the_kind_and_the_size_of_a_request_tell_nothing_about_its_place() {
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
