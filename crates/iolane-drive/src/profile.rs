//! The drives of the published studies, by name.

use std::time::Duration;

use crate::Drive;

/// What is known of a drive: its ceilings and its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// The name by which a command line asks for it.
    pub name: &'static str,
    /// Random reads of 4 KiB per second.
    pub reads_per_s: u64,
    /// Random writes of 4 KiB per second.
    pub writes_per_s: u64,
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Of one read at a time.
    pub latency: Duration,
}

/// Every profile.
pub const PROFILES: [Profile; 4] = [
    // Intel P3600 400 GB, systor22: its text has 320 and 30 k IOPS, and 185 to 190 us at depth 16; data sheet 330908, 2,100 MB/s.
    profile("p3600", [320_000, 30_000], 2_100, 190),
    // Intel Optane P4801X 100 GB, hotstorage23: data sheet, 550 and 250 k IOPS, 2,200 MB/s, some 6 us in the drive.
    profile("optane", [550_000, 250_000], 2_200, 6),
    // Samsung PM9A3, floe26: its text has 6.8 GB/s; data sheet of 1.92 TB, 850 and 130 k IOPS.
    profile("pm9a3", [850_000, 130_000], 6_800, 80),
    // SK Hynix 256 GB, ijraset24: its text has 90 us, 5.5 k writes, and little gain beyond depth 16, where four times 44 k are at most
    // 108 k.
    profile("hynix", [108_000, 5_500], 1_500, 90),
];

const fn profile(
    name: &'static str,
    [reads_per_s, writes_per_s]: [u64; 2],
    megabytes_per_s: u64,
    latency_us: u64,
) -> Profile {
    let (bytes_per_s, latency) = (megabytes_per_s * 1_000_000, Duration::from_micros(latency_us));
    Profile { name, reads_per_s, writes_per_s, bytes_per_s, latency }
}

/// What a drive takes to put a write in its cache, as data sheets state it (some 20 us, the way from the host included).
const WRITE_NS: f64 = 15_000.0;
/// By which units are more than the most reads need, because a page is on a random one.
const SPARE_UNITS: f64 = 1.5;
/// The standard deviation of the logarithm of the time of a unit.
const SPREAD: f64 = 0.15;

impl Profile {
    /// The profile of a name.
    pub fn of(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        PROFILES.map(|profile| profile.name).join(", ")
    }

    /// A drive with this latency and these ceilings. Writes are as fast as its cache takes them, up to their ceiling.
    pub fn drive(&self) -> Drive {
        let read_ns = self.latency.as_nanos() as f64;
        let reads_per_s = self.reads_per_s as f64;
        Drive {
            read_ns,
            write_ns: read_ns.min(WRITE_NS),
            spread: SPREAD,
            units: (SPARE_UNITS * reads_per_s * read_ns / 1e9).ceil(),
            iops: reads_per_s,
            write_iops: Some(self.writes_per_s as f64),
            bytes_per_s: self.bytes_per_s as f64,
            page_bytes: 4096,
            tags: 1023,
        }
    }
}
