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
    // What cannot be listed of its namespaces is missing among its nodes too.
    let (of_kernel, unknown) = match device.nodes() {
        Ok(nodes) => (nodes, None),
        Err(error) => (Vec::new(), Some(format!("its namespaces are unknown ({error})"))),
    };
    let namespaces = device.namespaces().unwrap_or_default();
    let namespace = |found: KernelNamespace| ListedNamespace {
        used_by: uses_of(&found, &of_kernel, openers),
        name: if found.has_block_device { found.name } else { found.generic_name() },
        bytes: found.bytes,
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
mod tests;
