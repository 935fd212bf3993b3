//! Shared by the command-line tests: a folder per test, the program run with a time limit, the JSON schemas. Nothing
//! here sleeps and hopes: every wait polls its condition a bounded number of times.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod browser;
pub(crate) mod guest;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

pub(crate) const IOLANE: &str = env!("CARGO_BIN_EXE_iolane");

/// Options of a short run on a scratch file, fast enough for tables of runs.
pub(crate) const SHORT: [&str; 6] = ["--runtime", "200ms", "--warmup", "50ms", "--size", "16m"];

/// A program that runs longer than this hangs. Much longer than a busy machine takes, so that only a hang fails a test.
const LIMIT: Duration = Duration::from_secs(600);

/// A folder of one test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A folder on the disk of the build, for scratch files.
    pub(crate) fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// A folder that every user can access, with a copy of the program.
    pub(crate) fn for_nobody() -> Self {
        let folder = Self::within(&std::env::temp_dir());
        fs::copy(IOLANE, folder.0.join("program")).unwrap();
        fs::create_dir(folder.0.join("work")).unwrap();
        for (path, mode) in [("", 0o755), ("program", 0o755), ("work", 0o777)] {
            fs::set_permissions(folder.0.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    fn within(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("iolane-test-{}-{count}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a file without holes, whose size no loop device of this machine is likely to have.
    pub(crate) fn file(&self, name: impl AsRef<Path>, bytes: usize) -> PathBuf {
        let path = self.join(name);
        let mut file = fs::File::create_new(&path).unwrap();
        file.write_all(&vec![0x5a; bytes]).unwrap();
        file.sync_all().unwrap();
        path
    }

    /// The names and contents of its files.
    pub(crate) fn contents(&self) -> BTreeMap<OsString, Vec<u8>> {
        Self::contents_of(&self.0)
    }

    /// The names and contents of the files in any folder.
    pub(crate) fn contents_of(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap_or_default())).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A size of about 16 MiB that other tests' loop devices do not have: the guard compares sizes to find the backing file
/// of an unreadable loop device.
pub(crate) const ODD_BYTES: usize = (16 << 20) + 52 * 4096;

/// The exit code and the output of the program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Asserts success.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }
}

/// The program in a folder, not started yet.
pub(crate) fn command(folder: &Folder, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    command_of(IOLANE, folder, arguments)
}

/// Another program in a folder, not started yet.
pub(crate) fn command_of(
    program: impl AsRef<OsStr>,
    folder: &Folder,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
    command.env_remove("COLUMNS").env_remove("IOLANE_TARGET");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program in a folder until it exits.
#[track_caller]
pub(crate) fn iolane(folder: &Folder, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ended {
    finish(command(folder, arguments).spawn().unwrap())
}

/// Waits for a program to exit and reads its output.
#[track_caller]
pub(crate) fn finish(child: Child) -> Ended {
    let pid = pid(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(LIMIT) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("it did not end within {} s", LIMIT.as_secs());
    };
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("what it says is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(crate) fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_child(child)
}

/// Polls a condition until it is true; fails after half a minute.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain until {what}");
}

/// The number of measuring threads of a run, found by their names.
pub(crate) fn measuring_threads(pid: rustix::process::Pid) -> usize {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return 0 };
    let names = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("iolane-")).count()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program of util-linux or coreutils is installed.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Reports that a test was not run.
pub(crate) fn skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

/// Asserts one line on standard error with all of `parts`, nothing on standard output, and this exit code.
#[track_caller]
pub(crate) fn assert_refused(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:#?}");
    let first = ended.stderr.lines().next().unwrap_or("");
    // Messages of the argument parser are followed by the usage.
    let parser = code == 2 && first.starts_with("error: ");
    assert!(parser || first.starts_with("iolane: "), "{ended:#?}");
    assert!(parser || ended.stderr.lines().count() == 1, "{ended:#?}");
    assert!(!first.contains("os error"), "the cause is told in words, once: {first}");
    for part in parts {
        assert!(first.contains(part), "no {part:?} in {first}");
    }
}

/// A separate file system of 4 MiB, unmounted at the end.
pub(crate) struct SmallDisk(Folder);

impl SmallDisk {
    /// Mounts the file system; prints a SKIPPED line and returns `None` where that is impossible.
    pub(crate) fn mount(test: &str) -> Option<Self> {
        let folder = Folder::new();
        let mount = ["-t", "tmpfs", "-o", "size=4m", "iolane-test", "."];
        let mounted = is_root() && command_of("mount", &folder, mount).status().is_ok_and(|status| status.success());
        if !mounted {
            skipped(test, "needs root and the right to mount");
            return None;
        }
        Some(Self(folder))
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// A schema of `docs/schema`.
pub(crate) fn schema(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap()
}

/// Asserts that a document matches its schema, and has no key that the schema does not describe.
#[track_caller]
pub(crate) fn assert_valid(schema_name: &str, document: &Value) {
    let schema = schema(schema_name);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{schema_name}: {errors:#?}\n{document:#}");
    let mut undescribed = Vec::new();
    describe("", document, &schema, &schema, &mut undescribed);
    assert!(undescribed.is_empty(), "not in docs/schema/{schema_name}.json: {undescribed:?}");
}

/// Collects the keys of a document for which the schema has no title and description.
fn describe(place: &str, value: &Value, schema: &Value, root: &Value, undescribed: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let named = schema["properties"].get(key);
                let property = named.unwrap_or(&schema["additionalProperties"]);
                describe(&format!("{place}/{key}"), value, property, root, undescribed);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| describe(place, item, &schema["items"], root, undescribed));
        }
        _ => {}
    }
    let described = schema["title"].is_string() && schema["description"].is_string();
    // The items of a plain list are described with the list.
    let plain = schema["type"] == "string" || schema["type"] == "number";
    if !described && !plain {
        undescribed.push(place.into());
    }
}
