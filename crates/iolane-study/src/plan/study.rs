//! A study: what it varies, shows and decides, and how long its runs are. Types only: `file` reads them from TOML,
//! `survey` builds them, sessions run them.

use std::time::Duration;

use iolane_measure::workload::Workload;

use super::claim::Claim;
use super::figure::Figure;
use super::group::Group;
use super::latency_bound::LatencyBound;
use super::scale::PerScale;

/// Plain data, from [`Study::parse`] or built field by field.
#[derive(Debug, Clone)]
pub struct Study {
    /// The name on the command line; also the name of the results folder.
    pub name: String,
    /// One line.
    pub title: String,
    /// Citation of the publication; empty for a user's own study.
    pub source: String,
    /// The machine of the published figures, one line; empty for a user's own study.
    pub published_on: String,
    /// Settings common to all arms; the factors replace their part of it.
    pub workload: Workload,
    pub lengths: PerScale<Lengths>,
    pub groups: Vec<Group>,
    /// Instead of runs at the rates of the groups: a search for the highest rate of each arm that keeps this bound.
    pub rate_until: Option<LatencyBound>,
    pub figures: Vec<Figure>,
    pub claims: Vec<Claim>,
    /// The file it was read from, so that results can include it; empty if there was none.
    pub text: String,
}

impl Study {
    /// Whether any of its arms writes.
    pub fn writes(&self) -> bool {
        let access = self.groups.iter().flat_map(|group| group.access.scaled.iter().chain(&group.access.full));
        access.into_iter().any(|access| access.writes())
            || self.groups.iter().any(|group| !group.applications.is_empty())
    }
}

/// Length and number of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Measured phase of a run; `None` divides `time` among all runs.
    pub runtime: Option<Duration>,
    /// Load before the measured phase.
    pub warmup: Duration,
    /// Runs of each arm.
    pub repeats: usize,
    /// Time budget of all runs, where `runtime` is `None`.
    pub time: Duration,
    /// Longest runtime that dividing `time` can yield.
    pub runtime_max: Duration,
}

impl Lengths {
    /// Longer runs add no information at the small scale.
    pub const RUNTIME_MAX: Duration = Duration::from_secs(2);
}
