//! The machine's NVMe controllers, their uses, and whether one may be taken from the kernel for the user-space driver. Called by
//! `iolane nvme`; `iolane_nvme::binding` carries the decisions out. A controller in use is never taken.

use std::path::{Path, PathBuf};

use iolane_core::open_files::{OpenFile, OpenFiles, Opener};
use iolane_nvme::binding::{self, Bindings, KERNEL_DRIVER, Locked, Record, VFIO_DRIVER};
pub use iolane_nvme::binding::{Owner, Returned};
pub use iolane_nvme::pci::Bdf;
use iolane_nvme::pci::{Companion, Device, KernelNamespace};
pub use iolane_nvme::{CONTROLLER, release};

use crate::guard::{self, DiskClaim};
use crate::{Error, Result};

/// The folder of the kernel's devices.
const DEV: &str = "/dev";

/// An NVMe controller of this machine.
#[derive(Debug, Clone)]
pub struct ListedController {
    /// Its PCI address.
    pub bdf: Bdf,
    /// Its model, also while it is taken from the kernel.
    pub model: Option<String>,
    /// PCI vendor and device ID: `1b36:0010`.
    pub pci_id: Option<String>,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// Its IOMMU group; `None` without an IOMMU.
    pub iommu_group: Option<u32>,
    /// Its node for user space, while it is bound to vfio-pci.
    pub vfio_node: Option<PathBuf>,
    /// Whether [`bind`] took it, so that [`restore`] returns it.
    pub taken: bool,
    /// Its namespaces, while it is bound to the kernel's driver.
    pub namespaces: Vec<ListedNamespace>,
    /// The processes that have the controller itself open, as text.
    pub used_by: Vec<String>,
}

/// A namespace that the kernel offers as a device.
#[derive(Debug, Clone)]
pub struct ListedNamespace {
    /// The kernel's name of its block device, as `nvme0n1`, or of its character device if it has no other.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its uses, as text that calls it "it": "it is mounted at /".
    pub used_by: Vec<String>,
}

/// Every NVMe controller, in the order of their addresses. Only root sees the processes of other users.
///
/// # Errors
/// If sysfs cannot be read, or a record of a taken controller is damaged.
pub fn controllers() -> Result<Vec<ListedController>> {
    let bindings = Bindings::here();
    let (records, openers) = (bindings.records()?, OpenFiles::scan()?);
    let devices = bindings.pci().controllers()?;
    let record = |device: &Device| records.iter().find(|record| record.bdf == device.bdf());
    Ok(devices.iter().map(|device| controller(&bindings, device, record(device), &openers)).collect())
}

fn controller(bindings: &Bindings, device: &Device, record: Option<&Record>, openers: &OpenFiles) -> ListedController {
    let driver = device.driver().ok().flatten();
    let is_with_vfio = driver.as_deref() == Some(VFIO_DRIVER);
    let of_kernel = device.nodes().unwrap_or_default();
    let namespace = |found: KernelNamespace| ListedNamespace {
        used_by: uses_of(&found, &of_kernel, openers),
        name: if found.has_block_device { found.name } else { found.generic_name() },
        bytes: found.bytes,
    };
    let (namespaces, unknown) = match device.namespaces() {
        Ok(namespaces) => (namespaces, None),
        Err(error) => (Vec::new(), Some(format!("its namespaces are unknown ({error})"))),
    };
    let uses = match is_with_vfio {
        true => uses_of_nodes(&bindings.nodes(device), openers),
        false => uses_of_controller(device, &of_kernel, openers),
    };
    ListedController {
        bdf: device.bdf(),
        model: device.model().or_else(|| record.filter(|_| is_with_vfio)?.model.clone()),
        pci_id: device.pci_id(),
        iommu_group: device.iommu_group(),
        vfio_node: device.iommu_group().filter(|_| is_with_vfio).map(|group| bindings.group_node(group)),
        taken: is_with_vfio && record.is_some(),
        namespaces: namespaces.into_iter().map(namespace).collect(),
        used_by: uses.into_iter().chain(unknown).collect(),
        driver,
    }
}

/// The processes that have nodes open, by their names.
fn uses_of_nodes(nodes: &[PathBuf], openers: &OpenFiles) -> Vec<String> {
    let of_node = |node: &PathBuf| {
        let uses = openers.of(node).iter().map(|opener| format!("{opener} has {} open", node.display()));
        uses.collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of_node).collect()
}

/// Those that have the administration node of a controller open, which is one of its nodes.
fn uses_of_controller(device: &Device, nodes: &[(String, Option<OpenFile>)], openers: &OpenFiles) -> Vec<String> {
    let Ok(Some(name)) = device.controller_name() else { return Vec::new() };
    let number = nodes.iter().find(|(node, _)| *node == name).and_then(|(_, number)| *number);
    let has_open = openers_of(&name, number, openers, Path::new(DEV));
    has_open.iter().map(|opener| format!("{opener} has {DEV}/{name} open")).collect()
}

fn uses_of(namespace: &KernelNamespace, nodes: &[(String, Option<OpenFile>)], openers: &OpenFiles) -> Vec<String> {
    let mut uses = match namespace.has_block_device {
        true => guard::uses_of_disk(&namespace.name).unwrap_or_else(|error| vec![error.cause().into()]),
        false => Vec::new(),
    };
    let of_partition = |name: &str| name.strip_prefix(&namespace.name).is_some_and(|rest| rest.starts_with('p'));
    let its = nodes
        .iter()
        .filter(|(name, _)| *name == namespace.name || *name == namespace.generic_name() || of_partition(name));
    for (name, number) in its {
        let has_open = openers_of(name, *number, openers, Path::new(DEV));
        uses.extend(has_open.iter().map(|opener| format!("{opener} has {name} open")));
    }
    uses
}

/// The processes that have a device open: by its number, and if none is found so, by its name in the folder `dev`.
fn openers_of<'a>(name: &str, number: Option<OpenFile>, openers: &'a OpenFiles, dev: &Path) -> &'a [Opener] {
    match number.map(|number| openers.openers_of(number)) {
        Some(found @ [_, ..]) => found,
        _ => openers.of(&dev.join(name)),
    }
}

/// A controller bound to vfio-pci.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Its PCI address.
    pub bdf: Bdf,
    /// Its node for user space.
    pub node: PathBuf,
    /// How it got there.
    pub how: Taken,
}

/// How a controller came to be bound to vfio-pci.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It was taken by this call, from this driver if it was bound to one.
    From(Option<String>),
    /// It was taken before, and [`restore`] returns it.
    Before,
    /// Another program bound it, and [`restore`] leaves it there.
    ByOthers,
}

/// Takes controllers from the kernel, binds them to vfio-pci, and reports each one. Nothing changes unless all may be taken; each
/// is claimed before it is checked and until it is unbound, so that nothing can be mounted in between. With an `owner`, the
/// nodes of their IOMMU groups are given to that user or group.
///
/// # Errors
/// `Unavailable` if one is not an NVMe controller, is in use, has no IOMMU, or shares its IOMMU group with a device that is bound
/// to another driver; `Failed` if a step fails: that one was returned, and those reported before stay taken.
pub fn bind(bdfs: &[Bdf], owner: Option<Owner>, told: &mut dyn FnMut(&Bound)) -> Result<()> {
    let bindings = Bindings::here();
    let mut devices: Vec<Device> = Vec::new();
    for bdf in bdfs {
        if !devices.iter().any(|device| device.bdf() == *bdf) {
            devices.push(takeable(&bindings, *bdf, bdfs)?);
        }
    }
    bindings.require_vfio()?;
    let locked = bindings.lock()?;
    if owner.is_some() {
        devices.iter().try_for_each(|device| require_own_group(&bindings, device, bdfs))?;
    }
    // Otherwise its present, half-taken state would be recorded as the original one.
    for record in unfinished(&bindings)?.iter().filter(|record| bdfs.contains(&record.bdf)) {
        locked.give_back(record)?;
    }
    let claims: Vec<Vec<DiskClaim>> = devices.iter().map(claim).collect::<Result<_>>()?;
    for (device, claims) in devices.iter().zip(claims) {
        let how = take(&bindings, &locked, device)?;
        drop(claims);
        if let Some(owner) = owner {
            bindings.set_owner(device, owner)?;
        }
        let group = device.iommu_group().ok_or_else(|| binding::no_iommu(device.bdf()))?;
        told(&Bound { bdf: device.bdf(), node: bindings.group_node(group), how });
    }
    Ok(())
}

/// Refuses to give away an IOMMU group of which another program bound a device to vfio-pci, as for a virtual machine: whoever may open the
/// group's node can have every device of it.
fn require_own_group(bindings: &Bindings, device: &Device, others: &[Bdf]) -> Result<()> {
    let is_recorded = |bdf: Bdf| Ok::<bool, Error>(bindings.record(bdf)?.is_some());
    let theirs = |name: String| {
        let cause = format!("vfio-pci has {name} of its IOMMU group, and not by `iolane nvme bind`");
        let error = refused(device.bdf(), cause);
        Err(error.remedy("leave out --user and --group, and let what bound it decide who may open the group"))
    };
    if device.driver()?.as_deref() == Some(VFIO_DRIVER) && !is_recorded(device.bdf())? {
        return theirs(device.bdf().to_string());
    }
    for companion in device.companions()? {
        let bdf = companion.name.parse::<Bdf>().ok();
        let is_bound = companion.driver.as_deref() == Some(VFIO_DRIVER);
        if is_bound && !bdf.is_some_and(|bdf| others.contains(&bdf)) && !bdf.map_or(Ok(false), is_recorded)? {
            return theirs(companion.name);
        }
    }
    Ok(())
}

fn take(bindings: &Bindings, locked: &Locked<'_>, device: &Device) -> Result<Taken> {
    let driver = device.driver()?;
    if driver.as_deref() == Some(VFIO_DRIVER) {
        let is_recorded = bindings.record(device.bdf())?.is_some();
        return Ok(if is_recorded { Taken::Before } else { Taken::ByOthers });
    }
    locked.take(device)?;
    Ok(Taken::From(driver))
}

fn refused(bdf: Bdf, cause: impl Into<String>) -> Error {
    Error::unavailable(format!("taking {bdf}"), cause)
}

/// The device at that address, if it may be taken together with `others`; its uses are not checked.
fn takeable(bindings: &Bindings, bdf: Bdf, others: &[Bdf]) -> Result<Device> {
    let list = "`iolane nvme list` shows the controllers there are";
    let device = bindings.pci().device(bdf).ok_or_else(|| refused(bdf, "there is no such PCI device").remedy(list))?;
    if !device.is_nvme()? {
        return Err(refused(bdf, "it is not an NVMe controller (its PCI class is not 010802)").remedy(list));
    }
    if let Some(driver) = device.driver()?.filter(|driver| ![KERNEL_DRIVER, VFIO_DRIVER].contains(&driver.as_str())) {
        return Err(refused(bdf, format!("driver {driver} has it")).remedy("give it back to nvme first"));
    }
    let Some(group) = device.iommu_group() else { return Err(binding::no_iommu(bdf)) };
    let taken_too = |name: &str| others.iter().any(|other| other.to_string() == name);
    let companions = device.companions()?;
    if let Some(companion) = companions.iter().find(|companion| !is_harmless(companion) && !taken_too(&companion.name))
    {
        let (name, driver) = (&companion.name, companion.driver.as_deref().unwrap_or_default());
        return Err(refused(bdf, format!("{name}, which driver {driver} has, is in its IOMMU group {group} too"))
            .remedy(
                "a group is driven as a whole: unbind that device from its driver, or move the drive to another slot",
            ));
    }
    Ok(device)
}

/// Whether a device of the same IOMMU group can stay bound as it is: VFIO refuses to open a group in which a kernel driver moves
/// data (drivers/vfio/vfio_main.c).
fn is_harmless(companion: &Companion) -> bool {
    let driver = companion.driver.as_deref();
    companion.is_bridge || matches!(driver, None | Some(VFIO_DRIVER | "pcieport" | "pci-stub"))
}

/// Claims every namespace of a controller; none if it is not bound to the kernel's driver.
fn claim(device: &Device) -> Result<Vec<DiskClaim>> {
    let namespaces = device.namespaces()?;
    let what = |name: &str| format!("taking {} ({name})", device.bdf());
    let disks = namespaces.iter().filter(|namespace| namespace.has_block_device);
    let claims = disks.map(|namespace| guard::claim_disk(&namespace.name, &what(&namespace.name)));
    let claims = claims.collect::<Result<_>>()?;
    if let Some(controller) = device.controller_name()? {
        guard::require_not_passed_through(&controller, &what(&controller))?;
    }
    let nodes = device.nodes()?;
    if !nodes.is_empty() {
        let openers = OpenFiles::scan()?;
        require_closed(device.bdf(), nodes, &openers, Path::new(DEV))?;
        openers.require_all_seen(&format!("taking {}", device.bdf()))?;
    }
    Ok(claims)
}

/// Refuses a controller of which a process has one of these nodes open: by its number, or by its name in the folder `dev`.
fn require_closed(bdf: Bdf, nodes: Vec<(String, Option<OpenFile>)>, openers: &OpenFiles, dev: &Path) -> Result<()> {
    for (name, number) in nodes {
        if let [opener, ..] = openers_of(&name, number, openers, dev) {
            let what = format!("taking {bdf} ({})", dev.join(name).display());
            return Err(Error::unavailable(what, format!("{opener} has it open")).remedy("end that process first"));
        }
    }
    Ok(())
}

/// The outcome of [`restore`] for one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// It was returned, or there was nothing to return.
    Returned(Returned),
    /// It was not taken; it is bound to this driver, if to any.
    WasNotTaken(Option<String>),
}

/// Returns controllers that were taken, or all of them if none is named. A failure of one does not stop the others.
///
/// # Errors
/// If this user may not, or a record is damaged. For each one: `Unavailable` if a process has it open or [`bind`] did not take
/// it, `Failed` if its driver does not take it back.
pub fn restore(bdfs: &[Bdf]) -> Result<Vec<(Bdf, Result<Restored>)>> {
    let bindings = Bindings::here();
    if bindings.records()?.is_empty() {
        return Ok(bdfs.iter().map(|bdf| (*bdf, not_recorded(&bindings, *bdf))).collect());
    }
    let locked = bindings.lock()?;
    let records = bindings.records()?;
    let recorded = records.iter().map(|record| record.bdf);
    let bdfs: Vec<Bdf> = if bdfs.is_empty() { recorded.collect() } else { bdfs.to_vec() };
    let restore = |bdf| match records.iter().find(|record| record.bdf == bdf) {
        Some(record) => locked.give_back(record).map(Restored::Returned),
        None => not_recorded(&bindings, bdf),
    };
    Ok(bdfs.into_iter().map(|bdf| (bdf, restore(bdf))).collect())
}

fn not_recorded(bindings: &Bindings, bdf: Bdf) -> Result<Restored> {
    let what = format!("giving {bdf} back");
    let Some(device) = bindings.pci().device(bdf) else {
        return Err(Error::unavailable(what, "there is no such PCI device, and no record of one")
            .remedy("`iolane nvme list` shows those there are"));
    };
    match device.driver()? {
        Some(driver) if driver == VFIO_DRIVER => {
            Err(Error::unavailable(what, "vfio-pci has it, but it was not `iolane nvme bind` that took it")
                .remedy("give it back by what took it, or by hand as docs/nvme-binding.md says"))
        }
        driver => Ok(Restored::WasNotTaken(driver)),
    }
}

/// Returns controllers that a killed process left half taken or half returned. Called when `iolane nvme` starts; without such
/// controllers it does nothing.
///
/// # Errors
/// If the records cannot be read. For each one, as [`restore`].
pub fn finish_interrupted() -> Result<Vec<(Bdf, Result<Returned>)>> {
    finish(&Bindings::here())
}

fn finish(bindings: &Bindings) -> Result<Vec<(Bdf, Result<Returned>)>> {
    let seen = unfinished(bindings)?;
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    match bindings.try_lock() {
        Ok(Some(locked)) => {
            // Read again: the process that had the lock may have finished meanwhile.
            Ok(unfinished(bindings)?.iter().map(|record| (record.bdf, locked.give_back(record))).collect())
        }
        // Another process is working on it.
        Ok(None) => Ok(Vec::new()),
        Err(_) => Ok(seen.iter().map(|record| (record.bdf, Err(takes_root(record.bdf)))).collect()),
    }
}

fn unfinished(bindings: &Bindings) -> Result<Vec<Record>> {
    Ok(bindings.records()?.into_iter().filter(|record| record.unfinished).collect())
}

fn takes_root(bdf: Bdf) -> Error {
    Error::unavailable(format!("giving {bdf} back"), "whoever took it was killed halfway, and finishing it takes root")
        .remedy("sudo iolane nvme restore")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine made of files.
    struct Machine(PathBuf);

    impl Machine {
        fn new(test: &str) -> Self {
            Self(std::env::temp_dir().join(format!("iolane-nvme-{test}-{}", std::process::id())))
        }

        fn bindings(&self) -> Bindings {
            Bindings::beneath(&self.0)
        }

        fn device(&self, bdf: &str, class: &str, driver: &str, group: Option<u32>) -> PathBuf {
            let device = self.0.join("sys/bus/pci/devices").join(bdf);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("class"), format!("0x{class}\n")).unwrap();
            fs::write(device.join("driver_override"), "(null)\n").unwrap();
            if !driver.is_empty() {
                symlink(Path::new("../../drivers").join(driver), device.join("driver")).unwrap();
            }
            if let Some(group) = group {
                let folder = self.0.join(format!("sys/kernel/iommu_groups/{group}"));
                fs::create_dir_all(folder.join("devices")).unwrap();
                symlink(&device, folder.join("devices").join(bdf)).unwrap();
                symlink(&folder, device.join("iommu_group")).unwrap();
            }
            device
        }

        fn takeable(&self, bdf: &str, others: &[&str]) -> String {
            let others: Vec<Bdf> = others.iter().map(|bdf| bdf.parse().unwrap()).collect();
            let taken = takeable(&self.bindings(), bdf.parse().unwrap(), &others);
            taken.map_or_else(|error| error.to_string(), |device| device.bdf().to_string())
        }

        fn record(&self, bdf: &str, unfinished: bool) {
            let folder = self.0.join("run/iolane/nvme");
            fs::create_dir_all(&folder).unwrap();
            let record = Record {
                bdf: bdf.parse().unwrap(),
                driver: Some("nvme".into()),
                driver_override: None,
                model: None,
                namespaces: 0,
                taken_unix_s: 0,
                unfinished,
            };
            fs::write(folder.join(format!("{bdf}.json")), serde_json::to_string(&record).unwrap()).unwrap();
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_no_idle_nvme_controller_under_an_iommu_is_refused_with_the_reason() {
        let machine = Machine::new("refused");
        machine.device("0000:00:04.0", "010802", "nvme", Some(1));
        machine.device("0000:00:05.0", "010802", "nvme", None);
        machine.device("0000:00:06.0", "010802", "uio_pci_generic", Some(2));
        machine.device("0000:00:1f.2", "010601", "ahci", Some(3));
        machine.device("0000:00:07.0", "010802", "", Some(4));
        for (bdf, answer) in [
            ("0000:00:04.0", "0000:00:04.0"),
            ("0000:00:07.0", "0000:00:07.0"),
            ("0000:00:08.0", "taking 0000:00:08.0: there is no such PCI device; "),
            ("0000:00:05.0", "taking 0000:00:05.0: no IOMMU watches over it"),
            ("0000:00:06.0", "taking 0000:00:06.0: driver uio_pci_generic has it"),
            ("0000:00:1f.2", "taking 0000:00:1f.2: it is not an NVMe controller"),
        ] {
            let told = machine.takeable(bdf, &[]);
            assert!(told.starts_with(answer), "{told}");
        }
        assert!(machine.takeable("0000:00:05.0", &[]).contains("intel_iommu=on"));
    }

    #[test]
    fn a_namespace_with_a_character_device_only_is_claimed_by_no_block_device_and_refused_while_it_is_open() {
        let machine = Machine::new("character");
        let folder = machine.device("0000:00:04.0", "010802", "nvme", Some(1));
        fs::create_dir_all(folder.join("nvme/nvme7/ng7n1")).unwrap();
        let device = machine.bindings().pci().device("00:04.0".parse().unwrap()).unwrap();
        // Only root sees what all processes have open.
        match claim(&device) {
            Ok(claims) => assert!(claims.is_empty()),
            Err(error) => assert!(error.to_string().contains("that cannot be looked into"), "{error}"),
        }
        let full = fs::File::open("/dev/full").unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(full).spawn().unwrap();
        let openers = OpenFiles::scan().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let assert_refused = |node: &str, dev: &Path| {
            let told = require_closed(device.bdf(), device.nodes().unwrap(), &openers, dev).unwrap_err().to_string();
            assert!(told.contains(&format!("/{node}): ")) && told.contains(" has it open; end that process"), "{told}");
        };
        for (class, node) in [("nvme-generic", "ng7n1"), ("nvme", "nvme7")] {
            let dev = machine.0.join("dev").join(node);
            fs::create_dir_all(&dev).unwrap();
            assert!(require_closed(device.bdf(), device.nodes().unwrap(), &openers, &dev).is_ok());
            symlink("/dev/full", dev.join(node)).unwrap();
            assert_refused(node, &dev);
            // Nothing in /dev has that name, as in a container.
            let number = machine.0.join("sys/class").join(class).join(node);
            fs::create_dir_all(&number).unwrap();
            fs::write(number.join("dev"), "1:7\n").unwrap();
            assert_refused(node, &machine.0.join("nowhere"));
            fs::remove_dir_all(number).unwrap();
        }
        let partition = machine.0.join("sys/class/block/nvme7n1/nvme7n1p2");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("partition"), "2\n").unwrap();
        let dev = machine.0.join("dev");
        symlink("/dev/full", dev.join("nvme7n1p2")).unwrap();
        assert_refused("nvme7n1p2", &dev);
    }

    #[test]
    fn a_controller_whose_driver_or_namespaces_cannot_be_read_is_not_taken() {
        let machine = Machine::new("unreadable");
        let folder = machine.device("0000:00:04.0", "010802", "nvme", Some(1));
        // Root may read any file, so each is of a kind that has nothing to read.
        fs::write(folder.join("nvme"), "").unwrap();
        let device = machine.bindings().pci().device("00:04.0".parse().unwrap()).unwrap();
        let told = claim(&device).err().unwrap().to_string();
        assert!(told.contains("0000:00:04.0/nvme: "), "{told}");
        let listed = controller(&machine.bindings(), &device, None, &OpenFiles::default());
        assert!(listed.used_by[0].starts_with("its namespaces are unknown (reading "), "{listed:?}");
        let other = machine.device("0000:00:05.0", "020000", "", Some(1));
        fs::write(other.join("driver"), "").unwrap();
        assert!(machine.takeable("0000:00:04.0", &[]).contains("0000:00:05.0/driver: "));
        fs::remove_file(folder.join("driver")).unwrap();
        fs::write(folder.join("driver"), "").unwrap();
        assert!(machine.takeable("0000:00:04.0", &[]).contains("0000:00:04.0/driver: "));
    }

    #[test]
    fn a_group_is_taken_whole_or_not_at_all() {
        let machine = Machine::new("groups");
        machine.device("0000:00:01.0", "060400", "pcieport", Some(1));
        machine.device("0000:01:00.0", "010802", "nvme", Some(1));
        machine.device("0000:01:00.1", "020000", "", Some(1));
        machine.device("0000:02:00.0", "010802", "nvme", Some(2));
        machine.device("0000:02:00.1", "010802", "nvme", Some(2));
        machine.device("0000:03:00.0", "010802", "nvme", Some(3));
        machine.device("0000:03:00.1", "020000", "igc", Some(3));
        assert_eq!(machine.takeable("0000:01:00.0", &[]), "0000:01:00.0");
        let alone = machine.takeable("0000:02:00.0", &["0000:02:00.0"]);
        let cause = "0000:02:00.1, which driver nvme has, is in its IOMMU group 2 too";
        assert!(alone.starts_with(&format!("taking 0000:02:00.0: {cause}; ")), "{alone}");
        assert_eq!(machine.takeable("0000:02:00.0", &["0000:02:00.0", "0000:02:00.1"]), "0000:02:00.0");
        assert!(machine.takeable("0000:03:00.0", &[]).contains("0000:03:00.1, which driver igc has"));
    }

    #[test]
    fn a_group_of_which_another_program_bound_a_device_is_not_given_away() {
        let machine = Machine::new("given-away");
        machine.device("0000:01:00.0", "010802", "nvme", Some(1));
        machine.device("0000:01:00.1", "010802", "vfio-pci", Some(1));
        machine.device("0000:02:00.0", "010802", "vfio-pci", Some(2));
        let bindings = machine.bindings();
        let told = |bdf: &str| {
            let device = bindings.pci().device(bdf.parse().unwrap()).unwrap();
            require_own_group(&bindings, &device, &[bdf.parse().unwrap()]).map_err(|error| error.to_string())
        };
        let cause = "vfio-pci has 0000:01:00.1 of its IOMMU group, and not by `iolane nvme bind`; leave out --user";
        assert!(told("01:00.0").unwrap_err().contains(cause));
        assert!(told("02:00.0").unwrap_err().contains("vfio-pci has 0000:02:00.0 of its IOMMU group"));
        machine.record("0000:01:00.1", false);
        machine.record("0000:02:00.0", false);
        assert_eq!((told("01:00.0"), told("02:00.0")), (Ok(()), Ok(())));
    }

    #[test]
    fn what_is_left_over_of_a_kill_is_given_back_and_what_is_finished_or_worked_on_is_left_alone() {
        let machine = Machine::new("left-over");
        let bindings = machine.bindings();
        machine.device("0000:00:04.0", "010802", "vfio-pci", Some(1));
        machine.record("0000:00:04.0", false);
        assert!(finish(&bindings).unwrap().is_empty());
        assert_eq!(bindings.records().unwrap().len(), 1);
        // This one was pulled out besides.
        machine.record("0000:00:05.0", true);
        let locked = bindings.lock().unwrap();
        assert!(finish(&bindings).unwrap().is_empty());
        drop(locked);
        let finished = finish(&bindings).unwrap();
        let outcomes: Vec<_> = finished.iter().map(|(bdf, result)| (bdf.to_string(), result.as_ref().ok())).collect();
        assert_eq!(outcomes, [("0000:00:05.0".into(), Some(&Returned::Gone))]);
        assert_eq!(bindings.records().unwrap().len(), 1);
    }

    #[test]
    fn what_was_never_taken_is_left_where_it_is_and_what_others_took_is_not_given_back() {
        let machine = Machine::new("others");
        machine.device("0000:00:04.0", "010802", "nvme", Some(1));
        machine.device("0000:00:05.0", "010802", "vfio-pci", Some(2));
        let told = |bdf: &str| not_recorded(&machine.bindings(), bdf.parse().unwrap());
        assert_eq!(told("00:04.0").unwrap(), Restored::WasNotTaken(Some("nvme".into())));
        assert!(told("00:05.0").unwrap_err().to_string().contains("it was not `iolane nvme bind`"));
        assert!(told("00:06.0").unwrap_err().to_string().contains("no such PCI device"));
    }

    #[test]
    fn a_controller_is_told_of_with_the_model_it_had_before_it_was_taken() {
        let machine = Machine::new("told");
        let folder = machine.device("0000:00:04.0", "010802", "vfio-pci", Some(1));
        fs::write(folder.join("vendor"), "0x1b36\n").unwrap();
        fs::write(folder.join("device"), "0x0010\n").unwrap();
        let bindings = machine.bindings();
        let device = bindings.pci().device("00:04.0".parse().unwrap()).unwrap();
        let told = |record| controller(&bindings, &device, record, &OpenFiles::default());
        machine.record("0000:00:04.0", false);
        let record = Record { model: Some("Fine drive".into()), ..bindings.records().unwrap().remove(0) };
        assert_eq!(
            (told(None).taken, told(None).model, told(None).pci_id.as_deref()),
            (false, None, Some("1b36:0010"))
        );
        assert_eq!((told(Some(&record)).taken, told(Some(&record)).model.as_deref()), (true, Some("Fine drive")));
        assert_eq!(told(None).vfio_node, Some(machine.0.join("dev/vfio/1")));
    }
}
