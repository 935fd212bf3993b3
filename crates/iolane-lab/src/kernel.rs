//! A kernel that a guest can boot: its image and the modules that a guest needs. Where kernels come from is known to
//! `kernel_source`, `debian` and `kernel_store`.

use std::path::{Path, PathBuf};

use iolane_core::{Error, ErrorKind, Result};

use crate::modules::{self, Module};
use crate::{boot_image, files};

/// A kernel that can be booted, and its modules in the order in which they load.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// What `uname -r` will say, such as `6.1.0-56-amd64`.
    pub release: String,
    /// Where it comes from, for people.
    pub origin: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: Vec<Module>,
}

impl Kernel {
    /// Of an image and its `lib/modules/RELEASE`.
    pub(crate) fn new(image: &Path, release: String, modules_folder: &Path, origin: &str) -> Result<Self> {
        let modules = modules::in_load_order(modules_folder, &modules::all_wanted())?;
        Ok(Self { release, origin: origin.into(), image: image.to_owned(), modules })
    }

    /// Whether the kernel is at least of this version.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
    }
}

/// Whether this is written like the version of a kernel: `6.1`, `7.2.11`.
pub(crate) fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.contains('.') && text.split('.').all(is_number)
}

/// The release that a `vmlinuz` names in its header.
pub(crate) fn release_of(image: &Path) -> Result<String> {
    let bytes = files::read(image).map_err(|error| match error.kind() {
        ErrorKind::Unavailable => error.remedy(format!("as root: chmod a+r {}", image.display())),
        _ => error.with_kind(ErrorKind::Unavailable).remedy("name a kernel, as in --kernel 6.1"),
    })?;
    boot_image::release(&bytes).ok_or_else(|| {
        Error::usage(format!("kernel {}", image.display()), "not an x86 boot image (bzImage)")
            .remedy("name a vmlinuz, not a vmlinux, or a Debian package")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let kernel = |release: &str| Kernel {
            release: release.into(),
            origin: String::new(),
            image: PathBuf::new(),
            modules: Vec::new(),
        };
        assert!(kernel("6.12.3+deb13").is_at_least(6, 1));
        assert!(!kernel("5.10.0-46-amd64").is_at_least(5, 19));
        assert!(kernel("7.2.11").is_at_least(7, 2));
    }
}
