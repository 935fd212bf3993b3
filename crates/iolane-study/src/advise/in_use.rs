//! The path that a program uses, in a file that is kept beside it: what `iolane advise --check FILE` checks.

use std::path::Path;

use iolane::error::{Error, Result, describe};
use serde::Deserialize;

use crate::results::Goal;

/// A path in use, what it was chosen for, and the gain for which it would be changed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InUse {
    /// A name in the results, or iolane's notation.
    pub path: String,
    pub goal: Goal,
    /// In percent.
    #[serde(default)]
    pub min_gain_percent: f64,
}

impl InUse {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read; a usage error, with the line, if it is something else.
    pub fn read(file: &Path) -> Result<Self> {
        let what = || format!("--check {}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| {
            Error::usage(what(), describe(&error)).remedy("write a file with path = \"...\" and goal = \"...\"")
        })?;
        let bad = |cause: String| Err(Error::usage(what(), cause).remedy("see docs/advising.md, The check"));
        match toml::from_str::<Self>(&text) {
            Ok(in_use) if (0.0..=100.0).contains(&in_use.min_gain_percent) => Ok(in_use),
            Ok(in_use) => bad(format!("min_gain_percent is {}, and not from 0 to 100", in_use.min_gain_percent)),
            Err(error) => {
                let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
                bad(format!("line {line}: {}", error.message().replace('\n', " ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<InUse> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("iolane-in-use-{}-{number}.toml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let read = InUse::read(&file);
        std::fs::remove_file(&file).unwrap();
        read
    }

    #[test]
    fn a_file_names_the_path_its_goal_and_the_gain_that_counts() {
        let whole = read("path = \"io_uring,fixedbufs\"\ngoal = \"latency\"\nmin_gain_percent = 5\n").unwrap();
        let expected = InUse { path: "io_uring,fixedbufs".into(), goal: Goal::Latency, min_gain_percent: 5.0 };
        assert_eq!(whole, expected);
        assert_eq!(read("path = \"psync\"\ngoal = \"throughput\"\n").unwrap().min_gain_percent, 0.0);
    }

    #[test]
    fn something_else_is_refused_with_its_line() {
        for (text, cause) in [
            ("path = \"psync\"\n", "missing field `goal`"),
            ("path = \"psync\"\ngoal = \"speed\"\n", "line 2: unknown variant `speed`"),
            ("path = \"psync\"\ngoal = \"latency\"\ndepth = 4\n", "line 3: unknown field `depth`"),
            ("path = \"psync\"\ngoal = \"latency\"\nmin_gain_percent = 500\n", "min_gain_percent is 500"),
            ("\u{0}", "line 1: "),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(cause) && !error.contains('\n'), "{text}: {error}");
        }
        let missing = InUse::read(Path::new("/no/such.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("--check /no/such.toml: no such file or directory; write a file"), "{missing}");
    }
}
