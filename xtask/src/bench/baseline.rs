//! The baseline of the bench: a loop of a path's system calls at random offsets. It measures no latencies and checks
//! almost nothing; it shows how fast any program can be on this machine.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use io_uring::{IoUring, opcode, types};

use super::programs::Job;

const BLOCK_BYTES: usize = 4096;
const RUNTIME: Duration = Duration::from_secs(2);
/// Requests between two looks at the clock.
const REQUESTS_PER_LOOK: u64 = 1 << 16;

/// Runs it on a thread of its own, pinned to the job's cpu, and returns its requests per second.
pub(super) fn run(job: &Job) -> Result<f64> {
    let thread = || -> Result<f64> {
        pin(job.cpu)?;
        let file = File::open(&job.target)?;
        let offsets = Offsets { random: 0x9e37_79b9_7f4a_7c15, blocks: file.metadata()?.len() / BLOCK_BYTES as u64 };
        match job.path {
            "psync" => psync(&file, offsets),
            "libaio" => libaio(&file, offsets, job.depth as usize),
            "io_uring" => uring(&file, offsets, job.depth),
            other => bail!("there is no baseline loop for {other}"),
        }
    };
    std::thread::scope(|scope| scope.spawn(thread).join())
        .unwrap_or_else(|_| bail!("it panicked"))
        .with_context(|| format!("the baseline loop for {}", job.path))
}

/// Random offsets of whole blocks (Marsaglia's xorshift, scaled by a multiplication).
struct Offsets {
    random: u64,
    blocks: u64,
}

impl Offsets {
    #[inline]
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(self.blocks)) >> 64) as u64 * BLOCK_BYTES as u64
    }
}

/// Does batches until the time is up; each returns how many requests it did.
fn for_a_while(mut batch: impl FnMut() -> Result<u64>) -> Result<f64> {
    let begun = Instant::now();
    let mut done = 0;
    loop {
        let look = done + REQUESTS_PER_LOOK;
        while done < look {
            done += batch()?;
        }
        let elapsed = begun.elapsed();
        if elapsed >= RUNTIME {
            return Ok(done as f64 / elapsed.as_secs_f64());
        }
    }
}

fn psync(file: &File, mut offsets: Offsets) -> Result<f64> {
    let mut block = vec![0; BLOCK_BYTES];
    for_a_while(|| {
        ensure!(file.read_at(&mut block, offsets.next())? == BLOCK_BYTES, "a short read");
        Ok(1)
    })
}

fn uring(file: &File, mut offsets: Offsets, depth: u32) -> Result<f64> {
    let mut blocks = vec![0u8; depth as usize * BLOCK_BYTES];
    let mut ring = IoUring::new(depth)?;
    for_a_while(|| {
        for block in blocks.chunks_exact_mut(BLOCK_BYTES) {
            let fd = types::Fd(file.as_raw_fd());
            let read = opcode::Read::new(fd, block.as_mut_ptr(), BLOCK_BYTES as u32).offset(offsets.next()).build();
            // SAFETY: the blocks and the file outlive the request: the call below waits for all of them, and an error
            // between the two ends with the ring still full of reads into memory that is leaked with it.
            unsafe { ring.submission().push(&read) }?;
        }
        if let Err(error) = ring.submit_and_wait(depth as usize) {
            std::mem::forget(std::mem::take(&mut blocks));
            return Err(error.into());
        }
        Ok(ring.completion().map(|entry| u64::from(entry.result() == BLOCK_BYTES as i32)).sum())
    })
}

/// io_submit and io_getevents, a call each per batch, which for a file in the page cache is all there is to do.
fn libaio(file: &File, mut offsets: Offsets, depth: usize) -> Result<f64> {
    let mut blocks = vec![0u8; depth * BLOCK_BYTES];
    let mut events = vec![[0u64; 4]; depth];
    let mut context: libc::c_ulong = 0;
    // SAFETY: io_setup writes one number to the pointer (io_setup(2)).
    ensure!(unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) } == 0, "io_setup failed");
    // SAFETY: a control block is integers, for which zero is a value.
    let mut requests: Vec<libc::iocb> = (0..depth).map(|_| unsafe { std::mem::zeroed() }).collect();
    for (request, block) in requests.iter_mut().zip(blocks.chunks_exact_mut(BLOCK_BYTES)) {
        request.aio_fildes = file.as_raw_fd() as u32;
        request.aio_buf = block.as_mut_ptr().expose_provenance() as u64;
        request.aio_nbytes = BLOCK_BYTES as u64;
    }
    let mut pointers: Vec<*mut libc::iocb> = requests.iter_mut().map(|request| &raw mut *request).collect();
    let measured = for_a_while(|| {
        for pointer in &pointers {
            // SAFETY: it points into `requests`, which nothing else uses.
            unsafe { (**pointer).aio_offset = offsets.next() as i64 };
        }
        // SAFETY: the kernel reads the control blocks during the call; the blocks of data outlive the requests, for the
        // context is destroyed, which waits for them, before they are dropped.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, context, depth, pointers.as_mut_ptr()) };
        ensure!(taken == depth as i64, "io_submit took {taken} of {depth}");
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the kernel writes at most `depth` events, for which there is room.
        let ended = unsafe { libc::syscall(libc::SYS_io_getevents, context, depth, depth, events.as_mut_ptr(), none) };
        ensure!(ended == depth as i64, "io_getevents gave {ended} of {depth}");
        Ok(ended as u64)
    });
    // SAFETY: the context is ours and used no more.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
    measured
}

fn pin(cpu: u32) -> Result<()> {
    // SAFETY: a cpu set is integers, for which zero is a value; the kernel reads it during the call.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    ensure!(pinned == 0, "cannot pin the thread to cpu {cpu}: {}", std::io::Error::last_os_error());
    Ok(())
}
