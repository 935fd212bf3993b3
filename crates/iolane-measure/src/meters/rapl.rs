//! Running average power limit (RAPL) of Intel and AMD, from the kernel's powercap tree: counters of microjoules of each
//! processor package, its memory, and on some machines the whole platform. The meter reads it; nothing is written there.
//! Source: Documentation/power/powercap/powercap.rst, Documentation/ABI/testing/sysfs-class-powercap.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::curve::Kind;
use super::instrument::{Candidate, Instrument};
use super::source::{PACKAGES, PACKAGES_AND_MEMORY, Source, WHOLE_MACHINE};
use crate::telemetry::{Reading, Unavailable};

/// Where the kernel lists the domains.
pub(super) const ROOT: &str = "/sys/class/powercap";

/// More than one domain can draw. Two readings so far apart that a counter could wrap at this power are not used.
const DOMAIN_WATTS_MAX: f64 = 1000.0;

/// A domain: a counter that wraps at its range.
#[derive(Debug)]
struct Domain {
    file: PathBuf,
    name: String,
    range_uj: u64,
    last_uj: u64,
    last_at: Instant,
    total_uj: u64,
}

/// Domains whose counts are added.
#[derive(Debug)]
struct Domains(Vec<Domain>);

/// The available meters, the widest first: the platform, then all packages with their memory.
///
/// # Errors
/// If there is none, or none that may be read.
pub(super) fn candidates(root: &Path) -> Reading<Vec<Candidate>> {
    let zones = zones(root)?;
    let named = |wanted: fn(&str) -> bool| zones.iter().filter(move |(name, _)| wanted(name));
    let mut found = Vec::new();
    let mut trouble = None;
    let groups: [(Vec<_>, &'static str); 2] = [
        (named(|name| name == "psys").take(1).collect(), WHOLE_MACHINE),
        (
            named(|name| name.starts_with("package") || name == "dram").collect(),
            if zones.iter().any(|(name, _)| name == "dram") { PACKAGES_AND_MEMORY } else { PACKAGES },
        ),
    ];
    for (group, covers) in groups {
        // Memory without packages is not a meter.
        if !group.iter().any(|(name, _)| name != "dram") {
            continue;
        }
        // All or none: a sum without one of the sockets would look complete.
        match group.into_iter().map(|(name, folder)| Domain::open(name, folder)).collect::<Reading<Vec<_>>>() {
            Ok(domains) => found
                .push(Candidate { instrument: Box::new(Domains(domains)), source: Source::measured("RAPL", covers) }),
            Err(unavailable) => trouble = trouble.or(Some(unavailable)),
        }
    }
    match (found.is_empty(), trouble) {
        (false, _) => Ok(found),
        (true, Some(unavailable)) => Err(unavailable),
        (true, None) => Err(Unavailable::new("RAPL has no domain of a processor package")),
    }
}

/// Name and folder of every domain. The same counters in memory-mapped registers (`intel-rapl-mmio`) count once.
fn zones(root: &Path) -> Reading<Vec<(String, PathBuf)>> {
    let no_rapl = || {
        Unavailable::new("the kernel lists no RAPL domain")
            .remedy("modprobe intel_rapl_msr (AMD too); a virtual machine has none")
    };
    let entries = fs::read_dir(root).map_err(|_| no_rapl())?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let of = |prefix: &str| {
        let is_one = |folder: &&PathBuf| {
            folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
        };
        let name = |folder: &PathBuf| Some((fs::read_to_string(folder.join("name")).ok()?, folder.clone()));
        let named = folders.iter().filter(is_one).filter_map(name);
        named.map(|(name, folder)| (name.trim().to_owned(), folder)).collect::<Vec<_>>()
    };
    let zones = [of("intel-rapl:"), of("intel-rapl-mmio:")];
    zones.into_iter().find(|zones| !zones.is_empty()).ok_or_else(no_rapl)
}

impl Domain {
    fn open(name: &str, folder: &Path) -> Reading<Self> {
        let range_uj = read_number(&folder.join("max_energy_range_uj"))?;
        let file = folder.join("energy_uj");
        let last_uj = read_number(&file)?;
        Ok(Self { file, name: name.into(), range_uj, last_uj, last_at: Instant::now(), total_uj: 0 })
    }

    /// Adds a reading taken `since_s` after the last.
    fn advance(&mut self, now_uj: u64, since_s: f64) -> Reading<()> {
        let moved_uj = match now_uj.checked_sub(self.last_uj) {
            Some(moved_uj) => moved_uj,
            None => (self.range_uj.saturating_sub(self.last_uj)).saturating_add(now_uj),
        };
        self.last_uj = now_uj;
        self.total_uj = self.total_uj.saturating_add(moved_uj);
        if since_s * DOMAIN_WATTS_MAX * 1e6 > self.range_uj as f64 {
            let cause = format!("RAPL's {} was not read for {since_s:.0} s and may have wrapped", self.name);
            return Err(Unavailable::new(cause));
        }
        Ok(())
    }
}

impl Instrument for Domains {
    fn kind(&self) -> Kind {
        Kind::Counter
    }

    fn read(&mut self) -> Reading<f64> {
        let mut trouble = None;
        for domain in &mut self.0 {
            let now_uj = read_number(&domain.file)?;
            let since_s = domain.last_at.elapsed().as_secs_f64();
            domain.last_at = Instant::now();
            trouble = domain.advance(now_uj, since_s).err().or(trouble);
        }
        let total_uj: u64 = self.0.iter().map(|domain| domain.total_uj).sum();
        trouble.map_or(Ok(total_uj as f64 / 1e6), Err)
    }
}

fn read_number(file: &Path) -> Reading<u64> {
    let text = fs::read_to_string(file).map_err(|error| explain(file, &error))?;
    text.trim().parse().map_err(|_| Unavailable::new(format!("{}: `{}` is not a number", file.display(), text.trim())))
}

/// Since CVE-2020-8694 (Linux 5.10) only root may read the counters, since they reveal what other users compute.
fn explain(file: &Path, error: &io::Error) -> Unavailable {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Unavailable::new(format!("only root may read {} (CVE-2020-8694)", file.display()))
                .remedy("run as root, or chmod a+r /sys/class/powercap/*/energy_uj")
        }
        _ => Unavailable::new(format!("{}: {}", file.display(), iolane::error::describe(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    /// A machine of two sockets with memory and cores; the cores are in the packages already.
    fn server() -> Fixture {
        let tree = Fixture::new();
        for (zone, name, uj) in [
            ("intel-rapl:0", "package-0", "1000000"),
            ("intel-rapl:0:0", "core", "77"),
            ("intel-rapl:0:1", "dram", "5000000"),
            ("intel-rapl:1", "package-1", "2000000"),
            ("intel-rapl:1:0", "dram", "6000000"),
            ("intel-rapl-mmio:0", "package-0", "1000000"),
        ] {
            zone_of(&tree, zone, name, uj);
        }
        tree
    }

    fn zone_of(tree: &Fixture, zone: &str, name: &str, uj: &str) {
        tree.write(&format!("{zone}/name"), name);
        tree.write(&format!("{zone}/max_energy_range_uj"), "262143328850");
        tree.write(&format!("{zone}/energy_uj"), uj);
    }

    fn only(tree: &Fixture) -> Candidate {
        let mut all = candidates(&tree.0).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn packages_and_their_memory_are_summed_and_cores_are_not_counted_twice() {
        let tree = server();
        let mut candidate = only(&tree);
        assert_eq!(candidate.source.to_string(), "RAPL, processor packages and memory only");
        tree.write("intel-rapl:0/energy_uj", "3000000\n");
        tree.write("intel-rapl:1:0/energy_uj", "6500000");
        tree.write("intel-rapl:0:0/energy_uj", "99000000");
        assert_eq!(candidate.instrument.read().unwrap(), 2.5);
    }

    #[test]
    fn a_counter_that_begins_anew_goes_on() {
        let tree = server();
        tree.write("intel-rapl:0/energy_uj", "262143000000");
        let mut candidate = only(&tree);
        tree.write("intel-rapl:0/energy_uj", "671150");
        assert_eq!(candidate.instrument.read().unwrap(), 1.0);
        tree.write("intel-rapl:0/energy_uj", "1671150");
        assert_eq!(candidate.instrument.read().unwrap(), 2.0);
    }

    #[test]
    fn readings_between_which_a_counter_may_have_wrapped_are_not_used() {
        let tree = server();
        let mut domain = Domain::open("package-0", &tree.0.join("intel-rapl:0")).unwrap();
        assert!(domain.advance(2_000_000, 200.0).is_ok(), "at 1000 W it takes 262 s to go round");
        let why = domain.advance(3_000_000, 300.0).unwrap_err().to_string();
        assert_eq!(why, "RAPL's package-0 was not read for 300 s and may have wrapped");
        assert!(domain.advance(4_000_000, 0.1).is_ok(), "it is of use again afterwards");
    }

    #[test]
    fn the_platform_comes_before_the_packages_and_memory_is_said_only_where_it_is() {
        let tree = server();
        zone_of(&tree, "intel-rapl:2", "psys", "1");
        let sources: Vec<String> = candidates(&tree.0).unwrap().iter().map(|one| one.source.to_string()).collect();
        assert_eq!(sources, ["RAPL, whole machine", "RAPL, processor packages and memory only"]);
        let amd = Fixture::new();
        zone_of(&amd, "intel-rapl:0", "package-0", "1");
        zone_of(&amd, "intel-rapl:0:0", "core", "1");
        assert_eq!(only(&amd).source.to_string(), "RAPL, processor packages only");
    }

    #[test]
    fn missing_domains_and_an_empty_tree_say_so() {
        let why = |tree: &Fixture| candidates(&tree.0).unwrap_err().to_string();
        assert!(why(&Fixture::new()).starts_with("the kernel lists no RAPL domain; modprobe"));
        assert!(candidates(Path::new("/nowhere")).is_err());
        let tree = Fixture::new();
        zone_of(&tree, "intel-rapl:0", "dram", "1");
        assert_eq!(why(&tree), "RAPL has no domain of a processor package");
        let tree = server();
        std::fs::remove_file(tree.0.join("intel-rapl:1/max_energy_range_uj")).unwrap();
        assert!(why(&tree).contains("intel-rapl:1/max_energy_range_uj"), "a missing socket was skipped");
    }

    #[test]
    fn a_counter_that_may_not_be_read_is_refused_with_the_remedy() {
        let denied = explain(Path::new("/p/energy_uj"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            denied.to_string(),
            "only root may read /p/energy_uj (CVE-2020-8694); run as root, or chmod a+r \
             /sys/class/powercap/*/energy_uj"
        );
        let tree = server();
        std::fs::remove_file(tree.0.join("intel-rapl:0/energy_uj")).unwrap();
        std::fs::create_dir(tree.0.join("intel-rapl:0/energy_uj")).unwrap();
        assert!(candidates(&tree.0).unwrap_err().reason.contains("intel-rapl:0/energy_uj"));
    }

    #[test]
    fn a_counter_that_turns_to_rubbish_is_no_measurement() {
        let tree = server();
        let mut candidate = only(&tree);
        tree.write("intel-rapl:0/energy_uj", "many");
        assert!(candidate.instrument.read().unwrap_err().reason.ends_with("`many` is not a number"));
    }
}
