//! `Access`: whether requests read or write and in which order, parsed from `--rw`.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};

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
    /// Sequential, each request a read or a write at random (`rw` or `readwrite`).
    Rw,
    /// Random offsets, each request a read or a write at random (`randrw`).
    RandRw,
}

impl Access {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
