//! What the facts about a machine mean for a measurement: the state of each, whether it distorts, and a remedy. A pure function
//! of [`Facts`]; `iolane probe --host` prints the findings.

use serde::Serialize;

use super::inputs::{Facts, InterruptSpread, Turbo};
use crate::host::Limit;
use crate::telemetry::Reading;

/// One fact, and its effect on a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the fact: `governor`.
    pub fact: &'static str,
    /// Its state.
    pub value: String,
    /// Whether it has no effect on a measurement.
    pub ok: bool,
    /// What it distorts or makes unavailable; null if nothing.
    pub effect: Option<String>,
    /// What to do, as a command where possible; null if there is nothing to do.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(fact: &'static str, value: impl Into<String>) -> Self {
        Self { fact, value: value.into(), ok: true, effect: None, remedy: None }
    }

    fn distorts(
        fact: &'static str,
        value: impl Into<String>,
        effect: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { ok: false, effect: Some(effect.into()), remedy: Some(remedy.into()), ..Self::ok(fact, value) }
    }

    /// A fact that is available, or has this effect where it is not.
    fn of_reading(fact: &'static str, had: &str, reading: &Reading<()>, effect: &str) -> Self {
        match reading {
            Ok(()) => Self::ok(fact, had),
            Err(unavailable) => {
                let finding = Self::distorts(fact, unavailable.reason.clone(), effect, unavailable.remedy.clone());
                Self { remedy: finding.remedy.filter(|remedy| !remedy.is_empty()), ..finding }
            }
        }
    }
}

/// The state of a fact that the kernel does not report.
const UNKNOWN: &str = "unknown";

/// Every fact, in display order: processor, kernel, device, limits, load.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let processor = [processor, hardware_threads, hypervisor, mitigations, governor, turbo, hardware_counters];
    let kernel = [kernel, clock_source, io_uring, perf_event_paranoid];
    let device = [scheduler, write_cache, io_poll, poll_queues, interrupts, irqbalance, iommu, numa];
    let limits = [huge_pages, transparent_huge_pages, memlock, nofile, quota, io_limit, rapl, load];
    let all = processor.iter().chain(&kernel).chain(&device).chain(&limits);
    all.map(|look: &fn(&Facts) -> Finding| look(facts)).collect()
}

fn processor(facts: &Facts) -> Finding {
    let model = facts.host.cpu_model.as_deref().unwrap_or(&facts.host.arch);
    let online = facts.host.cpus_online.as_deref().unwrap_or("?");
    Finding::ok("processor", format!("{model}, cpus {online}"))
}

fn hardware_threads(facts: &Facts) -> Finding {
    match facts.host.smt {
        Some(true) => Finding::distorts(
            "hardware threads",
            "on",
            "two threads share a core: the speed of one depends on the other",
            "use --cpus with one thread of each core, or echo off > /sys/devices/system/cpu/smt/control",
        ),
        Some(false) => Finding::ok("hardware threads", "off"),
        None => Finding::ok("hardware threads", UNKNOWN),
    }
}

fn hypervisor(facts: &Facts) -> Finding {
    match facts.host.hypervisor {
        Some(true) => Finding::distorts(
            "virtual machine",
            "yes",
            "other guests of its host take time from it, and interrupts and doorbells cost more",
            "measure on a physical machine; here more repeats help: --repeat 9",
        ),
        Some(false) => Finding::ok("virtual machine", "no"),
        None => Finding::ok("virtual machine", UNKNOWN),
    }
}

fn mitigations(facts: &Facts) -> Finding {
    let fact = "mitigations";
    let Some(mitigations) = &facts.host.mitigations else { return Finding::ok(fact, UNKNOWN) };
    let counts = format!("{} mitigated, {} vulnerable", mitigations.mitigated, mitigations.vulnerable);
    match mitigations.boot_option.as_deref() {
        Some("off") => Finding::distorts(
            fact,
            format!("off; {counts}"),
            "system calls are cheaper than on a protected machine",
            "boot without mitigations=off",
        ),
        Some(option) => Finding::ok(fact, format!("{option}; {counts}")),
        None => Finding::ok(fact, counts),
    }
}

fn governor(facts: &Facts) -> Finding {
    match facts.host.governor.as_deref() {
        Some(governor @ "performance") => Finding::ok("governor", governor),
        Some(governor) => Finding::distorts(
            "governor",
            governor,
            "the clock frequency follows the load: a path that waits is measured at a lower one",
            "cpupower frequency-set -g performance",
        ),
        None => Finding::ok("governor", "no cpufreq"),
    }
}

fn turbo(facts: &Facts) -> Finding {
    let distorts = |command: &str| {
        let effect = "the clock frequency depends on temperature and on the number of busy cores";
        Finding::distorts("turbo", "on", effect, command)
    };
    match facts.turbo {
        Some(Turbo::IntelPstate { on: true }) => distorts("echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"),
        Some(Turbo::Boost { on: true }) => distorts("echo 0 > /sys/devices/system/cpu/cpufreq/boost"),
        Some(Turbo::IntelPstate { on: false } | Turbo::Boost { on: false }) => Finding::ok("turbo", "off"),
        None => Finding::ok("turbo", UNKNOWN),
    }
}

fn hardware_counters(facts: &Facts) -> Finding {
    let effect = "cycles, instructions and cache misses are unavailable";
    Finding::of_reading("hardware counters", "counting", &facts.hardware_counters, effect)
}

fn kernel(facts: &Facts) -> Finding {
    Finding::ok("kernel", facts.host.kernel_release.clone())
}

/// Clock sources that a program reads without a system call (vdso(7)).
pub const FAST_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

fn clock_source(facts: &Facts) -> Finding {
    match facts.clock_source.as_deref() {
        Some(source) if !FAST_CLOCKS.contains(&source) => Finding::distorts(
            "clock source",
            source,
            "reading the time takes a system call, which every latency includes",
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        source => Finding::ok("clock source", source.unwrap_or(UNKNOWN)),
    }
}

fn io_uring(facts: &Facts) -> Finding {
    let (value, effect) = match facts.host.io_uring_disabled {
        None | Some(0) => {
            return match &facts.io_uring_refused {
                None => Finding::ok("io_uring", "enabled"),
                Some((cause, remedy)) => {
                    Finding::distorts("io_uring", "refused", format!("its paths are unavailable: {cause}"), remedy)
                }
            };
        }
        Some(1) => ("for one group only", "paths of io_uring are unavailable outside of that group"),
        Some(_) => ("disabled", "paths of io_uring are unavailable"),
    };
    Finding::distorts("io_uring", value, effect, "sysctl kernel.io_uring_disabled=0")
}

fn perf_event_paranoid(facts: &Facts) -> Finding {
    let fact = "perf_event_paranoid";
    match facts.perf_event_paranoid {
        Some(paranoid @ 2..) if !facts.may_perfmon => Finding::distorts(
            fact,
            paranoid.to_string(),
            "the kernel's count of system calls, cycles and cache misses are unavailable",
            "sysctl kernel.perf_event_paranoid=1",
        ),
        Some(paranoid @ 2..) => Finding::ok(fact, format!("{paranoid}, lifted by CAP_PERFMON")),
        Some(paranoid) => Finding::ok(fact, paranoid.to_string()),
        None => Finding::ok(fact, UNKNOWN),
    }
}

fn scheduler(facts: &Facts) -> Finding {
    let device = facts.device.as_ref();
    // A virtual disk reports that it is rotational unless it was configured otherwise.
    let is_virtual = facts.host.hypervisor == Some(true);
    let is_rotational = device.is_some_and(|device| device.rotational == Some(true)) && !is_virtual;
    match (device.and_then(|device| device.scheduler.as_deref()), &facts.disk) {
        (Some(scheduler), Some(disk)) if scheduler != "none" && !is_rotational => Finding::distorts(
            "scheduler",
            format!("{scheduler} on {disk}"),
            "each request is sorted under a lock, which lowers the IOPS of every path",
            format!("echo none > /sys/block/{disk}/queue/scheduler"),
        ),
        (Some(scheduler), _) => Finding::ok("scheduler", scheduler),
        (None, _) => Finding::ok("scheduler", "no device of its own"),
    }
}

fn write_cache(facts: &Facts) -> Finding {
    let fact = "write cache";
    match facts.device.as_ref().and_then(|device| device.write_cache.as_deref()) {
        Some("write back") => Finding::ok(fact, "write back: a sync flushes it"),
        Some("write through") => Finding::ok(fact, "write through: a sync has nothing to flush on the drive"),
        Some(other) => Finding::ok(fact, other),
        None => Finding::ok(fact, UNKNOWN),
    }
}

fn io_poll(facts: &Facts) -> Finding {
    match facts.device.as_ref().map(|device| device.io_poll) {
        Some(Some(false)) => Finding::distorts(
            "io_poll",
            "0",
            "paths with +iopoll are unavailable",
            "give its driver poll queues (see poll queues), or use a device that has some",
        ),
        Some(Some(true)) => Finding::ok("io_poll", "1"),
        Some(None) | None => Finding::ok("io_poll", UNKNOWN),
    }
}

fn poll_queues(facts: &Facts) -> Finding {
    let Some(queues) = facts.device.as_ref().and_then(|device| device.poll_queues) else {
        return Finding::ok("poll queues", "its driver has no setting for them");
    };
    if queues > 0 {
        return Finding::ok("poll queues", queues.to_string());
    }
    let module = match facts.disk.as_deref() {
        Some(disk) if disk.starts_with("nullb") => "null_blk",
        Some(disk) if disk.starts_with("vd") => "virtio_blk",
        _ => "nvme",
    };
    let remedy = format!("boot with {module}.poll_queues=4, or load the module with poll_queues=4");
    Finding::distorts("poll queues", "0", "requests cannot be polled", remedy)
}

fn interrupts(facts: &Facts) -> Finding {
    let fact = "interrupts go to";
    let InterruptSpread { lines, cpus } = match &facts.interrupts {
        Ok(spread) => spread,
        Err(unavailable) => return Finding::ok(fact, unavailable.reason.clone()),
    };
    let (count, plural) = (lines.len(), if lines.len() == 1 { "" } else { "s" });
    let value = format!("cpu{} {cpus}, by {count} line{plural}", if cpus.cpus().len() == 1 { "" } else { "s" });
    if cpus.cpus().len() > 1 || facts.cpus.cpus().len() < 2 {
        return Finding::ok(fact, value);
    }
    let effect = "one cpu handles all of them: it slows threads that run there and limits interrupt-driven paths";
    let remedy = match lines[..] {
        [] | [_] => {
            "give the device a queue per cpu (qemu: num-queues=N), or pin threads to other cpus with --cpus".into()
        }
        // The first line is that of the admin queue.
        [.., last] => format!("echo {} > /proc/irq/{last}/smp_affinity_list, likewise for each line", facts.cpus),
    };
    Finding::distorts(fact, value, effect, remedy)
}

fn irqbalance(facts: &Facts) -> Finding {
    if facts.irqbalance {
        let effect = "it moves interrupts between cpus, even during a run";
        return Finding::distorts("irqbalance", "running", effect, "systemctl stop irqbalance");
    }
    Finding::ok("irqbalance", "not running")
}

fn iommu(facts: &Facts) -> Finding {
    match facts.host.iommu_groups {
        Some(groups @ 1..) => Finding::ok("IOMMU", format!("{groups} groups")),
        _ => Finding::distorts(
            "IOMMU",
            "not in use",
            "the paths nvme and nvme+int are unavailable",
            "boot with intel_iommu=on, or enable AMD-Vi in the firmware",
        ),
    }
}

fn numa(facts: &Facts) -> Finding {
    let nodes = match &facts.cpu_nodes {
        Ok(nodes) => nodes,
        Err(unavailable) => return Finding::ok("NUMA", unavailable.reason.clone()),
    };
    let Some(node) = facts.device.as_ref().and_then(|device| device.numa_node) else {
        return Finding::ok("NUMA", format!("cpus on {nodes}; the device is on none"));
    };
    let value = format!("device on node {node}, cpus on {nodes}");
    if *nodes == node.to_string() {
        return Finding::ok("NUMA", value);
    }
    let remedy = match &facts.device_cpus {
        Some(cpus) if !cpus.cpus().is_empty() => format!("use --cpus {cpus}"),
        _ => format!("use cpus of node {node}: numactl --cpunodebind={node} iolane ..."),
    };
    let effect = "threads may run on another node than the device, where completions and buffer accesses take longer";
    Finding::distorts("NUMA", value, effect, remedy)
}

fn huge_pages(facts: &Facts) -> Finding {
    match facts.host.huge_pages {
        Some(pages) if pages.count > 0 => {
            Finding::ok("huge pages", format!("{} of {}", pages.count, iolane::units::Bytes(pages.page_bytes)))
        }
        Some(_) => {
            Finding::distorts("huge pages", "none reserved", "--huge-pages is unavailable", "sysctl vm.nr_hugepages=64")
        }
        None => Finding::ok("huge pages", "not supported by the kernel"),
    }
}

fn transparent_huge_pages(facts: &Facts) -> Finding {
    match facts.host.transparent_huge_pages.as_deref() {
        Some("never") => Finding::distorts(
            "transparent huge pages",
            "never",
            "each page of a buffer may be a segment of its own: requests of several pages cost more",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(choice) => Finding::ok("transparent huge pages", choice),
        None => Finding::ok("transparent huge pages", "not supported by the kernel"),
    }
}

/// The buffers of a few deep queues take more than this.
const MEMLOCK_BYTES_FEW: u64 = 64 << 20;

fn memlock(facts: &Facts) -> Finding {
    match facts.host.memlock_bytes.unwrap_or(Limit::Unlimited) {
        Limit::Unlimited => Finding::ok("memlock", "unlimited"),
        Limit::AtMost(bytes) if facts.may_lock => {
            Finding::ok("memlock", format!("{}, lifted by CAP_IPC_LOCK", iolane::units::Bytes(bytes)))
        }
        Limit::AtMost(bytes) if bytes < MEMLOCK_BYTES_FEW => Finding::distorts(
            "memlock",
            iolane::units::Bytes(bytes).to_string(),
            "too little for deep queues with fixedbufs and for the path nvme",
            "ulimit -l unlimited",
        ),
        Limit::AtMost(bytes) => Finding::ok("memlock", iolane::units::Bytes(bytes).to_string()),
    }
}

/// Each queue takes a few descriptors, and each counter one per thread.
const NOFILE_FEW: u64 = 1024;

fn nofile(facts: &Facts) -> Finding {
    match facts.host.nofile.unwrap_or(Limit::Unlimited) {
        Limit::Unlimited => Finding::ok("descriptors", "unlimited"),
        Limit::AtMost(count) if count < NOFILE_FEW => Finding::distorts(
            "descriptors",
            count.to_string(),
            "runs of many threads or drives may fail for lack of descriptors",
            "ulimit -n 65536",
        ),
        Limit::AtMost(count) => Finding::ok("descriptors", count.to_string()),
    }
}

fn quota(facts: &Facts) -> Finding {
    match facts.quota_cpus {
        Some(cpus) if cpus >= facts.cpus.cpus().len() as f64 => Finding::ok("cpu quota", format!("{cpus:.2} cpus")),
        Some(cpus) => Finding::distorts(
            "cpu quota",
            format!("{cpus:.2} cpus"),
            "whatever takes more is stopped until the next period: rates and tails are those of the quota",
            "measure without a CPU limit of the container or the service (cpu.max of its control groups)",
        ),
        None => Finding::ok("cpu quota", "none"),
    }
}

fn io_limit(facts: &Facts) -> Finding {
    if facts.io_limits.is_empty() {
        return Finding::ok("io limit", "none");
    }
    Finding::distorts(
        "io limit",
        facts.io_limits.join(", "),
        "what goes beyond it waits: rates and latencies are those of the limit",
        "measure without an I/O limit of the container or the service (io.max of its control groups)",
    )
}

fn rapl(facts: &Facts) -> Finding {
    Finding::of_reading("RAPL", "readable", &facts.rapl, "joules are unavailable without another meter")
}

/// Busy CPUs above which other programs affect a measurement.
const BUSY_CPUS_MAX: f64 = 0.2;

fn load(facts: &Facts) -> Finding {
    let busy = match facts.busy_cpus {
        Ok(busy) => busy,
        Err(ref unavailable) => return Finding::ok("load now", unavailable.reason.clone()),
    };
    let value = format!("{busy:.2} cpus busy on the whole machine");
    match busy > BUSY_CPUS_MAX {
        true => Finding::distorts(
            "load now",
            value,
            "other programs compete for processor time",
            "end them; top -o %CPU lists them",
        ),
        false => Finding::ok("load now", value),
    }
}

#[cfg(test)]
mod tests;
