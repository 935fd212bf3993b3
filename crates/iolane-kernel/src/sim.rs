//! `sim`: a device in memory that completes requests in virtual time, with latencies, short transfers, errors,
//! reordering and damaged writes drawn from a seed. Tests use it for behaviour that no real device shows on demand. It makes no system call.

mod settings;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use iolane_core::capability::check_depth;
use iolane_core::scheme::{self, SCHEMES, Scheme, size_and_settings};
use iolane_core::{
    AtomicWrites, Buffer, Buffers, Capabilities, Completion, Error, Interface, IoError, IoPath, Operation, Operations,
    Queue, QueueConfig, Request, Result, SyscallUse, Target, TargetKind,
};

use crate::checks;

pub use settings::SimSettings;

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
    let device =
        Device { settings: settings.parse()?, bytes: bytes as usize, data: OnceLock::new(), now_ns: Arc::default() };
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
            .note(Some("virtual time: its figures say nothing about a real device".into())))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        self.validate(path)?;
        check_depth(path, config.depth, DEPTH_MAX)?;
        let settings = device_of(path, target)?.settings.clone();
        Ok(Box::new(SimQueue {
            random: Xoshiro256PlusPlus::seed_from_u64(settings.seed),
            settings,
            target: target.clone(),
            depth: config.depth as usize,
            submitted: VecDeque::with_capacity(config.depth as usize),
            in_device: Vec::with_capacity(config.depth as usize),
            served: 0,
            ready_ns: 0,
        }))
    }
}

/// Memory and clock of a simulated device, kept with its target and shared by all its queues.
struct Device {
    settings: SimSettings,
    bytes: usize,
    /// Made at the first request.
    data: OnceLock<Mutex<Vec<u8>>>,
    now_ns: Arc<AtomicU64>,
}

/// The device's block size in bytes.
const BLOCK_BYTES: u64 = 512;

/// The cost of a reap that finds no completion, in virtual nanoseconds.
const LOOK_NS: u64 = 1000;
/// What it never tears, nor cuts short.
const ATOMIC_WRITES: AtomicWrites = AtomicWrites { bytes_min: BLOCK_BYTES, bytes_max: 64 << 10 };

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
}

/// The virtual clock of a simulated target, in nanoseconds; `None` for any other target. Only its queues advance it:
/// waiting moves it to the next completion, and a reap that finds none takes a microsecond.
pub fn clock(target: &Target) -> Option<Arc<AtomicU64>> {
    device_of(&IoPath::new("sim"), target).ok().map(|device| device.now_ns.clone())
}

/// A request in the device.
struct InDevice {
    /// When it completes, and its number, which orders those that complete at the same time.
    done_ns: u64,
    number: u64,
    request: Request,
    cancelled: bool,
}

struct SimQueue {
    target: Target,
    settings: SimSettings,
    random: Xoshiro256PlusPlus,
    depth: usize,
    submitted: VecDeque<Request>,
    /// Requests in the device.
    in_device: Vec<InDevice>,
    /// Requests handed to the device so far.
    served: u64,
    /// After a stall, the time at which the device takes requests again.
    ready_ns: u64,
}

impl SimQueue {
    fn device(&self) -> Result<&Device> {
        device_of(&IoPath::new("sim"), &self.target)
    }

    /// True for the given share of calls.
    fn draw(&mut self, share: f64) -> bool {
        share > 0.0 && (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= share
    }

    /// The index of the request that completes first.
    fn next_done(&self) -> Option<usize> {
        (0..self.in_device.len()).min_by_key(|index| (self.in_device[*index].done_ns, self.in_device[*index].number))
    }

    /// Carries out a request at its completion time.
    fn carry_out(&mut self, mut request: Request) -> Result<Completion> {
        let short = self.draw(self.settings.short);
        let fails = self.draw(self.settings.error);
        let damage = self.draw_damage();
        let cut = self.random.next_u64();
        if fails {
            return Ok(request.complete(Err(IoError::from_errno(libc::EIO))));
        }
        let is_atomic = matches!(request.operation, Operation::AtomicWrite(_));
        let writable = self.target.writable();
        let device = self.device()?;
        let mut data = device.data();
        let before = damage.map(|damage| {
            let range = written_range(&data, &request);
            (damage, range.clone(), data[range].to_vec())
        });
        let result = transfer(&mut data, &mut request, writable, |bytes| match (short, bytes / BLOCK_BYTES) {
            (true, blocks @ 2..) => (1 + cut % (blocks - 1)) * BLOCK_BYTES,
            _ => bytes,
        });
        if let Some((damage, range, before)) = before {
            let stored = &mut data[range];
            let half = stored.len() / 2;
            match damage {
                Damage::Lost => stored.copy_from_slice(&before),
                Damage::Torn if is_atomic => stored.copy_from_slice(&before),
                Damage::Torn => stored[half..].copy_from_slice(&before[half..]),
                Damage::Altered => stored.iter_mut().skip(half).take(1).for_each(|byte| *byte ^= 1),
            }
        }
        drop(data);
        Ok(request.complete(result))
    }

    fn draw_damage(&mut self) -> Option<Damage> {
        let SimSettings { lost, torn, altered, .. } = self.settings;
        let shares = [(lost, Damage::Lost), (torn, Damage::Torn), (altered, Damage::Altered)];
        shares.into_iter().find(|(share, _)| self.draw(*share)).map(|(_, damage)| damage)
    }
}

/// What the device does to a write that it acknowledges.
enum Damage {
    Lost,
    Torn,
    Altered,
}

/// Where a request writes; empty for any other request.
fn written_range(data: &[u8], request: &Request) -> Range<usize> {
    use Operation::{AtomicWrite, DurableWrite, Write, WriteVectored};
    if !matches!(request.operation, Write(_) | DurableWrite(_) | AtomicWrite(_) | WriteVectored(_)) {
        return 0..0;
    }
    let end = data.len() as u64;
    let bytes = request.operation.bytes() as u64;
    request.offset.min(end) as usize..request.offset.saturating_add(bytes).min(end) as usize
}

/// Moves the data of a request; `moved` maps the bytes available to those that really move.
fn transfer(
    data: &mut [u8],
    request: &mut Request,
    writable: bool,
    moved: impl Fn(u64) -> u64,
) -> Result<u32, IoError> {
    let end = data.len() as u64;
    let offset = request.offset;
    let range = |bytes: u64| {
        if !(offset | bytes).is_multiple_of(BLOCK_BYTES) {
            return Err(IoError::INVALID);
        }
        Ok(offset.min(end) as usize..offset.saturating_add(bytes).min(end) as usize)
    };
    use Operation::{Fdatasync, Fsync, Read, ReadVectored};
    if !writable && !matches!(request.operation, Read(_) | ReadVectored(_) | Fsync | Fdatasync) {
        return Err(IoError::READ_ONLY);
    }
    match &mut request.operation {
        Operation::Fsync | Operation::Fdatasync => Ok(0),
        Operation::Read(buffer) => {
            let available = range(buffer.len() as u64)?;
            let bytes = moved(available.len() as u64) as usize;
            buffer[..bytes].copy_from_slice(&data[available.start..available.start + bytes]);
            Ok(bytes as u32)
        }
        // It has no cache that could lose a write.
        Operation::Write(buffer) | Operation::DurableWrite(buffer) => {
            let available = range(buffer.len() as u64)?;
            if available.is_empty() && !buffer.is_empty() {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            let bytes = moved(available.len() as u64) as usize;
            data[available.start..available.start + bytes].copy_from_slice(&buffer[..bytes]);
            Ok(bytes as u32)
        }
        Operation::AtomicWrite(buffer) => {
            if !ATOMIC_WRITES.allow(offset, buffer.len()) {
                return Err(IoError::INVALID);
            }
            let available = range(buffer.len() as u64)?;
            if available.len() < buffer.len() {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            data[available].copy_from_slice(buffer);
            Ok(buffer.len() as u32)
        }
        Operation::ReadVectored(buffers) => {
            are_whole_blocks(buffers)?;
            let available = range(buffers.bytes() as u64)?;
            let bytes = moved(available.len() as u64) as usize;
            let mut rest = &data[available.start..available.start + bytes];
            for buffer in buffers.iter_mut() {
                let (now, later) = rest.split_at(buffer.len().min(rest.len()));
                buffer[..now.len()].copy_from_slice(now);
                rest = later;
            }
            Ok(bytes as u32)
        }
        Operation::WriteVectored(buffers) => {
            are_whole_blocks(buffers)?;
            let available = range(buffers.bytes() as u64)?;
            if available.is_empty() && buffers.bytes() > 0 {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            let bytes = moved(available.len() as u64) as usize;
            let mut rest = &mut data[available.start..available.start + bytes];
            for buffer in &*buffers {
                let (now, later) = rest.split_at_mut(buffer.len().min(rest.len()));
                now.copy_from_slice(&buffer[..now.len()]);
                rest = later;
            }
            Ok(bytes as u32)
        }
        Operation::Discard { bytes } | Operation::WriteZeroes { bytes } => {
            let available = range(*bytes)?;
            data[available].fill(0);
            Ok(0)
        }
        _ => Err(IoError::NOT_SUPPORTED),
    }
}

/// Refuses parts of a block within a vectored request. With O_DIRECT the kernels differ in that; this device takes the strict side.
fn are_whole_blocks(buffers: &Buffers) -> Result<(), IoError> {
    let is_whole = |buffer: &Buffer| (buffer.len() as u64).is_multiple_of(BLOCK_BYTES);
    if buffers.iter().all(is_whole) { Ok(()) } else { Err(IoError::INVALID) }
}

impl Queue for SimQueue {
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
        let count = requests.len().min(self.depth - self.in_flight());
        self.submitted.extend(requests.drain(..count));
        count
    }

    fn flush(&mut self) -> Result<()> {
        let now_ns = self.device()?.now_ns.load(Ordering::Relaxed);
        while let Some(request) = self.submitted.pop_front() {
            self.served += 1;
            let settings = &self.settings;
            if settings.stall_every > 0 && self.served.is_multiple_of(settings.stall_every) {
                self.ready_ns = self.ready_ns.max(now_ns) + settings.stall_ns;
            }
            let jitter_ns = match settings.jitter_ns {
                0 => 0,
                most => self.random.next_u64() % (most + 1),
            };
            let done_ns = self.ready_ns.max(now_ns) + settings.latency_ns + jitter_ns;
            self.in_device.push(InDevice { done_ns, number: self.served, request, cancelled: false });
        }
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.flush()?;
        let min = min.min(self.in_flight());
        let clock = self.device()?.now_ns.clone();
        let mut count = 0;
        while let Some(next) = self.next_done() {
            let done_ns = self.in_device[next].done_ns;
            if done_ns > clock.load(Ordering::Relaxed) {
                if count >= min {
                    break;
                }
                clock.fetch_max(done_ns, Ordering::Relaxed);
            }
            let InDevice { request, cancelled, .. } = self.in_device.swap_remove(next);
            completions.push(match cancelled {
                true => request.complete(Err(IoError::CANCELLED)),
                false => self.carry_out(request)?,
            });
            count += 1;
        }
        if count == 0 {
            clock.fetch_add(LOOK_NS, Ordering::Relaxed);
        }
        Ok(count)
    }

    /// All of them: the device ends them at once.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        self.flush()?;
        let now_ns = self.device()?.now_ns.load(Ordering::Relaxed);
        let mut count = 0;
        for begun in self.in_device.iter_mut().filter(|begun| begun.request.tag == tag && !begun.cancelled) {
            (begun.cancelled, begun.done_ns) = (true, now_ns);
            count += 1;
        }
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.submitted.len() + self.in_device.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_core::{Pages, Pool};
    use proptest::prelude::*;

    type Ends = Vec<(u64, Result<u32, IoError>)>;

    /// The tags with their results in order of completion, and the time at which a run of reads ended.
    fn run(settings: &str, count: u64) -> (Ends, u64) {
        let target = Target::open(format!("sim:1m,{settings}")).unwrap();
        let pool = Pool::new(count as usize, 4096, Pages::Base).unwrap();
        let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(count as u32)).unwrap();
        let mut requests = (0..count).map(|tag| Request::read(tag, tag * 4096, pool.take().unwrap())).collect();
        queue.submit(&mut requests);
        let mut completions = Vec::new();
        queue.drain(&mut completions).unwrap();
        let ends = completions.iter().map(|completion| (completion.tag, completion.result)).collect();
        (ends, clock(&target).unwrap().load(Ordering::Relaxed))
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        assert_eq!(run("seed=7,short=0.3,error=0.2", 64), run("seed=7,short=0.3,error=0.2", 64));
        assert_ne!(run("seed=7", 64).0, run("seed=8", 64).0);
    }

    #[test]
    fn jitter_reorders_and_without_it_order_is_kept() {
        let tags = |settings: &str| run(settings, 32).0.into_iter().map(|(tag, _)| tag).collect::<Vec<_>>();
        assert!(!tags("seed=3").is_sorted());
        assert!(tags("jitter=0").is_sorted());
        assert_eq!(run("jitter=0", 32).1, 80_000);
    }

    #[test]
    fn short_transfers_and_errors_occur_at_the_rate_that_is_set() {
        let (ends, _) = run("seed=5,short=0.5,error=0.25", 256);
        let failed = ends.iter().filter(|(_, result)| result.is_err()).count();
        let short = ends.iter().filter(|(_, result)| matches!(result, Ok(1..4096))).count();
        assert!((40..90).contains(&failed) && (60..140).contains(&short), "{failed} failed, {short} short");
    }

    #[test]
    fn a_damaged_write_is_acknowledged_like_any_other() {
        let stored = |settings: &str, vectored: bool| {
            let target = Target::options().write_unguarded().open(format!("sim:1m,{settings}")).unwrap();
            let pool = Pool::new(1, 4096, Pages::Base).unwrap();
            let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(1)).unwrap();
            let mut buffer = pool.take().unwrap();
            buffer.fill(0xa5);
            let mut completions = Vec::new();
            queue.submit(
                &mut [match vectored {
                    true => Request::write_vectored(0, 4096, Buffers::new(vec![buffer]).unwrap()),
                    false => Request::write(0, 4096, buffer),
                }]
                .into(),
            );
            queue.drain(&mut completions).unwrap();
            assert_eq!(completions[0].result, Ok(4096));
            completions.clear();
            queue.submit(&mut [Request::read(0, 4096, pool.take().unwrap())].into());
            queue.drain(&mut completions).unwrap();
            let buffer = completions.remove(0).buffer.unwrap();
            [&buffer[..2048], &buffer[2048..]].map(|half| half.iter().filter(|byte| **byte == 0xa5).count())
        };
        for vectored in [false, true] {
            let stored = ["jitter=0", "lost=1", "torn=1", "altered=1"].map(|settings| stored(settings, vectored));
            assert_eq!(stored, [[2048, 2048], [0, 0], [2048, 0], [2048, 2047]]);
        }
    }

    #[test]
    fn a_vectored_request_that_is_cut_short_moves_its_first_blocks_through_the_buffers_in_turn() {
        let target = Target::options().write_unguarded().open("sim:1m,seed=3,short=0.7").unwrap();
        let pool = Pool::new(3, 4096, Pages::Base).unwrap();
        let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(1)).unwrap();
        let mut run = |request| {
            let mut completions = Vec::new();
            queue.submit(&mut [request].into());
            queue.drain(&mut completions).unwrap();
            let Completion { result, buffers, .. } = completions.remove(0);
            (result.unwrap() as usize, buffers.unwrap().into_vec())
        };
        let parts = |value: u8| {
            let part = |(number, bytes): (u8, usize)| {
                let mut buffer = pool.take().unwrap();
                buffer.set_len(bytes).unwrap();
                let filled = buffer.iter_mut().enumerate();
                filled.for_each(|(index, byte)| *byte = value + 16 * number + (index / 512) as u8);
                buffer
            };
            Buffers::new([(0, 512), (1, 2048), (2, 1024)].map(part).into()).unwrap()
        };
        let flat = |buffers: &[Buffer]| buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect::<Vec<u8>>();
        let mut stored = vec![0; 3584];
        let mut ends = [Vec::new(), Vec::new()];
        for round in 0..40 {
            let (written, buffers) = run(Request::write_vectored(0, 8192, parts(round)));
            stored[..written].copy_from_slice(&flat(&buffers)[..written]);
            drop(buffers);
            let mut expected = flat(&parts(200).into_vec());
            let (read, buffers) = run(Request::read_vectored(0, 8192, parts(200)));
            expected[..read].copy_from_slice(&stored[..read]);
            assert_eq!(flat(&buffers), expected, "round {round}: {written} written, {read} read");
            ends[0].push(written);
            ends[1].push(read);
        }
        assert!(ends.iter().all(|ends| [512, 1536, 3072, 3584].iter().all(|bytes| ends.contains(bytes))), "{ends:?}");
    }

    #[test]
    fn a_vectored_request_with_a_part_of_a_block_is_invalid() {
        let target = Target::options().write_unguarded().open("sim:1m").unwrap();
        let pool = Pool::new(2, 4096, Pages::Base).unwrap();
        let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(1)).unwrap();
        for request in [Request::read_vectored, Request::write_vectored] {
            let mut parts = vec![pool.take().unwrap(), pool.take().unwrap()];
            parts[0].set_len(100).unwrap();
            parts[1].set_len(412).unwrap();
            let mut completions = Vec::new();
            queue.submit(&mut [request(0, 0, Buffers::new(parts).unwrap())].into());
            queue.drain(&mut completions).unwrap();
            assert_eq!((completions[0].result, completions[0].buffers.is_some()), (Err(IoError::INVALID), true));
        }
    }

    #[test]
    fn a_stall_delays_the_requests_after_it() {
        assert_eq!(run("jitter=0,stall-every=8,stall=1ms", 8).1, 1_080_000);
    }

    #[test]
    fn a_reap_without_completions_takes_a_microsecond() {
        let target = Target::open("sim:1m,jitter=0").unwrap();
        let now_ns = clock(&target).unwrap();
        let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(1)).unwrap();
        queue.reap(0, &mut Vec::new()).unwrap();
        assert_eq!(now_ns.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn invalid_settings_are_refused() {
        for text in ["seed", "seed=x", "short=2", "error=-1", "speed=9", "latency=1d"] {
            assert!(text.parse::<SimSettings>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_settings_parser_panic(text in "\\PC{0,30}|[a-z=,.0-9]{0,30}") {
            let _ = text.parse::<SimSettings>();
        }
    }
}
