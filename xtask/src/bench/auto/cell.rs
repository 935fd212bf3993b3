//! One size and depth of a grid: what `auto` and each fixed path reach there, and what `iolane advise` recommends.

use anyhow::{Context, Result};
use iolane_lab::GuestCommand;
use iolane_lab::session::PROGRAM;
use serde_json::Value;

use crate::bench::guest::{iolane_command_after, iolane_iops};
use crate::bench::statistics::median;

/// The fixed paths; the last has no queue of its own.
pub(super) const PATHS: [&str; 9] = [
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

/// The time in which `advise` measures a cell: three repeats of each path.
pub(super) const OF_ADVICE: &str = "15s";

/// A warm-up, and how long is measured after it: of a fixed path in exact mode, where nothing varies, and in real time; and of `auto`, which
/// has to have chosen by the end of the warm-up.
pub(super) const OF_FIXED: (&str, &str) = ("50ms", "200ms");
pub(super) const OF_FIXED_TIMED: (&str, &str) = ("300ms", "700ms");
const OF_AUTO: (&str, &str) = ("1s", "1s");

/// What `auto` aims at, and how well a record shows it is reached; more is better.
pub(super) struct Aim {
    /// `auto` with this goal.
    pub(super) path: &'static str,
    figure: fn(&Value) -> Option<f64>,
}

/// The rate is the first.
pub(super) const AIMS: [Aim; 3] = [
    Aim { path: "auto", figure: |record| record["result"]["iops"].as_f64() },
    Aim { path: "auto,goal=latency", figure: |record| Some(1.0 / record["result"]["latency_ns"]["mean"].as_f64()?) },
    Aim {
        path: "auto,goal=efficiency",
        figure: |record| {
            let seconds = |key: &str| record["result"]["cpu"][key].as_f64();
            let cpu_s = seconds("user_s")? + seconds("system_s")? + seconds("kernel_threads_s").unwrap_or(0.0);
            Some(record["result"]["ios"].as_f64()? / cpu_s)
        },
    },
];

/// What one path reached: by each aim, NaN where the record does not show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reached {
    path: &'static str,
    figures: [f64; AIMS.len()],
    /// Of `auto`, the path that took most of its requests.
    taken: String,
}

impl Reached {
    fn read(path: &'static str, output: &str) -> Result<Self> {
        iolane_iops(output)?;
        let record: Value = serde_json::from_str(output).context("reading iolane's record")?;
        let figures = AIMS.each_ref().map(|aim| (aim.figure)(&record).unwrap_or(f64::NAN));
        let taken = record["paths_taken"][0]["path"].as_str().unwrap_or(path).to_owned();
        Ok(Self { path, figures, taken })
    }

    /// The medians of what it reached in several rounds, and the path that was taken in most.
    fn of_rounds(rounds: &[&Self]) -> Option<Self> {
        let figures = std::array::from_fn(|aim| median(&rounds.iter().map(|one| one.figures[aim]).collect::<Vec<_>>()));
        let times = |taken: &str| rounds.iter().filter(|one| one.taken == taken).count();
        let first = rounds.iter().max_by_key(|one| times(&one.taken))?;
        Some(Self { figures, path: first.path, taken: first.taken.clone() })
    }
}

/// One size and depth on one kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub(super) size: &'static str,
    pub(super) depth: u32,
    /// `auto` with each goal that was measured, the rate being the first.
    auto: Vec<Reached>,
    fixed: Vec<Reached>,
    /// The same in each round, if there was more than one; the figures above are the medians then.
    rounds: Vec<Self>,
    /// What `iolane advise` recommends; `None` if it was not asked.
    pub(super) advised: Option<Advised>,
}

/// How near `auto` comes to the best fixed path.
pub(super) struct Share<'a> {
    pub(super) share: f64,
    /// The figure of `auto`, the path that took most of its requests, and the same of the best fixed path.
    pub(super) auto: f64,
    pub(super) taken: &'a str,
    pub(super) best: f64,
    pub(super) best_path: &'static str,
}

impl Cell {
    /// The arms whose outputs a cell is read from.
    pub(super) fn arms(version: &str, depth: u32, aims: &'static [Aim]) -> impl Iterator<Item = &'static str> {
        aims.iter().map(|aim| aim.path).chain(paths(version, depth))
    }

    /// Of the outputs of these arms; an unavailable path printed nothing.
    pub(super) fn read<'a>(
        size: &'static str,
        depth: u32,
        outputs: impl Iterator<Item = (&'static str, &'a str)>,
    ) -> Result<Self> {
        let mut cell = Self { size, depth, auto: Vec::new(), fixed: Vec::new(), rounds: Vec::new(), advised: None };
        for (path, output) in outputs.filter(|(_, output)| !output.is_empty()) {
            let reached =
                Reached::read(path, output).with_context(|| format!("{path} with {size} at depth {depth}"))?;
            let place = if path.starts_with("auto") { &mut cell.auto } else { &mut cell.fixed };
            place.push(reached);
        }
        Ok(cell)
    }

    /// The medians of the same cell in several rounds.
    pub(super) fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let first = rounds.first()?;
        let medians = |of: fn(&Self) -> &Vec<Reached>| -> Vec<Reached> {
            let of_path = |path| rounds.iter().flat_map(of).filter(|one| one.path == path).collect::<Vec<_>>();
            of(first).iter().filter_map(|one| Reached::of_rounds(&of_path(one.path))).collect()
        };
        let (auto, fixed) = (medians(|cell| &cell.auto), medians(|cell| &cell.fixed));
        let rounds = if rounds.len() > 1 { rounds.to_vec() } else { Vec::new() };
        Some(Self { auto, fixed, rounds, ..first.clone() })
    }

    /// How near `auto` comes to the best fixed path by this aim, if it was measured.
    pub(super) fn share(&self, aim: usize) -> Option<Share<'_>> {
        let auto = self.auto.iter().find(|one| one.path == AIMS[aim].path)?;
        let best = self.best(aim)?;
        let share = self.share_of_best(aim, |cell| cell.figure(auto.path, aim));
        Some(Share {
            share,
            auto: auto.figures[aim],
            taken: &auto.taken,
            best: best.figures[aim],
            best_path: best.path,
        })
    }

    /// The fixed path that reaches the most by an aim.
    fn best(&self, aim: usize) -> Option<&Reached> {
        let known = self.fixed.iter().filter(|one| !one.figures[aim].is_nan());
        known.max_by(|a, b| a.figures[aim].total_cmp(&b.figures[aim]))
    }

    /// What a path reaches, 0 where it is unavailable.
    fn figure(&self, path: &str, aim: usize) -> f64 {
        self.auto.iter().chain(&self.fixed).find(|one| one.path == path).map_or(0.0, |one| one.figures[aim])
    }

    /// A figure as a share of the best fixed path's. Of several rounds it is the median of what it is in each, beside the path that was the
    /// best in the others: the highest of many figures that vary is the one that luck favoured, and in another round luck has no favourite.
    fn share_of_best(&self, aim: usize, figure: impl Fn(&Self) -> f64) -> f64 {
        if self.rounds.is_empty() {
            return figure(self) / self.best(aim).map_or(f64::NAN, |best| best.figures[aim]);
        }
        let of_round = |round: usize| {
            let others: Vec<Self> =
                self.rounds.iter().enumerate().filter(|(one, _)| *one != round).map(|(_, cell)| cell.clone()).collect();
            let best = Self::of_rounds(&others).and_then(|others| Some(others.best(aim)?.path));
            best.map_or(f64::NAN, |best| figure(&self.rounds[round]) / self.rounds[round].figure(best, aim))
        };
        median(&(0..self.rounds.len()).map(of_round).collect::<Vec<_>>())
    }

    /// The rate of a fixed path as a share of the best one's.
    pub(super) fn share_of_fixed(&self, path: &str) -> f64 {
        self.share_of_best(0, |cell| cell.figure(path, 0))
    }

    /// The share of the path that is recommended, and how far what it does then lies outside the interval of its rate, as a share of it.
    pub(super) fn advised_share(&self) -> Option<(f64, f64)> {
        let Advised { path, low, high, rate } = self.advised.as_ref()?;
        Some((self.share_of_fixed(path), (low - rate).max(rate - high).max(0.0) / rate))
    }
}

/// A recommendation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Advised {
    pub(super) path: String,
    /// The 95 % interval of its rate.
    low: f64,
    high: f64,
    /// The median rate of runs after the advice; NaN before them.
    rate: f64,
}

impl Advised {
    pub(super) fn read(document: &str) -> Result<Self> {
        let document: Value = serde_json::from_str(document).context("reading the advice")?;
        let take = &document["advice"][0]["take"];
        let number = |key: &str| take["value"][key].as_f64().with_context(|| format!("the advice has no {key}"));
        let path = take["notation"].as_str().context("the advice names no path")?.to_owned();
        Ok(Self { path, low: number("low")?, high: number("high")?, rate: f64::NAN })
    }

    /// Its path ran after the advice, and printed this.
    pub(super) fn sees(&mut self, outputs: &[String]) -> Result<()> {
        let rates = outputs.iter().map(|output| iolane_iops(output)).collect::<Result<Vec<f64>>>()?;
        self.rate = median(&rates);
        Ok(())
    }
}

/// The fixed paths of a kernel at a depth.
fn paths(version: &str, depth: u32) -> impl Iterator<Item = &'static str> {
    let of_depth = if depth == 1 { &PATHS[..] } else { &PATHS[..PATHS.len() - 1] };
    let has = move |path: &&str| ONLY_FROM.iter().all(|(one, from)| one != path || *from == version);
    let of_version: Vec<_> = of_depth.iter().copied().filter(has).collect();
    of_version.into_iter()
}

/// A run of a path; a fixed one takes these times.
pub(super) fn command(
    target: &str,
    path: &str,
    depth: u32,
    size: &str,
    of_fixed: (&'static str, &'static str),
) -> GuestCommand {
    let (warmup, runtime) = if path.starts_with("auto") { OF_AUTO } else { of_fixed };
    iolane_command_after(warmup, target, path, depth, &["--bs", size, "--runtime", runtime])
}

/// Asks `iolane advise` for the path with the most IOPS, by a measurement of its own.
pub(super) fn ask(target: &str, version: &str, depth: u32, size: &str) -> GuestCommand {
    let paths = paths(version, depth).collect::<Vec<_>>().join(",");
    let depth = depth.to_string();
    let words = ["advise", "--target", target, "--path", &paths, "--bs", size, "--depth", &depth];
    let more = ["--goal", "throughput", "--time", OF_ADVICE, "--json", "-"];
    GuestCommand::new([PROGRAM].iter().chain(&words).chain(&more).copied())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A cell in which paths have these rates.
    pub(in crate::bench::auto) fn cell(auto: f64, fixed: &[(&'static str, f64)]) -> Cell {
        let record = |rate: f64| format!(r#"{{"result":{{"iops":{rate:?}}}}}"#);
        let outputs = std::iter::once((AIMS[0].path, record(auto)));
        let outputs: Vec<_> = outputs.chain(fixed.iter().map(|(path, rate)| (*path, record(*rate)))).collect();
        Cell::read("4k", 1, outputs.iter().map(|(path, output)| (*path, output.as_str()))).unwrap()
    }

    #[test]
    fn a_kernel_has_its_paths_and_depth_1_those_without_a_queue() {
        let at_1: Vec<_> = Cell::arms("6.1", 1, &AIMS[..1]).collect();
        assert!(at_1.starts_with(&["auto"]) && at_1.contains(&"psync"), "{at_1:?}");
        assert!(!at_1.iter().any(|path| path.contains("hybrid")), "{at_1:?}");
        let at_4: Vec<_> = Cell::arms("7.2", 4, &AIMS).collect();
        assert!(at_4.iter().any(|path| path.contains("hybrid")) && !at_4.contains(&"psync"), "{at_4:?}");
        assert!(at_4.contains(&"auto,goal=latency"), "{at_4:?}");
    }

    #[test]
    fn an_unavailable_path_is_left_out_and_a_run_without_a_rate_refused() {
        let outputs = [("auto", r#"{"paths_taken":[{"path":"psync"}],"result":{"iops":99.0}}"#), ("libaio", "")];
        let with = |more| Cell::read("4k", 1, outputs.into_iter().chain([("psync", more)]));
        let share = with(r#"{"result":{"iops":100.0}}"#).unwrap();
        let share = share.share(0).unwrap();
        assert_eq!((share.share, share.taken, share.best_path), (0.99, "psync", "psync"));
        assert!(with("{}").unwrap_err().to_string().contains("psync with 4k at depth 1"));
    }

    #[test]
    fn each_goal_is_compared_with_the_fixed_path_that_is_the_best_by_it() {
        let record = |iops: f64, mean_ns: f64, user_s: f64| {
            let cpu = format!(r#""cpu":{{"user_s":{user_s},"system_s":0.0,"kernel_threads_s":0.0}}"#);
            format!(
                r#"{{"paths_taken":[{{"path":"psync"}}],"result":{{"iops":{iops},"ios":1000,"latency_ns":{{"mean":{mean_ns}}},{cpu}}}}}"#
            )
        };
        let outputs = [
            ("auto", record(119.0, 20_000.0, 0.4)),
            ("auto,goal=latency", record(1.0, 10_000.0, 9.0)),
            ("auto,goal=efficiency", record(1.0, 90_000.0, 0.5)),
            ("psync", record(100.0, 8_000.0, 2.0)),
            ("libaio", record(120.0, 20_000.0, 0.4)),
        ];
        let cell = Cell::read("4k", 1, outputs.iter().map(|(path, output)| (*path, output.as_str()))).unwrap();
        let found = [0, 1, 2].map(|aim| cell.share(aim).map(|share| (share.share, share.best_path)).unwrap());
        for ((share, path), (share_there, path_there)) in
            found.into_iter().zip([(119.0 / 120.0, "libaio"), (0.8, "psync"), (0.8, "libaio")])
        {
            assert!((share - share_there).abs() < 1e-9 && path == path_there, "{share} of {path}");
        }
    }

    #[test]
    fn several_rounds_are_their_medians() {
        let rounds = [
            cell(90.0, &[("psync", 100.0), ("libaio", 120.0)]),
            cell(99.0, &[("psync", 110.0), ("libaio", 100.0)]),
            cell(98.0, &[("psync", 105.0), ("libaio", 104.0)]),
        ];
        let of_all = Cell::of_rounds(&rounds).unwrap();
        let share = of_all.share(0).unwrap();
        assert_eq!((share.auto, share.best, share.best_path), (98.0, 105.0, "psync"));
        // Without the first round psync is the best, and without either of the others libaio is.
        assert_eq!(share.share, median(&[90.0 / 100.0, 99.0 / 100.0, 98.0 / 104.0]));
        assert_eq!(of_all.share_of_fixed("psync"), median(&[1.0, 110.0 / 100.0, 105.0 / 104.0]));
        assert!(Cell::of_rounds(&[]).is_none());
    }

    #[test]
    fn advice_is_read_and_compared_with_what_its_path_does() {
        let document = r#"{"advice":[{"take":{"notation":"libaio","value":{"value":95.0,"low":94.0,"high":96.0}}}]}"#;
        let mut advised = Advised::read(document).unwrap();
        let mut share_if_it_then_reaches = |rates: [f64; 3]| {
            advised.sees(&rates.map(|rate| format!(r#"{{"result":{{"iops":{rate:?}}}}}"#))).unwrap();
            let of_others = cell(99.0, &[("libaio", 95.0), ("psync", 100.0)]);
            Cell { advised: Some(advised.clone()), ..of_others }.advised_share()
        };
        assert_eq!(share_if_it_then_reaches([94.5, 95.5, 2.0]), Some((0.95, 0.0)));
        assert_eq!(share_if_it_then_reaches([100.0, 100.0, 95.0]), Some((0.95, 0.04)));
        assert!(Advised::read(r#"{"advice":[]}"#).is_err());
    }
}
