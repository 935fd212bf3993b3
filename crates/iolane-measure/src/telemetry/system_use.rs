//! What the whole machine did during a measurement: how busy its CPUs were, how long they handled interrupts, and whether
//! they were throttled. Studies detect disturbed runs by it.

use std::collections::BTreeMap;
use std::fs;

use super::{Reading, Sourced, Unavailable};

/// The kernel's counters at one moment.
#[derive(Debug, Clone)]
pub struct SystemSnapshot {
    /// Ticks in which each CPU worked, without interrupts, plus those stolen by a hypervisor.
    busy_ticks: BTreeMap<u32, u64>,
    interrupts: InterruptTicks,
    throttled: Option<u64>,
}

/// Ticks that all CPUs have spent in interrupts since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct InterruptTicks {
    hard: u64,
    soft: u64,
}

/// What happened between two snapshots.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemUse {
    /// Seconds in which each CPU worked for a program or the kernel, without interrupts, or was taken by a hypervisor; in
    /// kernel ticks.
    pub busy_s: BTreeMap<u32, f64>,
    /// Seconds that all CPUs spent in hard and soft interrupts of any device, in kernel ticks.
    pub interrupt_s: Sourced<f64>,
    /// The part of them that the kernel charged to no thread, in seconds.
    pub interrupt_apart_s: Sourced<f64>,
    /// Times that a core was throttled for heat; `None` where the kernel does not report it (only Intel's do).
    pub throttled: Option<u64>,
}

impl SystemSnapshot {
    /// Reads the counters.
    ///
    /// # Errors
    /// Unavailable where /proc/stat cannot be read.
    pub fn take() -> Reading<Self> {
        let stat = fs::read_to_string("/proc/stat").map_err(|error| {
            Unavailable::new(format!("/proc/stat: {}", iolane::error::describe(&error))).remedy("mount /proc")
        })?;
        Ok(Self { busy_ticks: busy_ticks(&stat), interrupts: interrupt_ticks(&stat), throttled: throttled() })
    }

    /// What happened from this snapshot to a later one.
    pub fn delta(&self, later: &Self) -> SystemUse {
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second().max(1) as f64;
        let busy = later.busy_ticks.iter().filter_map(|(cpu, after)| {
            let before = self.busy_ticks.get(cpu)?;
            Some((*cpu, after.saturating_sub(*before) as f64 * tick_s))
        });
        let (interrupt_s, interrupt_apart_s) = self.interrupts.delta(later.interrupts, tick_s);
        SystemUse {
            busy_s: busy.collect(),
            interrupt_s,
            interrupt_apart_s,
            throttled: self.throttled.zip(later.throttled).map(|(before, after)| after.saturating_sub(before)),
        }
    }
}

impl InterruptTicks {
    /// Without CONFIG_IRQ_TIME_ACCOUNTING the kernel charges time at its tick, which never meets a hard interrupt. A kernel
    /// that has counted none since boot is taken for such a kernel.
    ///
    /// Such a kernel charges soft interrupts to the threads they interrupt. Returns the seconds of all interrupts, and of
    /// those that no thread's time includes.
    fn delta(self, later: Self, tick_s: f64) -> (Sourced<f64>, Sourced<f64>) {
        let ticks = later.hard.saturating_sub(self.hard) + later.soft.saturating_sub(self.soft);
        let all_s = ticks as f64 * tick_s;
        let (source, apart_s) = match later.hard {
            0 => ("/proc/stat, all CPUs, only soft interrupts: this kernel does not count hard ones", 0.0),
            _ => ("/proc/stat, all CPUs, hard and soft interrupts", all_s),
        };
        (Sourced::new(all_s, source), Sourced::new(apart_s, source))
    }
}

/// The line of all cpus, `cpu user nice system idle iowait irq softirq ...`, proc_stat(5).
fn interrupt_ticks(stat: &str) -> InterruptTicks {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> = all.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    InterruptTicks { hard: at(5), soft: at(6) }
}

/// The lines `cpuN user nice system idle iowait irq softirq steal ...` of /proc/stat, proc_stat(5).
fn busy_ticks(stat: &str) -> BTreeMap<u32, u64> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, _irq, _softirq, steal, ..] = ticks[..] else { return None };
        Some((cpu, user + nice + system + steal))
    };
    stat.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

/// The sum over all cores (Documentation/arch/x86/, thermal_throttle).
fn throttled() -> Option<u64> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let counts = cpus.filter_map(|cpu| {
        let count = fs::read_to_string(cpu.path().join("thermal_throttle/core_throttle_count")).ok()?;
        count.trim().parse::<u64>().ok()
    });
    counts.fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_stolen_time_count_as_busy_and_interrupts_do_not() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 10 50 1000 5 7 8 3 0 0\ncpu12 1 0 0 5 0 0 0 0 0 0\nintr 5\ncpufreq x\n";
        assert_eq!(busy_ticks(stat), BTreeMap::from([(0, 163), (12, 1)]));
    }

    #[test]
    fn a_cpu_that_came_online_meanwhile_is_left_out() {
        let at = |ticks: &[(u32, u64)], throttled| SystemSnapshot {
            busy_ticks: ticks.iter().copied().collect(),
            interrupts: InterruptTicks::default(),
            throttled,
        };
        let used = at(&[(0, 100)], Some(5)).delta(&at(&[(0, 150), (1, 70)], Some(7)));
        assert_eq!(used.busy_s.keys().collect::<Vec<_>>(), [&0]);
        assert!(used.busy_s[&0] > 0.0);
        assert_eq!(used.throttled, Some(2));
        assert_eq!(at(&[], None).delta(&at(&[], Some(1))).throttled, None);
    }

    #[test]
    fn the_source_of_interrupt_time_says_whether_it_includes_hard_interrupts() {
        let at =
            |hard: u64, soft: u64| interrupt_ticks(&format!("cpu  1 2 3 4 5 {hard} {soft} 8\ncpu0 1 2 3 4 5 6 7 8\n"));
        let (soft, apart) = at(0, 10).delta(at(0, 25), 0.01);
        assert!((soft.value - 0.15).abs() < 1e-12 && soft.source.contains("only soft interrupts"), "{soft:?}");
        assert_eq!(apart.value, 0.0, "soft interrupts are in the time of threads");
        let (both, apart) = at(7, 10).delta(at(9, 25), 0.01);
        assert!((both.value - 0.17).abs() < 1e-12 && both.source.contains("hard and soft"), "{both:?}");
        assert_eq!(apart.value, both.value);
        assert_eq!(interrupt_ticks("cpu  1 2\n"), InterruptTicks::default());
    }

    #[test]
    fn this_machine_reports_how_busy_it_is() {
        let snapshot = SystemSnapshot::take().unwrap();
        assert!(snapshot.busy_ticks.values().any(|ticks| *ticks > 0));
    }
}
