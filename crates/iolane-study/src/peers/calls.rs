//! Counts the system calls per I/O of a peer in a slice of its run, as iolane counts its own.

use std::time::{Duration, Instant};

use iolane_measure::telemetry::{CallsAndBytes, ChildCalls, Reading, Unavailable, bytes_of};
use rustix::process::Pid;

use super::peer::Load;

/// Most time that is counted: enough I/Os to divide by, and little of the run.
const SLICE_MAX: Duration = Duration::from_millis(300);

/// The system calls of a peer, and what is known of its run so far.
pub(super) struct CallsOfPeer {
    calls: Reading<ChildCalls>,
    state: State,
    slice: Duration,
    block_bytes: u32,
}

enum State {
    /// It sets up, or has begun its load: the bytes that it had transferred when it was looked at last.
    Begins(u64),
    /// It is counted since then.
    Counts(Instant),
    Counted(Reading<CallsAndBytes>),
}

impl CallsOfPeer {
    /// Opens the counters for a peer that is started next.
    pub(super) fn open(load: &Load<'_>) -> Self {
        let calls = match load.direct {
            true => ChildCalls::open(),
            // The bytes that the kernel accounts are those of the device, not those of the page cache.
            false => Err(Unavailable::new("the I/Os of a peer are counted only where they bypass the page cache")),
        };
        let slice = (load.runtime / 5).min(SLICE_MAX);
        Self { calls, state: State::Begins(0), slice, block_bytes: load.block_bytes }
    }

    /// Looks at the peer while it runs: starts to count once it transfers data all the time, and stops after the slice.
    pub(super) fn watch(&mut self, peer: Pid) {
        let Ok(calls) = &mut self.calls else { return };
        match self.state {
            State::Begins(before) => {
                let Ok(bytes) = bytes_of(peer) else { return };
                self.state = State::Begins(bytes);
                // Some data are read at the start, to identify a device.
                if before > 0 && bytes.saturating_sub(before) > MANY * u64::from(self.block_bytes) {
                    self.state = match calls.start(peer) {
                        Ok(()) => State::Counts(Instant::now()),
                        Err(why) => State::Counted(Err(why)),
                    };
                }
            }
            State::Counts(since) if since.elapsed() >= self.slice => self.state = State::Counted(calls.stop(peer)),
            State::Counts(_) | State::Counted(_) => {}
        }
    }

    /// System calls per I/O.
    pub(super) fn per_io(self) -> Reading<f64> {
        self.calls?;
        per_io(self.state, self.block_bytes)
    }
}

fn per_io(state: State, block_bytes: u32) -> Reading<f64> {
    let counted = match state {
        State::Counted(counted) => counted?,
        State::Begins(0) => return Err(Unavailable::new("the kernel transferred no data for it")),
        State::Begins(_) | State::Counts(_) => {
            return Err(Unavailable::new("it ended before its system calls were counted"));
        }
    };
    match counted.bytes / u64::from(block_bytes) {
        0 => Err(Unavailable::new("it made no I/O while its system calls were counted")),
        ios => Ok(counted.calls as f64 / ios as f64),
    }
}

/// I/Os between two looks that only a load makes.
const MANY: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_divided_by_the_blocks_that_the_kernel_transferred() {
        let counted = |calls, blocks: u64| State::Counted(Ok(CallsAndBytes { calls, bytes: blocks * 4096 }));
        assert_eq!(per_io(counted(150, 100), 4096), Ok(1.5));
        assert_eq!(per_io(counted(150, 100), 8192), Ok(3.0));
        assert_eq!(per_io(counted(0, 100), 4096), Ok(0.0));
        let unavailable = |state| per_io(state, 4096).unwrap_err().reason;
        assert_eq!(unavailable(counted(150, 0)), "it made no I/O while its system calls were counted");
        assert_eq!(unavailable(State::Begins(0)), "the kernel transferred no data for it");
        for state in [State::Begins(4096), State::Counts(Instant::now())] {
            assert_eq!(unavailable(state), "it ended before its system calls were counted");
        }
    }
}
