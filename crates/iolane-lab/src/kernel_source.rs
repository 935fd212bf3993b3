//! Which kernel a guest boots, as people name it, and where it is found: the host's own, a file, or one of Debian's by its
//! version.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use iolane_core::{Error, Result};

use crate::cache::Cache;
use crate::debian;
use crate::kernel::{Kernel, is_version, release_of};

/// What people write after `--kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// The one this machine runs.
    Host,
    /// One of Debian's: `6.1`, or more exactly `7.2.11`.
    Debian(String),
    /// A `vmlinuz`, whose modules are found by its version, or a Debian package.
    File(PathBuf),
}

/// The kernel to boot where none is named and the host's own cannot be read.
pub const FALLBACK_VERSION: &str = "6.1";

impl FromStr for KernelSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "host" => Ok(Self::Host),
            path if path.contains('/') || Path::new(path).is_file() => Ok(Self::File(path.into())),
            version if is_version(version) => Ok(Self::Debian(version.into())),
            _ => Err(Error::usage(format!("kernel `{text}`"), "neither a version, nor a file, nor `host`")
                .remedy("write it like 6.1, ./vmlinuz or host")),
        }
    }
}

impl fmt::Display for KernelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Debian(version) => f.write_str(version),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Kernel {
    /// Finds it, fetching it if need be; `say` is told about what takes long.
    ///
    /// # Errors
    /// Unavailable if it is not there, cannot be read or cannot be fetched; failed if what is there is damaged.
    pub fn find(source: &KernelSource, cache: &Cache, say: &mut dyn FnMut(&str)) -> Result<Self> {
        match source {
            KernelSource::Host => Self::of_host(),
            KernelSource::Debian(version) => debian::kernel(version, cache, say),
            KernelSource::File(path) if path.extension().is_some_and(|extension| extension == "deb") => {
                debian::from_package(path, cache)
            }
            KernelSource::File(path) => Self::of_file(path),
        }
    }

    /// The host's own, or the one of Debian's that stands in for it where it cannot be read; `say` is told which.
    ///
    /// # Errors
    /// As [`Kernel::find`].
    pub fn find_default(cache: &Cache, say: &mut dyn FnMut(&str)) -> Result<Self> {
        Self::of_host().or_else(|error| {
            say(&format!("{error}; taking Debian's {FALLBACK_VERSION}"));
            Self::find(&KernelSource::Debian(FALLBACK_VERSION.into()), cache, say)
        })
    }

    fn of_host() -> Result<Self> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let folder = PathBuf::from("/lib/modules").join(&release);
        let candidates = [PathBuf::from(format!("/boot/vmlinuz-{release}")), folder.join("vmlinuz")];
        let Some(image) = candidates.iter().find(|image| image.exists()) else {
            let what = format!("the host's kernel {release}");
            return Err(Error::unavailable(what, format!("there is no {}", candidates[0].display()))
                .remedy("name one, as in --kernel 6.1"));
        };
        Self::new(image, release_of(image)?, &folder, "the host's")
    }

    fn of_file(image: &Path) -> Result<Self> {
        let release = release_of(image)?;
        let beside = image.parent().unwrap_or(Path::new("."));
        let homes = [beside.join("../lib/modules"), beside.join("../usr/lib/modules"), "/lib/modules".into()];
        let folder = homes.iter().map(|home| home.join(&release)).chain([beside.to_owned()]);
        let Some(folder) = folder.into_iter().find(|folder| folder.join("kernel").is_dir()) else {
            let what = format!("the modules of {}", image.display());
            let cause = format!("there is no folder lib/modules/{release} beside it or on this machine");
            return Err(Error::unavailable(what, cause).remedy("unpack the kernel's whole package"));
        };
        Self::new(image, release, &folder, &format!("from {}", image.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_version_file_or_host() {
        assert_eq!("6.1".parse::<KernelSource>().unwrap(), KernelSource::Debian("6.1".into()));
        assert_eq!("7.2.11".parse::<KernelSource>().unwrap(), KernelSource::Debian("7.2.11".into()));
        assert_eq!("host".parse::<KernelSource>().unwrap(), KernelSource::Host);
        assert_eq!("./vmlinuz".parse::<KernelSource>().unwrap(), KernelSource::File("./vmlinuz".into()));
        for bad in ["", "six", "6", "6.", "6.x", "-1.2"] {
            assert!(bad.parse::<KernelSource>().is_err(), "{bad}");
        }
    }
}
