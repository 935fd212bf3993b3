//! Drives that fail, stall and vanish: every request is answered once, with an error that says what happened, in bounded time.
//! Each test needs a drive made for it, named by its variable, and prints SKIPPED without:
//!
//! - `IOLANE_FAULTS_MEDIA_ERRORS=/dev/nvme2n1`: some or all reads of 4 KiB at multiples of 16 KiB below 1 MiB fail;
//! - `IOLANE_FAULTS_STALLED=/dev/nvme3n1`: any drive, which the test keeps from answering;
//! - `IOLANE_FAULTS_UNPLUG=/dev/nvme4n1`, `IOLANE_FAULTS_UNPLUG_BY=FILE`: whoever reads the line `unplug nvme4` from FILE
//!   takes the drive away; `IOLANE_FAULTS_UNPLUG_NAME` is what it is called there, if the name does not say;
//! - `IOLANE_FAULTS_WRITTEN="/dev/nvme3n1 /dev/nvme4n1"`: of the last two those that the test overwrites, see `writing`;
//! - `IOLANE_FAULTS_MEDDLED=pci:0000:00:05.0,timeout=1s`: a controller without a kernel driver, see `meddling`.
//!
//! A controller without a kernel driver, `pci:0000:00:04.0,timeout=2s`, will do for each.
//!
//! All others are only read. While they run, the kernel's driver gives up soon on every drive. A path that hangs is named, and ends the
//! process.

mod meddling;
mod writing;

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use iolane::{
    Buffer, Completion, Error, ErrorKind, IoError, IoErrorKind, IoPath, Pages, Pool, Queue, QueueConfig, Request,
    Target, TargetKind, TargetOptions,
};
use meddling::KernelLog;
use writing::{Stall, Writes};

const BLOCK_BYTES: usize = 4096;
/// Between one read and the next, so that the kernel does not make one of two.
const STRIDE_BYTES: u64 = 16 << 10;
const BLOCKS: u64 = 64;
const DEPTH: u32 = 8;

/// Writes a line past the harness's capture.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The drive that a variable names; without one the test prints SKIPPED.
fn named(variable: &str, what: &str) -> Option<String> {
    let name = std::env::var(variable).ok();
    if name.is_none() {
        say(&format!("SKIPPED faults {what}: no drive is named; set {variable} to one made for it"));
    }
    name
}

/// One test at a time: what one drive does slows the others.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Short timeouts and no retries of the kernel's NVMe driver, so that a drive that does not answer is given up soon. Dropping
/// it restores what was there, because such timeouts fail good drives on a busy machine.
struct ShortTimeouts {
    before: Vec<(PathBuf, String)>,
}

impl ShortTimeouts {
    /// Of every drive; of none where the tested drive has no kernel driver.
    fn set(device: &str) -> Result<Self> {
        let mut timeouts = Self { before: Vec::new() };
        if device.starts_with("pci:") {
            return Ok(timeouts);
        }
        // Seconds and a number of retries, for commands and drives to come.
        for (name, value) in [("io_timeout", "3"), ("admin_timeout", "3"), ("max_retries", "0")] {
            timeouts.change(format!("/sys/module/nvme_core/parameters/{name}").into(), value)?;
        }
        for entry in std::fs::read_dir("/sys/block").context("/sys/block")? {
            let entry = entry?;
            let milliseconds = entry.path().join("queue/io_timeout");
            if entry.file_name().to_string_lossy().starts_with("nvme") && milliseconds.exists() {
                timeouts.change(milliseconds, "3000")?;
            }
        }
        Ok(timeouts)
    }

    fn change(&mut self, file: PathBuf, value: &str) -> Result<()> {
        let before = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        std::fs::write(&file, value).with_context(|| format!("writing {value} to {}", file.display()))?;
        self.before.push((file, before));
        Ok(())
    }
}

impl Drop for ShortTimeouts {
    fn drop(&mut self) {
        for (file, before) in &self.before {
            // A drive may be gone.
            let _ = std::fs::write(file, before.trim_end());
        }
    }
}

/// A path on a drive, and how far its thread is.
struct Lane {
    /// Among those of the drive.
    number: u64,
    path: IoPath,
    target: Target,
    depth: u32,
    ended: AtomicU64,
    stage: Mutex<&'static str>,
}

impl Lane {
    fn open(&self, pool: &Pool) -> iolane::Result<Box<dyn Queue>> {
        iolane::open_queue(&self.path, &self.target, &QueueConfig::new(self.depth).pool(pool))
    }

    fn pool(&self) -> Result<Pool> {
        Ok(Pool::new(self.depth as usize, BLOCK_BYTES, Pages::Base)?)
    }

    fn at(&self, stage: &'static str) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}

/// All paths available on the drive, those of passthrough on its character device; the others print SKIPPED.
fn lanes(device: &str) -> Result<Vec<Lane>> {
    let options = writing::options(device);
    if device.starts_with("pci:") {
        let target = options.open(device)?;
        let paths = iolane::interfaces().filter(|interface| interface.reaches(target.kind()));
        return Ok((0..)
            .zip(paths.flat_map(iolane::Interface::paths))
            .map(|(number, path)| lane(number, &path, &target))
            .collect::<Result<_, _>>()?);
    }
    let block = options.open(device).with_context(|| device.to_owned())?;
    let generic = device.replace("/dev/nvme", "/dev/ng");
    let generic = if Path::new(&generic).exists() { Some(options.open(&generic)?) } else { None };
    let mut lanes = Vec::new();
    let kernels = iolane::interfaces().filter(|interface| interface.reaches(block.kind()));
    for (number, path) in (0..).zip(kernels.flat_map(iolane::Interface::paths)) {
        let target = match path.interface() {
            "io_uring_cmd" => generic.as_ref().unwrap_or(&block),
            _ => &block,
        };
        match lane(number, &path, target) {
            Ok(lane) => lanes.push(lane),
            Err(error) => {
                let skipped = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Exhausted);
                ensure!(skipped, "{path} on {}: {error}", target.name());
                say(&format!("SKIPPED faults {path} on {}: {}; {}", target.name(), error.cause(), error.remedy_text()));
            }
        }
    }
    Ok(lanes)
}

/// The same without polled passthrough: where the kernel ends commands itself, because a drive is reset or gone, its polling can read a
/// request that was freed (drivers/nvme/host/ioctl.c, nvme_ns_chr_uring_cmd_iopoll reads `mq_hctx` twice).
fn lanes_for_resets(device: &str) -> Result<Vec<Lane>> {
    let (left_out, lanes): (Vec<Lane>, Vec<Lane>) = lanes(device)?
        .into_iter()
        .partition(|lane| lane.path.interface() == "io_uring_cmd" && lane.path.asks_for_polling());
    for lane in left_out {
        let why = "its polling can crash the kernel while the drive is reset";
        say(&format!("SKIPPED faults {} on {device}: {why}; drives that answer are tested", lane.path));
    }
    Ok(lanes)
}

fn kernel_version() -> (u32, u32) {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Opens a queue to check that it is available, without the read that `probe` does.
fn lane(number: u64, path: &IoPath, target: &Target) -> Result<Lane, Error> {
    let lane = |depth| Lane {
        number,
        path: path.clone(),
        target: target.clone(),
        depth,
        ended: AtomicU64::new(0),
        stage: Mutex::new("not begun"),
    };
    let pool = Pool::new(1, BLOCK_BYTES, Pages::Base)?;
    let deep = lane(DEPTH);
    match deep.open(&pool) {
        Ok(_) => Ok(deep),
        Err(error) if error.kind() == ErrorKind::Usage => {
            let shallow = lane(1);
            shallow.open(&pool).map(|_| shallow)
        }
        Err(error) => Err(error),
    }
}

/// Runs each lane on a thread, and `meanwhile` on this one; fails with all failures. Past the limit, the unfinished lanes are named
/// and the process ends, since a blocked thread cannot be ended by itself.
fn all_at_once<T: Send>(
    lanes: &[Lane],
    limit: Duration,
    run: impl Fn(&Lane) -> Result<T> + Sync,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Vec<T>> {
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let stage = |lane: &Lane| *lane.stage.lock().unwrap_or_else(PoisonError::into_inner);
                for lane in lanes.iter().filter(|lane| stage(lane) != "done") {
                    let (ended, seconds) = (lane.ended.load(Ordering::Relaxed), limit.as_secs());
                    say(&format!("HANGS faults {}: {} after {seconds} s, {ended} answered", lane.path, stage(lane)));
                }
                std::process::exit(101);
            }
        });
        let run = &run;
        let threads: Vec<_> = lanes
            .iter()
            .map(|lane| {
                scope.spawn(move || {
                    let outcome = run(lane);
                    lane.at("done");
                    outcome
                })
            })
            .collect();
        let mut failures: Vec<String> = meanwhile().err().map(|error| format!("{error:#}")).into_iter().collect();
        let mut results = Vec::new();
        for (lane, thread) in lanes.iter().zip(threads) {
            match thread.join() {
                Ok(Ok(result)) => results.push(result),
                Ok(Err(error)) => failures.push(format!("{}: {error:#}", lane.path)),
                Err(_) => failures.push(format!("{}: it panicked", lane.path)),
            }
        }
        drop(done);
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(results)
    })
}

/// Requests that are in flight, each to be answered once.
struct Flight<'a> {
    lane: &'a Lane,
    queue: Box<dyn Queue>,
    waiting: Vec<Request>,
    awaited: HashSet<u64>,
    ended: Vec<Completion>,
    /// Those of them that write.
    writes: Option<Writes>,
}

impl<'a> Flight<'a> {
    fn new(lane: &'a Lane, pool: &Pool) -> Result<Self> {
        let queue = lane.open(pool)?;
        Ok(Self { lane, queue, waiting: Vec::new(), awaited: HashSet::new(), ended: Vec::new(), writes: None })
    }

    /// Reads the block of this number.
    fn read(&mut self, tag: u64, buffer: Buffer) {
        let offset = tag % BLOCKS * STRIDE_BYTES;
        self.waiting.push(Request::read(tag, offset, buffer));
        self.awaited.insert(tag);
    }

    fn begin(&mut self, tag: u64, buffer: Buffer) {
        match &mut self.writes {
            Some(writes) if writes.include(tag) => {
                self.waiting.push(writes.begin(tag, buffer));
                self.awaited.insert(tag);
            }
            _ => self.read(tag, buffer),
        }
    }

    fn alternate(&mut self, tag: u64, buffer: Buffer) {
        self.waiting.push(writing::alternate(self.lane, tag, buffer));
        self.awaited.insert(tag);
    }

    /// A request for each free frame, and how many there are.
    fn fill(&mut self, pool: &Pool) -> u64 {
        (0..).zip(std::iter::from_fn(|| pool.take())).map(|(tag, buffer)| self.begin(tag, buffer)).count() as u64
    }

    /// Waits for one answer at least.
    fn answers(&mut self) -> Result<Vec<Completion>> {
        self.queue.submit(&mut self.waiting);
        self.queue.reap(1, &mut self.ended)?;
        for completion in &mut self.ended {
            let tag = completion.tag;
            ensure!(self.awaited.remove(&tag), "tag {tag} is answered twice, or was never given");
            ensure!(completion.buffer.is_some(), "tag {tag} came without its buffer");
            if let Some(writes) = &mut self.writes {
                writes.end(completion)?;
            }
            self.lane.ended.fetch_add(1, Ordering::Relaxed);
        }
        Ok(std::mem::take(&mut self.ended))
    }

    /// Nothing is left.
    fn ensure_empty(&self) -> Result<()> {
        let (awaited, in_flight) = (self.awaited.len(), self.queue.in_flight());
        ensure!(awaited == 0 && in_flight == 0, "{awaited} requests are never answered, {in_flight} in flight");
        Ok(())
    }
}

fn ensure_free(pool: &Pool) -> Result<()> {
    ensure!(pool.take_frames(0, pool.frames()).is_some(), "a queue that is gone still holds memory");
    Ok(())
}

/// An error that names what happened.
fn ensure_typed(tag: u64, error: IoError) -> Result<()> {
    let kinds = [IoErrorKind::Media, IoErrorKind::DeviceGone, IoErrorKind::TimedOut, IoErrorKind::Cancelled];
    ensure!(kinds.contains(&error.kind()), "tag {tag}: {error} is not a failure of a drive");
    Ok(())
}

/// How often each came, for people to read.
fn tally(outcomes: impl IntoIterator<Item = String>) -> String {
    let mut counts: HashMap<String, u64> = HashMap::new();
    outcomes.into_iter().for_each(|outcome| *counts.entry(outcome).or_default() += 1);
    counts_in_words(counts)
}

fn counts_in_words(counts: HashMap<String, u64>) -> String {
    let mut lines: Vec<_> = counts.into_iter().map(|(outcome, count)| format!("{count} x {outcome}")).collect();
    lines.sort();
    lines.join(", ")
}

fn outcome(completion: &Completion) -> String {
    match completion.result {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(error) => format!("{:?} (errno {})", error.kind(), error.errno()),
    }
}

#[test]
fn media_errors_reach_the_requests_they_belong_to_and_the_queue_goes_on() -> Result<()> {
    let _turn = turn();
    let Some(device) = named("IOLANE_FAULTS_MEDIA_ERRORS", "media errors") else { return Ok(()) };
    let _timeouts = ShortTimeouts::set(&device)?;
    let bad = bad_blocks(&device)?;
    ensure!(!bad.is_empty(), "{device} has no media errors where they are looked for");
    say(&format!("faults: {} of {BLOCKS} blocks of {device} cannot be read", bad.len()));
    let lanes = lanes(&device)?;
    // Twice over all blocks on one queue: it goes on after errors.
    let reads = 2 * BLOCKS;
    let run = |lane: &Lane| {
        let pool = lane.pool()?;
        let mut flight = Flight::new(lane, &pool)?;
        let mut next = 0;
        lane.at("reading");
        while next < reads || !flight.awaited.is_empty() {
            while next < reads
                && let Some(buffer) = pool.take()
            {
                flight.read(next, buffer);
                next += 1;
            }
            for completion in flight.answers()? {
                let tag = completion.tag;
                match (bad.contains(&(tag % BLOCKS)), completion.result) {
                    (false, Ok(bytes)) if bytes as usize == BLOCK_BYTES => {}
                    (true, Err(error)) if error.kind() == IoErrorKind::Media => {}
                    (is_bad, result) => bail!("block {}, bad: {is_bad}: {result:?}", tag % BLOCKS),
                }
            }
        }
        flight.ensure_empty()
    };
    // One after the other: a drive that fails is slow, and each error is retried by the kernel.
    for lane in &lanes {
        all_at_once(std::slice::from_ref(lane), Duration::from_secs(120), run, || Ok(()))?;
    }
    Ok(())
}

/// The blocks that a plain read fails on, one after the other.
fn bad_blocks(device: &str) -> Result<HashSet<u64>> {
    let target = Target::open(device)?;
    let pool = Pool::new(1, BLOCK_BYTES, Pages::Base)?;
    let mut queue = iolane::open_queue(&plain_path(device), &target, &QueueConfig::new(1).pool(&pool))?;
    let mut is_bad = |block: u64| -> Result<bool> {
        let buffer = pool.take().context("the one buffer is free")?;
        Ok(carry_out(&mut *queue, Request::read(0, block * STRIDE_BYTES, buffer))?.result.is_err())
    };
    let mut bad = HashSet::new();
    for block in 0..BLOCKS {
        if is_bad(block)? {
            bad.insert(block);
        }
    }
    Ok(bad)
}

/// The path that adds least to what the drive does.
fn plain_path(device: &str) -> IoPath {
    IoPath::new(if device.starts_with("pci:") { "nvme" } else { "psync" })
}

/// Waits for the answer to one request.
fn carry_out(queue: &mut dyn Queue, request: Request) -> Result<Completion> {
    queue.submit(&mut vec![request]);
    let mut ended = Vec::new();
    queue.drain(&mut ended)?;
    ended.pop().context("no completion")
}

#[test]
fn requests_to_a_drive_that_does_not_answer_end_and_so_does_dropping_them() -> Result<()> {
    let _turn = turn();
    let Some(device) = named("IOLANE_FAULTS_STALLED", "a drive that does not answer") else { return Ok(()) };
    // Linux 5.10 may need eight seconds more for each path, see below.
    let limit = Duration::from_secs(240);
    let lanes = lanes_for_resets(&device)?;
    // Both regions of a path now: Linux 5.10 may lose requests after a reset.
    all_at_once(&lanes, limit, writing::write_first, || Ok(()))?;
    let timeouts = ShortTimeouts::set(&device)?;
    let is_without_kernel = pci_address(&device).is_some();
    let log = if is_without_kernel { Some(KernelLog::from_now_on()?) } else { None };
    let open = Barrier::new(lanes.len());
    let mut failed = 0;
    let answered = |lane: &Lane| {
        let (pool, mut flight) = open_then_stall(lane, &open, &device)?;
        flight.writes = Writes::of(lane, Stall::Answered);
        lane.at("waiting for answers");
        let outcomes = answers_of_all(&mut flight, &pool)?;
        let writes = flight.writes.take();
        if is_without_kernel {
            // The controller can access the memory as long as the queue is there: a command that was left in it is carried out now.
            read_again(&mut flight, &pool)?;
        }
        Ok((lane.path.to_string(), outcomes, writes))
    };
    let mut all_writes = Vec::new();
    for (path, outcomes, writes) in all_at_once(&lanes, limit, answered, || Ok(()))? {
        failed += outcomes.iter().filter(|outcome| outcome.contains("errno")).count();
        say(&format!("faults: {path} on {device}: {}", tally(outcomes)));
        all_writes.extend(writes);
    }
    ensure!(failed > 0, "{device} answered every request, so it did not stall");
    // A drive that fails again while the kernel sets it up is given up for good.
    until_live(&device, limit)?;
    let dropped = |lane: &Lane| {
        let (pool, mut flight) = open_then_stall(lane, &open, &device)?;
        flight.writes = Writes::of(lane, Stall::Dropped);
        drop_in_flight(flight, &pool)
    };
    all_writes.extend(all_at_once(&lanes, limit, dropped, || Ok(()))?.into_iter().flatten());
    until_live(&device, limit)?;
    if kernel_version() < (6, 1) && !is_without_kernel {
        let why =
            "Linux 5.10 keeps its shadow doorbells over a reset, and then does not tell the drive of every request";
        say(&format!("SKIPPED faults reading from {device} once it answers again: {why}; use a newer kernel"));
        drop(lanes);
        return writing::check_without_kernel(&device, &all_writes);
    }
    all_at_once(&lanes, limit, until_answered, || Ok(()))?;
    drop((lanes, timeouts));
    writing::check(&device, &all_writes)?;
    log.map_or(Ok(()), |mut log| log.ensure_no_fault())
}

/// Opens a queue and has the drive stalled once those of all lanes are: a drive that does not answer gives none.
fn open_then_stall<'a>(lane: &'a Lane, open: &Barrier, device: &str) -> Result<(Pool, Flight<'a>)> {
    let pool = lane.pool()?;
    let flight = Flight::new(lane, &pool);
    let stalled = if open.wait().is_leader() { stall(device) } else { Ok(()) };
    open.wait();
    stalled?;
    Ok((pool, flight?))
}

/// The folder of sysfs of the controller that a namespace's block device belongs to: .../0000:00:05.0/nvme/nvme3
fn controller(device: &str) -> Result<PathBuf> {
    if let Some(slot) = pci_address(device) {
        return Ok(Path::new("/sys/bus/pci/devices").join(slot));
    }
    let (major, minor) = Target::open(device)?.device().context("a block device has a number")?;
    let namespace = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
    Ok(namespace.parent().context("a namespace belongs to a controller")?.to_owned())
}

/// The address in `pci:0000:00:04.0,timeout=2s`.
fn pci_address(device: &str) -> Option<&str> {
    device.strip_prefix("pci:")?.split(',').next()
}

/// Waits until the kernel has set the drive up anew, if it is the kernel who does that.
fn until_live(device: &str, limit: Duration) -> Result<()> {
    if pci_address(device).is_some() {
        return Ok(());
    }
    let state = controller(device)?.join("state");
    let began = Instant::now();
    loop {
        let now = std::fs::read_to_string(&state).with_context(|| state.display().to_string())?;
        match now.trim() {
            "live" => return Ok(()),
            "dead" | "deleting" => bail!("the kernel gave {device} up"),
            other => ensure!(began.elapsed() < limit, "{device} is still {other} after {} s", limit.as_secs()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads until an answer brings data: what was in flight when the drive was reset may have failed.
fn until_answered(lane: &Lane) -> Result<()> {
    let pool = lane.pool()?;
    read_again(&mut Flight::new(lane, &pool)?, &pool)
}

fn read_again(flight: &mut Flight<'_>, pool: &Pool) -> Result<()> {
    flight.lane.at("reading again");
    while answers_of_all(flight, pool)?.iter().all(|outcome| outcome.contains("errno")) {}
    Ok(())
}

/// Takes the controller its access to memory (the bus master bit of the PCI command register): it learns of no request and
/// cannot answer, until the kernel loses patience and sets it up anew.
fn stall(device: &str) -> Result<()> {
    const COMMAND: u64 = 4;
    const BUS_MASTER: u16 = 1 << 2;
    let folder = controller(device)?;
    let config = if pci_address(device).is_some() { folder.join("config") } else { folder.join("device/config") };
    let file = OpenOptions::new().read(true).write(true).open(&config).with_context(|| config.display().to_string())?;
    let mut command = [0; 2];
    file.read_exact_at(&mut command, COMMAND)?;
    let without = u16::from_le_bytes(command) & !BUS_MASTER;
    Ok(file.write_all_at(&without.to_le_bytes(), COMMAND)?)
}

/// As many requests as the pool has frames, each answered once; gives what they came to.
fn answers_of_all(flight: &mut Flight<'_>, pool: &Pool) -> Result<Vec<String>> {
    flight.fill(pool);
    let mut outcomes = Vec::new();
    while !flight.awaited.is_empty() {
        for completion in flight.answers()? {
            if let Err(error) = completion.result {
                ensure_typed(completion.tag, error)?;
            }
            outcomes.push(outcome(&completion));
        }
    }
    flight.ensure_empty()?;
    Ok(outcomes)
}

/// Drops a queue with as many requests in flight as it takes; gives those that write.
fn drop_in_flight(mut flight: Flight<'_>, pool: &Pool) -> Result<Option<Writes>> {
    flight.fill(pool);
    flight.lane.at("handing over");
    flight.queue.submit(&mut flight.waiting);
    flight.queue.flush()?;
    flight.lane.at("dropping a queue");
    let writes = flight.writes.take();
    drop(flight);
    ensure_free(pool)?;
    Ok(writes.map(|writes| writes.end_all(pool)))
}

/// Requests answered before the drive is taken away, and with an error after it was, on each path.
const ENOUGH: u64 = 64;

#[test]
fn requests_to_a_drive_that_vanishes_end_with_errors_none_lost_none_twice() -> Result<()> {
    let _turn = turn();
    let Some(device) = named("IOLANE_FAULTS_UNPLUG", "a drive that vanishes") else { return Ok(()) };
    let _timeouts = ShortTimeouts::set(&device)?;
    let by = std::env::var("IOLANE_FAULTS_UNPLUG_BY").context("IOLANE_FAULTS_UNPLUG_BY names no file")?;
    let lanes = lanes_for_resets(&device)?;
    let outcomes = all_at_once(&lanes, Duration::from_secs(150), until_gone, || {
        let busy = |lane: &Lane| lane.ended.load(Ordering::Relaxed) >= ENOUGH;
        let failed = |lane: &Lane| *lane.stage.lock().unwrap_or_else(PoisonError::into_inner) == "done";
        while !lanes.iter().all(busy) {
            ensure!(!lanes.iter().any(failed), "a path ended before the drive was taken away");
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Ok(name) = std::env::var("IOLANE_FAULTS_UNPLUG_NAME") {
            return tell(&by, &name);
        }
        let controller = device.trim_start_matches("/dev/").rsplit_once('n').map_or("", |(controller, _)| controller);
        tell(&by, controller)
    })?;
    for (path, outcomes) in outcomes {
        say(&format!("faults: {path} on {device}: {outcomes}"));
    }
    Ok(())
}

/// Has the drive taken away.
fn tell(by: &str, controller: &str) -> Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(by).with_context(|| by.to_owned())?;
    Ok(file.write_all(format!("unplug {controller}\n").as_bytes())?)
}

fn asks_the_drive(lane: &Lane) -> bool {
    [iolane::nvme::CONTROLLER, TargetKind::NvmeGeneric].contains(&lane.target.kind())
}

/// Reads, and writes if it may, until nothing but errors comes; gives what the path and its last answers were.
fn until_gone(lane: &Lane) -> Result<(String, String)> {
    let pool = lane.pool()?;
    let mut flight = Flight::new(lane, &pool)?;
    let mut next = 0;
    while let Some(buffer) = pool.take() {
        flight.alternate(next, buffer);
        next += 1;
    }
    let mut failed_in_a_row = 0;
    let mut outcomes = Vec::new();
    lane.at("reading and writing");
    while !flight.awaited.is_empty() {
        for completion in flight.answers()? {
            match completion.result {
                Ok(bytes) if bytes as usize == BLOCK_BYTES => failed_in_a_row = 0,
                // A drive that is gone has no bytes, nor room for any, and the kernel may say so (blkdev_write_iter in block/fops.c).
                Ok(0) => failed_in_a_row += 1,
                Err(error) if error.kind() == IoErrorKind::NoSpace => failed_in_a_row += 1,
                Ok(bytes) => bail!("tag {}: {bytes} bytes", completion.tag),
                Err(error) => {
                    ensure_typed(completion.tag, error)?;
                    failed_in_a_row += 1;
                }
            }
            if completion.result != Ok(BLOCK_BYTES as u32) {
                outcomes.push(outcome(&completion));
            }
            if failed_in_a_row < ENOUGH {
                flight.alternate(next, completion.buffer.context("a buffer each")?);
                next += 1;
            }
        }
    }
    flight.ensure_empty()?;
    drop(flight);
    match Flight::new(lane, &pool) {
        Ok(flight) => drop(drop_in_flight(flight, &pool)?),
        // A drive that is gone gives no more queues to paths that ask it first: the driver's, and passthrough, which asks for its format.
        Err(error) => ensure!(asks_the_drive(lane), "{error}"),
    }
    Ok((lane.path.to_string(), tally(outcomes)))
}
