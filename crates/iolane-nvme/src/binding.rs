//! Takes a controller from the kernel for vfio-pci, and gives it back. What is about to be done is recorded first, so that
//! after a kill between any two steps the next start can undo it. Called by the library's `nvme` module, which decides what
//! may be taken; nothing here asks whether the drive is in use.
//! Source: Documentation/driver-api/vfio.rst, Documentation/ABI/testing/sysfs-bus-pci.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iolane_core::error::describe;
use iolane_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::openers::Openers;
use crate::pci::{Bdf, Device, Pci};

/// The driver that hands a device to user space.
pub const VFIO_DRIVER: &str = "vfio-pci";

/// The kernel's own driver of NVMe controllers.
pub const KERNEL_DRIVER: &str = "nvme";

/// How long vfio-pci may take to have a device, or to be rid of it: it does so within the write that tells it to.
const VFIO_TIME_MAX: Duration = Duration::from_secs(2);
/// How long the nvme driver may take until a controller works again: a controller may ask for 127.5 s (CAP.TO), few need
/// more than one.
const LIVE_TIME_MAX: Duration = Duration::from_secs(60);
/// How long its namespaces may take to appear after that.
const NAMESPACES_TIME_MAX: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Where devices, records and VFIO's nodes are on a machine.
#[derive(Debug, Clone)]
pub struct Bindings {
    pci: Pci,
    records: PathBuf,
    vfio: PathBuf,
    modprobe: PathBuf,
}

/// How a controller was before it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its address.
    #[serde(with = "as_text")]
    pub bdf: Bdf,
    /// The driver it had.
    pub driver: Option<String>,
    /// The only driver that might have it, where one was set.
    pub driver_override: Option<String>,
    /// The model it named.
    pub model: Option<String>,
    /// How many namespaces it had.
    pub namespaces: usize,
    /// When it was taken, in seconds since 1970.
    pub taken_unix_s: u64,
    /// Whether a step of taking it or giving it back may still be missing. With nobody at work it means that somebody was
    /// killed there.
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

/// What became of a controller that was to be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// This driver has it again.
    ToDriver(String),
    /// It had no driver before, and has none now.
    ToNobody,
    /// It is not in the machine any more.
    Gone,
    /// Somebody gave it to this driver meanwhile, and it was left there.
    LeftTo(String),
}

/// Whom VFIO's group device is given to, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// The user, if it is to be another one.
    pub user: Option<u32>,
    /// The group, if it is to be another one; it then may read and write.
    pub group: Option<u32>,
}

impl Bindings {
    /// Those of this machine.
    pub fn here() -> Self {
        Self { modprobe: "modprobe".into(), ..Self::beneath(Path::new("/")) }
    }

    /// Those of a machine whose files are all beneath this folder, as tests make one.
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

    /// The node by which user space reaches an IOMMU group.
    pub fn group_node(&self, group: u32) -> PathBuf {
        self.vfio.join(group.to_string())
    }

    /// The nodes by which user space may have a device open: its group's, and its own since Linux 6.2.
    pub fn nodes(&self, device: &Device) -> Vec<PathBuf> {
        let own = device.vfio_name().map(|name| self.vfio.join("devices").join(name));
        device.iommu_group().map(|group| self.group_node(group)).into_iter().chain(own).collect()
    }

    /// What is recorded of every controller that was taken, in the order of addresses. Reading takes no lock: a record is
    /// whole or not there.
    ///
    /// # Errors
    /// If a record cannot be read, or is damaged.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let entries = match fs::read_dir(&self.records) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
            Err(error) => return Err(Error::system(format!("the records in {}", self.records.display()), error)),
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "json") {
                records.extend(read_record(&path)?);
            }
        }
        records.sort_by_key(|record| record.bdf);
        Ok(records)
    }

    /// What is recorded of this one.
    ///
    /// # Errors
    /// As [`records`](Self::records).
    pub fn record(&self, bdf: Bdf) -> Result<Option<Record>> {
        read_record(&self.record_file(bdf))
    }

    fn record_file(&self, bdf: Bdf) -> PathBuf {
        self.records.join(format!("{bdf}.json"))
    }

    /// Waits until nobody else takes controllers or gives them back, and keeps everybody else from it.
    ///
    /// # Errors
    /// `Unavailable` if this user may not: it takes root.
    pub fn lock(&self) -> Result<Locked<'_>> {
        let file = self.lock_file()?;
        file.lock().map_err(|error| self.cannot_record(error))?;
        Ok(Locked { bindings: self, _file: file })
    }

    /// As [`lock`](Self::lock), but gives `None` if somebody else is at it.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<Locked<'_>>> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Locked { bindings: self, _file: file })),
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

    /// Makes sure that vfio-pci is there to take a device.
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

    /// Gives the node of a device's IOMMU group to somebody.
    ///
    /// # Errors
    /// If there is no such node, or this user may not give it away.
    pub fn set_owner(&self, device: &Device, owner: Owner) -> Result<()> {
        let group = device.iommu_group().ok_or_else(|| no_iommu(device.bdf()))?;
        let node = self.group_node(group);
        let mode = if owner.group.is_some() { 0o660 } else { 0o600 };
        let given = std::os::unix::fs::chown(&node, owner.user, owner.group)
            .and_then(|()| fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(mode)));
        given.map_err(|error| Error::system(format!("giving {} to its user", node.display()), error))
    }
}

/// What is wrong with a device that no IOMMU watches over.
pub fn no_iommu(bdf: Bdf) -> Error {
    Error::unavailable(format!("taking {bdf}"), "no IOMMU watches over it, so that it could write to any memory").remedy(
        "enable VT-d or AMD-Vi in the BIOS, and boot with intel_iommu=on (Intel; AMD needs no word) on the kernel's line",
    )
}

fn read_record(path: &Path) -> Result<Option<Record>> {
    let what = || format!("record {}", path.display());
    let text = match fs::read(path) {
        Ok(text) => text,
        // Nothing is recorded, or it was given back meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::system(what(), error)),
    };
    let record = serde_json::from_slice(&text).map_err(|error| {
        Error::failed(what(), format!("it is damaged: {error}"))
            .remedy("remove it; docs/nvme-binding.md says how to give a drive back by hand")
    })?;
    Ok(Some(record))
}

/// The right to take controllers and give them back, which one process has at a time. The kernel takes it back from a
/// process that dies, so that whoever has it knows: what is recorded as unfinished, nobody is finishing.
#[derive(Debug)]
pub struct Locked<'a> {
    bindings: &'a Bindings,
    _file: File,
}

impl Locked<'_> {
    /// Takes a controller from the driver that has it and gives it to vfio-pci. If that fails it is given back.
    ///
    /// # Errors
    /// If a step fails; the message tells whether the driver has the controller again.
    pub fn take(&self, device: &Device) -> Result<()> {
        let record = Record {
            bdf: device.bdf(),
            driver: device.driver(),
            driver_override: device.driver_override(),
            model: device.model(),
            namespaces: device.namespaces().len(),
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
        // Before it is let go, so that no other driver takes it in between.
        step("setting its driver_override", device.set_driver_override(Some(VFIO_DRIVER)))?;
        step("unbinding it from its driver", device.unbind())?;
        wait_until(VFIO_TIME_MAX, || device.driver().is_none());
        step("having vfio-pci probe it", self.bindings.pci.probe_drivers(device.bdf()))?;
        let has_it = || device.driver().as_deref() == Some(VFIO_DRIVER);
        if wait_until(VFIO_TIME_MAX, has_it) { Ok(()) } else { Err(format!("{VFIO_DRIVER} did not take it")) }
    }

    /// Gives a controller back to the driver that it had, waits until that works with it, and only then forgets the record.
    /// Whatever was done already is not done again.
    ///
    /// # Errors
    /// `Unavailable` if a process has it open; `Failed` if the driver does not take it. The record stays.
    pub fn give_back(&self, record: &Record) -> Result<Returned> {
        let Some(device) = self.bindings.pci.device(record.bdf) else {
            return self.forget(record, Returned::Gone);
        };
        let driver = device.driver();
        if driver.is_some() && driver.as_deref() != Some(VFIO_DRIVER) && driver != record.driver {
            return self.forget(record, Returned::LeftTo(driver.unwrap_or_default()));
        }
        self.require_closed(&device)?;
        // From here to the end a kill leaves it to nobody.
        self.write(&Record { unfinished: true, ..record.clone() })?;
        self.let_go(&device, record).map_err(|error| give_back_failed(record, error))?;
        let Some(driver) = &record.driver else { return self.forget(record, Returned::ToNobody) };
        await_driver(&device, record, driver)?;
        self.forget(record, Returned::ToDriver(driver.clone()))
    }

    fn let_go(&self, device: &Device, record: &Record) -> io::Result<()> {
        if device.driver_override().as_deref() == Some(VFIO_DRIVER) {
            device.set_driver_override(record.driver_override.as_deref())?;
        }
        if device.driver().as_deref() == Some(VFIO_DRIVER) {
            device.unbind()?;
            wait_until(VFIO_TIME_MAX, || device.driver().is_none());
        }
        if record.driver.is_some() && device.driver().is_none() {
            self.bindings.pci.probe_drivers(record.bdf)?;
        }
        Ok(())
    }

    /// vfio-pci lets go of a device only when nobody has it open: unbinding would wait for as long.
    fn require_closed(&self, device: &Device) -> Result<()> {
        if device.driver().as_deref() != Some(VFIO_DRIVER) {
            return Ok(());
        }
        let openers = Openers::scan();
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

/// Waits until the driver has the device and, if it is the kernel's own, until the controller works.
fn await_driver(device: &Device, record: &Record, driver: &str) -> Result<()> {
    let failed = |cause: String| {
        Err(Error::failed(format!("giving {} back", record.bdf), cause)
            .remedy("look at the kernel's log (dmesg), then run `iolane nvme restore` again"))
    };
    if !wait_until(VFIO_TIME_MAX, || device.driver().as_deref() == Some(driver)) {
        return failed(match device.driver() {
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
    // They are found one by one after that; that one was removed meanwhile is no failure of giving back.
    wait_until(NAMESPACES_TIME_MAX, || device.namespaces().len() >= record.namespaces);
    Ok(())
}

/// Looks again and again; says whether it came to be so.
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
mod tests {
    use super::*;
    use crate::fake_machine::FakeMachine;

    const DRIVE: &str = "0000:00:04.0";

    fn machine(test: &str) -> FakeMachine {
        let machine = FakeMachine::new(test);
        machine.controller(DRIVE, "nvme0", 1);
        machine
    }

    fn take(machine: &FakeMachine) -> Result<()> {
        let bindings = machine.bindings();
        let device = bindings.pci().device(DRIVE.parse().unwrap()).unwrap();
        bindings.lock()?.take(&device)
    }

    fn give_back(machine: &FakeMachine) -> Result<Returned> {
        let bindings = machine.bindings();
        let record = bindings.record(DRIVE.parse().unwrap()).unwrap().expect("it is recorded");
        bindings.lock()?.give_back(&record)
    }

    fn is_recorded(machine: &FakeMachine) -> bool {
        !machine.bindings().records().unwrap().is_empty()
    }

    #[test]
    fn what_was_taken_is_recorded_and_given_back_as_it_was() {
        let machine = machine("back");
        let _kernel = machine.start_kernel(&[]);
        take(&machine).unwrap();
        assert_eq!(machine.driver(DRIVE).as_deref(), Some(VFIO_DRIVER));
        let record = &machine.bindings().records().unwrap()[0];
        assert_eq!((record.bdf.to_string().as_str(), record.driver.as_deref()), (DRIVE, Some("nvme")));
        assert_eq!((record.driver_override.as_deref(), record.unfinished), (None, false));
        assert_eq!((record.model.as_deref(), record.namespaces), (Some("Fake drive"), 1));
        assert_eq!(give_back(&machine).unwrap(), Returned::ToDriver("nvme".into()));
        assert_eq!((machine.driver(DRIVE).as_deref(), machine.driver_override(DRIVE)), (Some("nvme"), None));
        assert!(!is_recorded(&machine));
    }

    #[test]
    fn a_driver_override_of_before_is_put_back() {
        let machine = machine("override");
        let _kernel = machine.start_kernel(&[]);
        let file = machine.path(&format!("sys/bus/pci/devices/{DRIVE}/driver_override"));
        fs::write(&file, "nvme\n").unwrap();
        take(&machine).unwrap();
        assert_eq!(machine.driver_override(DRIVE).as_deref(), Some(VFIO_DRIVER));
        give_back(&machine).unwrap();
        assert_eq!(machine.driver_override(DRIVE).as_deref(), Some("nvme"));
    }

    #[test]
    fn what_vfio_does_not_take_goes_back_to_its_driver() {
        let machine = machine("unwilling");
        let _kernel = machine.start_kernel(&[VFIO_DRIVER]);
        let error = take(&machine).unwrap_err().to_string();
        assert!(error.starts_with("taking 0000:00:04.0: vfio-pci did not take it; nvme has it again"), "{error}");
        assert_eq!((machine.driver(DRIVE).as_deref(), machine.driver_override(DRIVE)), (Some("nvme"), None));
        assert!(!is_recorded(&machine));
    }

    #[test]
    fn what_its_driver_does_not_take_back_stays_recorded_until_it_does() {
        let machine = machine("stays");
        {
            let _kernel = machine.start_kernel(&["nvme"]);
            take(&machine).unwrap();
            let error = give_back(&machine).unwrap_err().to_string();
            assert!(error.contains("nvme did not take it"), "{error}");
        }
        assert!(machine.bindings().records().unwrap()[0].unfinished);
        let _kernel = machine.start_kernel(&[]);
        assert_eq!(give_back(&machine).unwrap(), Returned::ToDriver("nvme".into()));
        assert!(!is_recorded(&machine));
    }

    /// A kill leaves the record, and the device as the steps so far made it.
    #[test]
    fn a_bind_that_was_killed_between_any_two_steps_is_undone() {
        for steps in 0..4 {
            let machine = machine(&format!("killed-{steps}"));
            let _kernel = machine.start_kernel(&[]);
            let (bindings, bdf) = (machine.bindings(), DRIVE.parse().unwrap());
            let device = bindings.pci().device(bdf).unwrap();
            let record = Record {
                bdf,
                driver: device.driver(),
                driver_override: None,
                model: None,
                namespaces: 1,
                taken_unix_s: 0,
                unfinished: true,
            };
            bindings.lock().unwrap().write(&record).unwrap();
            if steps > 0 {
                device.set_driver_override(Some(VFIO_DRIVER)).unwrap();
            }
            if steps > 1 {
                device.unbind().unwrap();
                assert!(wait_until(VFIO_TIME_MAX, || device.driver().is_none()));
            }
            if steps > 2 {
                bindings.pci().probe_drivers(bdf).unwrap();
                assert!(wait_until(VFIO_TIME_MAX, || device.driver().as_deref() == Some(VFIO_DRIVER)));
            }
            assert_eq!(give_back(&machine).unwrap(), Returned::ToDriver("nvme".into()), "{steps}");
            assert_eq!((machine.driver(DRIVE).as_deref(), machine.driver_override(DRIVE)), (Some("nvme"), None));
            assert!(!is_recorded(&machine), "{steps}");
        }
    }

    #[test]
    fn a_drive_that_was_pulled_or_given_to_another_driver_is_dropped_from_the_records() {
        let machine = machine("pulled");
        let _kernel = machine.start_kernel(&[]);
        take(&machine).unwrap();
        let device = machine.path(&format!("sys/bus/pci/devices/{DRIVE}"));
        fs::remove_file(device.join("driver")).unwrap();
        std::os::unix::fs::symlink(machine.path("sys/bus/pci/drivers/ahci"), device.join("driver")).unwrap();
        assert_eq!(give_back(&machine).unwrap(), Returned::LeftTo("ahci".into()));
        fs::remove_file(device.join("driver")).unwrap();
        take(&machine).unwrap();
        fs::remove_dir_all(device).unwrap();
        assert_eq!(give_back(&machine).unwrap(), Returned::Gone);
        assert!(!is_recorded(&machine));
    }

    #[test]
    fn what_had_no_driver_is_given_back_to_nobody() {
        let machine = machine("nobody");
        let _kernel = machine.start_kernel(&[]);
        fs::remove_file(machine.path(&format!("sys/bus/pci/devices/{DRIVE}/driver"))).unwrap();
        take(&machine).unwrap();
        assert_eq!(machine.driver(DRIVE).as_deref(), Some(VFIO_DRIVER));
        assert_eq!(give_back(&machine).unwrap(), Returned::ToNobody);
        assert_eq!(machine.driver(DRIVE), None);
    }

    #[test]
    fn one_process_at_a_time_takes_and_gives_back() {
        let machine = machine("lock");
        let bindings = machine.bindings();
        let locked = bindings.lock().unwrap();
        assert!(bindings.try_lock().unwrap().is_none());
        drop(locked);
        assert!(bindings.try_lock().unwrap().is_some());
    }

    #[test]
    fn a_damaged_record_is_named_and_other_files_are_left_alone() {
        let machine = machine("damaged");
        let bindings = machine.bindings();
        drop(bindings.lock().unwrap());
        fs::write(machine.path("run/iolane/nvme/0000:00:04.0.part"), "{").unwrap();
        assert!(bindings.records().unwrap().is_empty());
        fs::write(machine.path("run/iolane/nvme/0000:00:04.0.json"), "{").unwrap();
        let error = bindings.records().unwrap_err().to_string();
        assert!(error.contains("0000:00:04.0.json: it is damaged") && error.contains("remove it"), "{error}");
    }

    #[test]
    fn without_vfio_pci_and_modprobe_the_remedy_names_both() {
        let machine = machine("modprobe");
        machine.bindings().require_vfio().unwrap();
        fs::remove_dir_all(machine.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
        let error = machine.bindings().require_vfio().unwrap_err().to_string();
        assert!(
            error.starts_with("driver vfio-pci: it is not loaded (modprobe cannot be run: no such file"),
            "{error}"
        );
        assert!(error.contains("modprobe vfio-pci"), "{error}");
    }

    #[test]
    fn a_group_node_is_given_away_and_one_that_is_missing_is_named() {
        let machine = machine("owner");
        let bindings = machine.bindings();
        let device = bindings.pci().device(DRIVE.parse().unwrap()).unwrap();
        let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777;
        bindings.set_owner(&device, Owner::default()).unwrap();
        assert_eq!(mode(&machine.path("dev/vfio/1")), 0o600);
        let ours = std::os::unix::fs::MetadataExt::gid(&fs::metadata(machine.path("dev/vfio/1")).unwrap());
        bindings.set_owner(&device, Owner { user: None, group: Some(ours) }).unwrap();
        assert_eq!(mode(&machine.path("dev/vfio/1")), 0o660);
        fs::remove_file(machine.path("dev/vfio/1")).unwrap();
        assert!(bindings.set_owner(&device, Owner::default()).unwrap_err().to_string().contains("dev/vfio/1"));
    }
}
