//! `cargo xtask bench --exact`: instructions per I/O of iolane and of fio, in one guest whose clock advances one
//! nanosecond per instruction. The gate compares with the committed table in docs/performance.md.

mod figures;
mod page;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use iolane_lab::GuestCommand;
use iolane_lab::cache::Cache;

use super::guest::{self, FIO, fio_command, fio_iops, iolane_command, iolane_iops, page_path, telemetry_share};
use crate::packages;
use crate::table::{Style, Table, grouped};
use figures::Figures;

const DEVICE: &str = "/dev/nullb0";
/// How long iolane measures.
const RUNTIME: [&str; 2] = ["--runtime", "500ms"];
/// How much more a path may cost than the committed figure before the gate closes.
const WORSE_MAX: f64 = 0.02;

/// A path at a depth, and what is known of it elsewhere.
pub(crate) struct Arm {
    pub(super) path: &'static str,
    pub(super) depth: u32,
    /// The same in fio's words.
    fio: &'static str,
    /// I/Os a second of virtual time that are the goal.
    goal_iops: f64,
    /// What fio's `t/io_uring`, which measures no latencies, reached in such a guest.
    reference_iops: f64,
}

pub(super) const FIXED: &str = "io_uring,fixedbufs,fixedfiles";
const FIXED_FIO: &str = "--ioengine=io_uring --fixedbufs --registerfiles";
pub(super) const POLLED: &str = "io_uring+iopoll,fixedbufs,fixedfiles";
const POLLED_FIO: &str = "--ioengine=io_uring --hipri --fixedbufs --registerfiles";

pub(crate) const ARMS: [Arm; 9] = [
    Arm { path: "psync", depth: 1, fio: "--ioengine=psync", goal_iops: 220e3, reference_iops: 207.9e3 },
    Arm { path: "libaio", depth: 1, fio: "--ioengine=libaio", goal_iops: 148e3, reference_iops: 147.8e3 },
    Arm { path: "libaio", depth: 16, fio: "--ioengine=libaio", goal_iops: 180e3, reference_iops: 174.9e3 },
    Arm { path: "io_uring", depth: 1, fio: "--ioengine=io_uring", goal_iops: 168e3, reference_iops: 165.7e3 },
    Arm { path: "io_uring", depth: 16, fio: "--ioengine=io_uring", goal_iops: 205e3, reference_iops: 198.5e3 },
    Arm { path: FIXED, depth: 16, fio: FIXED_FIO, goal_iops: 248.9e3, reference_iops: 248.9e3 },
    Arm { path: POLLED, depth: 1, fio: POLLED_FIO, goal_iops: 222e3, reference_iops: 219.5e3 },
    Arm { path: POLLED, depth: 16, fio: POLLED_FIO, goal_iops: 300e3, reference_iops: 292.6e3 },
    // Twice as many as the device has tags.
    Arm { path: POLLED, depth: 128, fio: POLLED_FIO, goal_iops: 270e3, reference_iops: 57e3 },
];

/// A run that is slowed on purpose, by costly offsets: a gate that takes it for the real one measures nothing.
const CONTROL: (&Arm, &[&str]) = (&ARMS[3], &["--offsets", "zipf:1.2"]);

/// Arms that run without telemetry too: what reading it costs must not be seen in what is measured.
const UNWATCHED: [&Arm; 2] = [&ARMS[3], &ARMS[7]];
/// What telemetry may cost, as a share.
const TELEMETRY_MAX: f64 = 0.01;

/// What telemetry costs an arm.
#[derive(Debug, Clone, PartialEq)]
struct TelemetryCost {
    path: String,
    depth: u32,
    /// Instructions per I/O with it and without.
    watched: f64,
    unwatched: f64,
    /// Time of its readings, which are outside of what is measured, as a share of that.
    reading_share: f64,
}

impl TelemetryCost {
    fn share(&self) -> f64 {
        self.watched / self.unwatched - 1.0
    }

    fn is_small(&self) -> bool {
        self.share().max(self.reading_share) < TELEMETRY_MAX
    }
}

impl fmt::Display for TelemetryCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watched, unwatched) = (grouped(self.watched), grouped(self.unwatched));
        let (share, reading) = (self.share() * 100.0, self.reading_share * 100.0);
        write!(f, "{} at depth {}: {watched} with telemetry, {unwatched} without", self.path, self.depth)?;
        write!(f, " ({share:+.2} %); the readings outside the measured phase take {reading:.2} % of its length")
    }
}

/// Measures, prints, and compares. Without `check` the table is written too, unless a path got worse.
pub(crate) fn run(iolane: &Path, check: bool, accept: bool) -> Result<bool> {
    if let [package, ..] = packages::install(&[packages::QEMU, packages::FIO])?[..] {
        bail!("{} is missing; as root: apt-get install {}", package.program, package.name);
    }
    let measured = measure(iolane)?;
    let text = std::fs::read_to_string(page_path()).unwrap_or_default();
    let committed = page::figures(&text);
    print!("{}", measured.table(Style::Text));
    let worse = worse_than(&committed, &measured.figures);
    for line in &worse {
        println!("WORSE: {line}");
    }
    let (arm, slowed) = (CONTROL.0, measured.control);
    let plain = Figures { path: arm.path.into(), depth: arm.depth, iolane: slowed, fio: 0.0 };
    let reference = measured.figures.iter().find(|figures| is_of(figures, arm)).cloned();
    let noticed = !worse_than(reference.as_slice(), &[plain]).is_empty();
    let (noticed_words, instructions) = (if noticed { "noticed" } else { "NOT NOTICED" }, grouped(slowed));
    println!("control: {} at depth {}, slowed on purpose: {instructions}, {noticed_words}", arm.path, arm.depth);
    ensure!(noticed, "the gate does not notice a path that is slowed on purpose; it measures nothing");
    for cost in &measured.telemetry {
        println!("telemetry: {cost}{}", if cost.is_small() { "" } else { ", TOO MUCH" });
    }
    let telemetry_is_small = measured.telemetry.iter().all(TelemetryCost::is_small);
    if check {
        ensure!(!committed.is_empty(), "docs/performance.md has no figures; `cargo xtask bench --exact` writes them");
        println!(
            "gate: {}",
            if worse.is_empty() { "no path is worse than committed by more than 2 %" } else { "closed" }
        );
    } else if worse.is_empty() || accept {
        let renewed = page::renewed(
            &text,
            &measured.description(),
            &measured.table(Style::Markdown),
            &measured.telemetry_text(),
        )?;
        std::fs::write(page_path(), renewed).context("writing docs/performance.md")?;
        println!("written to docs/performance.md");
    } else {
        println!("docs/performance.md is unchanged; `--accept` writes figures that are worse");
    }
    Ok(telemetry_is_small && (worse.is_empty() || accept))
}

fn is_of(figures: &Figures, arm: &Arm) -> bool {
    figures.path == arm.path && figures.depth == arm.depth
}

/// Each path that costs more than it did, in words.
fn worse_than(committed: &[Figures], measured: &[Figures]) -> Vec<String> {
    let worse = |now: &Figures| {
        let before = committed.iter().find(|before| before.path == now.path && before.depth == now.depth)?;
        let by = now.iolane / before.iolane - 1.0;
        let (from, to) = (grouped(before.iolane), grouped(now.iolane));
        (by > WORSE_MAX).then(|| format!("{} at depth {}: {from} -> {to} ({:+.1} %)", now.path, now.depth, by * 100.0))
    };
    measured.iter().filter_map(worse).collect()
}

struct Measured {
    figures: Vec<Figures>,
    /// Of the run that is slowed on purpose.
    control: f64,
    telemetry: Vec<TelemetryCost>,
    kernel: String,
    versions: String,
}

impl Measured {
    fn table(&self, style: Style) -> String {
        let mut table = Table::new(&["path", "depth", "iolane", "fio", "fio / iolane", "t/io_uring", "goal"]);
        for (figures, arm) in self.figures.iter().zip(&ARMS) {
            table.row(vec![
                figures.path.clone(),
                figures.depth.to_string(),
                grouped(figures.iolane),
                grouped(figures.fio),
                format!("{:.2}", figures.fio / figures.iolane),
                grouped(1e9 / arm.reference_iops),
                format!(
                    "{}{}",
                    grouped(1e9 / arm.goal_iops),
                    if figures.iolane * arm.goal_iops <= 1e9 { "" } else { " missed" }
                ),
            ]);
        }
        table.render(style)
    }

    fn description(&self) -> String {
        format!("Linux {}, {}", self.kernel, self.versions)
    }

    fn telemetry_text(&self) -> String {
        self.telemetry.iter().map(|cost| format!("- {cost}\n")).collect()
    }
}

fn measure(iolane: &Path) -> Result<Measured> {
    let cache = Cache::of_user()?;
    let kernel = guest::kernel(&cache)?;
    let described = format!("{} ({})", kernel.release, kernel.origin);
    let mut lab = guest::exact_lab(iolane, &kernel, &cache);
    lab.programs.push(guest::fio());
    let mut commands: Vec<GuestCommand> = Vec::new();
    for arm in &ARMS {
        commands.push(iolane_command(DEVICE, arm.path, arm.depth, &RUNTIME));
        commands.push(fio_command(DEVICE, arm.fio, arm.depth));
    }
    let slowed: Vec<&str> = RUNTIME.iter().chain(CONTROL.1).copied().collect();
    commands.push(iolane_command(DEVICE, CONTROL.0.path, CONTROL.0.depth, &slowed));
    for arm in UNWATCHED {
        let unwatched: Vec<&str> = RUNTIME.iter().chain(&["--unwatched"]).copied().collect();
        commands.push(iolane_command(DEVICE, arm.path, arm.depth, &unwatched));
    }
    commands.push(GuestCommand::new([FIO, "--version"]));
    let outputs = guest::outputs(&lab, commands)?;
    let mut outputs = outputs.iter();
    let (mut figures, mut reading_shares) = (Vec::new(), Vec::new());
    for arm in &ARMS {
        let mut next = || outputs.next().context("a command printed nothing");
        let record = next()?;
        reading_shares.push(telemetry_share(record)?);
        let (iolane, fio) = (instructions(iolane_iops(record)?), instructions(fio_iops(next()?)?));
        figures.push(Figures { path: arm.path.into(), depth: arm.depth, iolane, fio });
    }
    let control = instructions(iolane_iops(outputs.next().context("the control printed nothing")?)?);
    let mut telemetry = Vec::new();
    for arm in UNWATCHED {
        let unwatched = instructions(iolane_iops(outputs.next().context("a run without telemetry printed nothing")?)?);
        let of_arm = figures.iter().zip(&reading_shares).find(|(figures, _)| is_of(figures, arm));
        let (watched, reading_share) = of_arm.context("an arm without telemetry is none of those with it")?;
        telemetry.push(TelemetryCost {
            path: arm.path.into(),
            depth: arm.depth,
            watched: watched.iolane,
            unwatched,
            reading_share: *reading_share,
        });
    }
    let fio_version = outputs.next().map_or("fio", |text| text.trim());
    Ok(Measured {
        figures,
        control,
        telemetry,
        kernel: described,
        versions: format!("{fio_version}, {DEVICE}, 4 KiB random reads"),
    })
}

/// A virtual second has a thousand million instructions.
fn instructions(iops: f64) -> f64 {
    1e9 / iops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(path: &str, iolane: f64) -> Figures {
        Figures { path: path.into(), depth: 1, iolane, fio: 6000.0 }
    }

    #[test]
    fn the_gate_closes_for_telemetry_that_costs_a_hundredth() {
        let cost = |watched, reading_share| TelemetryCost {
            path: "psync".into(),
            depth: 1,
            watched,
            unwatched: 5000.0,
            reading_share,
        };
        assert!(cost(5049.0, 0.009).is_small() && cost(4990.0, 0.0).is_small());
        assert!(!cost(5051.0, 0.0).is_small() && !cost(5000.0, 0.011).is_small());
        let text = cost(5010.0, 0.004).to_string();
        let expected = "psync at depth 1: 5,010 with telemetry, 5,000 without (+0.20 %); the readings outside the measured \
                        phase take 0.40 % of its length";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_gate_closes_for_a_path_that_costs_two_percent_more() {
        let committed = [figures("psync", 5000.0), figures("libaio", 7000.0)];
        assert_eq!(
            worse_than(&committed, &[figures("psync", 5099.0), figures("libaio", 6000.0)]),
            Vec::<String>::new()
        );
        let worse = worse_than(&committed, &[figures("psync", 5101.0)]);
        assert_eq!(worse, ["psync at depth 1: 5,000 -> 5,101 (+2.0 %)"]);
        assert_eq!(worse_than(&[], &[figures("psync", 1.0)]), Vec::<String>::new());
    }
}
