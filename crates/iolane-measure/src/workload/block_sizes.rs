//! `BlockSizes`: how many bytes each request moves, parsed from `--bs` and drawn once per request by the engine.
//! `offsets` decides where a block lies; nothing here reads or writes a target.

use std::fmt;
use std::str::FromStr;

use iolane::units::Bytes;
use iolane::{Error, Result};
use rand_core::Rng;

use super::random::scale;

/// The sizes of the blocks a workload reads and writes, 1 byte to 1 GiB each.
///
/// | written | means |
/// |---|---|
/// | `4k` | always 4 KiB |
/// | `4k-64k` | every multiple of 4 KiB up to 64 KiB with equal probability (fio's `bsrange`) |
/// | `4k/70:64k/30` | 70 % of the requests 4 KiB, 30 % 64 KiB (fio's `bssplit`) |
/// | `4k/50:8k:16k` | shares left out divide the rest evenly: here 25 % each |
///
/// Printing and parsing are inverse.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlockSizes(Kind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Fixed(u32),
    /// `count` multiples of `min`, two or more.
    Range {
        min: u32,
        count: u32,
    },
    /// Two entries or more.
    Split(Box<[Entry]>),
}

/// One entry of a split.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    bytes: u32,
    /// As written; `None` where the share was left out.
    percent: Option<u8>,
    /// A draw of 32 bits takes the first entry that it is below; the last entry has 2^32.
    below: u64,
}

const ENTRIES_MAX: usize = 64;

impl BlockSizes {
    /// The largest block, 1 GiB: the kernel caps one read or write at 2 GiB less a page (read(2)).
    pub const BYTES_MAX: u32 = 1 << 30;

    ///
    /// # Errors
    /// `Usage` if it is 0 or above [`BYTES_MAX`](Self::BYTES_MAX).
    pub fn fixed(block_bytes: u32) -> Result<Self> {
        block_bytes.to_string().parse()
    }

    /// The largest block of a request, in bytes; buffers are this long.
    pub fn max(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(bytes) => *bytes,
            Kind::Range { min, count } => min * count,
            Kind::Split(entries) => entries.iter().map(|entry| entry.bytes).fold(0, u32::max),
        }
    }

    /// The smallest block, in bytes; offsets are aligned to it.
    pub fn min(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(bytes) => *bytes,
            Kind::Range { min, .. } => *min,
            Kind::Split(entries) => entries.iter().map(|entry| entry.bytes).fold(u32::MAX, u32::min),
        }
    }

    /// The size of every block, in bytes, if all are equal.
    pub fn single(&self) -> Option<u32> {
        Some(self.min()).filter(|min| *min == self.max())
    }

    /// Draws the size of the next block, in bytes; a fixed size leaves the generator untouched.
    #[inline]
    pub fn pick(&self, random: &mut impl Rng) -> u32 {
        if let Kind::Fixed(bytes) = self.0 { bytes } else { self.draw(random) }
    }

    /// Not inlined, so that blocks of one size cost only a comparison.
    #[inline(never)]
    fn draw(&self, random: &mut impl Rng) -> u32 {
        match &self.0 {
            Kind::Fixed(bytes) => *bytes,
            Kind::Range { min, count } => min * (1 + scale(random.next_u64(), u64::from(*count)) as u32),
            Kind::Split(entries) => {
                let draw = random.next_u64() >> 32;
                entries.iter().find(|entry| draw < entry.below).map_or(0, |entry| entry.bytes)
            }
        }
    }

    /// Checks that a target accepts all of these sizes; `target` is its name for the message.
    ///
    /// `logical_block_bytes` is 1 with the page cache, since only O_DIRECT needs alignment (open(2)).
    ///
    /// # Errors
    /// `Usage` naming the first size that is no multiple of the logical block, or larger than the target.
    pub fn check(&self, target: &str, logical_block_bytes: u32, target_bytes: u64) -> Result<()> {
        let what = || format!("--bs {self} on {target}");
        if let Some(odd) = self.not_multiple_of(logical_block_bytes) {
            let size = if self.single().is_some() { String::new() } else { format!("{odd} is ") };
            let near = Bytes(u64::from(odd).next_multiple_of(u64::from(logical_block_bytes)));
            return Err(Error::usage(
                what(),
                format!("{size}not a multiple of the logical block size {logical_block_bytes}"),
            )
            .remedy(format!("use {near}, or --direct false")));
        }
        if u64::from(self.max()) > target_bytes {
            let (block, target_bytes) = (Bytes(self.max().into()), Bytes(target_bytes));
            return Err(Error::usage(what(), format!("a block of {block} is larger than the target, {target_bytes}"))
                .remedy("use smaller blocks or a larger target"));
        }
        Ok(())
    }

    /// The first size that is not a multiple of `bytes`.
    pub(super) fn not_multiple_of(&self, bytes: u32) -> Option<u32> {
        let odd = |size: &u32| !size.is_multiple_of(bytes.max(1));
        match &self.0 {
            Kind::Fixed(size) => Some(*size).filter(odd),
            Kind::Range { min, .. } => Some(*min).filter(odd),
            Kind::Split(entries) => entries.iter().map(|entry| entry.bytes).find(odd),
        }
    }
}

impl FromStr for BlockSizes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let kind = if text.contains([':', '/']) {
            parse_split(text)
        } else if let Some((min, max)) = text.split_once('-') {
            parse_range(min, max)
        } else {
            parse_size(text).map(Kind::Fixed)
        };
        kind.map(Self).map_err(|cause| {
            Error::usage(format!("block size `{text}`"), cause).remedy("write it like 4k, 4k-64k or 4k/70:64k/30")
        })
    }
}

fn parse_size(text: &str) -> Result<u32, String> {
    let bytes = text.parse::<Bytes>().map_err(|error| format!("`{text}`: {}", error.cause()))?.0;
    match u32::try_from(bytes) {
        Ok(bytes @ 1..=BlockSizes::BYTES_MAX) => Ok(bytes),
        _ => Err(format!("`{text}` is not between 1 byte and 1g")),
    }
}

fn parse_range(min: &str, max: &str) -> Result<Kind, String> {
    let (min, max) = (parse_size(min)?, parse_size(max)?);
    match max / min {
        0 => Err("the range runs backwards".into()),
        1 if min == max => Ok(Kind::Fixed(min)),
        1 => Err(format!("the range holds only one multiple of {min}")),
        count => Ok(Kind::Range { min, count }),
    }
}

fn parse_split(text: &str) -> Result<Kind, String> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > ENTRIES_MAX {
        return Err(format!("{} sizes; the limit is {ENTRIES_MAX}", parts.len()));
    }
    let mut entries = parts.into_iter().map(parse_entry).collect::<Result<Vec<Entry>, String>>()?;
    share_out(&mut entries)?;
    match entries[..] {
        [Entry { bytes, .. }] => Ok(Kind::Fixed(bytes)),
        _ => Ok(Kind::Split(entries.into())),
    }
}

fn parse_entry(text: &str) -> Result<Entry, String> {
    let (size, share) = text.split_once('/').unwrap_or((text, ""));
    let percent = match share {
        "" => None,
        share => match share.parse::<u8>() {
            Ok(percent @ 1..=100) => Some(percent),
            _ => return Err(format!("`{share}` is not a percentage between 1 and 100")),
        },
    };
    Ok(Entry { bytes: parse_size(size)?, percent, below: 0 })
}

/// Turns percentages into thresholds; entries without a percentage share what the others leave.
fn share_out(entries: &mut [Entry]) -> Result<(), String> {
    let given: u64 = entries.iter().filter_map(|entry| entry.percent).map(u64::from).sum();
    let open = entries.iter().filter(|entry| entry.percent.is_none()).count() as u64;
    if given > 100 || (open == 0 && given < 100) {
        return Err(format!("the percentages sum to {given}, not 100"));
    }
    if open > 0 && given == 100 {
        return Err("the percentages sum to 100 and leave nothing for the sizes without one".into());
    }
    // In parts of 100 * open, so that an uneven rest is shared without rounding.
    let parts = open.max(1);
    let mut sum = 0;
    for entry in entries {
        sum += entry.percent.map_or(100 - given, |percent| u64::from(percent) * parts);
        entry.below = (sum << 32) / (100 * parts);
    }
    Ok(())
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fixed(bytes) => Bytes(u64::from(*bytes)).fmt(f),
            Kind::Range { min, .. } => write!(f, "{}-{}", Bytes(u64::from(*min)), Bytes(u64::from(self.max()))),
            Kind::Split(entries) => entries.iter().enumerate().try_for_each(|(place, entry)| {
                let colon = if place == 0 { "" } else { ":" };
                write!(f, "{colon}{}", Bytes(u64::from(entry.bytes)))?;
                entry.percent.map_or(Ok(()), |percent| write!(f, "/{percent}"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random_stream;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sizes(text: &str) -> BlockSizes {
        text.parse().unwrap()
    }

    fn shares(text: &str) -> BTreeMap<u32, f64> {
        const DRAWS: u32 = 100_000;
        let (sizes, mut random) = (sizes(text), random_stream(7, 0));
        let mut shares = BTreeMap::new();
        for _ in 0..DRAWS {
            *shares.entry(sizes.pick(&mut random)).or_insert(0.0) += 1.0 / f64::from(DRAWS);
        }
        shares
    }

    #[test]
    fn a_fixed_size_is_its_own_smallest_and_largest() {
        assert_eq!(sizes("4k"), BlockSizes::fixed(4096).unwrap());
        assert_eq!((sizes("4k").min(), sizes("4k").max(), sizes("4k").single()), (4096, 4096, Some(4096)));
        assert_eq!(sizes("4k-4k"), sizes("4k"));
        assert_eq!((sizes("4k/100"), sizes("4k/")), (sizes("4k"), sizes("4k")));
        assert_eq!(sizes("4k/30:4k").single(), Some(4096));
        assert!(BlockSizes::fixed(0).is_err() && BlockSizes::fixed((1 << 30) + 1).is_err());
    }

    #[test]
    fn a_fixed_size_draws_nothing_from_the_generator() {
        let mut random = random_stream(1, 0);
        assert_eq!(sizes("8k").pick(&mut random), 8192);
        assert_eq!(random, random_stream(1, 0));
    }

    #[test]
    fn a_range_takes_each_multiple_of_its_smallest_size_equally_often() {
        let shares = shares("4k-64k");
        assert_eq!(shares.keys().copied().collect::<Vec<_>>(), (1..=16).map(|n| n * 4096).collect::<Vec<_>>());
        assert!(shares.values().all(|share| (share - 1.0 / 16.0).abs() < 0.005), "{shares:?}");
        assert_eq!((sizes("4k-64k").min(), sizes("4k-64k").max(), sizes("4k-64k").single()), (4096, 65536, None));
    }

    #[test]
    fn a_range_ends_at_the_last_multiple_of_its_smallest_size() {
        assert_eq!(sizes("4k-10k").to_string(), "4k-8k");
        let error = "4k-7k".parse::<BlockSizes>().unwrap_err().to_string();
        assert!(error.contains("only one multiple of 4096"), "{error}");
    }

    #[test]
    fn a_split_takes_each_size_as_often_as_it_says() {
        let shares = shares("4k/70:64k/30");
        assert!((shares[&4096] - 0.7).abs() < 0.01 && (shares[&65536] - 0.3).abs() < 0.01, "{shares:?}");
        assert_eq!((sizes("8k/70:1k/30").min(), sizes("8k/70:1k/30").max()), (1024, 8192));
    }

    #[test]
    fn shares_left_out_divide_the_rest_evenly() {
        let some = shares("4k/50:1k/:32k");
        assert!((some[&4096] - 0.5).abs() < 0.01 && (some[&1024] - 0.25).abs() < 0.01, "{some:?}");
        let none = shares("1k:2k:4k");
        assert!(none.len() == 3 && none.values().all(|share| (share - 1.0 / 3.0).abs() < 0.01), "{none:?}");
    }

    #[test]
    fn a_split_that_does_not_sum_to_100_is_refused_with_its_sum() {
        for (text, sum) in [("4k/50:8k/40", "sum to 90"), ("4k/60:8k/60", "sum to 120"), ("4k/60:8k/60:1k", "120")] {
            let error = text.parse::<BlockSizes>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(sum), "{error}");
        }
        assert!("4k/100:8k".parse::<BlockSizes>().unwrap_err().to_string().contains("leave nothing"));
    }

    #[test]
    fn texts_that_are_no_block_size_are_refused() {
        for text in
            ["", "0", "2g", "-", "4k-", "-4k", "8k-4k", ":", "4k/0:8k", "4k/a:8k", "4k:", "4k/50/50:8k", "4k,8k"]
        {
            assert!(text.parse::<BlockSizes>().is_err(), "{text}");
        }
        assert_eq!(sizes(&vec!["4k"; 64].join(":")).single(), Some(4096));
        assert!(vec!["4k"; 65].join(":").parse::<BlockSizes>().unwrap_err().to_string().contains("65 sizes"));
    }

    #[test]
    fn a_size_that_the_target_cannot_take_is_refused_with_a_remedy() {
        assert_eq!(
            sizes("1000").check("/dev/vda", 512, 1 << 30).unwrap_err().to_string(),
            "--bs 1000 on /dev/vda: not a multiple of the logical block size 512; use 1k, or --direct false"
        );
        assert_eq!(
            sizes("4k/50:512/50").check("x", 4096, 1 << 30).unwrap_err().to_string(),
            "--bs 4k/50:512/50 on x: 512 is not a multiple of the logical block size 4096; use 4k, or --direct false"
        );
        assert_eq!(
            sizes("1m").check("x", 512, 65536).unwrap_err().to_string(),
            "--bs 1m on x: a block of 1m is larger than the target, 64k; use smaller blocks or a larger target"
        );
        assert!(sizes("512-64k").check("x", 512, 65536).is_ok() && sizes("1000").check("x", 1, 1000).is_ok());
    }

    fn any_sizes() -> impl Strategy<Value = BlockSizes> {
        let size = 1u32..=1 << 30;
        let fixed = size.clone().prop_map(|bytes| bytes.to_string());
        let range = (1u32..=1 << 20, 1u32..=1024).prop_map(|(min, count)| format!("{min}-{}", min * count));
        let split = prop::collection::vec(size, 2..=64)
            .prop_map(|sizes| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("/1:"));
        prop_oneof![fixed, range, split].prop_map(|text| text.parse().unwrap())
    }

    proptest! {
        #[test]
        fn printed_block_sizes_parse_back_to_themselves(sizes in any_sizes()) {
            prop_assert_eq!(sizes.to_string().parse::<BlockSizes>().unwrap(), sizes);
        }

        #[test]
        fn no_text_makes_the_block_size_parser_panic(text in "(\\PC|[0-9kmg/:-]){0,20}") {
            let _ = text.parse::<BlockSizes>();
        }

        #[test]
        fn a_drawn_size_lies_between_smallest_and_largest(sizes in any_sizes(), seed: u64) {
            let size = sizes.pick(&mut random_stream(seed, 0));
            prop_assert!((sizes.min()..=sizes.max()).contains(&size) && size > 0);
        }
    }
}
