//! The mean clock frequency of the CPUs that a run used. [`Watch`](super::Watch) reads it around the measured phase.
//! If the machine does not report it, it is unavailable; the nominal frequency never replaces it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use perf_event::events::x86::{Msr, MsrId};
use perf_event::{Builder, Counter};

use super::{Reading, Sourced, Unavailable};

/// How the frequency is read here.
#[derive(Debug)]
pub(super) enum Frequency {
    /// From counters of each CPU: a true mean.
    Counted(Vec<Clocks>),
    /// From cpufreq, once at the end of the run.
    Sampled {
        /// The folders of the cpus in sysfs.
        folders: Vec<PathBuf>,
    },
    Unavailable(Unavailable),
}

/// Three counters of one CPU, running since they were opened.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Counts at the actual frequency while the CPU is not halted.
    aperf: Counter,
    /// Counts at the rate of the time stamp counter while the CPU is not halted.
    mperf: Counter,
    tsc: Counter,
}

/// The sums of these counters over all CPUs at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    aperf: u64,
    mperf: u64,
    tsc: u64,
    cpus: usize,
    at: Instant,
}

/// With more CPUs, three descriptors for each are too many.
const COUNTED_CPUS_MAX: usize = 64;

impl Frequency {
    pub(super) fn open(cpus: &[u32], sys: &Path, proc: &Path) -> Self {
        if let Some(clocks) = Clocks::open_all(cpus) {
            return Self::Counted(clocks);
        }
        let folder = |cpu: &u32| sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq"));
        let folders: Vec<PathBuf> = cpus.iter().map(folder).filter(|folder| folder.exists()).collect();
        if !folders.is_empty() {
            return Self::Sampled { folders };
        }
        Self::Unavailable(untold(&fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default()))
    }

    /// The counts, if there are counters.
    pub(super) fn ticks(&mut self) -> Option<Ticks> {
        match self {
            Self::Counted(clocks) => Clocks::read_all(clocks),
            Self::Sampled { .. } | Self::Unavailable(_) => None,
        }
    }

    /// The mean frequency from then to now, in hertz.
    pub(super) fn since(&mut self, begun: Option<Ticks>) -> Reading<Sourced<f64>> {
        match self {
            Self::Counted(_) => {
                let now = self.ticks();
                let unread = || Unavailable::new("the kernel could not read the frequency counters");
                mean_hz(begun.ok_or_else(unread)?, now.ok_or_else(unread)?)
            }
            Self::Sampled { folders } => sampled_hz(folders),
            Self::Unavailable(unavailable) => Err(unavailable.clone()),
        }
    }
}

impl Clocks {
    /// `None` if one is unavailable: no such counter, or no permission (CAP_PERFMON, or `perf_event_paranoid` 0 or less).
    fn open_all(cpus: &[u32]) -> Option<Vec<Self>> {
        let open = |cpu: &u32| {
            let counter = |msr: MsrId| {
                let event = Msr::new(msr).ok()?;
                let mut builder = Builder::new(event);
                builder.any_pid().one_cpu(*cpu as usize).exclude_kernel(false).exclude_hv(false).enabled(true);
                builder.build().ok()
            };
            Some(Self { aperf: counter(MsrId::APERF)?, mperf: counter(MsrId::MPERF)?, tsc: counter(MsrId::TSC)? })
        };
        if cpus.is_empty() || cpus.len() > COUNTED_CPUS_MAX {
            return None;
        }
        cpus.iter().map(open).collect()
    }

    fn read_all(clocks: &mut [Self]) -> Option<Ticks> {
        let mut ticks = Ticks { aperf: 0, mperf: 0, tsc: 0, cpus: clocks.len(), at: Instant::now() };
        for clock in clocks {
            for (sum, counter) in [
                (&mut ticks.aperf, &mut clock.aperf),
                (&mut ticks.mperf, &mut clock.mperf),
                (&mut ticks.tsc, &mut clock.tsc),
            ] {
                *sum = sum.wrapping_add(counter.read().ok()?);
            }
        }
        Some(ticks)
    }
}

/// The mean over the time in which the CPUs were not halted, so that each counts by how much it worked: the rate of the time
/// stamp counter times APERF / MPERF (Intel's manual, volume 3, 15.2; AMD's, volume 2, 17.3.2).
fn mean_hz(from: Ticks, to: Ticks) -> Reading<Sourced<f64>> {
    let delta = |of: fn(&Ticks) -> u64| of(&to).wrapping_sub(of(&from)) as f64;
    let seconds = (to.at - from.at).as_secs_f64() * to.cpus as f64;
    let (aperf, mperf, tsc) = (delta(|at| at.aperf), delta(|at| at.mperf), delta(|at| at.tsc));
    if aperf <= 0.0 || mperf <= 0.0 || tsc <= 0.0 || seconds <= 0.0 {
        return Err(Unavailable::new("the frequency counters did not advance"));
    }
    Ok(Sourced::new(tsc / seconds * aperf / mperf, "perf, APERF / MPERF: the mean while not halted"))
}

/// The current frequency of each CPU (Documentation/admin-guide/pm/cpufreq.rst, scaling_cur_freq, in kHz).
fn sampled_hz(folders: &[PathBuf]) -> Reading<Sourced<f64>> {
    let read = |folder: &PathBuf| {
        let text = fs::read_to_string(folder.join("scaling_cur_freq")).ok()?;
        text.trim().parse::<f64>().ok().filter(|kilohertz| *kilohertz > 0.0)
    };
    let all: Vec<f64> = folders.iter().filter_map(read).collect();
    if all.is_empty() {
        return Err(Unavailable::new("cpufreq reports no frequency (scaling_cur_freq)"));
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Ok(Sourced::new(mean * 1e3, "cpufreq, one sample at the end of the run, not a mean"))
}

/// Why there is no frequency to read, with the nominal one for information.
fn untold(cpuinfo: &str) -> Unavailable {
    let nominal =
        cpuinfo.lines().find_map(|line| line.strip_prefix("cpu MHz")?.split_once(':')?.1.trim().parse::<f64>().ok());
    let nominal = nominal.map(|mhz| format!(" (nominal: {:.2} GHz)", mhz / 1e3)).unwrap_or_default();
    let is_virtual = cpuinfo.split_whitespace().any(|word| word == "hypervisor");
    let what = if is_virtual { "this virtual machine" } else { "this machine" };
    Unavailable::new(format!("{what} does not report its frequency: no cpufreq, and no readable APERF{nominal}"))
        .remedy("run as root on a physical machine, or load its cpufreq driver")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sysfs_fixture::Fixture;

    #[test]
    fn the_mean_is_weighted_by_how_much_each_cpu_worked() {
        let at = Instant::now();
        let from = Ticks { aperf: 0, mperf: 0, tsc: 0, cpus: 2, at };
        // Two cpus of 2 GHz for half a second: one halted, one at 3 GHz for half of the time.
        let to = Ticks {
            aperf: 750_000_000,
            mperf: 500_000_000,
            tsc: 2_000_000_000,
            cpus: 2,
            at: at + Duration::from_millis(500),
        };
        let mean = mean_hz(from, to).unwrap();
        assert!((mean.value - 3e9).abs() < 1.0, "{mean:?}");
        assert!(mean.source.contains("APERF"));
        assert!(mean_hz(from, Ticks { aperf: 0, ..to }).is_err());
        assert!(mean_hz(from, from).is_err());
    }

    #[test]
    fn without_counters_cpufreq_is_read_and_called_a_sample() {
        let fixture = Fixture::new();
        fixture
            .write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n")
            .write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
        let folders = [0, 1].map(|cpu| fixture.path(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq")));
        let sampled = sampled_hz(&folders).unwrap();
        assert_eq!(sampled.value, 2.5e9);
        assert!(sampled.source.contains("not a mean"), "{}", sampled.source);
        assert!(sampled_hz(&[fixture.path("sys")]).is_err());
    }

    #[test]
    fn a_nominal_frequency_is_named_and_is_not_a_measurement() {
        let fixture = Fixture::new();
        fixture.write("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2300.000\nflags\t\t: fpu hypervisor\n");
        // A CPU that no machine has, so that this machine's counters do not matter.
        let mut frequency = Frequency::open(&[60_000], &fixture.path("sys"), &fixture.path("proc"));
        let begun = frequency.ticks();
        let unavailable = frequency.since(begun).unwrap_err();
        assert!(unavailable.reason.starts_with("this virtual machine does not report"), "{unavailable}");
        assert!(unavailable.reason.contains("nominal: 2.30 GHz"), "{unavailable}");
        assert!(untold("").reason.starts_with("this machine does not report its frequency: no cpufreq, and"));
    }

    #[test]
    fn this_machine_reports_a_plausible_frequency_or_the_reason_why_not() {
        let mut frequency = Frequency::open(&[0], Path::new("/sys"), Path::new("/proc"));
        let begun = frequency.ticks();
        std::hint::black_box((0..1_000_000u64).fold(1u64, |value, step| value.wrapping_mul(step | 1)));
        match frequency.since(begun) {
            Ok(clock) => assert!((1e8..1e10).contains(&clock.value), "{clock:?}"),
            Err(unavailable) => assert!(!unavailable.remedy.is_empty() || unavailable.reason.contains("cpufreq")),
        }
    }
}
