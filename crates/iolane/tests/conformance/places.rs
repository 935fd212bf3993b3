//! The targets: scratch files with and without O_DIRECT, on tmpfs, loop devices of both block sizes, simulated devices, and
//! devices named by `IOLANE_CONFORMANCE_TARGETS`, which are overwritten. `IOLANE_CONFORMANCE_PLACES` leaves out what it does not name.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use iolane::{Target, TargetKind, TargetOptions};

use crate::content;
use crate::drive;
use crate::fixtures::{LoopDevice, ScratchFile, StoppableDevice};
use crate::report::{self, Skip};

/// Size of the targets that the suite makes itself.
pub(crate) const PLACE_BYTES: u64 = 16 << 20;

const FORGETS_REMEDY: &str = "load it with memory_backed=1, or configure one so";

/// Something to open targets on; it is gone when this is dropped.
pub(crate) struct Place {
    /// What it is called in messages.
    pub(crate) label: String,
    /// Its column in the table.
    pub(crate) column: String,
    name: PathBuf,
    direct: bool,
    keeps_data: bool,
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
    /// A target without a descriptor: a simulated device, a controller without a kernel driver.
    Apart,
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
            keeps_data: true,
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
            keeps_data: true,
            holds: Holds::Loop(device),
        })
    }

    /// The device that can be stopped, which the caller holds.
    pub(crate) fn stoppable(device: &StoppableDevice) -> Self {
        let name = device.device.path.clone();
        let (label, column) = ("loop512 (stopped)".into(), "loop512".into());
        Self { label, column, name, direct: true, keeps_data: true, holds: Holds::Device }
    }

    fn device(name: &str) -> Self {
        let (label, column) = (name.into(), name.into());
        let holds = if name.starts_with("pci:") { Holds::Apart } else { Holds::Device };
        let mut place = Self { label, column, name: name.into(), direct: true, keeps_data: true, holds };
        if name.starts_with("/dev/nullb") && place.forgets() {
            report::skipped_everywhere(
                &format!("the data of {name}"),
                &Skip::new("null_blk keeps none, so that counts, tags and errors are checked there", FORGETS_REMEDY),
            );
            place.keeps_data = false;
        }
        place
    }

    fn simulated(column: &str, name: &str) -> Self {
        let (label, column) = (column.into(), column.into());
        let keeps_data = TargetKind::simulated(name.as_ref()).is_some_and(TargetKind::keeps_data);
        Self { label, column, name: name.into(), direct: true, keeps_data, holds: Holds::Apart }
    }

    /// Whether a block that was written reads as something else.
    fn forgets(&self) -> bool {
        let written = content::content(4096, 0, 99);
        let moved = self.open().map_err(anyhow::Error::from).and_then(|target| {
            drive::put(self, &target, 0, &written)?;
            drive::get(self, &target, 0, written.len())
        });
        moved.is_ok_and(|found| found != written)
    }

    /// Calls it something else in messages.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        self.label = label.into();
        self
    }

    /// Another file of this kind and of the given size; `None` if this is not a file.
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
        self.options().write_unguarded().open(&self.name)
    }

    pub(crate) fn open_to_read(&self) -> iolane::Result<Target> {
        self.options().open(&self.name)
    }

    /// The same bytes through the standard library, to write before and look after; `None` for what has no file. A generic
    /// NVMe device is reached through its block device. Devices are opened with O_DIRECT, since the page cache misses what
    /// passthrough writes.
    pub(crate) fn plain(&self) -> std::io::Result<Option<File>> {
        if matches!(self.holds, Holds::Apart) {
            return Ok(None);
        }
        let flags = if self.is_device() { libc::O_DIRECT } else { 0 };
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(self.block_device()).map(Some)
    }

    /// The name, or that of the block device of a generic NVMe device.
    fn block_device(&self) -> PathBuf {
        match self.name.to_string_lossy().strip_prefix("/dev/ng") {
            Some(rest) => format!("/dev/nvme{rest}").into(),
            None => self.name.clone(),
        }
    }

    /// What holds the data; places that share it have the same.
    pub(crate) fn storage(&self) -> String {
        if self.is_device() { self.block_device().to_string_lossy().into_owned() } else { self.label.clone() }
    }

    /// Whether what was written can be read back.
    pub(crate) fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    /// Whether it is a device that was not made here.
    pub(crate) fn is_device(&self) -> bool {
        matches!(self.holds, Holds::Device)
    }

    /// The loop device, where it is one.
    pub(crate) fn as_loop(&self) -> Option<&LoopDevice> {
        match &self.holds {
            Holds::Loop(device) => Some(device),
            _ => None,
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.holds, Holds::File { .. })
    }
}

/// Every place available here; the others print SKIPPED.
pub(crate) fn everywhere() -> Vec<Place> {
    let mut places = if only_named() { Vec::new() } else { made_here() };
    let named = std::env::var("IOLANE_CONFORMANCE_TARGETS").unwrap_or_default();
    places.extend(named.split_whitespace().map(Place::device));
    places.iter().for_each(|place| report::column(&place.column));
    places
}

/// Whether places of the suite's own are left out.
fn only_named() -> bool {
    let only = std::env::var("IOLANE_CONFORMANCE_ONLY_NAMED").is_ok_and(|text| text == "1");
    if only {
        let skip = Skip::new("just named targets were asked for", "unset IOLANE_CONFORMANCE_ONLY_NAMED");
        report::skipped_everywhere("files, tmpfs, loop devices and simulated devices", &skip);
    }
    only
}

type Make<'a> = &'a dyn Fn() -> Result<Place, Skip>;

/// Files, loop devices, simulated devices.
fn made_here() -> Vec<Place> {
    let folder = std::env::temp_dir();
    let makers: [(&str, Make<'_>); 8] = [
        ("file", &|| Place::file("file", &folder, true, PLACE_BYTES)),
        ("buffered", &|| Place::file("buffered", &folder, false, PLACE_BYTES)),
        ("tmpfs", &on_tmpfs),
        ("loop512", &|| Place::loop_device("loop512", 512)),
        ("loop4k", &|| Place::loop_device("loop4k", 4096)),
        ("sim", &|| Ok(Place::simulated("sim", "sim:16m"))),
        ("null", &|| Ok(Place::simulated("null", "null"))),
        ("ram", &|| Ok(Place::simulated("ram", "ram:16m"))),
    ];
    let mut places = Vec::new();
    for (name, make) in makers {
        match wanted(name).and_then(|()| make()) {
            Ok(place) => places.push(place),
            Err(skip) => report::skipped_everywhere(name, &skip),
        }
    }
    places
}

/// Whether `IOLANE_CONFORMANCE_PLACES` has this place among others, or names none.
pub(crate) fn wanted(name: &str) -> Result<(), Skip> {
    let named = std::env::var("IOLANE_CONFORMANCE_PLACES").unwrap_or_default();
    if named.trim().is_empty() || named.split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(Skip::new("IOLANE_CONFORMANCE_PLACES leaves it out", "unset it"))
}

/// A file system that has no device and not all operations.
fn on_tmpfs() -> Result<Place, Skip> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let folder = Path::new("/dev/shm");
    match rustix::fs::statfs(folder) {
        Ok(found) if found.f_type == TMPFS_MAGIC => Place::file("tmpfs", folder, false, PLACE_BYTES),
        _ => Err(Skip::new("/dev/shm is not a tmpfs", "mount one there")),
    }
}
