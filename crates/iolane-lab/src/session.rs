//! One guest from start to end: its initramfs is built, it boots, its frames are read, it is killed. The command line and
//! xtask call it. The only loop that waits for a guest is here.

use std::fs;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use iolane_core::units::Bytes;
use iolane_core::{Error, Result};

use crate::accelerator::Accelerator;
use crate::cache::Cache;
pub use crate::channel::Ended;
use crate::channel::Frame;
use crate::emulator::Emulator;
use crate::initramfs::Initramfs;
use crate::job::{JOB_FILE, Job, Orders};
use crate::kernel::Kernel;
use crate::machine::{Machine, POLL_QUEUES};
use crate::modules;
use crate::qemu::{Qemu, Wires};
use crate::qmp::Hardware;
use crate::returned_files::ReturnedFiles;

/// The path of `iolane` in the guest.
pub const PROGRAM: &str = "/bin/iolane";

/// What a guest is made of.
#[derive(Debug)]
pub struct Lab<'a> {
    pub machine: Machine,
    pub kernel: Kernel,
    /// The `iolane` that is its process 1, and its command `/bin/iolane`.
    pub iolane: PathBuf,
    /// More files: host path, guest path.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// More programs, whose libraries are copied too.
    pub programs: Vec<(PathBuf, PathBuf)>,
    /// More modules to load: `virtio_blk`, `crc32c_generic`, `ext4`, `xfs`. Those that the kernel lacks are left out.
    pub modules: &'static [&'static str],
    /// The default is KVM where a guest boots on it, and translation elsewhere.
    pub accelerator: Option<Accelerator>,
    /// A plugin of QEMU with its arguments (`-plugin`), for a translated guest.
    pub plugin: Option<String>,
    /// Limit from power on to the last frame.
    pub timeout: Duration,
    /// Holds the drives' files, and the console's log after a failure.
    pub cache: &'a Cache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Output,
    Error,
}

/// Receives what happens while a guest runs.
pub trait Events {
    /// A line for people.
    fn note(&mut self, line: &str);

    /// The guest has booted, and the first command starts.
    fn up(&mut self, release: &str, accelerator: Accelerator, took: Duration);

    fn output(&mut self, command: usize, stream: Stream, bytes: &[u8]);

    fn ended(&mut self, command: usize, how: Ended);
}

/// Time limits for booting, which takes a second or two on KVM, three to five when translated, and ten where two processors share the time.
const KVM_UP_TIME_MAX: Duration = Duration::from_secs(4);
const UP_TIME_MAX: Duration = Duration::from_secs(60);
const SHARED_UP_TIME_MAX: Duration = Duration::from_secs(300);
/// How long an interrupted command may take to end.
const INTERRUPTED_TIME_MAX: Duration = Duration::from_secs(30);
/// How often `stop` is checked.
const STOP_LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The cache's name for the fact that KVM does not work here.
const KVM_FACT: &str = "kvm-unusable";

impl Lab<'_> {
    /// Runs all commands of a job and copies its files back. How each command ended goes to `events`; a failed command is not
    /// an error here. Once `stop` is set the running command is interrupted, and its files are copied back.
    ///
    /// # Errors
    /// Usage if the machine is not possible; unavailable if QEMU is missing; failed if the guest does not boot, dies, or
    /// exceeds the timeout, with the path of its console's log.
    pub fn run(&self, job: &Job, events: &mut dyn Events, stop: &AtomicBool) -> Result<()> {
        self.run_on(Accelerator::Tcg, job, events, stop)
    }

    /// Like [`run`](Self::run), for commands that measure no time. A translated guest then runs its processors in turn, on one
    /// thread of the host, so that no processor executes code while another one changes it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_untimed(&self, job: &Job, events: &mut dyn Events, stop: &AtomicBool) -> Result<()> {
        self.run_on(Accelerator::TcgInTurn, job, events, stop)
    }

    fn run_on(&self, translator: Accelerator, job: &Job, events: &mut dyn Events, stop: &AtomicBool) -> Result<()> {
        self.machine.check()?;
        require_memory(self.machine.memory)?;
        let initramfs = self.initramfs(job)?;
        let mut guest = self.boot(translator, &initramfs, events, stop)?;
        let outcome = guest.attend(job, Instant::now() + self.timeout, events, stop);
        outcome.map_err(|trouble| guest.explain(trouble, self.cache))
    }

    fn initramfs(&self, job: &Job) -> Result<std::fs::File> {
        let mut archive = Initramfs::new()?;
        archive.program(&self.iolane, Path::new(PROGRAM))?;
        archive.link(Path::new("/init"), PROGRAM)?;
        for (from, to) in &self.programs {
            archive.program(from, to)?;
        }
        for (from, to) in &self.files {
            archive.copy(from, to)?;
        }
        let mut modules = Vec::new();
        for module in modules::selected(&self.kernel.modules, self.modules) {
            let path = PathBuf::from(format!("/lab/modules/{}.ko", module.name));
            archive.file(&path, 0o600, &module.bytes)?;
            modules.push((path, self.parameters(&module.name)));
        }
        let orders = Orders {
            job: job.clone(),
            modules,
            drives: self.machine.nvme_drives(),
            shared_time_cpus: if self.machine.shares_time() { self.machine.cpus } else { 0 },
        };
        let orders = serde_json::to_vec(&orders).map_err(|error| Error::failed("the job", error.to_string()))?;
        archive.file(Path::new(JOB_FILE), 0o600, &orders)?;
        archive.finish()
    }

    /// Parameters that a module is loaded with.
    fn parameters(&self, module: &str) -> String {
        let cpus = self.machine.cpus;
        match module {
            // The driver refuses more of them than there are cpus.
            "nvme" => format!("poll_queues={}", POLL_QUEUES.min(cpus)),
            // Multi-queue, as fast as it goes. Kernels below 5.13 do not know of poll queues, and say so in their log.
            "null_blk" => {
                let Machine { null_blks, null_blk_tags: tags, .. } = self.machine;
                let polled = if self.machine.shares_time() { cpus } else { 1 };
                format!(
                    "nr_devices={null_blks} queue_mode=2 submit_queues={cpus} poll_queues={polled} hw_queue_depth={tags}"
                )
            }
            _ => String::new(),
        }
    }

    /// Starts the guest on the accelerator asked for, or else on KVM where that works and on `translator` where it does
    /// not, and waits for its first word.
    fn boot(
        &self,
        translator: Accelerator,
        initramfs: &std::fs::File,
        events: &mut dyn Events,
        stop: &AtomicBool,
    ) -> Result<Guest> {
        let asked = if self.machine.exact { Some(Accelerator::Exact) } else { self.accelerator };
        let emulator = match self.machine.shares_time() {
            true => Emulator::sharing_time(self.cache, &mut |line| events.note(line))?,
            false => Emulator::installed(),
        };
        let boot = |accelerator, time_max, events: &mut dyn Events| {
            let (qemu, wires) = Qemu::start(
                &emulator,
                &self.machine,
                accelerator,
                &self.kernel.image,
                initramfs,
                self.plugin.as_deref(),
                self.cache,
            )?;
            let mut guest = Guest::new(qemu, wires)?;
            let came = guest.await_hello(accelerator, Instant::now() + time_max, events, stop);
            Ok::<_, Error>((guest, came))
        };
        if let Some(accelerator) = asked {
            let time_max = if self.machine.shares_time() { SHARED_UP_TIME_MAX } else { UP_TIME_MAX };
            let (mut guest, came) = boot(accelerator, time_max, events)?;
            return came.map_err(|trouble| guest.explain(trouble, self.cache)).map(|()| guest);
        }
        match kvm_trouble(self.cache) {
            Some(why) => events.note(&format!("KVM is not used: {why}")),
            None => {
                let (mut guest, came) = boot(Accelerator::Kvm, KVM_UP_TIME_MAX, events)?;
                let Err(trouble) = came else { return Ok(guest) };
                let Some(why) = guest.blames_kvm(&trouble) else { return Err(guest.explain(trouble, self.cache)) };
                self.cache.remember(KVM_FACT, &why);
                events.note(&format!("KVM is not used: {why}"));
            }
        }
        let (mut guest, came) = boot(translator, UP_TIME_MAX, events)?;
        came.map_err(|trouble| guest.explain(trouble, self.cache)).map(|()| guest)
    }
}

/// Why KVM does not work here, as far as is known without trying it.
fn kvm_trouble(cache: &Cache) -> Option<String> {
    match fs::File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => cache.recall(KVM_FACT),
        Err(error) => Some(match error.kind() {
            std::io::ErrorKind::NotFound => "there is no /dev/kvm".into(),
            std::io::ErrorKind::PermissionDenied => "no permission for /dev/kvm; join the group kvm".into(),
            _ => format!("/dev/kvm: {}", iolane_core::error::describe(&error)),
        }),
    }
}

/// Refuses a guest with more memory than is free on the host.
fn require_memory(wanted: Bytes) -> Result<()> {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = info.lines().find_map(|line| {
        let kib = line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?;
        Some(kib.trim().parse::<u64>().ok()? << 10)
    });
    match available {
        Some(available) if available < wanted.0 => {
            let cause = format!("{} MiB are free here", available >> 20);
            Err(Error::exhausted(format!("a guest of {wanted}"), cause).remedy("give it less by --memory"))
        }
        _ => Ok(()),
    }
}

/// Why a guest did not do its job.
enum Trouble {
    /// The channel closed, or its bytes are not a frame.
    Died(Option<String>),
    /// Process 1 reported it.
    Told(String),
    /// The time limit passed.
    Late(Duration),
    /// `stop` was set before a command ran, or the command did not end.
    Interrupted,
    /// An error on the host.
    Ours(Error),
}

fn interrupted() -> Error {
    Error::failed("the lab", "interrupted")
}

/// A running guest.
struct Guest {
    qemu: Qemu,
    hardware: Option<Hardware>,
    monitor: Option<UnixStream>,
    commands: UnixStream,
    frames: Receiver<std::io::Result<Frame>>,
    started: Instant,
}

impl Guest {
    fn new(qemu: Qemu, wires: Wires) -> Result<Self> {
        let commands = wires.frames.try_clone().map_err(|error| Error::system("the guest's channel", error))?;
        let (sender, frames) = mpsc::sync_channel(64);
        // It ends when QEMU does, which closes the other end.
        std::thread::spawn(move || {
            let mut from = BufReader::new(wires.frames);
            while let Some(frame) = Frame::read(&mut from).transpose() {
                let broken = frame.is_err();
                if sender.send(frame).is_err() || broken {
                    break;
                }
            }
        });
        Ok(Self { qemu, hardware: None, monitor: Some(wires.monitor), commands, frames, started: Instant::now() })
    }

    /// The next frame, or why there is none.
    fn next(
        &mut self,
        deadline: Instant,
        stop: &mut dyn FnMut(&mut Self) -> Result<(), Trouble>,
    ) -> Result<Frame, Trouble> {
        loop {
            stop(self)?;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.frames.recv_timeout(left.min(STOP_LOOK_INTERVAL)) {
                Ok(Ok(frame)) => return Ok(frame),
                Ok(Err(error)) => return Err(Trouble::Died(Some(error.to_string()))),
                Err(RecvTimeoutError::Disconnected) => return Err(Trouble::Died(None)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(Trouble::Late(self.started.elapsed())),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn await_hello(
        &mut self,
        accelerator: Accelerator,
        deadline: Instant,
        events: &mut dyn Events,
        stop: &AtomicBool,
    ) -> Result<(), Trouble> {
        let mut look = |_: &mut Self| if stop.load(Ordering::Relaxed) { Err(Trouble::Interrupted) } else { Ok(()) };
        match self.next(deadline, &mut look)? {
            Frame::Hello { release } => {
                events.up(&release, accelerator, self.started.elapsed());
                Ok(())
            }
            Frame::Trouble(what) => Err(Trouble::Told(what)),
            _ => Err(Trouble::Died(Some("it spoke out of turn".into()))),
        }
    }

    /// Passes on frames until all commands ended and all files are back.
    fn attend(
        &mut self,
        job: &Job,
        deadline: Instant,
        events: &mut dyn Events,
        stop: &AtomicBool,
    ) -> Result<(), Trouble> {
        let mut command = 0;
        let mut returned = ReturnedFiles::new(&job.returns, &job.stays);
        let mut interrupted_at: Option<Instant> = None;
        let mut look = |guest: &mut Self| match interrupted_at {
            None if stop.load(Ordering::Relaxed) => {
                interrupted_at = Some(Instant::now());
                guest.interrupt()
            }
            Some(at) if at.elapsed() > INTERRUPTED_TIME_MAX => Err(Trouble::Interrupted),
            _ => Ok(()),
        };
        loop {
            match self.next(deadline, &mut look)? {
                Frame::Stdout(bytes) => events.output(command, Stream::Output, &bytes),
                Frame::Stderr(bytes) => events.output(command, Stream::Error, &bytes),
                Frame::Ended(how) => {
                    if command == job.commands.len() {
                        return Err(Trouble::Died(Some("it ended more commands than it was given".into())));
                    }
                    events.ended(command, how);
                    command += 1;
                }
                Frame::Event(line) => {
                    if let Err(error) = self.hardware().and_then(|hardware| hardware.obey(&line)) {
                        events.note(&error.to_string());
                    }
                }
                Frame::File(header) => returned.begin(header).map_err(Trouble::Ours)?,
                Frame::Data(bytes) => returned.take(&bytes).map_err(Trouble::Ours)?,
                Frame::Trouble(what) => return Err(Trouble::Told(what)),
                Frame::Done => return Ok(()),
                Frame::Hello { .. } | Frame::Interrupt => {
                    return Err(Trouble::Died(Some("it spoke out of turn".into())));
                }
            }
        }
    }

    fn interrupt(&mut self) -> Result<(), Trouble> {
        Frame::Interrupt.write(&mut self.commands).map_err(|error| Trouble::Died(Some(error.to_string())))
    }

    fn hardware(&mut self) -> Result<&mut Hardware> {
        if let Some(monitor) = self.monitor.take() {
            self.hardware = Some(Hardware::new(monitor)?);
        }
        self.hardware.as_mut().ok_or_else(|| Error::failed("QEMU's monitor", "it did not answer before"))
    }

    /// Why a guest that did not boot may have failed because of KVM; `None` if its kernel ran, and something else is wrong.
    fn blames_kvm(&mut self, trouble: &Trouble) -> Option<String> {
        let is_silent = matches!(trouble, Trouble::Late(_) | Trouble::Died(_));
        self.qemu.kill();
        if !is_silent || last_words(&String::from_utf8_lossy(&self.qemu.console())).is_some() {
            return None;
        }
        let nothing = || format!("/dev/kvm is there, but no guest came up on it within {KVM_UP_TIME_MAX:?}");
        Some(self.qemu.complaint().unwrap_or_else(nothing))
    }

    /// The error for the user, with the log of the console.
    fn explain(&mut self, trouble: Trouble, cache: &Cache) -> Error {
        let cause = match trouble {
            Trouble::Ours(error) => return error,
            Trouble::Interrupted => return interrupted(),
            Trouble::Told(what) => what,
            Trouble::Late(after) => format!("it was not done after {:.0} s", after.as_secs_f64()),
            Trouble::Died(why) => {
                self.qemu.kill();
                let console = String::from_utf8_lossy(&self.qemu.console()).into_owned();
                last_words(&console).or_else(|| self.qemu.complaint()).or(why).unwrap_or_else(|| "it went away".into())
            }
        };
        self.qemu.kill();
        let error = Error::failed("the guest", cause);
        match cache.keep_console(&self.qemu.console()) {
            Ok(log) => error.remedy(format!("its console is in {}", log.display())),
            Err(_) => error,
        }
    }
}

/// The line of the console that gives the reason why a kernel stopped; after an oops that of the oops, and where it was.
fn last_words(console: &str) -> Option<String> {
    let words = |line: &str| line.split_once("] ").map_or(line, |(_, words)| words).trim().to_owned();
    let has = |texts: &'static [&str]| move |line: &&str| texts.iter().any(|text| line.contains(text));
    let last = console.lines().position(|line| has(&["Kernel panic", "Out of memory"])(&line))?;
    let mut before = console.lines().take(last);
    match before.find(has(&[
        "general protection fault",
        "BUG: unable to handle",
        "BUG: kernel NULL pointer",
        "kernel BUG at",
    ])) {
        Some(oops) => {
            let place = before.find(has(&["RIP: "])).map(|line| format!(" ({})", words(line))).unwrap_or_default();
            Some(format!("kernel oops: {}{place}", words(oops)))
        }
        None => console.lines().nth(last).map(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_quoted_from_the_console() {
        let console = "[    1.0] nvme nvme0: hello\n[    2.5] Kernel panic - not syncing: Attempted to kill init!\n";
        assert_eq!(last_words(console).as_deref(), Some("Kernel panic - not syncing: Attempted to kill init!"));
        assert_eq!(last_words("all is well\n"), None);
    }

    #[test]
    fn an_oops_is_quoted_with_its_place_before_the_panic_that_follows_it() {
        let console = "[   54.2] general protection fault, probably for non-canonical address 0x20: 0000 [#1] SMP\r\n\
                       [   54.2] CPU: 0 PID: 1997 Comm: threads Not tainted 6.1.0-56-amd64\r\n\
                       [   54.2] RIP: 0010:bio_poll+0x1d/0x150\r\n\
                       [   54.3] Kernel panic - not syncing: Fatal exception\r\n";
        let quoted = "kernel oops: general protection fault, probably for non-canonical address 0x20: 0000 [#1] SMP \
                      (RIP: 0010:bio_poll+0x1d/0x150)";
        assert_eq!(last_words(console).as_deref(), Some(quoted));
    }
}
