//! Tries at random to write to what is in use: disks on loop devices that are mounted, swap, stacked, open, locked or mounted in another
//! namespace, under any of their names, and names that lead elsewhere between the check and the open. The guard must refuse exactly what
//! is in use, and no other byte may change.
//!
//! `IOLANE_GUARD_ATTEMPTS=10000` makes as many attempts, `IOLANE_GUARD_SEED=7` other ones; `cargo xtask campaign guard` sets them.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[macro_use]
mod guard_fixtures;
use guard_fixtures::{BLOCK_BYTES, Holder, Loop, Mounted, Scratch, open, run, setting, try_run, write};

const DISK_BYTES: u64 = 8 << 20;
/// Where the partition is, and where everything that is permitted is written: neither file system nor swap header need it.
const PARTITION_START: u64 = 7 << 20;

fn random() -> Xoshiro256PlusPlus {
    let seed = setting("IOLANE_GUARD_SEED", 1);
    println!("seed {seed}");
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn below(random: &mut impl Rng, most: usize) -> usize {
    (random.next_u64() % most as u64) as usize
}

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
        Self { file, folder, content, uses: Vec::new(), device: None }
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
        let (device, partition) = (device.0.as_str(), partition.as_str());
        let begun = match below(random, 7) {
            0 => Ok(Use::LoopAbove(Loop::of(Path::new(device)))),
            1 => Mounted::attempt(&["-o", "ro,noload"], device, self.folder.join("mount")).map(Use::Mount),
            2 => try_run("swapon", &[Path::new(device)]).map(|_| Use::Swap(device.into())),
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

    fn is_unchanged(&self) -> bool {
        fs::read(&self.file).unwrap() == self.content
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

#[test]
fn whatever_is_in_use_is_refused_and_nothing_else_and_no_other_byte_changes() {
    needs!("a random adversary", "losetup", "addpart", "mkfs.ext4", "mkswap", "swapon", "flock", "unshare");
    let scratch = Scratch::new("adversary");
    let mut random = random();
    let mut disks: Vec<Disk> = (0..3).map(|kind| Disk::new(&scratch, kind)).collect();
    let (mut permitted, mut refused) = (0, 0);
    for attempt in 0..setting("IOLANE_GUARD_ATTEMPTS", 100) {
        let disk = below(&mut random, disks.len());
        let disk = &mut disks[disk];
        match below(&mut random, 3) {
            0 if disk.uses.len() < 3 => disk.begin(&mut random),
            1 => disk.end(&mut random),
            _ => {}
        }
        let on = [On::File, On::Device, On::Partition][below(&mut random, 3)];
        let names = disk.names(on);
        if names.is_empty() {
            continue;
        }
        let name = &names[below(&mut random, names.len())];
        let place = PARTITION_START + random.next_u64() % 256 * BLOCK_BYTES;
        let offset = if on == On::Partition { place - PARTITION_START } else { place };
        let byte = random.next_u64() as u8;
        match (write(name, offset, byte, false), disk.is_in_use(on)) {
            (Ok(()), false) => {
                permitted += 1;
                disk.content[place as usize..][..BLOCK_BYTES as usize].fill(byte);
            }
            (Err(_), true) => refused += 1,
            (Ok(()), true) => panic!("attempt {attempt}: {} is in use and was written", name.display()),
            (Err(error), false) => panic!("attempt {attempt}: {} is in no use, and: {error}", name.display()),
        }
        if attempt % 50 == 0 {
            assert!(disks.iter().all(Disk::is_unchanged), "attempt {attempt}: a byte changed that nobody wrote");
        }
    }
    assert!(disks.iter().all(Disk::is_unchanged), "a byte changed that nobody wrote");
    println!("{permitted} writes permitted, {refused} refused");
    assert!(permitted > 5 && refused > 5, "{permitted} permitted, {refused} refused: that shows nothing");
}

#[test]
fn a_name_that_moves_between_check_and_open_leads_no_write_to_a_file_in_use() {
    let scratch = Scratch::new("moving-names");
    let [free, used, name, next] = ["free", "used", "name", "next"].map(|name| scratch.path(name));
    for file in [&free, &used] {
        fs::write(file, vec![0xa5; 64 << 10]).unwrap();
    }
    symlink(&free, &name).unwrap();
    let _holder = Holder::of(open(&used, true));
    let is_over = AtomicBool::new(false);
    let attempts = setting("IOLANE_GUARD_ATTEMPTS", 100);
    let (mut permitted, mut elsewhere) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pace = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Longer on the free one, about as long as a check takes.
                for (file, spins) in [(&used, 0), (&free, pace)] {
                    symlink(file, &next).unwrap();
                    fs::rename(&next, &name).unwrap();
                    (0..spins).for_each(|_| std::hint::spin_loop());
                }
                pace = (pace + 997) % 20_000;
            }
        });
        for _ in 0..attempts {
            match write(&name, 0, 7, false) {
                Ok(()) => permitted += 1,
                Err(error) => elsewhere += usize::from(error.to_string().contains("something else")),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{permitted} of {attempts} writes permitted, {elsewhere} led elsewhere after the check");
    let mut content = [0; 64 << 10];
    File::open(&used).unwrap().read_exact_at(&mut content, 0).unwrap();
    assert!(content.iter().all(|byte| *byte == 0xa5), "the file in use was written");
}
