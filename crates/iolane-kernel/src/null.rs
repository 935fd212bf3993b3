//! `null`: completes every request at once and moves no data, to measure the cost of the engine. Copy this file to add an
//! interface with a queue of its own. It makes no system call.

use std::collections::VecDeque;

use iolane_core::capability::check_depth;
use iolane_core::{
    Capabilities, Completion, Error, Interface, IoPath, Operations, Queue, QueueConfig, Request, Result, SyscallUse,
    Target, TargetKind,
};

use crate::checks;

pub(crate) struct Null;

const DEPTH_MAX: u32 = 65_536;

impl Interface for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn summary(&self) -> &'static str {
        "no kernel and no device: completes at once, to measure the engine itself"
    }

    fn own_target(&self) -> Option<TargetKind> {
        Some(TargetKind::Null)
    }

    fn syscall_use(&self, _path: &IoPath) -> SyscallUse {
        SyscallUse::None
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![IoPath::new(self.name())]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        checks::no_sqpoll(path)?;
        checks::no_polling(path, "it has no device to poll")?;
        checks::no_options(path)
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        if target.kind() != TargetKind::Null {
            return Err(Error::unavailable(
                format!("{path} on {}", target.name()),
                "it moves no data, so it takes no real target",
            )
            .remedy("use target null"));
        }
        Ok(Capabilities {
            depth_max: DEPTH_MAX,
            operations: Operations::ALL,
            request_bytes_max: None,
            event_fd: false,
            unregistered_memory: None,
            note: Some("moves no data".into()),
        })
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        check_depth(path, config.depth, self.probe(path, target)?.depth_max)?;
        Ok(Box::new(NullQueue { depth: config.depth as usize, done: Vec::with_capacity(config.depth as usize) }))
    }
}

struct NullQueue {
    depth: usize,
    done: Vec<Completion>,
}

impl Queue for NullQueue {
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
        let count = requests.len().min(self.depth - self.done.len());
        self.done.extend(requests.drain(..count).map(|request| {
            let bytes = request.operation.buffer().map_or(0, |buffer| buffer.len() as u32);
            request.complete(Ok(bytes))
        }));
        count
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, _min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let count = self.done.len();
        completions.append(&mut self.done);
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}
