//! An append-only log, as a database writes it: checksummed records, up to 64 in flight, made durable in groups by one
//! fdatasync, acknowledged in order. Reading back checks every record and stops at the first that is torn.
//! Run: seq 1000 | cargo run --release --example verify_log -- append LOG [PATH]      each line becomes a record
//!      cargo run --release --example verify_log -- verify LOG [PATH]

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use iolane::{Buffer, IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue, probe};
use rustix::fs::FlockOperation;

/// The first bytes of a log. A file that begins otherwise is never written.
const MAGIC: [u8; 8] = *b"iolane1\n";
/// A record: crc32 of the rest (u32), length of the payload (u32), number of the record from 1 on (u64), payload; little endian.
/// The number prevents a valid record in the wrong place from being taken for the next one.
const HEADER_BYTES: usize = 16;
const RECORD_BYTES_MAX: usize = 64 << 10;
/// Most records that are not yet acknowledged.
const WINDOW: usize = 64;

/// The valid part of a log.
pub(crate) struct Scan {
    pub(crate) records: u64,
    /// The offset after the last valid record.
    pub(crate) end: u64,
    /// Why the bytes there are not a record, if there are any.
    pub(crate) tear: Option<&'static str>,
}

enum Found {
    /// A valid record of this length.
    Whole(usize),
    /// The beginning of a record; the rest is not in these bytes.
    Part,
    Torn(&'static str),
}

fn encode(number: u64, payload: &[u8], buffer: &mut Buffer) -> Result<(), Box<dyn Error>> {
    let bytes = HEADER_BYTES + payload.len();
    if bytes > RECORD_BYTES_MAX {
        return Err(format!("record {number} has {bytes} bytes, and {RECORD_BYTES_MAX} is the most").into());
    }
    buffer.set_len(bytes)?;
    buffer[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer[8..16].copy_from_slice(&number.to_le_bytes());
    buffer[16..].copy_from_slice(payload);
    let checksum = crc32fast::hash(&buffer[4..]);
    buffer[..4].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

fn decode(bytes: &[u8], number: u64) -> Found {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Found::Part };
    let [c0, c1, c2, c3, l0, l1, l2, l3, numbered @ ..] = *header;
    let payload_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    // Looked at first: a torn length must not make us wait for 4 GiB that never come.
    if payload_bytes > RECORD_BYTES_MAX - HEADER_BYTES {
        return Found::Torn("its length cannot be");
    }
    if rest.len() < payload_bytes {
        return Found::Part;
    }
    let bytes = &bytes[..HEADER_BYTES + payload_bytes];
    if crc32fast::hash(&bytes[4..]) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Found::Torn("its checksum differs");
    }
    if u64::from_le_bytes(numbered) != number {
        return Found::Torn("its number is another record's");
    }
    Found::Whole(bytes.len())
}

/// Reads the log from its beginning, a window of reads at a time, and stops after the last valid record.
pub(crate) fn scan(target: &Target, path: &IoPath) -> Result<Scan, Box<dyn Error>> {
    let pool = Pool::new(16, RECORD_BYTES_MAX, Pages::Base)?;
    let mut queue = open(target, path, &pool)?;
    let mut scan = Scan { records: 0, end: 0, tear: None };
    let mut unchecked = Vec::new(); // from `scan.end` on
    loop {
        let position = scan.end + unchecked.len() as u64;
        if read_on(queue.as_mut(), &pool, position, &mut unchecked)? == 0 {
            // The end of the file. A log whose last record is whole ends just there.
            scan.tear = (!unchecked.is_empty()).then_some("the log ends in the middle of it");
            return if scan.end > 0 { Ok(scan) } else { Err(not_a_log(target)) };
        }
        let mut checked = 0;
        if scan.end == 0 {
            if !unchecked.starts_with(&MAGIC) {
                return Err(not_a_log(target));
            }
            checked = MAGIC.len();
        }
        loop {
            match decode(&unchecked[checked..], scan.records + 1) {
                Found::Part => break,
                Found::Whole(bytes) => {
                    checked += bytes;
                    scan.records += 1;
                }
                Found::Torn(why) => {
                    return Ok(Scan { end: scan.end + checked as u64, tear: Some(why), ..scan });
                }
            }
        }
        scan.end += checked as u64;
        unchecked.drain(..checked);
    }
}

fn not_a_log(target: &Target) -> Box<dyn Error> {
    format!("{} is not a log of this program", target.name()).into()
}

/// Appends to `bytes` the data after `position`, at most as much as all buffers of the pool hold, and returns its length; 0 at the
/// end of the file.
fn read_on(queue: &mut dyn Queue, pool: &Pool, position: u64, bytes: &mut Vec<u8>) -> Result<usize, Box<dyn Error>> {
    let mut requests: Vec<Request> = std::iter::from_fn(|| pool.take())
        .zip(0u64..)
        .map(|(buffer, index)| Request::read(index, position + index * RECORD_BYTES_MAX as u64, buffer))
        .collect();
    let mut completions = Vec::new();
    while !requests.is_empty() || queue.in_flight() > 0 {
        queue.submit(&mut requests);
        queue.reap(1, &mut completions)?;
    }
    completions.sort_by_key(|completion| completion.tag);
    let before = bytes.len();
    for completion in completions {
        let got = completion.result.map_err(|error| format!("reading at byte {position} and after: {error}"))? as usize;
        let buffer = completion.buffer.ok_or("a read came back without its buffer")?;
        bytes.extend_from_slice(&buffer[..got]);
        // Behind a short read there is a gap; the next call begins there.
        if got < buffer.len() {
            break;
        }
    }
    Ok(bytes.len() - before)
}

fn open(target: &Target, path: &IoPath, pool: &Pool) -> iolane::Result<Box<dyn Queue>> {
    // One place more than records in flight, for the fdatasync.
    let depth = probe(path, target)?.depth_max.min(WINDOW as u32 + 1);
    open_queue(path, target, &QueueConfig::new(depth).pool(pool))
}

/// A log open for appending. A position is a byte offset, like the log sequence number of most engines.
pub(crate) struct Appender {
    queue: Box<dyn Queue>,
    pool: Pool,
    requests: Vec<Request>,
    /// The position of the next record, and its number.
    end: u64,
    number: u64,
    /// The ends of the records that are not yet acknowledged, the oldest first.
    waiting: VecDeque<u64>,
    /// Everything before this position is written, but may not be durable.
    written: u64,
    /// Offset and length of pieces written after a gap, since writes complete in any order.
    ahead: BTreeMap<u64, u64>,
    /// The fdatasync in flight makes everything before this position durable.
    syncing: Option<u64>,
    acknowledged: u64,
}

impl Appender {
    /// Continues after the last valid record.
    pub(crate) fn new(queue: Box<dyn Queue>, pool: Pool, scan: &Scan) -> Self {
        Self {
            queue,
            pool,
            requests: Vec::new(),
            end: scan.end,
            number: scan.records + 1,
            waiting: VecDeque::new(),
            written: scan.end,
            ahead: BTreeMap::new(),
            syncing: None,
            acknowledged: scan.records,
        }
    }

    /// Most appends that wait for acknowledgement.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() == WINDOW
    }

    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<(), Box<dyn Error>> {
        let mut buffer = self.pool.take().ok_or("the window is wider than the pool")?;
        encode(self.number, payload, &mut buffer)?;
        let offset = self.end;
        self.end += buffer.len() as u64;
        self.number += 1;
        self.waiting.push_back(self.end);
        self.requests.push(Request::write(offset, offset, buffer));
        Ok(())
    }

    /// Group commit: one fdatasync at a time, for everything written before it. Records written while it runs form the next
    /// group, so that groups grow when syncing is slow.
    fn sync_what_is_written(&mut self) {
        let oldest = self.waiting.front();
        if self.syncing.is_none() && oldest.is_some_and(|end| *end <= self.written) {
            self.syncing = Some(self.written);
            self.requests.push(Request::fdatasync(0));
        }
    }

    /// Waits for at least one completion, and returns the last record up to which everything is durable.
    pub(crate) fn advance(&mut self) -> Result<u64, Box<dyn Error>> {
        self.queue.submit(&mut self.requests);
        // Writes go first: on a path that takes one request at a time the group would be a single record otherwise.
        if self.requests.is_empty() {
            self.sync_what_is_written();
            self.queue.submit(&mut self.requests);
        }
        let mut completions = Vec::new();
        self.queue.reap(1, &mut completions)?;
        for completion in completions {
            match completion.buffer {
                Some(buffer) => {
                    let offset = completion.tag;
                    let put = completion.result.map_err(|error| format!("writing at byte {offset}: {error}"))?;
                    self.piece_written(offset, u64::from(put), buffer)?;
                }
                None => {
                    // Never tried again: after a failed fdatasync the kernel may have dropped the pages, and a second
                    // one that succeeds says nothing about them (fsync(2), NOTES).
                    completion.result.map_err(|error| format!("fdatasync: {error}; nothing more is acknowledged"))?;
                    self.acknowledge();
                }
            }
        }
        Ok(self.acknowledged)
    }

    fn piece_written(&mut self, offset: u64, put: u64, mut buffer: Buffer) -> Result<(), Box<dyn Error>> {
        if put == 0 {
            return Err(format!("writing at byte {offset}: the log takes no more").into());
        }
        self.ahead.insert(offset, put);
        while let Some(bytes) = self.ahead.remove(&self.written) {
            self.written += bytes;
        }
        let rest = buffer.len() - put as usize;
        if rest > 0 {
            buffer.copy_within(put as usize.., 0);
            buffer.set_len(rest)?;
            self.requests.insert(0, Request::write(offset + put, offset + put, buffer));
        }
        Ok(())
    }

    fn acknowledge(&mut self) {
        let Some(durable) = self.syncing.take() else { return };
        while self.waiting.front().is_some_and(|end| *end <= durable) {
            self.waiting.pop_front();
            self.acknowledged += 1;
        }
    }
}

fn append(log: &Path, path: &IoPath) -> Result<(), Box<dyn Error>> {
    if !log.exists() {
        create(log)?;
    }
    // Unguarded: it is a log of ours, and its appenders take turns by the lock below.
    let target = Target::options().direct(false).write_unguarded().open(log)?;
    let fd = target.fd().ok_or_else(|| not_a_log(&target))?;
    // One appender at a time; a second one waits. A request in flight holds the open file and with it this lock, so we
    // also wait for what a killed appender has left with the kernel.
    rustix::fs::flock(fd, FlockOperation::LockExclusive)?;
    let scan = scan(&target, path)?;
    if let Some(why) = scan.tear {
        cut_off_tail(&target, fd, scan.end, why)?;
    }
    let pool = Pool::new(WINDOW, RECORD_BYTES_MAX, Pages::Base)?;
    let mut appender = Appender::new(open(&target, path, &pool)?, pool, &scan);
    let mut acknowledged = scan.records;
    let lines = lines_of_stdin();
    loop {
        while !appender.is_full() {
            // Sleeps for the next line only when there is nothing else to wait for.
            let idle = appender.waiting.is_empty();
            let line = if idle { lines.recv().map_err(|_| TryRecvError::Disconnected) } else { lines.try_recv() };
            match line {
                Ok(line) => appender.append(&line?)?,
                Err(TryRecvError::Disconnected) if idle => return Ok(()),
                Err(_) => break,
            }
        }
        let durable = appender.advance()?;
        if durable > acknowledged {
            acknowledged = durable;
            // This record and all before it. Standard output passes each line on as it ends.
            writeln!(io::stdout(), "acknowledged {acknowledged}")?;
        }
    }
}

/// Creates an empty log. It gets its name when it is complete and durable, so that a crash leaves a log or no file.
fn create(log: &Path) -> Result<(), Box<dyn Error>> {
    let directory = log.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unnamed = directory.join(format!(".verify_log-{}", std::process::id()));
    let made = || -> io::Result<()> {
        let mut file = File::create(&unnamed)?;
        file.write_all(&MAGIC)?;
        file.sync_all()?;
        // Does not replace a log that another process made meanwhile.
        let named = std::fs::hard_link(&unnamed, log);
        std::fs::remove_file(&unnamed)?;
        named.and_then(|()| File::open(directory)?.sync_all())
    };
    made().map_err(|error| format!("{}: {error}", log.display()).into())
}

/// Truncates the log after the last valid record: a crash leaves writes that were in flight there, none of them acknowledged.
/// Otherwise an old record after the gap could follow a new one and be taken for its successor.
fn cut_off_tail(target: &Target, fd: BorrowedFd<'_>, end: u64, why: &str) -> Result<(), Box<dyn Error>> {
    let tail_bytes = (rustix::fs::fstat(fd)?.st_size as u64).saturating_sub(end);
    // A crash tears no more than the window. More than that is damage to records that were acknowledged, and what is
    // whole behind them is somebody's data. (Damage so near the end that it could be a tear is not told from one.)
    if tail_bytes > (WINDOW * RECORD_BYTES_MAX) as u64 {
        let name = target.name();
        return Err(format!("{name}: damaged at byte {end} ({why}), {tail_bytes} bytes before its end").into());
    }
    eprintln!("verify_log: {}: cut off {tail_bytes} bytes at byte {end} ({why})", target.name());
    rustix::fs::ftruncate(fd, end)?;
    Ok(rustix::fs::fsync(fd)?)
}

/// The lines of standard input, read by a separate thread so that waiting for one delays no acknowledgement.
fn lines_of_stdin() -> Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::sync_channel(WINDOW);
    thread::spawn(move || io::stdin().lock().split(b'\n').try_for_each(|line| sender.send(line)));
    lines
}

fn verify(log: &Path, path: &IoPath) -> Result<(), Box<dyn Error>> {
    let target = Target::options().direct(false).open(log)?;
    let Scan { records, end, tear } = scan(&target, path)?;
    let name = target.name();
    match tear {
        None => Ok(writeln!(io::stdout(), "{name}: {records} records in {end} bytes, all whole")?),
        Some(why) => {
            Err(format!("{name}: record {} at byte {end} is torn: {why}; all before it are whole", records + 1).into())
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: verify_log append|verify LOG [PATH]";
    let (Some(command), Some(log)) = (arguments.next(), arguments.next().map(PathBuf::from)) else {
        return Err(usage.into());
    };
    let path = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;
    match command.to_str() {
        Some("append") => append(&log, &path),
        Some("verify") => verify(&log, &path),
        _ => Err(usage.into()),
    }
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("verify_log: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
