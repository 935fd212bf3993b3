//! Whether results show a path that is better than one in use. It fails a build only if chance is excluded: each arm of another path is
//! compared with the path in use, and all comparisons of a load share a probability of error of 5 %.

use iolane::IoPath;
use iolane::error::{Error, Result};
use serde::Serialize;

use crate::format::number;
use crate::results::{Goal, Loaded, best_of_each_path, candidates, loads};
use crate::rows::ArmResults;
use crate::stats::Estimate;

/// The probability that a better path is shown for a load although none is better.
const ERROR: f64 = 0.05;

/// The check of a path in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The path in use.
    pub path: String,
    pub goal: Goal,
    /// How many times better a path has to be shown to be.
    pub least_gain: f64,
    pub loads: Vec<CheckedLoad>,
    /// Whether no better path is shown for any load.
    pub passed: bool,
}

/// The check on one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedLoad {
    /// The load in words.
    pub load: String,
    /// The depth at which the path in use is best.
    pub depth: u32,
    /// The path that is shown to be better by the most; `None` if none is.
    pub better: Option<Beside>,
}

/// Another path beside the one in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    pub path: String,
    pub notation: String,
    pub depth: u32,
    /// How many times better it is, paired by repeat. The interval is wider than 95 % if several arms were compared.
    pub gain: Estimate,
}

impl Check {
    /// Compares all measured paths with one in use, for a goal.
    ///
    /// # Errors
    /// A usage error if the path was not measured with enough repeats, or not for this goal.
    pub fn new(loaded: &Loaded, path: &IoPath, goal: Goal, least_gain: f64) -> Result<Self> {
        let results = loaded.results();
        let loads: Vec<CheckedLoad> =
            loads(&results).iter().filter_map(|arms| check_load(arms, path, goal, least_gain)).collect();
        if loads.is_empty() {
            let folder = loaded.folder.display();
            let cause = format!("{folder} has no 3 repeats of this path that decide {}", goal.words());
            return Err(Error::usage(format!("--check {path}"), cause)
                .remedy("name a path of these results, or measure it: iolane study --path LIST --repeat 5"));
        }
        let passed = loads.iter().all(|load| load.better.is_none());
        Ok(Self { path: path.to_string(), goal, least_gain, loads, passed })
    }

    /// The verdict in one sentence.
    pub fn in_words(&self) -> String {
        let Self { path, goal, loads, .. } = self;
        let better = loads.iter().filter(|load| load.better.is_some()).count();
        let of = format!("Check of {path} {}", goal.words());
        match better {
            0 => format!("{of}: no better path is shown on {} loads.", loads.len()),
            some => format!("{of}: a better path is shown on {some} of {} loads.", loads.len()),
        }
    }
}

impl CheckedLoad {
    /// What is better than the path in use, if anything is.
    pub fn in_words(&self, check: &Check) -> Option<String> {
        let Beside { path, depth, gain, .. } = self.better.as_ref()?;
        let [value, low, high] = [gain.value, gain.low, gain.high].map(number);
        let in_use = format!("{} at depth {}", check.path, self.depth);
        Some(format!("{}: {path} at depth {depth} is {value}x better than {in_use} ({low}x to {high}x)", self.load))
    }
}

fn check_load(arms: &[&ArmResults], path: &IoPath, goal: Goal, least_gain: f64) -> Option<CheckedLoad> {
    let (own, others): (Vec<_>, Vec<_>) =
        candidates(goal, arms).into_iter().partition(|(arm, _)| arm.arm.path == *path);
    let (arm, values) = best_of_each_path(goal, own).into_iter().next()?;
    let tail = ERROR / others.len().max(1) as f64;
    let beside = |(other, others): &(&ArmResults, Vec<f64>)| Beside {
        path: other.arm.name.clone(),
        notation: other.arm.path.to_string(),
        depth: other.arm.workload.depth,
        gain: goal.gain_at(others, &values, tail),
    };
    let better = others.iter().map(beside).filter(|beside| beside.gain.low > least_gain);
    let better = better.max_by(|a, b| a.gain.low.total_cmp(&b.gain.low));
    Some(CheckedLoad { load: arm.arm.load_in_words(), depth: arm.arm.workload.depth, better })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Arm;
    use crate::results::fixtures::of_json;
    use crate::results::{RECORDS_FILE, SCHEMA};
    use crate::rows::Row;

    /// Results of paths with these rates in I/Os per second.
    fn results(paths: &[(&str, &[f64])]) -> Loaded {
        let rows = paths.iter().flat_map(|(path, rates)| {
            let arm = Arm { path: path.parse().unwrap(), ..Arm::of_null(path) };
            rates.iter().enumerate().map(move |(repeat, rate)| Row {
                ios: *rate as u64,
                elapsed_s: 1.0,
                ..Row::new(arm.clone(), repeat as u32)
            })
        });
        let rows: Vec<Row> = rows.collect();
        let document = json!({
            "schema": SCHEMA, "name": "survey", "complete": true, "repeats": 5, "runtime_s": 1.0,
            "records": {"file": RECORDS_FILE, "rows": rows.len(), "crc32": 0},
        });
        of_json(document, &rows)
    }

    fn check(paths: &[(&str, &[f64])], least_gain: f64) -> Check {
        Check::new(&results(paths), &IoPath::new("psync"), Goal::Throughput, least_gain).unwrap()
    }

    const OWN: (&str, &[f64]) = ("psync", &[100.0, 101.0, 99.0, 100.0, 102.0]);

    #[test]
    fn a_path_that_is_better_by_more_than_chance_fails_the_check() {
        let found = check(&[OWN, ("libaio", &[150.0, 151.0, 149.0, 152.0, 150.0])], 1.0);
        let better = found.loads[0].better.as_ref().unwrap();
        assert!(!found.passed && better.notation == "libaio" && better.gain.low > 1.4, "{found:?}");
        let words = found.loads[0].in_words(&found).unwrap();
        assert!(words.contains(": libaio at depth 1 is 1.5x better than psync at depth 1 (1.4"), "{words}");
        assert!(found.in_words().ends_with("a better path is shown on 1 of 1 loads."), "{}", found.in_words());
    }

    #[test]
    fn noise_and_a_gain_below_the_least_pass_it() {
        let noisy = check(&[OWN, ("libaio", &[90.0, 150.0, 80.0, 140.0, 120.0])], 1.0);
        assert!(noisy.passed && noisy.loads[0].better.is_none(), "{noisy:?}");
        let small: &[f64] = &[103.0, 104.0, 102.0, 103.0, 105.0];
        assert!(!check(&[OWN, ("libaio", small)], 1.0).passed);
        assert!(check(&[OWN, ("libaio", small)], 1.05).passed);
        assert!(check(&[OWN], 1.0).passed, "nothing else was measured");
    }

    #[test]
    fn of_many_equal_paths_none_is_called_better_in_more_than_a_twentieth_of_cases() {
        // Noise of 3 % from a generator of random numbers (xorshift64).
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            1000.0 * (1.0 + 0.1 * ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5))
        };
        let names = ["psync", "libaio", "posix_aio", "io_uring", "io_uring+sqpoll", "io_uring,fixedbufs"];
        let mut failed = 0;
        for _ in 0..300 {
            let rates: Vec<(&str, Vec<f64>)> =
                names.iter().map(|name| (*name, (0..5).map(|_| noise()).collect())).collect();
            let rates: Vec<(&str, &[f64])> = rates.iter().map(|(name, rates)| (*name, &rates[..])).collect();
            failed += usize::from(!check(&rates, 1.0).passed);
        }
        assert!(failed <= 15, "{failed} of 300");
    }

    #[test]
    fn a_path_that_was_not_measured_is_refused() {
        let error = Check::new(&results(&[OWN]), &IoPath::new("libaio"), Goal::Throughput, 1.0).unwrap_err();
        assert!(error.to_string().contains("--check libaio"), "{error}");
    }
}
