//! fio and iolane: the command line of one run, and the numbers in what it prints.
//! Both get the same work: 4 KiB random reads through the page cache, one thread on one core, two seconds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child::{program, run_measured};

/// The work of one run.
pub(super) struct Job {
    pub(super) target: PathBuf,
    pub(super) path: &'static str,
    pub(super) depth: u32,
    pub(super) cpu: u32,
}

/// What one run of iolane showed.
pub(super) struct Run {
    pub(super) iops: f64,
    pub(super) resident_bytes_max: u64,
}

/// Runs fio, whose engines have the names of iolane's paths, and returns its requests per second.
pub(super) fn run_fio(job: &Job) -> Result<f64> {
    let finished = run_measured(&mut fio_command(job))?;
    parse_fio(&finished.stdout).with_context(|| format!("fio with ioengine {}", job.path))
}

/// Everything that is not named here is as fio has it by default, its percentiles too.
fn fio_command(job: &Job) -> Command {
    let mut fio = program("fio");
    fio.args(["--name=bench", "--direct=0", "--invalidate=0", "--norandommap", "--rw=randread", "--bs=4k"]);
    fio.args(["--thread", "--time_based", "--runtime=2", "--output-format=json"]);
    fio.arg(format!("--ioengine={}", job.path)).arg(format!("--iodepth={}", job.depth));
    fio.arg(format!("--cpus_allowed={}", job.cpu)).arg(fio_filename(&job.target));
    fio
}

/// fio takes a colon for the end of one file's name and the beginning of another's.
fn fio_filename(file: &Path) -> String {
    format!("--filename={}", file.to_string_lossy().replace(':', "\\:"))
}

fn parse_fio(text: &str) -> Result<f64> {
    // Notes may stand before the object.
    let json: Value =
        serde_json::from_str(text.find('{').map_or("", |start| &text[start..])).context("reading its JSON")?;
    let job = &json["jobs"][0];
    ensure!(job["error"] == 0, "it reports error {} (an errno)", job["error"]);
    positive(&job["read"]["iops"], "jobs[0].read.iops")
}

/// fio's version as it prints it: `fio-3.33`.
pub(super) fn fio_version() -> Result<String> {
    Ok(run_measured(program("fio").arg("--version"))?.stdout.trim().to_owned())
}

/// iolane's binary.
pub(super) struct Iolane {
    binary: PathBuf,
}

impl Iolane {
    pub(super) fn new(binary: PathBuf) -> Self {
        Self { binary }
    }

    pub(super) fn run(&self, job: &Job) -> Result<Run> {
        let finished = run_measured(&mut self.command(job))?;
        let iops =
            parse_iolane(&finished.stdout, job.path).with_context(|| format!("iolane with path {}", job.path))?;
        Ok(Run { iops, resident_bytes_max: finished.resident_bytes_max })
    }

    fn command(&self, job: &Job) -> Command {
        let mut iolane = program(&self.binary.to_string_lossy());
        iolane.args([OsString::from("run"), "--target".into(), job.target.clone().into()]);
        iolane.args(["--path", job.path, "--rw", "randread", "--bs", "4k", "--direct", "false"]);
        iolane.args(["--runtime", "2s", "--warmup", "200ms", "--json", "-"]);
        iolane.args(["--depth", &job.depth.to_string(), "--cpus", &job.cpu.to_string()]);
        iolane
    }
}

/// Takes the requests per second of the path that was asked for; any other, or a read that failed, is no result.
fn parse_iolane(text: &str, path: &str) -> Result<f64> {
    let json: Value = serde_json::from_str(text).context("reading its JSON")?;
    ensure!(json["schema"] == "iolane.run/1", "its schema is {}, not iolane.run/1", json["schema"]);
    ensure!(json["path"] == path, "it ran path {} and not the one that was asked for", json["path"]);
    ensure!(json["result"]["errors"] == 0, "{} requests failed", json["result"]["errors"]);
    positive(&json["result"]["iops"], "result.iops")
}

fn positive(value: &Value, key: &str) -> Result<f64> {
    let number = value.as_f64().with_context(|| format!("`{key}` is {value}, not a number"))?;
    ensure!(number > 0.0, "`{key}` is {number}: nothing was read");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::is_installed;

    fn words(command: &Command) -> String {
        crate::child::shown(command)
    }

    fn job(path: &'static str, depth: u32) -> Job {
        Job { target: "/x/a:b".into(), path, depth, cpu: 3 }
    }

    #[test]
    fn both_programs_are_given_the_same_work() {
        let fio = words(&fio_command(&job("io_uring", 32)));
        for word in ["--ioengine=io_uring", "--iodepth=32", "--bs=4k", "--cpus_allowed=3", "--filename=/x/a\\:b"] {
            assert!(fio.split(' ').any(|found| found == word), "{word} is not in: {fio}");
        }
        let iolane = words(&Iolane::new("iolane".into()).command(&job("io_uring", 32)));
        assert_eq!(
            iolane,
            "iolane run --target /x/a:b --path io_uring --rw randread --bs 4k --direct false \
             --runtime 2s --warmup 200ms --json - --depth 32 --cpus 3"
        );
    }

    #[test]
    fn iolanes_requests_per_second_are_found() {
        let text = r#"{"schema":"iolane.run/1","path":"psync","result":{"ios":4,"errors":0,"iops":1234.5}}"#;
        assert_eq!(parse_iolane(text, "psync").unwrap(), 1234.5);
    }

    #[test]
    fn a_run_that_proves_nothing_is_no_result() {
        for (text, cause) in [
            (r#"{"schema":"iolane.run/2"}"#, "not iolane.run/1"),
            (r#"{"schema":"iolane.run/1","path":"libaio"}"#, "ran path \"libaio\""),
            (r#"{"schema":"iolane.run/1","path":"psync","result":{"errors":7,"iops":1.0}}"#, "7 requests failed"),
            (r#"{"schema":"iolane.run/1","path":"psync","result":{"errors":0,"iops":0.0}}"#, "nothing was read"),
            (r#"{"schema":"iolane.run/1","path":"psync","result":{"errors":0}}"#, "is null, not a number"),
            ("", "reading its JSON"),
        ] {
            let error = format!("{:#}", parse_iolane(text, "psync").unwrap_err());
            assert!(error.contains(cause), "{error}");
        }
    }

    #[test]
    fn fios_requests_per_second_are_found_behind_its_notes() {
        let text = "note: capped at 1\n{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 1666361.000000}}]}";
        assert_eq!(parse_fio(text).unwrap(), 1_666_361.0);
        let error = parse_fio("{\"jobs\": [{\"error\": 38}]}").unwrap_err().to_string();
        assert!(error.contains("error 38"), "{error}");
    }

    #[test]
    fn what_the_installed_fio_prints_is_understood() {
        if !is_installed("fio") {
            println!("SKIPPED reading the JSON of a real fio: fio is not installed");
            return;
        }
        // fio's own null engine: no file, and two hundredths of a second.
        let mut fio = program("fio");
        fio.args(["--name=t", "--ioengine=null", "--rw=randread", "--size=1g", "--time_based", "--runtime=20ms"]);
        let text = run_measured(fio.args(["--thread", "--output-format=json"])).unwrap().stdout;
        assert!(parse_fio(&text).unwrap() > 1000.0, "{text}");
        assert!(fio_version().unwrap().starts_with("fio-"));
    }
}
