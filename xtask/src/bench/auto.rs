//! `cargo xtask bench --auto`: the path `auto` beside each fixed path at every block size and depth, in guests whose clock advances
//! one nanosecond per instruction, so that the figures repeat; and what `iolane advise` recommends there. The tables are in
//! docs/auto.md.

use std::path::Path;

use anyhow::{Context, Result, bail};
use iolane_lab::GuestCommand;
use iolane_lab::cache::Cache;
use iolane_lab::session::PROGRAM;
use serde_json::Value;

use super::changing_load::{self, Followed};
use super::guest::{self, iolane_command_after, iolane_iops};
use crate::child::root;
use crate::packages;
use crate::table::{Style, Table, grouped};

const DEVICE: &str = "/dev/nullb0";
const SIZES: [&str; 3] = ["4k", "16k", "128k"];
const DEPTHS: [u32; 5] = [1, 4, 16, 64, 128];
const KERNELS: [&str; 2] = ["6.1", "7.2"];

/// The part of the grid that CI checks: another path is the best on each side of it.
const CHECKED: [(&str, &[&str]); 2] = [("6.1", &["4k"]), ("7.2", &["128k"])];

/// The fixed paths; the last has no queue of its own.
const PATHS: [&str; 9] = [
    "posix_aio",
    "libaio",
    "io_uring",
    "io_uring,fixedbufs,fixedfiles",
    "io_uring+sqpoll",
    "io_uring+iopoll",
    "io_uring+iopoll,fixedbufs,fixedfiles",
    "io_uring+hybrid,fixedbufs,fixedfiles",
    "psync",
];

/// Paths that only some of the kernels have.
const ONLY_FROM: [(&str, &str); 1] = [("io_uring+hybrid,fixedbufs,fixedfiles", "7.2")];

/// The warm-up, by whose end `auto` has to have chosen, and how long is measured after it.
const OF_FIXED: (&str, &str) = ("50ms", "200ms");
const OF_AUTO: (&str, &str) = ("1s", "1s");

/// The share of the best fixed path's rate that `auto` reaches at least: in the median cell, and in the worst.
const MEDIAN_MIN: f64 = 0.95;
const WORST_MIN: f64 = 0.85;
/// The share that the path reaches at least which `iolane advise` recommends, in every cell.
const ADVISED_MIN: f64 = 0.90;
/// The time in which `advise` measures a cell: three repeats of each path.
const OF_ADVICE: &str = "15s";

/// The most cores that `auto` keeps busy while it has next to nothing to do: at ten requests per second.
const IDLE_CORES_MAX: f64 = 0.01;
const OF_IDLE: [&str; 4] = ["--rate", "10", "--runtime", "2s"];

/// What `auto` aims at besides the rate, and how well a record shows it is reached; more is better.
const OTHER_GOALS: [(&str, Figure); 2] = [
    ("auto,goal=latency", |record| Some(1.0 / record["result"]["latency_ns"]["mean"].as_f64()?)),
    ("auto,goal=efficiency", |record| {
        let seconds = |key: &str| record["result"]["cpu"][key].as_f64();
        let cpu_s = seconds("user_s")? + seconds("system_s")? + seconds("kernel_threads_s").unwrap_or(0.0);
        Some(record["result"]["ios"].as_f64()? / cpu_s)
    }),
];
type Figure = fn(&Value) -> Option<f64>;

/// The depths at which the other goals are measured; `--check` takes the first two.
const DEPTHS_OF_GOALS: [u32; 3] = [1, 16, 128];

/// One size and depth on one kernel.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    size: &'static str,
    depth: u32,
    /// The rate of `auto`, and the path that took most of its requests.
    auto: f64,
    taken: String,
    /// Each fixed path's rate.
    fixed: Vec<(&'static str, f64)>,
    /// For each of the other goals that was measured, how near `auto` comes to the best fixed path by it.
    other_goals: Vec<OfGoal>,
    /// What `iolane advise` recommends; `None` if it was not asked.
    advised: Option<Advised>,
}

/// `auto` with another goal than the rate, in one cell.
#[derive(Debug, Clone, PartialEq)]
struct OfGoal {
    /// `auto` with the goal.
    path: &'static str,
    /// By the goal's figure, what it reaches of the best fixed path.
    share: f64,
    /// The path that took most of its requests.
    taken: String,
    /// The best fixed path by the figure.
    best: &'static str,
}

/// A recommendation.
#[derive(Debug, Clone, PartialEq)]
struct Advised {
    path: String,
    /// The 95 % interval of its rate.
    low: f64,
    high: f64,
}

impl Advised {
    fn read(document: &str) -> Result<Self> {
        let document: Value = serde_json::from_str(document).context("reading the advice")?;
        let take = &document["advice"][0]["take"];
        let number = |key: &str| take["value"][key].as_f64().with_context(|| format!("the advice has no {key}"));
        let path = take["notation"].as_str().context("the advice names no path")?.to_owned();
        Ok(Self { path, low: number("low")?, high: number("high")? })
    }
}

impl Cell {
    fn best(&self) -> (&'static str, f64) {
        self.fixed.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("none", f64::NAN))
    }

    fn share(&self) -> f64 {
        self.auto / self.best().1
    }

    fn rate_of(&self, path: &str) -> f64 {
        self.fixed.iter().find(|(one, _)| *one == path).map_or(0.0, |(_, rate)| *rate)
    }

    /// The share of the path that is recommended, and how far what it does here lies outside the interval of its rate, as a share of it.
    fn advised_share(&self) -> Option<(f64, f64)> {
        let Advised { path, low, high } = self.advised.as_ref()?;
        let rate = self.rate_of(path);
        Some((rate / self.best().1, (low - rate).max(rate - high).max(0.0) / rate))
    }
}

/// The median and the worst of shares of the best.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    median: f64,
    worst: f64,
}

impl Summary {
    fn of(mut shares: Vec<f64>) -> Self {
        shares.sort_by(f64::total_cmp);
        let at = |place: usize| shares.get(place).copied().unwrap_or(f64::NAN);
        Self { median: at(shares.len() / 2), worst: at(0) }
    }

    fn is_reached(self) -> bool {
        self.median >= MEDIAN_MIN && self.worst >= WORST_MIN
    }
}

/// The cells of one kernel.
struct Grid {
    kernel: String,
    cells: Vec<Cell>,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// All, for docs/auto.md.
    Whole,
    /// What CI checks; nothing is written.
    Check,
    /// Loads that change, for docs/auto.md.
    Changes,
}

/// Measures, prints, and compares with the goals. What is not only checked is written to the page too.
pub(super) fn run(iolane: &Path, target_folder: &Path, part: Part) -> Result<bool> {
    if let [package, ..] = packages::install(&[packages::QEMU])?[..] {
        bail!("{} is missing; as root: apt-get install {}", package.program, package.name);
    }
    let cache = Cache::of_user()?;
    let whole = KERNELS.map(|kernel| (kernel, &SIZES[..]));
    let mut grids = Vec::new();
    let measured = match part {
        Part::Whole => &whole[..],
        Part::Check => &CHECKED[..],
        Part::Changes => &[],
    };
    for (kernel, sizes) in measured {
        let grid = Grid::measure(iolane, kernel, sizes, part == Part::Whole, &cache)?;
        println!("{}\n\n{}\n{}", grid.kernel, grid.table(Style::Text), grid.summary());
        grids.push(grid);
    }
    let example = changing_load::build(target_folder)?;
    let mut changes = Vec::new();
    for kernel in if part == Part::Check { &KERNELS[..1] } else { &KERNELS } {
        let followed = Followed::measure(iolane, &example, kernel, &cache)?;
        println!("{}", followed.text(Style::Text));
        changes.push(followed);
    }
    let idle_cores = idle_cores(iolane, KERNELS[0], &cache)?;
    println!("auto keeps {idle_cores:.4} cores busy at ten requests per second, this program's own work included");
    let is_reached = grids.iter().all(Grid::is_reached);
    let is_followed = changes.iter().all(Followed::is_reached);
    let is_advised_well = grids.iter().all(Grid::is_advised_well);
    if part != Part::Check {
        let page = root().join("docs/auto.md");
        let text = std::fs::read_to_string(&page).context("reading docs/auto.md")?;
        let of_grid = |grid: &Grid| format!("{}\n\n{}\n{}", grid.kernel, grid.table(Style::Markdown), grid.summary());
        let tables: Vec<String> = grids.iter().map(of_grid).collect();
        let renewed = match part {
            Part::Whole => guest::renewed(&text, "auto figures", &tables.join("\n"))?,
            _ => text,
        };
        let changes: Vec<String> = changes.iter().map(|followed| followed.text(Style::Markdown)).collect();
        let renewed = guest::renewed(&renewed, "change figures", &changes.join("\n"))?;
        std::fs::write(&page, renewed).context("writing docs/auto.md")?;
        println!("written to docs/auto.md");
    }
    println!("gate: {}", if is_reached { "auto reaches its goals" } else { "closed" });
    if !is_advised_well {
        println!("gate: closed, a path is recommended that does not reach {ADVISED_MIN} of the best");
    }
    if !is_followed {
        println!("gate: closed, half a second after a change auto is below 0.9 of the best fixed path");
    }
    let is_idle = idle_cores <= IDLE_CORES_MAX;
    if !is_idle {
        println!("gate: closed, an idle auto keeps more than {IDLE_CORES_MAX} cores busy");
    }
    Ok(is_reached && is_advised_well && is_followed && is_idle)
}

/// The cores that `auto` keeps busy with a request now and then.
fn idle_cores(iolane: &Path, version: &str, cache: &Cache) -> Result<f64> {
    let kernel = guest::kernel_of(version, cache)?;
    let lab = guest::exact_lab(iolane, &kernel, cache);
    let outputs = guest::outputs(&lab, vec![iolane_command_after("1s", DEVICE, "auto", 16, &OF_IDLE)])?;
    let record: Value = serde_json::from_str(outputs.first().map_or("", String::as_str)).context("the idle run")?;
    record["result"]["cpu"]["cores"].as_f64().context("the idle run has no figure of cores")
}

impl Grid {
    /// Asks for advice, too, if `advice` is set, which takes some minutes.
    fn measure(iolane: &Path, version: &str, sizes: &[&'static str], advice: bool, cache: &Cache) -> Result<Self> {
        let kernel = guest::kernel_of(version, cache)?;
        let lab = guest::exact_lab(iolane, &kernel, cache);
        let mut cells = Vec::new();
        for size in sizes {
            let of_depth = |depth: u32| {
                let goals = other_goals(depth, !advice).iter().map(|(path, _)| *path);
                goals.chain(paths(version, depth)).map(move |path| (path, depth)).collect::<Vec<_>>()
            };
            let arms: Vec<(&str, u32)> = DEPTHS.into_iter().flat_map(of_depth).collect();
            let outputs = guest::outputs_of_available(
                &lab,
                arms.iter().map(|(path, depth)| command(path, *depth, size)).collect(),
            )?;
            let mut rates = arms.iter().zip(outputs);
            let asked = if advice { &DEPTHS[..] } else { &[] };
            let advised = guest::outputs(&lab, asked.iter().map(|depth| ask(version, *depth, size)).collect())?;
            let mut advised = advised.iter().map(|document| Advised::read(document));
            for depth in DEPTHS {
                let cell = Cell::read(size, depth, &mut rates)?;
                cells.push(Cell { advised: advised.next().transpose()?, ..cell });
            }
        }
        Ok(Self { kernel: format!("Linux {} ({}), {DEVICE}, random reads:", kernel.release, kernel.origin), cells })
    }

    fn table(&self, style: Style) -> String {
        let headings =
            ["size", "depth", "auto", "takes", "best fixed path", "its rate", "auto / best", "advised / best"];
        let with_advice = self.cells.iter().any(|cell| cell.advised.is_some());
        let columns = if with_advice { headings.len() } else { headings.len() - 1 };
        let mut table = Table::new(&headings[..columns]);
        for cell in &self.cells {
            let (path, rate) = cell.best();
            let mut row = vec![
                cell.size.into(),
                cell.depth.to_string(),
                grouped(cell.auto),
                cell.taken.clone(),
                path.into(),
                grouped(rate),
                format!("{:.3}", cell.share()),
            ];
            row.extend(cell.advised_share().map(|(share, _)| format!("{share:.3}")));
            table.row(row);
        }
        table.render(style)
    }

    fn of_auto(&self) -> Summary {
        Summary::of(self.cells.iter().map(Cell::share).collect())
    }

    /// That of `auto` with one of the other goals, by that goal.
    fn of_goal(&self, path: &str) -> Summary {
        Summary::of(self.goal_by_cell(path).map(|(_, of_goal)| of_goal.share).collect())
    }

    fn goal_by_cell(&self, path: &str) -> impl Iterator<Item = (&Cell, &OfGoal)> {
        let of_cell = move |cell: &'_ Cell| cell.other_goals.iter().position(|one| one.path == path);
        self.cells.iter().filter_map(move |cell| Some((cell, &cell.other_goals[of_cell(cell)?])))
    }

    /// A line on `auto` with one of the other goals, if it was measured, with the cell in which it comes least near.
    fn line_of_goal(&self, path: &str) -> Option<String> {
        let (cell, worst) = self.goal_by_cell(path).min_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
        let Summary { median, worst: share } = self.of_goal(path);
        Some(format!(
            "- `{path}`, by its goal: {median:.3} of the best in the median cell, {share:.3} in the worst ({}, depth {}: \
             it takes `{}`, the best is `{}`)\n",
            cell.size, cell.depth, worst.taken, worst.best
        ))
    }

    /// Whether `auto` comes near enough to the best with every goal.
    fn is_reached(&self) -> bool {
        self.of_auto().is_reached() && OTHER_GOALS.iter().all(|(path, _)| self.of_goal(path).is_reached())
    }

    /// A fixed path's; in a cell where it is unavailable its share is 0.
    fn of_fixed(&self, path: &str) -> Summary {
        Summary::of(self.cells.iter().map(|cell| cell.rate_of(path) / cell.best().1).collect())
    }

    fn is_advised_well(&self) -> bool {
        self.cells.iter().filter_map(Cell::advised_share).all(|(share, _)| share >= ADVISED_MIN)
    }

    /// A line on what `iolane advise` recommends, if it was asked.
    fn of_advice(&self) -> String {
        let shares: Vec<(f64, f64)> = self.cells.iter().filter_map(Cell::advised_share).collect();
        if shares.is_empty() {
            return String::new();
        }
        let covered = shares.iter().filter(|(_, outside)| *outside == 0.0).count();
        let worst = shares.iter().map(|(share, _)| *share).fold(f64::INFINITY, f64::min);
        let farthest = shares.iter().map(|(_, outside)| *outside).fold(0.0, f64::max);
        let others = match farthest {
            0.0 => String::new(),
            _ => format!(", and is at most {:.2} % beside it in the others", 100.0 * farthest),
        };
        format!(
            "- what `iolane advise` recommends after {OF_ADVICE}: {worst:.3} of the best in the worst cell; its interval \
             covers the rate in {covered} of {} cells{others}\n",
            shares.len()
        )
    }

    /// Lines on `auto`, and on the fixed path that comes closest.
    fn summary(&self) -> String {
        let closest = PATHS.into_iter().max_by(|a, b| {
            let (a, b) = (self.of_fixed(a), self.of_fixed(b));
            (a.worst, a.median).partial_cmp(&(b.worst, b.median)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let line = |name: &str, summary: Summary| {
            format!(
                "- {name}: {:.3} of the best in the median cell, {:.3} in the worst\n",
                summary.median, summary.worst
            )
        };
        let closest = closest
            .map_or_else(String::new, |path| line(&format!("`{path}`, the closest fixed path"), self.of_fixed(path)));
        let of_goals = OTHER_GOALS.iter().filter_map(|(path, _)| self.line_of_goal(path));
        line("`auto`", self.of_auto()) + &closest + &of_goals.collect::<String>() + &self.of_advice()
    }
}

impl Cell {
    fn read<'a>(
        size: &'static str,
        depth: u32,
        rates: &mut impl Iterator<Item = (&'a (&'static str, u32), String)>,
    ) -> Result<Self> {
        let mut cell = Self {
            size,
            depth,
            auto: 0.0,
            taken: String::new(),
            fixed: Vec::new(),
            other_goals: Vec::new(),
            advised: None,
        };
        let (mut with_goals, mut fixed) = (Vec::new(), Vec::new());
        loop {
            let ((path, of), output) = rates.next().context("a run printed nothing")?;
            // An unavailable path printed nothing.
            if output.is_empty() {
                continue;
            }
            let what = || format!("{path} at {size}, depth {of}");
            let iops = iolane_iops(&output).with_context(what)?;
            let record: Value = serde_json::from_str(&output).context("reading iolane's record")?;
            let taken = || record["paths_taken"][0]["path"].as_str().map(str::to_owned).context("auto names no path");
            if let Some((_, figure)) = OTHER_GOALS.iter().find(|(one, _)| one == path) {
                with_goals.push((*path, *figure, figure(&record).with_context(what)?, taken().with_context(what)?));
            } else if *path != "auto" {
                cell.fixed.push((path, iops));
                fixed.push((*path, record));
            } else {
                cell.auto = iops;
                cell.taken = taken()?;
                for (path, figure, of_auto, taken) in with_goals {
                    let figures = fixed.iter().filter_map(|(path, record)| Some((*path, figure(record)?)));
                    let best = figures.max_by(|a, b| a.1.total_cmp(&b.1));
                    let (best, of_best) = best.context("no fixed path has the goal's figure")?;
                    cell.other_goals.push(OfGoal { path, share: of_auto / of_best, taken, best });
                }
                return Ok(cell);
            }
        }
    }
}

/// The other goals that are measured at a depth.
fn other_goals(depth: u32, check: bool) -> &'static [(&'static str, Figure)] {
    let depths = if check { &DEPTHS_OF_GOALS[..2] } else { &DEPTHS_OF_GOALS[..] };
    if depths.contains(&depth) { &OTHER_GOALS } else { &[] }
}

/// The paths of a kernel at a depth; `auto` is the last.
fn paths(version: &str, depth: u32) -> Vec<&'static str> {
    let has = |path: &&str| ONLY_FROM.iter().all(|(one, from)| one != path || *from == version);
    let of_depth = if depth == 1 { &PATHS[..] } else { &PATHS[..PATHS.len() - 1] };
    of_depth.iter().copied().filter(has).chain(["auto"]).collect()
}

fn command(path: &str, depth: u32, size: &str) -> GuestCommand {
    let (warmup, runtime) = if path.starts_with("auto") { OF_AUTO } else { OF_FIXED };
    iolane_command_after(warmup, DEVICE, path, depth, &["--bs", size, "--runtime", runtime])
}

/// Asks `iolane advise` for the path with the most IOPS, by a measurement of its own.
fn ask(version: &str, depth: u32, size: &str) -> GuestCommand {
    let paths = paths(version, depth);
    let paths = paths[..paths.len() - 1].join(",");
    let depth = depth.to_string();
    let words = ["advise", "--target", DEVICE, "--path", &paths, "--bs", size, "--depth", &depth];
    let more = ["--goal", "throughput", "--time", OF_ADVICE, "--json", "-"];
    GuestCommand::new([PROGRAM].iter().chain(&words).chain(&more).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(auto: f64, fixed: &[(&'static str, f64)]) -> Cell {
        Cell {
            size: "4k",
            depth: 1,
            auto,
            taken: "psync".into(),
            fixed: fixed.to_vec(),
            other_goals: Vec::new(),
            advised: None,
        }
    }

    #[test]
    fn goals_are_of_the_median_cell_and_of_the_worst() {
        assert!(Summary::of(vec![0.99, 0.95, 0.86]).is_reached());
        assert!(!Summary::of(vec![0.99, 0.94, 0.90]).is_reached());
        assert!(!Summary::of(vec![0.99, 0.99, 0.84]).is_reached());
        assert!(!Summary::of(Vec::new()).is_reached());
    }

    #[test]
    fn the_closest_fixed_path_is_the_one_that_falls_back_least() {
        let of_one = cell(99.0, &[("libaio", 100.0), ("io_uring", 90.0)]);
        let of_other = cell(99.0, &[("libaio", 80.0), ("io_uring", 100.0), ("psync", 60.0)]);
        let grid = Grid { kernel: String::new(), cells: vec![of_one, of_other] };
        assert_eq!(grid.of_fixed("psync").worst, 0.0);
        assert_eq!(grid.of_fixed("libaio"), Summary { median: 1.0, worst: 0.8 });
        assert!(grid.summary().contains("`io_uring`, the closest fixed path: 1.000"), "{}", grid.summary());
    }

    #[test]
    fn advice_is_good_if_its_path_is_nearly_the_best_in_every_cell() {
        let document = r#"{"advice":[{"take":{"notation":"libaio","value":{"value":95.0,"low":94.0,"high":96.0}}}]}"#;
        let advised = Advised::read(document).unwrap();
        let with = |libaio: f64| Cell {
            advised: Some(advised.clone()),
            ..cell(99.0, &[("libaio", libaio), ("psync", 100.0)])
        };
        let grid = |cells: Vec<Cell>| Grid { kernel: String::new(), cells };
        assert_eq!(with(95.0).advised_share(), Some((0.95, 0.0)));
        assert_eq!(with(100.0).advised_share(), Some((1.0, 0.04)));
        assert!(
            grid(vec![with(95.0), with(91.0)]).is_advised_well()
                && !grid(vec![with(95.0), with(89.0)]).is_advised_well()
        );
        let line = grid(vec![with(95.0), with(91.0)]).of_advice();
        assert!(line.contains("0.910 of the best in the worst cell; its interval covers the rate in 1 of 2 cells, and is at most 3.30 % beside it in the others"), "{line}");
        assert!(Advised::read(r#"{"advice":[]}"#).is_err());
    }

    #[test]
    fn a_cell_is_read_up_to_auto_which_is_the_last_of_its_paths() {
        let at_1 = paths("6.1", 1);
        assert!(
            at_1.contains(&"psync") && !at_1.iter().any(|path| path.contains("hybrid")) && at_1.ends_with(&["auto"])
        );
        assert!(paths("7.2", 4).iter().any(|path| path.contains("hybrid")) && !paths("7.2", 4).contains(&"psync"));
        let (fixed, unavailable) = (r#"{"result":{"iops":100.0}}"#.to_owned(), String::new());
        let auto = r#"{"paths_taken":[{"path":"psync","ios":9}],"result":{"iops":99.0}}"#.to_owned();
        let arms = [("psync", 1), ("io_uring+iopoll", 1), ("auto", 1)];
        let read = Cell::read("4k", 1, &mut arms.iter().zip([fixed, unavailable, auto])).unwrap();
        assert_eq!(read, cell(99.0, &[("psync", 100.0)]));
    }

    #[test]
    fn each_goal_is_compared_with_the_fixed_path_that_is_the_best_by_it() {
        let record = |iops: f64, mean_ns: f64, user_s: f64| {
            let cpu = format!(r#""cpu":{{"user_s":{user_s},"system_s":0.0,"kernel_threads_s":0.0}}"#);
            format!(
                r#"{{"paths_taken":[{{"path":"psync"}}],"result":{{"iops":{iops},"ios":1000,"latency_ns":{{"mean":{mean_ns}}},{cpu}}}}}"#
            )
        };
        let arms = [("auto,goal=latency", 1), ("auto,goal=efficiency", 1), ("psync", 1), ("libaio", 1), ("auto", 1)];
        let records = [
            record(1.0, 10_000.0, 9.0),
            record(1.0, 90_000.0, 0.5),
            record(100.0, 8_000.0, 2.0),
            record(120.0, 20_000.0, 0.4),
            record(119.0, 20_000.0, 0.4),
        ];
        let read = Cell::read("4k", 1, &mut arms.iter().zip(records)).unwrap();
        assert_eq!(read.best(), ("libaio", 120.0));
        let [latency, efficiency] = &read.other_goals[..] else { panic!("{read:?}") };
        assert!((latency.share - 0.8).abs() < 1e-9 && latency.best == "psync", "{read:?}");
        assert!((efficiency.share - 0.8).abs() < 1e-9 && efficiency.best == "libaio", "{read:?}");
        let grid = Grid { kernel: String::new(), cells: vec![Cell { auto: 120.0, ..read }] };
        assert!(grid.of_auto().is_reached() && !grid.is_reached());
        let line = "`auto,goal=latency`, by its goal: 0.800 of the best in the median cell, 0.800 in the worst (4k, depth 1: \
                    it takes `psync`, the best is `psync`)";
        assert!(grid.summary().contains(line), "{}", grid.summary());
    }
}
