//! `iolane lab fetch` and `iolane lab kernels`: the cache of kernels.

use iolane_lab::cache::Cache;
use iolane_lab::{Kernel, KernelSource, debian};

use super::guest::say;
use crate::outcome::Outcome;
use crate::output::{self, CellAlignment};

/// Downloads kernels into the cache.
pub(super) fn fetch(versions: &[KernelSource]) -> anyhow::Result<Outcome> {
    let cache = Cache::of_user()?;
    for version in versions {
        let kernel = Kernel::find(version, &cache, &mut |line: &str| say(line))?;
        output::print(&format!("{version}: Linux {} ({})\n", kernel.release, kernel.origin))?;
    }
    Ok(Outcome::Done)
}

/// Lists the kernels in the cache.
pub(super) fn list() -> anyhow::Result<Outcome> {
    let cache = Cache::of_user()?;
    let rows: Vec<Vec<String>> =
        debian::kept(&cache).into_iter().map(|(name, kernel)| vec![name, kernel.release, kernel.origin]).collect();
    output::print(&match rows.is_empty() {
        true => "No kernel is cached yet; `iolane lab fetch 6.1` downloads one.\n".into(),
        false => output::table(&["--kernel", "release", "from"], &rows, CellAlignment::Left),
    })?;
    output::print(&format!("\nCached in {}\n", cache.folder().display()))?;
    Ok(Outcome::Done)
}
