//! What `iolane probe --host` looks at: the machine as it is now, beside what every record holds of it. Facts alone;
//! `findings` says what they mean.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use iolane::Target;
use iolane::units::CpuList;
use rustix::thread::CapabilitySet;

use super::counters::Counters;
use super::host::{disk_name, parse_switch, read};
use super::interrupts::Interrupts;
use super::perf::Permission;
use super::{DeviceHost, Host, MachineSnapshot, Reading, Unavailable, numa};
use crate::placement::allowed_cpus;

/// The machine, the device behind a target, and who uses them now.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What every record holds of the machine.
    pub host: Host,
    /// And of the target's device; `None` for a made-up one.
    pub device: Option<DeviceHost>,
    /// The disk's name in /sys/block.
    pub disk: Option<String>,
    /// Where the device's interrupts go; why there are none to look at.
    pub interrupts: Reading<InterruptSpread>,
    /// Whether irqbalance moves interrupts about.
    pub irqbalance: bool,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Whether the clock may go above the nominal one.
    pub turbo: Option<Turbo>,
    /// The sysctl kernel.perf_event_paranoid.
    pub perf_event_paranoid: Option<i32>,
    /// Whether this process may count the kernel's part all the same.
    pub may_perfmon: bool,
    /// Whether this process may lock as much memory as it likes.
    pub may_lock: bool,
    /// Whether the processor's counters count.
    pub hardware_counters: Reading<()>,
    /// Whether the processor tells what it takes.
    pub rapl: Reading<()>,
    /// The cpus that this process may use.
    pub cpus: CpuList,
    /// Their NUMA nodes, as a list.
    pub cpu_nodes: Reading<String>,
    /// The cpus of the device's node.
    pub device_cpus: Option<CpuList>,
    /// How many cpus were busy while this was gathered, whoever with.
    pub busy_cpus: Reading<f64>,
}

/// Where a device's interrupts go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptSpread {
    /// The numbers of its lines that have fired.
    pub lines: Vec<u32>,
    /// The cpus that take them.
    pub cpus: CpuList,
}

/// The switch for clocks above the nominal one, which drivers have in two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turbo {
    /// `/sys/devices/system/cpu/intel_pstate/no_turbo`.
    IntelPstate {
        /// Whether it may.
        on: bool,
    },
    /// `/sys/devices/system/cpu/cpufreq/boost`.
    Boost {
        /// Whether it may.
        on: bool,
    },
}

/// How long the machine's load is looked at: ticks of the kernel are 10 ms at most.
const LOAD_WINDOW: Duration = Duration::from_millis(300);

impl Facts {
    /// Looks at the machine, for a third of a second.
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
            hardware_counters: Counters::check(),
            rapl: rapl(sys),
            cpu_nodes: numa::nodes_of(cpus.cpus(), sys).map(|nodes| nodes.value),
            device_cpus: device.as_ref().and_then(|device| numa::cpus_of(device.numa_node?, sys)),
            device,
            cpus,
            busy_cpus: busy_cpus(),
        }
    }
}

/// The cpus that take these lines, as the kernel has chosen among those they may go to.
fn spread(lines: &[u32], proc: &Path) -> Reading<InterruptSpread> {
    let cpus = |line: &u32| {
        let folder = proc.join(format!("irq/{line}"));
        let list = read(folder.join("effective_affinity_list")).or_else(|| read(folder.join("smp_affinity_list")))?;
        list.parse::<CpuList>().ok()
    };
    let taking: BTreeSet<u32> = lines.iter().filter_map(cpus).flat_map(|list| list.cpus().to_vec()).collect();
    if taking.is_empty() {
        return Err(Unavailable::new("the device has raised no interrupt yet, or /proc/irq tells not where they go"));
    }
    Ok(InterruptSpread { lines: lines.to_vec(), cpus: taking.into_iter().collect() })
}

fn turbo(sys: &Path) -> Option<Turbo> {
    let switch = |path: &str| read(sys.join("devices/system/cpu").join(path)).as_deref().and_then(parse_switch);
    let intel = switch("intel_pstate/no_turbo").map(|no_turbo| Turbo::IntelPstate { on: !no_turbo });
    intel.or_else(|| switch("cpufreq/boost").map(|on| Turbo::Boost { on }))
}

/// Whether a program of that name runs; one of another process namespace is not seen.
fn runs(proc: &Path, program: &str) -> bool {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let is_process =
        |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let mut processes = entries.filter(|entry| is_process(&entry.file_name()));
    processes.any(|process| read(process.path().join("comm")).is_some_and(|name| name == program))
}

/// Whether a counter of energy can be read (Documentation/power/powercap/powercap.rst). Since Linux 5.10 only root may.
fn rapl(sys: &Path) -> Reading<()> {
    let zones = fs::read_dir(sys.join("class/powercap")).into_iter().flatten().flatten();
    let counters: Vec<_> = zones.map(|zone| zone.path().join("energy_uj")).filter(|file| file.exists()).collect();
    let Some(counter) = counters.first() else {
        return Err(Unavailable::new("there is none (a virtual machine, or its driver is not loaded)")
            .remedy("modprobe intel_rapl_msr, or name a meter"));
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
    let (before, begun) = (MachineSnapshot::take()?, Instant::now());
    std::thread::sleep(LOAD_WINDOW);
    let used = before.delta(&MachineSnapshot::take()?);
    Ok(used.busy_s.values().sum::<f64>() / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::*;

    #[test]
    fn interrupts_go_where_the_kernel_has_put_them() {
        let fixture = Fixture::new("facts-spread");
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
        let fixture = Fixture::new("facts-turbo");
        assert_eq!(turbo(&fixture.path("")), None);
        fixture.write("devices/system/cpu/cpufreq/boost", "0\n");
        assert_eq!(turbo(&fixture.path("")), Some(Turbo::Boost { on: false }));
        fixture.write("devices/system/cpu/intel_pstate/no_turbo", "0\n");
        assert_eq!(turbo(&fixture.path("")), Some(Turbo::IntelPstate { on: true }));
    }

    #[test]
    fn a_counter_of_energy_is_readable_or_missing() {
        let fixture = Fixture::new("facts-rapl");
        assert!(rapl(&fixture.path("")).unwrap_err().reason.contains("there is none"));
        fixture.write("class/powercap/intel-rapl/enabled", "1\n");
        assert!(rapl(&fixture.path("")).is_err());
        fixture.write("class/powercap/intel-rapl:0/energy_uj", "123456\n");
        assert_eq!(rapl(&fixture.path("")), Ok(()));
    }

    #[test]
    fn a_program_is_known_by_its_own_name() {
        let fixture = Fixture::new("facts-runs");
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
