//! The targets: scratch files with and without O_DIRECT, on tmpfs, loop devices of both block sizes, the made-up devices,
//! and devices named by `IOLANE_CONFORMANCE_TARGETS`, which are overwritten.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use iolane::{Target, TargetOptions};

use crate::fixtures::{LoopDevice, ScratchFile, StoppableDevice};
use crate::report::{self, Skip};

/// Size of the targets that the suite makes itself.
pub(crate) const PLACE_BYTES: u64 = 16 << 20;

/// Something to open targets on; it is gone when this is dropped.
pub(crate) struct Place {
    /// What it is called in messages.
    pub(crate) label: String,
    /// Its column in the table.
    pub(crate) column: String,
    name: PathBuf,
    direct: bool,
    holds: Holds,
}

/// What a place keeps alive.
enum Holds {
    /// A file, and the folder in which others like it are made.
    File {
        _file: ScratchFile,
        folder: PathBuf,
    },
    Loop(LoopDevice),
    Device,
    MadeUp,
}

impl Place {
    pub(crate) fn file(column: &str, folder: &Path, direct: bool, bytes: u64) -> Result<Self, Skip> {
        let file = ScratchFile::new(folder, bytes)
            .map_err(|error| Skip::new(format!("a file in {}: {error}", folder.display()), "set TMPDIR"))?;
        Ok(Self {
            label: column.into(),
            column: column.into(),
            name: file.path(),
            direct,
            holds: Holds::File { _file: file, folder: folder.into() },
        })
    }

    pub(crate) fn loop_device(column: &str, sector_bytes: u32) -> Result<Self, Skip> {
        let backing = ScratchFile::new(&std::env::temp_dir(), PLACE_BYTES)
            .map_err(|error| Skip::new(format!("a file in TMPDIR: {error}"), "set TMPDIR"))?;
        let device = LoopDevice::new(backing, sector_bytes)?;
        Ok(Self {
            label: column.into(),
            column: column.into(),
            name: device.path.clone(),
            direct: true,
            holds: Holds::Loop(device),
        })
    }

    /// The device that can be stopped, which the caller holds.
    pub(crate) fn stoppable(device: &StoppableDevice) -> Self {
        let name = device.device.path.clone();
        Self { label: "loop512 (stopped)".into(), column: "loop512".into(), name, direct: true, holds: Holds::Device }
    }

    fn device(name: &str) -> Self {
        Self { label: name.into(), column: name.into(), name: name.into(), direct: true, holds: Holds::Device }
    }

    fn made_up(column: &str, name: &str) -> Self {
        Self { label: column.into(), column: column.into(), name: name.into(), direct: true, holds: Holds::MadeUp }
    }

    /// Calls it something else in messages.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        self.label = label.into();
        self
    }

    /// Another file of this kind and of the given size; `None` if this is no file.
    pub(crate) fn another_file(&self, bytes: u64) -> Result<Option<Self>, Skip> {
        match &self.holds {
            Holds::File { folder, .. } => Self::file(&self.column, folder, self.direct, bytes).map(Some),
            _ => Ok(None),
        }
    }

    fn options(&self) -> TargetOptions {
        Target::options().direct(self.direct).called(self.label.clone())
    }

    /// Opens it for reading and writing.
    pub(crate) fn open(&self) -> iolane::Result<Target> {
        self.options().write(true).open(&self.name)
    }

    pub(crate) fn open_to_read(&self) -> iolane::Result<Target> {
        self.options().open(&self.name)
    }

    /// The same bytes through the standard library, to write before and look after; `None` for made-up devices. A generic
    /// NVMe device has its block device beside it.
    pub(crate) fn plain(&self) -> std::io::Result<Option<File>> {
        if matches!(self.holds, Holds::MadeUp) {
            return Ok(None);
        }
        let name = self.name.to_string_lossy();
        let block_device = name.strip_prefix("/dev/ng").map(|rest| PathBuf::from(format!("/dev/nvme{rest}")));
        OpenOptions::new().read(true).write(true).open(block_device.as_ref().unwrap_or(&self.name)).map(Some)
    }

    /// The loop device, where it is one.
    pub(crate) fn as_loop(&self) -> Option<&LoopDevice> {
        match &self.holds {
            Holds::Loop(device) => Some(device),
            _ => None,
        }
    }

    pub(crate) fn is_made_up(&self) -> bool {
        matches!(self.holds, Holds::MadeUp)
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.holds, Holds::File { .. })
    }
}

/// Every place there is here; those that cannot be had are skipped aloud.
pub(crate) fn everywhere() -> Vec<Place> {
    let folder = std::env::temp_dir();
    let mut places = Vec::new();
    for (name, made) in [
        ("file", Place::file("file", &folder, true, PLACE_BYTES)),
        ("buffered", Place::file("buffered", &folder, false, PLACE_BYTES)),
        ("tmpfs", on_tmpfs()),
        ("loop512", Place::loop_device("loop512", 512)),
        ("loop4k", Place::loop_device("loop4k", 4096)),
    ] {
        match made {
            Ok(place) => places.push(place),
            Err(skip) => report::skipped_everywhere(name, &skip),
        }
    }
    places.push(Place::made_up("sim", "sim:16m"));
    places.push(Place::made_up("null", "null"));
    let named = std::env::var("IOLANE_CONFORMANCE_TARGETS").unwrap_or_default();
    places.extend(named.split_whitespace().map(Place::device));
    places.iter().for_each(|place| report::column(&place.column));
    places
}

/// A file system that has no device and not all operations.
fn on_tmpfs() -> Result<Place, Skip> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let folder = Path::new("/dev/shm");
    match rustix::fs::statfs(folder) {
        Ok(found) if found.f_type == TMPFS_MAGIC => Place::file("tmpfs", folder, false, PLACE_BYTES),
        _ => Err(Skip::new("/dev/shm is no tmpfs", "mount one there")),
    }
}
