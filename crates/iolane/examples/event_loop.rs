//! An event loop that owns a queue: epoll waits for completions and for a timer at once, and no call blocks for I/O.
//! Reads a file for half a second with 32 reads in flight, and prints at each tick of the timer how many have completed.
//! Run: cargo run --release --example event_loop -- TARGET [PATH]      PATH: io_uring or libaio, which have a descriptor

use std::error::Error;
use std::process::ExitCode;

use iolane::{IoPath, Pages, Pool, QueueConfig, Request, Target, open_queue, probe};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

const DEPTH: u32 = 32;
const BLOCK_BYTES: u64 = 4096;
const TICKS: u64 = 5;
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// What epoll reports an event by.
const COMPLETIONS: u64 = 0;
const TIMER: u64 = 1;

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().ok_or("usage: event_loop TARGET [PATH]")?;
    let path: IoPath = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;
    let target = Target::options().direct(false).open(name)?;
    // Only some paths can tell an event loop that completions wait; the others can but block, or be asked over and over.
    let no_descriptor = || format!("{path} has no descriptor to wait on; io_uring and libaio have one");
    if !probe(&path, &target)?.event_fd {
        return Err(no_descriptor().into());
    }
    let pool = Pool::new(DEPTH as usize, BLOCK_BYTES as usize, Pages::Base)?;

    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    let every_tick = Itimerspec { it_interval: TICK, it_value: TICK };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every_tick)?;

    // The descriptor is asked for when the queue is opened, because some paths pay for it with each request.
    let mut queue = open_queue(&path, &target, &QueueConfig::new(DEPTH).pool(&pool).event_fd())?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let completions_wait = queue.event_fd().ok_or_else(no_descriptor)?;
    epoll::add(&epoll, completions_wait, epoll::EventData::new_u64(COMPLETIONS), epoll::EventFlags::IN)?;
    epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;

    let mut offsets = (0..target.bytes()).step_by(BLOCK_BYTES as usize).cycle();
    let (mut requests, mut completions, mut events) = (Vec::new(), Vec::new(), Vec::with_capacity(8));
    let (mut reads, mut ticks) = (0u64, 0u64);
    while ticks < TICKS {
        while let Some(buffer) = pool.take() {
            requests.extend(offsets.next().map(|offset| Request::read(0, offset, buffer)));
        }
        queue.submit(&mut requests);
        // `reap` would hand the batch over too, but before we sleep in epoll the kernel has to have it.
        queue.flush()?;
        events.clear();
        rustix::io::retry_on_intr(|| epoll::wait(&epoll, spare_capacity(&mut events), None))?;
        for event in &events {
            match event.data.u64() {
                // At least 0: take what there is, and go back to the loop.
                COMPLETIONS => {
                    queue.reap(0, &mut completions)?;
                    for completion in completions.drain(..) {
                        completion.result?;
                        reads += 1;
                    }
                }
                _ => {
                    let mut expirations = [0; 8];
                    rustix::io::read(&timer, &mut expirations)?;
                    ticks += u64::from_ne_bytes(expirations);
                    println!("{path} on {}: tick {ticks}, {reads} reads", target.name());
                }
            }
        }
    }
    Ok(()) // reads are still in flight: dropping the queue waits for them before their buffers are freed
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("event_loop: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
