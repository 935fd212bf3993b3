//! Each path does what its interface declares, by the kernel's evidence: a path that polls causes no interrupt of the drive,
//! and any other causes some; a busy queue makes as many system calls as declared; and the count of system calls that a queue
//! reports is the kernel's. Interrupts are those of an NVMe controller's queues; other devices give no such evidence.

use std::io::IoSliceMut;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use iolane::{Completion, ErrorKind, IoPath, Pages, Pool, Queue, QueueConfig, Request, SyscallUse, Target, TargetKind};
use rustix::io::ReadWriteFlags;

use crate::bench::{Bench, Pair, check_each, pool};
use crate::paths;
use crate::places::PLACE_BYTES;
use crate::report::{self, Skip};
use crate::syscall_counter::SyscallCounter;

const BLOCK_BYTES: usize = 4096;
const READS: u64 = 200;
const DEPTH: u32 = 8;

/// What the kernel counts of one NVMe namespace.
struct Evidence {
    /// `nvme0q`, as the interrupts of its controller's queues begin.
    queues: String,
    /// The `stat` file of its block device.
    stat: String,
}

/// The counts at one time.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Interrupts of the controller's queues, that of administration left out.
    interrupts: u64,
    reads: u64,
}

impl Evidence {
    fn of(target: &Target) -> Result<Self, Skip> {
        let none = |why: &str| Skip::new(format!("no evidence of polling: {why}"), "name an NVMe drive");
        let (major, minor) = target.device().ok_or_else(|| none("it is not on a device of the kernel"))?;
        let folder = format!("/sys/dev/block/{major}:{minor}");
        // .../nvme/nvme0/nvme0n1; a namespace that controllers share lies elsewhere.
        let device = std::fs::canonicalize(&folder).map_err(|_| none("it is on no block device"))?;
        let controller = device.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        if !controller.starts_with("nvme") || controller.starts_with("nvme-") {
            return Err(none("/proc/interrupts has no lines of its device"));
        }
        let evidence = Self { queues: format!("{controller}q"), stat: format!("{folder}/stat") };
        if evidence.lines().is_empty() {
            return Err(none("/proc/interrupts has no lines of its controller"));
        }
        Ok(evidence)
    }

    /// The interrupts of each queue.
    fn lines(&self) -> Vec<u64> {
        let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let cpus = text.lines().next().map_or(0, |line| line.split_whitespace().count());
        let count = |line: &str| {
            let number = line.split_whitespace().last()?.strip_prefix(&self.queues)?;
            let is_data = number.parse::<u32>().is_ok_and(|number| number > 0);
            let counts = line.split_whitespace().skip(1).take(cpus);
            is_data.then(|| counts.map(|count| count.parse().unwrap_or(0)).sum())
        };
        text.lines().filter_map(count).collect()
    }

    fn now(&self) -> Result<Counted> {
        let stat = std::fs::read_to_string(&self.stat)?;
        let reads = stat.split_whitespace().next().and_then(|text| text.parse().ok()).context("the first is reads")?;
        Ok(Counted { interrupts: self.lines().into_iter().sum(), reads })
    }

    /// What was counted while it ran.
    fn while_running(&self, run: impl FnOnce() -> Result<()>) -> Result<Counted> {
        let before = self.now()?;
        run()?;
        let after = self.now()?;
        Ok(Counted { interrupts: after.interrupts - before.interrupts, reads: after.reads - before.reads })
    }
}

/// Offsets no two of which are neighbours, so that no two reads become one.
fn offset(number: u64) -> u64 {
    number * (64 << 10) % PLACE_BYTES
}

/// A queue kept busy by its own thread; all is allocated before, so that what is counted is the queue's doing.
struct Load {
    queue: Box<dyn Queue>,
    waiting: Vec<Request>,
    ended: Vec<Completion>,
    next: u64,
    _pool: Pool,
}

impl Load {
    /// Opens a queue of `path`, the pair's or a variant of it, with a read for each slot.
    fn start(pair: &Pair<'_>, path: &IoPath) -> Result<Self> {
        let depth = pair.depth(DEPTH);
        let pool = pool(depth as usize, BLOCK_BYTES)?;
        let queue = pair.queue_of(path, &pair.target, &QueueConfig::new(depth).pool(&pool))?;
        let mut load =
            Self { queue, waiting: Vec::with_capacity(64), ended: Vec::with_capacity(64), next: 0, _pool: pool };
        for _ in 0..depth {
            let buffer = load._pool.take().context("a frame each")?;
            load.again(buffer);
        }
        Ok(load)
    }

    fn again(&mut self, buffer: iolane::Buffer) {
        self.waiting.push(Request::read(self.next, offset(self.next), buffer));
        self.next += 1;
    }

    /// Carries out `reads` reads, with a full queue.
    fn run(&mut self, reads: u64) -> Result<()> {
        let mut done = 0;
        while done < reads {
            self.queue.submit(&mut self.waiting);
            done += self.queue.reap(1, &mut self.ended)? as u64;
            while let Some(completion) = self.ended.pop() {
                ensure!(completion.result == Ok(BLOCK_BYTES as u32), "{completion:?}");
                self.again(completion.buffer.context("a buffer each")?);
            }
        }
        Ok(())
    }

    /// Whether its queue counts system calls; a skip otherwise.
    fn counts_syscalls(&self) -> Result<()> {
        match self.queue.syscalls() {
            Some(_) => Ok(()),
            None => Err(Skip::new("its system calls are made in threads of a library", "").into()),
        }
    }

    fn syscalls(&self) -> u64 {
        self.queue.syscalls().unwrap_or(0)
    }

    /// How many queues of its own it opened or tried to open: those of paths that it took, or found unusable.
    fn openings(&self) -> usize {
        self.queue.choices().map_or(0, |choices| choices.changes.len() + choices.unusable.len())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.queue.drain(&mut self.ended)?)
    }
}

#[test]
fn a_path_that_polls_takes_no_interrupt_of_the_drive_and_another_takes_some() {
    let bench = Bench::everywhere();
    let on_device = |pair: &Pair<'_>| matches!(pair.target.kind(), TargetKind::Block | TargetKind::NvmeGeneric);
    let pairs: Vec<_> = bench.pairs().into_iter().filter(on_device).collect();
    check_each(&pairs, |pair| {
        let evidence = Evidence::of(&pair.target)?;
        let mut load = Load::start(pair, &pair.path)?;
        let counted = evidence.while_running(|| {
            load.run(READS)?;
            load.finish()
        })?;
        // The kernel counts passthrough commands only if queue/iostats_passthrough is set (Linux 6.13).
        if pair.target.kind() == TargetKind::Block {
            ensure!(counted.reads >= READS, "the drive was asked for {} of {READS} reads", counted.reads);
        }
        match iolane::polls_completions(&pair.path) {
            true => ensure!(counted.interrupts == 0, "{READS} polled reads, and {counted:?}"),
            false => ensure!(counted.interrupts > 0, "{READS} reads without polling, and no interrupt"),
        }
        Ok(())
    });
}

#[test]
fn the_polling_flag_of_blocking_reads_polls_just_where_probe_says_so() {
    let bench = Bench::everywhere();
    let path = IoPath::new("psync");
    let on_block_device = |pair: &Pair<'_>| pair.path == path && pair.target.kind() == TargetKind::Block;
    let pairs: Vec<_> = bench.pairs().into_iter().filter(on_block_device).collect();
    check_each(&pairs, |pair| {
        let evidence = Evidence::of(&pair.target)?;
        let polled = pair.path.clone().iopoll();
        let said = iolane::probe(&polled, &pair.target);
        let is_ignored = match &said {
            Ok(_) => false,
            Err(error)
                if error.kind() == ErrorKind::Unavailable && error.cause().starts_with("accepted, not polled") =>
            {
                true
            }
            Err(error) => return Err(Skip::from(error).into()),
        };
        let counted = evidence.while_running(|| read_with_flag(&pair.target))?;
        ensure!(counted.reads >= READS, "the drive was asked for {} of {READS} reads", counted.reads);
        match is_ignored {
            true => ensure!(counted.interrupts > 0, "probe calls the flag ignored, and it took no interrupt"),
            false => ensure!(counted.interrupts == 0, "probe calls the flag honoured, and {counted:?}"),
        }
        Ok(())
    });
}

/// Reads by preadv2(2) with RWF_HIPRI, which the kernel may ignore.
fn read_with_flag(target: &Target) -> Result<()> {
    let fd = target.fd().context("a block device has a descriptor")?;
    let mut buffer = Pool::new(1, BLOCK_BYTES, Pages::Base)?.take().context("a new pool has its frame")?;
    for number in 0..READS {
        let mut into = [IoSliceMut::new(&mut buffer)];
        let bytes = rustix::io::preadv2(fd, &mut into, offset(number), ReadWriteFlags::HIPRI)?;
        ensure!(bytes == BLOCK_BYTES, "{bytes} bytes at {}", offset(number));
    }
    Ok(())
}

/// Attempts before the counts are taken to differ: the kernel enters a call that it restarts (signal(7)) once more, and the
/// queue does not see that.
const TRIES: usize = 8;

/// Attempts in which both count the same: one alone may be one in which `auto` measures nothing.
const EQUAL_MIN: usize = 3;

/// Attempts at most, with those in which `auto` opened another queue: the calls that open it are not counted. On a slow machine each
/// attempt is longer than the time that it gives a path.
const TRIES_MAX: usize = 100;

/// An idle time that no submission thread reaches during a check, however long it waits for a processor: a guest's
/// processors may take turns of 100 ms (`TCG_KICK_PERIOD` in QEMU) on a host that is busy itself.
const AWAKE_MS: u32 = 60_000;

/// The path, with a submission thread that never sleeps during a check and so never has to be woken.
fn kept_awake(path: &IoPath) -> IoPath {
    let mut path = path.clone();
    if path.polls_submissions() {
        path.options.sq_idle_ms = Some(AWAKE_MS);
    }
    path
}

#[test]
fn the_system_calls_that_a_queue_counts_are_those_the_kernel_counts() {
    let bench = Bench::everywhere();
    let mut counter = match SyscallCounter::open() {
        Ok(counter) => counter,
        Err(why) => return report::skipped_everywhere("the kernel's count of system calls", &why),
    };
    check_each(&bench.pairs(), |pair| {
        if pair.path.options.auto.restless {
            return Err(Skip::new(
                "it opens and closes queues meanwhile, and only the calls of open queues are counted",
                "",
            )
            .into());
        }
        let mut load = Load::start(pair, &pair.path)?;
        load.counts_syscalls()?;
        let (mut equal, mut missed) = (0, Vec::new());
        for _ in 0..TRIES_MAX {
            let (before, openings) = (load.syscalls(), load.openings());
            counter.start()?;
            load.run(READS)?;
            let kernels = counter.stop()?;
            let own = load.syscalls() - before;
            ensure!(own <= kernels, "the queue counts {own} system calls, and the kernel {kernels}");
            match kernels - own {
                0 => equal += 1,
                more if load.openings() == openings => missed.push(more),
                _ => {}
            }
            if equal == EQUAL_MIN {
                return load.finish();
            }
            if missed.len() == TRIES {
                break;
            }
        }
        bail!("the kernel counts more system calls than the queue, each time: {missed:?} more while it opened no other")
    });
}

#[test]
fn a_busy_queue_makes_as_many_system_calls_as_its_interface_declares() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs(), |pair| {
        let mut load = Load::start(pair, &kept_awake(&pair.path))?;
        load.counts_syscalls()?;
        // A submission thread sleeps at once if it finds no work when it starts, so the first read may have to wake it.
        load.run(20)?;
        let before = load.syscalls();
        load.run(READS)?;
        let calls = load.syscalls() - before;
        match paths::interface_of(&pair.path).syscall_use(&pair.path) {
            SyscallUse::None => ensure!(calls == 0, "{calls} system calls for {READS} reads"),
            SyscallUse::Required => ensure!(calls > 0, "{READS} reads without a system call"),
            SyscallUse::Varies => {}
        }
        load.finish()
    });
}
