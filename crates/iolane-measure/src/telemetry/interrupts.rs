//! Interrupts of the targets' devices: sysfs names their lines, /proc/interrupts counts how often each fired.
//! [`Watch`](super::Watch) reads them around a run; `iolane probe --host` shows which CPUs handle them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use iolane::{Target, TargetKind};

use super::{Reading, Sourced, Unavailable};
use crate::host::controller_address;

/// What raises a target's interrupts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// A PCI device with a kernel driver: the folder of the device that the disk belongs to.
    Pci(PathBuf),
    /// A device on another bus, listed in /proc/interrupts by its own name, such as `virtio0`.
    Named(String),
    /// The PCI address of a controller that a program drives through VFIO.
    Vfio(String),
}

/// The origins of some targets' interrupts.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    proc: PathBuf,
    origins: BTreeSet<Origin>,
}

/// How often the lines had fired, at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InterruptSnapshot {
    fired: u64,
    lines: usize,
}

impl Interrupts {
    /// The origins of the targets' interrupts.
    ///
    /// # Errors
    /// If one of the targets has none: it is simulated, in memory, or on a file system without a device of its own.
    pub(crate) fn of(targets: &[Target], sys: &Path, proc: &Path) -> Reading<Self> {
        let mut origins = BTreeSet::new();
        for target in targets {
            origins.extend(origins_of(target, sys)?);
        }
        Ok(Self { proc: proc.to_owned(), origins })
    }

    /// Reads how often they have fired so far.
    ///
    /// # Errors
    /// If /proc/interrupts cannot be read, or lists none of the device's lines.
    pub(crate) fn take(&self) -> Reading<InterruptSnapshot> {
        let path = self.proc.join("interrupts");
        let text = fs::read_to_string(&path).map_err(|error| {
            Unavailable::new(format!("{}: {}", path.display(), iolane::error::describe(&error))).remedy("mount /proc")
        })?;
        let lines: Vec<Line<'_>> = self.lines(&text).collect();
        // A polled controller has set up no interrupt: it has no line and raises none.
        let polled = self.origins.iter().all(|origin| matches!(origin, Origin::Vfio(_)));
        if lines.is_empty() && !polled {
            return Err(Unavailable::new("/proc/interrupts lists no line of the device"));
        }
        Ok(InterruptSnapshot { fired: lines.iter().map(|line| line.fired).sum(), lines: lines.len() })
    }

    /// The numbers of the lines, as in /proc/irq.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.proc.join("interrupts")).unwrap_or_default();
        self.lines(&text).filter(|line| line.fired > 0).filter_map(|line| line.label.parse().ok()).collect()
    }

    fn lines<'a>(&self, text: &'a str) -> impl Iterator<Item = Line<'a>> {
        let wanted: Vec<Wanted> = self.origins.iter().map(Origin::wanted).collect();
        parse_interrupts(text).filter(move |line| wanted.iter().any(|wanted| wanted.is(line)))
    }
}

impl InterruptSnapshot {
    /// How often the lines fired between this snapshot and a later one.
    pub(crate) fn delta(&self, later: &Self) -> Sourced<u64> {
        let source = match later.lines {
            0 => "/proc/interrupts: the driver has set up no interrupt".to_owned(),
            1 => "/proc/interrupts, 1 line of the device".to_owned(),
            lines => format!("/proc/interrupts, {lines} lines of the device"),
        };
        // A line that disappeared meanwhile takes its count with it.
        Sourced::new(later.fired.saturating_sub(self.fired), source)
    }
}

/// Which lines of /proc/interrupts belong to an origin.
enum Wanted {
    Numbers(BTreeSet<String>),
    /// `virtio0`, or with a queue: `virtio0-req.0`.
    Device(String),
    /// `vfio-msix[0](0000:00:04.0)`, `vfio-intx(0000:00:04.0)` (drivers/vfio/pci/vfio_pci_intrs.c).
    Vfio(String),
}

impl Wanted {
    fn is(&self, line: &Line<'_>) -> bool {
        let action = line.action;
        match self {
            Self::Numbers(numbers) => numbers.contains(line.label),
            Self::Device(name) => {
                action.strip_prefix(name.as_str()).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'-', ..]))
            }
            Self::Vfio(address) => action.starts_with("vfio-") && action.ends_with(&format!("({address})")),
        }
    }
}

impl Origin {
    fn wanted(&self) -> Wanted {
        match self {
            Self::Pci(folder) => Wanted::Numbers(pci_lines(folder)),
            Self::Named(name) => Wanted::Device(name.clone()),
            Self::Vfio(address) => Wanted::Vfio(address.clone()),
        }
    }
}

/// The numbers of a PCI device's interrupts: MSI and MSI-X (Documentation/ABI/testing/sysfs-bus-pci, msi_irqs), otherwise
/// its legacy line.
fn pci_lines(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder.join("msi_irqs")).into_iter().flatten().flatten();
    let numbers: BTreeSet<String> = names.filter_map(|name| name.file_name().into_string().ok()).collect();
    if !numbers.is_empty() {
        return numbers;
    }
    let line = fs::read_to_string(folder.join("irq")).unwrap_or_default();
    Some(line.trim().to_owned()).filter(|line| !line.is_empty() && line != "0").into_iter().collect()
}

fn origins_of(target: &Target, sys: &Path) -> Reading<BTreeSet<Origin>> {
    match target.kind() {
        kind if kind.is_simulated() => Err(Unavailable::new("a simulated device raises no interrupts")),
        TargetKind::Own(_) => {
            let address = controller_address(target.name());
            let address = address.ok_or_else(|| Unavailable::new("the target's name has no PCI address"))?;
            Ok(BTreeSet::from([Origin::Vfio(address.to_string())]))
        }
        _ => {
            let number = target.device().ok_or_else(|| Unavailable::new("the target is not a device"))?;
            origins_of_disk(sys, number)
        }
    }
}

/// What raises the interrupts of a block device, or of all the devices under a stacked one (LVM, RAID).
fn origins_of_disk(sys: &Path, (major, minor): (u32, u32)) -> Reading<BTreeSet<Origin>> {
    let Ok(device) = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))) else {
        return Err(Unavailable::new("the file system has no device of its own (tmpfs, btrfs, overlayfs)")
            .remedy("use a file on another file system, or a block device"));
    };
    let origins = origins_below(&device);
    if origins.is_empty() {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        return Err(Unavailable::new(format!(
            "{name} is a virtual device of the kernel and raises no interrupts of its own"
        )));
    }
    Ok(origins)
}

fn origins_below(device: &Path) -> BTreeSet<Origin> {
    if let Some(origin) = device.ancestors().find_map(origin_at) {
        return BTreeSet::from([origin]);
    }
    // A stacked device, or the disk of its partition, lists the devices below it as links to their folders. The subsystem of
    // a multipath NVMe namespace lists its controllers likewise.
    let slaves = device.ancestors().take(2).flat_map(|folder| links_in(&folder.join("slaves")));
    let subsystem = device.ancestors().find(|folder| name_of(folder).starts_with("nvme-subsys"));
    let controllers = subsystem.map(links_in).unwrap_or_default();
    // Another of its links leads to the class of subsystems, which leads back.
    let controllers = controllers.into_iter().filter(|folder| is_numbered(&name_of(folder), "nvme"));
    slaves.chain(controllers).flat_map(|below| origins_below(&below)).collect()
}

/// Whether a name is one of a kernel's numbered devices, as the controller `nvme0`.
fn is_numbered(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The origin of interrupts at this folder, if it is that of a device which raises some.
fn origin_at(folder: &Path) -> Option<Origin> {
    if !pci_lines(folder).is_empty() {
        return Some(Origin::Pci(folder.to_owned()));
    }
    let name = name_of(folder);
    let on_a_bus_without_pci =
        is_numbered(&name, "virtio") && folder.ancestors().skip(1).all(|above| pci_lines(above).is_empty());
    on_a_bus_without_pci.then_some(Origin::Named(name))
}

fn links_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|link| fs::canonicalize(link.path()).ok()).collect()
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A line of /proc/interrupts.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    /// Its number, or the short name of an interrupt that belongs to no device.
    label: &'a str,
    /// How often it fired, on all cpus.
    fired: u64,
    /// The driver's name for it: the last word; if several devices share the line, that of the last.
    action: &'a str,
}

/// The lines `36: 0 26552991 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0`, after a heading that names the cpus
/// (proc_interrupts(5)).
fn parse_interrupts(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().skip(1).filter_map(|line| {
        let (label, rest) = line.split_once(':')?;
        let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let fired = counts.fold(0u64, u64::saturating_add);
        Some(Line { label: label.trim(), fired, action: rest.split_whitespace().next_back()? })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sysfs_fixture::Fixture;

    const INTERRUPTS: &str = "           CPU0       CPU1       \n\
                              24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
                              35:          0          4  PCI-MSIX-0000:00:02.0   0-edge      virtio1-config\n\
                              36:         10         20  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
                              37:          7          0  GIC-0  virtio0\n\
                              38:          7          0  GIC-0  virtio10-req.0\n\
                              40:        100        200  PCI-MSIX-0000:01:00.0   1-edge      nvme0q1\n\
                              44:         3          4  PCI-MSI-0000:00:04.0   1-edge      vfio-msix[1](0000:00:04.0)\n\
                              45:         9          9  PCI-MSI-0000:00:05.0   1-edge      vfio-msix[1](0000:00:05.0)\n\
                              NMI:          5          5   Non-maskable interrupts\n\
                              ERR:          0\n";

    fn disk(sys: &Fixture, number: &str, device: &str) -> Interrupts {
        sys.link(&format!("sys/dev/block/{number}"), &format!("../../{device}"));
        let (major, minor) = number.split_once(':').unwrap();
        let number = (major.parse().unwrap(), minor.parse().unwrap());
        let origins = origins_of_disk(&sys.path("sys"), number).unwrap();
        Interrupts { proc: sys.path("proc"), origins }
    }

    fn with_interrupts() -> Fixture {
        let fixture = Fixture::new();
        fixture.write("proc/interrupts", INTERRUPTS);
        fixture
    }

    #[test]
    fn a_disks_interrupts_are_those_of_the_pci_device_it_hangs_on() {
        let fixture = with_interrupts();
        fixture
            .write("sys/devices/pci0000:00/0000:00:02.0/msi_irqs/35", "msix\n")
            .write("sys/devices/pci0000:00/0000:00:02.0/msi_irqs/36", "msix\n")
            .write("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/vda1/partition", "1\n");
        let interrupts = disk(&fixture, "253:1", "devices/pci0000:00/0000:00:02.0/virtio1/block/vda/vda1");
        let before = interrupts.take().unwrap();
        assert_eq!(before, InterruptSnapshot { fired: 34, lines: 2 });
        assert_eq!(interrupts.numbers(), [35, 36]);
        fixture.write("proc/interrupts", &INTERRUPTS.replace("20  PCI", "26  PCI"));
        let delta = before.delta(&interrupts.take().unwrap());
        assert_eq!(delta, Sourced::new(6, "/proc/interrupts, 2 lines of the device"));
    }

    #[test]
    fn a_device_without_msi_has_its_line() {
        let fixture = with_interrupts();
        fixture.write("sys/devices/pci0000:00/0000:00:1f.2/irq", "40\n");
        fixture.write("sys/devices/pci0000:00/0000:00:1f.2/ata1/sda/size", "1\n");
        let interrupts = disk(&fixture, "8:0", "devices/pci0000:00/0000:00:1f.2/ata1/sda");
        assert_eq!(interrupts.take().unwrap(), InterruptSnapshot { fired: 300, lines: 1 });
    }

    #[test]
    fn a_device_on_no_pci_bus_is_found_by_its_own_name_and_no_longer_one() {
        let fixture = with_interrupts();
        fixture.write("sys/devices/platform/a000000.virtio_mmio/virtio0/block/vda/size", "1\n");
        let interrupts = disk(&fixture, "253:0", "devices/platform/a000000.virtio_mmio/virtio0/block/vda");
        assert_eq!(interrupts.take().unwrap(), InterruptSnapshot { fired: 7, lines: 1 });
        fixture.write("sys/devices/platform/b000000.virtio_mmio/virtio1/block/vdb/size", "1\n");
        let interrupts = disk(&fixture, "253:16", "devices/platform/b000000.virtio_mmio/virtio1/block/vdb");
        assert_eq!(interrupts.take().unwrap(), InterruptSnapshot { fired: 34, lines: 2 });
    }

    #[test]
    fn stacked_devices_and_namespaces_of_several_paths_have_those_of_what_is_below() {
        let fixture = with_interrupts();
        let controller = "sys/devices/pci0000:00/0000:01:00.0";
        fixture
            .write(&format!("{controller}/msi_irqs/40"), "msix\n")
            .write(&format!("{controller}/nvme/nvme0/model"), "an SSD\n")
            .write("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p2/partition", "2\n")
            .link(
                "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0",
                "../../../pci0000:00/0000:01:00.0/nvme/nvme0",
            )
            // The class lists the subsystem, which leads to the class: a circle.
            .link("sys/devices/virtual/nvme-subsystem/nvme-subsys0/subsystem", "../../../../class/nvme-subsystem")
            .link("sys/class/nvme-subsystem/nvme-subsys0", "../../devices/virtual/nvme-subsystem/nvme-subsys0")
            .link("sys/devices/virtual/block/dm-0/slaves/nvme0n1", "../../../nvme-subsystem/nvme-subsys0/nvme0n1");
        for (number, device) in [
            ("259:0", "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"),
            ("259:2", "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p2"),
            ("252:0", "devices/virtual/block/dm-0"),
        ] {
            let interrupts = disk(&fixture, number, device);
            assert_eq!(interrupts.take().unwrap(), InterruptSnapshot { fired: 300, lines: 1 }, "{device}");
        }
    }

    #[test]
    fn what_raises_no_interrupts_is_unavailable_and_says_why() {
        let fixture = with_interrupts();
        fixture.write("sys/devices/virtual/block/nullb0/size", "1\n");
        fixture.link("sys/dev/block/251:0", "../../devices/virtual/block/nullb0");
        let why = |number| origins_of_disk(&fixture.path("sys"), number).unwrap_err().reason;
        assert!(why((251, 0)).contains("nullb0 is a virtual device"));
        assert!(why((0, 30)).contains("no device of its own"));
        for name in ["null", "sim"] {
            let targets = [Target::open(name).unwrap()];
            let unavailable = Interrupts::of(&targets, &fixture.path("sys"), &fixture.path("proc")).unwrap_err();
            assert!(unavailable.reason.contains("simulated device"), "{unavailable}");
        }
    }

    #[test]
    fn a_controller_under_vfio_has_the_lines_that_bear_its_address_or_none_if_it_polls() {
        let fixture = with_interrupts();
        let of = |address: &str| Interrupts {
            proc: fixture.path("proc"),
            origins: BTreeSet::from([Origin::Vfio(address.into())]),
        };
        let address = controller_address("pci:00:04.0,ns=2").unwrap().to_string();
        assert_eq!(of(&address).take().unwrap(), InterruptSnapshot { fired: 7, lines: 1 });
        let polls = of("0000:00:06.0").take().unwrap();
        assert_eq!(polls.delta(&polls), Sourced::new(0, "/proc/interrupts: the driver has set up no interrupt"));
    }

    #[test]
    fn missing_lines_are_unavailable_and_not_0() {
        let fixture = Fixture::new();
        let origins = BTreeSet::from([Origin::Named("virtio7".into())]);
        let interrupts = Interrupts { proc: fixture.path("proc"), origins };
        assert!(interrupts.take().unwrap_err().reason.contains("interrupts"));
        fixture.write("proc/interrupts", INTERRUPTS);
        assert!(interrupts.take().unwrap_err().reason.contains("no line of the device"));
    }

    #[test]
    fn counts_of_all_cpus_are_added_and_what_follows_them_is_not() {
        let lines: Vec<Line<'_>> = parse_interrupts(INTERRUPTS).collect();
        assert_eq!(lines[2], Line { label: "36", fired: 30, action: "virtio1-req.0" });
        assert_eq!(lines[8].fired, 10);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\PC\n:0-9 ]{0,200}") {
            let _ = parse_interrupts(&text).count();
        }
    }
}
