//! The rule `order`: how well the order of the paths agrees with the published one.

use super::Finding;
use super::evidence::{ByRepeat, Candidate, Missing, at, common_repeats};
use super::finding::Measured;
use crate::plan::{Check, Metric, PublishedValue};
use crate::quantity::{number, quantity};
use crate::stats::{estimate_rank_correlation, median};

/// Two paths stand in their order or not, and no correlation tells more.
const PATHS_MIN: usize = 3;

/// The rank correlation of the arms, one for each path, with the published values.
pub(super) fn find<'a>(
    check: &Check,
    metric: Metric,
    arms: &[Candidate<'a>],
    published: &[PublishedValue],
) -> Finding<'a> {
    let mut missing = Missing::default();
    let mut measured: Vec<(&PublishedValue, ByRepeat)> = Vec::new();
    for path in published {
        let named: Vec<&Candidate<'a>> = arms.iter().filter(|arm| arm.arm().name == path.path).collect();
        let [candidate] = named[..] else {
            let why = format!("the study's file has {} arms of {} to order where one is meant", named.len(), path.path);
            return Finding::not_testable(why);
        };
        match candidate.values(metric) {
            Ok(values) => measured.push((path, values)),
            Err(reason) => missing.add(reason, candidate.arm()),
        }
    }
    if measured.len() < PATHS_MIN || 2 * pairs(measured.len()) <= pairs(published.len()) {
        return Finding::missing(missing);
    }
    let repeats = common_repeats(measured.iter().map(|(_, values)| values));
    if repeats.is_empty() {
        return Finding::nothing_common();
    }
    let values: Vec<Vec<f64>> = measured.iter().map(|(_, values)| at(values, &repeats)).collect();
    let order: Vec<f64> = measured.iter().map(|(path, _)| path.value).collect();
    let mut shown: Vec<(f64, &str)> =
        measured.iter().zip(&values).map(|((path, _), values)| (median(values), path.path.as_str())).collect();
    shown.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let figures: Vec<String> =
        shown.into_iter().map(|(value, path)| format!("{path} {}", quantity(metric, value))).collect();
    let measured = Measured {
        estimate: estimate_rank_correlation(&order, &values),
        figures: figures.join(", "),
        repeats: repeats.len(),
        may_be_larger: false,
        may_be_smaller: false,
        missing,
    };
    Finding::judge(check, measured, number)
}

/// How many pairs so many items make.
fn pairs(items: usize) -> usize {
    items * items.saturating_sub(1) / 2
}
