//! The same counters as RAPL's through perf_event_open(2): the PMU `power`, whose events are counted on one CPU of each
//! socket. It may exist where powercap does not, and needs CAP_PERFMON instead of root. The meter reads it.
//! Source: Documentation/ABI/testing/sysfs-bus-event_source-devices-events, arch/x86/events/rapl.c.

use std::fs;
use std::io;
use std::path::Path;

use iolane::units::CpuList;
use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};

use super::curve::Kind;
use super::instrument::{Candidate, Instrument};
use super::source::{PACKAGES, PACKAGES_AND_MEMORY, Source, WHOLE_MACHINE};
use crate::telemetry::{Reading, Unavailable};

/// Where the kernel describes the PMU.
pub(super) const ROOT: &str = "/sys/bus/event_source/devices/power";

/// An event on one socket.
trait Count: Send {
    fn count(&mut self) -> io::Result<u64>;
}

impl Count for Counter {
    fn count(&mut self) -> io::Result<u64> {
        self.read()
    }
}

/// Opens an event on a CPU.
type Open<'a> = &'a dyn Fn(Dynamic, usize) -> io::Result<Box<dyn Count>>;

/// Events on every socket, each with the joules per count.
struct Events(Vec<(Box<dyn Count>, f64)>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} events", self.0.len())
    }
}

impl Instrument for Events {
    fn kind(&self) -> Kind {
        Kind::Counter
    }

    fn read(&mut self) -> Reading<f64> {
        let joules = self.0.iter_mut().map(|(event, joules)| Ok(event.count()? as f64 * *joules));
        joules.sum::<io::Result<f64>>().map_err(|error| explain(&error))
    }
}

/// The available meters, the widest first: the platform, then all packages with their memory.
///
/// # Errors
/// If the PMU does not exist, has no such event, or may not be read.
pub(super) fn candidates(root: &Path) -> Reading<Vec<Candidate>> {
    candidates_by(root, &|event, cpu| {
        let mut builder = Builder::new(event);
        // The PMU counts whole sockets and accepts no event that excludes a processor mode.
        builder.any_pid().one_cpu(cpu).exclude_kernel(false).exclude_hv(false);
        let mut counter = builder.build()?;
        counter.enable()?;
        Ok(Box::new(counter))
    })
}

fn candidates_by(root: &Path, open: Open<'_>) -> Reading<Vec<Candidate>> {
    if !root.join("type").exists() {
        return Err(Unavailable::new("the kernel has no power PMU")
            .remedy("use a kernel built with CONFIG_PERF_EVENTS_INTEL_RAPL; a virtual machine has none"));
    }
    let has = |event: &&str| root.join("events").join(event).exists();
    let groups = [
        (vec!["energy-psys"], WHOLE_MACHINE),
        (vec!["energy-pkg", "energy-ram"], PACKAGES_AND_MEMORY),
        (vec!["energy-pkg"], PACKAGES),
    ];
    let (mut found, mut trouble) = (Vec::new(), None);
    for (events, covers) in groups.into_iter().filter(|(events, _)| events.iter().all(has)) {
        match open_all(root, &events, open) {
            Ok(events) => {
                let source = Source::measured("perf's power PMU", covers);
                found.push(Candidate { instrument: Box::new(events), source });
            }
            Err(unavailable) => trouble = trouble.or(Some(unavailable)),
        }
    }
    match (found.is_empty(), trouble) {
        (false, _) => Ok(found),
        (true, Some(unavailable)) => Err(unavailable),
        (true, None) => Err(Unavailable::new("the power PMU has no event of the platform or of the packages")),
    }
}

fn open_all(root: &Path, events: &[&str], open: Open<'_>) -> Reading<Events> {
    let cpus = read(&root.join("cpumask"))?;
    let cpus: CpuList = cpus.trim().parse().map_err(|_| unreadable(root, "cpumask", &cpus))?;
    let mut all = Vec::new();
    for event in events {
        let file = root.join("events").join(event);
        let unit = read(&file.with_extension("unit"))?;
        if unit.trim() != "Joules" {
            return Err(unreadable(root, "unit", &unit));
        }
        let scale = read(&file.with_extension("scale"))?;
        let joules: f64 = scale.trim().parse().map_err(|_| unreadable(root, "scale", &scale))?;
        if !(joules.is_finite() && joules > 0.0) {
            return Err(unreadable(root, "scale", &scale));
        }
        let described = |error: io::Error| Unavailable::new(format!("{}: {error}", file.display()));
        let mut builder = Dynamic::builder(root).map_err(described)?;
        let dynamic = builder.event(event).map_err(described)?.build();
        let dynamic = dynamic.map_err(|error| Unavailable::new(format!("{}: {error}", file.display())))?;
        for cpu in cpus.cpus() {
            all.push((open(dynamic, *cpu as usize).map_err(|error| explain(&error))?, joules));
        }
    }
    Ok(Events(all))
}

fn read(file: &Path) -> Reading<String> {
    fs::read_to_string(file)
        .map_err(|error| Unavailable::new(format!("{}: {}", file.display(), iolane::error::describe(&error))))
}

fn unreadable(root: &Path, what: &str, text: &str) -> Unavailable {
    Unavailable::new(format!("{}: {what} is `{}`", root.display(), text.trim()))
}

/// Counting a whole CPU needs `perf_event_paranoid` 0 or less, or CAP_PERFMON: `perf_allow_cpu` in
/// include/linux/perf_event.h.
fn explain(error: &io::Error) -> Unavailable {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Unavailable::new("the power PMU may not be read by this user")
            .remedy("run as root, give it CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0"),
        _ => Unavailable::new(format!("the power PMU: {}", iolane::error::describe(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::sysfs_fixture::Fixture;

    static TICKS: AtomicU64 = AtomicU64::new(0);

    /// A count that the test advances.
    struct Fake;

    impl Count for Fake {
        fn count(&mut self) -> io::Result<u64> {
            Ok(100 + TICKS.load(Ordering::Relaxed))
        }
    }

    fn pmu(events: &[&str]) -> Fixture {
        let tree = Fixture::new();
        tree.write("type", "9\n");
        tree.write("cpumask", "0,28\n");
        tree.write("format/event", "config:0-7\n");
        for event in events {
            tree.write(&format!("events/{event}"), "event=0x02\n");
            tree.write(&format!("events/{event}.scale"), "2.3283064365386962890625e-10\n");
            tree.write(&format!("events/{event}.unit"), "Joules\n");
        }
        tree
    }

    fn opened(tree: &Fixture) -> Reading<Vec<Candidate>> {
        candidates_by(&tree.0, &|_, _| Ok(Box::new(Fake)))
    }

    #[test]
    fn every_event_is_counted_on_each_socket_with_its_scale() {
        let mut all = opened(&pmu(&["energy-pkg", "energy-ram", "energy-cores"])).unwrap();
        assert_eq!(all[0].source.to_string(), "perf's power PMU, processor packages and memory only");
        let joules = all[0].instrument.read().unwrap();
        assert!((joules - 4.0 * 100.0 * 2f64.powi(-32)).abs() < 1e-15, "{joules}");
    }

    #[test]
    fn the_platform_comes_first_and_memory_is_named_only_where_it_is_counted() {
        let sources = |events: &[&str]| -> Vec<String> {
            opened(&pmu(events)).unwrap().iter().map(|one| one.source.to_string()).collect()
        };
        assert_eq!(sources(&["energy-psys", "energy-pkg"]).len(), 2);
        assert_eq!(sources(&["energy-psys"]), ["perf's power PMU, whole machine"]);
        assert_eq!(sources(&["energy-pkg"]), ["perf's power PMU, processor packages only"]);
    }

    #[test]
    fn what_is_missing_or_refused_is_reported() {
        let why = |tree: &Fixture| opened(tree).unwrap_err().to_string();
        assert!(why(&Fixture::new()).starts_with("the kernel has no power PMU"));
        assert!(why(&pmu(&["energy-cores"])).contains("no event of the platform or of the packages"));
        let tree = pmu(&["energy-psys"]);
        tree.write("events/energy-psys.scale", "-1");
        assert!(why(&tree).ends_with("scale is `-1`"));
        tree.write("events/energy-psys.unit", "Cups");
        assert!(why(&tree).ends_with("unit is `Cups`"));
        tree.write("cpumask", "?");
        assert!(why(&tree).ends_with("cpumask is `?`"));
        let refused = |_, _| Err(io::ErrorKind::PermissionDenied.into());
        let why = candidates_by(&pmu(&["energy-psys"]).0, &refused).unwrap_err().to_string();
        assert!(why.contains("may not be read by this user; run as root"), "{why}");
    }
}
