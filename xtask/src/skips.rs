//! Skipped tests, and the list of those that continuous integration accepts: `xtask/skips.toml`. Any other skip fails it.
//! The list is read here; what is skipped is found elsewhere.

use std::cell::Cell;
use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::child::root;

/// A test, or a part of one, that did not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    /// `host`, or the release of a guest's kernel.
    pub(crate) place: String,
    pub(crate) what: String,
    pub(crate) reason: String,
}

impl Skip {
    /// Of a line `what: why`.
    pub(crate) fn parse(place: &str, line: &str) -> Self {
        // A path such as `pci:0000:00:04.0` holds colons, but no space after them.
        let (what, reason) = line.split_once(": ").unwrap_or((line, "no reason given"));
        Self { place: place.into(), what: what.into(), reason: reason.into() }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.what, self.reason)
    }
}

/// The skips that are accepted.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    #[serde(default)]
    skip: Vec<Entry>,
}

/// Patterns, in which `*` stands for any text, and why what they match need not run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default = "anything")]
    place: String,
    #[serde(default = "anything")]
    what: String,
    reason: String,
    why: String,
    #[serde(skip)]
    used: Cell<bool>,
}

fn anything() -> String {
    "*".into()
}

/// Skips with the reason for which they are accepted.
type Listed<'a> = Vec<(&'a str, Vec<&'a Skip>)>;

impl Accepted {
    /// Reads the list of this tree.
    pub(crate) fn read() -> Result<Self> {
        let file = root().join("xtask/skips.toml");
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("reading {}", file.display()))
    }

    fn entry_of(&self, skip: &Skip) -> Option<&Entry> {
        self.skip.iter().find(|entry| entry.matches(skip)).inspect(|entry| entry.used.set(true))
    }

    /// Those that are accepted, each group with its reason in the order of the list, and the others.
    pub(crate) fn split<'a>(&'a self, skips: &'a [Skip]) -> (Listed<'a>, Vec<&'a Skip>) {
        let of_entry = |entry: &'a Entry| {
            let own = |skip: &&Skip| self.entry_of(skip).is_some_and(|found| std::ptr::eq(found, entry));
            (entry.why.as_str(), skips.iter().filter(own).collect::<Vec<_>>())
        };
        let listed = self.skip.iter().map(of_entry).filter(|(_, skips)| !skips.is_empty()).collect();
        (listed, skips.iter().filter(|skip| self.entry_of(skip).is_none()).collect())
    }

    /// Entries that matched nothing so far; other machines may need them.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = self.skip.iter().filter(|entry| !entry.used.get());
        unused.map(|entry| format!("{}: {}: {}", entry.place, entry.what, entry.reason)).collect()
    }
}

impl Entry {
    fn matches(&self, skip: &Skip) -> bool {
        let place = match self.place.as_str() {
            "guest" => !["host", "lint"].contains(&skip.place.as_str()),
            pattern => is_match(pattern, &skip.place),
        };
        place && is_match(&self.what, &skip.what) && is_match(&self.reason, &skip.reason)
    }
}

/// Whether a pattern, in which `*` stands for any text, matches the whole text.
fn is_match(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    let starts = text.char_indices().map(|(index, _)| index).chain([text.len()]);
    starts.into_iter().any(|index| is_match(rest, &text[index..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_text() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("io_uring*", "io_uring+iopoll", true),
            ("*poll queues*", "the device has no poll queues; load it", true),
            ("a*c*e", "abcde", true),
            ("a*c", "abcd", false),
            ("abc", "abcd", false),
        ] {
            assert_eq!(is_match(pattern, text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_skip_is_accepted_by_place_subject_and_reason_together() {
        let list = "[[skip]]\nplace = \"5.10*\"\nwhat = \"faults *\"\nreason = \"*too old*\"\nwhy = \"came later\"\n";
        let accepted: Accepted = toml::from_str(list).unwrap();
        let skips = [
            Skip::parse("5.10.0-46", "faults psync: too old for it"),
            Skip::parse("6.1.0", "faults psync: too old for it"),
            Skip::parse("5.10.0-46", "faults psync: no drive"),
        ];
        let (listed, unlisted) = accepted.split(&skips);
        assert_eq!(listed, [("came later", vec![&skips[0]])]);
        assert_eq!(unlisted, [&skips[1], &skips[2]]);
        assert!(accepted.unused().is_empty());
    }

    #[test]
    fn a_guest_is_any_place_with_a_kernel_of_its_own() {
        let list = "[[skip]]\nplace = \"guest\"\nreason = \"*\"\nwhy = \"tested on the host\"\n";
        let accepted: Accepted = toml::from_str(list).unwrap();
        let skips = [Skip::parse("6.1.0-56-amd64", "a: b"), Skip::parse("host", "a: b"), Skip::parse("lint", "a: b")];
        assert_eq!(accepted.split(&skips).1, [&skips[1], &skips[2]]);
    }

    #[test]
    fn an_entry_that_matches_nothing_is_unused() {
        let accepted: Accepted = toml::from_str("[[skip]]\nreason = \"x\"\nwhy = \"y\"\n").unwrap();
        let skips = [Skip::parse("host", "a: b")];
        assert_eq!(accepted.split(&skips).1.len(), 1);
        assert_eq!(accepted.unused(), ["*: *: x"]);
    }

    #[test]
    fn a_subject_with_colons_is_kept_whole() {
        let skip = Skip::parse("host", "nvme on pci:0000:00:04.0: no driver: none");
        assert_eq!((skip.what.as_str(), skip.reason.as_str()), ("nvme on pci:0000:00:04.0", "no driver: none"));
    }

    #[test]
    fn the_list_of_this_tree_can_be_read_and_gives_each_reason() {
        let accepted = Accepted::read().unwrap();
        assert!(accepted.skip.iter().all(|entry| entry.why.len() > 10), "{accepted:?}");
    }
}
