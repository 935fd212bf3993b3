use super::*;
use crate::host::{DeviceHost, Host, HugePages, Mitigations};
use crate::telemetry::Unavailable;

/// A machine on which nothing distorts a measurement.
fn quiet() -> Facts {
    Facts {
        host: Host {
            iolane_version: "0".into(),
            command_line: Vec::new(),
            arch: "x86_64".into(),
            kernel_release: "6.18.0".into(),
            kernel_version: "#1".into(),
            cpu_model: Some("a processor".into()),
            cpus_online: Some("0-7".into()),
            governor: Some("performance".into()),
            smt: Some(false),
            hypervisor: Some(false),
            mitigations: Some(Mitigations::default()),
            memory_bytes: Some(1 << 34),
            huge_pages: Some(HugePages { count: 64, page_bytes: 2 << 20 }),
            transparent_huge_pages: Some("madvise".into()),
            io_uring_disabled: Some(0),
            memlock_bytes: Some(Limit::Unlimited),
            nofile: Some(Limit::AtMost(65_536)),
            iommu_groups: Some(20),
            lab: None,
        },
        device: Some(DeviceHost {
            name: Some("nvme0n1p1".into()),
            scheduler: Some("none".into()),
            io_poll: Some(true),
            poll_queues: Some(4),
            numa_node: Some(0),
            ..DeviceHost::default()
        }),
        disk: Some("nvme0n1".into()),
        interrupts: Ok(InterruptSpread { lines: vec![40, 41], cpus: "0-1".parse().unwrap() }),
        irqbalance: false,
        clock_source: Some("tsc".into()),
        turbo: Some(Turbo::IntelPstate { on: false }),
        perf_event_paranoid: Some(1),
        may_perfmon: false,
        may_lock: false,
        io_uring_refused: None,
        hardware_counters: Ok(()),
        rapl: Ok(()),
        cpus: "0-7".parse().unwrap(),
        cpu_nodes: Ok("0".into()),
        device_cpus: Some("0-7".parse().unwrap()),
        quota_cpus: None,
        io_limits: Vec::new(),
        busy_cpus: Ok(0.05),
    }
}

/// The findings that are not ok, after a change to the quiet machine.
fn after(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = quiet();
    change(&mut facts);
    findings(&facts).into_iter().filter(|finding| !finding.ok).collect()
}

/// Asserts that a change yields exactly this finding, with a remedy that contains these words.
#[track_caller]
fn assert_found(fact: &str, remedy: &str, change: impl FnOnce(&mut Facts)) {
    let found = after(change);
    let facts: Vec<&str> = found.iter().map(|finding| finding.fact).collect();
    assert_eq!(facts, [fact]);
    assert!(found[0].effect.as_ref().is_some_and(|effect| !effect.is_empty()));
    assert!(found[0].remedy.as_ref().is_some_and(|told| told.contains(remedy)), "{:?}", found[0].remedy);
}

fn device(facts: &mut Facts) -> &mut DeviceHost {
    facts.device.as_mut().unwrap()
}

#[test]
fn on_a_quiet_machine_every_fact_is_ok_and_listed_once() {
    assert_eq!(after(|_| ()), []);
    let all = findings(&quiet());
    let facts: std::collections::BTreeSet<&str> = all.iter().map(|finding| finding.fact).collect();
    assert_eq!((all.len(), facts.len()), (27, 27));
    assert!(all.iter().all(|finding| !finding.value.is_empty() && finding.effect.is_none()));
}

#[test]
fn what_the_processor_does_by_itself_is_found() {
    assert_found("hardware threads", "smt/control", |facts| facts.host.smt = Some(true));
    assert_found("virtual machine", "--repeat", |facts| facts.host.hypervisor = Some(true));
    assert_found("governor", "cpupower", |facts| facts.host.governor = Some("performance,powersave".into()));
    assert_found("turbo", "no_turbo", |facts| facts.turbo = Some(Turbo::IntelPstate { on: true }));
    assert_found("turbo", "cpufreq/boost", |facts| facts.turbo = Some(Turbo::Boost { on: true }));
    assert_found("mitigations", "without mitigations=off", |facts| {
        facts.host.mitigations = Some(Mitigations { boot_option: Some("off".into()), ..Mitigations::default() });
    });
    let no_pmu = Unavailable::new("no PMU").remedy("use a machine");
    assert_found("hardware counters", "use a machine", |facts| facts.hardware_counters = Err(no_pmu));
}

#[test]
fn what_the_kernel_is_set_to_is_found() {
    assert_found("clock source", "echo tsc", |facts| facts.clock_source = Some("hpet".into()));
    assert_found("io_uring", "io_uring_disabled=0", |facts| facts.host.io_uring_disabled = Some(1));
    assert_found("io_uring", "io_uring_disabled=0", |facts| facts.host.io_uring_disabled = Some(2));
    let refused = || Some(("a filter".into(), "allow io_uring_setup".into()));
    assert_found("io_uring", "allow io_uring_setup", |facts| facts.io_uring_refused = refused());
    assert_found("perf_event_paranoid", "=1", |facts| facts.perf_event_paranoid = Some(2));
    assert_eq!(after(|facts| (facts.perf_event_paranoid, facts.may_perfmon) = (Some(4), true)), []);
    assert_eq!(after(|facts| facts.clock_source = None), []);
}

#[test]
fn what_the_device_is_set_to_is_found_with_the_disk_to_set_it_on() {
    assert_found("scheduler", "/sys/block/nvme0n1/queue/scheduler", |facts| {
        device(facts).scheduler = Some("mq-deadline".into());
    });
    let turns = |facts: &mut Facts| {
        device(facts).scheduler = Some("bfq".into());
        device(facts).rotational = Some(true);
    };
    assert_eq!(after(turns), []);
    let virtual_disk = after(|facts| {
        turns(facts);
        facts.host.hypervisor = Some(true);
    });
    assert_eq!(virtual_disk.iter().map(|finding| finding.fact).collect::<Vec<_>>(), ["virtual machine", "scheduler"]);
    assert_found("io_poll", "poll queues", |facts| device(facts).io_poll = Some(false));
    assert_found("poll queues", "nvme.poll_queues=4", |facts| device(facts).poll_queues = Some(0));
    assert_found("poll queues", "virtio_blk.poll_queues=4", |facts| {
        device(facts).poll_queues = Some(0);
        facts.disk = Some("vda".into());
    });
    assert_found("IOMMU", "intel_iommu=on", |facts| facts.host.iommu_groups = Some(0));
    assert_found("irqbalance", "systemctl stop", |facts| facts.irqbalance = true);
    let simulated = |facts: &mut Facts| {
        (facts.device, facts.disk) = (None, None);
        facts.interrupts = Err(Unavailable::new("a simulated device raises no interrupts"));
    };
    assert_eq!(after(simulated), []);
}

#[test]
fn interrupts_that_all_go_to_one_cpu_are_found_where_there_are_others() {
    let one = |lines: &[u32]| InterruptSpread { lines: lines.to_vec(), cpus: "1".parse().unwrap() };
    assert_found("interrupts go to", "/proc/irq/41/", |facts| facts.interrupts = Ok(one(&[40, 41])));
    assert_found("interrupts go to", "num-queues", |facts| facts.interrupts = Ok(one(&[40])));
    let alone = |facts: &mut Facts| {
        facts.interrupts = Ok(one(&[40]));
        facts.cpus = "1".parse().unwrap();
    };
    assert_eq!(after(alone), []);
}

#[test]
fn a_device_on_another_node_than_the_cpus_is_found_with_cpus_of_its_node() {
    assert_found("NUMA", "--cpus 8-15", |facts| {
        device(facts).numa_node = Some(1);
        facts.device_cpus = Some("8-15".parse().unwrap());
    });
    assert_found("NUMA", "--cpunodebind=0", |facts| {
        facts.cpu_nodes = Ok("0-1".into());
        facts.device_cpus = None;
    });
    assert_eq!(after(|facts| device(facts).numa_node = None), []);
    assert_eq!(after(|facts| facts.cpu_nodes = Err(Unavailable::new("no NUMA"))), []);
}

#[test]
fn limits_are_found_where_no_capability_lifts_them() {
    let small = |facts: &mut Facts| facts.host.memlock_bytes = Some(Limit::AtMost(8 << 20));
    assert_found("memlock", "ulimit -l", small);
    assert_eq!(after(|facts| (facts.host.memlock_bytes, facts.may_lock) = (Some(Limit::AtMost(8 << 20)), true)), []);
    assert_eq!(after(|facts| facts.host.memlock_bytes = Some(Limit::AtMost(1 << 30))), []);
    assert_found("descriptors", "ulimit -n", |facts| facts.host.nofile = Some(Limit::AtMost(256)));
    assert_found("huge pages", "nr_hugepages", |facts| {
        facts.host.huge_pages = Some(HugePages { count: 0, page_bytes: 2 << 20 });
    });
    assert_found("transparent huge pages", "echo madvise", |facts| {
        facts.host.transparent_huge_pages = Some("never".into());
    });
    let refused = Unavailable::new("only root may read it").remedy("run as root");
    assert_found("RAPL", "run as root", |facts| facts.rapl = Err(refused));
}

#[test]
fn a_limit_on_the_drive_is_found() {
    let limited = || vec!["riops=1000".into(), "rbps=1048576".into()];
    let found = after(|facts| facts.io_limits = limited());
    assert!(found.len() == 1 && found[0].value == "riops=1000, rbps=1048576", "{found:?}");
}

#[test]
fn a_quota_of_a_container_is_found() {
    let found = after(|facts| facts.quota_cpus = Some(0.2));
    assert!(found.len() == 1 && found[0].value == "0.20 cpus", "{found:?}");
    assert_eq!(after(|facts| facts.quota_cpus = Some(8.0)), [], "as many as there are");
}

#[test]
fn other_programs_are_found_by_the_time_they_take() {
    assert_found("load now", "top", |facts| facts.busy_cpus = Ok(1.5));
    let found = after(|facts| facts.busy_cpus = Ok(1.5));
    assert_eq!(found[0].value, "1.50 cpus busy on the whole machine");
    assert_eq!(after(|facts| facts.busy_cpus = Err(Unavailable::new("no /proc"))), []);
}
