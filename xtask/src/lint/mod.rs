//! `cargo xtask lint` and `cargo xtask fmt`: everything about the code that can be checked without running it.
//! Every check runs even if one before it failed, so that one run shows all there is to mend.

mod arrows;
mod circles;
mod graph;
mod length;
mod modules;
mod outcome;
mod phrases;
mod tools;
mod tree;
mod workspace;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{cargo, root, succeeds};
use crate::skips::{Accepted, Skip};
use crate::verdict;
use outcome::{Outcome, outcome_of, outcome_of_findings};
use workspace::Workspace;

/// A check: the word by which it is chosen, what it is called, and what runs it.
type Check = (&'static str, &'static str, fn() -> Result<Outcome>);

/// Quick ones first.
const CHECKS: [Check; 9] = [
    ("formatting", "formatting", tools::formatting),
    ("arrows", "crates depend on each other as docs/architecture.md draws it", check_arrows),
    ("circles", "no files of a crate use each other in a circle", check_circles),
    ("length", "no source file has 600 lines", check_length),
    ("phrases", "prose without the phrases in xtask/src/lint/phrases.txt", check_phrases),
    ("clippy", "clippy", tools::clippy),
    ("documentation", "documentation", tools::documentation),
    ("dependencies", "dependencies: bans, licences, sources", tools::dependencies),
    ("advisories", "dependencies: advisories", tools::advisories),
];

/// How a check of that name ended, and after how long.
type Ended = (&'static str, Outcome, Duration);

/// Runs every check, or those that are named, and sums up; `Ok(false)` if one failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let is_chosen = |word: &str| arguments.is_empty() || arguments.iter().any(|wanted| wanted == word);
    if let Some(unknown) = arguments.iter().find(|wanted| CHECKS.iter().all(|(word, ..)| word != wanted)) {
        let known: Vec<&str> = CHECKS.iter().map(|(word, ..)| *word).collect();
        bail!("`lint` has no check `{unknown}`; it has {}", known.join(", "));
    }
    let accepted = Accepted::read()?;
    let chosen = CHECKS.iter().filter(|(word, ..)| is_chosen(word));
    let ended: Vec<Ended> = chosen.map(|(_, name, check)| run_check(name, *check)).collect();
    print!("\n{}", summary(&ended));
    Ok(ended.iter().all(|(name, outcome, _)| is_fine(name, outcome, &accepted, verdict::is_ci())))
}

/// Formats the workspace and the fuzz targets, which are a workspace of their own.
pub(crate) fn format(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "`fmt` takes no arguments, it was given `{}`", arguments.join(" "));
    let workspace = succeeds(&mut cargo(&["fmt", "--all"]))?;
    Ok(succeeds(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml"]))? && workspace)
}

fn run_check(name: &'static str, check: fn() -> Result<Outcome>) -> Ended {
    println!("\n== {name}");
    let began = Instant::now();
    let outcome = check().unwrap_or_else(|error| {
        println!("{error:#}");
        Outcome::Failed
    });
    (name, outcome, began.elapsed())
}

/// In continuous integration a check that was not made is a failure too, unless the list of skips has it.
fn is_fine(name: &str, outcome: &Outcome, accepted: &Accepted, ci: bool) -> bool {
    match outcome {
        Outcome::Passed => true,
        Outcome::Failed => false,
        Outcome::NotChecked(why) => {
            let skip = [Skip { place: "lint".into(), what: name.into(), reason: why.clone() }];
            !ci || accepted.split(&skip).1.is_empty()
        }
    }
}

fn summary(ended: &[Ended]) -> String {
    let line = |(name, outcome, took): &Ended| {
        let seconds = took.as_secs_f64();
        match outcome {
            Outcome::Passed => format!("passed       {seconds:>6.1} s  {name}\n"),
            Outcome::Failed => format!("FAILED       {seconds:>6.1} s  {name}\n"),
            Outcome::NotChecked(why) => format!("NOT CHECKED  {seconds:>6.1} s  {name}: {why}\n"),
        }
    };
    ended.iter().map(line).collect()
}

fn check_arrows() -> Result<Outcome> {
    let file = root().join("docs/architecture.md");
    let page = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let drawn = arrows::parse(&page).context("docs/architecture.md")?;
    let workspace = Workspace::read()?;
    let wrong = arrows::compare(&drawn, &workspace.arrows(), &|from, to| workspace.needs(from, to));
    Ok(outcome_of_findings(&wrong))
}

fn check_circles() -> Result<Outcome> {
    let workspace = Workspace::read()?;
    let mut found = 0;
    for package in workspace.members() {
        for target in package.libraries_and_programs() {
            for circle in circles::find(&target.src_path, &modules::from_disk)? {
                print!("{}: {}", package.name, circle.shown(&root()));
                found += 1;
            }
        }
    }
    Ok(outcome_of(found == 0))
}

fn check_length() -> Result<Outcome> {
    Ok(outcome_of_findings(&length::find(&tree::files()?)))
}

fn check_phrases() -> Result<Outcome> {
    Ok(outcome_of_findings(&phrases::find(&tree::files()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_shows_how_each_check_ended_and_its_time() {
        let second = Duration::from_secs(1);
        let ended = [
            ("formatting", Outcome::Passed, second),
            ("clippy", Outcome::Failed, second),
            ("advisories", Outcome::NotChecked("offline".into()), second),
        ];
        let expected = "\
passed          1.0 s  formatting
FAILED          1.0 s  clippy
NOT CHECKED     1.0 s  advisories: offline
";
        assert_eq!(summary(&ended), expected);
    }

    #[test]
    fn a_check_that_was_not_made_fails_in_continuous_integration() {
        let (outcome, none) = (Outcome::NotChecked("offline".into()), Accepted::default());
        assert!(is_fine("advisories", &outcome, &none, false));
        assert!(!is_fine("advisories", &outcome, &none, true));
        assert!(!is_fine("clippy", &Outcome::Failed, &none, false));
    }
}
