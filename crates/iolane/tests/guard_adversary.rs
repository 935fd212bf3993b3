//! Tries at random to write to what is in use: disks on loop devices that are mounted, swap, stacked, open, locked or mounted in another
//! namespace, under any of their names, and names that lead elsewhere between the check and the open. The guard must refuse exactly what
//! is in use, and no other byte of the disks may change, except where the kernel swaps to.
//!
//! Each attempt draws from a seed of its own, and begins with nothing in use. `IOLANE_GUARD_ATTEMPTS=1000` makes as many,
//! `IOLANE_GUARD_SEED=7` begins with that seed; `cargo xtask campaign guard` sets them.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[macro_use]
mod guard_fixtures;
use guard_fixtures::{BLOCK_BYTES, Holder, Loop, Mounted, Scratch, open, run, setting, try_run, write};

const DISK_BYTES: u64 = 8 << 20;
/// Where the partition is, and where everything that is permitted is written: neither file system nor swap header need it.
const PARTITION_START: u64 = 7 << 20;
/// Of the disk with a swap area: all but its header.
const SWAP_AREA: Range<usize> = 4096..6 << 20;

/// The steps of an attempt, most of which write.
const STEPS: usize = 12;

/// How many attempts are made.
fn attempts() -> u64 {
    setting("IOLANE_GUARD_ATTEMPTS", 10)
}

/// Makes an attempt with the seed that is its own; a failure names it.
fn attempt(number: u64, with: impl FnOnce(&mut Xoshiro256PlusPlus)) {
    let seed = setting("IOLANE_GUARD_SEED", 1) + number;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| with(&mut random)));
    assert!(outcome.is_ok(), "seed {seed} failed, as said above; alone: cargo xtask campaign guard 1 {seed}");
    if (number + 1).is_multiple_of(1000) {
        println!("{} attempts, the last is seed {seed}", number + 1);
    }
}

fn below(random: &mut impl Rng, most: usize) -> usize {
    (random.next_u64() % most as u64) as usize
}

/// How long other programs have a device open that they only look at, as losetup(8) does that looks for a free one, and how long the
/// kernel takes to let go of a device.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// The uses of a disk at a time.
const USES_MAX: usize = 3;

/// A use of a disk, which ends when this is dropped.
enum Use {
    LoopAbove(#[expect(dead_code, reason = "held")] Loop),
    Mount(#[expect(dead_code, reason = "held")] Mounted),
    Swap(PathBuf),
    /// A process that has the file, the device or the partition open, has it locked, or has it mounted where only it sees that.
    Process(#[expect(dead_code, reason = "held")] Holder),
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Self::Swap(device) = self {
            run("swapoff", &[device.to_str().unwrap()]);
        }
    }
}

struct Disk {
    file: PathBuf,
    folder: PathBuf,
    /// What the file has to hold.
    content: Vec<u8>,
    // Ended before the device is detached.
    uses: Vec<Use>,
    device: Option<(Loop, String)>,
    /// Since its content was compared.
    was_swap: bool,
}

/// What an attempt is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    File,
    Device,
    Partition,
}

impl Disk {
    /// An ext4 file system, a swap area, or nothing but a pattern.
    fn new(scratch: &Scratch, kind: usize) -> Self {
        let folder = scratch.path(&format!("disk-{kind}"));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, vec![0xa5; DISK_BYTES as usize]).unwrap();
        match kind {
            0 => drop(run("mkfs.ext4", &["-q", "-F", file.to_str().unwrap(), "6m"])),
            1 => drop(run("mkswap", &["-q", file.to_str().unwrap(), "6144"])),
            _ => {}
        }
        run("chmod", &["600", file.to_str().unwrap()]);
        fs::hard_link(&file, folder.join("hard")).unwrap();
        symlink(&file, folder.join("soft")).unwrap();
        let content = fs::read(&file).unwrap();
        Self { file, folder, content, uses: Vec::new(), device: None, was_swap: false }
    }

    fn attach(&mut self) {
        let device = Loop::of(&self.file);
        let partition = format!("{}p1", device.0);
        if !Path::new(&partition).exists() {
            run("addpart", &[&device.0, "1", &(PARTITION_START / 512).to_string(), "2048"]);
        }
        let link = self.folder.join("by-id");
        let _ = fs::remove_file(&link);
        symlink(&device.0, link).unwrap();
        self.device = Some((device, partition));
    }

    /// Begins a use where the kernel permits it: a device that is mounted, for example, is not swapped to.
    fn begin(&mut self, random: &mut impl Rng) {
        let Some((device, partition)) = &self.device else { return self.attach() };
        if self.uses.len() == USES_MAX {
            return;
        }
        let (device, partition) = (device.0.as_str(), partition.as_str());
        let begun = match below(random, 7) {
            0 => Ok(Use::LoopAbove(Loop::of(Path::new(device)))),
            1 => Mounted::attempt(&["-o", "ro,noload"], device, self.folder.join("mount")).map(Use::Mount),
            2 => try_run("swapon", &[Path::new(device)]).map(|_| {
                self.was_swap = true;
                Use::Swap(device.into())
            }),
            3 => Ok(Use::Process(Holder::of(open(&self.file, below(random, 2) == 0)))),
            4 => {
                let name = if below(random, 2) == 0 { device } else { partition };
                Ok(Use::Process(Holder::of(open(name, below(random, 2) == 0))))
            }
            // Not the device: for a lock of that the guard waits some seconds, since udev takes one for a moment.
            5 => locked(&self.file).map(Use::Process),
            _ => mounted_elsewhere(device, &self.folder.join("elsewhere")).map(Use::Process),
        };
        self.uses.extend(begun);
    }

    fn end(&mut self, random: &mut impl Rng) {
        match self.uses.len() {
            0 => self.device = None,
            uses => drop(self.uses.swap_remove(below(random, uses))),
        }
    }

    fn end_all(&mut self) {
        self.uses.clear();
        self.device = None;
    }

    fn names(&self, on: On) -> Vec<PathBuf> {
        match (on, &self.device) {
            (On::File, _) => ["file", "hard", "soft", "./file"].map(|name| self.folder.join(name)).to_vec(),
            (On::Device, Some((device, _))) => vec![device.0.clone().into(), self.folder.join("by-id")],
            (On::Partition, Some((_, partition))) => vec![partition.into()],
            _ => Vec::new(),
        }
    }

    fn is_in_use(&self, on: On) -> bool {
        !self.uses.is_empty() || on == On::File && self.device.is_some()
    }

    /// What the kernel wrote where it swapped to is taken over.
    fn assert_unchanged(&mut self) {
        let found = fs::read(&self.file).unwrap();
        if self.was_swap {
            self.content[SWAP_AREA].copy_from_slice(&found[SWAP_AREA]);
            self.was_swap = false;
        }
        let changed = found.iter().zip(&self.content).position(|(found, held)| found != held);
        assert_eq!(
            (found.len(), changed),
            (self.content.len(), None),
            "a byte of {} changed that nobody wrote",
            self.file.display()
        );
    }
}

/// A process that has locked it. It says so, because the lock is taken some time after its start.
fn locked(file: &Path) -> Result<Holder, String> {
    let script = format!("exec 9<'{}' && flock -n 9 && echo ready && exec sleep 600", file.display());
    announced(Command::new("sh").args(["-c", &script]))
}

/// A process in a mount namespace of its own, in which the device is mounted.
fn mounted_elsewhere(device: &str, point: &Path) -> Result<Holder, String> {
    fs::create_dir_all(point).unwrap();
    let script =
        format!("mount -o ro,noload {device} '{}' 2>/dev/null && echo ready && exec sleep 600", point.display());
    let mut command = Command::new("unshare");
    announced(command.args(["-m", "sh", "-c", &script]))
}

fn announced(command: &mut Command) -> Result<Holder, String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let holder = Holder(child);
    if line == "ready\n" { Ok(holder) } else { Err("it has ended".into()) }
}

fn try_to_write(name: &Path, offset: u64, byte: u8) -> io::Result<()> {
    write(name, offset, byte, false).map_err(io::Error::from)
}

/// Whether something is not written because it is in use, and for no other reason.
fn is_refusal(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
}

/// What came of the writes.
#[derive(Debug, Default)]
struct Outcomes {
    permitted: u64,
    refused: u64,
    /// Refused by the open, since the name led to something else when it was checked.
    elsewhere: u64,
}

impl Outcomes {
    /// Writes by one of the disk's names.
    fn write(&mut self, disk: &mut Disk, random: &mut impl Rng) {
        let on = [On::File, On::Device, On::Partition][below(random, 3)];
        let names = disk.names(on);
        if names.is_empty() {
            return;
        }
        let name = &names[below(random, names.len())];
        let place = PARTITION_START + random.next_u64() % 256 * BLOCK_BYTES;
        let offset = if on == On::Partition { place - PARTITION_START } else { place };
        let byte = random.next_u64() as u8;
        let is_in_use = disk.is_in_use(on);
        let mut outcome = try_to_write(name, offset, byte);
        let deadline = Instant::now() + LOOK_MAX;
        while !is_in_use && is_refusal(&outcome) && Instant::now() < deadline {
            sleep(Duration::from_millis(10));
            outcome = try_to_write(name, offset, byte);
        }
        match (outcome, is_in_use) {
            (Ok(()), false) => {
                self.permitted += 1;
                disk.content[place as usize..][..BLOCK_BYTES as usize].fill(byte);
            }
            (Ok(()), true) => panic!("{} is in use and was written", name.display()),
            (outcome, true) if is_refusal(&outcome) => self.refused += 1,
            (Err(error), true) => panic!("{} is in use, and refused for another reason: {error}", name.display()),
            (Err(error), false) => panic!("{} is in no use, and: {error}", name.display()),
        }
    }

    /// Writes by a name that leads to a file in use at times; whether that was permitted.
    fn write_moving(&mut self, name: &Path, place: u64, byte: u8) -> bool {
        let outcome = try_to_write(name, place, byte);
        match &outcome {
            Ok(()) => self.permitted += 1,
            outcome if is_refusal(outcome) => self.refused += 1,
            Err(error) if error.to_string().contains("something else") => self.elsewhere += 1,
            Err(error) => panic!("{error}"),
        }
        outcome.is_ok()
    }
}

#[test]
fn whatever_is_in_use_is_refused_and_nothing_else_and_no_other_byte_changes() {
    needs!("a random adversary", "losetup", "addpart", "mkfs.ext4", "mkswap", "swapon", "flock", "unshare");
    let scratch = Scratch::new("adversary");
    let mut disks = [0, 1, 2].map(|kind| Disk::new(&scratch, kind));
    let mut outcomes = Outcomes::default();
    let attempts = attempts();
    for number in 0..attempts {
        attempt(number, |random| {
            for _ in 0..below(random, STEPS) {
                disks[below(random, 3)].begin(random);
            }
            for _ in 0..STEPS {
                let disk = &mut disks[below(random, 3)];
                match below(random, 3) {
                    0 => disk.begin(random),
                    1 => disk.end(random),
                    _ => {}
                }
                outcomes.write(disk, random);
            }
            disks.iter_mut().for_each(Disk::end_all);
            disks.iter_mut().for_each(Disk::assert_unchanged);
        });
    }
    let Outcomes { permitted, refused, .. } = outcomes;
    println!("{attempts} attempts: {permitted} writes permitted, {refused} refused");
    assert!(attempts < 10 || permitted > 5 && refused > 5, "that shows nothing");
}

/// Says when it is dropped, also by a panic, that another thread should end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The seed of an attempt draws the mover's pace, the place and the byte; when the name moves is up to the scheduler.
#[test]
fn a_name_that_moves_between_check_and_open_leads_no_write_to_a_file_in_use() {
    const FILE_BYTES: usize = 64 << 10;
    /// More than are needed to see both outcomes: one write in forty leads elsewhere on a quiet machine, one in two thousand where the
    /// threads share a busy processor.
    const MORE_ATTEMPTS: u64 = 10_000;
    let scratch = Scratch::new("moving-names");
    let [free, used, name, next] = ["free", "used", "name", "next"].map(|name| scratch.path(name));
    let unused = vec![0xa5; FILE_BYTES];
    for file in [&free, &used] {
        fs::write(file, &unused).unwrap();
    }
    symlink(&free, &name).unwrap();
    let _holder = Holder::of(open(&used, true));
    let (is_over, pace) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut content, mut outcomes) = (unused.clone(), Outcomes::default());
    let (attempts, mut made) = (attempts(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Longer on the free one, about as long as a check takes.
                let spins = pace.load(Ordering::Relaxed);
                for (file, spins) in [(&used, spins / 8), (&free, spins)] {
                    symlink(file, &next).unwrap();
                    fs::rename(&next, &name).unwrap();
                    (0..spins).for_each(|_| std::hint::spin_loop());
                }
            }
        });
        let _over = Over(&is_over);
        while made < attempts || outcomes.permitted == 0 || outcomes.elsewhere == 0 {
            assert!(made < attempts + MORE_ATTEMPTS, "{outcomes:?}: the name does not move");
            attempt(made, |random| {
                for _ in 0..STEPS {
                    pace.store(below(random, 20_000), Ordering::Relaxed);
                    let place = below(random, FILE_BYTES / BLOCK_BYTES as usize) * BLOCK_BYTES as usize;
                    let byte = random.next_u64() as u8;
                    if outcomes.write_moving(&name, place as u64, byte) {
                        content[place..][..BLOCK_BYTES as usize].fill(byte);
                    }
                }
            });
            made += 1;
        }
    });
    let Outcomes { permitted, refused, elsewhere } = outcomes;
    println!(
        "{made} attempts: {permitted} writes permitted, {refused} refused, {elsewhere} led elsewhere after the check"
    );
    assert!(fs::read(&used).unwrap() == unused, "the file in use was written");
    assert!(fs::read(&free).unwrap() == content, "a byte changed that nobody wrote");
}
