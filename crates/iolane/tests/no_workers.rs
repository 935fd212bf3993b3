//! The kernel cannot start the worker that a request needs, and ends it with ECANCELED: the queue submits it again. The limit of
//! threads that brings this about holds for the whole process, so this program has one test.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use iolane::{Completion, IoErrorKind, IoPath, Queue, QueueConfig, Request, Target};

/// The soft limit of threads of this process's user, which root and its capabilities exceed.
fn limit_threads(most: u64) -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write the structure alone.
    let set = unsafe {
        libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) == 0
            && libc::setrlimit(libc::RLIMIT_NPROC, &libc::rlimit { rlim_cur: most.min(limit.rlim_max), ..limit }) == 0
    };
    ensure!(set, "setrlimit: {}", std::io::Error::last_os_error());
    Ok(())
}

/// This thread alone becomes one of a user without privileges: libc's function would take all threads along.
fn drop_privileges() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: the system call takes three numbers.
    unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
}

/// Looks for the completion for 20 s at most; none if the kernel still tries to start the worker.
fn end(queue: &mut dyn Queue) -> Result<Option<Completion>> {
    let began = Instant::now();
    let mut ended = Vec::new();
    while ended.is_empty() && began.elapsed() < Duration::from_secs(20) {
        queue.reap_within(1, Duration::from_millis(100), &mut ended)?;
    }
    Ok(ended.pop())
}

#[test]
fn a_request_whose_worker_did_not_start_is_submitted_again() -> Result<()> {
    // Any file will do: it is only synced.
    let target = Target::options().direct(false).open(std::env::current_exe()?)?;
    let path: IoPath = "io_uring".parse()?;
    let mut queue = match iolane::open_queue(&path, &target, &QueueConfig::new(4)) {
        Ok(queue) => queue,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED requests without workers: {error}");
            return Ok(());
        }
    };
    drop_privileges();

    // A sync needs a worker, since it may block.
    limit_threads(0)?;
    queue.submit(&mut [Request::fsync(1)].into());
    match end(&mut *queue)? {
        Some(completion) => match completion.result {
            Err(error) => ensure!(error.errno() == libc::EAGAIN, "{error}, which nobody asked for"),
            Ok(_) => bail!("the worker started in spite of the limit"),
        },
        // Kernels before `WORKER_INIT_LIMIT` try for ever.
        None => {
            limit_threads(u64::MAX)?;
            ensure!(end(&mut *queue)?.context("it never ended")?.result == Ok(0), "the sync failed");
        }
    }

    limit_threads(0)?;
    queue.submit(&mut [Request::fsync(2)].into());
    for _ in 0..3 {
        ensure!(queue.reap(0, &mut Vec::new())? == 0, "it ended without a worker");
    }
    limit_threads(u64::MAX)?;
    let completion = end(&mut *queue)?.context("it never ended")?;
    ensure!(completion.tag == 2 && completion.result == Ok(0), "{completion:?}");

    // Cancelled by the caller, it is not submitted again.
    limit_threads(0)?;
    queue.submit(&mut [Request::fsync(3)].into());
    queue.flush()?;
    queue.cancel(3)?;
    let ended = end(&mut *queue)?;
    limit_threads(u64::MAX)?;
    if let Some(completion) = ended {
        let kind = completion.result.err().map(|error| error.kind());
        // The worker of the sync before may be there still, and be faster.
        let is_done = completion.result == Ok(0);
        ensure!(is_done || kind == Some(IoErrorKind::Cancelled) || kind == Some(IoErrorKind::Other), "{completion:?}");
    }
    Ok(())
}
