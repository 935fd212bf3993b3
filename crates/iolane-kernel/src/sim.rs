//! `sim`: a device in memory that completes requests in virtual time. Its seed draws latencies, short transfers, errors, reordering, and
//! damaged writes and reads; its time is that of a drive with units, tags and ceilings, or a latency and a jitter. Tests use it for behaviour that no
//! real device shows on demand. It makes no system call.

mod faults;
mod settings;
#[cfg(test)]
mod tests;
mod transfer;
mod turns;
mod world;

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use iolane_core::capability::check_depth;
use iolane_core::scheme::{self, SCHEMES, Scheme, size_and_settings};
use iolane_core::targets::{Targets, check_detach, no_room_for};
use iolane_core::{
    Capabilities, Completion, Error, Interface, IoError, IoPath, Operation, Operations, Queue, QueueConfig, Request,
    Result, SyscallUse, Target, TargetId, TargetKind,
};

use crate::checks;
use faults::{Fault, FaultSource, random};
use transfer::{ATOMIC_WRITES, BLOCK_BYTES, bring_instead, transfer, written_range};
use world::{InDrive, Work, World};

pub use faults::{Faults, Injected};
pub use settings::{SimSettings, Timing};

pub(crate) struct Sim;

const DEPTH_MAX: u32 = 4096;
const BYTES_DEFAULT: u64 = 64 << 20;
const BYTES_MAX: u64 = 4 << 30;

/// `sim`, `sim:64m,seed=7`: a device simulated in memory and virtual time.
#[linkme::distributed_slice(SCHEMES)]
static SIM: Scheme = Scheme { simulated: true, virtual_time: true, ..Scheme::new("sim", open_device) };

/// The kind of a simulated device.
pub const KIND: TargetKind = TargetKind::Own(&SIM);

fn open_device(rest: &str, name: &str) -> Result<scheme::Device> {
    let (bytes, settings) = size_and_settings(rest, name, BYTES_DEFAULT, BYTES_MAX)?;
    let settings: SimSettings = settings.parse()?;
    let (world, drive) = World::of(&settings)?;
    let faults = Mutex::new(FaultSource::new(settings.faults, random(settings.seed, world.new_target())));
    let device = Device { bytes: bytes as usize, data: OnceLock::new(), faults, world, drive };
    Ok(scheme::Device { bytes, block_bytes: BLOCK_BYTES as u32, state: Box::new(device) })
}

impl Interface for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn summary(&self) -> &'static str {
        "a device simulated in memory and virtual time, for tests"
    }

    fn own_target(&self) -> Option<TargetKind> {
        Some(KIND)
    }

    fn syscall_use(&self, _path: &IoPath) -> SyscallUse {
        SyscallUse::None
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![IoPath::new(self.name())]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        checks::no_sqpoll(path)?;
        checks::no_polling(path, "virtual time does not pass while polling")?;
        checks::no_options(path)
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        device_of(path, target)?;
        Ok(Capabilities::new(DEPTH_MAX, Operations::ALL)
            .atomic_writes(Some(ATOMIC_WRITES))
            .note(Some("virtual time: its figures are those of the simulated drive".into())))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        self.validate(path)?;
        check_depth(path, config.depth, DEPTH_MAX)?;
        let Device { world, .. } = device_of(path, target)?;
        let number = world.new_queue();
        Ok(Box::new(SimQueue {
            path: path.clone(),
            world: world.clone(),
            number,
            targets: Targets::new(config.targets, target.clone()),
            depth: config.depth as usize,
            submitted: VecDeque::with_capacity(config.depth as usize),
            in_device: HashMap::with_capacity(config.depth as usize),
            ended: Vec::new(),
            handed: 0,
        }))
    }
}

/// A simulated device, kept with its target and shared by all its queues.
struct Device {
    bytes: usize,
    /// Made at the first request.
    data: OnceLock<Mutex<Vec<u8>>>,
    faults: Mutex<FaultSource>,
    world: Arc<World>,
    /// The number of its drive in the world.
    drive: usize,
}

/// The cost of a reap that finds no completion, in virtual nanoseconds.
const LOOK_NS: u64 = 1000;

fn device_of<'a>(path: &IoPath, target: &'a Target) -> Result<&'a Device> {
    target.state_of().ok_or_else(|| {
        Error::unavailable(format!("{path} on {}", target.name()), "it reaches simulated devices only")
            .remedy("use target sim")
    })
}

impl Device {
    fn data(&self) -> MutexGuard<'_, Vec<u8>> {
        let data = self.data.get_or_init(|| Mutex::new(vec![0; self.bytes]));
        data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, FaultSource> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From now on, the faults of a simulated target are these, for example none while a program recovers. Shares are from 0 to 1.
///
/// # Errors
/// `Unavailable` if the target is not simulated.
pub fn set_faults(target: &Target, faults: Faults) -> Result<()> {
    device_of(&IoPath::new("sim"), target)?.faults().faults = faults;
    Ok(())
}

/// How many faults the requests of a simulated target have had; `None` for any other target.
pub fn injected(target: &Target) -> Option<Injected> {
    device_of(&IoPath::new("sim"), target).ok().map(|device| device.faults().injected)
}

/// The virtual clock of a simulated target; `None` for any other target. Targets of one world ([`SimSettings::world`]) have one clock.
pub fn clock(target: &Target) -> Option<SimClock> {
    device_of(&IoPath::new("sim"), target).ok().map(|device| SimClock(device.world.clone()))
}

/// A clock of virtual time. It stands still but for queues that wait for a completion, which move it to the next event, a reap that finds
/// none, which takes a microsecond, and [`wait_until`](Self::wait_until).
#[derive(Debug, Clone)]
pub struct SimClock(Arc<World>);

impl SimClock {
    /// Now, in nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.0.now()
    }

    /// Lets time pass until then. What completes meanwhile waits for its queue to reap it.
    pub fn wait_until(&self, at_ns: u64) {
        self.0.wait_until(at_ns);
    }

    /// Makes this thread the one of this number, from 0, among as many that take turns: one runs at a time, until it waits for a completion
    /// or for a time, and the clock moves when all of them wait. So a program of many threads does the same every time. Blocks until all of
    /// them have called this.
    ///
    /// **A thread gives its turn away only in a queue of the world, or in [`wait_until`](Self::wait_until).** One that waits for a lock, a
    /// channel or another thread keeps it, and the thread that it waits for never runs: hold no lock over a `reap`, and let threads wait for
    /// each other in a loop of `wait_until`. Hold the returned turn as long as the thread uses queues of the world (`let _turn = ...`); after
    /// it is dropped, others go on. The thread may take turns again when all others have dropped theirs, too.
    ///
    /// # Panics
    /// If two threads have one number, or disagree on how many they are; if a thread without a turn waits in the world; if no turn was passed
    /// on for a minute, or a thread has not come by then.
    #[must_use]
    pub fn take_turns(&self, thread: usize, threads: usize) -> SimTurn {
        self.0.begin_turns(thread, threads);
        SimTurn { world: self.0.clone(), thread, _is_of_this_thread: PhantomData }
    }

    /// Ends the turns of all threads, for good: those that wait for one, maybe for a thread that will never come, go on, and from then on the
    /// clock moves as without turns.
    pub fn cancel_turns(&self) {
        self.0.cancel_turns();
    }
}

impl PartialEq for SimClock {
    /// Whether it is one clock.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The turn of a thread ([`SimClock::take_turns`]).
#[derive(Debug)]
pub struct SimTurn {
    world: Arc<World>,
    thread: usize,
    _is_of_this_thread: PhantomData<*const ()>,
}

impl Drop for SimTurn {
    fn drop(&mut self) {
        self.world.end_turns(self.thread);
    }
}

struct SimQueue {
    path: IoPath,
    world: Arc<World>,
    /// Its number in the world.
    number: usize,
    targets: Targets<Target>,
    depth: usize,
    submitted: VecDeque<Request>,
    /// Requests in the device, by the number that the world knows them by.
    in_device: HashMap<u64, Request>,
    /// Requests that ended without the device: cancelled, or naming no target.
    ended: Vec<Completion>,
    /// Requests handed to the device so far.
    handed: u64,
}

impl SimQueue {
    /// Carries out a request at its completion time.
    fn carry_out(&self, mut request: Request) -> Result<Completion> {
        // A target with requests in flight is not detached.
        let Some(target) = self.targets.get(request.target) else {
            return Ok(request.complete(Err(IoError::NOT_ATTACHED)));
        };
        let device = device_of(&self.path, target)?;
        let (mut faults, mut data) = (device.faults(), device.data());
        let written = written_range(&data, &request);
        let is_atomic = matches!(request.operation, Operation::AtomicWrite(_));
        let fault = faults.draw(&request.operation, !written.is_empty());
        if let Some(fault @ Fault::Error) = fault {
            faults.count(fault);
            return Ok(request.complete(Err(IoError::from_errno(libc::EIO))));
        }
        let before = data[written.clone()].to_vec();
        let mut was_cut = false;
        let result = transfer(&mut data, &mut request, target.writable(), |bytes| match (fault, bytes / BLOCK_BYTES) {
            (Some(Fault::Short(cut)), blocks @ 2..) => {
                was_cut = true;
                (1 + cut % (blocks - 1)) * BLOCK_BYTES
            }
            _ => bytes,
        });
        let elsewhere = beside(&written, data.len());
        let stored = &mut data[written.clone()];
        let half = stored.len() / 2 / BLOCK_BYTES as usize * BLOCK_BYTES as usize;
        let happened = match fault {
            None | Some(Fault::Error) => None,
            Some(Fault::Short(_)) => fault.filter(|_| was_cut),
            _ if result.is_err() => None,
            Some(Fault::Lost) => {
                stored.copy_from_slice(&before);
                fault
            }
            Some(Fault::Torn) if is_atomic => {
                stored.copy_from_slice(&before);
                Some(Fault::Lost)
            }
            Some(Fault::Torn) if half == 0 => None,
            Some(Fault::Torn) => {
                stored[half..].copy_from_slice(&before[half..]);
                fault
            }
            Some(Fault::Altered) => {
                stored.iter_mut().skip(half).take(1).for_each(|byte| *byte ^= 1);
                fault
            }
            Some(Fault::Misdirected) => elsewhere.and_then(|elsewhere| {
                data.copy_within(written.clone(), elsewhere.start);
                data[written].copy_from_slice(&before);
                fault
            }),
            Some(Fault::AlteredRead(_) | Fault::MisdirectedRead(_)) => {
                let bytes = result.unwrap_or(0) as usize;
                fault.filter(|fault| damage_read(*fault, &data, &mut request, bytes))
            }
        };
        happened.into_iter().for_each(|fault| faults.count(fault));
        drop((faults, data));
        Ok(request.complete(result))
    }

    /// Reaps, while time passes until `latest`.
    fn reap_until(&mut self, min: usize, latest_ns: u64, completions: &mut Vec<Completion>) -> Result<usize> {
        self.flush()?;
        let min = min.min(self.in_flight());
        let mut count = self.ended.len();
        completions.append(&mut self.ended);
        loop {
            for number in self.world.take_completed(self.number) {
                // One that was cancelled has its completion.
                if let Some(request) = self.in_device.remove(&number) {
                    completions.push(self.carry_out(request)?);
                    count += 1;
                }
            }
            if count >= min || !self.world.wait_for(self.number, latest_ns) {
                return Ok(count);
            }
        }
    }
}

/// Has a read of this many bytes bring other data than is stored at its place; returns false if there is none.
fn damage_read(fault: Fault, data: &[u8], request: &mut Request, bytes: usize) -> bool {
    let own = request.offset as usize..request.offset as usize + bytes;
    let brought = match fault {
        Fault::AlteredRead(number) if bytes > 0 => {
            let mut brought = data[own].to_vec();
            let bit = number % (8 * bytes as u64);
            brought[bit as usize / 8] ^= 1 << (bit % 8);
            Some(brought)
        }
        Fault::MisdirectedRead(number) if bytes > 0 => {
            another_place(&own, data.len(), number).map(|place| data[place].to_vec())
        }
        _ => None,
    };
    brought.inspect(|brought| bring_instead(request, brought)).is_some()
}

/// One of the ranges of this length that begin with another block; `None` if a device of `bytes` has room for no other.
fn another_place(range: &Range<usize>, bytes: usize, number: u64) -> Option<Range<usize>> {
    let block_bytes = BLOCK_BYTES as usize;
    let places = (bytes - range.len()) / block_bytes + 1;
    let skipped = 1 + (number % (places as u64 - 1).max(1)) as usize;
    let start = (range.start / block_bytes + skipped) % places * block_bytes;
    (places > 1).then_some(start..start + range.len())
}

/// The range right after this one, or right before it at the end of a device of `bytes`; `None` if there is room for neither.
fn beside(range: &Range<usize>, bytes: usize) -> Option<Range<usize>> {
    let before = || range.start.checked_sub(range.len()).map(|start| start..range.start);
    Some(range.end..range.end + range.len()).filter(|after| after.end <= bytes).or_else(before)
}

impl Queue for SimQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.in_flight());
        self.submitted.extend(requests.drain(..count));
        count
    }

    fn flush(&mut self) -> Result<()> {
        while let Some(request) = self.submitted.pop_front() {
            let Some(target) = self.targets.get(request.target) else {
                self.ended.push(request.complete(Err(IoError::NOT_ATTACHED)));
                continue;
            };
            let bytes = request.operation.bytes() as u64;
            let what = match request.operation {
                Operation::Read(_) | Operation::ReadVectored(_) => Work::Read(bytes),
                Operation::Fsync | Operation::Fdatasync => Work::Sync,
                _ => Work::Write(bytes),
            };
            let drive = device_of(&self.path, target)?.drive;
            let number = self.handed;
            self.handed += 1;
            self.in_device.insert(number, request);
            self.world.submit(InDrive { queue: self.number, number, drive, what });
        }
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let count = self.reap_until(min, u64::MAX, completions)?;
        if count == 0 {
            self.world.wait_until(self.world.now() + LOOK_NS);
        }
        Ok(count)
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.reap_until(min, self.world.now().saturating_add(timeout_ns), completions)
    }

    /// The target must share the clock of the first one.
    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        let device = device_of(&self.path, target)?;
        if !Arc::ptr_eq(&device.world, &self.world) {
            return Err(Error::unavailable(format!("target {}", target.name()), "it has another clock than the queue")
                .remedy("open both with the same world (sim:64m,world=NAME)"));
        }
        self.targets.attach(target.clone()).map_err(|target| no_room_for(&target, self.targets.most()))
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        let in_flight = self.submitted.iter().chain(self.in_device.values()).map(|request| request.target);
        check_detach(&self.targets, target, in_flight)?;
        self.targets.detach(target);
        Ok(())
    }

    /// All of them: the device ends them at once.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        self.flush()?;
        let mut numbers: Vec<u64> = self.in_device.iter().filter(|(_, of)| of.tag == tag).map(|(at, _)| *at).collect();
        numbers.sort_unstable();
        let cancelled = numbers.iter().filter_map(|number| self.in_device.remove(number));
        self.ended.extend(cancelled.map(|request| request.complete(Err(IoError::CANCELLED))));
        Ok(numbers.len())
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.submitted.len() + self.in_device.len() + self.ended.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}
