use std::collections::BTreeSet;

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
        let damaged = ["jitter=0", "lost=1", "torn=1", "altered=1", "misdirected=1"];
        let stored = damaged.map(|settings| stored(settings, vectored));
        assert_eq!(stored, [[2048, 2048], [0, 0], [2048, 0], [2048, 2047], [0, 0]]);
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
    let wrong = |text: &str| text.parse::<SimSettings>().unwrap_err();
    assert!(wrong("eror=0.1").remedy_text().contains("did you mean error?"), "{}", wrong("eror=0.1"));
    for name in ["error", "short", "lost", "torn", "altered", "misdirected", "altered-read", "misdirected-read"] {
        let remedy = wrong(&format!("{name}=2")).remedy_text().to_owned();
        assert!(remedy.starts_with(&format!("write {name}=0.0")), "{remedy}");
    }
    assert_eq!(wrong("error=2").remedy_text(), "write error=0.001");
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
        let mut requests: Vec<_> =
            (0..queue.depth() as u64).map(|tag| Request::read(tag, 0, pool.take().unwrap())).collect();
        queue.submit(&mut requests);
        queue.flush().unwrap();
    }
    while clock.now_ns() < end_ns {
        for queue in &mut *queues {
            queue.reap(0, &mut completions).unwrap();
            count += completions.len() as u64;
            let again = |ended: Completion| Request::read(ended.tag, 0, ended.buffer.unwrap());
            let mut requests: Vec<_> = completions.drain(..).map(again).collect();
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
    assert!(
        printed.contains("QueueStats { depth: 4, in_flight: 1, held: 0, syscalls: Some(0), batches: None }"),
        "{printed}"
    );
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

/// Writes blocks of `bytes` one after the other, and returns the numbers of those that failed, and what is stored.
fn written(target: &Target, count: u64, bytes: usize) -> (Vec<u64>, Vec<u8>) {
    let mut queue = queue_on(target, 1);
    let pool = Pool::new(1, (count as usize * bytes).max(4096), Pages::Base).unwrap();
    let mut completions = Vec::new();
    for number in 0..count {
        let mut buffer = pool.take().unwrap();
        buffer.set_len(bytes).unwrap();
        buffer.fill(0xa5);
        queue.submit(&mut [Request::write(number, number * bytes as u64, buffer)].into());
        queue.reap(1, &mut completions).unwrap();
        // The buffer goes back to the pool.
        completions.iter_mut().for_each(|ended| drop(ended.buffer.take()));
    }
    let failed = completions.iter().filter(|ended| ended.result.is_err()).map(|ended| ended.tag).collect();
    set_faults(target, Faults::default()).unwrap();
    let mut buffer = pool.take().unwrap();
    buffer.set_len(count as usize * bytes).unwrap();
    completions.clear();
    queue.submit(&mut [Request::read(0, 0, buffer)].into());
    queue.reap(1, &mut completions).unwrap();
    (failed, completions.remove(0).buffer.unwrap().to_vec())
}

#[test]
fn a_misdirected_write_lies_right_after_its_place_or_before_it_at_the_end() {
    let [first, last] = [(0, 8192), (16384 - 4096, 8192)].map(|(offset, other)| {
        let target = Target::options().write_unguarded().open("sim:16k,misdirected=1").unwrap();
        let pool = Pool::new(1, 4096, Pages::Base).unwrap();
        let mut queue = Sim.open(&IoPath::new("sim"), &target, &QueueConfig::new(1)).unwrap();
        let mut ended = Vec::new();
        let mut buffer = pool.take().unwrap();
        buffer.fill(0xa5);
        queue.submit(&mut [Request::write(0, offset, buffer)].into());
        queue.drain(&mut ended).unwrap();
        assert_eq!((ended.remove(0).result, injected(&target).unwrap().misdirected), (Ok(4096), 1));
        let mut holds = |offset| {
            queue.submit(&mut [Request::read(0, offset, pool.take().unwrap())].into());
            queue.drain(&mut ended).unwrap();
            ended.remove(0).buffer.unwrap().iter().all(|byte| *byte == 0xa5)
        };
        [holds(offset), holds(4096), holds(other)]
    });
    assert_eq!((first, last), ([false, true, false], [false, false, true]));
}

/// A device of 32 blocks, each of which holds its number from 1 on, and what eight blocks of it bring from the ninth on: with this fault,
/// and then without.
fn read_with(fault: &str, vectored: bool) -> (Target, [Vec<u8>; 2]) {
    let target = Target::options().write_unguarded().open(format!("sim:16k,{fault}=1")).unwrap();
    let pool = Pool::new(3, 16384, Pages::Base).unwrap();
    let mut queue = queue_on(&target, 1);
    let mut ended = Vec::new();
    let mut carry_out = |request: Request| {
        queue.submit(&mut [request].into());
        queue.drain(&mut ended).unwrap();
        let Completion { result, buffer, buffers, .. } = ended.remove(0);
        let buffers = buffers.map_or_else(|| buffer.into_iter().collect(), Buffers::into_vec);
        (result, buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect::<Vec<u8>>())
    };
    let mut all = pool.take().unwrap();
    all.chunks_mut(512).zip(1..).for_each(|(block, number)| block.fill(number));
    assert_eq!(carry_out(Request::write(0, 0, all)).0, Ok(16384));
    let sized = |bytes| {
        let mut buffer = pool.take().unwrap();
        buffer.set_len(bytes).unwrap();
        buffer
    };
    let mut read = || {
        let (result, brought) = carry_out(match vectored {
            true => Request::read_vectored(0, 4096, Buffers::new([512, 2048, 1536].map(sized).into()).unwrap()),
            false => Request::read(0, 4096, sized(4096)),
        });
        assert_eq!(result, Ok(4096));
        brought
    };
    let damaged = read();
    set_faults(&target, Faults::default()).unwrap();
    let sound = read();
    (target, [damaged, sound])
}

#[test]
fn an_altered_read_brings_one_bit_that_differs_from_what_stays_stored() {
    for vectored in [false, true] {
        let bits: BTreeSet<usize> = (0..50)
            .map(|seed| {
                let (target, [damaged, sound]) = read_with(&format!("seed={seed},altered-read"), vectored);
                assert!(sound.chunks(512).zip(9..).all(|(block, number)| block.iter().all(|byte| *byte == number)));
                assert_eq!(injected(&target), Some(Injected { altered_reads: 1, ..Injected::default() }));
                let differing = damaged.iter().zip(&sound).map(|(damaged, sound)| damaged ^ sound);
                let differing: Vec<(usize, u8)> = differing.enumerate().filter(|(_, bits)| *bits != 0).collect();
                let [(byte, bits)] = differing[..] else { panic!("seed {seed}: {differing:?}") };
                assert!(bits.is_power_of_two(), "seed {seed}: {differing:?}");
                8 * byte + bits.trailing_zeros() as usize
            })
            .collect();
        assert!(bits.len() > 40, "{bits:?}");
    }
}

#[test]
fn a_misdirected_read_brings_blocks_of_any_other_place_and_leaves_what_is_stored() {
    for vectored in [false, true] {
        let places: BTreeSet<u8> = (0..300)
            .map(|seed| {
                let (target, [damaged, sound]) = read_with(&format!("seed={seed},misdirected-read"), vectored);
                let holds = |data: &[u8], first: u8| {
                    data.chunks(512).zip(first..).all(|(block, number)| block.iter().all(|byte| *byte == number))
                };
                assert!(holds(&sound, 9) && holds(&damaged, damaged[0]), "seed {seed}");
                assert_eq!(injected(&target), Some(Injected { misdirected_reads: 1, ..Injected::default() }));
                damaged[0]
            })
            .collect();
        assert_eq!(places, (1..=25).filter(|place| *place != 9).collect());
    }
}

#[test]
fn other_requests_have_no_faults_of_reads_and_a_read_of_all_blocks_is_not_misdirected() {
    let target = opened("altered-read=1,misdirected-read=1");
    let (failed, stored) = written(&target, 20, 4096);
    assert!(failed.is_empty() && stored.iter().all(|byte| *byte == 0xa5));
    assert_eq!(injected(&target), Some(Injected::default()));
    let target = Target::open("sim:4k,misdirected-read=1").unwrap();
    let pool = Pool::new(1, 4096, Pages::Base).unwrap();
    let mut ended = Vec::new();
    let mut queue = queue_on(&target, 1);
    queue.submit(&mut [Request::read(0, 0, pool.take().unwrap())].into());
    queue.drain(&mut ended).unwrap();
    assert_eq!((ended[0].result, injected(&target)), (Ok(4096), Some(Injected::default())));
}

#[test]
fn every_fault_is_counted_and_ends_when_it_is_switched_off() {
    let target = opened("seed=4,error=0.1,short=0.2,lost=0.1,torn=0.2,altered=0.1");
    let (failed, stored) = written(&target, 100, 4096);
    let Injected { errors, short, lost, torn, altered, misdirected, altered_reads, misdirected_reads } =
        injected(&target).unwrap();
    assert_eq!((misdirected, altered_reads, misdirected_reads), (0, 0, 0));
    assert_eq!(errors, failed.len() as u64);
    assert!(
        [errors, short, lost, torn, altered].iter().all(|count| (4..40).contains(count)),
        "{:?}",
        injected(&target)
    );
    let is_whole = |block: &&[u8]| block.iter().all(|byte| *byte == 0xa5);
    let whole = stored.chunks(4096).filter(is_whole).count() as u64;
    assert_eq!(100 - whole, errors + short + lost + torn + altered, "a fault that is counted has happened");
    assert_eq!(injected(&Target::open("sim:1m").unwrap()), Some(Injected::default()));
    assert_eq!(written(&target, 100, 4096).0, Vec::<u64>::new(), "they were switched off");
}

#[test]
fn a_write_of_one_block_is_neither_torn_nor_cut_short() {
    let target = opened("torn=0.5,short=1");
    let (failed, stored) = written(&target, 100, 512);
    assert!(failed.is_empty() && stored.iter().all(|byte| *byte == 0xa5));
    assert_eq!(injected(&target), Some(Injected::default()));
}

#[test]
fn targets_and_seeds_have_faults_of_their_own() {
    let failed = |settings: &str| written(&opened(&format!("error=0.2,{settings}")), 60, 512).0;
    let first = failed("seed=1");
    assert_eq!(first, failed("seed=1"));
    let world = [0, 1].map(|_| opened("error=0.2,seed=1,world=own faults"));
    let [one, other] = world.each_ref().map(|target| written(target, 60, 512).0);
    assert!(one == first && other != first, "the second target of a world with the same seed");
    for seed in 2..50 {
        assert_ne!(failed(&format!("seed={seed}")), other, "seed {seed}");
    }
    // A second queue goes on where the first one was.
    let target = opened("error=0.2,seed=1");
    let mut queues = [queue_on(&target, 1), queue_on(&target, 1)];
    let pool = Pool::new(1, 4096, Pages::Base).unwrap();
    let mut again = Vec::new();
    for tag in 0..60 {
        let mut completions = Vec::new();
        let queue = &mut queues[tag as usize % 2];
        queue.submit(&mut [Request::write(tag, 0, pool.take().unwrap())].into());
        queue.reap(1, &mut completions).unwrap();
        again.extend(completions.iter().filter(|ended| ended.result.is_err()).map(|ended| ended.tag));
    }
    assert_eq!(again, first);
}

#[test]
fn an_attached_target_has_the_faults_of_its_own_settings() {
    let (sound, faulty) = (opened("world=apart"), opened("world=apart,error=1"));
    let mut queue = queue_on(&sound, 1);
    let id = queue.attach(&faulty).unwrap();
    let pool = Pool::new(1, 4096, Pages::Base).unwrap();
    let mut result = |request: Request| {
        let mut completions = Vec::new();
        queue.submit(&mut [request].into());
        queue.drain(&mut completions).unwrap();
        completions[0].result
    };
    assert_eq!(result(Request::read(0, 0, pool.take().unwrap())), Ok(4096));
    assert!(result(Request::read(0, 0, pool.take().unwrap()).on(id)).is_err());
}

#[test]
fn a_sync_takes_as_long_as_a_write_and_no_unit() {
    let target = opened("write=30us,spread=0,units=1,write-iops=100");
    let clock = clock(&target).unwrap();
    let mut queue = queue_on(&target, 4);
    queue.submit(&mut (0..4).map(Request::fdatasync).collect());
    queue.drain(&mut Vec::new()).unwrap();
    assert_eq!(clock.now_ns(), 30_000);
}

#[test]
fn a_queue_that_is_dropped_leaves_undone_what_was_not_reaped() {
    let target = opened("latency=10us,jitter=0");
    let pool = Pool::new(2, 4096, Pages::Base).unwrap();
    let mut queue = queue_on(&target, 2);
    let mut completions = Vec::new();
    for block in 0..2 {
        let mut buffer = pool.take().unwrap();
        buffer.fill(1);
        queue.submit(&mut [Request::write(block, block * 4096, buffer)].into());
        if block == 0 {
            queue.reap(1, &mut completions).unwrap();
        }
    }
    queue.flush().unwrap();
    clock(&target).unwrap().wait_until(1_000_000);
    drop((queue, completions));
    let mut queue = queue_on(&target, 1);
    let first_bytes = [0, 1].map(|block: u64| {
        let mut completions = Vec::new();
        queue.submit(&mut [Request::read(0, block * 4096, pool.take().unwrap())].into());
        queue.drain(&mut completions).unwrap();
        completions[0].buffer.as_ref().unwrap()[0]
    });
    assert_eq!(first_bytes, [1, 0]);
}

/// The message of a panic in one of some threads.
fn panic_of(threads: usize, run: impl Fn(usize) + Sync) -> String {
    let ended: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let run = &run;
                    move || run(thread)
                })
            })
            .collect();
        spawned.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let message = |panic: Box<dyn std::any::Any + Send>| panic.downcast_ref::<String>().cloned();
    ended.into_iter().filter_map(Result::err).find_map(message).unwrap()
}

#[test]
fn turns_that_would_hang_panic_and_say_why() {
    let clock = clock(&opened("world=misuse")).unwrap();
    let twice = panic_of(1, |_| drop((clock.take_turns(0, 2), clock.take_turns(0, 2))));
    assert!(twice.contains("no turn was passed on") && twice.contains("threads [1] of 2 have not come"), "{twice}");

    let target = opened("world=misuse 2");
    let clock = super::clock(&target).unwrap();
    let lock = std::sync::Mutex::new(());
    let holds_a_lock = panic_of(2, |thread| {
        let _turn = clock.take_turns(thread, 2);
        let _guard = lock.lock();
        clock.wait_until(clock.now_ns() + 1_000);
    });
    assert!(holds_a_lock.contains("thread 1 has it; does it wait"), "{holds_a_lock}");
}

#[test]
fn a_thread_without_a_turn_may_not_wait_among_those_that_take_turns() {
    let clock = clock(&opened("world=stranger")).unwrap();
    let _turn = clock.take_turns(0, 1);
    let stranger = panic_of(1, |_| clock.wait_until(1_000_000));
    assert!(stranger.contains("a thread without a turn"), "{stranger}");
    clock.wait_until(5);
    assert_eq!(clock.now_ns(), 5);
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
