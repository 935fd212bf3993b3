//! The check that no source file is too long to be read at one sitting. Tests and benchmarks may be.

use std::path::{Path, PathBuf};

use super::tree;

/// A file has fewer lines than this.
const LINES: usize = 600;

/// The files that are too long, longest first.
pub(super) fn find(files: &[PathBuf]) -> Vec<String> {
    let read = files.iter().filter(|file| is_limited(file)).filter_map(|file| Some((tree::read(file).ok()?, file)));
    let counted = read.map(|(text, file)| (text.lines().count(), file));
    let mut long: Vec<(usize, &PathBuf)> = counted.filter(|(lines, _)| *lines >= LINES).collect();
    long.sort_by(|one, other| other.cmp(one));
    long.iter().map(|(lines, file)| format!("{}: {lines} lines, {LINES} or more", file.display())).collect()
}

fn is_limited(file: &Path) -> bool {
    let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "benches" || part == "tests.rs";
    file.extension().is_some_and(|extension| extension == "rs") && !file.iter().any(is_test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_limited_and_tests_are_not() {
        for (file, limited) in [
            ("crates/a/src/lib.rs", true),
            ("crates/a/examples/copy.rs", true),
            ("crates/a/src/plan/tests.rs", false),
            ("crates/a/tests/guard.rs", false),
            ("crates/a/src/plan/tests/models.rs", false),
            ("crates/a/benches/ring.rs", false),
            ("docs/lab.md", false),
        ] {
            assert_eq!(is_limited(Path::new(file)), limited, "{file}");
        }
    }
}
