//! What a process was seen to do, as a load that can be measured.

use iolane::{Error, Result};
use iolane_measure::observe::{DriveInUse, Observed, Requests};
use iolane_measure::workload::{Access, BlockSizes};
use serde::Serialize;

/// The schema of the document.
pub const OBSERVED_SCHEMA: &str = "iolane.observed/1";

/// What a process was seen to do: schema `iolane.observed/1`, described in `docs/schema/observed.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedDocument {
    pub schema: &'static str,
    #[serde(flatten)]
    pub observed: Observed,
    /// The path that it most likely takes, in iolane's notation.
    pub path: String,
    /// The load as options of `iolane run`, `study` and `advise`; `None` if it cannot be told.
    pub options: Option<String>,
}

impl ObservedDocument {
    pub fn new(observed: Observed, load: Option<&ObservedLoad>) -> Self {
        let path = observed.path().to_string();
        Self { schema: OBSERVED_SCHEMA, observed, path, options: load.map(ObservedLoad::options) }
    }
}

/// The load of the drive that carries most of a process's bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedLoad {
    /// Random: the order of a process's offsets is not visible.
    pub access: Access,
    /// Of reads and writes; `None` if there is only one of them.
    pub read_percent: Option<u8>,
    pub block_sizes: BlockSizes,
    /// Requests in flight on the queue of each thread.
    pub depth: u32,
    pub threads: usize,
    /// Writes for each flush of the drive's cache.
    pub fdatasync: Option<u32>,
    /// Whether each write is durable when it completes.
    pub durable: bool,
}

/// A direction with a smaller share of the requests is left out.
const LEAST_SHARE: f64 = 0.005;
/// Mean sizes of reads and writes that differ by less are one size.
const SAME_SIZE: f64 = 1.5;
/// More writes for each flush than this are writes without one.
const WRITES_PER_FLUSH_MAX: f64 = 10_000.0;
/// The least share of the drive's bytes that shows the load of a process.
const SHARE_MIN: f64 = 0.5;
/// Bytes of calls and of requests that differ by less are the same bytes.
const SAME_BYTES: f64 = 0.1;
/// The least unit of sizes, and the one from which on they are multiples of it.
const SECTOR: f64 = 512.0;
const PAGE: f64 = 4096.0;

impl ObservedLoad {
    /// # Errors
    /// `Failed` if the load cannot be told: the process moved no bytes to or from a drive, another process moved most of them,
    /// or they are those of the page cache.
    pub fn of(observed: &Observed) -> Result<Self> {
        let busy = |drive: &&DriveInUse| drive.bytes_per_s() > 0.0 && observed.stored_bytes_per_s() > 0.0;
        let Some(drive) = observed.drives.first().filter(busy) else { return Err(idle(observed)) };
        let own = OwnRequests::of(observed, drive);
        let share = observed.share_of_bytes().unwrap_or(0.0);
        if share < SHARE_MIN {
            let cause = format!("only {:.0} % of the bytes of {} are its own", 100.0 * share, drive.name);
            return Err(unknown(observed, cause).remedy("watch it while other programs rest"));
        }
        if drive.direct_files == 0 && observed.blocks() && !own.is_of_calls {
            let cause = "the page cache makes its requests, by reading ahead and writing back";
            return Err(unknown(observed, cause.into()).remedy(
                "measure its calls through the page cache: --direct false, and a --size as large as its files",
            ));
        }
        let threads = observed.threads.max(1);
        let (access, read_percent) = match own.share_of_reads() {
            reads if reads > 1.0 - LEAST_SHARE => (Access::RandRead, None),
            reads if reads < LEAST_SHARE => (Access::RandWrite, None),
            reads => (Access::RandRw, Some(percent(reads))),
        };
        // A thread whose calls block has one request in flight. Of the others, the process has its share.
        let in_flight =
            if observed.blocks() { threads as f64 } else { f64::from(drive.in_flight.p95) * share.min(1.0) };
        let durable = access.writes() && drive.durable_files > 0;
        let flushes = drive.flushes_per_s.filter(|flushes| *flushes > 0.0 && access.writes() && !durable);
        let writes_per_flush = flushes.map(|flushes| (own.writes.per_s / flushes).round().max(1.0));
        Ok(Self {
            access,
            read_percent,
            block_sizes: block_sizes(&own, access)?,
            depth: (in_flight / threads as f64).round().max(1.0) as u32,
            threads,
            fdatasync: writes_per_flush.filter(|writes| *writes <= WRITES_PER_FLUSH_MAX).map(|writes| writes as u32),
            durable,
        })
    }

    /// The load as options of `iolane run`, `study` and `advise`.
    pub fn options(&self) -> String {
        let Self { access, read_percent, block_sizes, depth, threads, fdatasync, durable } = self;
        let mut options = format!("--rw {}", access.name());
        let mut add = |option: &str, value: String| options.push_str(&format!(" --{option} {value}"));
        if let Some(percent) = read_percent {
            add("read-percent", percent.to_string());
        }
        add("bs", block_sizes.to_string());
        add("depth", depth.to_string());
        if *threads > 1 {
            add("threads", threads.to_string());
        }
        if let Some(writes) = fdatasync {
            add("fdatasync", writes.to_string());
        }
        if *durable {
            options.push_str(" --durable");
        }
        options
    }
}

fn unknown(observed: &Observed, cause: String) -> Error {
    Error::failed(format!("the load of process {}", observed.pid), cause)
}

/// Of a process that moved no bytes.
fn idle(observed: &Observed) -> Error {
    let names: Vec<&str> = observed.drives.iter().map(|drive| drive.name.as_str()).collect();
    let cause = format!("it moved no bytes to or from {} in {:.1} s", names.join(", "), observed.seconds);
    let why = match (observed.interface.passthrough, observed.called_bytes_per_s() > 0.0) {
        (true, _) => ": the kernel does not account passthrough to a process",
        (false, true) => ": its reads and writes stay in the page cache",
        (false, false) => "",
    };
    unknown(observed, format!("{cause}{why}")).remedy("watch it for longer, while it works: --watch 1m")
}

/// A share as a percentage that leaves some for the other direction.
fn percent(share: f64) -> u8 {
    (100.0 * share).round().clamp(1.0, 99.0) as u8
}

/// The requests of a process: its calls, if their bytes are those that reach drives; otherwise its bytes, in requests of the
/// drive's mean size.
struct OwnRequests {
    reads: Requests,
    writes: Requests,
    /// Whether both are calls.
    is_of_calls: bool,
}

impl OwnRequests {
    fn of(observed: &Observed, drive: &DriveInUse) -> Self {
        let is_same = |calls: Requests, stored: f64| (calls.bytes_per_s() - stored).abs() <= SAME_BYTES * stored;
        let own = |calls: Requests, stored: f64, all: Requests| match (is_same(calls, stored), all.mean_bytes > 0.0) {
            (true, _) => calls,
            (false, true) => Requests { per_s: stored / all.mean_bytes, ..all },
            // Bytes that are not written yet.
            (false, false) => Requests::default(),
        };
        let (read, written) = (observed.read_bytes_per_s, observed.written_bytes_per_s);
        let is_of = |calls: Requests, stored: f64| stored == 0.0 || is_same(calls, stored);
        Self {
            reads: own(observed.read_calls, read, drive.reads),
            writes: own(observed.write_calls, written, drive.writes),
            is_of_calls: is_of(observed.read_calls, read) && is_of(observed.write_calls, written),
        }
    }

    fn share_of_reads(&self) -> f64 {
        self.reads.per_s / (self.reads.per_s + self.writes.per_s)
    }
}

/// The mean size, or those of reads and writes with their shares.
fn block_sizes(own: &OwnRequests, access: Access) -> Result<BlockSizes> {
    let OwnRequests { reads, writes, .. } = own;
    let size = |bytes: f64| {
        let unit = if bytes < PAGE { SECTOR } else { PAGE };
        ((bytes / unit).round().max(1.0) * unit).min(f64::from(BlockSizes::BYTES_MAX)) as u32
    };
    let [of_reads, of_writes] = [reads, writes].map(|requests| size(requests.mean_bytes));
    match access {
        Access::RandRead => BlockSizes::fixed(of_reads),
        Access::RandWrite => BlockSizes::fixed(of_writes),
        _ if f64::from(of_reads.max(of_writes)) > SAME_SIZE * f64::from(of_reads.min(of_writes)) => {
            let share = percent(own.share_of_reads());
            format!("{of_reads}/{share}:{of_writes}/{}", 100 - share).parse()
        }
        _ => BlockSizes::fixed(size((reads.bytes_per_s() + writes.bytes_per_s()) / (reads.per_s + writes.per_s))),
    }
}

#[cfg(test)]
mod tests {
    use iolane_measure::observe::{InFlight, InterfaceInUse};

    use super::*;

    /// A process whose requests on a drive are these, by calls that block if it has one in flight.
    fn observed(reads: (f64, f64), writes: (f64, f64), flushes: f64, in_flight: u32, threads: usize) -> Observed {
        let requests = |(per_s, mean_bytes)| Requests { per_s, mean_bytes };
        let calls = if in_flight > 1 { Requests::default() } else { requests(reads) };
        let drive = DriveInUse {
            name: "nvme0n1".into(),
            files: 1,
            direct_files: 1,
            durable_files: 0,
            reads: requests(reads),
            writes: requests(writes),
            flushes_per_s: Some(flushes),
            in_flight: InFlight { looks: 100, busy: 1.0, p50: in_flight, p95: in_flight, max: in_flight },
        };
        Observed {
            pid: 7,
            program: "store".into(),
            seconds: 5.0,
            threads,
            cores: 1.0,
            ended: false,
            read_calls: calls,
            write_calls: if in_flight > 1 { Requests::default() } else { requests(writes) },
            read_bytes_per_s: drive.reads.bytes_per_s(),
            written_bytes_per_s: drive.writes.bytes_per_s(),
            interface: InterfaceInUse { libaio: true, ..InterfaceInUse::default() },
            drives: vec![drive],
        }
    }

    fn options(observed: &Observed) -> String {
        ObservedLoad::of(observed).unwrap().options()
    }

    #[test]
    fn a_load_has_the_sizes_mix_depth_and_threads_that_were_seen() {
        let reads = observed((9000.0, 8200.0), (0.0, 0.0), 3.0, 31, 4);
        assert_eq!(options(&reads), "--rw randread --bs 8k --depth 8 --threads 4");
        let mixed = observed((700.0, 4096.0), (300.0, 4400.0), 100.0, 1, 1);
        assert_eq!(options(&mixed), "--rw randrw --read-percent 70 --bs 4k --depth 1 --fdatasync 3");
        let two_sizes = observed((800.0, 16384.0), (200.0, 131_072.0), 0.0, 16, 1);
        assert_eq!(options(&two_sizes), "--rw randrw --read-percent 80 --bs 16k/80:128k/20 --depth 16");
        let small = observed((0.0, 0.0), (10.0, 700.0), 10.0, 0, 0);
        assert_eq!(options(&small), "--rw randwrite --bs 512 --depth 1 --fdatasync 1");
    }

    #[test]
    fn a_rare_direction_is_left_out_and_no_share_is_lost_to_rounding() {
        let few_writes = observed((1000.0, 4096.0), (2.0, 1e6), 2.0, 1, 1);
        assert_eq!(options(&few_writes), "--rw randread --bs 4k --depth 1");
        let some = observed((993.0, 4096.0), (7.0, 4096.0), 0.0, 1, 1);
        assert_eq!(options(&some), "--rw randrw --read-percent 99 --bs 4k --depth 1");
    }

    fn refusal(observed: &Observed) -> String {
        ObservedLoad::of(observed).unwrap_err().to_string()
    }

    #[test]
    fn a_process_that_reaches_no_drive_is_refused_with_the_cause() {
        let mut idle = observed((0.0, 0.0), (0.0, 0.0), 0.0, 0, 0);
        assert!(refusal(&idle).contains("no bytes to or from nvme0n1 in 5.0 s; watch"), "{}", refusal(&idle));
        idle.interface.passthrough = true;
        assert!(refusal(&idle).contains("does not account passthrough"));
        idle.interface.passthrough = false;
        idle.read_calls = Requests { per_s: 1.0, mean_bytes: 4096.0 };
        assert!(refusal(&idle).contains("its reads and writes stay in the page cache"));
    }

    #[test]
    fn the_writes_of_another_process_are_not_taken_for_its_own() {
        let mut reader = observed((5000.0, 4096.0), (5000.0, 4096.0), 0.0, 4, 1);
        reader.written_bytes_per_s = 0.0;
        assert_eq!(options(&reader), "--rw randread --bs 4k --depth 2");
        reader.read_bytes_per_s /= 2.0;
        assert!(refusal(&reader).contains("only 25 % of the bytes of nvme0n1 are its own"), "{}", refusal(&reader));
    }

    #[test]
    fn calls_that_block_have_their_own_size_and_one_request_for_each_thread() {
        // The drive splits large ones, and other processes have requests in flight.
        let mut large = observed((60.0, 4_194_304.0), (0.0, 0.0), 0.0, 1, 2);
        large.drives[0].reads = Requests { per_s: 360.0, mean_bytes: 4_194_304.0 / 6.0 };
        large.drives[0].in_flight.p95 = 60;
        assert_eq!(options(&large), "--rw randread --bs 4m --depth 1 --threads 2");
    }

    #[test]
    fn what_the_page_cache_makes_of_calls_is_not_their_load() {
        let mut cached = observed((100.0, 131_072.0), (0.0, 0.0), 0.0, 1, 1);
        cached.drives[0].direct_files = 0;
        // A cache that is missed by every call hides nothing.
        assert_eq!(options(&cached), "--rw randread --bs 128k --depth 1");
        cached.read_calls = Requests { per_s: 10_000.0, mean_bytes: 4096.0 };
        assert!(refusal(&cached).contains("the page cache makes its requests"), "{}", refusal(&cached));
    }

    #[test]
    fn durable_writes_need_no_sync() {
        let mut durable = observed((0.0, 0.0), (100.0, 16384.0), 100.0, 1, 1);
        assert_eq!(options(&durable), "--rw randwrite --bs 16k --depth 1 --fdatasync 1");
        durable.drives[0].durable_files = 1;
        assert_eq!(options(&durable), "--rw randwrite --bs 16k --depth 1 --durable");
    }
}
