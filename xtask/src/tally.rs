//! What test programs print, line by line, added up: what passed, what failed and with which last lines, what was skipped and
//! why. Knows libtest's words and the line `SKIPPED what: why` by which a test reports that it cannot run. Starts nothing.

use std::collections::{BTreeMap, VecDeque};

use iolane_lab::guest::KERNEL_LINE;

use crate::skips::{Accepted, Skip};

/// Lines kept of what a failed test or program printed last.
const LAST_LINES: usize = 15;

/// What all test programs so far add up to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failures: Vec<Failure>,
    pub(crate) skipped: Vec<Skip>,
}

/// A test, or a whole program, that failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// The program and the test, or how the program ended.
    pub(crate) what: String,
    pub(crate) last_lines: Vec<String>,
}

/// How a test program ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
    /// It, or the guest that it ran in, was lost for this reason.
    Lost(String),
}

impl Tally {
    /// Adds what another one counted.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.skipped.extend(other.skipped);
    }

    /// Counts a failure that no test program reported.
    pub(crate) fn fail(&mut self, what: impl Into<String>, cause: &str) {
        self.failures.push(Failure { what: what.into(), last_lines: cause.lines().map(str::to_owned).collect() });
    }

    /// What the reader sees at the end: skips by the reason for which they are accepted, those that are not accepted one by
    /// one, every failure with its last lines.
    pub(crate) fn report(&self, accepted: &Accepted, verbose: bool) -> String {
        let (listed, unlisted) = accepted.split(&self.skipped);
        let mut text = String::new();
        if !listed.is_empty() {
            text.push_str("\nSkipped, as listed in xtask/skips.toml:\n");
            listed.iter().for_each(|(why, skips)| {
                text.push_str(&format!("  {:>4} x {why}\n", skips.len()));
                skips.iter().filter(|_| verbose).for_each(|skip| text.push_str(&format!("           {skip}\n")));
            });
        }
        if !unlisted.is_empty() {
            text.push_str("\nSkipped, and not listed in xtask/skips.toml:\n");
            grouped(&unlisted).iter().for_each(|what| text.push_str(&format!("  {what}\n")));
        }
        if !self.failures.is_empty() {
            text.push_str("\nFailed:\n");
            self.failures.iter().for_each(|failure| text.push_str(&failure.shown()));
        }
        text
    }

    /// The last line of all.
    pub(crate) fn counts(&self) -> String {
        format!("\n{} passed, {} failed, {} skipped\n", self.passed, self.failures.len(), self.skipped.len())
    }
}

impl Failure {
    fn shown(&self) -> String {
        let lines: String = self.last_lines.iter().map(|line| format!("      {line}\n")).collect();
        format!("  {}\n{lines}", self.what)
    }
}

/// Skips with the same reason at the same place as one line.
fn grouped(skips: &[&Skip]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for skip in skips {
        groups.entry((&skip.place, &skip.reason)).or_default().push(&skip.what);
    }
    let line = |((place, reason), what): (&(&str, &str), &Vec<&str>)| match what.as_slice() {
        [only] => format!("{place}: {only}: {reason}"),
        [first, rest @ ..] => format!("{place}: {first} and {} more: {reason}", rest.len()),
        [] => String::new(),
    };
    groups.iter().map(line).collect()
}

/// Reads what one test program prints, and counts it at its end.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Where it runs: `host`, or the release of a guest's kernel.
    place: String,
    program: String,
    passed: u64,
    failed_tests: Vec<String>,
    /// What failed tests printed.
    outputs: BTreeMap<String, VecDeque<String>>,
    skipped: Vec<Skip>,
    last_lines: VecDeque<String>,
    /// What the kernel of a guest reported.
    kernel_lines: VecDeque<String>,
    /// The failed test whose output is being read.
    output_of: Option<String>,
    in_failures: bool,
    saw_result: bool,
    /// Headings `successes:` so far; under the second stand only names that were shown before.
    success_headings: u32,
    /// Whether the line before was empty: what is left out would leave gaps.
    after_empty: bool,
}

impl Listener {
    pub(crate) fn new(place: &str, program: &str) -> Self {
        Self {
            place: place.into(),
            program: program.into(),
            passed: 0,
            failed_tests: Vec::new(),
            outputs: BTreeMap::new(),
            skipped: Vec::new(),
            last_lines: VecDeque::new(),
            kernel_lines: VecDeque::new(),
            output_of: None,
            in_failures: false,
            saw_result: false,
            success_headings: 0,
            after_empty: false,
        }
    }

    /// Takes a line and says whether it is worth showing.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        if line.starts_with(KERNEL_LINE) {
            keep_last(&mut self.kernel_lines, line);
            return true;
        }
        keep_last(&mut self.last_lines, line);
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count_before(result, " passed");
            (self.saw_result, self.success_headings) = (true, 0);
            (self.in_failures, self.output_of) = (false, None);
        } else if let Some(what) = line.strip_prefix("SKIPPED ") {
            self.skipped.push(Skip::parse(&self.place, what));
        } else if let Some(what) = ignored_test(line) {
            self.skipped.push(Skip::parse(&self.place, &what));
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.fail(name);
        } else if line == "successes:" {
            self.success_headings += 1;
            return false;
        } else if line == "failures:" {
            (self.in_failures, self.output_of, self.success_headings) = (true, None, 0);
        } else if let Some(name) = output_heading(line).filter(|_| self.in_failures) {
            // Where another thread printed between the name and `FAILED`, this is the first to tell.
            self.fail(name);
            self.output_of = Some(name.into());
        } else if let Some(name) = self.output_of.as_ref().filter(|_| !is_of_backtrace(line)) {
            keep_last(self.outputs.entry(name.clone()).or_default(), line);
        }
        let gap = std::mem::replace(&mut self.after_empty, line.is_empty()) && line.is_empty();
        self.success_headings < 2 && !gap
    }

    fn fail(&mut self, test: &str) {
        if !self.failed_tests.iter().any(|known| known == test) {
            self.failed_tests.push(test.into());
        }
    }

    /// Adds up, now that the program has ended.
    pub(crate) fn finish(mut self, end: &End, tally: &mut Tally) {
        tally.passed += self.passed;
        tally.skipped.append(&mut self.skipped);
        let place = if self.place == "host" { String::new() } else { format!("Linux {}, ", self.place) };
        let program = format!("{place}{}", self.program);
        let before = tally.failures.len();
        for test in &self.failed_tests {
            let last_lines = self.outputs.remove(test).unwrap_or_default().into();
            tally.failures.push(Failure { what: format!("{program}: {test}"), last_lines });
        }
        // libtest ends with 101 if tests failed, and has named them.
        let is_told = self.saw_result && !self.failed_tests.is_empty() && *end == End::Code(101);
        let how = match end {
            End::Code(0) => None,
            End::Code(_) if is_told => None,
            End::Code(code) => Some(format!("ended with exit code {code}")),
            End::Signal(number) => Some(format!("was killed by {}", signal_name(*number))),
            End::Lost(cause) => Some(format!("was lost: {cause}")),
        };
        if let Some(how) = how {
            tally.failures.push(Failure { what: format!("{program} {how}"), last_lines: self.last_lines.into() });
        }
        if let Some(last) = tally.failures[before..].last_mut() {
            last.last_lines.extend(self.kernel_lines);
        }
    }
}

fn keep_last(lines: &mut VecDeque<String>, line: &str) {
    if line.trim().is_empty() {
        return;
    }
    if lines.len() == LAST_LINES {
        lines.pop_front();
    }
    lines.push_back(line.to_owned());
}

/// Whether a line is of a backtrace, below which the message of a panic would be out of sight.
fn is_of_backtrace(line: &str) -> bool {
    let text = line.trim_start();
    let is_frame = text.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    let is_indented = text.len() < line.len();
    (is_indented && (is_frame || text.starts_with("at "))) || text == "stack backtrace:" || text.starts_with("note: ")
}

/// The test's name in `---- NAME stdout ----`.
fn output_heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" ----")?.strip_suffix(" stdout")
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

/// What a signal is called (signal(7), x86).
fn signal_name(number: i32) -> String {
    let name = match number {
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        31 => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    format!("{name} (signal {number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a test program prints for `--show-output`, with one failed test.
    const OUTPUT: &str = "running 4 tests
test tests::reads ... ok
test tests::polls ... ok
test tests::slow ... ignored, needs an hour
test breaks ... FAILED

successes:

---- tests::polls stdout ----
SKIPPED io_uring+iopoll on /tmp/x: the device has no poll queues
    indented output of a test


successes:
    tests::polls
    tests::reads

failures:

---- breaks stdout ----
line 1

thread 'breaks' panicked at src/lib.rs:3:5:
assertion failed

failures:
    breaks

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    fn read(place: &str, text: &str, end: &End) -> (Tally, String) {
        let mut listener = Listener::new(place, "iolane-core unit tests");
        let shown = text.lines().filter(|line| listener.take(line)).map(|line| format!("{line}\n")).collect();
        let mut tally = Tally::default();
        listener.finish(end, &mut tally);
        (tally, shown)
    }

    #[test]
    fn a_failed_test_is_named_with_the_last_lines_that_it_printed() {
        let (tally, _) = read("host", OUTPUT, &End::Code(101));
        let lines = ["line 1", "thread 'breaks' panicked at src/lib.rs:3:5:", "assertion failed"];
        let failure =
            Failure { what: "iolane-core unit tests: breaks".into(), last_lines: lines.map(str::to_owned).into() };
        assert_eq!(tally.failures, [failure]);
        let report = tally.report(&Accepted::default(), false);
        assert!(report.ends_with("\nFailed:\n  iolane-core unit tests: breaks\n      line 1\n      thread 'breaks' panicked at src/lib.rs:3:5:\n      assertion failed\n"), "{report}");
    }

    #[test]
    fn a_failed_test_is_named_although_another_line_came_between() {
        let broken = OUTPUT.replace("test breaks ... FAILED", "test breaks ... SKIPPED x: y\nFAILED");
        assert_eq!(read("host", &broken, &End::Code(101)).0.failures, read("host", OUTPUT, &End::Code(101)).0.failures);
    }

    #[test]
    fn a_failure_in_a_guest_ends_with_what_its_kernel_reported() {
        let reported = format!("{OUTPUT}kernel: [5.0] nvme nvme0: timeout\n");
        let (tally, shown) = read("6.1.0", &reported, &End::Code(101));
        assert!(shown.ends_with("kernel: [5.0] nvme nvme0: timeout\n"), "{shown}");
        let lines = &tally.failures[0].last_lines;
        assert_eq!((tally.failures.len(), lines.len(), lines[3].as_str()), (1, 4, "kernel: [5.0] nvme nvme0: timeout"));
    }

    #[test]
    fn in_a_guest_the_kernel_is_named_too() {
        let (tally, _) = read("7.2.1-amd64", OUTPUT, &End::Code(101));
        assert_eq!(tally.failures[0].what, "Linux 7.2.1-amd64, iolane-core unit tests: breaks");
        assert_eq!(tally.skipped[0].place, "7.2.1-amd64");
    }

    #[test]
    fn of_a_long_output_the_last_fifteen_lines_are_kept() {
        let long: String = (0..100).map(|number| format!("line {number}\n\n")).collect();
        let (tally, _) = read("host", &OUTPUT.replace("line 1\n", &long), &End::Code(101));
        let lines = &tally.failures[0].last_lines;
        assert_eq!((lines.len(), lines[0].as_str()), (LAST_LINES, "line 87"));
    }

    #[test]
    fn a_backtrace_does_not_hide_the_message() {
        let frames: String =
            (0..20).map(|number| format!("   {number}: std::panic\n             at ./src/lib.rs:1:1\n")).collect();
        let note = "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.";
        let traced = format!("assertion failed\nstack backtrace:\n{frames}{note}\n");
        let (tally, _) = read("host", &OUTPUT.replace("assertion failed\n", &traced), &End::Code(101));
        assert_eq!(tally.failures[0].last_lines.last().map(String::as_str), Some("assertion failed"));
    }

    #[test]
    fn a_program_that_dies_is_named_with_its_signal_and_last_lines() {
        let (tally, _) = read("host", "running 2 tests\ntest one ... ok\ntest two ... ", &End::Signal(11));
        assert_eq!(tally.failures.len(), 1);
        assert_eq!(tally.failures[0].what, "iolane-core unit tests was killed by SIGSEGV (signal 11)");
        assert_eq!(tally.failures[0].last_lines, ["running 2 tests", "test one ... ok", "test two ... "]);
    }

    #[test]
    fn a_program_that_fails_without_a_failed_test_is_a_failure() {
        let (tally, _) = read("host", "running 0 tests\n", &End::Code(3));
        assert_eq!(tally.failures[0].what, "iolane-core unit tests ended with exit code 3");
        let (tally, _) = read("6.1", "", &End::Lost("the guest: Kernel panic".into()));
        assert_eq!(tally.failures[0].what, "Linux 6.1, iolane-core unit tests was lost: the guest: Kernel panic");
        assert!(read("host", "", &End::Code(0)).0.failures.is_empty());
    }

    #[test]
    fn counts_add_up_and_skips_keep_their_reason() {
        let (mut tally, _) = read("host", OUTPUT, &End::Code(101));
        tally.absorb(read("host", OUTPUT, &End::Code(101)).0);
        assert_eq!(tally.counts(), "\n4 passed, 2 failed, 4 skipped\n");
        let skip = |what: &str, reason: &str| Skip { place: "host".into(), what: what.into(), reason: reason.into() };
        let expected =
            [skip("tests::slow", "needs an hour"), skip("io_uring+iopoll on /tmp/x", "the device has no poll queues")];
        assert_eq!(tally.skipped[..2], expected);
    }

    #[test]
    fn names_of_passed_tests_are_shown_once_and_output_is_kept() {
        let (_, shown) = read("host", OUTPUT, &End::Code(101));
        assert!(!shown.contains("    tests::reads\n"), "{shown}");
        for kept in ["    indented output", "assertion failed", "    breaks", "test tests::reads ... ok"] {
            assert!(shown.contains(kept), "{kept} is missing:\n{shown}");
        }
    }

    #[test]
    fn skips_with_one_reason_are_one_line() {
        let skip = |what: &str| Skip::parse("host", &format!("{what}: not here"));
        let tally = Tally { skipped: vec![skip("psync on a"), skip("libaio on a")], ..Tally::default() };
        let report = tally.report(&Accepted::default(), false);
        assert!(report.ends_with("\n  host: psync on a and 1 more: not here\n"), "{report}");
    }
}
