//! What test programs print, line by line, added up: what passed, what failed, what was skipped and why. Knows libtest's
//! words and the line `SKIPPED what: why` by which a test says aloud that it cannot run.

/// What the lines seen so far add up to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: Vec<String>,
    /// Headings `successes:` since the test program began; under the second stand only names that were shown before.
    success_headings: u32,
    /// Whether the line before was empty: what is left out would leave gaps.
    after_empty: bool,
}

impl Tally {
    /// Counts a line of the test programs' output and says whether it is worth showing.
    pub(crate) fn take(&mut self, line: &str) -> bool {
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
    pub(crate) fn summary(&self) -> String {
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
