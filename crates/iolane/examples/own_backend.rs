//! An interface in a program of your own, with targets of its own scheme: memory, named `ram` or `ram:16m`. Registered here, it is listed,
//! probed and opened like the interfaces of the library, which names it nowhere. The conformance suite runs over it.
//! Run: cargo run --release --example own_backend

use std::sync::{Mutex, PoisonError};

use iolane::scheme::{Device, SCHEMES, Scheme, size_and_settings};
use iolane::{
    Capabilities, Completion, Error, Interface, IoError, IoPath, OTHER_INTERFACES, Operation, Operations, Pages, Pool,
    Queue, QueueConfig, Request, Result, SyscallUse, Target, TargetKind, open_queue,
};

const BLOCK_BYTES: u64 = 512;
const DEPTH_MAX: u32 = 1024;
/// A list of its own: `Operations::ALL` may grow.
const OPERATIONS: Operations = Operations::READ
    .with(Operations::WRITE)
    .with(Operations::DURABLE_WRITE)
    .with(Operations::FSYNC)
    .with(Operations::FDATASYNC)
    .with(Operations::DISCARD)
    .with(Operations::WRITE_ZEROES);

#[linkme::distributed_slice(SCHEMES)]
static SCHEME: Scheme = Scheme { simulated: true, ..Scheme::new("ram", open_device) };

#[linkme::distributed_slice(OTHER_INTERFACES)]
static INTERFACE: &dyn Interface = &Ram;

/// What a target keeps.
type Memory = Mutex<Vec<u8>>;

fn open_device(rest: &str, name: &str) -> Result<Device> {
    let (bytes, settings) = size_and_settings(rest, name, 16 << 20, 1 << 30)?;
    if !settings.is_empty() {
        return Err(Error::usage(format!("target {name}"), format!("it has no setting `{settings}`")));
    }
    let memory: Memory = Mutex::new(vec![0; bytes as usize]);
    Ok(Device { bytes, block_bytes: BLOCK_BYTES as u32, state: Box::new(memory) })
}

struct Ram;

impl Interface for Ram {
    fn name(&self) -> &'static str {
        "ram"
    }

    fn summary(&self) -> &'static str {
        "memory of this process, for the example of a backend"
    }

    fn own_target(&self) -> Option<TargetKind> {
        Some(TargetKind::Own(&SCHEME))
    }

    fn syscall_use(&self, _path: &IoPath) -> SyscallUse {
        SyscallUse::None
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![IoPath::new(self.name())]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        if *path == IoPath::new(self.name()) {
            return Ok(());
        }
        Err(Error::usage(format!("path {path}"), "memory has nothing to poll, and no options").remedy("use ram"))
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        if target.state_of::<Memory>().is_none() {
            return Err(Error::unavailable(format!("{path} on {}", target.name()), "it reaches memory only")
                .remedy("use target ram"));
        }
        Ok(Capabilities::new(DEPTH_MAX, OPERATIONS))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        iolane::capability::check_depth(path, config.depth, self.probe(path, target)?.depth_max)?;
        Ok(Box::new(RamQueue { target: target.clone(), depth: config.depth as usize, done: Vec::new() }))
    }
}

/// Carries a request out as it is submitted.
struct RamQueue {
    target: Target,
    depth: usize,
    done: Vec<Completion>,
}

impl RamQueue {
    fn carry_out(&self, mut request: Request) -> Completion {
        let result = match self.target.state_of::<Memory>() {
            Some(memory) => {
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                transfer(&mut memory, &mut request, self.target.writable())
            }
            None => Err(IoError::INVALID),
        };
        request.complete(result)
    }
}

/// As a block device: a read past the end gives nothing, any other request there fails.
fn transfer(memory: &mut [u8], request: &mut Request, writable: bool) -> Result<u32, IoError> {
    let end = memory.len() as u64;
    let offset = request.offset;
    let range = |bytes: u64| {
        if !(offset | bytes).is_multiple_of(BLOCK_BYTES) {
            return Err(IoError::INVALID);
        }
        Ok(offset.min(end) as usize..offset.saturating_add(bytes).min(end) as usize)
    };
    match &mut request.operation {
        Operation::Read(buffer) => {
            let range = range(buffer.len() as u64)?;
            buffer[..range.len()].copy_from_slice(&memory[range.clone()]);
            Ok(range.len() as u32)
        }
        Operation::Fsync | Operation::Fdatasync => Ok(0),
        operation if !OPERATIONS.contains(Operations::of(operation)) => Err(IoError::NOT_SUPPORTED),
        _ if !writable => Err(IoError::READ_ONLY),
        Operation::Write(buffer) | Operation::DurableWrite(buffer) => {
            let range = range(buffer.len() as u64)?;
            if range.is_empty() && !buffer.is_empty() {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            memory[range.clone()].copy_from_slice(&buffer[..range.len()]);
            Ok(range.len() as u32)
        }
        Operation::Discard { bytes } | Operation::WriteZeroes { bytes } => {
            if offset.saturating_add(*bytes) > end {
                return Err(IoError::INVALID);
            }
            memory[range(*bytes)?].fill(0);
            Ok(0)
        }
        _ => Err(IoError::NOT_SUPPORTED),
    }
}

impl Queue for RamQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.done.len());
        for request in requests.drain(..count) {
            let completion = match request.target {
                iolane::TargetId::FIRST => self.carry_out(request),
                _ => request.complete(Err(IoError::NOT_ATTACHED)),
            };
            self.done.push(completion);
        }
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

fn main() -> Result<()> {
    let target = Target::options().write_unguarded().open("ram:1m")?;
    let pool = Pool::new(1, 4096, Pages::Base)?;
    let mut queue = open_queue(&"ram".parse()?, &target, &QueueConfig::new(1).pool(&pool))?;
    let mut completions = Vec::new();
    let request = pool.take().map(|buffer| Request::read(1, 0, buffer));
    queue.submit(&mut request.into_iter().collect());
    queue.drain(&mut completions)?;
    for completion in completions {
        println!("a read of {}: {:?}", target.name(), completion.result);
    }
    Ok(())
}
