//! `cargo xtask fuzz`: runs every target of `fuzz/fuzz_targets` for some seconds each, from its corpus and from what earlier runs here
//! reached. What fails stays in `fuzz/artifacts`, with the command that runs it again. The pinned compiler brings the sanitizer and the
//! counters of libFuzzer; only the switches are called unstable.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::child::{cargo, ensure_cargo_subcommand, root, succeeds};

const SECONDS_DEFAULT: u32 = 30;

/// Runs every target; `Ok(false)` if one failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let Asked { seconds, keeps } = parse(arguments)?;
    let targets = targets()?;
    ensure_cargo_subcommand("fuzz")?;
    let mut failed = Vec::new();
    for target in &targets {
        println!("\n== {target}, {seconds} s");
        if !run_one(target, seconds, keeps)? {
            failed.push(target.as_str());
        }
    }
    println!("\n{} targets, {} failed{}", targets.len(), failed.len(), list(&failed));
    Ok(failed.is_empty())
}

/// Runs a target; `Ok(false)` if it crashed, was too slow or did not build.
fn run_one(target: &str, seconds: u32, keeps: bool) -> Result<bool> {
    let corpus = format!("fuzz/corpus/{target}");
    let found = format!("fuzz/found/{target}");
    for folder in [&corpus, &found] {
        let folder = root().join(folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let limit = format!("-max_total_time={seconds}");
    // Without these it prints a line for every input it finds interesting, thousands of them. Inputs are as long as the longest of the
    // corpus, or 4096 bytes.
    let options = ["-verbosity=0", "-print_final_stats=1"];
    // New inputs go to the first folder.
    if !succeeds(fuzz(&[target, &found, &corpus, "--", &limit]).args(options))? {
        return Ok(false);
    }
    // The fewest files that reach all the code, however often each of it runs.
    let merge = [target, &corpus, &found, "--", "-set_cover_merge=1", "-use_counters=0"];
    Ok(!keeps || succeeds(fuzz(&merge).args(options))?)
}

/// cargo-fuzz, which runs a target with these arguments.
fn fuzz(arguments: &[&str]) -> Command {
    let mut command = cargo(&[&["fuzz", "run"], arguments].concat());
    command.env("RUSTC_BOOTSTRAP", "1");
    command
}

/// What the arguments ask for.
#[derive(Debug, PartialEq)]
struct Asked {
    /// For each target.
    seconds: u32,
    /// Whether inputs that reach code which no file of the corpus reaches join it.
    keeps: bool,
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let (keep, rest): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|argument| *argument == "--keep");
    let seconds = match rest[..] {
        [] => SECONDS_DEFAULT,
        // To libFuzzer 0 means forever.
        [text] if text != "0" => {
            text.parse().with_context(|| format!("`fuzz {text}`: not a whole number of seconds for each target"))?
        }
        _ => bail!("`fuzz` takes the seconds for each target, 1 or more, and --keep"),
    };
    Ok(Asked { seconds, keeps: !keep.is_empty() })
}

/// One file, one target; cargo-fuzz runs it by the file's name.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        rust.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

fn list(failed: &[&str]) -> String {
    if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<Asked> {
        parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn seconds_are_a_whole_number_above_zero() {
        assert_eq!(asked(&[]).unwrap(), Asked { seconds: SECONDS_DEFAULT, keeps: false });
        assert_eq!(asked(&["5", "--keep"]).unwrap(), Asked { seconds: 5, keeps: true });
        for words in [&["0"][..], &["x"], &["-1"], &["1", "2"]] {
            assert!(asked(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn every_target_file_is_named_in_the_manifest() {
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for target in targets().unwrap() {
            assert!(
                manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")),
                "{target} is not in fuzz/Cargo.toml"
            );
        }
    }
}
