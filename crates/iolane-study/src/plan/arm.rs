//! An arm: one cell of a study. Two arms with the same factors are one.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use iolane::{Error, IoPath, Result};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::{Drives, Factor, Group, NamedPath, Scale, Study};
use crate::workload::{Access, BlockSizes};

/// One cell of a study: a path, a workload and a placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The study's name for the path.
    pub name: String,
    /// The path.
    #[serde(with = "crate::text")]
    pub path: IoPath,
    /// What measures it where that is not iolane itself, such as `fio`.
    pub peer: Option<String>,
    /// What requests do.
    #[serde(with = "crate::text")]
    pub rw: Access,
    /// Block size in bytes.
    #[serde(with = "crate::text")]
    pub bs: BlockSizes,
    /// Requests in flight on each queue.
    pub depth: u32,
    /// Threads, a queue each.
    pub threads: usize,
    /// Drives they are spread over.
    pub drives: usize,
    /// Processors that all threads together have to make do with; no limit if `None`.
    pub cores: Option<usize>,
}

impl Arm {
    /// The value of a factor that is a number; `None` for a path, for reads and writes, and for cores without a limit.
    pub fn number(&self, factor: Factor) -> Option<u64> {
        match factor {
            Factor::Path | Factor::Rw => None,
            Factor::Bs => Some(self.bs.max().into()),
            Factor::Depth => Some(self.depth.into()),
            Factor::Threads => Some(self.threads as u64),
            Factor::Drives => Some(self.drives as u64),
            Factor::Cores => self.cores.map(|cores| cores as u64),
        }
    }

    /// The value of a factor as it is written.
    pub fn shown(&self, factor: Factor) -> String {
        match factor {
            Factor::Path => self.label(),
            Factor::Rw => self.rw.to_string(),
            Factor::Bs => self.bs.to_string(),
            Factor::Depth => self.depth.to_string(),
            Factor::Threads => self.threads.to_string(),
            Factor::Drives => self.drives.to_string(),
            Factor::Cores => self.cores.map_or("all".into(), |cores| cores.to_string()),
        }
    }

    /// The path's name, with the peer's before it.
    pub fn label(&self) -> String {
        match &self.peer {
            None => self.name.clone(),
            Some(peer) => format!("{peer} {}", self.name),
        }
    }
}

#[cfg(test)]
impl Arm {
    /// An arm of the null path under that name, for tests to which all else is one.
    pub(crate) fn of_null(name: &str) -> Self {
        Self {
            name: name.into(),
            path: IoPath::new("null"),
            peer: None,
            rw: Access::RandRead,
            bs: BlockSizes::fixed(4096).unwrap(),
            depth: 1,
            threads: 1,
            drives: 1,
            cores: None,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} depth {}", self.label(), self.rw, self.bs, self.depth)?;
        if self.threads > 1 {
            write!(f, ", {} threads", self.threads)?;
        }
        if self.drives > 1 {
            write!(f, " on {} drives", self.drives)?;
        }
        match self.cores {
            Some(1) => f.write_str(", 1 core"),
            Some(cores) => write!(f, ", {cores} cores"),
            None => Ok(()),
        }
    }
}

/// How many processors an arm's threads have to make do with: `1`, `"J"`, `"J+2"`, `"2J"` for J threads, `"all"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// No limit.
    All,
    /// So many.
    Count(usize),
    /// So many times the threads, and so many more.
    PerThread {
        /// Times the threads.
        times: usize,
        /// And so many more.
        more: usize,
    },
}

impl Cores {
    /// How many that is with so many threads; `None` without a limit.
    pub fn count(self, threads: usize) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Count(count) => Some(count),
            Self::PerThread { times, more } => Some(times.saturating_mul(threads).saturating_add(more)),
        }
    }
}

impl FromStr for Cores {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::usage(format!("cores `{text}`"), "not a number above 0, J, J+N, NJ or all");
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number <= 1 << 16).ok_or_else(bad);
        let cores = match text.split_once('J') {
            None if text == "all" => Self::All,
            None => Self::Count(number(text)?),
            Some((times, more)) => Self::PerThread {
                times: if times.is_empty() { 1 } else { number(times)? },
                more: if more.is_empty() { 0 } else { number(more.strip_prefix('+').ok_or_else(bad)?)? },
            },
        };
        if cores.count(1) == Some(0) { Err(bad()) } else { Ok(cores) }
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;

        impl Visitor<'_> for Count {
            type Value = Cores;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of cores, \"J\", \"J+1\", \"2J\" or \"all\"")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Cores, E> {
                count.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cores, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Count)
    }
}

/// More arms than this no one waits for.
const ARMS_MAX: usize = 100_000;

impl Study {
    /// Every arm of the study at a scale, each once, in the order of the file.
    ///
    /// # Errors
    /// `Usage` if there are more than 100,000 of them, or none.
    pub fn arms(&self, scale: Scale) -> Result<Vec<Arm>> {
        let what = || format!("study {}", self.name);
        let count = self.groups.iter().try_fold(0usize, |sum, group| sum.checked_add(group.count(scale)?));
        if count.is_none_or(|count| count > ARMS_MAX) {
            return Err(Error::usage(what(), format!("it has more than {ARMS_MAX} arms"))
                .remedy("give its factors fewer values"));
        }
        let mut known = HashSet::new();
        let mut arms: Vec<Arm> = self.groups.iter().flat_map(|group| group.arms(scale)).collect();
        arms.retain(|arm| known.insert(arm.to_string()));
        match arms.is_empty() {
            true => Err(Error::usage(what(), "it has no arm").remedy("give it a [[group]] with a path")),
            false => Ok(arms),
        }
    }
}

impl Study {
    /// Whether an arm of it writes.
    pub fn writes(&self) -> bool {
        let access = self.groups.iter().flat_map(|group| group.access.scaled.iter().chain(&group.access.full));
        access.into_iter().any(|access| access.writes())
    }
}

impl Group {
    /// How many combinations there are; `None` if that is no number of this machine.
    fn count(&self, scale: Scale) -> Option<usize> {
        let lengths = [
            self.paths.len(),
            self.access.at(scale).len(),
            self.block_sizes.at(scale).len(),
            self.depths.at(scale).len(),
            self.threads.at(scale).len(),
            self.drives.at(scale).len(),
            self.cores.at(scale).len(),
        ];
        lengths.into_iter().try_fold(1usize, usize::checked_mul)
    }

    fn arms(&self, scale: Scale) -> Vec<Arm> {
        let mut arms = Vec::new();
        for (rw, bs) in product(self.access.at(scale), self.block_sizes.at(scale)) {
            for (threads, drives) in product(self.threads.at(scale), self.drives.at(scale)) {
                for (cores, depth) in product(self.cores.at(scale), self.depths.at(scale)) {
                    arms.extend(self.paths.iter().map(|NamedPath { name, path }| Arm {
                        name: name.clone(),
                        path: path.clone(),
                        peer: None,
                        rw: *rw,
                        bs: bs.clone(),
                        depth: *depth,
                        threads: *threads,
                        drives: match drives {
                            Drives::Count(count) => *count,
                            Drives::PerThread => *threads,
                        },
                        cores: cores.count(*threads),
                    }));
                }
            }
        }
        arms
    }
}

fn product<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}
