//! The file both programs read: written, made durable, and read once, so that all of it lies in the page cache.
//! It is gone when the bench ends: by itself, by an error, or by Ctrl-C.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::statistics::Xorshift;

const CHUNK_BYTES: usize = 1 << 20;

/// A file that is removed when this is dropped.
pub(super) struct CachedFile {
    path: PathBuf,
}

impl CachedFile {
    /// Makes the file anew, over what a killed bench may have left.
    pub(super) fn create(path: &Path, bytes: u64) -> Result<Self> {
        let at_signal = path.to_owned();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("catching Ctrl-C")?;
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                let _ = std::fs::remove_file(&at_signal);
                eprintln!("\nstopped; the bench's file is removed");
                std::process::exit(130);
            }
        });
        Self::fill(path, bytes)
    }

    fn fill(path: &Path, bytes: u64) -> Result<Self> {
        let what = || format!("making {} of {} MiB; is there room?", path.display(), bytes >> 20);
        let mut file = File::create(path).with_context(what)?;
        // From here on an error removes the file.
        let cached = Self { path: path.to_owned() };
        let chunk = random_bytes();
        for _ in 0..bytes / CHUNK_BYTES as u64 {
            file.write_all(&chunk).with_context(what)?;
        }
        // Dirty pages would be written back in the midst of a run.
        file.sync_all().with_context(what)?;
        read_all(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(cached)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            eprintln!("{} could not be removed: {error}; remove it by hand", self.path.display());
        }
    }
}

/// A file system may store zeroes as holes, and a hole is read another way.
fn random_bytes() -> Vec<u8> {
    let mut random = Xorshift(1);
    (0..CHUNK_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

fn read_all(path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    while file.read(&mut chunk)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_its_size_and_goes_with_its_owner() {
        let path = std::env::temp_dir().join(format!("xtask-bench-{}", std::process::id()));
        let file = CachedFile::fill(&path, 2 << 20).unwrap();
        assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 2 << 20);
        assert!(std::fs::read(&path).unwrap().windows(64).all(|window| window.iter().any(|byte| *byte != 0)));
        drop(file);
        assert!(!path.exists());
    }
}
