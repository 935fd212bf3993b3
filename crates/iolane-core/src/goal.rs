//! What a path that chooses among others is told to aim at. `path` reads it as an option; the policy of `auto` obeys it.

use std::fmt;
use std::str::FromStr;

use crate::did_you_mean::did_you_mean;
use crate::error::{Error, Result};

/// What the choice is to make small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Goal {
    /// Time per request while there are requests, which gives the most requests per second.
    #[default]
    Throughput,
    /// Mean time from submission to completion.
    Latency,
    /// Processor time per request: that of the calling thread, and a whole core for a kernel thread that polls for submissions.
    Efficiency,
}

impl Goal {
    /// All goals, by their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("throughput", Self::Throughput), ("latency", Self::Latency), ("efficiency", Self::Efficiency)];
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, goal)| goal == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Goal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = || Self::NAMES.iter().map(|(name, _)| *name);
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, goal)| *goal).ok_or_else(|| {
            let known = names().collect::<Vec<_>>().join(", ");
            let meant = did_you_mean(text, names());
            Error::usage(format!("goal {text}"), "there is no such goal")
                .remedy(format!("{meant}the goals are {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_what_it_is_called() {
        for (name, goal) in Goal::NAMES {
            assert_eq!((name.parse::<Goal>().unwrap(), goal.to_string()), (goal, name.to_owned()));
        }
        let error = "latncy".parse::<Goal>().unwrap_err().to_string();
        assert!(error.contains("did you mean latency"), "{error}");
    }
}
