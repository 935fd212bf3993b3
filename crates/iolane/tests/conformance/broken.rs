//! Broken queues: an interface that opens a good queue and lets one bug change what goes in and what comes out. `IOLANE_CONFORMANCE_BUG`
//! names the bug; without it the interface has no path and the suite does not meet it. `IOLANE_CONFORMANCE_ABOVE` names the path of the good
//! queue, libaio by default. `self_test` runs the suite on each bug.

mod bugs;
mod faults;

use std::collections::HashMap;
use std::time::Duration;

use iolane::{
    Capabilities, Completion, Error, Interface, IoPath, OTHER_INTERFACES, Operation, Queue, QueueConfig, Request,
    Result, SyscallUse, Target, TargetId, TargetKind,
};

pub(crate) use bugs::{BUGS, Bug, NO_BUG};
use faults::{Fault, Taken};

use crate::paths::interface_of;

/// The variable that names the bug.
pub(crate) const VARIABLE: &str = "IOLANE_CONFORMANCE_BUG";

/// That which names the path below the bug.
pub(crate) const ABOVE: &str = "IOLANE_CONFORMANCE_ABOVE";

/// What a bug that takes some luck says when it has changed something.
pub(crate) const STRUCK: &str = "the bug has struck";

#[linkme::distributed_slice(OTHER_INTERFACES)]
static INTERFACE: &dyn Interface = &Broken;

struct Broken;

fn chosen() -> Option<&'static Bug> {
    let name = std::env::var(VARIABLE).ok()?;
    Some(BUGS.iter().chain([&NO_BUG]).find(|bug| bug.name == name).unwrap_or_else(|| panic!("{VARIABLE}={name}?")))
}

/// The path of the good queue.
fn good() -> IoPath {
    let named = std::env::var(ABOVE).ok().filter(|text| !text.is_empty());
    named.map_or(IoPath::new("libaio"), |text| text.parse().unwrap_or_else(|error| panic!("{ABOVE}: {error}")))
}

impl Interface for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn summary(&self) -> &'static str {
        "a queue with a bug that the suite must find"
    }

    fn paths(&self) -> Vec<IoPath> {
        chosen().map(|_| IoPath::new(self.name())).into_iter().collect()
    }

    /// A bug may make calls of its own.
    fn syscall_use(&self, _path: &IoPath) -> SyscallUse {
        SyscallUse::Varies
    }

    fn own_target(&self) -> Option<TargetKind> {
        interface_of(&good()).own_target()
    }

    fn requires_registered_memory(&self, _path: &IoPath) -> bool {
        interface_of(&good()).requires_registered_memory(&good())
    }

    fn polls_completions(&self, _path: &IoPath) -> bool {
        interface_of(&good()).polls_completions(&good())
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        if self.paths().contains(path) {
            return Ok(());
        }
        Err(Error::usage(format!("path {path}"), "it has one path, without options").remedy(format!("set {VARIABLE}")))
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        let good = good();
        let capabilities = iolane::probe(&good, target)?;
        let cause = chosen().and_then(|bug| bug.is_impossible(&good, capabilities.operations));
        let unavailable = |cause| Err(Error::unavailable("the bug", cause).remedy("name another path below it"));
        cause.map_or(Ok(capabilities.event_fd(false)), unavailable)
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        self.validate(path)?;
        let bug = chosen().ok_or_else(|| Error::usage(format!("path {path}"), "no bug is named"))?;
        let good = iolane::open_queue(&good(), target, config)?;
        let fault = (bug.fault)(target);
        let (asked, done, arrived) = (HashMap::new(), Vec::new(), Vec::new());
        Ok(Box::new(BrokenQueue { good, fault, asked, next: 0, done, arrived, empty_reaps: 0 }))
    }
}

/// What is known of a request after the good queue has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Unlike the tag, it is given once.
    number: u64,
    tag: u64,
    kind: Kind,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Other,
}

impl Asked {
    fn of(number: u64, request: &Request) -> Self {
        let kind = match request.operation {
            Operation::Read(_) => Kind::Read,
            Operation::Write(_) => Kind::Write,
            _ => Kind::Other,
        };
        Self { number, tag: request.tag, kind, bytes: request.operation.bytes() }
    }
}

struct BrokenQueue {
    good: Box<dyn Queue>,
    fault: Box<dyn Fault>,
    /// What the good queue has, by number; the numbers are its tags.
    asked: HashMap<u64, Asked>,
    next: u64,
    /// Completions that the bug made at once.
    done: Vec<Completion>,
    arrived: Vec<Completion>,
    empty_reaps: u32,
}

/// Reaps in a row that bring nothing although something is in flight, before the queue fails: a check that waits for a lost
/// completion ends so.
const EMPTY_REAPS_MAX: u32 = 1000;

impl BrokenQueue {
    fn begin(&mut self, request: Request, passed: &mut Vec<Request>) {
        let asked = Asked::of(self.next, &request);
        self.next += 1;
        match self.fault.take(&asked, request) {
            Taken::Passed(request) => {
                self.asked.insert(asked.number, asked);
                passed.push(Request { tag: asked.number, ..request });
            }
            Taken::Done(completion) => self.done.push(completion),
        }
    }

    /// Hands on what the good queue brought.
    fn hand_on(&mut self, completions: &mut Vec<Completion>) {
        for mut completion in std::mem::take(&mut self.arrived) {
            let asked = self.asked.remove(&completion.tag).expect("the good queue completes what it was given, once");
            completion.tag = asked.tag;
            self.fault.end(&asked, completion, completions);
        }
        if self.good.in_flight() == 0 {
            self.fault.idle(completions);
        }
    }

    fn bounded(&mut self, brought: usize) -> Result<usize> {
        let is_empty = brought == 0 && self.in_flight() > 0;
        self.empty_reaps = if is_empty { self.empty_reaps + 1 } else { 0 };
        if self.empty_reaps > EMPTY_REAPS_MAX && self.good.in_flight() == 0 {
            return Err(Error::usage("reaping", "a completion is lost, and nothing else is in flight"));
        }
        Ok(brought)
    }
}

impl Queue for BrokenQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth().saturating_sub(self.in_flight()));
        let mut passed = Vec::new();
        for request in requests.drain(..count) {
            self.begin(request, &mut passed);
        }
        self.good.submit(&mut passed);
        assert!(passed.is_empty(), "there was room");
        count
    }

    fn flush(&mut self) -> Result<()> {
        self.good.flush()
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        completions.append(&mut self.done);
        loop {
            let missing = min.saturating_sub(completions.len() - before);
            self.good.reap(missing.min(self.good.in_flight()), &mut self.arrived)?;
            self.hand_on(completions);
            if completions.len() - before >= min || self.good.in_flight() == 0 {
                return self.bounded(completions.len() - before);
            }
        }
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        completions.append(&mut self.done);
        let missing = min.saturating_sub(completions.len() - before);
        let waits = if self.fault.ignores_timeouts() { 20 } else { 1 };
        for _ in 0..waits {
            self.good.reap_within(missing, timeout, &mut self.arrived)?;
            if self.arrived.len() >= missing.min(self.good.in_flight() + self.arrived.len()) {
                break;
            }
        }
        if waits > 1 && missing > 0 && self.arrived.is_empty() && self.good.in_flight() > 0 {
            return Err(Error::usage("reaping", "it would wait for ever"));
        }
        self.hand_on(completions);
        self.bounded(completions.len() - before)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        self.good.attach(target)
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        self.good.detach(target)
    }

    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let mut numbers: Vec<u64> =
            self.asked.values().filter(|asked| asked.tag == tag).map(|asked| asked.number).collect();
        numbers.sort_unstable();
        let mut count = 0;
        for number in numbers {
            let ends = self.good.cancel(number)?;
            self.done.extend((0..ends).filter_map(|_| self.fault.cancelled(tag)));
            count += ends;
        }
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.good.depth()
    }

    fn in_flight(&self) -> usize {
        self.good.in_flight() + self.done.len() + self.fault.kept()
    }

    fn syscalls(&self) -> Option<u64> {
        None
    }
}
