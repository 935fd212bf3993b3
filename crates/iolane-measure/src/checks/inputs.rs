//! The facts that `iolane probe --host` reads: the current state of the machine, and what every record contains about it.
//! `rules` judges them.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use iolane::units::CpuList;
use iolane::{IoPath, Target};
use rustix::thread::CapabilitySet;

use crate::host::{DeviceHost, Host, disk_name, parse_switch, read};
use crate::placement::allowed_cpus;
use crate::telemetry::{
    Counters, Interrupts, Permission, Reading, SystemSnapshot, Unavailable, cpus_of, granted_cpus, limits_on, nodes_of,
};

/// The machine, the device behind a target, and their current use.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What every record contains about the machine.
    pub host: Host,
    /// What every record contains about the target's device; `None` for a simulated one.
    pub device: Option<DeviceHost>,
    /// The disk's name in /sys/block.
    pub disk: Option<String>,
    /// The CPUs that handle the device's interrupts.
    pub interrupts: Reading<InterruptSpread>,
    /// Whether irqbalance runs.
    pub irqbalance: bool,
    pub clock_source: Option<String>,
    /// Whether the processor may exceed its nominal frequency.
    pub turbo: Option<Turbo>,
    /// The sysctl kernel.perf_event_paranoid.
    pub perf_event_paranoid: Option<i32>,
    /// Whether this process may count work in the kernel regardless.
    pub may_perfmon: bool,
    /// Whether this process may lock any amount of memory.
    pub may_lock: bool,
    /// Why a ring cannot be opened on the target, with what helps; `None` if one can, or the target is none of the kernel's.
    pub io_uring_refused: Option<(String, String)>,
    /// Whether hardware counters work.
    pub hardware_counters: Reading<()>,
    /// Whether the processor's energy counters are readable.
    pub rapl: Reading<()>,
    /// The CPUs that this process may use.
    pub cpus: CpuList,
    /// Their NUMA nodes, as a list.
    pub cpu_nodes: Reading<String>,
    /// The CPUs of the device's node.
    pub device_cpus: Option<CpuList>,
    /// The most CPUs that a quota of its control groups grants this process; `None` without one.
    pub quota_cpus: Option<f64>,
    /// The limits of its control groups on the target's disk, such as `riops=1000`.
    pub io_limits: Vec<String>,
    /// Mean number of busy CPUs while this was gathered, on the whole machine.
    pub busy_cpus: Reading<f64>,
}

/// How a device's interrupts are spread over CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptSpread {
    /// The numbers of its lines that have fired.
    pub lines: Vec<u32>,
    /// The CPUs that handle them.
    pub cpus: CpuList,
}

/// The switch for frequencies above the nominal one. Drivers have it in two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turbo {
    /// `/sys/devices/system/cpu/intel_pstate/no_turbo`.
    IntelPstate { on: bool },
    /// `/sys/devices/system/cpu/cpufreq/boost`.
    Boost { on: bool },
}

/// Interval over which load is measured; a kernel tick is at most 10 ms.
const LOAD_WINDOW: Duration = Duration::from_millis(300);

impl Facts {
    /// Reads the facts; takes a third of a second.
    pub fn gather(target: &Target) -> Self {
        let (sys, proc) = (Path::new("/sys"), Path::new("/proc"));
        let cpus: CpuList = allowed_cpus().into_iter().collect();
        let device = DeviceHost::gather(target);
        let permission = Permission::of_this_process();
        let capabilities = rustix::thread::capabilities(None);
        Self {
            host: Host::gather(),
            disk: disk_name(sys, target),
            interrupts: Interrupts::of(std::slice::from_ref(target), sys, proc)
                .and_then(|interrupts| spread(&interrupts.numbers(), proc)),
            irqbalance: runs(proc, "irqbalance"),
            clock_source: read(sys.join("devices/system/clocksource/clocksource0/current_clocksource")),
            turbo: turbo(sys),
            perf_event_paranoid: permission.paranoid,
            may_perfmon: permission.may_perfmon,
            may_lock: capabilities.is_ok_and(|held| held.effective.contains(CapabilitySet::IPC_LOCK)),
            io_uring_refused: io_uring_refused(target),
            hardware_counters: Counters::check(),
            rapl: rapl(sys),
            cpu_nodes: nodes_of(cpus.cpus(), sys).map(|nodes| nodes.value),
            device_cpus: device.as_ref().and_then(|device| cpus_of(device.numa_node?, sys)),
            device,
            cpus,
            quota_cpus: granted_cpus(sys, proc),
            io_limits: limits_on(target),
            busy_cpus: busy_cpus(),
        }
    }
}

fn io_uring_refused(target: &Target) -> Option<(String, String)> {
    let path = IoPath::new("io_uring");
    let interface = iolane::interface_of(&path).ok().filter(|interface| interface.reaches(target.kind()))?;
    let error = interface.probe(&path, target).err()?;
    Some((error.cause().to_owned(), error.remedy_text().to_owned()))
}

/// The CPUs that handle these lines, as the kernel has chosen among those allowed.
fn spread(lines: &[u32], proc: &Path) -> Reading<InterruptSpread> {
    let cpus = |line: &u32| {
        let folder = proc.join(format!("irq/{line}"));
        let list = read(folder.join("effective_affinity_list")).or_else(|| read(folder.join("smp_affinity_list")))?;
        list.parse::<CpuList>().ok()
    };
    let taking: BTreeSet<u32> = lines.iter().filter_map(cpus).flat_map(|list| list.cpus().to_vec()).collect();
    if taking.is_empty() {
        return Err(Unavailable::new("the device has raised no interrupt yet, or /proc/irq does not list its CPUs"));
    }
    Ok(InterruptSpread { lines: lines.to_vec(), cpus: taking.into_iter().collect() })
}

fn turbo(sys: &Path) -> Option<Turbo> {
    let switch = |path: &str| read(sys.join("devices/system/cpu").join(path)).as_deref().and_then(parse_switch);
    let intel = switch("intel_pstate/no_turbo").map(|no_turbo| Turbo::IntelPstate { on: !no_turbo });
    intel.or_else(|| switch("cpufreq/boost").map(|on| Turbo::Boost { on }))
}

/// Whether a program of that name runs in this process namespace.
fn runs(proc: &Path, program: &str) -> bool {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let is_process =
        |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let mut processes = entries.filter(|entry| is_process(&entry.file_name()));
    processes.any(|process| read(process.path().join("comm")).is_some_and(|name| name == program))
}

/// Whether an energy counter is readable (Documentation/power/powercap/powercap.rst). Since Linux 5.10 only root may read it.
fn rapl(sys: &Path) -> Reading<()> {
    let zones = fs::read_dir(sys.join("class/powercap")).into_iter().flatten().flatten();
    let counters: Vec<_> = zones.map(|zone| zone.path().join("energy_uj")).filter(|file| file.exists()).collect();
    let Some(counter) = counters.first() else {
        return Err(Unavailable::new("not present (a virtual machine, or its driver is not loaded)")
            .remedy("modprobe intel_rapl_msr, or select another meter"));
    };
    match fs::read_to_string(counter) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let command = format!("run as root, or chmod a+r {}", sys.join("class/powercap/*/energy_uj").display());
            Err(Unavailable::new("only root may read it").remedy(command))
        }
        Err(error) => Err(Unavailable::new(iolane::error::describe(&error))),
    }
}

fn busy_cpus() -> Reading<f64> {
    let (before, begun) = (SystemSnapshot::take()?, Instant::now());
    std::thread::sleep(LOAD_WINDOW);
    let used = before.delta(&SystemSnapshot::take()?);
    Ok(used.busy_s.values().sum::<f64>() / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    #[test]
    fn interrupts_are_handled_where_the_kernel_has_put_them() {
        let fixture = Fixture::new();
        fixture
            .write("irq/36/smp_affinity_list", "0-3\n")
            .write("irq/36/effective_affinity_list", "1\n")
            .write("irq/37/smp_affinity_list", "2-3\n");
        let spread = spread(&[36, 37], &fixture.path("")).unwrap();
        assert_eq!((spread.cpus.to_string().as_str(), spread.lines), ("1-3", vec![36, 37]));
        assert!(super::spread(&[], &fixture.path("")).is_err());
    }

    #[test]
    fn turbo_is_looked_for_in_both_places() {
        let fixture = Fixture::new();
        assert_eq!(turbo(&fixture.path("")), None);
        fixture.write("devices/system/cpu/cpufreq/boost", "0\n");
        assert_eq!(turbo(&fixture.path("")), Some(Turbo::Boost { on: false }));
        fixture.write("devices/system/cpu/intel_pstate/no_turbo", "0\n");
        assert_eq!(turbo(&fixture.path("")), Some(Turbo::IntelPstate { on: true }));
    }

    #[test]
    fn a_counter_of_energy_is_readable_or_missing() {
        let fixture = Fixture::new();
        assert!(rapl(&fixture.path("")).unwrap_err().reason.contains("not present"));
        fixture.write("class/powercap/intel-rapl/enabled", "1\n");
        assert!(rapl(&fixture.path("")).is_err());
        fixture.write("class/powercap/intel-rapl:0/energy_uj", "123456\n");
        assert_eq!(rapl(&fixture.path("")), Ok(()));
    }

    #[test]
    fn a_program_is_known_by_its_own_name() {
        let fixture = Fixture::new();
        fixture.write("12/comm", "irqbalance\n").write("self/comm", "other\n").write("13/comm", "irq\n");
        assert!(runs(&fixture.path(""), "irqbalance"));
        assert!(!runs(&fixture.path(""), "other"));
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = Facts::gather(&Target::open("null").unwrap());
        assert_eq!((facts.device, facts.disk), (None, None));
        assert!(facts.interrupts.is_err() && !facts.cpus.cpus().is_empty());
        assert!(facts.busy_cpus.is_ok_and(|busy| busy >= 0.0));
    }
}
