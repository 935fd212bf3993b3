//! `cargo xtask test`: builds everything, runs every test, here and in guests, and sums up what passed, what failed and what
//! was skipped.
//! A test that cannot run here prints a line `SKIPPED what: why`; no such line is lost.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::child::{cannot_start, cargo, root, shown, succeeds};
use crate::tally::Tally;
use crate::{assets, guests, packages};

/// Runs every test, or those whose name holds one of the filters; `Ok(false)` if one failed.
pub(crate) fn run(filters: &[String]) -> Result<bool> {
    for package in packages::install(&packages::FOR_TESTS) {
        println!("Without {}: {} will be skipped", package.name, package.needed_by);
    }
    if let Err(error) = assets::fetch_checker() {
        println!("Without {}: pages will not be checked for accessibility: {error:#}", assets::CHECKER);
    }
    // Built first, so that a build that fails is not taken for a test that fails.
    if !succeeds(&mut cargo(&["build", "--workspace", "--all-targets"]))? {
        println!("\nNo test ran: the build failed, see above");
        return Ok(false);
    }
    let mut tally = Tally::default();
    let mut all_ended_well = run_suite(&[], filters, &mut tally)?;
    if has_examples(&root().join("crates"))? {
        all_ended_well &= run_suite(&["--examples"], filters, &mut tally)?;
    }
    if !all_ended_well && tally.failed == 0 {
        println!("\nA test program did not build, or died before it could report: see above; counted as one failure");
        tally.failed = 1;
    }
    if filters.is_empty() {
        let table = guests::run_all(&[], &mut tally, true)?;
        print!("\n{table}");
    }
    print!("{}", tally.summary());
    Ok(tally.failed == 0)
}

/// Whether any crate has examples; asking cargo for those of none is an error.
fn has_examples(crates: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(crates).with_context(|| format!("reading {}", crates.display()))?;
    Ok(entries.filter_map(Result::ok).any(|entry| entry.path().join("examples").is_dir()))
}

/// Runs `cargo test`, shows its output as it comes, counts, and says whether cargo was content.
fn run_suite(targets: &[&str], filters: &[String], tally: &mut Tally) -> Result<bool> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    // libtest hides what passing tests print, `SKIPPED` lines too, unless told to show it.
    command.args(targets).args(["--", "--show-output"]).args(filters);
    let name = shown(&command);
    println!("\n$ {name}");
    // One pipe for both streams keeps cargo's headings above the results they belong to.
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command.stdout(writer.try_clone().context("making a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| cannot_start(&name))?;
    // It holds writing ends of the pipe, and while those are open reading never sees the end.
    drop(command);
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).with_context(|| format!("reading from `{name}`"))? > 0 {
        if tally.take(String::from_utf8_lossy(&line).trim_end()) {
            std::io::stdout().write_all(&line).context("writing to stdout")?;
        }
        line.clear();
    }
    Ok(child.wait().with_context(|| format!("waiting for `{name}`"))?.success())
}
