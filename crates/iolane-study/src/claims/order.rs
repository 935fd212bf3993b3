//! The rule `order`: agreement of the order of the paths with the published order.

use super::evidence::{ArmEvidence, ByRepeat, at, common_repeats};
use super::finding::{Computed, Finding};
use super::missing::Missing;
use super::tails::{At, Tails};
use crate::format::{number, quantity};
use crate::plan::{Check, Metric, PublishedValue};
use crate::stats::{estimate_rank_correlation, median};

/// The correlation of two paths is 1 or -1 and has no interval.
const PATHS_MIN: usize = 3;

/// The rank correlation of the arms, one for each path, with the published values. It is computed without missing arms
/// while the others make up more than half of the pairs, and none that the claim is about is among the missing.
pub(super) fn find<'a>(
    check: &Check,
    metric: Metric,
    arms: &[ArmEvidence<'a>],
    published: &[PublishedValue],
    tails: Tails,
) -> Finding<'a> {
    let mut missing = Missing::default();
    let mut measured: Vec<(&PublishedValue, ByRepeat)> = Vec::new();
    let mut lacks_required = false;
    for path in published {
        let named: Vec<&ArmEvidence<'a>> = arms.iter().filter(|arm| arm.arm().name == path.path).collect();
        let [arm] = named[..] else {
            let why = format!("the study file selects {} arms of {} where an order needs one", named.len(), path.path);
            return Finding::not_testable(why);
        };
        match arm.values(metric) {
            Ok(values) => measured.push((path, values)),
            Err(reason) => {
                missing.add(reason, arm.arm());
                lacks_required |= path.required;
            }
        }
    }
    if lacks_required || measured.len() < PATHS_MIN || 2 * pairs(measured.len()) <= pairs(published.len()) {
        return Finding::missing(missing);
    }
    let repeats = common_repeats(measured.iter().map(|(_, values)| values));
    if repeats.is_empty() {
        return Finding::nothing_common();
    }
    let values: Vec<Vec<f64>> = measured.iter().map(|(_, values)| at(values, &repeats)).collect();
    let order: Vec<f64> = measured.iter().map(|(path, _)| path.value).collect();
    let estimate_at = |tail: f64| estimate_rank_correlation(&order, &values, tail);
    let mut shown: Vec<(f64, &str)> =
        measured.iter().zip(&values).map(|((path, _), values)| (median(values), path.path.as_str())).collect();
    shown.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let figures: Vec<String> =
        shown.into_iter().map(|(value, path)| format!("{path} {}", quantity(metric, value))).collect();
    let computed = Computed {
        estimate: estimate_at(tails.holds).zip(estimate_at(tails.fails)).map(|(holds, fails)| At { holds, fails }),
        figures: figures.join(", "),
        repeats: repeats.len(),
        may_be_larger: false,
        may_be_smaller: false,
        missing,
    };
    Finding::compare(check, computed, number)
}

fn pairs(items: usize) -> usize {
    items * items.saturating_sub(1) / 2
}
