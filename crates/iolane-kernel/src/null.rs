//! `null`: completes every request at once and moves no data, to measure the cost of the engine. Copy this file to add an
//! interface with a queue of its own. It makes no system call.

use iolane_core::capability::check_depth;
use iolane_core::scheme::{Device, SCHEMES, Scheme, size_and_settings};
use iolane_core::{
    AtomicWrites, Capabilities, Completion, Error, Interface, IoPath, Operations, Queue, QueueConfig, Request, Result,
    SyscallUse, Target, TargetKind,
};

use crate::checks;

pub(crate) struct Null;

const DEPTH_MAX: u32 = 65_536;
/// It tears nothing.
const ATOMIC_WRITES: AtomicWrites = AtomicWrites { bytes_min: 1, bytes_max: 1 << 30 };
const BYTES_DEFAULT: u64 = 1 << 40;

/// `null`, `null:1g`: a device that answers at once and moves nothing.
#[linkme::distributed_slice(SCHEMES)]
static NULL: Scheme = Scheme { simulated: true, keeps_data: false, ..Scheme::new("null", open_device) };

fn open_device(rest: &str, name: &str) -> Result<Device> {
    match size_and_settings(rest, name, BYTES_DEFAULT, u64::MAX)? {
        (bytes, "") => Ok(Device { bytes, block_bytes: 512, state: Box::new(()) }),
        (_, settings) => Err(Error::usage(format!("target {name}"), format!("it has no setting `{settings}`"))),
    }
}

impl Interface for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn summary(&self) -> &'static str {
        "no kernel and no device: completes at once, to measure the engine itself"
    }

    fn own_target(&self) -> Option<TargetKind> {
        Some(TargetKind::Own(&NULL))
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
        if target.kind() != TargetKind::Own(&NULL) {
            return Err(Error::unavailable(
                format!("{path} on {}", target.name()),
                "it moves no data, so it takes no real target",
            )
            .remedy("use target null"));
        }
        Ok(Capabilities::new(DEPTH_MAX, Operations::ALL)
            .atomic_writes(Some(ATOMIC_WRITES))
            .note(Some("moves no data".into())))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        check_depth(path, config.depth, self.probe(path, target)?.depth_max)?;
        Ok(Box::new(NullQueue { depth: config.depth as usize, done: Vec::with_capacity(config.depth as usize) }))
    }
}

struct NullQueue {
    depth: usize,
    done: Vec<Completion>,
}

impl Queue for NullQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.done.len());
        self.done.extend(requests.drain(..count).map(|request| {
            let bytes = request.operation.bytes() as u32;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_a_size_and_nothing_else() {
        let target = Target::open("null").unwrap();
        assert_eq!((target.bytes(), target.kind().is_simulated(), target.kind().keeps_data()), (1 << 40, true, false));
        assert_eq!(Target::open("null:1g").unwrap().bytes(), 1 << 30);
        assert!(Target::open("null:1").unwrap_err().to_string().contains("4k or more"));
        assert!(Target::open("null:1g,seed=7").unwrap_err().to_string().contains("no setting `seed=7`"));
        let simulated = |name: &str| TargetKind::simulated(name.as_ref()).map(TargetKind::name);
        assert_eq!(simulated("null:1g"), Some("null"));
        assert_eq!(simulated("sim:seed=7"), Some("sim"));
        assert_eq!((simulated("nullx"), simulated("/sim")), (None, None));
    }
}
