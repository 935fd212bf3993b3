//! What the tests of the guard share: loop devices, mounts, swap and processes that hold a file, each undone when dropped.

#![allow(dead_code, unused_macros, reason = "no test uses all of it")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iolane::guard::WritePermit;
use iolane::{Pages, Pool, QueueConfig, Request, Target, TargetKind, open_queue};

pub(crate) const BLOCK_BYTES: u64 = 4096;

/// A number from the environment.
pub(crate) fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// Asks for the permit, opens, and writes a block at `offset`: what a careful program does.
pub(crate) fn write(name: &Path, offset: u64, byte: u8, direct: bool) -> iolane::Result<()> {
    let permit = WritePermit::options().erase(true).request(name)?;
    let target = Target::options().direct(direct).write(permit).open(name)?;
    let pool = Pool::new(1, BLOCK_BYTES as usize, Pages::Base)?;
    let path = if target.kind() == TargetKind::NvmeGeneric { "io_uring_cmd" } else { "psync" };
    let mut queue = open_queue(&path.parse()?, &target, &QueueConfig::new(1).pool(&pool))?;
    let mut buffer = pool.take().expect("the only buffer");
    buffer.fill(byte);
    let write = Request::write(0, offset, buffer);
    for request in [Some(write), (!direct).then(|| Request::fdatasync(1))].into_iter().flatten() {
        let mut completions = Vec::new();
        queue.submit(&mut vec![request]);
        queue.drain(&mut completions)?;
        assert!(completions.iter().all(|completion| completion.result.is_ok()), "{completions:?}");
    }
    Ok(())
}

/// Why a test that needs root and these tools cannot run here.
pub(crate) fn missing(tools: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let is_there = |tool: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(tool).exists())
    };
    if let Some(tool) = tools.iter().find(|tool| !is_there(tool)) {
        return Some(format!("{tool} is not installed"));
    }
    (!Path::new("/dev/loop-control").exists()).then(|| "no loop devices here (/dev/loop-control)".into())
}

/// Written past the test harness, which would keep it to itself.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Leaves the test with a SKIPPED line unless it is run by root and these tools are installed.
macro_rules! needs {
    ($test:literal, $($tool:literal),+) => {
        if let Some(reason) = $crate::guard_fixtures::missing(&[$($tool),+]) {
            return $crate::guard_fixtures::skip($test, &reason);
        }
    };
}

pub(crate) fn try_run(tool: &str, args: &[&Path]) -> Result<String, String> {
    let output = Command::new(tool).args(args).output().map_err(|error| format!("{tool}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        false => Err(format!("{tool} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "))),
    }
}

pub(crate) fn run(tool: &str, args: &[&str]) -> String {
    let args: Vec<&Path> = args.iter().map(Path::new).collect();
    try_run(tool, &args).unwrap()
}

/// A folder that goes with the test, and the test's turn: a process being started shares every descriptor of this one
/// until its exec, so that in tests side by side a claim may outlive its permit.
pub(crate) struct Scratch {
    pub(crate) folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) static TURN: Mutex<()> = Mutex::new(());

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        Self::under(Path::new(env!("CARGO_TARGET_TMPDIR")), test)
    }

    pub(crate) fn under(parent: &Path, test: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = parent.join(format!("guard-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self { folder, _turn: turn }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file of zeros without blocks.
    pub(crate) fn file(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A loop device, detached when dropped.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn of(file: &Path) -> Self {
        Self(run("losetup", &["-P", "-f", "--show", file.to_str().unwrap()]))
    }

    /// A partition from 1 MiB on of 32 MiB. The kernel may have found it by the table, if it was built to look.
    pub(crate) fn partition(&self) -> String {
        let partition = format!("{}p1", self.0);
        if !Path::new(&partition).exists() {
            run("addpart", &[&self.0, "1", "2048", "65536"]);
        }
        partition
    }

    pub(crate) fn kernel_name(&self) -> &str {
        self.0.trim_start_matches("/dev/")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = try_run("losetup", &["-d".as_ref(), self.0.as_ref()]);
        // Whoever looks for a free loop device has this one open for a moment, which puts the detaching off.
        let attached = format!("/sys/block/{}/loop", self.kernel_name());
        for _ in 0..200 {
            if !Path::new(&attached).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A mount, undone when dropped.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    pub(crate) fn new(options: &[&str], device: &str, point: PathBuf) -> Self {
        Self::attempt(options, device, point).unwrap()
    }

    pub(crate) fn attempt(options: &[&str], device: &str, point: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&point).unwrap();
        let mut args: Vec<&Path> = options.iter().map(Path::new).collect();
        args.extend([Path::new(device), &point]);
        try_run("mount", &args)?;
        Ok(Self(point))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if try_run("umount", &[&self.0]).is_err() {
            let _ = try_run("umount", &["-l".as_ref(), &self.0]);
        }
    }
}

/// Swap in use, turned off when dropped.
pub(crate) struct Swap(PathBuf);

impl Swap {
    pub(crate) fn on(path: &Path) -> Result<Self, String> {
        try_run("mkswap", &[path])?;
        try_run("swapon", &[path])?;
        Ok(Self(path.into()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = try_run("swapoff", &[&self.0]);
    }
}

/// A process that keeps a file open until this is dropped, and does nothing else.
pub(crate) struct Holder(pub(crate) Child);

impl Holder {
    pub(crate) const PROGRAM: &str = "tail";

    /// Holds it until it is dropped, or this process ends.
    pub(crate) fn of(file: File) -> Self {
        let until = format!("--pid={}", std::process::id());
        let mut tail = Command::new(Self::PROGRAM);
        Self(tail.args([&until, "-f", "/dev/null"]).stdin(Stdio::from(file)).spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub(crate) fn open(path: impl AsRef<Path>, write: bool) -> File {
    File::options().read(true).write(write).open(path).unwrap()
}
