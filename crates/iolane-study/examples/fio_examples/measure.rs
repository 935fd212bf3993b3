//! Runs copies of job files with fio and with iolane, at small scale and on one scratch file, and adds up their rates. `main`
//! calls it. It opens no file that a job file names.

use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use iolane_study::fio::{JobFile, jobs};
use serde_json::Value;

const SIZE_MIB: usize = 256;
const RUNTIME_S: u32 = 2;

/// A program that has not ended by then is killed: the processes of fio 3.33 were seen to hang with io_submit_mode=offload.
/// Its threads are killed with it, its processes are not.
const KILLED_AFTER_S: &str = "60";

/// Options of targets, sizes and ends, which a copy replaces or leaves out.
const REPLACED: [&str; 18] = [
    "directory",
    "filename",
    "size",
    "filesize",
    "io_size",
    "io_limit",
    "number_ios",
    "loops",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "startdelay",
    "invalidate",
    "unlink",
    "steadystate",
    "ss",
    "allow_file_create",
];

/// The two programs and their scratch file.
pub(crate) struct Lab {
    folder: PathBuf,
    scratch: PathBuf,
    iolane: PathBuf,
}

impl Lab {
    /// Writes the scratch file.
    pub(crate) fn new(folder: &Path, iolane: &Path) -> Result<Self, Box<dyn Error>> {
        let (folder, iolane) = (folder.canonicalize()?, iolane.canonicalize()?);
        let scratch = folder.join("fio-examples.scratch");
        std::fs::write(&scratch, vec![0x5a; SIZE_MIB << 20])?;
        Ok(Self { folder, scratch, iolane })
    }

    /// What was run, where and when, for the page.
    pub(crate) fn description(&self) -> Result<String, Box<dyn Error>> {
        let first = |program: &str, argument: &str| -> Result<String, Box<dyn Error>> {
            let text = String::from_utf8(Command::new(program).arg(argument).output()?.stdout)?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        };
        let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or("unknown CPU", |(_, model)| model);
        Ok(format!(
            "IOPS are those of scaled copies of the files: all jobs on one file of {SIZE_MIB} MiB on a disk, each for {RUNTIME_S} s \
             without ramp time, delays and\nsteady-state ends, with `invalidate=0`, once with {} and once with {}; the sum of all \
             jobs of a file. Measured on\n{} on {model}, {} processors, Linux {}.\n\n",
            first("fio", "--version")?,
            first(&self.iolane.display().to_string(), "--version")?,
            first("date", "-I")?,
            std::thread::available_parallelism()?,
            std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim(),
        ))
    }

    /// The cells of fio and iolane for a file: their requests per second, or why there are none.
    pub(crate) fn cells(&self, file: &Path, sections: &[String]) -> (String, String) {
        let needs_device = JobFile::read_sections(file, sections)
            .and_then(|file| jobs(&file))
            .is_ok_and(|jobs| jobs.iter().any(|job| job.path.interface() == "io_uring_cmd"));
        if needs_device {
            return ("not run: it needs an NVMe drive".into(), String::new());
        }
        let cell = |rate: Result<f64, Box<dyn Error>>| match rate {
            Ok(rate) => format!("{rate:.0}"),
            Err(error) => format!("failed: {}", error.to_string().replace(['|', '\n'], " ")),
        };
        match self.copy(file) {
            Err(error) => (cell(Err(error)), String::new()),
            Ok(copy) => (cell(self.fio(&copy, sections)), cell(self.iolane(&copy, sections))),
        }
    }

    fn copy(&self, file: &Path) -> Result<PathBuf, Box<dyn Error>> {
        let copy = self.folder.join("fio-examples.copy");
        std::fs::write(&copy, scaled(&std::fs::read_to_string(file)?, &self.scratch.display().to_string()))?;
        Ok(copy)
    }

    fn fio(&self, copy: &Path, sections: &[String]) -> Result<f64, Box<dyn Error>> {
        let mut fio = killed_in_the_end(Path::new("fio"));
        fio.arg("--output-format=json").args(named(sections)).arg(copy);
        let document = self.run(&mut fio, "fio.json", "--output")?;
        let rates =
            |job: &Value| job["read"]["iops"].as_f64().unwrap_or(0.0) + job["write"]["iops"].as_f64().unwrap_or(0.0);
        Ok(document["jobs"].as_array().ok_or("no jobs")?.iter().map(rates).sum())
    }

    fn iolane(&self, copy: &Path, sections: &[String]) -> Result<f64, Box<dyn Error>> {
        let mut iolane = killed_in_the_end(&self.iolane);
        iolane.arg("run").arg(copy).args(named(sections)).arg("--allow-writes").arg(&self.scratch);
        let document = self.run(&mut iolane, "iolane.json", "--json")?;
        let rate = |job: &Value| job["result"]["iops"].as_f64().unwrap_or(0.0);
        Ok(document["jobs"].as_array().map_or_else(|| rate(&document), |jobs| jobs.iter().map(rate).sum()))
    }

    /// Runs a program that writes JSON to the file that `option` names.
    fn run(&self, command: &mut Command, file: &str, option: &str) -> Result<Value, Box<dyn Error>> {
        let path = self.folder.join(format!("fio-examples.{file}"));
        let mut written = std::ffi::OsString::from(format!("{option}="));
        written.push(&path);
        let ended = command.arg(written).current_dir(&self.folder).output()?;
        if ended.status.signal().is_some() {
            return Err(format!("it did not end within {KILLED_AFTER_S} s").into());
        }
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            return Err(said.lines().next().unwrap_or("it says nothing").into());
        }
        // fio may write lines about its checks before the object.
        let text = std::fs::read_to_string(path)?;
        Ok(serde_json::from_str(&text[text.find('{').unwrap_or(0)..])?)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in ["scratch", "copy", "fio.json", "iolane.json"] {
            let _ = std::fs::remove_file(self.folder.join(format!("fio-examples.{name}")));
        }
    }
}

/// The command of a program, by timeout(1), which ends itself with the signal of `--signal`.
fn killed_in_the_end(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", KILLED_AFTER_S]).arg(program);
    command
}

fn named(sections: &[String]) -> impl Iterator<Item = String> {
    sections.iter().map(|section| format!("--section={section}"))
}

/// A job file with the same load on the scratch file, for a short time.
fn scaled(text: &str, scratch: &str) -> String {
    let ours =
        format!("filename={scratch}\nsize={SIZE_MIB}m\nruntime={RUNTIME_S}\ntime_based=1\ninvalidate=0\nthread=1\n");
    let mut copy = String::new();
    let mut in_job = false;
    for line in text.lines() {
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        let key = line.split('=').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            copy.push_str(if in_job { &ours } else { "" });
            in_job = !line.starts_with("[global");
        }
        if !REPLACED.contains(&key) && !key.starts_with("ss_") && !key.starts_with("steadystate_") {
            copy.push_str(&format!("{line}\n"));
        }
    }
    copy + &ours
}
