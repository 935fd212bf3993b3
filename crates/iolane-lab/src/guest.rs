//! Process 1 of a guest: mounts file systems, loads modules, runs the commands of its job, and sends their output and files
//! to the host. `iolane` calls it when it runs as `/init`; it is never called outside a guest.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal};

use crate::channel::{Ended, FileHeader, Frame, PAYLOAD_BYTES_MAX, PORT_NAME};
use crate::code_patching::{self, Held};
use crate::files;
use crate::job::{GuestCommand, JOB_FILE, Orders};
use crate::kernel_log::KernelLog;
use crate::shared_time;

/// A command writes requests to the host here, one per line: `unplug nvme2`.
pub const EVENTS_FILE: &str = "/run/lab-events";

/// Begins each line of what the kernel reported while a command ran that failed, on the command's standard error.
pub const KERNEL_LINE: &str = "kernel: ";

const DRIVES_TIME_MAX: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Whether this is process 1 of a guest.
pub fn is_inside() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// Runs as process 1. Does not return: the host ends the guest.
pub fn live() -> ! {
    if let Err(what) = work() {
        // To the console; the host shows its log if the channel never opened.
        eprintln!("lab: {what}");
    }
    loop {
        std::thread::park();
    }
}

type Result<T, E = String> = std::result::Result<T, E>;

/// Prefixes an error with what failed.
trait During<T> {
    fn during(self, what: &str) -> Result<T>;
}

impl<T, E: std::fmt::Display> During<T> for std::result::Result<T, E> {
    fn during(self, what: &str) -> Result<T> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}

fn work() -> Result<()> {
    mount_all()?;
    let orders: Orders = serde_json::from_slice(&fs::read(JOB_FILE).during(JOB_FILE)?).during(JOB_FILE)?;
    let loaded = load_modules(&orders);
    // The channel's modules load first, so that the channel can report others that fail.
    let channel = Channel::open()?;
    let prepared = loaded.and_then(|()| prepare(&orders)).and_then(|()| start_processors());
    let prepared = prepared.and_then(|held| match orders.shared_time_cpus {
        0 => Ok(held),
        cpus => shared_time::begin(cpus).map(|()| held),
    });
    match prepared {
        Ok(_held) => channel.clone().run(&orders),
        Err(what) => channel.send(&Frame::Trouble(what)),
    }
}

/// Starts the processors that did not start at boot, after switching on what would patch the kernel's code later. The result
/// has to stay open.
fn start_processors() -> Result<Option<Held>> {
    let waiting = code_patching::waiting_processors();
    if waiting.is_empty() {
        return Ok(None);
    }
    let held = Held::new();
    for name in waiting {
        code_patching::start_processor(&name).during(&name)?;
    }
    Ok(Some(held))
}

fn mount_all() -> Result<()> {
    let mount = |kind: &str, place: &str, data: &str| {
        fs::create_dir_all(place).during(place)?;
        let data = CString::new(data).during(place)?;
        rustix::mount::mount(kind, place, kind, MountFlags::empty(), Some(data.as_c_str())).during(place)
    };
    mount("proc", "/proc", "")?;
    mount("sysfs", "/sys", "")?;
    mount("devtmpfs", "/dev", "")?;
    mount("tmpfs", "/dev/shm", "mode=1777")?;
    // No mounts: files of the initramfs may be there.
    for place in ["/run", "/tmp", "/var/tmp"] {
        fs::create_dir_all(place).during(place)?;
    }
    // Only a kernel with huge pages has it, and only other programs need it.
    let _ = mount("hugetlbfs", "/dev/hugepages", "");
    // On a kernel without tracefs the commands report that they cannot count system calls.
    let _ = mount("tracefs", "/sys/kernel/tracing", "");
    Ok(())
}

/// Loads the modules in order. NVMe controllers are bound to their driver one by one, in the order of their slots: probed
/// in parallel, they would be numbered in random order.
fn load_modules(orders: &Orders) -> Result<()> {
    for (path, parameters) in &orders.modules {
        let shown = path.display().to_string();
        let is_nvme = path.file_stem().is_some_and(|name| name == "nvme");
        if is_nvme {
            fs::write("/sys/bus/pci/drivers_autoprobe", "0").during(&shown)?;
        }
        let module = File::open(path).during(&shown)?;
        let parameters = CString::new(parameters.as_str()).during(&shown)?;
        match rustix::system::finit_module(&module, &parameters, 0) {
            // Built in, or for hardware that does not exist here.
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NODEV) => {}
            loaded => loaded.during(&shown)?,
        }
        if is_nvme {
            bind_controllers()?;
            fs::write("/sys/bus/pci/drivers_autoprobe", "1").during(&shown)?;
        }
    }
    Ok(())
}

fn bind_controllers() -> Result<()> {
    // PCI Code and ID Assignment: mass storage, non-volatile memory, NVMe I/O controller.
    const NVME_CLASS: &str = "0x010802";
    for device in files::list(Path::new("/sys/bus/pci/devices")) {
        let class = fs::read_to_string(device.join("class")).unwrap_or_default();
        if class.trim() == NVME_CLASS && !device.join("driver").exists() {
            let slot = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
            fs::write("/sys/bus/pci/drivers/nvme/bind", &slot).during(&format!("NVMe controller {slot}"))?;
        }
    }
    Ok(())
}

/// Binds the controllers that a command names, as in `--target pci:0000:00:04.0`, to vfio-pci. In a guest no data can be lost,
/// so the user need not do that first.
fn hand_over_controllers(text: &str) -> Result<()> {
    for part in text.split_whitespace().filter_map(|word| word.split_once("pci:").map(|(_, rest)| rest)) {
        let slot = part.split([',', ' ']).next().unwrap_or_default();
        let device = Path::new("/sys/bus/pci/devices").join(slot);
        let driver = fs::read_link(device.join("driver")).unwrap_or_default();
        if !driver.ends_with("nvme") {
            // Bound before, or there is no such device, which the command reports.
            continue;
        }
        fs::write(device.join("driver/unbind"), slot).during(slot)?;
        fs::write(device.join("driver_override"), "vfio-pci").during(slot)?;
        fs::write("/sys/bus/pci/drivers_probe", slot).during(slot)?;
    }
    Ok(())
}

/// Waits for the drives, and links the names that commands use.
fn prepare(orders: &Orders) -> Result<()> {
    let deadline = Instant::now() + DRIVES_TIME_MAX;
    for index in 0..orders.drives {
        let device = format!("/dev/nvme{index}n1");
        while !Path::new(&device).exists() {
            if Instant::now() > deadline {
                return Err(format!("drive nvme{index} did not appear within {DRIVES_TIME_MAX:?}"));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
    let folder = &orders.job.folder;
    // The folders of files that are copied back exist on the host, and so have to exist here.
    for place in orders.job.returns.iter().filter_map(|place| place.parent()).chain([folder.as_path()]) {
        fs::create_dir_all(place).during(&place.display().to_string())?;
    }
    for (name, device) in names(&files::list(Path::new("/dev"))) {
        // A file of that name from the host is kept.
        let _ = symlink(device, folder.join(name));
    }
    rustix::fs::mknodat(CWD, EVENTS_FILE, FileType::Fifo, Mode::from_raw_mode(0o622), 0).during(EVENTS_FILE)
}

/// Names for devices: their own, and `nvme0` for the first namespace of that controller.
fn names(devices: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let mut names = Vec::new();
    for device in devices {
        let Some(name) = device.file_name().and_then(|name| name.to_str()) else { continue };
        let is_namespace = name.starts_with("nvme") && name[4..].contains('n');
        if is_namespace || name.starts_with("nullb") || name.starts_with("ng") {
            names.push((name.to_owned(), device.clone()));
        }
        if let Some(controller) = name.strip_suffix("n1").filter(|_| is_namespace) {
            names.push((controller.to_owned(), device.clone()));
        }
    }
    names
}

/// The channel to the host. Threads share it; each frame is written as a whole.
#[derive(Clone)]
struct Channel {
    port: Arc<Mutex<File>>,
    running: Arc<Mutex<Running>>,
}

/// The command that runs, and requests to interrupt it.
#[derive(Debug, Default)]
struct Running {
    /// Its process group.
    group: Option<Pid>,
    /// Whether it is to be interrupted once it runs: the host asked before it did.
    is_interrupted: bool,
}

impl Running {
    /// A command runs now. Whether it is to be interrupted at once.
    fn begin(&mut self, group: Pid) -> bool {
        self.group = Some(group);
        std::mem::take(&mut self.is_interrupted)
    }

    fn end(&mut self) {
        self.group = None;
    }

    /// The host asks for an interrupt. The group to interrupt now, if one runs.
    fn interrupt(&mut self) -> Option<Pid> {
        self.is_interrupted = self.group.is_none();
        self.group
    }
}

fn interrupt(group: Pid) {
    // It may have ended meanwhile.
    let _ = rustix::process::kill_process_group(group, Signal::INT);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Channel {
    fn open() -> Result<Self> {
        let ports = files::list(Path::new("/sys/class/virtio-ports"));
        let ours =
            ports.iter().find(|port| fs::read_to_string(port.join("name")).is_ok_and(|name| name.trim() == PORT_NAME));
        let device =
            Path::new("/dev").join(ours.and_then(|port| port.file_name()).ok_or("there is no channel to the host")?);
        let port = File::options().read(true).write(true).open(&device).during(&device.display().to_string())?;
        Ok(Self { port: Arc::new(Mutex::new(port)), running: Arc::default() })
    }

    fn send(&self, frame: &Frame) -> Result<()> {
        frame.write(&mut *locked(&self.port)).during("the channel to the host")
    }

    fn run(self, orders: &Orders) -> Result<()> {
        self.listen()?;
        self.pass_events_on()?;
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        self.send(&Frame::Hello { release })?;
        let target = if orders.drives > 0 { "nvme0" } else { "nullb0" };
        for command in &orders.job.commands {
            let kernel_log =
                command.tells_kernel_warnings.then(|| KernelLog::from_now().during("the kernel's log")).transpose()?;
            let ended = match self.run_command(command, &orders.job.folder, target) {
                Ok(ended) => ended,
                Err(what) => {
                    self.send(&Frame::Stderr(format!("lab: {what}\n").into_bytes()))?;
                    Ended::Code(127)
                }
            };
            if let Some(mut log) = kernel_log.filter(|_| ended != Ended::Code(0)) {
                for warning in log.warnings() {
                    self.send(&Frame::Stderr(format!("{KERNEL_LINE}{warning}\n").into_bytes()))?;
                }
            }
            self.send(&Frame::Ended(ended))?;
        }
        for place in &orders.job.returns {
            self.send_files(place, &orders.job.stays)?;
        }
        self.send(&Frame::Done)
    }

    /// Starts to read the host's frames: requests to interrupt the command.
    fn listen(&self) -> Result<()> {
        let mut port = locked(&self.port).try_clone().during("the channel to the host")?;
        let running = Arc::clone(&self.running);
        std::thread::spawn(move || {
            while let Ok(Some(frame)) = Frame::read(&mut port) {
                if frame == Frame::Interrupt
                    && let Some(group) = locked(&running).interrupt()
                {
                    interrupt(group);
                }
            }
        });
        Ok(())
    }

    fn pass_events_on(&self) -> Result<()> {
        // Open for writing too, so that reading waits for the next writer instead of ending with the first.
        let mut fifo = File::options().read(true).write(true).open(EVENTS_FILE).during(EVENTS_FILE)?;
        let channel = self.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok(length @ 1..) = fifo.read(&mut bytes) {
                for line in String::from_utf8_lossy(&bytes[..length]).lines() {
                    // Without a host nobody can receive it.
                    let _ = channel.send(&Frame::Event(line.to_owned()));
                }
            }
        });
        Ok(())
    }

    fn run_command(&self, command: &GuestCommand, folder: &Path, target: &str) -> Result<Ended> {
        let values = command.environment.iter().map(|(_, value)| value);
        command.words.iter().chain(values).try_for_each(|text| hand_over_controllers(text))?;
        let (program, arguments) = command.words.split_first().ok_or("a command without words")?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs([("PATH", "/bin"), ("HOME", "/root"), ("TMPDIR", "/tmp"), ("IOLANE_TARGET", target)])
            .envs(command.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .during(program)?;
        let group = Pid::from_child(&child);
        if locked(&self.running).begin(group) {
            interrupt(group);
        }
        let output = child.stdout.take().map(|pipe| self.forward(pipe, Frame::Stdout));
        let complaints = child.stderr.take().map(|pipe| self.forward(pipe, Frame::Stderr));
        let status = child.wait().during(program)?;
        locked(&self.running).end();
        // Processes that it left running would keep the pipes open.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        for forwarder in [output, complaints].into_iter().flatten() {
            forwarder.join().map_err(|_| "a forwarder panicked")?;
        }
        Ok(status.signal().map_or_else(|| Ended::Code(status.code().unwrap_or(1)), Ended::Signal))
    }

    fn forward(
        &self,
        mut pipe: impl Read + Send + 'static,
        frame: fn(Vec<u8>) -> Frame,
    ) -> std::thread::JoinHandle<()> {
        let channel = self.clone();
        std::thread::spawn(move || {
            let mut bytes = vec![0; PAYLOAD_BYTES_MAX];
            while let Ok(length @ 1..) = pipe.read(&mut bytes) {
                if channel.send(&frame(bytes[..length].to_vec())).is_err() {
                    break;
                }
            }
        })
    }

    /// Sends the files at or beneath a place that were written since the guest came up: those it was born with bear the
    /// time 0. Links, other file systems and what stays here are left alone.
    fn send_files(&self, place: &Path, stays: &[PathBuf]) -> Result<()> {
        let Ok(found) = fs::symlink_metadata(place) else { return Ok(()) };
        if found.is_dir() {
            let device = found.dev();
            return files::list(place)
                .iter()
                .filter(|path| fs::symlink_metadata(path).is_ok_and(|inner| inner.dev() == device))
                .try_for_each(|path| self.send_files(path, stays));
        }
        if !found.is_file() || found.mtime() == 0 || stays.iter().any(|file| file == place) {
            return Ok(());
        }
        let shown = place.display().to_string();
        let header = FileHeader { path: place.into(), bytes: found.len() };
        self.send(&Frame::File(header))?;
        // Exactly the announced length, should something still be writing to it.
        let mut file = File::open(place).during(&shown)?.take(found.len());
        let mut bytes = vec![0; PAYLOAD_BYTES_MAX];
        loop {
            match file.read(&mut bytes).during(&shown)? {
                0 => return Ok(()),
                length => self.send(&Frame::Data(bytes[..length].to_vec()))?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_before_the_command_runs_is_not_lost_and_one_command_gets_it() {
        let group = Pid::from_raw(7).unwrap();
        let mut running = Running::default();
        assert_eq!(running.interrupt(), None);
        assert!(running.begin(group));
        running.end();
        assert!(!running.begin(group));
        assert_eq!(running.interrupt(), Some(group));
        running.end();
        assert!(!running.begin(group));
    }

    #[test]
    fn drives_can_be_called_by_their_controller() {
        let devices = ["/dev/ng0n1", "/dev/nullb0", "/dev/null", "/dev/nvme0", "/dev/nvme0n1", "/dev/nvme0n1p1"];
        let names = names(&devices.map(PathBuf::from));
        let names: Vec<(&str, &str)> =
            names.iter().map(|(name, device)| (name.as_str(), device.to_str().unwrap())).collect();
        let expected = [
            ("ng0n1", "/dev/ng0n1"),
            ("nullb0", "/dev/nullb0"),
            ("nvme0n1", "/dev/nvme0n1"),
            ("nvme0", "/dev/nvme0n1"),
            ("nvme0n1p1", "/dev/nvme0n1p1"),
        ];
        assert_eq!(names, expected);
    }
}
