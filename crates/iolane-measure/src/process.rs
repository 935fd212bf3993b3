//! Runs another program until it ends, is stopped or reaches a limit, and keeps its output. Peers and meters call it. The
//! program's process group does not outlive it, and it cannot make this program wait, run out of memory or miss a stop.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolane::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};

/// Time limits of a program.
pub struct Limits {
    /// Most time that it may run.
    pub time: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub patience: Duration,
}

/// Why a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited.
    Itself,
    /// It was stopped.
    Stopped,
    /// It reached its time limit.
    Overdue,
    /// It printed more than `STDOUT_BYTES_MAX`.
    Verbose,
}

/// Output and status of a program that has ended.
pub struct Finished {
    pub stdout: String,
    /// The end of its standard error.
    stderr: String,
    pub status: ExitStatus,
    pub end: End,
}

impl Finished {
    pub fn succeeded(&self) -> bool {
        self.end == End::Itself && self.status.success()
    }

    /// The last lines of stderr, or of stdout if stderr is empty, to be appended to a message: those that name an error, if any does.
    pub fn complaints(&self) -> String {
        let of = |text: &str| {
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let errors: Vec<&str> =
                lines.iter().copied().filter(|line| line.to_lowercase().contains("error")).collect();
            let telling = if errors.is_empty() { lines } else { errors };
            let last = telling.iter().skip(telling.len().saturating_sub(3));
            last.map(|line| shown(line, 160)).collect::<Vec<_>>().join(" | ")
        };
        match [&self.stderr, &self.stdout].map(|text| of(text)) {
            [stderr, _] if !stderr.is_empty() => format!(": {stderr}"),
            [_, stdout] if !stdout.is_empty() => format!(": {stdout}"),
            _ => ", and printed nothing".into(),
        }
    }
}

/// fio's histogram of a million latencies takes some hundred KiB.
const STDOUT_BYTES_MAX: usize = 64 << 20;
const STDERR_BYTES_KEPT: usize = 8 << 10;
/// Interval at which a stop is noticed.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be started or watched.
pub fn capture(command: &mut Command, limits: &Limits, stop: &AtomicBool) -> Result<Finished> {
    capture_watched(command, limits, stop, &mut |_| ())
}

/// The same, with a call each time that the child is looked after, at least every 50 ms while it runs.
///
/// # Errors
/// If it cannot be started or watched.
pub fn capture_watched(
    command: &mut Command,
    limits: &Limits,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Pid),
) -> Result<Finished> {
    let program = command.get_program().display().to_string();
    let failed = |error: std::io::Error| Error::system(format!("running {program}"), error);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut group = Group::new(command.spawn().map_err(failed)?);
    let mut stdout = Pipe::new(group.child.stdout.take()).map_err(failed)?;
    let mut stderr = Pipe::new(group.child.stderr.take()).map_err(failed)?;
    let begun = Instant::now();
    let mut end = End::Itself;
    let mut told_to_end: Option<Instant> = None;
    while !group.has_ended() {
        wait(&group, &stdout, &stderr);
        watch(group.id);
        stdout.read();
        stderr.read();
        stderr.kept.drain(..stderr.kept.len().saturating_sub(STDERR_BYTES_KEPT));
        if let Some(told) = told_to_end {
            stdout.kept.truncate(STDOUT_BYTES_MAX);
            if told.elapsed() >= limits.patience {
                group.signal(Signal::KILL);
            }
            continue;
        }
        end = match () {
            () if stop.load(Ordering::Relaxed) => End::Stopped,
            () if begun.elapsed() >= limits.time => End::Overdue,
            () if stdout.kept.len() > STDOUT_BYTES_MAX => End::Verbose,
            () => continue,
        };
        group.signal(Signal::TERM);
        told_to_end = Some(Instant::now());
    }
    let status = group.finish().map_err(failed)?;
    stdout.read();
    stderr.read();
    Ok(Finished { stdout: stdout.text(), stderr: stderr.text(), status, end })
}

/// Sleeps until there is output, the program has ended, or it is time to check for a stop.
pub fn wait(group: &Group, stdout: &Pipe<impl Read + AsFd>, stderr: &Pipe<impl Read + AsFd>) {
    let open = [group.pidfd.as_ref().map(AsFd::as_fd), stdout.fd(), stderr.fd()];
    let mut watched: Vec<PollFd<'_>> =
        open.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // An interruption by a signal has the effect of a tick.
    let _ = poll(&mut watched, Some(&TICK));
}

/// A child and the processes of its group; killed and waited for when dropped.
pub struct Group {
    pub child: Child,
    id: Pid,
    /// Readable when the child has ended.
    pidfd: Option<OwnedFd>,
    waited: bool,
}

impl Group {
    pub fn new(child: Child) -> Self {
        let id = Pid::from_child(&child);
        // Without a pidfd the end is noticed at the next tick.
        Self { child, id, pidfd: pidfd_open(id, PidfdFlags::empty()).ok(), waited: false }
    }

    /// Only valid before the child is waited for: until then no other group can have this number.
    fn signal(&self, signal: Signal) {
        // Fails if the group is gone, which is what is wanted.
        let _ = kill_process_group(self.id, signal);
    }

    /// Whether the child has ended; it remains to be waited for.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.id), options), Ok(None))
    }

    /// Kills what is left of the group, and returns the status of the child.
    pub fn finish(&mut self) -> std::io::Result<ExitStatus> {
        if !std::mem::replace(&mut self.waited, true) {
            self.signal(Signal::KILL);
        }
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// One output stream of a child, read without blocking.
pub struct Pipe<R> {
    /// `None` once the other end is closed.
    source: Option<R>,
    pub kept: Vec<u8>,
}

impl<R: Read + AsFd> Pipe<R> {
    /// Much more than a pipe holds, so that one call empties an idle pipe, and returns from one that is being written.
    const BYTES_A_CALL: u64 = 4 << 20;

    pub fn new(source: Option<R>) -> std::io::Result<Self> {
        if let Some(source) = &source {
            fcntl_setfl(source, fcntl_getfl(source)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { source, kept: Vec::new() })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is available.
    pub fn read(&mut self) {
        let Some(source) = &mut self.source else { return };
        match source.take(Self::BYTES_A_CALL).read_to_end(&mut self.kept) {
            Ok(bytes) if bytes as u64 == Self::BYTES_A_CALL => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Closed or broken.
            _ => self.source = None,
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

/// A line of another program's output, made safe for a message.
pub fn shown(line: &str, characters_max: usize) -> String {
    line.trim().chars().take(characters_max).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
