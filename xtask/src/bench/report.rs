//! The results of the bench and its goals, as tables of at most 100 columns.
//! Takes raw runs and computes every number that it prints.

use std::fmt::Write;

use anyhow::Result;

use super::arms::{Arm, NULL_DEPTH};
use super::programs::{Run, fio_version};
use super::statistics::{Interval, median, median_interval, ratio_interval};
use crate::table::{Style, Table, grouped};

const NULL_IOPS_GOAL: f64 = 20e6;
const MEMORY_BYTES_GOAL: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 4096;

/// All runs of one arm, in pairs.
pub(super) struct ArmResult {
    path: &'static str,
    depth: u32,
    goal_ratio: f64,
    pub(super) fio_iops: Vec<f64>,
    pub(super) iolane_iops: Vec<f64>,
    pub(super) baseline_iops: Vec<f64>,
    pub(super) resident_bytes_max: u64,
    /// Why the arm could not be measured to its end.
    pub(super) failure: Option<String>,
}

impl ArmResult {
    pub(super) fn new(arm: &Arm) -> Self {
        Self {
            path: arm.path,
            depth: arm.depth,
            goal_ratio: arm.goal_ratio,
            fio_iops: Vec::new(),
            iolane_iops: Vec::new(),
            baseline_iops: Vec::new(),
            resident_bytes_max: 0,
            failure: None,
        }
    }

    fn ratio(&self) -> f64 {
        median(&self.iolane_iops) / median(&self.fio_iops)
    }

    fn reached(&self) -> bool {
        self.failure.is_none() && self.ratio() >= self.goal_ratio
    }

    fn cells(&self) -> Vec<String> {
        let known = [self.path.to_owned(), self.depth.to_string()];
        let measured = match self.failure {
            Some(_) => ["-"; 5].map(String::from),
            None => [
                grouped(median(&self.fio_iops)),
                grouped(median(&self.iolane_iops)),
                grouped(median(&self.baseline_iops)),
                format!("{:.2}", self.ratio()),
                shown(ratio_interval(&self.fio_iops, &self.iolane_iops), |end| format!("{end:.2}")),
            ],
        };
        let verdict = [format!("{:.2}", self.goal_ratio), yes_or_no(self.reached())];
        known.into_iter().chain(measured).chain(verdict).collect()
    }
}

/// Everything the bench found.
pub(super) struct Report {
    pairs: usize,
    cpu: u32,
    host: String,
    pub(super) arms: Vec<ArmResult>,
    pub(super) null_iops: Vec<f64>,
    /// The largest of all of iolane's runs, less its buffers.
    memory_bytes: u64,
}

impl Report {
    /// A report without results. Looks at the machine now, before the bench itself is its load.
    pub(super) fn begin(pairs: usize, cpu: u32) -> Result<Self> {
        let host = format!("{}, {}", fio_version()?, describe_host());
        Ok(Self { pairs, cpu, host, arms: Vec::new(), null_iops: Vec::new(), memory_bytes: 0 })
    }

    pub(super) fn note_memory(&mut self, run: &Run, depth: u32) {
        let buffers = u64::from(depth) * BLOCK_BYTES;
        self.memory_bytes = self.memory_bytes.max(run.resident_bytes_max.saturating_sub(buffers));
    }

    pub(super) fn note_arm_memory(&mut self, arm: &ArmResult) {
        self.note_memory(&Run { iops: 0.0, resident_bytes_max: arm.resident_bytes_max }, arm.depth);
    }

    pub(super) fn all_goals_reached(&self) -> bool {
        self.arms.iter().all(ArmResult::reached) && self.null_reached() && self.memory_reached()
    }

    fn null_reached(&self) -> bool {
        median(&self.null_iops) >= NULL_IOPS_GOAL
    }

    fn memory_reached(&self) -> bool {
        self.memory_bytes < MEMORY_BYTES_GOAL
    }

    pub(super) fn render(&self, style: Style) -> String {
        let mut text = format!(
            "IOPS of 4 KiB random reads, 512 MiB file in the page cache, one thread on cpu {}, medians of {} pairs:\n\n{}\n",
            self.cpu,
            self.pairs,
            self.comparison().render(style)
        );
        for arm in &self.arms {
            if let Some(why) = &arm.failure {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{} could not be measured: {why}\n", arm.path);
            }
        }
        text.push_str(
            "baseline: a minimal loop over the same interface with default settings, at random offsets, without\n\
             latencies\n\n",
        );
        text + &format!("{}\n{}\n", self.goals().render(style), self.host)
    }

    fn comparison(&self) -> Table {
        let mut table =
            Table::new(&["path", "depth", "fio", "iolane", "baseline", "ratio", "95 % interval", "goal", "reached"]);
        self.arms.iter().for_each(|arm| table.row(arm.cells()));
        table
    }

    fn goals(&self) -> Table {
        let mut table = Table::new(&["iolane without fio", "measured", "95 % interval", "goal", "reached"]);
        let millions = |iops: f64| format!("{:.1}", iops / 1e6);
        table.row(vec![
            format!("path null, depth {NULL_DEPTH}: million requests/s"),
            millions(median(&self.null_iops)),
            shown(median_interval(&self.null_iops), millions),
            millions(NULL_IOPS_GOAL),
            yes_or_no(self.null_reached()),
        ]);
        table.row(vec![
            "memory besides buffers, largest run: MiB".into(),
            format!("{:.1}", self.memory_bytes as f64 / f64::from(1 << 20)),
            String::new(),
            format!("< {}", MEMORY_BYTES_GOAL >> 20),
            yes_or_no(self.memory_reached()),
        ]);
        table
    }
}

fn shown(interval: Interval, number: impl Fn(f64) -> String) -> String {
    format!("{} to {}", number(interval.low), number(interval.high))
}

fn yes_or_no(reached: bool) -> String {
    if reached { "yes" } else { "no" }.into()
}

/// Processor, kernel and load, which a reader needs to judge the numbers.
fn describe_host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let loadavg = read("/proc/loadavg");
    let load = loadavg.split(' ').next().unwrap_or("unknown");
    format!("Linux {}, {model}, {cpus} cpus, load {load} before", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::super::ARMS;
    use super::*;

    fn report(iolane_iops: f64) -> Report {
        let mut arms: Vec<ArmResult> = ARMS.iter().map(ArmResult::new).collect();
        for arm in &mut arms {
            arm.fio_iops = vec![10_000_000.0; 5];
            arm.iolane_iops = vec![iolane_iops; 5];
            arm.baseline_iops = vec![30_000_000.0; 5];
            arm.resident_bytes_max = 12 << 20;
        }
        let mut report = Report {
            pairs: 5,
            cpu: 1,
            host: "fio-3.33, Linux".into(),
            arms,
            null_iops: vec![123_400_000.0; 5],
            memory_bytes: 0,
        };
        report.note_memory(&Run { iops: 0.0, resident_bytes_max: (10 << 20) + 32 * 4096 }, 32);
        report
    }

    #[test]
    fn every_table_fits_100_columns() {
        for style in [Style::Text, Style::Markdown] {
            let text = report(25_000_000.0).render(style);
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }

    #[test]
    fn a_goal_is_reached_from_its_ratio_on() {
        assert!(report(20_000_000.0).all_goals_reached());
        let report = report(19_900_000.0);
        let reached: Vec<bool> = report.arms.iter().map(ArmResult::reached).collect();
        assert_eq!(reached, [true, false, true]);
        assert!(!report.all_goals_reached());
    }

    #[test]
    fn an_arm_that_failed_is_reported_and_reaches_no_goal() {
        let mut report = report(30_000_000.0);
        report.arms[2].failure = Some("io_uring is disabled".into());
        let text = report.render(Style::Text);
        assert!(text.contains("io_uring could not be measured: io_uring is disabled"), "{text}");
        assert!(!report.all_goals_reached());
    }

    #[test]
    fn memory_is_counted_without_the_buffers_in_flight() {
        let report = report(1.0);
        assert_eq!(report.memory_bytes, 10 << 20);
        assert!(report.render(Style::Text).contains("10.0"));
    }
}
