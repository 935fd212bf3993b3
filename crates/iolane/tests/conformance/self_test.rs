//! The suite, tested: the check that is meant for a bug is run on each broken queue of the set, in a process of its own and after a good path
//! on the same place, and must fail. On the same queue without a bug no check of the suite may. A process, because a bug may end it.
//!
//! The bugs are above two paths; `IOLANE_CONFORMANCE_ABOVE` names others, or `all`, and with them `IOLANE_CONFORMANCE_ONLY_NAMED=1` takes named
//! devices in place of files, for the bugs that show there. `IOLANE_CONFORMANCE_SEEN=FILE` runs the whole suite on each bug above the first path
//! and writes the table that docs/reliability.md shows.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::{Command, Output};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use iolane::IoPath;

use crate::bench::turn;
use crate::broken::{ABOVE, BUGS, Bug, NO_BUG, STRUCK, VARIABLE};
use crate::{paths, report};

const ONLY_NAMED: &str = "IOLANE_CONFORMANCE_ONLY_NAMED";
const PATHS_NAMED: &str = "IOLANE_CONFORMANCE_PATHS";

/// The variable that asks for the table.
const TABLE: &str = "IOLANE_CONFORMANCE_SEEN";

/// Processes at a time; most of their time they wait. A named device has one at a time.
const AT_ONCE: usize = 3;

/// The paths below the bugs.
const PATHS: [&str; 2] = ["libaio", "io_uring"];

/// The path that runs before, as deep, so that what it leaves on the place could hide a lost write.
const GOOD: &str = "libaio";

/// What a skip says if other processes have the requests of libaio that the whole machine shares.
const EXHAUSTED: &str = "fs.aio-max-nr";
const ATTEMPTS: usize = 5;

#[test]
fn every_broken_queue_is_found_by_the_check_meant_for_it_and_a_good_one_by_none() {
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    for (variable, asked) in [(ONLY_NAMED, "just named targets were"), (PATHS_NAMED, "just named paths were")] {
        if is_set(variable) && !(variable == ONLY_NAMED && is_set(ABOVE)) {
            let skip = report::Skip::new(format!("{asked} asked for"), format!("unset {variable}"));
            return report::skipped_everywhere("the set of broken queues", &skip);
        }
    }
    let _turn = turn();
    let mut unseen = String::new();
    let bugs: Vec<&Bug> = BUGS.iter().filter(|bug| !is_set(ONLY_NAMED) || bug.shows_on_device()).collect();
    // On devices the suite itself takes minutes, and `cargo xtask guests` runs it there.
    let first = if is_set(ONLY_NAMED) { bugs[0] } else { &NO_BUG };
    for path in paths_below() {
        // Its probe says why it is not here.
        if let Err(error) = Finding::on(first, &path).and_then(|finding| finding.is_right(first)) {
            note(&error, &format!("bugs above {path}"), &mut unseen);
            continue;
        }
        let (mut table, mut seen) = (String::new(), 0);
        for (bug, finding) in bugs.iter().zip(run_all(&bugs, &path)) {
            match finding.and_then(|finding| finding.is_right(bug).map(|()| finding)) {
                Ok(finding) => {
                    table.push_str(&finding.row(bug));
                    seen += 1;
                }
                Err(error) => note(&error, &format!("{} above {path}", bug.name), &mut unseen),
            }
        }
        eprintln!("{seen} of {} bugs are seen above {path}", bugs.len());
        if let Some(file) = std::env::var_os(TABLE) {
            std::fs::write(&file, &table).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            break;
        }
    }
    assert!(unseen.is_empty(), "the suite misses bugs, or finds some where there are none:{unseen}");
}

/// Lists a skip, or adds what was not seen.
fn note(error: &anyhow::Error, what: &str, unseen: &mut String) {
    match error.downcast_ref::<report::Skip>() {
        Some(skip) => report::skipped_everywhere(what, skip),
        None => _ = write!(unseen, "\n  {what}: {error:#}"),
    }
}

/// The paths below the bugs.
fn paths_below() -> Vec<IoPath> {
    match std::env::var(ABOVE).unwrap_or_default().as_str() {
        "" => PATHS.map(IoPath::new).to_vec(),
        "all" => paths::all(),
        text => iolane::paths_of(text).unwrap_or_else(|error| panic!("{ABOVE}: {error}")),
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|text| !matches!(text.trim(), "" | "0"))
}

/// Runs the suite on each bug above a path, and returns what it found, in their order.
fn run_all(bugs: &[&Bug], path: &IoPath) -> Vec<Result<Finding>> {
    let waiting = Mutex::new(bugs.iter().enumerate());
    let findings = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..if is_set(ONLY_NAMED) { 1 } else { AT_ONCE } {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no thread panics with it").next();
                    let Some((index, bug)) = next else { return };
                    let finding = Finding::on(bug, path);
                    findings.lock().expect("no thread panics with it").push((index, finding));
                }
            });
        }
    });
    let mut findings = findings.into_inner().expect("no thread panics with it");
    findings.sort_by_key(|(index, _)| *index);
    findings.into_iter().map(|(_, finding)| finding).collect()
}

/// The checks that failed on one queue, by name.
struct Finding {
    failed: BTreeSet<String>,
    /// The check during which the process ended.
    ended_in: Option<String>,
    /// Whether a bug that takes some luck says that it changed something.
    has_struck: bool,
    said: String,
}

impl Finding {
    fn on(bug: &Bug, path: &IoPath) -> Result<Self> {
        let mut suite = Command::new(std::env::current_exe()?);
        suite.arg("--test-threads=1");
        // A disk is slow, and what needs one is seen by that check alone.
        let is_whole = bug.name == NO_BUG.name || (std::env::var_os(TABLE).is_some() && bug.place == "tmpfs");
        if !is_whole {
            suite.args(["--exact", bug.seen_by]);
        }
        suite.env(VARIABLE, bug.name).env(ABOVE, path.to_string()).env("IOLANE_CONFORMANCE_BRIEF", "1");
        suite.env(PATHS_NAMED, format!("{GOOD},broken")).env_remove("IOLANE_CONFORMANCE_RECORD");
        if !is_set(ONLY_NAMED) {
            suite.env("IOLANE_CONFORMANCE_PLACES", bug.place).env_remove("IOLANE_CONFORMANCE_TARGETS");
        }
        for _ in 0..ATTEMPTS {
            let output = suite.output().context("the suite did not start")?;
            if !String::from_utf8_lossy(&output.stderr).contains(EXHAUSTED) {
                return Self::from_output(&output);
            }
        }
        Err(report::Skip::new(format!("{EXHAUSTED} is too low for what else runs"), "raise it, or run this alone")
            .into())
    }

    /// Reads the lines `test NAME ... ok`; that of a check during which the process ended has no end.
    fn from_output(output: &Output) -> Result<Self> {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines = said.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        let (mut failed, mut passed, mut ended_in) = (BTreeSet::new(), 0, None);
        for (name, outcome) in lines {
            match outcome {
                "ok" => passed += 1,
                "FAILED" => _ = failed.insert(name.to_owned()),
                _ => ended_in = Some(name.to_owned()),
            }
        }
        ensure!(passed + failed.len() > 0 || ended_in.is_some(), "no check was run: {errors}");
        let is_skip = |line: &&str| line.starts_with("SKIPPED") && !line.contains("IOLANE_CONFORMANCE_PLACES");
        if failed.is_empty()
            && ended_in.is_none()
            && !checked(&errors)
            && let Some((_, reason)) = errors.lines().find(is_skip).and_then(|line| line.split_once(": "))
        {
            return Err(report::Skip::new(reason, "").into());
        }
        let has_struck = errors.contains(STRUCK);
        Ok(Self { failed, ended_in, has_struck, said })
    }

    fn names(&self) -> BTreeSet<&str> {
        self.failed.iter().chain(&self.ended_in).map(String::as_str).collect()
    }

    fn is_right(&self, bug: &Bug) -> Result<()> {
        let names = self.names();
        if bug.name == NO_BUG.name {
            ensure!(names.is_empty(), "{names:?} fail on a queue without a bug: {}", self.said);
        } else if bug.name == "cancelled-twice" && names.is_empty() && !self.has_struck {
            let why = "the kernel had begun every request that was to be cancelled";
            return Err(report::Skip::new(why, "try again, or on a slower device").into());
        } else {
            ensure!(names.contains(bug.seen_by), "{} passes; the checks that fail: {names:?}", bug.seen_by);
            // What fails on a good path as well says nothing of the bug.
            let blames = |line: &&str| {
                line.trim_start().split_once(" on ").is_some_and(|(paths, _)| paths.split(' ').any(|path| path == GOOD))
            };
            let blamed = self.said.lines().find(blames);
            ensure!(blamed.is_none(), "a good path is blamed: {}", blamed.unwrap_or_default());
        }
        Ok(())
    }

    /// Its lines in the table: the bug, the check meant for it, and the parts of the suite that see it too.
    fn row(&self, bug: &Bug) -> String {
        let how = if self.ended_in.as_deref() == Some(bug.seen_by) { ", which ends the process" } else { "" };
        let (name, breaks, seen_by) = (bug.name, bug.breaks, bug.seen_by);
        let mut row = format!("{name}: {breaks}\n  {seen_by}{how}\n");
        let parts: BTreeSet<&str> =
            self.names().iter().filter(|name| **name != seen_by).filter_map(|name| name.split("::").next()).collect();
        let parts: Vec<&str> = parts.into_iter().collect();
        for (number, some) in parts.chunks(8).enumerate() {
            let _ = writeln!(row, "  {:5}{}", if number == 0 { "also" } else { "" }, some.join(" "));
        }
        row
    }
}

/// Whether the table at the end counts a check of the broken path.
fn checked(errors: &str) -> bool {
    let row = errors.lines().rfind(|line| line.starts_with("broken "));
    row.is_some_and(|row| row.split_whitespace().skip(1).any(|cell| cell.parse().is_ok_and(|count: u32| count > 0)))
}
