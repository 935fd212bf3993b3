use std::collections::VecDeque;

use iolane_core::{Buffer, Buffers, IoError, IoPath, Pages, Pool, Queue, QueueConfig, Request, Result, Target};
use proptest::prelude::*;

use super::*;

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
    (ends, clock(&target).unwrap().now_ns())
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
    let clock = clock(&target).unwrap();
    let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(1)).unwrap();
    queue.reap(0, &mut Vec::new()).unwrap();
    assert_eq!(clock.now_ns(), 1000);
}

#[test]
fn invalid_settings_are_refused() {
    for text in [
        "seed",
        "seed=x",
        "short=2",
        "error=-1",
        "speed=9",
        "latency=1d",
        "units=0",
        "profile=p9999",
        "latency=1ms,units=4",
        "units=4,jitter=1us",
        "drive=a",
        "world=",
        "spread=9",
        "tags=99999",
        "bandwidth=fast",
    ] {
        assert!(text.parse::<SimSettings>().is_err(), "{text}");
    }
}

/// Opens a target of these settings.
fn opened(settings: &str) -> Target {
    Target::options().write_unguarded().open(format!("sim:1m,{settings}")).unwrap()
}

fn queue_on(target: &Target, depth: u32) -> Box<dyn Queue> {
    Sim.open(&IoPath::new("sim"), target, &QueueConfig::new(depth).targets(2)).unwrap()
}

/// Keeps each queue busy with reads of `bytes`, in turn, and returns how many completed in 10 ms of virtual time.
fn reads_in_10_ms(queues: &mut [Box<dyn Queue>], clock: &SimClock, bytes: usize) -> u64 {
    let depth: usize = queues.iter().map(|queue| queue.depth()).sum();
    let pool = Pool::new(depth, bytes, Pages::Base).unwrap();
    let mut completions = Vec::new();
    let mut count = 0;
    let end_ns = clock.now_ns() + 10_000_000;
    for queue in &mut *queues {
        let mut requests: VecDeque<_> =
            (0..queue.depth() as u64).map(|tag| Request::read(tag, 0, pool.take().unwrap())).collect();
        queue.submit(&mut requests);
        queue.flush().unwrap();
    }
    while clock.now_ns() < end_ns {
        for queue in &mut *queues {
            queue.reap(0, &mut completions).unwrap();
            count += completions.len() as u64;
            let again = |ended: Completion| Request::read(ended.tag, 0, ended.buffer.unwrap());
            let mut requests: VecDeque<_> = completions.drain(..).map(again).collect();
            queue.submit(&mut requests);
            queue.flush().unwrap();
        }
    }
    queues.iter_mut().for_each(|queue| queue.drain(&mut completions).unwrap());
    count
}

#[test]
fn a_drive_reads_as_many_as_its_units_serve_and_no_more_than_its_ceilings_and_tags_allow() {
    let reads = |settings: &str, depth, bytes| {
        let target = opened(settings);
        reads_in_10_ms(&mut [queue_on(&target, depth)], &clock(&target).unwrap(), bytes)
    };
    // 10 ms are 100 times 100 us.
    let units = "read=100us,spread=0,units=1";
    assert!((95..=101).contains(&reads(units, 1, 4096)));
    assert!((95..=101).contains(&reads(units, 16, 4096)));
    assert!((1350..=1601).contains(&reads("read=100us,spread=0,units=4096", 16, 4096)));
    assert!((390..=401).contains(&reads("read=100us,spread=0,units=4096,tags=4", 16, 4096)));
    assert!((480..=505).contains(&reads("read=100us,spread=0,units=4096,iops=50000", 16, 4096)));
    assert!((98..=104).contains(&reads("read=10us,spread=0,units=4096,bandwidth=160m", 16, 16384)));
    let optane = reads("profile=optane", 32, 4096);
    assert!((5_000..=5_600).contains(&optane), "{optane}");
    let slower = reads("iops=100000,profile=optane", 32, 4096);
    assert!((900..=1_005).contains(&slower), "{slower}");
}

#[test]
fn the_timing_of_a_drive_is_written_as_the_settings_that_make_it() {
    for text in ["", "latency=3us,jitter=1.5us", "profile=p3600", "units=3,read=1.25us,page=16k,tags=7,bandwidth=1g"] {
        let timing = text.parse::<SimSettings>().unwrap().timing;
        assert_eq!(timing.to_string().parse::<SimSettings>().unwrap().timing, timing, "{text}: {timing}");
    }
}

#[test]
fn targets_of_a_world_share_its_clock_and_those_of_one_drive_its_units() {
    let reads = |world: &str, drives: [&str; 2]| {
        let targets = drives.map(|drive| opened(&format!("read=100us,spread=0,units=1,world={world},drive={drive}")));
        let clocks = [0, 1].map(|at: usize| clock(&targets[at]).unwrap());
        assert!(clocks[0] == clocks[1]);
        reads_in_10_ms(&mut [queue_on(&targets[0], 1), queue_on(&targets[1], 1)], &clocks[0], 4096)
    };
    let (one, two) = (reads("one drive", ["a", "a"]), reads("two drives", ["a", "b"]));
    assert!((95..=101).contains(&one) && (190..=202).contains(&two), "{one} {two}");
    assert!(clock(&opened("seed=1")) != clock(&opened("seed=1")), "without a world each has a clock of its own");
}

#[test]
fn a_shared_drive_has_the_same_settings_for_all_of_its_targets() {
    let first = opened("world=settings,drive=a,units=4");
    let other = Target::open("sim:1m,world=settings,drive=a,units=8").unwrap_err().to_string();
    assert!(other.contains("other settings of the drive"), "{other}");
    let second = opened("world=settings,drive=a,units=4,short=0.1,seed=9");
    assert!(clock(&first) == clock(&second));
}

#[test]
fn a_queue_has_several_targets_of_one_world() {
    let (log, data) = (opened("world=several,seed=1"), opened("world=several,seed=2"));
    let mut queue = queue_on(&log, 4);
    let id = queue.attach(&data).unwrap();
    let pool = Pool::new(2, 4096, Pages::Base).unwrap();
    let frame = |value: u8| {
        let mut buffer = pool.take().unwrap();
        buffer.fill(value);
        buffer
    };
    let mut completions = Vec::new();
    queue.submit(&mut [Request::write(1, 0, frame(1)), Request::write(2, 0, frame(2)).on(id)].into());
    assert!(queue.detach(id).unwrap_err().to_string().contains("in flight: 1"));
    queue.drain(&mut completions).unwrap();
    assert!(completions.drain(..).all(|ended| ended.result == Ok(4096)));
    queue.submit(&mut [Request::read(1, 0, frame(0)), Request::read(2, 0, frame(0)).on(id)].into());
    queue.drain(&mut completions).unwrap();
    assert!(completions.drain(..).all(|ended| ended.buffer.unwrap()[0] == ended.tag as u8));
    queue.detach(id).unwrap();
    queue.submit(&mut [Request::read(3, 0, frame(0)).on(id)].into());
    queue.drain(&mut completions).unwrap();
    assert_eq!(completions[0].result, Err(IoError::NOT_ATTACHED));
    let stranger = queue.attach(&opened("seed=1")).unwrap_err().to_string();
    assert!(stranger.contains("another clock"), "{stranger}");
}

#[test]
fn a_queue_can_be_printed_so_that_what_has_one_derives_debug() {
    #[derive(Debug)]
    struct Store {
        _queue: Box<dyn Queue>,
    }
    let pool = Pool::new(1, 4096, Pages::Base).unwrap();
    let mut queue = queue_on(&opened("seed=1"), 4);
    queue.submit(&mut [Request::read(1, 0, pool.take().unwrap())].into());
    let printed = format!("{:?}", Store { _queue: queue });
    assert!(printed.contains("Queue { depth: 4, in_flight: 1, syscalls: Some(0), .. }"), "{printed}");
}

#[test]
fn a_wait_with_a_limit_ends_at_the_limit_or_at_the_completion() {
    let target = opened("latency=100us,jitter=0");
    let clock = clock(&target).unwrap();
    let mut queue = queue_on(&target, 1);
    let pool = Pool::new(1, 4096, Pages::Base).unwrap();
    let mut completions = Vec::new();
    queue.submit(&mut [Request::read(1, 0, pool.take().unwrap())].into());
    let wait = Duration::from_micros(70);
    assert_eq!((queue.reap_within(1, wait, &mut completions).unwrap(), clock.now_ns()), (0, 70_000));
    assert_eq!((queue.reap_within(1, wait, &mut completions).unwrap(), clock.now_ns()), (1, 100_000));
}

/// What each of some threads saw: the time of each completion, on a drive of their own or a shared one.
fn seen_by_threads(world: &str, threads: usize) -> Vec<Vec<u64>> {
    let targets: Vec<Target> = (0..threads)
        .map(|thread| opened(&format!("world={world},drive={},profile=optane,seed=3", thread % 2)))
        .collect();
    let clock = clock(&targets[0]).unwrap();
    std::thread::scope(|scope| {
        let spawn = |(thread, target)| {
            let clock = clock.clone();
            scope.spawn(move || {
                let _turn = clock.take_turns(thread, threads);
                let mut queue = queue_on(target, 4);
                let pool = Pool::new(4, 4096, Pages::Base).unwrap();
                let mut seen = Vec::new();
                let mut completions = Vec::new();
                // Threads end at different times, and one of them rests now and then.
                for round in 0..50 + 10 * thread as u64 {
                    while let Some(buffer) = pool.take() {
                        queue.submit(&mut [Request::read(round, 0, buffer)].into());
                    }
                    queue.reap(1, &mut completions).unwrap();
                    seen.push(clock.now_ns());
                    completions.clear();
                    if thread == 1 && round.is_multiple_of(8) {
                        clock.wait_until(clock.now_ns() + 20_000);
                    }
                }
                queue.drain(&mut completions).unwrap();
                seen
            })
        };
        let spawned: Vec<_> = targets.iter().enumerate().map(spawn).collect();
        spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn threads_that_take_turns_see_the_same_every_time() {
    let first = seen_by_threads("turns", 5);
    assert!(first.iter().all(|seen| seen.is_sorted()));
    let last = |seen: &Vec<u64>| *seen.last().unwrap();
    let (earliest, latest) = (first.iter().map(last).min().unwrap(), first.iter().map(last).max().unwrap());
    assert!(earliest > latest / 4, "they ran at the same virtual time: {earliest} to {latest}");
    for _ in 0..20 {
        assert_eq!(seen_by_threads("turns", 5), first);
    }
}

#[test]
fn turns_that_are_cancelled_hold_nobody_who_waits_for_a_thread_that_never_comes() {
    let target = opened("world=cancelled");
    let clock = clock(&target).unwrap();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn({
                    let clock = clock.clone();
                    move || drop(clock.take_turns(thread, 3))
                })
            })
            .collect();
        clock.cancel_turns();
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    });
    drop(clock.take_turns(2, 3));
    clock.wait_until(7);
    assert_eq!(clock.now_ns(), 7);
}

proptest! {
    #[test]
    fn no_text_makes_the_settings_parser_panic(text in "\\PC{0,30}|[a-z=,.0-9]{0,30}") {
        let _ = text.parse::<SimSettings>();
    }
}
