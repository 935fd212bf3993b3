//! `cargo xtask lint` and `cargo xtask fmt`: everything about the code that can be checked without running it.
//! Every check runs even if one before it failed, so that one run tells all there is to mend.

use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};

use crate::child::{cannot_start, cargo, ensure_cargo_subcommand, shown, succeeds};

/// How a check ended.
#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// It could not be made here, and why; said aloud, but no failure.
    NotChecked(String),
}

/// A check's name and what runs it.
type Check = (&'static str, fn() -> Result<Outcome>);

const CHECKS: [Check; 5] = [
    ("formatting", check_formatting),
    ("clippy", check_clippy),
    ("documentation", check_documentation),
    ("dependencies: bans, licences, sources", check_dependencies),
    ("dependencies: advisories", check_advisories),
];

/// Runs every check and sums up; `Ok(false)` if one failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "`lint` takes no arguments, it was given `{}`", arguments.join(" "));
    let outcomes: Vec<(&str, Outcome)> = CHECKS.iter().map(|(name, check)| (*name, run_check(name, *check))).collect();
    print!("\n{}", summary(&outcomes));
    Ok(outcomes.iter().all(|(_, outcome)| *outcome != Outcome::Failed))
}

/// Formats the workspace and the fuzz targets, which are a workspace of their own.
pub(crate) fn format(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "`fmt` takes no arguments, it was given `{}`", arguments.join(" "));
    let workspace = succeeds(&mut cargo(&["fmt", "--all"]))?;
    Ok(succeeds(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml"]))? && workspace)
}

fn run_check(name: &str, check: fn() -> Result<Outcome>) -> Outcome {
    println!("\n== {name}");
    check().unwrap_or_else(|error| {
        println!("{error:#}");
        Outcome::Failed
    })
}

fn summary(outcomes: &[(&str, Outcome)]) -> String {
    let line = |(name, outcome): &(&str, Outcome)| match outcome {
        Outcome::Passed => format!("passed       {name}\n"),
        Outcome::Failed => format!("FAILED       {name}\n"),
        Outcome::NotChecked(why) => format!("NOT CHECKED  {name}: {why}\n"),
    };
    outcomes.iter().map(line).collect()
}

fn outcome_of(passed: bool) -> Outcome {
    if passed { Outcome::Passed } else { Outcome::Failed }
}

fn check_formatting() -> Result<Outcome> {
    let workspace = succeeds(&mut cargo(&["fmt", "--all", "--check"]))?;
    let fuzz = succeeds(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    if !(workspace && fuzz) {
        println!("run `cargo xtask fmt`");
    }
    Ok(outcome_of(workspace && fuzz))
}

fn check_clippy() -> Result<Outcome> {
    let clippy = |workspace: &[&str]| {
        let rules = ["--all-targets", "--keep-going", "--", "-D", "warnings"];
        succeeds(&mut cargo(&[&["clippy"], workspace, &rules].concat()))
    };
    let workspace = clippy(&["--workspace"])?;
    // Nothing else builds the fuzz targets day by day, and they would go stale unseen.
    let fuzz = clippy(&["--manifest-path", "fuzz/Cargo.toml"])?;
    Ok(outcome_of(workspace && fuzz))
}

fn check_documentation() -> Result<Outcome> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--keep-going"]);
    succeeds(doc.env("RUSTDOCFLAGS", "-D warnings")).map(outcome_of)
}

fn check_dependencies() -> Result<Outcome> {
    ensure_cargo_subcommand("deny")?;
    let mut deny = cargo(&["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    succeeds(&mut deny).map(outcome_of)
}

fn check_advisories() -> Result<Outcome> {
    ensure_cargo_subcommand("deny")?;
    // Fetched by a call of its own: from `check` alone one cannot tell a hole from a net that is down.
    let fetch = output_of(&["deny", "fetch", "db"])?;
    if !fetch.status.success() {
        let why = why_not_fetched(&String::from_utf8_lossy(&fetch.stderr));
        println!("advisories were not checked: {why}");
        return Ok(Outcome::NotChecked(why));
    }
    succeeds(&mut cargo(&["deny", "check", "--disable-fetch", "advisories"])).map(outcome_of)
}

fn output_of(arguments: &[&str]) -> Result<Output> {
    let mut command = cargo(arguments);
    let name = shown(&command);
    println!("$ {name}");
    // A git that wants a password must fail here, not wait for one.
    command.env("GIT_TERMINAL_PROMPT", "0").stdout(Stdio::null()).output().with_context(|| cannot_start(&name))
}

/// The reason that stands last in what git printed, after the line that names the clone command.
fn why_not_fetched(complaint: &str) -> String {
    let reason = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let reason = reason.unwrap_or("no reason given").trim_start_matches("fatal: ");
    format!("their database could not be fetched ({reason}); run `cargo deny check advisories` where it can")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_checked_is_said_aloud() {
        let outcomes = [
            ("formatting", Outcome::Passed),
            ("clippy", Outcome::Failed),
            ("advisories", Outcome::NotChecked("offline".into())),
        ];
        let expected = "passed       formatting\nFAILED       clippy\nNOT CHECKED  advisories: offline\n";
        assert_eq!(summary(&outcomes), expected);
    }

    #[test]
    fn gits_own_reason_is_passed_on() {
        let complaint =
            "[ERROR] failed to fetch: [\"clone\"]\nCloning into 'x'...\nfatal: unable to access 'y': no host\n\n";
        assert!(why_not_fetched(complaint).contains("(unable to access 'y': no host)"));
        assert!(why_not_fetched("").contains("no reason given"));
    }
}
