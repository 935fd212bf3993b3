//! `cargo xtask fuzz`: runs every target of `fuzz/fuzz_targets` for some seconds each.
//! What it finds stays in `fuzz/artifacts`, with the command that runs it again.

use anyhow::{Context, Result, bail};

use crate::child::{cargo, ensure_cargo_subcommand, program, root, succeeds, succeeds_quietly};

const SECONDS_DEFAULT: u32 = 30;

/// Runs every target; `Ok(false)` if one crashed, was too slow or did not build.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let seconds = parse_seconds(arguments)?;
    let targets = targets()?;
    // cargo-fuzz needs the compiler's sanitizers, which only nightly offers.
    if !succeeds_quietly(program("cargo").args(["+nightly", "--version"])) {
        println!("SKIPPED fuzz: no nightly toolchain; run `rustup toolchain install nightly --profile minimal`");
        return Ok(true);
    }
    ensure_cargo_subcommand("fuzz")?;
    let mut failed = Vec::new();
    for target in &targets {
        println!("\n== {target}, {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        // Without these two it prints a line for every input it finds interesting, thousands of them.
        let quiet = ["-verbosity=0", "-print_final_stats=1"];
        if !succeeds(cargo(&["+nightly", "fuzz", "run", target, "--", &limit]).args(quiet))? {
            failed.push(target.as_str());
        }
    }
    println!("\n{} targets, {} failed{}", targets.len(), failed.len(), list(&failed));
    Ok(failed.is_empty())
}

fn parse_seconds(arguments: &[String]) -> Result<u32> {
    match arguments {
        [] => Ok(SECONDS_DEFAULT),
        // To libFuzzer 0 means forever.
        [text] if text != "0" => {
            text.parse().with_context(|| format!("`fuzz {text}`: not a whole number of seconds for each target"))
        }
        _ => bail!("`fuzz` takes one argument, the seconds for each target, 1 or more"),
    }
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

    fn seconds(words: &[&str]) -> Result<u32> {
        parse_seconds(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn seconds_are_a_whole_number_above_zero() {
        assert_eq!(seconds(&[]).unwrap(), SECONDS_DEFAULT);
        assert_eq!(seconds(&["5"]).unwrap(), 5);
        for words in [&["0"][..], &["x"], &["-1"], &["1", "2"]] {
            assert!(seconds(words).is_err(), "{words:?}");
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
