//! How fast an emulated drive is: limits of QEMU's throttling, given one by one or as those of a drive that was published.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use iolane_core::units::Bytes;
use iolane_core::{Error, Result};
use iolane_drive::Profile;

use crate::accelerator::Accelerator;

/// Limits of a drive; without any it is as fast as its emulation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DriveSpeed {
    /// Reads per second.
    pub reads_per_s: Option<u64>,
    /// Writes per second.
    pub writes_per_s: Option<u64>,
    /// Bytes per second.
    pub bytes_per_s: Option<Bytes>,
    /// Before a request completes; QEMU's null drive waits for whole milliseconds.
    pub latency: Option<Duration>,
    /// Whether the figures are those of a real drive, of which a translated processor gets a share.
    pub is_real: bool,
}

/// A translated processor needs about four times as long for a request through the kernel: `libaio` one by one at depth 128 makes
/// 33 k IOPS there, 145 k on the processor of systor22. A drive in proportion has a quarter of the speed.
const TRANSLATED_SHARE: u32 = 4;

impl DriveSpeed {
    /// Whether it has limits.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }

    /// Whether some number of requests or bytes saturates it.
    pub fn has_ceiling(&self) -> bool {
        self.reads_per_s.is_some() || self.bytes_per_s.is_some()
    }

    /// The speed in a guest on this accelerator.
    pub(crate) fn on(&self, accelerator: Accelerator) -> Self {
        if !self.is_real {
            return *self;
        }
        let share = if accelerator == Accelerator::Kvm { 1 } else { TRANSLATED_SHARE };
        let of = |limit: u64| limit / u64::from(share);
        // A shorter one than half of what QEMU can wait for is better left to the emulation, which takes some 20 to 100 us.
        let milliseconds = |latency: Duration| (latency * share).as_secs_f64() * 1e3;
        let latency = self.latency.map(|latency| Duration::from_millis(milliseconds(latency).round() as u64));
        Self {
            reads_per_s: self.reads_per_s.map(of),
            writes_per_s: self.writes_per_s.map(of),
            bytes_per_s: self.bytes_per_s.map(|Bytes(bytes)| Bytes(of(bytes))),
            latency: latency.filter(|latency| !latency.is_zero()),
            is_real: true,
        }
    }

    /// The speed in a guest on this accelerator, `80 k reads/s, 525 MB/s: a quarter of the real drive's`; `None` without limits.
    pub fn in_words(&self, accelerator: Accelerator) -> Option<String> {
        let here = self.on(accelerator);
        let share = match self.is_real && accelerator != Accelerator::Kvm {
            true => ": a quarter of the real drive's speed, like the translated processors",
            false => "",
        };
        here.is_limited().then(|| format!("{here}{share}"))
    }

    /// The properties of QEMU's throttle group; empty without a limit.
    pub(crate) fn throttling(&self) -> String {
        let limits = [
            ("x-iops-read", self.reads_per_s),
            ("x-iops-write", self.writes_per_s),
            ("x-bps-total", self.bytes_per_s.map(|Bytes(bytes)| bytes)),
        ];
        limits.into_iter().filter_map(|(key, limit)| Some(format!(",{key}={}", limit?))).collect()
    }
}

impl FromStr for DriveSpeed {
    type Err = Error;

    /// A profile by its name; `null` is a drive without limits.
    fn from_str(name: &str) -> Result<Self> {
        if name == "null" {
            return Ok(Self::default());
        }
        let Some(profile) = Profile::of(name) else {
            return Err(Error::usage(format!("drive `{name}`"), format!("not one of {}, null", Profile::names())));
        };
        Ok(Self {
            reads_per_s: Some(profile.reads_per_s),
            writes_per_s: Some(profile.writes_per_s),
            bytes_per_s: Some(Bytes(profile.bytes_per_s)),
            latency: Some(profile.latency),
            is_real: true,
        })
    }
}

/// `80 k reads/s, 7.5 k writes/s, 525 MB/s, 1 ms`
impl fmt::Display for DriveSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousands = |value: u64| format!("{} k", value as f64 / 1e3);
        let parts = [
            self.reads_per_s.map(|reads| format!("{} reads/s", thousands(reads))),
            self.writes_per_s.map(|writes| format!("{} writes/s", thousands(writes))),
            self.bytes_per_s.map(|Bytes(bytes)| format!("{} MB/s", bytes as f64 / 1e6)),
            self.latency.map(|latency| format!("{} ms", latency.as_secs_f64() * 1e3)),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_drive_has_a_quarter_of_its_speed_beside_translated_processors() {
        let drive: DriveSpeed = "p3600".parse().unwrap();
        assert!(drive.has_ceiling() && drive.is_limited());
        assert_eq!(drive.on(Accelerator::Kvm).to_string(), "320 k reads/s, 30 k writes/s, 2100 MB/s");
        let translated = drive.on(Accelerator::Tcg);
        assert_eq!(translated.to_string(), "80 k reads/s, 7.5 k writes/s, 525 MB/s, 1 ms");
        assert!(
            drive
                .in_words(Accelerator::Tcg)
                .unwrap()
                .starts_with("80 k reads/s, 7.5 k writes/s, 525 MB/s, 1 ms: a quarter")
        );
        let unshared = "320 k reads/s, 30 k writes/s, 2100 MB/s".to_owned();
        assert_eq!(
            (drive.in_words(Accelerator::Kvm), DriveSpeed::default().in_words(Accelerator::Tcg)),
            (Some(unshared), None)
        );
        assert_eq!(translated.throttling(), ",x-iops-read=80000,x-iops-write=7500,x-bps-total=525000000");
    }

    #[test]
    fn limits_that_were_given_are_kept_and_an_unlimited_drive_has_none() {
        let given = DriveSpeed { reads_per_s: Some(1000), ..DriveSpeed::default() };
        assert_eq!(given.on(Accelerator::Tcg), given);
        let unlimited: DriveSpeed = "null".parse().unwrap();
        assert!(!unlimited.is_limited() && !unlimited.has_ceiling() && unlimited.throttling().is_empty());
        assert!("p9999".parse::<DriveSpeed>().unwrap_err().to_string().contains("p3600, optane, pm9a3, hynix, null"));
    }
}
