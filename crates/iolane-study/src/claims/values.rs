//! The values of a factor that several lists of arms have in common. Rules that compare value by value call it, and
//! `lint` does.

use crate::plan::{Arm, Factor, FactorValue};

/// The values of a factor that occur in all lists, numbers ascending, others in the order of the first list.
pub(super) fn common_values(factor: Factor, lists: &[Vec<&Arm>]) -> Vec<FactorValue> {
    let mut values: Vec<FactorValue> = Vec::new();
    for arm in lists.first().into_iter().flatten() {
        let value = arm.value(factor);
        let is_common = lists.iter().all(|arms| arms.iter().any(|arm| arm.value(factor) == value));
        if is_common && !values.contains(&value) {
            values.push(value);
        }
    }
    // A stable sort keeps the order of values without a number.
    values.sort_by_key(FactorValue::number);
    values
}
