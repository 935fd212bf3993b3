//! All sizes and depths on one kernel and one machine, as a table and in a few lines.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use iolane_core::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::{Drive, Kernel, Lab, Machine};

use super::cell::{AIMS, Advised, Aim, Cell, OF_ADVICE, OF_FIXED, OF_FIXED_TIMED, PATHS, ask, command};
use super::summary::Summary;
use crate::bench::guest;
use crate::table::{Style, Table, grouped};

pub(super) const SIZES: [&str; 3] = ["4k", "16k", "128k"];
const DEPTHS: [u32; 5] = [1, 4, 16, 64, 128];

/// The share of the best that the path reaches at least which `iolane advise` recommends, in every cell.
pub(super) const ADVISED_MIN: f64 = 0.90;

/// The least share of cells in which the interval of `iolane advise` covers the rate: all of 15 but two. On 2026-11-27 it covered 15 on
/// Linux 6.1 and 13 on 7.2, where the two others were 0.05 % beside it.
pub(super) const COVERED_MIN: f64 = 0.85;

/// How often the path runs that is recommended, each time in a process of its own, after the advice.
const RUNS_OF_ADVISED: usize = 3;

/// The most time that a guest in real time may take for one size.
const TIMED_AT_MOST: Duration = Duration::from_secs(1800);

/// What a grid is measured on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) target: &'static str,
    cpus: u32,
    /// How often each arm runs, in turn with all others; 1 in exact mode.
    rounds: usize,
}

impl Place {
    /// One processor, whose instructions are the clock, and a device that costs nothing.
    pub(super) const EXACT: Self = Self { target: "/dev/nullb0", cpus: 1, rounds: 1 };

    /// Guests in real time.
    pub(super) const TIMED: [Self; 3] = [
        Self { target: "/dev/nullb0", cpus: 2, rounds: 3 },
        Self { target: "/dev/nvme0n1", cpus: 1, rounds: 3 },
        Self { target: "/dev/nvme0n1", cpus: 2, rounds: 3 },
    ];

    fn is_exact(self) -> bool {
        self.rounds == 1
    }

    /// The warm-up of a fixed path, and how long it is measured.
    fn times_of_fixed(self) -> (&'static str, &'static str) {
        if self.is_exact() { OF_FIXED } else { OF_FIXED_TIMED }
    }

    fn lab<'a>(self, iolane: &Path, kernel: &Kernel, cache: &'a Cache) -> Lab<'a> {
        if self.is_exact() {
            return guest::exact_lab(iolane, kernel, cache);
        }
        let machine = Machine::new(self.cpus, Bytes(2 << 30), vec![Drive::default()]);
        Lab { timeout: TIMED_AT_MOST, ..guest::lab(iolane, kernel, cache, machine) }
    }

    /// The name of its grid on a kernel, in marks and for `--only`.
    pub(super) fn mark(self, kernel: &str) -> String {
        let device = self.target.trim_start_matches("/dev/");
        if self.is_exact() { kernel.to_owned() } else { format!("{kernel} {device} {}", self.cpus) }
    }

    fn name(self) -> String {
        match (self.is_exact(), self.cpus) {
            (true, _) => format!("{}, random reads", self.target),
            (false, 1) => format!("{}, 1 processor, in real time, random reads", self.target),
            (false, cpus) => format!("{}, {cpus} processors, in real time, random reads", self.target),
        }
    }
}

/// How much of a grid is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) sizes: &'static [&'static str],
    /// The depths at which `auto` is measured with other goals than the rate, too.
    pub(super) depths_of_goals: &'static [u32],
    /// Whether `iolane advise` is asked, which takes some minutes.
    pub(super) advice: bool,
}

impl Extent {
    fn aims(&self, depth: u32) -> &'static [Aim] {
        if self.depths_of_goals.contains(&depth) { &AIMS } else { &AIMS[..1] }
    }
}

/// The cells of one kernel and place.
pub(super) struct Grid {
    pub(super) name: String,
    /// The kernel and the place in a few words, which the marks of its table in a page have.
    pub(super) mark: String,
    pub(super) cells: Vec<Cell>,
}

impl Grid {
    pub(super) fn measure(iolane: &Path, version: &str, place: Place, extent: Extent, cache: &Cache) -> Result<Self> {
        let kernel = guest::kernel_of(version, cache)?;
        let lab = place.lab(iolane, &kernel, cache);
        let mut cells = Vec::new();
        for size in extent.sizes {
            let rounds = (0..place.rounds).map(|number| round(&lab, version, place, extent, size, number));
            let rounds = rounds.collect::<Result<Vec<_>>>()?;
            let advised = if extent.advice { advice(&lab, version, place, size)? } else { Vec::new() };
            let mut advised = advised.into_iter();
            for of_depth in 0..DEPTHS.len() {
                let of_rounds: Vec<Cell> = rounds.iter().map(|cells| cells[of_depth].clone()).collect();
                let mut cell = Cell::of_rounds(&of_rounds).context("no round")?;
                cell.advised = advised.next();
                cells.push(cell);
            }
        }
        let name = format!("Linux {} ({}), {}:", kernel.release, kernel.origin, place.name());
        Ok(Self { name, mark: place.mark(version), cells })
    }

    pub(super) fn text(&self, style: Style) -> String {
        format!("{}\n\n{}\n{}", self.name, self.table(style), self.summary())
    }

    fn table(&self, style: Style) -> String {
        let headings =
            ["size", "depth", "auto", "takes", "best fixed path", "its rate", "auto / best", "advised / best"];
        let with_advice = self.cells.iter().any(|cell| cell.advised.is_some());
        let columns = if with_advice { headings.len() } else { headings.len() - 1 };
        let mut table = Table::new(&headings[..columns]);
        for cell in &self.cells {
            let Some(share) = cell.share(0) else { continue };
            let mut row = vec![
                cell.size.into(),
                cell.depth.to_string(),
                grouped(share.auto),
                share.taken.into(),
                share.best_path.into(),
                grouped(share.best),
                format!("{:.3}", share.share),
            ];
            row.extend(cell.advised_share().map(|(share, _)| format!("{share:.3}")));
            table.row(row);
        }
        table.render(style)
    }

    /// That of `auto`, by an aim.
    fn of_aim(&self, aim: usize) -> Summary {
        Summary::of(self.cells.iter().filter_map(|cell| Some(cell.share(aim)?.share)).collect())
    }

    /// A line on `auto` with this aim, if it was measured, with the cell in which it comes least near.
    fn line_of_aim(&self, aim: usize) -> Option<String> {
        let shares = self.cells.iter().filter_map(|cell| Some((cell, cell.share(aim)?)));
        let (cell, worst) = shares.min_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))?;
        let summary = self.of_aim(aim);
        let by_its_goal = if aim == 0 { "" } else { ", by its goal" };
        Some(format!(
            "- `{}`{by_its_goal}: {summary} ({}, depth {}: it takes `{}`, the best is `{}`)\n",
            AIMS[aim].path, cell.size, cell.depth, worst.taken, worst.best_path
        ))
    }

    /// Whether `auto` comes near enough to the best with every goal.
    pub(super) fn is_reached(&self) -> bool {
        let is_measured = |aim: &usize| self.cells.iter().any(|cell| cell.share(*aim).is_some());
        self.of_aim(0).is_reached() && (1..AIMS.len()).filter(is_measured).all(|aim| self.of_aim(aim).is_reached())
    }

    /// A fixed path's.
    fn of_fixed(&self, path: &str) -> Summary {
        Summary::of(self.cells.iter().map(|cell| cell.share_of_fixed(path)).collect())
    }

    /// Whether `iolane advise`, if it was asked, recommends no path that is far from the best, and its intervals cover what is reached.
    pub(super) fn is_advised_well(&self) -> bool {
        let (shares, covered) = self.advised();
        shares.iter().all(|(share, _)| *share >= ADVISED_MIN) && covered as f64 >= COVERED_MIN * shares.len() as f64
    }

    /// The share of each cell that advice was asked for, with how far its rate is beside the interval, and how many intervals cover it.
    fn advised(&self) -> (Vec<(f64, f64)>, usize) {
        let shares: Vec<(f64, f64)> = self.cells.iter().filter_map(Cell::advised_share).collect();
        let covered = shares.iter().filter(|(_, outside)| *outside == 0.0).count();
        (shares, covered)
    }

    /// A line on what `iolane advise` recommends, if it was asked.
    fn of_advice(&self) -> String {
        let (shares, covered) = self.advised();
        if shares.is_empty() {
            return String::new();
        }
        let worst = shares.iter().map(|(share, _)| *share).fold(f64::INFINITY, f64::min);
        let farthest = shares.iter().map(|(_, outside)| *outside).fold(0.0, f64::max);
        let others = match farthest {
            0.0 => String::new(),
            _ => format!(", and is at most {:.2} % beside it in the others", 100.0 * farthest),
        };
        format!(
            "- what `iolane advise` recommends after {OF_ADVICE}: {worst:.3} of the best in the worst cell; its interval \
             covers the rate of the runs after it in {covered} of {} cells{others}\n",
            shares.len()
        )
    }

    /// Lines on `auto`, and on the fixed path that comes closest.
    fn summary(&self) -> String {
        let closest = PATHS.into_iter().max_by(|a, b| {
            let (a, b) = (self.of_fixed(a), self.of_fixed(b));
            (a.worst, a.median).partial_cmp(&(b.worst, b.median)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let line_of_fixed = |path| format!("- `{path}`, the closest fixed path: {}\n", self.of_fixed(path));
        let of_aims = (0..AIMS.len()).filter_map(|aim| self.line_of_aim(aim)).collect::<String>();
        of_aims + &closest.map_or_else(String::new, line_of_fixed) + &self.of_advice()
    }
}

/// Each depth of a size, every arm once. Each round begins with another arm: a guest is the slower the shorter it runs.
fn round(
    lab: &Lab<'_>,
    version: &str,
    place: Place,
    extent: Extent,
    size: &'static str,
    number: usize,
) -> Result<Vec<Cell>> {
    let of_depth = |depth: u32| Cell::arms(version, depth, extent.aims(depth)).map(move |path| (depth, path));
    let mut arms: Vec<(u32, &str)> = DEPTHS.into_iter().flat_map(of_depth).collect();
    let first = number * arms.len() / place.rounds;
    arms.rotate_left(first);
    let commands =
        arms.iter().map(|(depth, path)| command(place.target, path, *depth, size, place.times_of_fixed())).collect();
    let outputs = guest::outputs_of_available(lab, commands)?;
    let of_depth = |depth: u32| {
        let arms = arms.iter().zip(&outputs).filter(move |((of, _), _)| *of == depth);
        Cell::read(size, depth, arms.map(|((_, path), output)| (*path, output.as_str())))
    };
    DEPTHS.into_iter().map(of_depth).collect()
}

/// The advice for each depth of a size, and what its path does then.
fn advice(lab: &Lab<'_>, version: &str, place: Place, size: &str) -> Result<Vec<Advised>> {
    let asked = DEPTHS.iter().map(|depth| ask(place.target, version, *depth, size)).collect();
    let documents = guest::outputs(lab, asked)?;
    let mut advised = documents.iter().map(|document| Advised::read(document)).collect::<Result<Vec<_>>>()?;
    let runs = |(depth, advised): (&u32, &Advised)| {
        vec![command(place.target, &advised.path, *depth, size, place.times_of_fixed()); RUNS_OF_ADVISED]
    };
    let outputs = guest::outputs(lab, DEPTHS.iter().zip(&advised).flat_map(runs).collect())?;
    for (advised, outputs) in advised.iter_mut().zip(outputs.chunks(RUNS_OF_ADVISED)) {
        advised.sees(outputs)?;
    }
    Ok(advised)
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::cell;
    use super::*;

    fn grid(cells: Vec<Cell>) -> Grid {
        Grid { name: String::new(), mark: String::new(), cells }
    }

    #[test]
    fn the_closest_fixed_path_is_the_one_that_falls_back_least() {
        let of_one = cell(99.0, &[("libaio", 100.0), ("io_uring", 90.0)]);
        let of_other = cell(99.0, &[("libaio", 80.0), ("io_uring", 100.0), ("psync", 60.0)]);
        let grid = grid(vec![of_one, of_other]);
        assert_eq!(grid.of_fixed("psync").worst, 0.0);
        assert_eq!(grid.of_fixed("libaio"), Summary { median: 1.0, worst: 0.8 });
        assert!(grid.summary().contains("`io_uring`, the closest fixed path: 1.000"), "{}", grid.summary());
    }

    #[test]
    fn auto_is_near_enough_only_if_it_is_with_every_goal_that_was_measured() {
        assert!(grid(vec![cell(99.0, &[("libaio", 100.0)])]).is_reached());
        assert!(!grid(vec![cell(80.0, &[("libaio", 100.0)])]).is_reached());
        assert!(!grid(Vec::new()).is_reached());
        let record = |iops: f64, mean_ns: f64| {
            format!(
                r#"{{"paths_taken":[{{"path":"psync"}}],"result":{{"iops":{iops},"latency_ns":{{"mean":{mean_ns}}}}}}}"#
            )
        };
        let outputs =
            [("auto", record(99.0, 10.0)), ("auto,goal=latency", record(99.0, 10.0)), ("psync", record(100.0, 8.0))];
        let cell = Cell::read("4k", 1, outputs.iter().map(|(path, output)| (*path, output.as_str()))).unwrap();
        let grid = grid(vec![cell]);
        assert!(grid.of_aim(0).is_reached() && !grid.is_reached());
        let line = "`auto,goal=latency`, by its goal: 0.800 of the best in the median cell, 0.800 in the worst (4k, depth 1: \
                    it takes `psync`, the best is `psync`)";
        assert!(grid.summary().contains(line), "{}", grid.summary());
    }

    #[test]
    fn advice_is_good_if_its_path_is_nearly_the_best_in_every_cell() {
        let document = r#"{"advice":[{"take":{"notation":"libaio","value":{"value":95.0,"low":94.0,"high":96.0}}}]}"#;
        let with = |libaio: f64, then: f64| {
            let mut cell = cell(99.0, &[("libaio", libaio), ("psync", 100.0)]);
            let mut advised = Advised::read(document).unwrap();
            advised.sees(&[format!(r#"{{"result":{{"iops":{then:?}}}}}"#)]).unwrap();
            cell.advised = Some(advised);
            cell
        };
        let of_many = |last: Vec<Cell>| grid([vec![with(95.0, 95.0); 12], last].concat());
        assert!(of_many(vec![with(91.0, 95.0), with(95.0, 91.0), with(95.0, 91.0)]).is_advised_well());
        assert!(!of_many(vec![with(89.0, 95.0)]).is_advised_well());
        assert!(!of_many(vec![with(95.0, 91.0), with(95.0, 99.0), with(95.0, 99.0)]).is_advised_well());
        let line = grid(vec![with(91.0, 95.0), with(95.0, 91.0)]).of_advice();
        let said = "0.910 of the best in the worst cell; its interval covers the rate of the runs after it in 1 of 2 cells, and \
                    is at most 3.30 % beside it in the others";
        assert!(line.contains(said), "{line}");
    }
}
