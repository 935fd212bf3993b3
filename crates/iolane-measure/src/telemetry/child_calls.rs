//! Counts the system calls per I/O of another program while it runs. Peers are counted so; iolane's own runs count themselves.

use rustix::process::Pid;

use super::{Reading, SyscallCounter, Unavailable};
use crate::process_io::ProcessIo;

/// Counts the system calls of a child process, with all its threads and children, and the bytes that the kernel read and wrote for it.
///
/// While it is open, a system call takes some nanoseconds longer ([`SyscallCounter`]).
#[derive(Debug)]
pub struct ChildCalls {
    all: SyscallCounter,
    /// The thread that opened it, whose calls are among all.
    own: SyscallCounter,
    /// The bytes of the child when they were started.
    started_at: u64,
}

/// System calls and bytes between a start and a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsAndBytes {
    /// System calls of the child.
    pub calls: u64,
    /// Bytes that it read from storage and wrote to it.
    pub bytes: u64,
}

/// System calls that only `all` counts, because it is started before `own` and stopped after it: those that stop, read and start
/// `own`, and those that stop and read it.
const CALLS_AROUND_OWN: u64 = 5;

impl ChildCalls {
    /// Opens the counters. The child has to be started after that, by the same thread.
    ///
    /// # Errors
    /// Those of [`SyscallCounter::open`].
    pub fn open() -> Reading<Self> {
        Ok(Self { all: SyscallCounter::open_for_children()?, own: SyscallCounter::open()?, started_at: 0 })
    }

    /// Counts from here on.
    ///
    /// # Errors
    /// If the kernel refuses to start a counter, or does not tell what the child has read and written.
    pub fn start(&mut self, child: Pid) -> Reading<()> {
        let bytes = bytes_of(child)?;
        self.all.start()?;
        self.own.start()?;
        self.started_at = bytes;
        Ok(())
    }

    /// Stops, and returns what was counted since the last start.
    ///
    /// # Errors
    /// If it was not started, the kernel refuses to stop a counter, or the child is gone.
    pub fn stop(&mut self, child: Pid) -> Reading<CallsAndBytes> {
        let own = self.own.stop()?;
        let calls = self.all.stop()?.saturating_sub(own + CALLS_AROUND_OWN);
        Ok(CallsAndBytes { calls, bytes: bytes_of(child)?.saturating_sub(self.started_at) })
    }
}

/// What a process has read from storage and written to it so far, in bytes (proc(5), /proc/pid/io).
///
/// # Errors
/// If the process is gone, belongs to another user, or the kernel does not account I/O.
pub fn bytes_of(process: Pid) -> Reading<u64> {
    let file = format!("/proc/{}/io", process.as_raw_nonzero());
    let text = std::fs::read_to_string(&file).map_err(|error| Unavailable::new(format!("{file}: {error}")))?;
    parse(&text).ok_or_else(|| {
        Unavailable::new(format!("{file} has no read_bytes and write_bytes"))
            .remedy("use a kernel built with CONFIG_TASK_IO_ACCOUNTING")
    })
}

fn parse(text: &str) -> Option<u64> {
    ProcessIo::parse(text)?.stored_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// Copies 1000 blocks with two calls each for every line that it reads, and answers with a line.
    const WORKER: &str =
        "while read line; do dd if=/dev/zero of=/dev/null bs=4096 count=1000 2>/dev/null; echo done; done";

    #[test]
    fn only_the_calls_of_the_child_are_counted_and_only_from_start_to_stop() {
        let mut calls = match ChildCalls::open() {
            Ok(calls) => calls,
            Err(why) => {
                println!("SKIP system calls of a child: {why}");
                return;
            }
        };
        let this = rustix::process::getpid();
        calls.start(this).unwrap();
        assert_eq!(calls.stop(this).unwrap().calls, 0);
        let mut shell = Command::new("/bin/sh");
        let mut child = shell.args(["-c", WORKER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut work = || {
            to.write_all(b"go\n").unwrap();
            from.read_line(&mut String::new()).unwrap();
        };
        work();
        let id = Pid::from_child(&child);
        calls.start(id).unwrap();
        work();
        let busy = calls.stop(id).unwrap();
        work();
        drop((to, from));
        child.wait().unwrap();
        // Those of the copy, and some hundred to start dd.
        assert!((2000..3000).contains(&busy.calls), "{busy:?}");
        assert_eq!(busy.bytes, 0);
    }

    #[test]
    fn bytes_read_and_written_are_added_and_cancelled_writes_are_not() {
        let text =
            "rchar: 5\nwchar: 6\nsyscr: 1\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 9\n";
        assert_eq!(parse(text), Some(4608));
        assert_eq!(parse("rchar: 5\nread_bytes: 1\n"), None);
        assert!(bytes_of(rustix::process::getpid()).is_ok());
    }

    #[test]
    fn the_bytes_of_a_process_that_is_gone_are_unavailable() {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        let id = Pid::from_child(&child);
        child.wait().unwrap();
        assert!(bytes_of(id).unwrap_err().to_string().contains("/proc/"));
    }
}
