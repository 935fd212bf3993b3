//! `cargo xtask test`: builds everything, runs every test, and sums up what passed, what failed and what was skipped.
//! A test that cannot run here prints a line `SKIPPED what: why`; no such line is lost.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::child::{cannot_start, cargo, root, shown, succeeds};
use crate::packages;

/// Runs every test, or those whose name holds one of the filters; `Ok(false)` if one failed.
pub(crate) fn run(filters: &[String]) -> Result<bool> {
    for package in packages::install(&packages::FOR_TESTS) {
        println!("Without {}: {} will be skipped", package.name, package.needed_by);
    }
    // Built first, so that a build that fails is not taken for a test that fails.
    if !succeeds(&mut cargo(&["build", "--workspace", "--all-targets"]))? {
        println!("\nNo test ran: the build failed, see above");
        return Ok(false);
    }
    let mut tally = Tally::default();
    let mut all_ended_well = run_suite(&[], filters, &mut tally)?;
    if has_examples(&root().join("crates"))? {
        all_ended_well &= run_suite(&["--examples"], filters, &mut tally)?;
    }
    if !all_ended_well && tally.failed == 0 {
        println!("\nA test program did not build, or died before it could report: see above; counted as one failure");
        tally.failed = 1;
    }
    print!("{}", tally.summary());
    Ok(tally.failed == 0)
}

/// Whether any crate has examples; asking cargo for those of none is an error.
fn has_examples(crates: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(crates).with_context(|| format!("reading {}", crates.display()))?;
    Ok(entries.filter_map(Result::ok).any(|entry| entry.path().join("examples").is_dir()))
}

/// Runs `cargo test`, shows its output as it comes, counts, and says whether cargo was content.
fn run_suite(targets: &[&str], filters: &[String], tally: &mut Tally) -> Result<bool> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    // libtest hides what passing tests print, `SKIPPED` lines too, unless told to show it.
    command.args(targets).args(["--", "--show-output"]).args(filters);
    let name = shown(&command);
    println!("\n$ {name}");
    // One pipe for both streams keeps cargo's headings above the results they belong to.
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command.stdout(writer.try_clone().context("making a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| cannot_start(&name))?;
    // It holds writing ends of the pipe, and while those are open reading never sees the end.
    drop(command);
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).with_context(|| format!("reading from `{name}`"))? > 0 {
        if tally.take(String::from_utf8_lossy(&line).trim_end()) {
            std::io::stdout().write_all(&line).context("writing to stdout")?;
        }
        line.clear();
    }
    Ok(child.wait().with_context(|| format!("waiting for `{name}`"))?.success())
}

/// What the lines seen so far add up to.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
    /// Headings `successes:` since the test program began; under the second stand only names that were shown before.
    success_headings: u32,
    /// Whether the line before was empty: what is left out would leave gaps.
    after_empty: bool,
}

impl Tally {
    /// Counts a line of the test programs' output and says whether it is worth showing.
    fn take(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count_before(result, " passed");
            self.failed += count_before(result, " failed");
            self.success_headings = 0;
        } else if let Some(what) = line.strip_prefix("SKIPPED ") {
            self.skipped.push(what.into());
        } else if let Some(what) = ignored_test(line) {
            self.skipped.push(what);
        } else if line == "successes:" {
            self.success_headings += 1;
            return false;
        } else if line == "failures:" {
            self.success_headings = 0;
        }
        let gap = std::mem::replace(&mut self.after_empty, line.is_empty()) && line.is_empty();
        self.success_headings < 2 && !gap
    }

    /// What the reader should see last.
    fn summary(&self) -> String {
        let mut text = String::new();
        if !self.skipped.is_empty() {
            text.push_str("\nSkipped, and why:\n");
            self.skipped.iter().for_each(|what| text.push_str(&format!("  {what}\n")));
        }
        text + &format!("\n{} passed, {} failed, {} skipped\n", self.passed, self.failed, self.skipped.len())
    }
}

/// The number that stands before a word in `ok. 12 passed; 0 failed; ...`.
fn count_before(result: &str, word: &str) -> u64 {
    let before = result.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A test with `#[ignore]`, which is skipped too, and its reason.
fn ignored_test(line: &str) -> Option<String> {
    let (name, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let reason = reason.trim_start_matches([',', ' ']);
    Some(format!("{name}: {}", if reason.is_empty() { "marked #[ignore], no reason given" } else { reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `cargo test -- --show-output` prints for two test programs.
    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/one-1)

running 3 tests
test tests::reads ... ok
test tests::polls ... ok
test tests::slow ... ignored, needs an hour

successes:

---- tests::polls stdout ----
SKIPPED io_uring+cpoll on /tmp/x: the device has no poll queues
    indented output of a test


successes:
    tests::polls
    tests::reads

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/other.rs (target/debug/deps/other-2)

running 2 tests
SKIPPED losetup: not root
test writes ... ok
test breaks ... FAILED

successes:

successes:
    writes

failures:

---- breaks stdout ----
    assertion failed

failures:
    breaks

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn read(text: &str) -> (Tally, String) {
        let mut tally = Tally::default();
        let shown = text.lines().filter(|line| tally.take(line)).map(|line| format!("{line}\n")).collect();
        (tally, shown)
    }

    #[test]
    fn counts_add_up_over_all_test_programs() {
        let (tally, _) = read(OUTPUT);
        assert_eq!((tally.passed, tally.failed), (3, 1));
        let skipped = [
            "tests::slow: needs an hour",
            "io_uring+cpoll on /tmp/x: the device has no poll queues",
            "losetup: not root",
        ];
        assert_eq!(tally.skipped, skipped);
    }

    #[test]
    fn names_of_passed_tests_are_shown_once_and_output_is_kept() {
        let (_, shown) = read(OUTPUT);
        assert!(!shown.contains("    tests::reads\n") && !shown.contains("    writes\n"), "{shown}");
        for kept in ["    indented output", "    assertion failed", "    breaks", "test tests::reads ... ok"] {
            assert!(shown.contains(kept), "{kept} is missing:\n{shown}");
        }
    }

    #[test]
    fn the_last_line_is_the_counts_alone() {
        let (tally, _) = read(OUTPUT);
        let summary = tally.summary();
        assert!(summary.starts_with("\nSkipped, and why:\n  tests::slow: needs an hour\n"), "{summary}");
        assert_eq!(summary.lines().last(), Some("3 passed, 1 failed, 3 skipped"));
        assert_eq!(Tally::default().summary(), "\n0 passed, 0 failed, 0 skipped\n");
    }
}
