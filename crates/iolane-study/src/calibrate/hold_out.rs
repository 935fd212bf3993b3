//! Which observations the fit does not see, so that predictions of them show how far predictions are off.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use iolane::{Error, Result};
use iolane_model::Observation;

/// The second depth that a fit sees, or the one nearest to it: deep enough to show the cost of a request, and hardly limited by a drive.
const NEAR: f64 = 16.0;

/// What is left out of the fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HoldOut {
    /// Of each path with three depths or more, all but the smallest and the one nearest to 16.
    #[default]
    Automatic,
    /// Of each path, all depths but the smallest and the largest.
    Inner,
    /// Nothing.
    Nothing,
    /// Whatever has more threads, and thus maybe drives, than one.
    Threads,
    /// These depths.
    Depths(Vec<u32>),
}

impl FromStr for HoldOut {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let depths = || text.split(',').map(|depth| depth.trim().parse().ok()).collect::<Option<Vec<u32>>>();
        match text {
            "inner" => Ok(Self::Inner),
            "none" => Ok(Self::Nothing),
            "threads" => Ok(Self::Threads),
            _ => depths().map(Self::Depths).ok_or_else(|| {
                Error::usage(format!("--hold-out `{text}`"), "it is no list of depths")
                    .remedy("write --hold-out 4,64, inner, threads or none")
            }),
        }
    }
}

impl HoldOut {
    /// Splits observations into those that are fitted, and those that are held out.
    ///
    /// # Errors
    /// `Usage` if nothing is left of a path, or if a depth that is named was not observed.
    pub(super) fn split(&self, all: Vec<Observation>) -> Result<(Vec<Observation>, Vec<Observation>)> {
        let mut depths: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for observation in &all {
            depths.entry(observation.path.clone()).or_default().insert(observation.depth);
        }
        if let Self::Depths(named) = self {
            let is_observed = |depth: &&u32| depths.values().any(|of_path| of_path.contains(depth));
            if let Some(depth) = named.iter().find(|depth| !is_observed(depth)) {
                return Err(Error::usage(format!("--hold-out {depth}"), "nothing was measured at this depth")
                    .remedy("name depths of the results"));
            }
        }
        let is_kept = |observation: &Observation| match self {
            Self::Threads => observation.threads == 1,
            _ => self.keeps(&depths[&observation.path], observation.depth),
        };
        let (fitted, held_out): (Vec<_>, Vec<_>) = all.into_iter().partition(is_kept);
        let has_rest = |path: &&String| fitted.iter().any(|observation| observation.path == **path);
        match depths.keys().find(|path| !has_rest(path)) {
            None => Ok((fitted, held_out)),
            Some(path) => Err(Error::usage("--hold-out", format!("nothing of {path} is left to fit"))
                .remedy("hold out less, or measure the path at more depths, and with one thread")),
        }
    }

    fn keeps(&self, depths: &BTreeSet<u32>, depth: u32) -> bool {
        let (first, last) = (depths.first().copied(), depths.last().copied());
        let far = |depth: u32| (f64::from(depth.max(1)).ln() - NEAR.ln()).abs();
        let nearest = || depths.iter().skip(1).copied().min_by(|a, b| far(*a).total_cmp(&far(*b)));
        match self {
            Self::Nothing | Self::Threads => true,
            Self::Automatic => depths.len() < 3 || Some(depth) == first || Some(depth) == nearest(),
            Self::Inner => Some(depth) == first || Some(depth) == last,
            Self::Depths(held_out) => !held_out.contains(&depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(depths: &[u32]) -> Vec<Observation> {
        let text = |depth: &u32| format!("path = \"psync\"\ndepth = {depth}\niops = 1000.0");
        depths.iter().map(|depth| toml::from_str(&text(depth)).unwrap()).collect()
    }

    fn held_out(rule: &str, depths: &[u32]) -> Vec<u32> {
        let rule = if rule.is_empty() { HoldOut::Automatic } else { rule.parse().unwrap() };
        let (fitted, held_out) = rule.split(observed(depths)).unwrap();
        assert_eq!(fitted.len() + held_out.len(), depths.len());
        held_out.iter().map(|observation| observation.depth).collect()
    }

    #[test]
    fn three_depths_or_more_leave_all_but_the_smallest_and_that_near_16_out_of_the_fit() {
        assert_eq!(held_out("", &[1, 32]), Vec::<u32>::new());
        assert_eq!(held_out("", &[1, 4, 16, 64, 128]), [4, 64, 128]);
        assert_eq!(held_out("", &[1, 8, 64]), [64]);
        assert_eq!(held_out("", &[32, 64, 128]), [128]);
    }

    #[test]
    fn depths_are_held_out_as_named() {
        assert_eq!(held_out("inner", &[1, 4, 16, 64]), [4, 16]);
        assert_eq!(held_out("none", &[1, 4, 16, 64]), Vec::<u32>::new());
        assert_eq!(held_out("4,64", &[1, 4, 16, 64]), [4, 64]);
    }

    #[test]
    fn several_threads_are_held_out_as_a_whole() {
        let mut all = observed(&[1, 16, 1, 16]);
        all.iter_mut().skip(2).for_each(|observation| observation.threads = 2);
        let (fitted, held_out) = HoldOut::Threads.split(all.clone()).unwrap();
        assert_eq!((fitted.as_slice(), held_out.as_slice()), all.split_at(2));
        assert!(HoldOut::Threads.split(held_out).unwrap_err().to_string().contains("with one thread"));
    }

    #[test]
    fn what_leaves_nothing_to_fit_or_names_nothing_is_refused() {
        let refused = |rule: &str| rule.parse::<HoldOut>().unwrap().split(observed(&[1, 4])).unwrap_err().to_string();
        assert!(refused("1,4").contains("nothing of psync is left to fit"));
        assert!(refused("1,5").starts_with("--hold-out 5: nothing was measured at this depth"));
        assert!("4,x".parse::<HoldOut>().unwrap_err().to_string().contains("inner, threads or none"));
    }
}
