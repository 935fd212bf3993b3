//! Takes a controller from the kernel, binds it to vfio-pci, and returns it. Every change is recorded before it is made, so that
//! after a kill between any two steps the next start can undo it. Called by `nvme` in the library crate, which decides what may be
//! taken; nothing here checks whether the drive is in use.
//! Source: Documentation/driver-api/vfio.rst, Documentation/ABI/testing/sysfs-bus-pci.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iolane_core::error::describe;
use iolane_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::pci::{Bdf, Device, Pci};
use iolane_core::open_files::OpenFiles;

/// The driver that gives a device to user space.
pub const VFIO_DRIVER: &str = "vfio-pci";

/// The kernel's own driver of NVMe controllers.
pub const KERNEL_DRIVER: &str = "nvme";

/// The most time for vfio-pci to bind or unbind a device; it normally does so within the write to sysfs.
const VFIO_TIME_MAX: Duration = Duration::from_secs(2);
/// The most time for the nvme driver until a controller works again. A controller may claim 127.5 s (CAP.TO); few need more than
/// one.
const LIVE_TIME_MAX: Duration = Duration::from_secs(60);
/// The most time until its namespaces appear after that.
const NAMESPACES_TIME_MAX: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The paths of devices, records and VFIO's nodes on a machine.
#[derive(Debug, Clone)]
pub struct Bindings {
    pci: Pci,
    records: PathBuf,
    vfio: PathBuf,
    modprobe: PathBuf,
}

/// The state of a controller before it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its address.
    #[serde(with = "as_text")]
    pub bdf: Bdf,
    /// The driver it was bound to.
    pub driver: Option<String>,
    /// Its driver_override, if one was set.
    pub driver_override: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The number of its namespaces.
    pub namespaces: usize,
    /// When it was taken, in seconds since 1970.
    pub taken_unix_s: u64,
    /// Whether a step of taking or returning it may be missing. If no process is working on it, one was killed.
    pub unfinished: bool,
}

mod as_text {
    use super::Bdf;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bdf: &Bdf, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(bdf)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bdf, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The outcome of returning a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// It is bound to this driver again.
    ToDriver(String),
    /// It had no driver before and has none now.
    ToNobody,
    /// It is no longer in the machine.
    Gone,
    /// Another program bound it to this driver, and it was left there.
    LeftTo(String),
}

/// The owner of a VFIO group node, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// The new user, if any.
    pub user: Option<u32>,
    /// The new group, if any, which may then read and write.
    pub group: Option<u32>,
}

impl Bindings {
    /// Those of this machine.
    pub fn here() -> Self {
        Self { modprobe: "modprobe".into(), ..Self::beneath(Path::new("/")) }
    }

    /// Those of a machine whose files are all below this folder, for tests.
    pub fn beneath(root: &Path) -> Self {
        Self {
            pci: Pci::new(root.join("sys")),
            records: root.join("run/iolane/nvme"),
            vfio: root.join("dev/vfio"),
            modprobe: root.join("sbin/modprobe"),
        }
    }

    /// The PCI bus.
    pub fn pci(&self) -> &Pci {
        &self.pci
    }

    /// The node of an IOMMU group for user space.
    pub fn group_node(&self, group: u32) -> PathBuf {
        self.vfio.join(group.to_string())
    }

    /// The nodes through which user space can have a device open: that of its group, and since Linux 6.2 its own.
    pub fn nodes(&self, device: &Device) -> Vec<PathBuf> {
        let own = device.vfio_name().map(|name| self.vfio.join("devices").join(name));
        device.iommu_group().map(|group| self.group_node(group)).into_iter().chain(own).collect()
    }

    /// The records of all controllers that were taken, in the order of addresses. Reading takes no lock, since records are written
    /// atomically.
    ///
    /// # Errors
    /// If a record cannot be read, or is damaged.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let entries = match fs::read_dir(&self.records) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
            Err(error) => return Err(self.unreadable(error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| self.unreadable(error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                records.extend(read_record(&path)?);
            }
        }
        records.sort_by_key(|record| record.bdf);
        Ok(records)
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::system(format!("the records in {}", self.records.display()), error)
    }

    /// The record of one controller.
    ///
    /// # Errors
    /// As [`records`](Self::records).
    pub fn record(&self, bdf: Bdf) -> Result<Option<Record>> {
        read_record(&self.record_file(bdf))
    }

    fn record_file(&self, bdf: Bdf) -> PathBuf {
        self.records.join(format!("{bdf}.json"))
    }

    /// Locks the records, so that one process at a time takes and returns controllers. Waits for the lock.
    ///
    /// # Errors
    /// `Unavailable` if this user may not; it needs root.
    pub fn lock(&self) -> Result<Locked<'_>> {
        let file = self.lock_file()?;
        file.lock().map_err(|error| self.cannot_record(error))?;
        Ok(Locked { bindings: self, file })
    }

    /// As [`lock`](Self::lock), but returns `None` if another process has the lock.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<Locked<'_>>> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Locked { bindings: self, file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(self.cannot_record(error)),
        }
    }

    fn lock_file(&self) -> Result<File> {
        let opened = fs::create_dir_all(&self.records)
            .and_then(|()| File::options().create(true).truncate(false).write(true).open(self.records.join("lock")));
        opened.map_err(|error| self.cannot_record(error))
    }

    fn cannot_record(&self, error: io::Error) -> Error {
        let what = format!("taking controllers and giving them back (records in {})", self.records.display());
        let is_forbidden = error.kind() == io::ErrorKind::PermissionDenied;
        let error = Error::system(what, error);
        if is_forbidden { error.remedy("run it as root (sudo)") } else { error }
    }

    /// Ensures that vfio-pci is loaded.
    ///
    /// # Errors
    /// `Unavailable` if it is not loaded and cannot be.
    pub fn require_vfio(&self) -> Result<()> {
        if self.pci.has_driver(VFIO_DRIVER) {
            return Ok(());
        }
        let tried = Command::new(&self.modprobe).arg(VFIO_DRIVER).stdin(Stdio::null()).output();
        let why_not = match tried {
            Ok(_) if self.pci.has_driver(VFIO_DRIVER) => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.lines().next().unwrap_or("it loaded no driver of that name").to_owned();
                format!("modprobe says: {said}")
            }
            Err(error) => format!("modprobe cannot be run: {}", describe(&error)),
        };
        Err(Error::unavailable(format!("driver {VFIO_DRIVER}"), format!("it is not loaded ({why_not})"))
            .remedy("as root: modprobe vfio-pci, on a kernel that has it (CONFIG_VFIO_PCI)"))
    }

    /// Changes the owner of the node of a device's IOMMU group.
    ///
    /// # Errors
    /// If there is no such node, or this user may not change it.
    pub fn set_owner(&self, device: &Device, owner: Owner) -> Result<()> {
        let group = device.iommu_group().ok_or_else(|| no_iommu(device.bdf()))?;
        let node = self.group_node(group);
        let mode = if owner.group.is_some() { 0o660 } else { 0o600 };
        let given = std::os::unix::fs::chown(&node, owner.user, owner.group)
            .and_then(|()| fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(mode)));
        given.map_err(|error| Error::system(format!("giving {} to its user", node.display()), error))
    }
}

/// The error of a device without an IOMMU.
pub fn no_iommu(bdf: Bdf) -> Error {
    Error::unavailable(format!("taking {bdf}"), "no IOMMU watches over it, so that it could write to any memory").remedy(
        "enable VT-d or AMD-Vi in the BIOS, and boot with intel_iommu=on (Intel; AMD needs no word) on the kernel's line",
    )
}

fn read_record(path: &Path) -> Result<Option<Record>> {
    let what = || format!("record {}", path.display());
    let text = match fs::read(path) {
        Ok(text) => text,
        // Nothing is recorded, or the controller was returned meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::system(what(), error)),
    };
    let record = serde_json::from_slice(&text).map_err(|error| {
        Error::failed(what(), format!("it is damaged: {error}"))
            .remedy("remove it; docs/nvme-binding.md says how to give a drive back by hand")
    })?;
    Ok(Some(record))
}

/// The lock for taking and returning controllers, which one process has at a time. The kernel releases it when a process dies, so
/// for its holder a record that is unfinished is one that no process is finishing.
#[derive(Debug)]
pub struct Locked<'a> {
    bindings: &'a Bindings,
    file: File,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Closing does not release a lock that a child of this process has too, which it does from fork to exec.
        let _ = self.file.unlock();
    }
}

impl Locked<'_> {
    /// Unbinds a controller from its driver and binds it to vfio-pci. If that fails it is returned.
    ///
    /// # Errors
    /// If a step fails; the message states whether the driver has the controller again.
    pub fn take(&self, device: &Device) -> Result<()> {
        let record = Record {
            bdf: device.bdf(),
            driver: device.driver()?,
            driver_override: device.driver_override()?,
            model: device.model(),
            namespaces: device.namespaces()?.len(),
            taken_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            unfinished: true,
        };
        self.write(&record)?;
        let Err(failure) = self.hand_over(device) else {
            return self.write(&Record { unfinished: false, ..record });
        };
        let undone = match self.give_back(&record) {
            Ok(Returned::ToDriver(driver)) => format!("{driver} has it again"),
            Ok(_) => "it was put back as it was".into(),
            Err(error) => format!("giving it back failed too: {error}"),
        };
        let what = format!("taking {}", device.bdf());
        Err(Error::failed(what, format!("{failure}; {undone}")).remedy("look at the kernel's log (dmesg)"))
    }

    fn hand_over(&self, device: &Device) -> Result<(), String> {
        let step = |what: &str, done: io::Result<()>| done.map_err(|error| format!("{what}: {}", describe(&error)));
        // Set before the unbind, so that no other driver takes it in between.
        step("setting its driver_override", device.set_driver_override(Some(VFIO_DRIVER)))?;
        step("unbinding it from its driver", device.unbind())?;
        wait_until(VFIO_TIME_MAX, || device.is_bound_to(None));
        step("having vfio-pci probe it", self.bindings.pci.probe_drivers(device.bdf()))?;
        let has_it = || device.is_bound_to(Some(VFIO_DRIVER));
        if wait_until(VFIO_TIME_MAX, has_it) { Ok(()) } else { Err(format!("{VFIO_DRIVER} did not take it")) }
    }

    /// Binds a controller to its original driver, waits until it works, and only then removes the record. Steps that were done
    /// already are skipped.
    ///
    /// # Errors
    /// `Unavailable` if a process has it open; `Failed` if the driver does not take it. The record stays.
    pub fn give_back(&self, record: &Record) -> Result<Returned> {
        let Some(device) = self.bindings.pci.device(record.bdf) else {
            return self.forget(record, Returned::Gone);
        };
        let driver = device.driver()?;
        if driver.is_some() && driver.as_deref() != Some(VFIO_DRIVER) && driver != record.driver {
            return self.forget(record, Returned::LeftTo(driver.unwrap_or_default()));
        }
        self.require_closed(&device)?;
        // From here to the end a kill leaves the controller without a driver.
        self.write(&Record { unfinished: true, ..record.clone() })?;
        self.let_go(&device, record).map_err(|error| give_back_failed(record, error))?;
        let Some(driver) = &record.driver else { return self.forget(record, Returned::ToNobody) };
        await_driver(&device, record, driver)?;
        self.forget(record, Returned::ToDriver(driver.clone()))
    }

    fn let_go(&self, device: &Device, record: &Record) -> io::Result<()> {
        if device.driver_override().is_ok_and(|forced| forced.as_deref() == Some(VFIO_DRIVER)) {
            device.set_driver_override(record.driver_override.as_deref())?;
        }
        if device.is_bound_to(Some(VFIO_DRIVER)) {
            device.unbind()?;
            wait_until(VFIO_TIME_MAX, || device.is_bound_to(None));
        }
        if record.driver.is_some() && device.is_bound_to(None) {
            self.bindings.pci.probe_drivers(record.bdf)?;
        }
        Ok(())
    }

    /// vfio-pci releases a device only when no process has it open: an unbind would wait for that.
    fn require_closed(&self, device: &Device) -> Result<()> {
        if !device.is_bound_to(Some(VFIO_DRIVER)) {
            return Ok(());
        }
        let openers = OpenFiles::scan()?;
        for node in self.bindings.nodes(device) {
            if let [opener, ..] = openers.of(&node) {
                let what = format!("giving {} back", device.bdf());
                return Err(Error::unavailable(what, format!("{opener} has {} open", node.display()))
                    .remedy("end that process first"));
            }
        }
        Ok(())
    }

    fn forget(&self, record: &Record, returned: Returned) -> Result<Returned> {
        let file = self.bindings.record_file(record.bdf);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::system(format!("removing the record {}", file.display()), error))
            }
            _ => Ok(returned),
        }
    }

    fn write(&self, record: &Record) -> Result<()> {
        let file = self.bindings.record_file(record.bdf);
        let part = file.with_extension("part");
        let text = serde_json::to_vec_pretty(record).expect("a record is strings and numbers");
        let written = File::create(&part).and_then(|mut file| file.write_all(&text));
        written
            .and_then(|()| fs::rename(&part, &file))
            .map_err(|error| Error::system(format!("recording what is done, in {}", file.display()), error))
    }
}

fn give_back_failed(record: &Record, error: io::Error) -> Error {
    let is_forbidden = error.kind() == io::ErrorKind::PermissionDenied;
    let error = Error::system(format!("giving {} back", record.bdf), error);
    if is_forbidden { error.remedy("run it as root (sudo)") } else { error }
}

/// Waits until the device is bound to the driver and, for the kernel's own driver, until the controller works.
fn await_driver(device: &Device, record: &Record, driver: &str) -> Result<()> {
    let failed = |cause: String| {
        Err(Error::failed(format!("giving {} back", record.bdf), cause)
            .remedy("look at the kernel's log (dmesg), then run `iolane nvme restore` again"))
    };
    if !wait_until(VFIO_TIME_MAX, || device.is_bound_to(Some(driver))) {
        return failed(match device.driver()? {
            Some(other) => format!("{other} took it, not {driver}"),
            None => format!("{driver} did not take it"),
        });
    }
    if driver != KERNEL_DRIVER {
        return Ok(());
    }
    if !wait_until(LIVE_TIME_MAX, || device.is_live()) {
        return failed(format!("{driver} has it, but it does not work after {} s", LIVE_TIME_MAX.as_secs()));
    }
    // Namespaces appear one by one; it is not a failure if one was removed meanwhile.
    wait_until(NAMESPACES_TIME_MAX, || device.namespaces().is_ok_and(|found| found.len() >= record.namespaces));
    Ok(())
}

/// Polls a condition; false if it did not become true in time.
fn wait_until(time_max: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + time_max;
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    true
}

#[cfg(test)]
mod tests;
