//! What is asked of a machine.

use iolane_core::IoPath;
use iolane_core::error::{Error, Result};

use crate::Machine;

/// A closed loop: each thread keeps `depth` requests in flight on a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The name of the path in the machine's file.
    pub path: String,
    /// The path.
    pub io_path: IoPath,
    /// Threads, each with a queue of its own.
    pub threads: usize,
    /// Drives, which the threads take in turn.
    pub drives: usize,
    /// The cores that may be used; the rest of the machine is off.
    pub cores: usize,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests in flight of each thread.
    pub depth: u32,
    /// The share of reads, from 0 to 1.
    pub reads: f64,
    /// Requests submitted by a call; `None` submits all that can be, and waits in the same call where the path can.
    pub batch_submit: Option<u32>,
    /// The most completions taken at a time; `None` takes all.
    pub batch_complete_max: Option<u32>,
}

impl Load {
    /// Random reads of 4 KiB, one at a time, by one thread on one drive, on all cores of the machine.
    ///
    /// # Errors
    /// `Usage` if the machine's file has no costs of the path.
    pub fn new(machine: &Machine, path: &str) -> Result<Self> {
        if !machine.paths.contains_key(path) {
            let known: Vec<&str> = machine.paths.keys().map(String::as_str).collect();
            let cause = format!("the machine was not calibrated for it, but for {}", known.join(", "));
            return Err(Error::usage(format!("predicting path {path}"), cause)
                .remedy("measure it and calibrate again (iolane calibrate)"));
        }
        Ok(Self {
            path: path.to_owned(),
            io_path: path.parse()?,
            threads: 1,
            drives: 1,
            cores: machine.processor.cores,
            block_bytes: 4096,
            depth: 1,
            reads: 1.0,
            batch_submit: None,
            batch_complete_max: None,
        })
    }
}

impl Load {
    /// Whether its threads, with those of the kernel, are more than the cores.
    pub fn is_crowded(&self) -> bool {
        threads(self) > self.cores
    }
}

/// Its threads and those of the kernel.
fn threads(load: &Load) -> usize {
    load.threads + load.io_path.submission_threads(load.threads)
}

/// How long a load is played, in virtual time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// It ends after this many requests of each thread,
    pub requests_per_thread: u64,
    /// but not before this time,
    pub at_least_ns: u64,
    /// and not after this one.
    pub at_most_ns: u64,
}

impl Length {
    /// As long as a load needs: 40 ms and 8,000 requests of each thread, at most a second and a half. Where threads share cores, at least
    /// some of their turns.
    pub fn of(load: &Load) -> Self {
        let at_most_ns = 1_500_000_000;
        match load.is_crowded() {
            true => {
                // Fewer threads have fewer turns to average over, and cost less to play.
                let at_least_ns = 150_000_000 * (16 / self::threads(load).max(1) as u64).clamp(1, 8);
                Self { requests_per_thread: 0, at_least_ns, at_most_ns }
            }
            false => Self { requests_per_thread: 8_000, at_least_ns: 40_000_000, at_most_ns },
        }
    }
}
