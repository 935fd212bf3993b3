//! The numbers of a drive. They are generic over what a number is: a plain one where it is used, one with an interval in a machine's
//! file.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A drive: parallel units, each of which serves one page at a time, behind a controller and a bus with a ceiling each.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Drive<N = f64> {
    /// The mean time that a unit takes to read a page, in nanoseconds.
    pub read_ns: N,
    /// The mean time that a unit takes to accept the write of a page, in nanoseconds.
    pub write_ns: N,
    /// The standard deviation of the logarithm of these times.
    pub spread: N,
    /// Units; a page is on a random one.
    pub units: N,
    /// The most requests per second that the controller takes.
    pub iops: N,
    /// The most writes per second, if that is less.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub write_iops: Option<f64>,
    /// The most bytes per second.
    pub bytes_per_s: N,
    /// What a unit serves at once, in bytes.
    #[cfg_attr(feature = "serde", serde(default = "page"))]
    pub page_bytes: u64,
    /// The most requests of a queue that it holds at once; others wait in the kernel.
    #[cfg_attr(feature = "serde", serde(default = "tags"))]
    pub tags: u32,
}

#[cfg(feature = "serde")]
fn page() -> u64 {
    4096
}

#[cfg(feature = "serde")]
fn tags() -> u32 {
    1023
}

impl<N> Drive<N> {
    /// Its numbers, with their names.
    pub fn numbers(&self) -> [(&'static str, &N); 6] {
        let Self { read_ns, write_ns, spread, units, iops, write_iops: _, bytes_per_s, page_bytes: _, tags: _ } = self;
        [
            ("read_ns", read_ns),
            ("write_ns", write_ns),
            ("spread", spread),
            ("units", units),
            ("iops", iops),
            ("bytes_per_s", bytes_per_s),
        ]
    }

    /// The same drive with each number made into another one, given its name.
    pub fn map<M>(&self, mut number: impl FnMut(&'static str, &N) -> M) -> Drive<M> {
        let [read_ns, write_ns, spread, units, iops, bytes_per_s] = self.numbers().map(|(name, of)| number(name, of));
        let &Self { write_iops, page_bytes, tags, .. } = self;
        Drive { read_ns, write_ns, spread, units, iops, write_iops, bytes_per_s, page_bytes, tags }
    }
}

/// What all drives of a node share, such as the lanes of a switch.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Link {
    /// The most bytes per second.
    pub bytes_per_s: f64,
}
