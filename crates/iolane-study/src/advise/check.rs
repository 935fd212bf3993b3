//! Whether results show a path that is better than one in use. It fails a build only if chance is excluded: each arm of another path is
//! compared with the path in use, and all comparisons share a probability of error of 5 %.

use iolane::IoPath;
use iolane::error::{Error, Result};
use serde::Serialize;

use crate::format::number;
use crate::plan::Arm;
use crate::results::{Goal, Loaded, best_of_each_path, by_rate, candidates, goals_of, loads};
use crate::rows::{ArmResults, Results};
use crate::stats::Estimate;

/// The probability that a better path is shown although none is better.
const ERROR: f64 = 0.05;

/// The check of a path in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The path in use, in iolane's notation.
    pub path: String,
    pub goal: Goal,
    /// How many times better a path has to be shown to be.
    pub least_gain: f64,
    /// Every load with enough repeats.
    pub loads: Vec<CheckedLoad>,
    /// Whether no load has a path that is shown to be better, or a rate that only other paths reach.
    pub passed: bool,
}

/// The check on one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedLoad {
    /// The load in words.
    pub load: String,
    /// The depth at which the path in use is best; `None` if it could not be checked.
    pub depth: Option<u32>,
    /// Why it could not be checked; empty if it was.
    pub why_not: String,
    /// The paths that reach the rate of the load, if the one in use does not; else none.
    pub others_reach_rate: Vec<String>,
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
    /// Compares all measured paths with one in use, for a goal. `path` is a name in the study or iolane's notation.
    ///
    /// # Errors
    /// A usage error if the path is not in the results, or nothing is comparable with it for this goal.
    pub fn new(loaded: &Loaded, path: &str, goal: Goal, least_gain: f64) -> Result<Self> {
        let results = loaded.results();
        let path = path_in(&results, path, loaded)?;
        let on_loads: Vec<OnLoad<'_>> = loads(&results).iter().map(|arms| OnLoad::new(arms, &path, goal)).collect();
        let comparisons: usize = on_loads.iter().map(|load| load.others.len()).sum();
        if comparisons == 0 && on_loads.iter().all(|load| load.reach_rate.is_empty()) {
            let mut reasons: Vec<&str> = on_loads.iter().map(|load| load.why_not).collect();
            reasons.dedup();
            let none = format!("no arm of {} has 3 repeats", loaded.folder.display());
            let cause = if reasons.is_empty() { none } else { reasons.join("; ") };
            return Err(Error::usage(format!("--check {path} --goal {}", goal.name()), cause).remedy(
                "measure it beside other paths, with 3 repeats or more, and name a goal that `iolane advise` answers",
            ));
        }
        let tail = ERROR / comparisons.max(1) as f64;
        let loads: Vec<CheckedLoad> = on_loads.iter().map(|load| load.check(goal, tail, least_gain)).collect();
        let passed = loads.iter().all(|load| load.better.is_none() && load.others_reach_rate.is_empty());
        Ok(Self { path: path.to_string(), goal, least_gain, loads, passed })
    }

    /// The verdict in one sentence.
    pub fn in_words(&self) -> String {
        let Self { path, goal, loads, least_gain, .. } = self;
        let checked = loads.iter().filter(|load| load.depth.is_some()).count();
        let better = loads.iter().filter(|load| load.better.is_some()).count();
        let by = match least_gain - 1.0 {
            least if least > 0.0 => format!(" by more than {} %", number(100.0 * least)),
            _ => String::new(),
        };
        let of = if checked == 1 { "1 load".to_owned() } else { format!("{checked} loads") };
        let missed = loads.iter().filter(|load| !load.others_reach_rate.is_empty()).count();
        let missed = match missed {
            0 => String::new(),
            1 => "; it does not reach the rate of 1 load, which others reach".to_owned(),
            some => format!("; it does not reach the rate of {some} loads, which others reach"),
        };
        let shown = match better {
            _ if checked == 0 => "no load on which the path could be compared".to_owned(),
            0 => format!("no path is shown to be better{by} on {of}"),
            some if some == checked => format!("a path is shown to be better{by} on {of}"),
            some => format!("a path is shown to be better{by} on {some} of {of}"),
        };
        format!("Check of {path} {}: {shown}{missed}.", goal.words())
    }
}

impl CheckedLoad {
    /// What is better than the path in use, or why it was not checked; `None` if nothing is better.
    pub fn in_words(&self, check: &Check) -> Option<String> {
        if !self.others_reach_rate.is_empty() {
            let others = self.others_reach_rate.join(", ");
            return Some(format!("{}: {} does not reach the rate; {others} reach it", self.load, check.path));
        }
        if !self.why_not.is_empty() {
            return Some(format!("{}: not checked: {}", self.load, self.why_not));
        }
        let Beside { path, depth, gain, .. } = self.better.as_ref()?;
        let [value, low, high] = [gain.value, gain.low, gain.high].map(number);
        let in_use = format!("{} at depth {}", check.path, self.depth.unwrap_or_default());
        Some(format!("{}: {path} at depth {depth} is {value}x better than {in_use} ({low}x to {high}x)", self.load))
    }
}

/// The path of the results that a name or a notation means.
fn path_in(results: &Results, text: &str, loaded: &Loaded) -> Result<IoPath> {
    let own = || results.arms.iter().map(|arm| &arm.arm).filter(|arm| arm.peer.is_none());
    if let Some(named) = own().find(|arm| arm.name == text) {
        return Ok(named.path.clone());
    }
    let parsed: Option<IoPath> = text.parse().ok().filter(|path| own().any(|arm| arm.path == *path));
    parsed.ok_or_else(|| {
        let mut names: Vec<&str> = own().map(|arm| arm.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let is_it = |arm: &Arm| arm.name == text || text.parse().is_ok_and(|path: IoPath| path == arm.path);
        let left_out = results.left_out.iter().find(|left_out| is_it(&left_out.arm));
        let cause = match left_out {
            Some(left_out) => format!("{} did not measure it: {}", loaded.folder.display(), left_out.reason),
            None => format!("{} has no path of this name", loaded.folder.display()),
        };
        Error::usage(format!("--check {text}"), cause).remedy(format!("it has {}", names.join(", ")))
    })
}

/// What is to be compared on a load.
struct OnLoad<'a> {
    load: String,
    own: Option<(&'a ArmResults, Vec<f64>)>,
    others: Vec<(&'a ArmResults, Vec<f64>)>,
    /// The arms that reach the rate, if the path in use does not.
    reach_rate: Vec<&'a ArmResults>,
    why_not: &'static str,
}

impl<'a> OnLoad<'a> {
    fn new(arms: &[&'a ArmResults], path: &IoPath, goal: Goal) -> Self {
        let load = arms.first().map_or_else(String::new, |arm| arm.arm.load_in_words());
        let not = |why_not| Self { load: load.clone(), own: None, others: Vec::new(), reach_rate: Vec::new(), why_not };
        if !arms.iter().any(|arm| arm.arm.path == *path) {
            return not("the path was not measured with 3 repeats");
        }
        if !goals_of(arms).contains(&goal) {
            return not("the load does not decide this goal");
        }
        let (missing, keeping) = by_rate(arms);
        if !keeping.is_empty() && missing.iter().any(|arm| arm.arm.path == *path) {
            return Self { reach_rate: keeping, ..not("the path does not reach the rate") };
        }
        let compared = candidates(goal, if keeping.is_empty() { arms } else { &keeping });
        let (own, others): (Vec<_>, Vec<_>) = compared.into_iter().partition(|(arm, _)| arm.arm.path == *path);
        match best_of_each_path(goal, own).into_iter().next() {
            None => not("its runs have too few requests for this goal"),
            Some(_) if others.is_empty() => not("no other path was measured"),
            own => Self { load, own, others, reach_rate: Vec::new(), why_not: "" },
        }
    }

    fn check(&self, goal: Goal, tail: f64, least_gain: f64) -> CheckedLoad {
        let (load, why_not) = (self.load.clone(), self.why_not.to_owned());
        let mut others_reach_rate: Vec<String> = self.reach_rate.iter().map(|arm| arm.arm.name.clone()).collect();
        others_reach_rate.sort_unstable();
        others_reach_rate.dedup();
        let Some((arm, values)) = &self.own else {
            return CheckedLoad { load, depth: None, why_not, others_reach_rate, better: None };
        };
        let beside = |(other, others): &(&ArmResults, Vec<f64>)| Beside {
            path: other.arm.name.clone(),
            notation: other.arm.path.to_string(),
            depth: other.arm.workload.depth,
            gain: goal.gain_at(others, values, tail),
        };
        let better = self.others.iter().map(beside).filter(|beside| beside.gain.low > least_gain);
        let better = better.max_by(|a, b| a.gain.low.total_cmp(&b.gain.low));
        CheckedLoad { load, depth: Some(arm.arm.workload.depth), why_not, others_reach_rate, better }
    }
}

#[cfg(test)]
mod tests {
    use iolane_measure::workload::Rate;
    use serde_json::json;

    use super::*;
    use crate::plan::Arm;
    use crate::results::fixtures::of_json;
    use crate::results::{RECORDS_FILE, SCHEMA};
    use crate::rows::Row;

    /// Results of paths with these rates in I/Os per second.
    fn results(paths: &[(&str, &[f64])]) -> Loaded {
        results_at(None, paths)
    }

    /// The same of loads that ask for a rate.
    fn results_at(rate: Option<Rate>, paths: &[(&str, &[f64])]) -> Loaded {
        let rows = paths.iter().flat_map(|(path, rates)| {
            let mut arm = Arm { path: path.parse().unwrap(), ..Arm::of_null(path) };
            arm.workload.rate = rate;
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
        Check::new(&results(paths), "psync", Goal::Throughput, least_gain).unwrap()
    }

    const OWN: (&str, &[f64]) = ("psync", &[100.0, 101.0, 99.0, 100.0, 102.0]);

    #[test]
    fn a_path_that_is_better_by_more_than_chance_fails_the_check() {
        let found = check(&[OWN, ("libaio", &[150.0, 151.0, 149.0, 152.0, 150.0])], 1.0);
        let better = found.loads[0].better.as_ref().unwrap();
        assert!(!found.passed && better.notation == "libaio" && better.gain.low > 1.4, "{found:?}");
        let words = found.loads[0].in_words(&found).unwrap();
        assert!(words.contains(": libaio at depth 1 is 1.5x better than psync at depth 1 (1.4"), "{words}");
        assert!(found.in_words().ends_with(": a path is shown to be better on 1 load."), "{}", found.in_words());
    }

    #[test]
    fn noise_and_a_gain_below_the_least_pass_it() {
        let noisy = check(&[OWN, ("libaio", &[90.0, 150.0, 80.0, 140.0, 120.0])], 1.0);
        assert!(noisy.passed && noisy.loads[0].better.is_none(), "{noisy:?}");
        let small: &[f64] = &[103.0, 104.0, 102.0, 103.0, 105.0];
        assert!(!check(&[OWN, ("libaio", small)], 1.0).passed);
        assert!(check(&[OWN, ("libaio", small)], 1.05).passed);
    }

    #[test]
    fn a_path_that_does_not_reach_a_rate_which_others_reach_fails_it() {
        let rate = Some(Rate::new(200.0).unwrap());
        let fast: &[f64] = &[200.0; 5];
        let check = |paths: &[(&str, &[f64])]| Check::new(&results_at(rate, paths), "psync", Goal::Processor, 1.0);
        let found = check(&[OWN, ("libaio", fast), ("io_uring", fast)]).unwrap();
        assert!(!found.passed && found.loads[0].others_reach_rate == ["io_uring", "libaio"], "{found:?}");
        let words = found.loads[0].in_words(&found).unwrap();
        assert!(words.ends_with("psync does not reach the rate; io_uring, libaio reach it"), "{words}");
        assert!(found.in_words().contains("it does not reach the rate of 1 load, which others reach."), "{found:?}");
        assert!(check(&[("psync", fast), ("libaio", OWN.1)]).is_err(), "there is nothing to compare with");
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
    fn what_cannot_be_compared_is_refused_with_the_reason() {
        let refusal = |goal, path| Check::new(&results(&[OWN]), path, goal, 1.0).unwrap_err().to_string();
        assert!(refusal(Goal::Throughput, "libaio").contains("it has psync"));
        assert!(refusal(Goal::Throughput, "psync").contains("no other path was measured"));
        assert!(refusal(Goal::Commits, "psync").contains("load does not decide this goal"));
        assert!(refusal(Goal::Latency, "psync").contains("too few requests"));
    }

    #[test]
    fn a_path_goes_by_its_name_in_the_study_too() {
        let mut loaded = results(&[OWN, ("libaio", &[100.0; 5])]);
        loaded.rows.iter_mut().filter(|row| row.arm.name == "psync").for_each(|row| row.arm.name = "blocking".into());
        let found = |name: &str| Check::new(&loaded, name, Goal::Throughput, 1.0).unwrap();
        assert_eq!((found("blocking").path, found("psync").path), ("psync".into(), "psync".into()));
    }
}
