//! The checks that programs of others make: rustfmt, clippy, rustdoc, cargo-deny. Each says how it ended.

use std::process::{Output, Stdio};

use anyhow::{Context, Result};

use super::outcome::{Outcome, outcome_of};
use crate::child::{cannot_start, cargo, ensure_deny, shown, succeeds};

pub(super) fn formatting() -> Result<Outcome> {
    let workspace = succeeds(&mut cargo(&["fmt", "--all", "--check"]))?;
    let fuzz = succeeds(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    if !(workspace && fuzz) {
        println!("run `cargo xtask fmt`");
    }
    Ok(outcome_of(workspace && fuzz))
}

pub(super) fn clippy() -> Result<Outcome> {
    let clippy = |workspace: &[&str]| {
        let rules = ["--all-targets", "--keep-going", "--", "-D", "warnings"];
        succeeds(&mut cargo(&[&["clippy"], workspace, &rules].concat()))
    };
    let workspace = clippy(&["--workspace"])?;
    // Nothing else builds the fuzz targets day by day, and they would go stale unseen.
    let fuzz = clippy(&["--manifest-path", "fuzz/Cargo.toml"])?;
    Ok(outcome_of(workspace && fuzz))
}

pub(super) fn documentation() -> Result<Outcome> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--keep-going"]);
    succeeds(doc.env("RUSTDOCFLAGS", "-D warnings")).map(outcome_of)
}

pub(super) fn dependencies() -> Result<Outcome> {
    ensure_deny()?;
    all_locks(&["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
}

pub(super) fn advisories() -> Result<Outcome> {
    ensure_deny()?;
    // Fetched by a call of its own: from `check` alone one cannot tell a hole from a net that is down.
    let fetch = output_of(&["deny", "fetch", "db"])?;
    if !fetch.status.success() {
        let why = why_not_fetched(&String::from_utf8_lossy(&fetch.stderr));
        println!("advisories were not checked: {why}");
        return Ok(Outcome::NotChecked(why));
    }
    all_locks(&["check", "--disable-fetch", "advisories"])
}

/// Runs cargo-deny on the workspace, and on the fuzz targets, which have a lock file of their own.
fn all_locks(arguments: &[&str]) -> Result<Outcome> {
    let deny = |manifest: &str| succeeds(&mut cargo(&[&["deny", "--manifest-path", manifest], arguments].concat()));
    let (workspace, fuzz) = (deny("Cargo.toml")?, deny("fuzz/Cargo.toml")?);
    Ok(outcome_of(workspace && fuzz))
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
    fn gits_own_reason_is_passed_on() {
        let complaint =
            "[ERROR] failed to fetch: [\"clone\"]\nCloning into 'x'...\nfatal: unable to access 'y': no host\n\n";
        assert!(why_not_fetched(complaint).contains("(unable to access 'y': no host)"));
        assert!(why_not_fetched("").contains("no reason given"));
    }
}
