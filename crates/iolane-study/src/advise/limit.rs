//! What limits the throughput of a recommended path: a faster path helps only where the processor does.

use serde::Serialize;

use crate::format::number;
use crate::plan::{Arm, Metric};
use crate::rows::{ArmResults, Results};
use crate::stats::median;

/// What limits the IOPS of a path at its depth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    pub by: LimitedBy,
    /// By what that is shown.
    pub shown_by: String,
}

/// The part that is busy while the others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The threads work nearly all the time.
    Processor,
    /// The threads wait, and fewer requests in flight reach the same rate.
    Drive,
    /// The threads wait, and no smaller depth reaches the rate: more requests in flight may raise it.
    Depth,
}

impl LimitedBy {
    /// In words, after *limited by*.
    pub fn words(self) -> &'static str {
        match self {
            Self::Processor => "the processor",
            Self::Drive => "the drive",
            Self::Depth => "the requests in flight",
        }
    }
}

/// A thread that works for this share of the time has none left.
const BUSY: f64 = 0.95;
/// A rate of this share is the same rate.
const SAME: f64 = 0.95;

/// What limits an arm; `None` for a path that polls, whose threads always work, for an application, and where processor time was not measured.
pub(super) fn limit(taken: &Arm, results: &Results) -> Option<Limit> {
    // An application computes, and its depth is not always one of requests.
    if taken.application.is_some() || taken.path.polls_submissions() || iolane::polls_completions(&taken.path) {
        return None;
    }
    let is_path = |arm: &&ArmResults| arm.arm.load_key() == taken.load_key() && arm.arm.name == taken.name;
    let median_of = |arm: &ArmResults, metric| arm.values(metric).map(|values| median(&values));
    let own = results.arms.iter().find(|arm| arm.arm == *taken)?;
    let (cores, iops) = (median_of(own, Metric::Cores)?, median_of(own, Metric::Iops)?);
    let busy = cores / taken.threads as f64;
    let threads = if taken.threads == 1 { "its thread works" } else { "its threads work" };
    if busy >= BUSY {
        return Some(Limit { by: LimitedBy::Processor, shown_by: format!("{threads} all the time") });
    }
    let share = format!("{threads} for {:.0} % of the time", 100.0 * busy);
    let depth = taken.workload.depth;
    let smaller = results.arms.iter().filter(is_path).filter(|arm| arm.arm.workload.depth < depth);
    let reaching = smaller.filter_map(|arm| Some((arm.arm.workload.depth, median_of(arm, Metric::Iops)? / iops)));
    let least = reaching.filter(|(_, share)| *share >= SAME).min_by_key(|(depth, _)| *depth);
    Some(match least {
        Some((depth, of_rate)) => Limit {
            by: LimitedBy::Drive,
            shown_by: format!("{share}, and depth {depth} reaches {} of the rate", number(of_rate.min(1.0))),
        },
        None => Limit { by: LimitedBy::Depth, shown_by: share },
    })
}

#[cfg(test)]
mod tests {
    use iolane_measure::figures::RunFigure;
    use iolane_measure::telemetry::Sourced;
    use iolane_measure::workload::Workload;

    use super::*;
    use crate::rows::Row;

    fn arm(path: &str, depth: u32) -> Arm {
        Arm { path: path.parse().unwrap(), workload: Workload { depth, ..Workload::default() }, ..Arm::of_null(path) }
    }

    /// What limits the last of these arms: depth, I/Os per second and cores.
    fn limit_of(path: &str, arms: &[(u32, u64, f64)]) -> Option<Limit> {
        let row = |(depth, ios, cores): &(u32, u64, f64)| {
            let mut row = Row { ios: *ios, elapsed_s: 1.0, ..Row::new(arm(path, *depth), 0) };
            row.figures.set(RunFigure::UserS, Ok(Sourced::new(*cores, "a test")));
            row.figures.set(RunFigure::SystemS, Ok(Sourced::new(0.0, "a test")));
            row
        };
        let rows: Vec<Row> = arms.iter().map(row).collect();
        limit(&arm(path, arms.last().unwrap().0), &Results::new(&rows, Vec::new()))
    }

    #[test]
    fn a_thread_that_always_works_is_the_limit() {
        let limit = limit_of("io_uring", &[(1, 50, 0.5), (16, 100, 0.97)]).unwrap();
        assert_eq!((limit.by, &limit.shown_by[..]), (LimitedBy::Processor, "its thread works all the time"));
    }

    #[test]
    fn a_rate_that_fewer_requests_reach_is_that_of_the_drive() {
        let limit = limit_of("libaio", &[(1, 20, 0.2), (8, 96, 0.3), (16, 99, 0.3), (32, 100, 0.25)]).unwrap();
        assert_eq!(limit.by, LimitedBy::Drive);
        assert_eq!(limit.shown_by, "its thread works for 25 % of the time, and depth 8 reaches 0.96 of the rate");
        let more = limit_of("libaio", &[(1, 20, 0.2), (8, 50, 0.3)]).unwrap();
        assert_eq!((more.by, &more.shown_by[..]), (LimitedBy::Depth, "its thread works for 30 % of the time"));
    }

    #[test]
    fn a_path_that_polls_does_not_show_it() {
        assert_eq!(limit_of("io_uring+iopoll", &[(1, 100, 1.0)]), None);
        assert_eq!(limit_of("io_uring+sqpoll", &[(1, 100, 2.0)]), None);
        assert_eq!(limit_of("nvme", &[(1, 100, 1.0)]), None);
    }
}
