//! The root file system of a guest: a cpio archive in memory with process 1, its libraries, the modules, the orders, the
//! files that commands are given, and nothing else. Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cpio::newc;
use iolane_core::{Error, Result};

use crate::{files, program};

const FOLDER_MODE: u32 = 0o040_755;
const DEVICE_MODE: u32 = 0o020_600;
const LINK_MODE: u32 = 0o120_777;
const FILE_TYPE: u32 = 0o100_000;

/// An archive that grows in a file without a name.
pub(crate) struct Initramfs {
    file: File,
    /// What it has, so that nothing is written twice.
    paths: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// One with the console that process 1 complains to.
    pub(crate) fn new() -> Result<Self> {
        let memory = rustix::fs::memfd_create("iolane-initramfs", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| Error::system("the guest's initramfs", error))?;
        let mut archive = Self { file: memory.into(), paths: BTreeSet::new() };
        archive.folder(Path::new("/dev"))?;
        // Device 5:1, which the kernel gives process 1 as its standard streams.
        archive.entry(Path::new("/dev/console"), DEVICE_MODE, Some((5, 1)), b"")?;
        Ok(archive)
    }

    /// A program and what it needs to run.
    pub(crate) fn program(&mut self, from: &Path, to: &Path) -> Result<()> {
        for library in program::libraries(from)? {
            self.copy(&library, &library)?;
        }
        self.copy(from, to)
    }

    /// A file of the host.
    pub(crate) fn copy(&mut self, from: &Path, to: &Path) -> Result<()> {
        let bytes = files::read(from)?;
        let found = std::fs::metadata(from).map_err(|error| Error::system(from.display().to_string(), error))?;
        self.file(to, found.permissions().mode() & 0o777, &bytes)
    }

    /// A file of these bytes.
    pub(crate) fn file(&mut self, to: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
        self.folder(to.parent().unwrap_or(Path::new("/")))?;
        self.entry(to, FILE_TYPE | mode, None, bytes)
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, to: &Path, target: &str) -> Result<()> {
        self.entry(to, LINK_MODE, None, target.as_bytes())
    }

    /// A folder and those above it.
    pub(crate) fn folder(&mut self, path: &Path) -> Result<()> {
        let above: Vec<&Path> = path.ancestors().filter(|above| above.parent().is_some()).collect();
        above.into_iter().rev().try_for_each(|folder| self.entry(folder, FOLDER_MODE, None, b""))
    }

    fn entry(&mut self, path: &Path, mode: u32, device: Option<(u32, u32)>, bytes: &[u8]) -> Result<()> {
        if !self.paths.insert(path.to_owned()) {
            return Ok(());
        }
        let name = path.to_string_lossy();
        let mut entry = newc::Builder::new(name.trim_start_matches('/')).mode(mode).nlink(1);
        entry = entry.ino(self.paths.len() as u32);
        if let Some((major, minor)) = device {
            entry = entry.rdev_major(major).rdev_minor(minor);
        }
        let bytes_u32 = u32::try_from(bytes.len())
            .map_err(|_| Error::usage(format!("file {name}"), "larger than 4 GiB, too large for a guest's memory"))?;
        let write = || {
            let mut writer = entry.write(&self.file, bytes_u32);
            writer.write_all(bytes)?;
            writer.finish()
        };
        write().map(drop).map_err(|error| Error::system(format!("{name} in the guest's initramfs"), error))
    }

    /// The archive, complete.
    pub(crate) fn finish(mut self) -> Result<File> {
        let mut complete = || {
            newc::trailer(&self.file)?;
            self.file.seek(SeekFrom::Start(0))
        };
        complete().map_err(|error| Error::system("the guest's initramfs", error))?;
        Ok(self.file)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Names, modes and sizes, as another reader of the format sees them.
    fn listed(mut file: File) -> Vec<(String, u32, u32)> {
        let mut entries = Vec::new();
        loop {
            let reader = newc::Reader::new(file).unwrap();
            let entry = reader.entry().clone();
            if entry.is_trailer() {
                return entries;
            }
            entries.push((entry.name().to_owned(), entry.mode(), entry.file_size()));
            file = reader.finish().unwrap();
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_nothing_comes_twice() {
        let mut archive = Initramfs::new().unwrap();
        archive.file(Path::new("/lab/modules/nvme.ko"), 0o644, b"module").unwrap();
        archive.file(Path::new("/lab/job.json"), 0o600, b"{}").unwrap();
        archive.file(Path::new("/lab/job.json"), 0o600, b"{}").unwrap();
        archive.link(Path::new("/init"), "/bin/iolane").unwrap();
        let expected = [
            ("dev", FOLDER_MODE, 0),
            ("dev/console", DEVICE_MODE, 0),
            ("lab", FOLDER_MODE, 0),
            ("lab/modules", FOLDER_MODE, 0),
            ("lab/modules/nvme.ko", 0o100_644, 6),
            ("lab/job.json", 0o100_600, 2),
            ("init", LINK_MODE, 11),
        ];
        let expected: Vec<_> = expected.iter().map(|(name, mode, size)| (name.to_string(), *mode, *size)).collect();
        assert_eq!(listed(archive.finish().unwrap()), expected);
    }

    #[test]
    fn a_file_goes_in_as_it_is() {
        let mut archive = Initramfs::new().unwrap();
        archive.copy(Path::new("/proc/self/exe"), Path::new("/bin/this")).unwrap();
        let mut bytes = Vec::new();
        archive.finish().unwrap().read_to_end(&mut bytes).unwrap();
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(bytes.windows(64).any(|window| window == &this[..64]));
        assert!(bytes.len() > this.len());
    }
}
