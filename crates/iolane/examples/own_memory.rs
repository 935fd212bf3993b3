//! Uses memory that the program owns, such as the existing buffer pool of a database, and registers it with io_uring once.
//! Reads the first MiB of a file into it, block n into frame n, and prints the checksum of what arrived.
//! Run: cargo run --release --example own_memory -- FILE [PATH]      PATH: io_uring,fixedbufs unless given

use std::error::Error;
use std::process::ExitCode;
use std::ptr::NonNull;

use iolane::{IoPath, Pool, QueueConfig, Request, Target, open_queue};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

const FRAME_BYTES: usize = 16 << 10;
/// 1 MiB in all. Registered memory is locked, and many systems let a user lock 8 MiB (`ulimit -l`).
const FRAMES: usize = 64;

/// The program's memory: here a mapping, which is unmapped when this is dropped.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process and no thread, and nothing is reached through this but its address.
unsafe impl Send for Mapping {}
// SAFETY: as above; there is nothing that a shared reference could change.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Self, Box<dyn Error>> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        Ok(Self { base: NonNull::new(base.cast()).ok_or("the kernel mapped address 0")?, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole of a mapping of ours. The pool drops its `keeps_alive`, and so this, only when its last handle
        // and its last buffer are gone, and a queue holds both as long as the kernel may use the memory.
        if let Err(error) = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) } {
            eprintln!("own_memory: unmapping: {error}");
        }
    }
}

/// The only promise that the compiler cannot check; the rest of the program is safe.
fn lend(mapping: Mapping) -> iolane::Result<Pool> {
    // SAFETY: the promise of `Pool::from_region`:
    // 1. the mapping covers FRAMES * FRAME_BYTES bytes (`run` made it so), zeroed by the kernel, readable and writable, and
    //    it stays mapped until `keeps_alive`, which is the mapping itself, is dropped;
    // 2. nothing else has its address: it is moved into the pool here, no reference into it was ever made, and the
    //    bytes are read through buffers alone. (A program that keeps pointers into its memory must not follow one
    //    while a buffer over the same frame exists.)
    unsafe { Pool::from_region(mapping.base, FRAMES, FRAME_BYTES, mapping) }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().ok_or("usage: own_memory FILE [PATH]")?;
    let path: IoPath = arguments.next().unwrap_or("io_uring,fixedbufs".into()).to_string_lossy().parse()?;
    let target = Target::options().direct(false).open(name)?;
    let bytes = target.bytes().min((FRAMES * FRAME_BYTES) as u64);

    let pool = lend(Mapping::new(FRAMES * FRAME_BYTES)?)?;
    // The pool given here is what `fixedbufs` registers: its pages are pinned once, not for each request.
    let mut queue = open_queue(&path, &target, &QueueConfig::new(FRAMES as u32).pool(&pool))?;

    let mut requests = Vec::new();
    for (frame, offset) in (0..bytes).step_by(FRAME_BYTES).enumerate() {
        // This very frame, as a buffer manager asks for it; `take` would give any that is free.
        let mut buffer = pool.take_frames(frame, 1).ok_or("a frame is held by another buffer")?;
        buffer.set_len((bytes - offset).min(FRAME_BYTES as u64) as usize)?;
        requests.push(Request::read(offset, offset, buffer));
    }
    queue.submit(&mut requests);
    let mut completions = Vec::new();
    queue.drain(&mut completions)?;

    // Completions come in any order; the frame says where the bytes belong.
    let mut buffers = Vec::new();
    for completion in completions {
        let buffer = completion.buffer.ok_or("a read came back without its buffer")?;
        if completion.result? as usize != buffer.len() {
            return Err(format!("{}: a short read at byte {}", target.name(), completion.tag).into());
        }
        buffers.push(buffer);
    }
    buffers.sort_by_key(iolane::Buffer::frame);
    let mut checksum = crc32fast::Hasher::new();
    buffers.iter().for_each(|buffer| checksum.update(buffer));
    println!("{path}: {bytes} bytes in {} frames of our own, crc32 {:08x}", buffers.len(), checksum.finalize());
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("own_memory: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
