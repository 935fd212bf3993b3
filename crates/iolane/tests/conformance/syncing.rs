//! Syncs and durable writes do something, by the kernel's own count: after one, the page cache has no dirty page of the range
//! (cachestat(2), since Linux 6.5), and a loop device, which has a cache, was asked to flush it.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail, ensure};
use iolane::{Buffer, Buffers, Operations, Pool, Queue, Request};

use crate::bench::{Bench, Pair, check_each, pool};
use crate::content;
use crate::drive;
use crate::fixtures::LoopDevice;
use crate::report::Skip;

const BLOCK: usize = 4096;

/// Where the kernel shows that a write was made durable.
enum Evidence<'a> {
    /// Dirty pages of a buffered file.
    Cache(File),
    Flushes(&'a LoopDevice),
}

impl<'a> Evidence<'a> {
    fn of(pair: &Pair<'a>) -> Result<Option<Self>> {
        if let Some(device) = pair.place.as_loop() {
            return Ok(Some(Self::Flushes(device)));
        }
        let is_buffered = pair.place.is_file() && !pair.target.direct() && !pair.target.is_in_memory();
        Ok(if is_buffered { pair.place.plain()?.map(Self::Cache) } else { None })
    }

    /// Dirty pages, or flushes.
    fn count(&self) -> Result<u64> {
        match self {
            Self::Cache(file) => dirty_pages(file),
            Self::Flushes(device) => device.flushes().context("a kernel that counts no flushes"),
        }
    }
}

/// Pages of the file's first block that are dirty or being written.
fn dirty_pages(file: &File) -> Result<u64> {
    /// The number on every architecture (scripts/syscall.tbl).
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [0_u64, BLOCK as u64];
    // struct cachestat: cached, dirty, being written, evicted, recently evicted.
    let mut pages = [0_u64; 5];
    // SAFETY: both point to memory of the size that the kernel reads and writes (linux/mman.h).
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), pages.as_mut_ptr(), 0_u32) };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Skip::new(format!("no count of dirty pages: cachestat: {error}"), "use Linux 6.5 or later").into());
    }
    Ok(pages[1] + pages[2])
}

/// Writes the first block through the queue.
fn write(queue: &mut dyn Queue, pool: &Pool, request: fn(u64, u64, Buffer) -> Request) -> Result<()> {
    let mut buffer = pool.take().context("a frame")?;
    content::fill(&mut buffer, 0, 51);
    let written = drive::one(queue, request(1, 0, buffer))?.result;
    ensure!(written == Ok(BLOCK as u32), "the write: {written:?}");
    Ok(())
}

/// Leaves a dirty page. The kernel may write it back at any time, so that it takes more than one attempt now and then.
fn dirty(queue: &mut dyn Queue, pool: &Pool, evidence: &Evidence<'_>) -> Result<()> {
    for _ in 0..100 {
        write(queue, pool, Request::write)?;
        if evidence.count()? > 0 {
            return Ok(());
        }
    }
    Err(Skip::new("its file system shows no dirty pages", "set TMPDIR to a folder on ext4 or xfs").into())
}

#[test]
fn a_sync_leaves_no_write_in_the_cache() {
    let bench = Bench::everywhere();
    check_each(&pairs_with_evidence(&bench), |pair| {
        let evidence = Evidence::of(pair)?.context("it has evidence")?;
        let pool = pool(1, BLOCK)?;
        let mut queue = pair.queue(1, &pool)?;
        for (operation, request) in
            [(Operations::FSYNC, Request::fsync(2)), (Operations::FDATASYNC, Request::fdatasync(2))]
        {
            if !pair.capabilities.operations.contains(operation) {
                continue;
            }
            match &evidence {
                Evidence::Cache(_) => dirty(&mut *queue, &pool, &evidence)?,
                Evidence::Flushes(_) => write(&mut *queue, &pool, Request::write)?,
            }
            let before = evidence.count()?;
            let synced = drive::one(&mut *queue, request)?.result;
            ensure!(synced == Ok(0), "{operation}: {synced:?}");
            match (&evidence, evidence.count()?) {
                (Evidence::Cache(_), 0) => {}
                (Evidence::Flushes(_), after) if after > before => {}
                (Evidence::Cache(_), dirty) => bail!("{operation} left {dirty} dirty pages"),
                (Evidence::Flushes(_), _) => bail!("{operation} did not make the device flush its cache"),
            }
        }
        Ok(())
    });
}

#[test]
fn a_durable_write_is_not_left_in_the_cache() {
    let bench = Bench::everywhere();
    let named = |pair: &Pair<'_>| pair.capabilities.operations.contains(Operations::DURABLE_WRITE);
    let pairs: Vec<Pair<'_>> = pairs_with_evidence(&bench).into_iter().filter(named).collect();
    check_each(&pairs, |pair| {
        let evidence = Evidence::of(pair)?.context("it has evidence")?;
        let pool = pool(1, BLOCK)?;
        let mut queue = pair.queue(1, &pool)?;
        let in_one_of_several = |tag, offset, buffer| {
            Request::durable_write_vectored(tag, offset, Buffers::new(vec![buffer]).expect("it is one"))
        };
        let mut requests: Vec<fn(u64, u64, Buffer) -> Request> = vec![Request::durable_write];
        if pair.capabilities.operations.contains(Operations::VECTORED) {
            requests.push(in_one_of_several);
        }
        for request in requests {
            if let Evidence::Cache(_) = evidence {
                dirty(&mut *queue, &pool, &evidence)?;
            }
            let before = evidence.count()?;
            write(&mut *queue, &pool, request)?;
            let after = evidence.count()?;
            match evidence {
                Evidence::Cache(_) => ensure!(after == 0, "it left {after} dirty pages"),
                Evidence::Flushes(_) => ensure!(after > before, "it did not make the device flush its cache"),
            }
        }
        Ok(())
    });
}

fn pairs_with_evidence(bench: &Bench) -> Vec<Pair<'_>> {
    let shows = |pair: &Pair<'_>| Evidence::of(pair).is_ok_and(|evidence| evidence.is_some());
    bench.pairs_that_move_data().into_iter().filter(shows).collect()
}
