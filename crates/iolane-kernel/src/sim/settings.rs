//! What a simulated device does besides what it is asked for, and how that is written in its name. `sim` applies it.

use std::fmt;
use std::str::FromStr;

use iolane_core::units::{Bytes, parse_duration};
use iolane_core::{Error, Result, did_you_mean};
use iolane_drive::{Drive, Profile};

use super::faults::Faults;

/// The behaviour of a simulated device, written after the size of its target: `sim:64m,seed=7,short=0.01`.
#[derive(Debug, Clone, PartialEq)]
pub struct SimSettings {
    /// Seed of everything below.
    pub seed: u64,
    /// The time that requests take.
    pub timing: Timing,
    /// Requests that do not end as they should.
    pub faults: Faults,
    /// The drive stalls once per this many requests, for `stall_ns`; 0 for never (`stall-every=1000`).
    pub stall_every: u64,
    /// The length of a stall in nanoseconds (`stall=100ms`).
    pub stall_ns: u64,
    /// Targets of this process that name the same world share one clock (`world=db`), and a queue can have several of them. Without it a
    /// target has a clock of its own.
    pub world: Option<String>,
    /// Targets that name the same drive of a world are on one drive (`drive=a`): their requests share its units, tags and ceilings. Without
    /// it a target has a drive of its own.
    pub drive: Option<String>,
}

/// The time that requests take.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// Every request alike, however many there are: a latency, and what chance adds.
    Fixed {
        /// The least time a request takes, in nanoseconds (`latency=80us`).
        latency_ns: u64,
        /// The most that is added to it, uniformly drawn, in nanoseconds (`jitter=40us`). It reorders completions.
        jitter_ns: u64,
    },
    /// A drive with units, tags and ceilings: the published one of a profile (`profile=optane`), or another one (`read=80us`, `write=20us`,
    /// `spread=0.15`, `units=64`, `iops=500000`, `write-iops=100000`, `bandwidth=3g`, `page=4k`, `tags=1023`).
    Units(Drive),
}

impl Default for SimSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            timing: Timing::Fixed { latency_ns: 80_000, jitter_ns: 40_000 },
            faults: Faults::default(),
            stall_every: 0,
            stall_ns: 0,
            world: None,
            drive: None,
        }
    }
}

/// Every setting, and how it is written.
const FORMS: [(&str, &str); 25] = [
    ("seed", "seed=N"),
    ("latency", "latency=80us"),
    ("jitter", "jitter=40us"),
    ("profile", "profile=optane"),
    ("read", "read=80us"),
    ("write", "write=20us"),
    ("spread", "spread=0.15"),
    ("units", "units=64"),
    ("page", "page=4k"),
    ("iops", "iops=500000"),
    ("write-iops", "write-iops=100000"),
    ("bandwidth", "bandwidth=3g"),
    ("tags", "tags=1023"),
    ("stall-every", "stall-every=N"),
    ("stall", "stall=100ms"),
    ("error", "error=0.001"),
    ("short", "short=0.01"),
    ("lost", "lost=0.001"),
    ("torn", "torn=0.001"),
    ("altered", "altered=0.001"),
    ("misdirected", "misdirected=0.001"),
    ("altered-read", "altered-read=0.001"),
    ("misdirected-read", "misdirected-read=0.001"),
    ("world", "world=NAME"),
    ("drive", "drive=NAME"),
];

const UNITS_MAX: u64 = 1 << 16;
const IOPS_MAX: u64 = 1_000_000_000;

/// A drive of flash, to which settings are added.
const FLASH: Drive = Drive {
    read_ns: 80_000.0,
    write_ns: 20_000.0,
    spread: 0.15,
    units: 64.0,
    iops: 1e6,
    write_iops: None,
    bytes_per_s: 4e9,
    page_bytes: 4096,
    tags: 1023,
};

impl SimSettings {
    /// Whether both are settings of one drive.
    pub(super) fn is_drive_of(&self, other: &Self) -> bool {
        let of_drive = |of: &Self| (of.timing.clone(), of.stall_every, of.stall_ns);
        of_drive(self) == of_drive(other)
    }

    fn units(&mut self) -> &mut Drive {
        if let Timing::Fixed { .. } = self.timing {
            self.timing = Timing::Units(FLASH);
        }
        match &mut self.timing {
            Timing::Units(drive) => drive,
            Timing::Fixed { .. } => unreachable!("it has units now"),
        }
    }
}

/// As settings: `read=80us,write=20us,units=64`.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: f64| format!("{}us", ns.round() / 1e3);
        match self {
            Self::Fixed { latency_ns, jitter_ns } => {
                write!(f, "latency={},jitter={}", us(*latency_ns as f64), us(*jitter_ns as f64))
            }
            Self::Units(drive) => {
                let Drive { read_ns, write_ns, spread, units, iops, write_iops, bytes_per_s, page_bytes, tags } = drive;
                let most = |number: f64, most: u64| number.round().clamp(1.0, most as f64);
                let (units, iops) = (most(*units, UNITS_MAX), most(*iops, IOPS_MAX));
                write!(f, "read={},write={},units={units},iops={iops}", us(*read_ns), us(*write_ns))?;
                if let Some(write_iops) = write_iops {
                    write!(f, ",write-iops={write_iops:.0}")?;
                }
                write!(f, ",bandwidth={}", most(*bytes_per_s, i64::MAX as u64))?;
                // What most drives have is left out.
                if (spread - FLASH.spread).abs() > 1e-3 {
                    write!(f, ",spread={spread:.3}")?;
                }
                if *page_bytes != FLASH.page_bytes {
                    write!(f, ",page={}", Bytes(*page_bytes))?;
                }
                if *tags != FLASH.tags {
                    write!(f, ",tags={tags}")?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for SimSettings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut settings = Self::default();
        let (mut has_latency, mut has_units) = (false, false);
        let parts = || text.split(',').filter(|part| !part.is_empty());
        let is_profile = |part: &&str| part.starts_with("profile=");
        // Other settings of the drive change its profile, wherever they stand.
        for part in parts().filter(is_profile).chain(parts().filter(|part| !is_profile(part))) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let bad = |cause: &str| {
                let known = || format!("write {} (docs/simulated-drives.md)", FORMS.map(|(_, form)| form).join(", "));
                let form = FORMS.iter().find(|(known, _)| *known == name).map(|(_, form)| format!("write {form}"));
                let meant = did_you_mean(name, FORMS.map(|(known, _)| known));
                let remedy = form.or((!meant.is_empty()).then_some(meant));
                Error::usage(format!("sim setting `{part}`"), cause).remedy(remedy.unwrap_or_else(known))
            };
            if !part.contains('=') {
                return Err(bad("it is not NAME=VALUE"));
            }
            let number = || value.parse::<u64>().map_err(|_| bad("not a whole number"));
            let from_1 = |most: u64| match number()? {
                number if (1..=most).contains(&number) => Ok(number),
                _ => Err(bad(&format!("not a whole number from 1 to {most}"))),
            };
            let time_ns = || Ok(parse_duration(value)?.as_nanos() as u64);
            let within = |most: f64| {
                let number = value.parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
                number.ok_or_else(|| bad(&format!("not a number from 0 to {most}")))
            };
            let label = || if value.is_empty() { Err(bad("it has no name")) } else { Ok(Some(value.to_owned())) };
            match name {
                "seed" => settings.seed = number()?,
                "short" => settings.faults.short = within(1.0)?,
                "error" => settings.faults.error = within(1.0)?,
                "lost" => settings.faults.lost = within(1.0)?,
                "torn" => settings.faults.torn = within(1.0)?,
                "altered" => settings.faults.altered = within(1.0)?,
                "misdirected" => settings.faults.misdirected = within(1.0)?,
                "altered-read" => settings.faults.altered_read = within(1.0)?,
                "misdirected-read" => settings.faults.misdirected_read = within(1.0)?,
                "stall-every" => settings.stall_every = number()?,
                "stall" => settings.stall_ns = time_ns()?,
                "world" => settings.world = label()?,
                "drive" => settings.drive = label()?,
                "latency" | "jitter" => {
                    has_latency = true;
                    if let Timing::Fixed { latency_ns, jitter_ns } = &mut settings.timing {
                        *(if name == "latency" { latency_ns } else { jitter_ns }) = time_ns()?;
                    }
                }
                _ => {
                    has_units = true;
                    let drive = settings.units();
                    match name {
                        "profile" => {
                            let unknown = || bad(&format!("not one of {}", Profile::names()));
                            *drive = Profile::of(value).ok_or_else(unknown)?.drive();
                        }
                        "read" => drive.read_ns = time_ns()? as f64,
                        "write" => drive.write_ns = time_ns()? as f64,
                        "spread" => drive.spread = within(3.0)?,
                        "units" => drive.units = from_1(UNITS_MAX)? as f64,
                        "iops" => drive.iops = from_1(IOPS_MAX)? as f64,
                        "write-iops" => drive.write_iops = Some(from_1(IOPS_MAX)? as f64),
                        "bandwidth" => drive.bytes_per_s = value.parse::<Bytes>()?.0.max(1) as f64,
                        "page" => drive.page_bytes = value.parse::<Bytes>()?.0.max(512),
                        "tags" => drive.tags = from_1(1 << 16)? as u32,
                        _ => return Err(bad("no such setting")),
                    }
                }
            }
        }
        if has_latency && has_units {
            return Err(Error::usage(format!("sim settings `{text}`"), "a drive with units has no fixed latency")
                .remedy("write read=80us and spread=0.15 instead of latency and jitter"));
        }
        if settings.drive.is_some() && settings.world.is_none() {
            return Err(Error::usage(format!("sim settings `{text}`"), "only targets of a world share a drive")
                .remedy("add world=NAME"));
        }
        Ok(settings)
    }
}
