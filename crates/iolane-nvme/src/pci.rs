//! PCI devices in sysfs: the NVMe controllers, their drivers and their IOMMU groups. Called by [`crate::binding`] and by `nvme` in
//! the library crate; it writes only what its caller passes.
//! Sources: Documentation/ABI/testing/sysfs-bus-pci, PCI Code and ID Assignment Specification.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use iolane_core::open_files::OpenFile;
use iolane_core::{Error, Result};

/// The PCI address of a function: domain, bus, device, function; written `0000:00:04.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl Bdf {
    /// `None` for an invalid device or function: a bus has 32 devices, a device 8 functions.
    pub fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        (device < 32 && function < 8).then_some(Self { domain, bus, device, function })
    }

    /// Parses `0000:00:04.0`, and `00:04.0` for domain 0.
    fn parse(text: &str) -> Option<Self> {
        let (place, function) = text.split_once('.')?;
        let (rest, device) = place.rsplit_once(':')?;
        let (domain, bus) = rest.split_once(':').unwrap_or(("0000", rest));
        // The kernel writes at least four digits (the domain of a VMD is 10000).
        if domain.len() < 4 || bus.len() != 2 || device.len() != 2 || function.len() != 1 {
            return None;
        }
        let small = |digits| hex(digits).and_then(|number| u8::try_from(number).ok());
        Self::new(hex(domain)?, small(bus)?, small(device)?, small(function)?)
    }
}

/// Only digits, at most eight, without a sign.
fn hex(digits: &str) -> Option<u32> {
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for Bdf {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            let shown = text.replace(char::is_control, "?");
            Error::usage(format!("PCI address `{shown}`"), "it is not of the form 0000:00:04.0 or 00:04.0")
                .remedy("`iolane nvme list` shows those there are")
        })
    }
}

/// The class of NVMe controllers: mass storage, non-volatile memory, NVMe I/O controller.
const CLASS_NVME: u32 = 0x01_08_02;
/// Base class and subclass of bridges from PCI to PCI.
const CLASS_BRIDGE: u32 = 0x06_04;

/// The PCI bus of a sysfs tree.
#[derive(Debug, Clone)]
pub struct Pci {
    sysfs: PathBuf,
}

impl Pci {
    /// The bus of this sysfs tree: `/sys`, or that of a test.
    pub fn new(sysfs: impl Into<PathBuf>) -> Self {
        Self { sysfs: sysfs.into() }
    }

    /// Every NVMe controller, in the order of their addresses; none on a machine without PCI.
    ///
    /// # Errors
    /// If the bus exists and cannot be read.
    pub fn controllers(&self) -> Result<Vec<Device>> {
        let folder = self.bus().join("devices");
        let names = match names_in(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::system(format!("the list of PCI devices in {}", folder.display()), error)),
        };
        let devices = names.iter().filter_map(|name| Bdf::parse(name)).map(|bdf| self.at(bdf));
        // A device that was removed meanwhile is skipped.
        let mut controllers: Vec<Device> = devices.filter(|device| device.is_nvme().unwrap_or(false)).collect();
        controllers.sort_by_key(|device| device.bdf);
        Ok(controllers)
    }

    /// The device at an address; `None` if there is none.
    pub fn device(&self, bdf: Bdf) -> Option<Device> {
        Some(self.at(bdf)).filter(|device| device.folder.exists())
    }

    fn at(&self, bdf: Bdf) -> Device {
        Device { bdf, folder: self.bus().join("devices").join(bdf.to_string()), sysfs: self.sysfs.clone() }
    }

    /// Whether a driver of this name is loaded.
    pub fn has_driver(&self, name: &str) -> bool {
        self.bus().join("drivers").join(name).exists()
    }

    /// Lets the kernel probe for a driver of an unbound device.
    pub(crate) fn probe_drivers(&self, bdf: Bdf) -> io::Result<()> {
        write(&self.bus().join("drivers_probe"), &bdf.to_string())
    }

    fn bus(&self) -> PathBuf {
        self.sysfs.join("bus/pci")
    }
}

/// A PCI device in sysfs; every method reads its attribute anew.
#[derive(Debug, Clone)]
pub struct Device {
    bdf: Bdf,
    folder: PathBuf,
    sysfs: PathBuf,
}

/// A namespace that the kernel presents as a block device, or only as a character device if the block layer does not support it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNamespace {
    /// The kernel's name of its block device, as `nvme0n1`, whether it has one or not.
    pub name: String,
    /// The size of its block device in bytes.
    pub bytes: u64,
    /// Whether it has a block device.
    pub has_block_device: bool,
}

impl KernelNamespace {
    /// The kernel's name of its passthrough device: `ng0n1` for `nvme0n1`.
    pub fn generic_name(&self) -> String {
        self.name.replacen("nvme", "ng", 1)
    }
}

/// A device in the same IOMMU group: a driver of one device of a group can access the memory of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The kernel's name, for most devices a PCI address.
    pub name: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Whether it is a bridge, which initiates no transfers.
    pub is_bridge: bool,
}

impl Device {
    /// Its address.
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// Whether it still exists.
    pub fn is_there(&self) -> bool {
        self.folder.exists()
    }

    /// Whether its class is that of NVMe controllers.
    ///
    /// # Errors
    /// If the class cannot be read.
    pub fn is_nvme(&self) -> Result<bool> {
        Ok(class_of(&self.folder)? == CLASS_NVME)
    }

    /// The name of the driver it is bound to, if any.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn driver(&self) -> Result<Option<String>> {
        linked_name(&self.folder.join("driver"))
    }

    /// Whether it is known to be bound to this driver; `None` stands for no driver.
    pub(crate) fn is_bound_to(&self, driver: Option<&str>) -> bool {
        self.driver().is_ok_and(|bound| bound.as_deref() == driver)
    }

    /// Its driver_override, if one is set.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn driver_override(&self) -> Result<Option<String>> {
        let text = text_of(&self.folder.join("driver_override"))?;
        Ok(text.filter(|text| text != "(null)"))
    }

    /// The number of its IOMMU group; `None` without an IOMMU.
    pub fn iommu_group(&self) -> Option<u32> {
        linked_name(&self.folder.join("iommu_group")).ok()??.parse().ok()
    }

    /// The other devices of its IOMMU group.
    ///
    /// # Errors
    /// If the group, or the driver of one of them, cannot be read.
    pub fn companions(&self) -> Result<Vec<Companion>> {
        let folder = self.folder.join("iommu_group/devices");
        let names =
            names_in(&folder).map_err(|error| Error::system(format!("the IOMMU group of {}", self.bdf), error))?;
        let others = names.into_iter().filter(|name| *name != self.bdf.to_string());
        let companion = |name: String| {
            let device = folder.join(&name);
            let is_bridge = class_of(&device).is_ok_and(|class| class >> 8 == CLASS_BRIDGE);
            Ok(Companion { driver: linked_name(&device.join("driver"))?, name, is_bridge })
        };
        others.map(companion).collect()
    }

    /// PCI vendor and device ID: `1b36:0010`.
    pub fn pci_id(&self) -> Option<String> {
        let number = |name| Some(self.attribute(name)?.trim_start_matches("0x").to_owned());
        Some(format!("{}:{}", number("vendor")?, number("device")?))
    }

    /// The kernel's name of the controller (`nvme0`), while it is bound to the nvme driver.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn controller_name(&self) -> Result<Option<String>> {
        let folder = self.folder.join("nvme");
        match names_in(&folder) {
            Ok(names) => Ok(names.into_iter().find(|name| name.starts_with("nvme"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&folder, error)),
        }
    }

    /// The controller's model, while it is bound to the nvme driver.
    pub fn model(&self) -> Option<String> {
        self.controller_attribute("model")
    }

    /// Whether the nvme driver reports the controller as live.
    pub fn is_live(&self) -> bool {
        self.controller_attribute("state").as_deref() == Some("live")
    }

    /// Its namespaces, while it is bound to the nvme driver.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn namespaces(&self) -> Result<Vec<KernelNamespace>> {
        let Some(controller) = self.controller_name()? else { return Ok(Vec::new()) };
        let folder = self.folder.join("nvme").join(controller);
        let entries = names_in(&folder).map_err(|error| unreadable(&folder, error))?;
        let blocks: BTreeSet<String> = entries.iter().filter_map(|name| block_device(name)).collect();
        let generic =
            entries.iter().filter_map(|name| block_device(&name.strip_prefix("ng").map(|rest| format!("nvme{rest}"))?));
        let names: BTreeSet<String> = generic.chain(blocks.iter().cloned()).collect();
        let namespace = |name: String| {
            let has_block_device = blocks.contains(&name) && !self.is_hidden(&name)?;
            Ok(KernelNamespace { bytes: self.block_bytes(&name), has_block_device, name })
        };
        names.into_iter().map(namespace).collect()
    }

    /// Whether a disk has no block device: the driver hides that of a namespace which the block layer does not support.
    fn is_hidden(&self, name: &str) -> Result<bool> {
        Ok(text_of(&self.sysfs.join("class/block").join(name).join("hidden"))?.is_some_and(|text| text != "0"))
    }

    /// What processes can have open of it while it is bound to the nvme driver: the controller, its namespaces as block devices and
    /// for passthrough, and their partitions. By the kernel's names, each with its number if sysfs has one.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn nodes(&self) -> Result<Vec<(String, Option<OpenFile>)>> {
        let namespaces = self.namespaces()?;
        let mut blocks = Vec::new();
        for disk in namespaces.iter().map(|namespace| namespace.name.clone()) {
            blocks.extend(self.partitions(&disk)?.into_iter().chain([disk]).map(|name| ("block", name)));
        }
        let generic = namespaces.iter().map(|namespace| ("nvme-generic", namespace.generic_name()));
        let controller = self.controller_name()?.map(|name| ("nvme", name));
        let numbered = |(class, name): (&str, String)| {
            let kind = if class == "block" { OpenFile::Block } else { OpenFile::Character };
            let text = text_of(&self.sysfs.join("class").join(class).join(&name).join("dev"))?;
            let number = text.and_then(|text| OpenFile::of_sysfs(&text, kind));
            Ok((name, number))
        };
        blocks.into_iter().chain(generic).chain(controller).map(numbered).collect()
    }

    /// The partitions of a disk; none if it has no block device.
    fn partitions(&self, disk: &str) -> Result<Vec<String>> {
        let folder = self.sysfs.join("class/block").join(disk);
        let names = match names_in(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&folder, error)),
        };
        let mut partitions = Vec::new();
        // The kernel names a partition after its disk: nvme0n1p1 is on nvme0n1.
        for name in names.into_iter().filter(|name| name.starts_with(disk)) {
            let attribute = folder.join(&name).join("partition");
            if attribute.try_exists().map_err(|error| unreadable(&attribute, error))? {
                partitions.push(name);
            }
        }
        Ok(partitions)
    }

    /// The kernel's name of its VFIO device (`vfio0`), while it is bound to vfio-pci; none before Linux 6.2.
    pub fn vfio_name(&self) -> Option<String> {
        names_in(&self.folder.join("vfio-dev")).ok()?.into_iter().next()
    }

    /// Unbinds it from its driver, if it has one.
    pub(crate) fn unbind(&self) -> io::Result<()> {
        match write(&self.folder.join("driver/unbind"), &self.bdf.to_string()) {
            // It has no driver, which is what the caller wants.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_there() => Ok(()),
            done => done,
        }
    }

    /// Restricts it to one driver; `None` allows any.
    pub(crate) fn set_driver_override(&self, driver: Option<&str>) -> io::Result<()> {
        // An empty line clears it.
        write(&self.folder.join("driver_override"), &format!("{}\n", driver.unwrap_or_default()))
    }

    fn controller_attribute(&self, name: &str) -> Option<String> {
        self.attribute(&format!("nvme/{}/{name}", self.controller_name().ok()??))
    }

    fn attribute(&self, name: &str) -> Option<String> {
        text_of(&self.folder.join(name)).ok()?
    }

    fn block_bytes(&self, name: &str) -> u64 {
        let size = fs::read_to_string(self.sysfs.join("class/block").join(name).join("size"));
        // sysfs counts in sectors of 512 bytes, independent of the device's block size.
        size.ok().and_then(|size| size.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(512)
    }
}

/// The block device of a name in a controller's folder: `nvme0n1` for itself and for `nvme0c1n1`, the path through controller 1 to
/// the shared namespace `nvme0n1` (drivers/nvme/host/multipath.c).
fn block_device(name: &str) -> Option<String> {
    let (instance, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let instance = instance.split_once('c').map_or(instance, |(subsystem, _)| subsystem);
    let are_numbers = [instance, namespace].iter().all(|part| part.parse::<u32>().is_ok());
    are_numbers.then(|| format!("nvme{instance}n{namespace}"))
}

fn class_of(device: &Path) -> Result<u32> {
    let path = device.join("class");
    let text = fs::read_to_string(&path).map_err(|error| Error::system(path.display().to_string(), error))?;
    let class = text.trim().strip_prefix("0x").and_then(hex);
    class.ok_or_else(|| Error::failed(path.display().to_string(), format!("`{}` is not a PCI class", text.trim())))
}

/// The last component of a symbolic link's target; `None` if there is no such link.
fn linked_name(link: &Path) -> Result<Option<String>> {
    match fs::read_link(link) {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(link, error)),
    }
}

/// The text of an attribute; `None` if it is empty or does not exist.
fn text_of(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::system(format!("reading {}", path.display()), error)
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Writes an existing attribute in one call, as sysfs requires; truncation is for trees of plain files.
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_machine::FakeMachine;
    use proptest::prelude::*;

    #[test]
    fn an_address_is_read_with_and_without_its_domain() {
        for (text, shown) in [
            ("0000:00:04.0", "0000:00:04.0"),
            ("00:04.0", "0000:00:04.0"),
            ("10000:E1:1f.7", "10000:e1:1f.7"),
            ("ffffffff:ff:1f.7", "ffffffff:ff:1f.7"),
        ] {
            assert_eq!(text.parse::<Bdf>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "04.0",
            "0:04.0",
            "00:04",
            "00:4.0",
            "00:20.0",
            "00:04.8",
            "00:04.00",
            "0:00:04.0",
            "+000:00:04.0",
            "0000:00:04.0 ",
            "0000:0000:00:04.0",
            "100000000:00:04.0",
            "../0:00:04.0",
            "00:é.0",
            "nvme0",
        ] {
            let error = text.parse::<Bdf>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("PCI address `{text}`: ")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let bdf = Bdf::new(domain, bus, device, function).unwrap();
            prop_assert_eq!(bdf.to_string().parse::<Bdf>().unwrap(), bdf);
            if domain == 0 {
                prop_assert_eq!(bdf.to_string()["0000:".len()..].parse::<Bdf>().unwrap(), bdf);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic_and_what_it_takes_it_takes_again(text in "[0-9a-fA-F:.+/ é]{0,16}|\\PC*") {
            if let Ok(bdf) = text.parse::<Bdf>() {
                prop_assert_eq!(bdf.to_string().parse::<Bdf>().unwrap(), bdf);
                let name = bdf.to_string();
                prop_assert!(name.ends_with(&text.to_lowercase()) || text.len() > name.len());
            }
        }

        #[test]
        fn names_of_namespaces_are_told_from_other_names(name in "(nvme|ng)?[0-9cnp]{0,6}|\\PC*") {
            if let Some(device) = block_device(&name) {
                prop_assert_eq!(block_device(&device), Some(device));
            }
        }
    }

    #[test]
    fn namespaces_are_found_by_one_controller_and_by_several() {
        for (name, device) in [
            ("nvme0n1", Some("nvme0n1")),
            ("nvme2c3n14", Some("nvme2n14")),
            ("ng0n1", None),
            ("nvme0", None),
            ("hwmon1", None),
            ("nvme0n1p1", None),
        ] {
            assert_eq!(block_device(name).as_deref(), device, "{name}");
        }
    }

    #[test]
    fn controllers_are_listed_and_other_devices_are_not() {
        let machine = FakeMachine::new("list");
        machine.controller("0000:01:00.0", "nvme1", 2);
        machine.controller("0000:00:04.0", "nvme0", 1);
        machine.device("0000:00:1f.2", 0x01_06_01, Some("ahci"), Some(3));
        let controllers = machine.pci().controllers().unwrap();
        let seen: Vec<_> = controllers.iter().map(|device| device.bdf().to_string()).collect();
        assert_eq!(seen, ["0000:00:04.0", "0000:01:00.0"]);
        let first = &controllers[0];
        assert_eq!((first.driver().unwrap().as_deref(), first.iommu_group()), (Some("nvme"), Some(1)));
        assert_eq!(first.model().as_deref(), Some("Fake drive"));
        let namespaces = first.namespaces().unwrap();
        let expected = KernelNamespace { name: "nvme0n1".into(), bytes: 1 << 20, has_block_device: true };
        assert_eq!((&namespaces[..], namespaces[0].generic_name().as_str()), (&[expected][..], "ng0n1"));
        assert_eq!(first.driver_override().unwrap(), None);
        assert!(machine.pci().device("00:1f.3".parse().unwrap()).is_none());
    }

    #[test]
    fn namespaces_without_a_block_device_are_found_by_their_character_device_or_by_a_hidden_disk() {
        let machine = FakeMachine::new("character");
        machine.controller("0000:00:04.0", "nvme0", 2);
        let controller = machine.path("sys/bus/pci/devices/0000:00:04.0/nvme/nvme0");
        for name in ["ng0n1", "ng0n2", "ng0n7", "hwmon0"] {
            fs::create_dir_all(controller.join(name)).unwrap();
        }
        fs::write(machine.path("sys/class/block/nvme0n1/hidden"), "0\n").unwrap();
        fs::write(machine.path("sys/class/block/nvme0n2/hidden"), "1\n").unwrap();
        let device = machine.pci().device("00:04.0".parse().unwrap()).unwrap();
        let namespaces = device.namespaces().unwrap();
        let seen: Vec<_> = namespaces.iter().map(|found| (found.generic_name(), found.has_block_device)).collect();
        assert_eq!(seen, [("ng0n1".into(), true), ("ng0n2".into(), false), ("ng0n7".into(), false)]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_not_the_same_as_none() {
        let machine = FakeMachine::new("unreadable");
        machine.controller("0000:00:04.0", "nvme0", 1);
        machine.device("0000:00:05.0", 0x02_00_00, None, Some(1));
        let device = machine.pci().device("00:04.0".parse().unwrap()).unwrap();
        let folder = machine.path("sys/bus/pci/devices/0000:00:04.0");
        fs::remove_file(folder.join("driver")).unwrap();
        fs::remove_file(folder.join("driver_override")).unwrap();
        assert_eq!((device.driver().unwrap(), device.driver_override().unwrap()), (None, None));
        // Root may read any file, so each is of a kind that has nothing to read.
        fs::write(folder.join("driver"), "").unwrap();
        fs::create_dir(folder.join("driver_override")).unwrap();
        fs::create_dir(folder.join("../0000:00:05.0/driver")).unwrap();
        fs::create_dir(machine.path("sys/class/block/nvme0n1/hidden")).unwrap();
        let named = |error: Error, file: &str| assert!(error.to_string().contains(&format!("/{file}: ")), "{error}");
        named(device.driver().unwrap_err(), "driver");
        named(device.driver_override().unwrap_err(), "driver_override");
        named(device.companions().unwrap_err(), "0000:00:05.0/driver");
        named(device.namespaces().unwrap_err(), "nvme0n1/hidden");
        let partition = machine.path("sys/class/block/nvme0n1/nvme0n1p1");
        fs::create_dir(&partition).unwrap();
        fs::write(machine.path("sys/class/block/nvme0n1/dev"), "259:0\n").unwrap();
        assert_eq!(device.partitions("nvme0n1").unwrap(), Vec::<String>::new());
        fs::write(partition.join("partition"), "1\n").unwrap();
        assert_eq!(device.partitions("nvme0n1").unwrap(), ["nvme0n1p1"]);
        // A link to itself cannot be followed.
        fs::remove_file(partition.join("partition")).unwrap();
        std::os::unix::fs::symlink("partition", partition.join("partition")).unwrap();
        named(device.partitions("nvme0n1").unwrap_err(), "nvme0n1p1/partition");
        fs::remove_dir_all(machine.path("sys/class/block/nvme0n1")).unwrap();
        assert_eq!(device.partitions("nvme0n1").unwrap(), Vec::<String>::new());
        fs::write(machine.path("sys/class/block/nvme0n1"), "").unwrap();
        named(device.partitions("nvme0n1").unwrap_err(), "nvme0n1");
        fs::remove_dir_all(folder.join("nvme")).unwrap();
        assert_eq!(device.namespaces().unwrap(), []);
        fs::write(folder.join("nvme"), "").unwrap();
        named(device.namespaces().unwrap_err(), "nvme");
    }

    #[test]
    fn a_machine_without_pci_has_no_controllers() {
        assert!(Pci::new("/nonexistent").controllers().unwrap().is_empty());
    }

    #[test]
    fn the_devices_of_a_group_are_told_with_their_drivers() {
        let machine = FakeMachine::new("group");
        machine.controller("0000:01:00.0", "nvme0", 4);
        machine.device("0000:00:01.0", 0x06_04_00, Some("pcieport"), Some(1));
        machine.device("0000:01:00.1", 0x02_00_00, None, Some(1));
        let companions = machine.pci().device("01:00.0".parse().unwrap()).unwrap().companions().unwrap();
        let expected = [("0000:00:01.0", Some("pcieport"), true), ("0000:01:00.1", None, false)].map(
            |(name, driver, is_bridge)| Companion { name: name.into(), driver: driver.map(Into::into), is_bridge },
        );
        assert_eq!(companions, expected);
    }
}
