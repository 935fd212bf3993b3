//! How often the power was cut, and how often something was lost: read from what the checks print, one line for each run, and shown as
//! a table. Starts nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{Style, Table, grouped};

/// Cuts, and those of them after which something was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Count {
    cuts: u64,
    lost: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.lost += other.lost;
    }
}

/// What the checks of one kernel's records counted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CutCounts {
    pub(super) release: String,
    paths: BTreeSet<String>,
    examples: Count,
    /// Of an example on a queue whose syncs do nothing.
    unsynced: Count,
    /// Of studies, by the file system.
    studies: BTreeMap<String, Count>,
}

impl CutCounts {
    pub(super) fn new(release: &str) -> Self {
        Self { release: release.into(), ..Self::default() }
    }

    /// Counts a line such as `60 cuts of write_ahead by psync, workload 1000: 0 failed; 122 flushes, 60 commits` or
    /// `38 cuts of 4 studies on ext4: 0 failed; 70 flushes`; others are passed over.
    pub(super) fn take(&mut self, line: &str) {
        let Some((what, count)) = parse(line) else { return };
        match (what.split_once(" by "), what.rsplit_once(" on ")) {
            (Some((example, _)), _) if example.ends_with("without syncs") => self.unsynced.add(count),
            (Some((_, path)), _) => {
                self.paths.insert(path.rsplit_once(", workload ").map_or(path, |(path, _)| path).into());
                self.examples.add(count);
            }
            (None, Some((_, kind))) => self.studies.entry(kind.into()).or_default().add(count),
            (None, None) => {}
        }
    }

    fn absorb(&mut self, other: &Self) {
        self.paths.extend(other.paths.iter().cloned());
        self.examples.add(other.examples);
        self.unsynced.add(other.unsynced);
        for (kind, count) in &other.studies {
            self.studies.entry(kind.clone()).or_default().add(*count);
        }
    }
}

/// What was cut, and how often.
fn parse(line: &str) -> Option<(&str, Count)> {
    let (cuts, rest) = line.split_once(" cuts of ")?;
    let (what, outcome) = rest.rsplit_once(": ")?;
    let (lost, _) = outcome.split_once(" failed")?;
    Some((what, Count { cuts: cuts.parse().ok()?, lost: lost.parse().ok()? }))
}

/// A line for each kernel and one for all. A column for each file system; `.` where nothing was cut.
pub(super) fn render(counts: &[CutCounts]) -> String {
    let mut all = CutCounts::new("all");
    counts.iter().for_each(|count| all.absorb(count));
    let kinds: Vec<&String> = all.studies.keys().collect();
    let headings = ["Linux", "paths", "examples"].into_iter().map(String::from);
    let headings = headings.chain(kinds.iter().map(|kind| format!("study on {kind}"))).chain(["without syncs".into()]);
    let headings: Vec<String> = headings.collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for row in counts.iter().chain([&all]) {
        let studies = kinds.iter().map(|kind| row.studies.get(*kind).copied().unwrap_or_default());
        let columns = [row.examples].into_iter().chain(studies).chain([row.unsynced]);
        let cells = [row.release.clone(), row.paths.len().to_string()].into_iter().chain(columns.map(cell));
        table.row(cells.collect());
    }
    format!("Cuts, and those after which something was lost:\n{}", table.render(Style::Bare))
}

fn cell(count: Count) -> String {
    match count.cuts {
        0 => ".".into(),
        cuts => format!("{}, {} lost", grouped(cuts as f64), grouped(count.lost as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(release: &str, lines: &[&str]) -> CutCounts {
        let mut counts = CutCounts::new(release);
        lines.iter().for_each(|line| counts.take(line));
        counts
    }

    #[test]
    fn cuts_are_added_up_for_each_kernel_and_for_all() {
        let counts = [
            counted(
                "6.1",
                &[
                    "800 cuts of write_ahead by psync, workload 1000: 0 failed; 122 flushes, 60 commits",
                    "800 cuts of page_writer by io_uring,fixedbufs, workload 1001: 2 failed; 30 flushes, 12 commits",
                    "150 cuts of write_ahead without syncs by psync, workload 1002: 97 failed; 2 flushes, 60 commits",
                    "38 cuts of 4 studies on ext4: 0 failed; 70 flushes",
                    "test result: ok. 1 passed; 0 failed",
                    "1600 cuts, 2 failed",
                ],
            ),
            counted("7.2", &["150 cuts of write_ahead by psync, workload 1000: 0 failed; 122 flushes, 60 commits"]),
        ];
        let expected = "\
Cuts, and those after which something was lost:
Linux  paths       examples  study on ext4  without syncs
6.1        2  1,600, 2 lost     38, 0 lost   150, 97 lost
7.2        1    150, 0 lost              .              .
all        2  1,750, 2 lost     38, 0 lost   150, 97 lost
";
        assert_eq!(render(&counts), expected);
    }
}
