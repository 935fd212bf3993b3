//! The requests of a block device, from its counters and from looks at what is in flight.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use iolane::{Error, Result};

use super::observed::{DriveInUse, InFlight, Requests};

/// A device, and the files that a process has open on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnDevice {
    pub(super) device: (u32, u32),
    pub(super) files: usize,
    pub(super) direct_files: usize,
    pub(super) durable_files: usize,
}

/// A device that is watched.
pub(super) struct Watched {
    on: OnDevice,
    name: String,
    stat: File,
    in_flight: File,
    /// Whether its flushes are counted.
    counts_flushes: bool,
    before: Counters,
    looks: Vec<u32>,
}

impl Watched {
    pub(super) fn start(sys: &Path, on: OnDevice) -> Result<Self> {
        let (major, minor) = on.device;
        let folder = sys.join(format!("dev/block/{major}:{minor}"));
        let folder = fs::canonicalize(&folder).map_err(|error| Error::system(folder.display().to_string(), error))?;
        let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let open = |file: &str| {
            let file = folder.join(file);
            File::open(&file).map_err(|error| Error::system(file.display().to_string(), error))
        };
        let (stat, in_flight) = (open("stat")?, open("inflight")?);
        // A partition is a folder of its disk. What is built on drives has no queues of its own, and its flushes are counted as those of
        // the drives (block/blk-flush.c, blk_account_io_flush).
        let counts_flushes = [folder.join("mq"), folder.join("../mq")].iter().any(|queues| queues.is_dir());
        let before = counters(&name, &stat)?;
        Ok(Self { on, name, stat, in_flight, counts_flushes, before, looks: Vec::new() })
    }

    /// Counts the requests that are in flight now.
    pub(super) fn look(&mut self) {
        // A look that fails is none: the device may be going away, which its counters tell.
        self.looks.extend(text(&self.in_flight).ok().as_deref().and_then(parse_in_flight));
    }

    pub(super) fn end(self, seconds: f64) -> Result<DriveInUse> {
        let Self { on, name, stat, counts_flushes, before, looks, .. } = self;
        let after = counters(&name, &stat)?;
        let (reads, writes, flushes_per_s) = after.since(&before, seconds);
        Ok(DriveInUse {
            name,
            files: on.files,
            direct_files: on.direct_files,
            durable_files: on.durable_files,
            reads,
            writes,
            flushes_per_s: flushes_per_s.filter(|_| counts_flushes),
            in_flight: InFlight::of(looks),
        })
    }
}

/// The unit of the counters, whatever the device's block is.
const SECTOR_BYTES: f64 = 512.0;

/// Requests of one kind since the device appeared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    requests: u64,
    sectors: u64,
}

/// The counters of a device, Documentation/block/stat.rst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    reads: Count,
    writes: Count,
    flushes: Option<u64>,
}

impl Counters {
    /// Reads, writes and flushes per second since earlier counters.
    fn since(&self, before: &Self, seconds: f64) -> (Requests, Requests, Option<f64>) {
        let flushes = self.flushes.zip(before.flushes).map(|(after, before)| after.wrapping_sub(before));
        let requests = |after: Count, before: Count, others: u64| {
            let count = after.requests.wrapping_sub(before.requests).saturating_sub(others) as f64;
            let bytes = after.sectors.wrapping_sub(before.sectors) as f64 * SECTOR_BYTES;
            Requests::new(count / seconds, bytes / seconds)
        };
        let reads = requests(self.reads, before.reads, 0);
        // A flush is counted as a write of no bytes, too (`blk_flush_restore_request` in block/blk-flush.c).
        let writes = requests(self.writes, before.writes, flushes.unwrap_or(0));
        (reads, writes, flushes.map(|flushes| flushes as f64 / seconds))
    }
}

fn counters(name: &str, stat: &File) -> Result<Counters> {
    let text = text(stat).map_err(|error| Error::system(format!("the counters of {name}"), error))?;
    parse_stat(&text).ok_or_else(|| Error::unavailable(name.to_owned(), "its counters are not those of a block device"))
}

/// The text of a file of sysfs, which is made anew for each read from its start.
fn text(file: &File) -> std::io::Result<String> {
    let mut bytes = [0; 512];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn parse_stat(text: &str) -> Option<Counters> {
    let fields: Vec<u64> = text.split_ascii_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let count = |requests: usize| Some(Count { requests: *fields.get(requests)?, sectors: *fields.get(requests + 2)? });
    Some(Counters { reads: count(0)?, writes: count(4)?, flushes: fields.get(15).copied() })
}

/// Reads and writes in flight together.
fn parse_in_flight(text: &str) -> Option<u32> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u32>().ok());
    fields.next()??.checked_add(fields.next()??)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "  193418  36 13158058 38271 94731 70101 3389010 52441 0 80388 98712 1 2 3 4 2716 7999\n";

    #[test]
    fn the_counters_are_those_of_stat_rst_and_older_kernels_count_no_flushes() {
        let expected = Counters {
            reads: Count { requests: 193_418, sectors: 13_158_058 },
            writes: Count { requests: 94_731, sectors: 3_389_010 },
            flushes: Some(2716),
        };
        assert_eq!(parse_stat(STAT), Some(expected));
        let older = STAT.split_ascii_whitespace().take(11).collect::<Vec<_>>().join(" ");
        assert_eq!(parse_stat(&older), Some(Counters { flushes: None, ..expected }));
    }

    #[test]
    fn a_flush_is_no_write_and_writes_without_one_are_all_counted() {
        let count = |requests, sectors| Count { requests, sectors };
        let before = Counters { reads: count(5, 8), writes: count(10, 80), flushes: Some(1) };
        // 100 writes of 4 KiB, each with a flush, in two seconds.
        let after = Counters { reads: count(5, 8), writes: count(210, 880), flushes: Some(101) };
        let (reads, writes, flushes) = after.since(&before, 2.0);
        assert_eq!((reads, flushes), (Requests::default(), Some(50.0)));
        assert_eq!(writes, Requests { per_s: 50.0, mean_bytes: 4096.0 });
        let uncounted = |counters: Counters| Counters { flushes: None, ..counters };
        let (_, writes, flushes) = uncounted(after).since(&uncounted(before), 2.0);
        assert_eq!((writes.per_s, flushes), (100.0, None));
    }

    #[test]
    fn what_is_in_flight_is_described_by_the_looks_that_found_requests() {
        let looks = [vec![0; 50], vec![4; 40], vec![31; 10]].concat();
        assert_eq!(InFlight::of(looks), InFlight { looks: 100, busy: 0.5, p50: 4, p95: 31, max: 31 });
        assert_eq!(InFlight::of(vec![0; 3]), InFlight { looks: 3, ..InFlight::default() });
        assert_eq!(InFlight::of(Vec::new()), InFlight::default());
        assert_eq!((parse_in_flight("       3       29\n"), parse_in_flight("3")), (Some(32), None));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[0-9 \n-]{0,80}") {
            let _ = (parse_stat(&text), parse_in_flight(&text));
        }
    }
}
