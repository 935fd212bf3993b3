//! Copies a file or block device to a new file, with up to 64 requests in flight: the buffer of a completed read goes into a write,
//! and that of a write into the next read. Shows short reads and writes, the unaligned end with O_DIRECT, and durability.
//! Run: cargo run --release --example copy -- SRC DST [PATH] [--direct]

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use iolane::{Completion, IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue, probe};

const DEPTH: u32 = 64;
/// A multiple of every block size, so that each read and write except the last begins and ends on a block.
const CHUNK_BYTES: u64 = 128 << 10;

/// Copies all of `source` to `destination`, and returns when that is durable.
pub(crate) fn copy(source: &Target, destination: &Target, path: &IoPath) -> Result<(), Box<dyn Error>> {
    // What offsets and lengths are multiples of: a block with O_DIRECT, a byte without.
    let unit = u64::from(source.block_bytes().max(destination.block_bytes()));
    let size = source.bytes();
    let pool = Pool::new(DEPTH as usize, CHUNK_BYTES as usize, Pages::Base)?;
    // A queue drives one target, so a copy has two. They share the buffers, and so the number of requests in flight.
    let mut reader = open(path, source, &pool)?;
    let mut writer = open(path, destination, &pool)?;

    let mut chunks = (0..size).step_by(CHUNK_BYTES as usize).map(|offset| (offset, CHUNK_BYTES.min(size - offset)));
    let mut unread = Vec::new(); // what short reads left out
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut completions = Vec::new();
    loop {
        while let Some(mut buffer) = pool.take() {
            let Some((offset, bytes)) = unread.pop().or_else(|| chunks.next()) else { break };
            buffer.set_len(bytes.next_multiple_of(unit) as usize)?;
            // The tag is the caller's own. Here it is the offset, which is needed again when a transfer comes short.
            reads.push(Request::read(offset, offset, buffer));
        }
        reader.submit(&mut reads);
        if reader.in_flight() + writer.in_flight() + writes.len() == 0 {
            break;
        }
        // One thread cannot wait on two queues at once. It waits for a read when nothing is being written, and for a
        // write when no read has ended; the other side goes on meanwhile.
        let read = reader.reap(usize::from(writer.in_flight() == 0), &mut completions)?;
        for completion in completions.drain(..) {
            writes.push(after_read(completion, source, unit, &mut unread)?);
        }
        writer.submit(&mut writes);
        writer.reap(usize::from(read == 0), &mut completions)?;
        for completion in completions.drain(..) {
            writes.extend(after_write(completion, destination, unit)?);
        }
    }
    // By plain calls, for cutting off is no request, and queues that poll for completions take no fsync. All writes have
    // ended, so the fsync covers them.
    if let Some(fd) = destination.fd() {
        let ended = rustix::fs::ftruncate(fd, size).and_then(|()| rustix::fs::fsync(fd));
        ended.map_err(|errno| iolane::Error::system(format!("ending {}", destination.name()), errno))?;
    }
    Ok(())
}

fn open(path: &IoPath, target: &Target, pool: &Pool) -> iolane::Result<Box<dyn Queue>> {
    let depth = probe(path, target)?.depth_max.min(DEPTH);
    open_queue(path, target, &QueueConfig::new(depth).pool(pool))
}

/// The write that follows a read; the rest of a short read goes to `unread`.
fn after_read(
    completion: Completion,
    source: &Target,
    unit: u64,
    unread: &mut Vec<(u64, u64)>,
) -> Result<Request, Box<dyn Error>> {
    let offset = completion.tag;
    let at = || format!("reading {} at byte {offset}", source.name());
    let mut got = u64::from(completion.result.map_err(|error| format!("{}: {error}", at()))?);
    let mut buffer = completion.buffer.ok_or_else(at)?;
    // With O_DIRECT a whole block is asked for at the end of a file, and the part of it that exists comes back.
    let wanted = (buffer.len() as u64).min(source.bytes() - offset);
    if got < wanted {
        // Go on from a block's start: an unaligned offset would be refused.
        got -= got % unit;
        unread.push((offset + got, wanted - got));
    }
    let got = got.min(wanted);
    if got == 0 {
        return Err(format!("{}: it ended before its {} bytes, was it cut off meanwhile?", at(), source.bytes()).into());
    }
    // A tail is written as a whole block too, padded with zeroes; `copy` cuts the padding off.
    buffer.set_len(got.next_multiple_of(unit) as usize)?;
    buffer[got as usize..].fill(0);
    Ok(Request::write(offset, offset, buffer))
}

/// The write of the rest of a short write, if it was short.
fn after_write(completion: Completion, destination: &Target, unit: u64) -> Result<Option<Request>, Box<dyn Error>> {
    let offset = completion.tag;
    let at = || format!("writing {} at byte {offset}", destination.name());
    let put = completion.result.map_err(|error| format!("{}: {error}", at()))? as usize;
    let mut buffer = completion.buffer.ok_or_else(at)?;
    if put == buffer.len() {
        return Ok(None);
    }
    let put = put - put % unit as usize;
    if put == 0 {
        return Err(format!("{}: it takes no more", at()).into());
    }
    // A request moves a buffer from its start, so the rest moves there.
    buffer.copy_within(put.., 0);
    buffer.set_len(buffer.len() - put)?;
    let rest = offset + put as u64;
    Ok(Some(Request::write(rest, rest, buffer)))
}

fn run() -> Result<(), Box<dyn Error>> {
    let (flags, names): (Vec<OsString>, Vec<OsString>) =
        std::env::args_os().skip(1).partition(|argument| argument == "--direct");
    let (source, destination, path) = match &names[..] {
        [source, destination] => (source, Path::new(destination), "io_uring".parse()?),
        [source, destination, path] => (source, Path::new(destination), path.to_string_lossy().parse::<IoPath>()?),
        _ => return Err("usage: copy SRC DST [PATH] [--direct]".into()),
    };
    // A target is at least one byte long, or with O_DIRECT one block. So an empty file is made without one, and a file
    // smaller than any block goes through the page cache.
    let file_bytes = fs::metadata(source).ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len());
    if file_bytes == Some(0) {
        File::create_new(destination)
            .and_then(|file| file.sync_all())
            .map_err(|error| format!("{}: {error}", destination.display()))?;
        return make_name_durable(destination);
    }
    let direct = !flags.is_empty() && file_bytes.is_none_or(|bytes| bytes >= 4096);
    let source = Target::options().direct(direct).open(source)?;
    // Refuses a name that exists, so this never writes over anything, and what is removed below is ours.
    let target = Target::options().direct(direct).create(source.bytes()).open(destination)?;
    copy(&source, &target, &path).and_then(|()| make_name_durable(destination)).map_err(|error| {
        // Nothing is in flight any more: the queues waited for it when they were dropped. (A kill leaves the file. A tool
        // that minds copies to another name, and renames at the end.)
        match fs::remove_file(destination) {
            Ok(()) => error,
            Err(left) => format!("{error}; and what was copied is still there: {left}").into(),
        }
    })
}

/// The name of a new file is in its directory, which needs an fsync(2) of its own.
fn make_name_durable(file: &Path) -> Result<(), Box<dyn Error>> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| format!("syncing {}: {error}", directory.display()).into())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("copy: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
