//! `Workload`: what a run asks of a target, from a command line or a plan, and the rules its options keep.

use iolane::units::Bytes;
use iolane::{Error, Result, Target, TargetOptions};
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::arrivals::Arrivals;
use super::block_sizes::BlockSizes;
use super::data_pattern::DataPattern;
use super::offset_pattern::OffsetPattern;
use super::rate::Rate;
use crate::content;

/// The load on a target. Plain data; [`validate`](Self::validate) checks that it is consistent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Reads, writes or both, in sequence or at random (`--rw`).
    #[serde(rename = "rw", alias = "access", with = "crate::serde_text")]
    pub access: Access,
    /// Percentage of reads where both occur, 0 to 100 (`--read-percent`); 50 if not given.
    pub read_percent: Option<u8>,
    /// Sizes of the blocks (`--bs`).
    #[serde(rename = "bs", alias = "block_sizes", with = "crate::serde_text")]
    pub block_sizes: BlockSizes,
    /// How offsets spread (`--offsets`).
    #[serde(with = "crate::serde_text")]
    pub offsets: OffsetPattern,
    /// Bytes of which every offset is a multiple (`--align`); the smallest block if not given.
    pub align: Option<u32>,
    /// Requests in flight on each queue (`--depth`).
    pub depth: u32,
    /// Most requests of one submission (`--batch-submit`, fio's `iodepth_batch`); all that wait if not given.
    pub batch_submit: Option<u32>,
    /// Completions to wait for, at least (`--batch-complete`, fio's `iodepth_batch_complete_min`); 1 if not given.
    #[serde(alias = "batch")]
    pub batch_complete: Option<u32>,
    /// Most completions that are taken before the next submission (`--batch-complete-max`); all there are if not given.
    pub batch_complete_max: Option<u32>,
    /// Writes between two fsyncs of a thread (`--fsync`); no fsync if not given.
    pub fsync_every: Option<u32>,
    /// Writes between two fdatasyncs of a thread (`--fdatasync`); no fdatasync if not given.
    pub fdatasync_every: Option<u32>,
    /// Requests per second over all threads (`--rate`); no limit if not given.
    pub rate: Option<Rate>,
    /// How the requests of a rate are spaced (`--arrivals`).
    #[serde(with = "crate::serde_text")]
    pub arrivals: Arrivals,
    /// Microseconds between the completion of a request and the start of the next, at depth 1 (fio's `thinktime`).
    pub think_us: Option<u64>,
    /// What written blocks hold (`--data`).
    #[serde(with = "crate::serde_text")]
    pub data: DataPattern,
    /// Whether each write is durable when it completes (`--durable`).
    pub durable: bool,
    /// Whether written blocks encode their own offset and every read is checked, after the load if it only writes
    /// (`--verify`).
    pub verify: bool,
    /// Byte of the target at which the used part begins (`--start`).
    pub start: u64,
    /// Bytes of the target that are used, from there (`--size`); all up to its end if not given.
    pub size: Option<u64>,
    /// Bytes after which a thread ends before its time; no limit if not given.
    pub bytes_max: Option<u64>,
    /// Seed of every random choice (`--seed`).
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
            align: None,
            depth: 1,
            batch_submit: None,
            batch_complete: None,
            batch_complete_max: None,
            fsync_every: None,
            fdatasync_every: None,
            rate: None,
            arrivals: Arrivals::Even,
            think_us: None,
            data: DataPattern::RANDOM,
            durable: false,
            verify: false,
            start: 0,
            size: None,
            bytes_max: None,
            seed: 1,
        }
    }
}

impl Workload {
    pub fn read_percent(&self) -> u8 {
        match (self.access.reads(), self.access.writes()) {
            (true, true) => self.read_percent.unwrap_or(50),
            (true, false) => 100,
            _ => 0,
        }
    }

    /// Bytes of which every offset is a multiple.
    pub fn align_bytes(&self) -> u32 {
        self.align.unwrap_or(self.block_sizes.min())
    }

    /// How its targets are opened, for reading: whoever opens one that is written has its permission
    /// ([`TargetOptions::write`]).
    pub fn target_options(&self, direct: bool) -> TargetOptions {
        Target::options().direct(direct).durable(self.durable)
    }

    /// The value in [`fields`](Self::fields) of what is not given.
    pub const NONE: &str = "none";

    /// Every field with its value as text, by its name in study files; the seed and the limits of space last. Results print
    /// what differs from it, and `compare` names what two loads do not have in common.
    pub fn fields(&self) -> [(&'static str, String); 21] {
        fn or_none<T: ToString>(value: &Option<T>) -> String {
            value.as_ref().map_or_else(|| Workload::NONE.into(), T::to_string)
        }
        // Names every field, so that the compiler demands a decision for each new one.
        let Self {
            access,
            read_percent: _,
            block_sizes,
            offsets,
            align,
            depth,
            batch_submit,
            batch_complete,
            batch_complete_max,
            fsync_every,
            fdatasync_every,
            rate,
            arrivals,
            think_us,
            data,
            durable,
            verify,
            start,
            size,
            bytes_max,
            seed,
        } = self;
        [
            ("rw", access.to_string()),
            ("read_percent", self.read_percent().to_string()),
            ("bs", block_sizes.to_string()),
            ("offsets", offsets.to_string()),
            ("align", or_none(&align.map(|align| Bytes(align.into())))),
            ("depth", depth.to_string()),
            ("batch_submit", or_none(batch_submit)),
            ("batch_complete", or_none(batch_complete)),
            ("batch_complete_max", or_none(batch_complete_max)),
            ("fsync_every", or_none(fsync_every)),
            ("fdatasync_every", or_none(fdatasync_every)),
            ("rate", or_none(rate)),
            ("arrivals", arrivals.to_string()),
            ("think_us", or_none(think_us)),
            ("data", data.to_string()),
            ("durable", durable.to_string()),
            ("verify", verify.to_string()),
            ("start", Bytes(*start).to_string()),
            ("size", or_none(&size.map(Bytes))),
            ("bytes_max", or_none(&bytes_max.map(Bytes))),
            ("seed", seed.to_string()),
        ]
    }

    /// Writes from one fsync or fdatasync to the next; `None` without them.
    pub fn sync_every(&self) -> Option<u32> {
        self.fsync_every.or(self.fdatasync_every)
    }

    /// The load without its depth: `randread 4k`, or `randrw 70/30 16k zipf:1.2, rate 2k/s, fsync every 8`. Leaves out
    /// what is not given, and the seed.
    pub fn load_in_words(&self) -> String {
        let mut words = self.access.to_string();
        if self.access.is_mixed() {
            let reads = self.read_percent();
            words.push_str(&format!(" {reads}/{}", 100 - reads));
        }
        words.push_str(&format!(" {}", self.block_sizes));
        if self.offsets != OffsetPattern::UNIFORM {
            words.push_str(&format!(" {}", self.offsets));
        }
        let parts = [
            self.align.map(|align| format!("aligned to {}", Bytes(align.into()))),
            self.rate.map(|rate| match self.arrivals {
                Arrivals::Even => format!("rate {rate}/s"),
                arrivals => format!("rate {rate}/s ({arrivals})"),
            }),
            self.batches_in_words(),
            self.durable.then(|| "durable writes".to_owned()),
            self.fsync_every.map(|every| format!("fsync every {every}")),
            self.fdatasync_every.map(|every| format!("fdatasync every {every}")),
            self.think_us.map(|think_us| format!("think time {think_us} us")),
            (self.data != DataPattern::RANDOM).then(|| format!("data {}", self.data)),
            self.verify.then(|| "verified".to_owned()),
            self.size.map(|size| format!("in {}", Bytes(size))),
            (self.start > 0).then(|| format!("from {}", Bytes(self.start))),
            self.bytes_max.map(|bytes| format!("{} a thread", Bytes(bytes))),
        ];
        parts.into_iter().flatten().for_each(|part| words.push_str(&format!(", {part}")));
        words
    }

    /// `one by one` for what fio does by default.
    fn batches_in_words(&self) -> Option<String> {
        if (self.batch_submit, self.batch_complete.unwrap_or(1), self.batch_complete_max) == (Some(1), 1, Some(1)) {
            return Some("one by one".into());
        }
        let limits = [
            self.batch_submit.map(|most| format!("batch submit {most}")),
            self.batch_complete.map(|least| format!("batch complete {least}")),
            self.batch_complete_max.map(|most| format!("batch complete max {most}")),
        ];
        limits.into_iter().flatten().reduce(|all, limit| format!("{all}, {limit}"))
    }

    /// Checks what does not depend on a target; [`BlockSizes::check`] checks the rest.
    ///
    /// # Errors
    /// `Usage` naming the first option that is invalid or contradicts another.
    pub fn validate(&self) -> Result<()> {
        self.validate_access()?;
        self.validate_pace()?;
        self.validate_space()
    }

    fn validate_access(&self) -> Result<()> {
        let access = self.access;
        match self.read_percent {
            Some(percent @ 101..) => {
                return Err(Error::usage(format!("--read-percent {percent}"), "a percentage is at most 100"));
            }
            Some(percent) if !access.is_mixed() => {
                let what = format!("--read-percent {percent} with --rw {access}");
                return Err(Error::usage(what, "there is no mix of reads and writes").remedy("use --rw rw or randrw"));
            }
            _ => {}
        }
        if self.data != DataPattern::RANDOM {
            let what = |with: String| format!("--data {} with {with}", self.data);
            if !access.writes() {
                return Err(Error::usage(what(format!("--rw {access}")), "nothing is written"));
            }
            if self.verify {
                let cause = "verified blocks hold their own offset and random bytes";
                return Err(Error::usage(what("--verify".into()), cause).remedy("leave one out"));
            }
        }
        if self.durable && !access.writes() {
            return Err(Error::usage(format!("--durable with --rw {access}"), "nothing is written"));
        }
        self.validate_syncs()?;
        self.validate_offsets()
    }

    fn validate_syncs(&self) -> Result<()> {
        let access = self.access;
        for (option, every) in [("--fsync", self.fsync_every), ("--fdatasync", self.fdatasync_every)] {
            match every {
                Some(0) => {
                    return Err(Error::usage(format!("{option} 0"), "the number of writes is at least 1")
                        .remedy("leave it out for no syncs"));
                }
                Some(every) if !access.writes() => {
                    return Err(Error::usage(format!("{option} {every} with --rw {access}"), "nothing is written"));
                }
                _ => {}
            }
        }
        match (self.fsync_every, self.fdatasync_every) {
            (Some(fsync), Some(fdatasync)) => {
                Err(Error::usage(format!("--fsync {fsync} with --fdatasync {fdatasync}"), "a write needs one of them")
                    .remedy("leave one out: fdatasync leaves out metadata that is not needed to read the data"))
            }
            _ => Ok(()),
        }
    }

    fn validate_offsets(&self) -> Result<()> {
        let (access, offsets) = (self.access, self.offsets);
        if !offsets.suits(access.is_random()) {
            let what = format!("--offsets {offsets} with --rw {access}");
            return Err(match access.name().strip_prefix("rand") {
                None => Error::usage(what, "the offsets are sequential").remedy(format!("use --rw rand{access}")),
                Some(sequential) => {
                    Error::usage(what, "the offsets are random").remedy(format!("use --rw {sequential}"))
                }
            });
        }
        if self.align == Some(0) {
            return Err(Error::usage("--align 0", "every offset is a multiple of 1 or more"));
        }
        offsets.check(self.align_bytes(), self.block_sizes.max())
    }

    fn validate_pace(&self) -> Result<()> {
        let depth = self.depth;
        if depth == 0 {
            return Err(Error::usage("--depth 0", "depth is at least 1"));
        }
        self.validate_batches()?;
        if self.arrivals != Arrivals::Even && self.rate.is_none() {
            let what = format!("--arrivals {} without --rate", self.arrivals);
            return Err(Error::usage(what, "requests follow completions, not a schedule").remedy("add --rate"));
        }
        if let Some(think_us) = self.think_us {
            let what = |with: String| format!("a think time of {think_us} us with {with}");
            match self.rate {
                Some(rate) => {
                    return Err(Error::usage(what(format!("--rate {rate}")), "both decide when requests start"));
                }
                None if depth > 1 => {
                    let cause = "a think time needs one request in flight";
                    return Err(Error::usage(what(format!("--depth {depth}")), cause).remedy("use --depth 1"));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn validate_batches(&self) -> Result<()> {
        let depth = self.depth;
        for (option, batch) in [
            ("--batch-submit", self.batch_submit),
            ("--batch-complete", self.batch_complete),
            ("--batch-complete-max", self.batch_complete_max),
        ] {
            match batch {
                Some(0) => return Err(Error::usage(format!("{option} 0"), "a batch has at least 1 request")),
                Some(batch) if batch > depth => {
                    return Err(Error::usage(
                        format!("{option} {batch} with --depth {depth}"),
                        "a batch cannot hold more requests than are in flight",
                    )
                    .remedy(format!("use {option} {depth} or less, or a larger --depth")));
                }
                _ => {}
            }
        }
        match (self.batch_complete, self.batch_complete_max) {
            (Some(min), Some(max)) if min > max => Err(Error::usage(
                format!("--batch-complete {min} with --batch-complete-max {max}"),
                "it waits for more completions than it takes",
            )
            .remedy(format!("use --batch-complete-max {min} or more"))),
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
        if let Some(align) = self.align.filter(|align| self.verify && !align.is_multiple_of(min)) {
            let what = format!("--verify with --align {}", Bytes(align.into()));
            return Err(Error::usage(what, format!("not a multiple of the smallest block, {}", Bytes(min.into())))
                .remedy("blocks that overlap in part cannot be verified; leave --align out"));
        }
        let what = || format!("--verify with --bs {sizes}");
        if self.verify && (min as usize) < content::UNIT_BYTES_MIN {
            let cause = format!("a block needs at least {} bytes for its header", content::UNIT_BYTES_MIN);
            return Err(Error::usage(what(), cause));
        }
        match sizes.not_multiple_of(min).filter(|_| self.verify) {
            Some(odd) => Err(Error::usage(what(), format!("{odd} is not a multiple of the smallest size, {min}"))
                .remedy("blocks that overlap in part cannot be verified; use multiples of the smallest")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_workload_is_valid_and_a_mix_is_half_reads() {
        assert!(Workload::default().validate().is_ok());
        let percent = |access| Workload { access, ..Workload::default() }.read_percent();
        assert_eq!((percent(Access::Rw), percent(Access::RandRead), percent(Access::Write)), (50, 100, 0));
    }

    #[test]
    fn each_invalid_option_is_refused_by_name() {
        let base = Workload::default;
        let split: BlockSizes = "4k/50:6k/50".parse().unwrap();
        for (workload, name) in [
            (Workload { depth: 0, ..base() }, "--depth 0"),
            (Workload { batch_submit: Some(0), ..base() }, "--batch-submit 0"),
            (Workload { batch_complete: Some(5), depth: 4, ..base() }, "--batch-complete 5 with --depth 4"),
            (Workload { batch_complete_max: Some(5), depth: 4, ..base() }, "--batch-complete-max 5 with --depth 4"),
            (
                Workload { batch_complete: Some(3), batch_complete_max: Some(2), depth: 4, ..base() },
                "--batch-complete 3 with --batch-complete-max 2",
            ),
            (Workload { read_percent: Some(50), ..base() }, "--read-percent 50 with --rw randread"),
            (Workload { read_percent: Some(101), access: Access::Rw, ..base() }, "--read-percent 101"),
            (Workload { fsync_every: Some(1), ..base() }, "--fsync 1 with --rw randread"),
            (Workload { data: "compress:50".parse().unwrap(), ..base() }, "--data compress:50 with --rw randread"),
            (
                Workload { data: "dedupe:50".parse().unwrap(), access: Access::Rw, verify: true, ..base() },
                "--data dedupe:50/5 with --verify",
            ),
            (Workload { fsync_every: Some(0), access: Access::Write, ..base() }, "--fsync 0"),
            (Workload { durable: true, ..base() }, "--durable with --rw randread"),
            (Workload { fdatasync_every: Some(2), ..base() }, "--fdatasync 2 with --rw randread"),
            (
                Workload { fsync_every: Some(1), fdatasync_every: Some(2), access: Access::Write, ..base() },
                "--fsync 1 with --fdatasync 2",
            ),
            (Workload { size: Some(4095), ..base() }, "--size 4095 with --bs 4k"),
            (Workload { think_us: Some(5), depth: 2, ..base() }, "a think time of 5 us with --depth 2"),
            (
                Workload { think_us: Some(5), rate: Some(Rate::new(9.0).unwrap()), ..base() },
                "a think time of 5 us with --rate 9",
            ),
            (Workload { arrivals: Arrivals::Poisson, ..base() }, "--arrivals poisson without --rate"),
            (Workload { bytes_max: Some(4095), ..base() }, "4095 for each thread with --bs 4k"),
            (Workload { offsets: "skip:4k".parse().unwrap(), ..base() }, "use --rw read"),
            (
                Workload { access: Access::Read, offsets: "skip:6k".parse().unwrap(), ..base() },
                "6144 is not a multiple of 4k",
            ),
            (
                Workload { access: Access::Read, offsets: "skip:-4k".parse().unwrap(), ..base() },
                "skip:-8k reads backwards",
            ),
            (Workload { align: Some(0), ..base() }, "--align 0"),
            (Workload { align: Some(512), verify: true, ..base() }, "--verify with --align 512"),
            (Workload { access: Access::Rw, offsets: "zipf:1.2".parse().unwrap(), ..base() }, "use --rw randrw"),
            (Workload { verify: true, block_sizes: BlockSizes::fixed(63).unwrap(), ..base() }, "--verify with --bs 63"),
            (Workload { verify: true, block_sizes: split, ..base() }, "6144 is not a multiple"),
        ] {
            let error = workload.validate().expect_err(name).to_string();
            assert!(error.contains(name), "{error}, expected {name}");
        }
    }

    #[test]
    fn options_at_their_limits_are_accepted() {
        let base = Workload::default;
        for workload in [
            Workload {
                batch_submit: Some(4),
                batch_complete: Some(4),
                batch_complete_max: Some(4),
                depth: 4,
                ..base()
            },
            Workload { read_percent: Some(0), access: Access::Rw, ..base() },
            Workload { read_percent: Some(100), access: Access::RandRw, ..base() },
            Workload { fsync_every: Some(1), access: Access::Rw, ..base() },
            Workload { rate: Some(Rate::new(0.1).unwrap()), size: Some(4096), bytes_max: Some(4096), ..base() },
            Workload { think_us: Some(u64::MAX), ..base() },
            Workload { access: Access::Read, offsets: "skip:-8k".parse().unwrap(), ..base() },
            Workload { align: Some(1 << 20), verify: true, start: u64::MAX, ..base() },
            Workload { block_sizes: "4k/50:6k/50".parse().unwrap(), ..base() },
            Workload { verify: true, block_sizes: "64".parse().unwrap(), ..base() },
            Workload { verify: true, block_sizes: "4k-64k".parse().unwrap(), ..base() },
        ] {
            assert!(workload.validate().is_ok(), "{workload:?}");
        }
    }
}
