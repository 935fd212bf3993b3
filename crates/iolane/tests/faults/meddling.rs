//! A controller that does what it likes: while queues of the user-space driver read, another thread writes to the registers behind the driver's
//! back, through the device that the driver has open. It rings doorbells, so that old commands are carried out once more, disables the
//! controller, shuts it down, resets the function, and takes its access to memory.
//!
//! Each request is answered once, with its buffer; dropping a queue ends; and the IOMMU sees no address that the driver has not mapped.
//! What a read brings is not checked: a command that is carried out twice may bring it to a buffer that has a new owner.

use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::AtomicBool;

use iolane_nvme::registers::{CC, CC_ENABLE, CC_SHUTDOWN_NORMAL, DOORBELLS};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::*;

/// Without `IOLANE_FAULTS_MEDDLINGS`.
const MEDDLINGS: u64 = 10;
/// What a drive needs at most to be itself again.
const LIMIT: Duration = Duration::from_secs(60);
/// The registers and the doorbells of four queue pairs.
const MAPPED_BYTES: usize = 0x2000;
const DOORBELLS_RUNG: u64 = 8;
/// `VFIO_DEVICE_RESET`: `_IO(';', 100 + 11)` (linux/vfio.h).
const VFIO_DEVICE_RESET: libc::Ioctl = 0x3b6f;

fn setting(name: &str, usual: u64) -> Result<u64> {
    std::env::var(name).map_or(Ok(usual), |text| text.parse().with_context(|| format!("{name}={text}")))
}

#[test]
fn a_controller_that_does_what_it_likes_costs_requests_and_nothing_else() -> Result<()> {
    let _turn = turn();
    let Some(device) = named("IOLANE_FAULTS_MEDDLED", "a controller that does what it likes") else { return Ok(()) };
    let meddlings = setting("IOLANE_FAULTS_MEDDLINGS", MEDDLINGS)?;
    let seed = setting("IOLANE_FAULTS_SEED", 1)?;
    let mut log = KernelLog::from_now_on()?;
    let lanes = lanes(&device)?;
    let is_over = AtomicBool::new(false);
    let limit = LIMIT * 4 + LIMIT / 10 * meddlings as u32;
    let read = |lane: &Lane| {
        let outcomes = until_over(lane, &is_over)?;
        until_answered(lane)?;
        Ok((lane.path.to_string(), outcomes))
    };
    let mut done = Vec::new();
    let outcomes = all_at_once(&lanes, limit, read, || {
        let outcome = Meddler::of_open_device(&device).and_then(|mut meddler| {
            for seed in seed..seed + meddlings {
                meddler.random = Xoshiro256PlusPlus::seed_from_u64(seed);
                meddler.pause(&lanes);
                done.push(meddler.meddle()?.to_owned());
            }
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        outcome
    })?;
    say(&format!("faults: {device}, {meddlings} times from seed {seed}: {}", tally(done)));
    for (path, outcomes) in outcomes {
        say(&format!("faults: {path} on {device}: {outcomes}"));
    }
    log.ensure_no_fault()
}

/// Reads until the meddling is over, with a new queue after every few hundred answers.
fn until_over(lane: &Lane, is_over: &AtomicBool) -> Result<String> {
    let mut outcomes: HashMap<String, u64> = HashMap::new();
    lane.at("reading");
    while !is_over.load(Ordering::Relaxed) {
        let pool = lane.pool()?;
        // A controller that is being reset gives no queue.
        let Ok(mut flight) = Flight::new(lane, &pool) else { continue };
        let mut next = flight.fill(&pool);
        for _ in 0..64 {
            for completion in flight.answers()? {
                let what = match completion.result {
                    Ok(_) => "whole or in part".to_owned(),
                    Err(_) => outcome(&completion),
                };
                *outcomes.entry(what).or_default() += 1;
                flight.read(next, completion.buffer.context("a buffer each")?);
                next += 1;
            }
        }
        // Of those in flight nobody hears again.
        flight.lane.at("dropping a queue");
        drop(flight);
        lane.at("reading");
        ensure_free(&pool)?;
    }
    Ok(counts_in_words(outcomes))
}

/// Writes to a controller that this process has open.
struct Meddler {
    name: String,
    /// Belongs to the driver.
    device: ManuallyDrop<File>,
    registers: *mut u32,
    /// One for each time, so that a campaign goes on with the next seed.
    random: Xoshiro256PlusPlus,
}

impl Meddler {
    fn of_open_device(name: &str) -> Result<Self> {
        let is_device = |entry: &std::fs::DirEntry| {
            std::fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy() == "anon_inode:[vfio-device]")
        };
        let found = std::fs::read_dir("/proc/self/fd")?.flatten().find(is_device).context("no controller is open")?;
        let number: RawFd = found.file_name().to_string_lossy().parse()?;
        // SAFETY: the controller stays open as long as a lane has its target, and this never closes the descriptor.
        let device = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice. What is written there only harms what the test is about.
        let base = unsafe { mmap(std::ptr::null_mut(), MAPPED_BYTES, protection, MapFlags::SHARED, &*device, 0) }
            .context("mapping the registers")?;
        Ok(Self { name: name.to_owned(), device, registers: base.cast(), random: Xoshiro256PlusPlus::seed_from_u64(0) })
    }

    fn write(&mut self, register: usize, value: u32) {
        assert!(register.is_multiple_of(4) && register < MAPPED_BYTES);
        // SAFETY: within the mapping by the assertion.
        unsafe { self.registers.add(register / 4).write_volatile(value) };
    }

    fn configuration(&self) -> u32 {
        // SAFETY: within the mapping.
        unsafe { self.registers.add(CC / 4).read_volatile() }
    }

    /// In half of the cases until each lane has read again, in the others for a moment, in which a driver may be about to mend what was
    /// done last.
    fn pause(&mut self, lanes: &[Lane]) {
        let began = Instant::now();
        let ended = |lane: &Lane| lane.ended.load(Ordering::Relaxed);
        let before: Vec<u64> = lanes.iter().map(ended).collect();
        let have_read = || lanes.iter().zip(&before).all(|(lane, before)| ended(lane) > before + BLOCKS);
        if self.random.next_u64().is_multiple_of(2) {
            while !have_read() && began.elapsed() < LIMIT / 10 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        std::thread::sleep(Duration::from_millis(self.random.next_u64() % 50));
    }

    /// Does one thing, and says what.
    fn meddle(&mut self) -> Result<&'static str> {
        Ok(match self.random.next_u64() % 8 {
            0..4 => {
                let doorbell = self.random.next_u64() % DOORBELLS_RUNG;
                // Within the rings, which have few entries, and beyond.
                let value = self.random.next_u64() as u32 & [0xf, 0xffff][self.random.next_u64() as usize % 2];
                self.write(DOORBELLS + doorbell as usize * 4, value);
                "doorbell"
            }
            4 => {
                self.write(CC, self.configuration() & !CC_ENABLE);
                "disabled"
            }
            5 => {
                self.write(CC, self.configuration() | CC_SHUTDOWN_NORMAL);
                "shut down"
            }
            6 => {
                // SAFETY: the call takes no argument; the mapping stays, and is of the reset device afterwards.
                let result = unsafe { libc::ioctl(self.device.as_raw_fd(), VFIO_DEVICE_RESET) };
                ensure!(result == 0, "VFIO_DEVICE_RESET: {}", std::io::Error::last_os_error());
                "function reset"
            }
            _ => {
                stall(&self.name)?;
                "no access to memory"
            }
        })
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        // SAFETY: mapped by `of_open_device`, and used by this alone.
        let _ = unsafe { munmap(self.registers.cast(), MAPPED_BYTES) };
    }
}

/// What the kernel writes to its log from some time on.
pub(super) struct KernelLog(File);

impl KernelLog {
    pub(super) fn from_now_on() -> Result<Self> {
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").context("/dev/kmsg")?;
        rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).context("/dev/kmsg")?;
        Ok(Self(file))
    }

    /// Fails with what an IOMMU has stopped.
    pub(super) fn ensure_no_fault(&mut self) -> Result<()> {
        let mut faults = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&record[..bytes]).into_owned();
                    if text.contains("DMAR") && text.contains("fault addr") {
                        faults.push(text.lines().next().unwrap_or_default().to_owned());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                // Records that were overwritten before they were read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => return Err(error).context("/dev/kmsg"),
            }
        }
        ensure!(faults.is_empty(), "{} accesses to memory that was not mapped:\n{}", faults.len(), faults.join("\n"));
        Ok(())
    }
}
