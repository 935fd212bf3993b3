//! `Blocking`: byte ranges of any offset and length are those of a copy in memory, on devices that move less than was asked and that fail,
//! and at the end of files. The example `redb_backend` has the test on each path.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use iolane::{
    Blocking, Capabilities, Completion, Error, Interface, IoPath, OTHER_INTERFACES, Queue, QueueConfig, Request,
    Result, Target,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

mod example_programs;
use example_programs::Folder;

const BYTES: usize = 1 << 20;

/// `sim` with one queue at a time, like a process at its limit of locked memory. What that queue has waits until another one was refused.
struct Scarce;

static REFUSALS: AtomicUsize = AtomicUsize::new(0);
static QUEUES: AtomicUsize = AtomicUsize::new(0);

#[linkme::distributed_slice(OTHER_INTERFACES)]
static SCARCE: &dyn Interface = &Scarce;

struct ScarceQueue(Box<dyn Queue + Send>);

impl Interface for Scarce {
    fn name(&self) -> &'static str {
        "scarce"
    }

    fn summary(&self) -> &'static str {
        "one queue at a time"
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![path("scarce")]
    }

    fn validate(&self, _path: &IoPath) -> Result<()> {
        Ok(())
    }

    fn probe(&self, _path: &IoPath, target: &Target) -> Result<Capabilities> {
        iolane::probe(&path("sim"), target)
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, _path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        let queue = iolane::open_movable_queue(&path("sim"), target, config)?;
        if QUEUES.fetch_add(1, Ordering::SeqCst) == 0 {
            return Ok(Box::new(ScarceQueue(queue)));
        }
        QUEUES.fetch_sub(1, Ordering::SeqCst);
        REFUSALS.fetch_add(1, Ordering::SeqCst);
        Err(Error::exhausted("a second queue", "there is one"))
    }
}

impl Drop for ScarceQueue {
    fn drop(&mut self) {
        QUEUES.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Queue for ScarceQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        self.0.submit(requests)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        while REFUSALS.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        self.0.reap(min, completions)
    }

    fn depth(&self) -> usize {
        self.0.depth()
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn syscalls(&self) -> Option<u64> {
        self.0.syscalls()
    }
}

fn path(name: &str) -> IoPath {
    name.parse().unwrap()
}

fn simulated(settings: &str) -> Blocking {
    let target = Target::options().write_unguarded().open(format!("sim:{BYTES},{settings}")).unwrap();
    Blocking::open(&path("sim"), &target).unwrap()
}

fn any_range(random: &mut Xoshiro256PlusPlus, round: usize) -> std::ops::Range<usize> {
    let offset = random.next_u64() as usize % BYTES;
    let most = [1, 5000, BYTES][round % 3].min(BYTES - offset);
    offset..offset + random.next_u64() as usize % (most + 1)
}

#[test]
fn a_device_that_moves_less_than_was_asked_loses_nothing() {
    for seed in 0..50 {
        let file = simulated(&format!("seed={seed},short=0.3"));
        let mut copy = vec![0; BYTES];
        file.write_all_at(&copy, 0).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for round in 0..20 {
            let range = any_range(&mut random, round);
            random.fill_bytes(&mut copy[range.clone()]);
            file.write_all_at(&copy[range.clone()], range.start as u64).unwrap();
            let range = any_range(&mut random, round / 2);
            let mut read = vec![0; range.len()];
            file.read_exact_at(&mut read, range.start as u64).unwrap();
            assert!(read == copy[range.clone()], "seed {seed}, round {round}, {range:?}");
        }
    }
}

#[test]
fn an_error_of_the_device_reaches_the_caller_and_the_next_call_works() {
    let file = simulated("seed=3,error=0.05,short=0.1");
    let data: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let (mut read, mut failed) = (vec![0; BYTES], 0);
    for _ in 0..100 {
        while let Err(error) = file.write_all_at(&data, 0) {
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
            failed += 1;
        }
        match file.read_exact_at(&mut read, 0) {
            Ok(()) => assert!(read == data),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}"),
        }
    }
    assert!(failed > 10, "{failed} calls failed");
}

#[test]
fn a_file_is_read_to_its_last_byte_and_grows_by_whole_blocks() {
    let folder = Folder::new("blocking-end");
    let ways = if folder.direct("blocking at the end of a file") { vec![false, true] } else { vec![false] };
    for (direct, name) in
        ways.into_iter().flat_map(|direct| folder.paths("blocking").into_iter().map(move |p| (direct, p)))
    {
        let here = format!("{name}, O_DIRECT: {direct}");
        let at = folder.file("file", &[5; 5000]);
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let opened = File::options().read(true).write(true).custom_flags(flags).open(&at).unwrap();
        let target = Target::from_file(opened, "file").unwrap();
        let file = Blocking::open(&path(name), &target).unwrap();
        let mut read = [0; 5000];
        file.read_exact_at(&mut read, 0).unwrap();
        file.read_exact_at(&mut read[..904], 4096).unwrap();
        assert_eq!(read, [5; 5000], "{here}");
        for beyond in [4999, 5000, 1 << 20] {
            assert_eq!(file.read_exact_at(&mut [0; 2], beyond).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{here}");
        }
        file.read_exact_at(&mut [], 1 << 20).unwrap();
        file.write_all_at(&[], 1 << 20).unwrap();
        file.write_all_at(&[9; 10], 4995).unwrap();
        file.sync_data().unwrap();
        let now = std::fs::read(&at).unwrap();
        assert!(
            now[..4995] == [5; 4995] && now[4995..5005] == [9; 10] && now[5005..].iter().all(|byte| *byte == 0),
            "{here}"
        );
        assert_eq!(now.len() as u64, 5005_u64.next_multiple_of(target.block_bytes().into()), "{here}");
    }
}

#[test]
fn a_target_that_may_not_be_written_refuses_and_still_reads() {
    let folder = Folder::new("blocking-read-only");
    let target = Target::options().direct(false).open(folder.file("file", &[1; 8192])).unwrap();
    let file = Blocking::open(&path("psync"), &target).unwrap();
    let error = file.write_all_at(&[2; 100], 50).unwrap_err();
    assert!(
        error.kind() == ErrorKind::PermissionDenied && error.to_string().contains("opened for reading"),
        "{error:?}"
    );
    let mut read = [0; 100];
    file.read_exact_at(&mut read, 50).unwrap();
    assert_eq!(read, [1; 100]);
}

#[test]
fn threads_share_one_and_nothing_of_it_is_left_open_while_they_live_on() {
    let folder = Folder::new("blocking-shared");
    for name in folder.paths("blocking of several threads") {
        let at = folder.file("file", &[0; 64 << 10]);
        let opened = File::options().read(true).write(true).open(&at).unwrap();
        opened.try_lock().unwrap();
        let file = Arc::new(Blocking::open(&path(name), &Target::from_file(opened, "file").unwrap()).unwrap());
        let (done, is_done) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        let is_over = Mutex::new(is_over);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (file, done, is_over) = (file.clone(), done.clone(), &is_over);
                scope.spawn(move || {
                    let (mut read, data) = ([0; 3000], [1 + thread as u8; 3000]);
                    for round in 0..10 {
                        let offset = (round * 4 + thread) * 1000 % 60_000 + thread;
                        file.read_exact_at(&mut read, offset).unwrap();
                        file.write_all_at(&data, thread * 3000).unwrap();
                    }
                    drop(file);
                    done.send(()).unwrap();
                    // It lives until the lock was looked at.
                    let _ = is_over.lock().unwrap().recv();
                });
            }
            (0..4).for_each(|_| is_done.recv().unwrap());
            let file = Arc::into_inner(file).unwrap();
            let mut read = [0; 12_000];
            file.read_exact_at(&mut read, 0).unwrap();
            assert!(read.chunks(3000).zip(1..).all(|(part, value)| part.iter().all(|byte| *byte == value)), "{name}");
            drop(file);
            let lock = File::open(&at).unwrap().try_lock();
            drop(end);
            assert!(lock.is_ok(), "{name}: {lock:?}");
        });
    }
}

#[test]
fn the_first_path_of_a_list_that_can_do_what_is_needed_is_taken() {
    let folder = Folder::new("blocking-first");
    let target = Target::options().direct(false).open(folder.file("file", &[1; 8192])).unwrap();
    let file = Blocking::open_first(&iolane::paths_of("io_uring_cmd,psync").unwrap(), &target).unwrap();
    assert_eq!((file.path(), file.passed_over().len()), (&path("psync"), 1));
    assert!(file.passed_over()[0].to_string().contains("character device"), "{:?}", file.passed_over());
    assert!(Blocking::open_first(&[], &target).unwrap_err().to_string().contains("empty list"));
}

#[test]
fn a_path_that_chooses_tells_what_its_queues_chose() {
    let folder = Folder::new("chooses");
    let file = folder.file("file", &vec![7; BYTES]);
    let target = Target::options().direct(false).open(&file).unwrap();
    let on = |name: &str| {
        let blocking = Blocking::open(&path(name), &target).unwrap();
        let mut read = vec![0; BYTES];
        blocking.read_exact_at(&mut read, 0).unwrap();
        blocking.choices()
    };
    let choices = on("auto");
    let requests: u64 = choices.iter().flat_map(|of| &of.used).map(|(_, requests)| requests).sum();
    assert!(choices.len() == 1 && requests > 0, "{choices:?}");
    assert!(on("psync").is_empty());
}

#[test]
fn a_call_for_which_no_queue_can_be_opened_waits_for_one() {
    let target = Target::options().write_unguarded().open(format!("sim:{BYTES},seed=1")).unwrap();
    let file = &Blocking::open(&path("scarce"), &target).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..50 {
                    // Whole blocks: writes of parts of a block take turns anyway.
                    file.write_all_at(&[thread as u8; 1024], (thread * 50 + round) * 1024).unwrap();
                }
            });
        }
    });
    let mut read = vec![0; 200 << 10];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read.chunks(50 << 10).zip(0..).all(|(part, value)| part.iter().all(|byte| *byte == value)));
    assert!(REFUSALS.load(Ordering::SeqCst) > 0);
    // Where there is none to wait for, the error tells.
    let other = Blocking::open(&path("scarce"), &target).unwrap_err();
    assert!(other.to_string().contains("a second queue: there is one"), "{other}");
}

/// Writes of these parts of a block by threads of their own, each of which finds bytes as it wrote them, whatever the others do.
fn write_beside_each_other(parts: [(&Blocking, std::ops::Range<usize>, std::ops::Range<usize>); 2]) {
    std::thread::scope(|scope| {
        for (part, (file, written, found)) in parts.into_iter().enumerate() {
            scope.spawn(move || {
                for round in 0..500 {
                    let mark = (part * 100 + round % 100) as u8;
                    file.write_all_at(&vec![mark; written.len()], written.start as u64).unwrap();
                    let mut read = vec![0; found.len()];
                    file.read_exact_at(&mut read, found.start as u64).unwrap();
                    assert!(read.iter().all(|byte| *byte == mark), "part {part} in round {round}");
                }
            });
        }
    });
}

#[test]
fn a_write_leaves_alone_what_it_does_not_name_of_a_block() {
    let folder = Folder::new("blocking-parts");
    let name = folder.file("file", &[0; 8192]);
    let open = || Target::options().write_unguarded().open(&name);
    let (Ok(one), Ok(other)) = (open(), open()) else {
        return println!("SKIPPED blocking writes of parts of blocks: the temporary folder takes no O_DIRECT");
    };
    // They know nothing of each other.
    let [one, other] = [one, other].map(|target| Blocking::open(&path("psync"), &target).unwrap());
    write_beside_each_other([(&one, 0..100, 0..100), (&other, 100..200, 100..200)]);
    write_beside_each_other([(&one, 0..100, 0..0), (&one, 0..8192, 100..8192)]);
}
