//! The QEMU that runs a guest: the one that is installed, or for exact mode with several processors, if that is too old, one of Debian's
//! backports in the lab's cache. Nothing is installed. `session` asks, and `qemu` starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iolane_core::error::describe;
use iolane_core::{Error, Result};

use crate::cache::Cache;
use crate::debian;

pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// From this version on QEMU divides the instructions that are left until the next timer among the processors. Before it, the first one
/// executed all of them (accel/tcg/tcg-accel-ops-icount.c, `icount_percpu_budget`).
const SHARES_TIME: (u32, u32) = (8, 1);

/// The same for people.
const NEWER: &str = "QEMU 8.1 or later (Debian 13 has 10.0)";

/// Debian's suite with a newer QEMU for the release that has an older one, and its packages. What they depend on is the same as for the
/// older one.
const SUITE: &str = "bookworm-backports";
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-common", "qemu-system-data"];

/// A program, and the folders in which it looks for firmware besides its own.
#[derive(Debug, PartialEq)]
pub(crate) struct Emulator {
    pub(crate) program: PathBuf,
    firmware: Vec<PathBuf>,
}

impl Emulator {
    pub(crate) fn installed() -> Self {
        Self { program: PROGRAM.into(), firmware: Vec::new() }
    }

    /// One whose processors share the time in exact mode.
    ///
    /// # Errors
    /// Unavailable if none is installed, or the one that is is too old and no other can be fetched or run.
    pub(crate) fn sharing_time(cache: &Cache, say: &mut dyn FnMut(&str)) -> Result<Self> {
        let installed = Self::installed();
        let found = installed.version()?;
        if found >= SHARES_TIME {
            return Ok(installed);
        }
        let tree = cache.emulator();
        let fetched = Self {
            program: tree.join("usr/bin").join(PROGRAM),
            firmware: vec![tree.join("usr/share/qemu"), "/usr/share/seabios".into()],
        };
        if !fetched.program.exists() {
            fetch(&tree, found, cache, say)?;
        }
        let remedy = format!("remove {}, or install {NEWER}", tree.display());
        match fetched.version().map_err(|error| error.remedy(&remedy))? {
            version if version >= SHARES_TIME => Ok(fetched),
            (major, minor) => {
                let cause = format!("QEMU {major}.{minor} cannot share time among processors");
                Err(Error::unavailable(fetched.program.display().to_string(), cause).remedy(remedy))
            }
        }
    }

    /// Major and minor version.
    fn version(&self) -> Result<(u32, u32)> {
        let shown = self.program.display().to_string();
        let output = Command::new(&self.program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.not_started(&error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        version_in(&text).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or(text.trim()).to_owned();
            Error::unavailable(shown, format!("it does not tell its version: {complaint}"))
        })
    }

    /// Why it did not start.
    pub(crate) fn not_started(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::NotFound => Error::unavailable("the lab", format!("{PROGRAM} is not installed"))
                .remedy("as root: apt-get install qemu-system-x86"),
            _ => Error::failed(self.program.display().to_string(), describe(error)),
        }
    }

    /// Its arguments about itself.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = OsString> + '_ {
        let existing = self.firmware.iter().filter(|folder| Path::is_dir(folder));
        existing.flat_map(|folder| ["-L".into(), folder.clone().into_os_string()])
    }
}

/// Fetches Debian's newer QEMU into a folder of the cache.
fn fetch(tree: &Path, found: (u32, u32), cache: &Cache, say: &mut dyn FnMut(&str)) -> Result<()> {
    let workshop = cache.workshop()?;
    // Another run may have fetched it while this one waited for the lock.
    if tree.join("usr/bin").join(PROGRAM).exists() {
        return Ok(());
    }
    let (major, minor) = found;
    say(&format!(
        "QEMU {major}.{minor} cannot share time among processors; fetching that of Debian's {SUITE}, once (13 MB)"
    ));
    let unpacked = workshop.folder().join("qemu");
    debian::unpack_packages(SUITE, &PACKAGES.map(str::to_owned), &unpacked).map_err(|error| {
        error.remedy(format!("is {} reachable from here? without it install {NEWER}", debian::MIRROR))
    })?;
    std::fs::rename(&unpacked, tree).map_err(|error| Error::system(tree.display().to_string(), error))
}

/// The version in what QEMU prints of itself: `QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7)`.
fn version_in(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("version ")?.1.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_qemu_prints() {
        assert_eq!(version_in("QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7+deb12u16)\nCopyright"), Some((7, 2)));
        assert_eq!(version_in("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)"), Some((10, 0)));
        assert_eq!(version_in("qemu: error while loading shared libraries"), None);
        assert!((10, 0) > SHARES_TIME && (8, 0) < SHARES_TIME);
    }
}
