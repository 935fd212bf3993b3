//! The files of the repository, as git lists them: those that are kept, and new ones that git does not ignore.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::child::{program, root};

/// Every file, from the root.
pub(super) fn files() -> Result<Vec<PathBuf>> {
    let mut git = program("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let output = git.output().context("running git ls-files")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let files = names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()));
    Ok(files.filter(|file| root().join(file).is_file()).collect())
}

/// The text of one of them.
pub(super) fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| format!("reading {}", file.display()))
}
