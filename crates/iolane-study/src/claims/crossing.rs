//! The rule `crossing`: the value of a factor at which one operand falls below another.

use super::each::with_value;
use super::evidence::{ArmEvidence, ByRepeat, Evidence, at, common_repeats};
use super::finding::{Computed, Finding};
use super::missing::Missing;
use super::operand::OperandValues;
use super::tails::{At, Tails};
use super::values::common_values;
use super::verdict::{REPEATS_MIN, Verdict};
use crate::format::{number, place};
use crate::plan::{Arm, Check, Factor, Metric, Operand};
use crate::stats::{Crossing, Estimate, RatioCurve, estimate_ratio_at};

pub(super) fn find<'a>(
    check: &Check,
    metric: Metric,
    operands: [&Operand; 2],
    along: Factor,
    evidence: &Evidence<'a>,
    tails: Tails,
) -> Finding<'a> {
    let points = match Points::of(metric, operands, along, evidence) {
        Ok(points) => points,
        Err(finding) => return *finding,
    };
    let Points { measured, missing, .. } = &points;
    if measured.len() < 2 {
        return match missing.is_empty() {
            true => Finding::not_testable("the study has fewer than two values to compare at this scale"),
            false => Finding::missing(missing.clone()),
        };
    }
    let repeats = common_repeats(measured.iter().flat_map(|point| [&point.of, &point.to]));
    if repeats.is_empty() {
        return Finding::nothing_common();
    }
    points.finding(check, along, &repeats, tails)
}

/// Both operands at one value of the factor.
struct Point {
    x: f64,
    of: ByRepeat,
    to: ByRepeat,
}

/// The values of the factor that both operands have.
struct Points<'a> {
    /// Where all arms of both operands were measured, ascending.
    measured: Vec<Point>,
    /// Where an arm is missing.
    gaps: Vec<f64>,
    missing: Missing<'a>,
}

impl<'a> Points<'a> {
    fn of(
        metric: Metric,
        operands: [&Operand; 2],
        along: Factor,
        evidence: &Evidence<'a>,
    ) -> Result<Self, Box<Finding<'a>>> {
        let arms = operands.map(|operand| evidence.select(&operand.select));
        let plain = |arms: &Vec<ArmEvidence<'a>>| -> Vec<&'a Arm> { arms.iter().map(ArmEvidence::arm).collect() };
        let mut points = Self { measured: Vec::new(), gaps: Vec::new(), missing: Missing::default() };
        for value in common_values(along, &arms.each_ref().map(plain)) {
            let here = arms.each_ref().map(|arms| with_value(arms, along, &value));
            let Some(x) = value.number() else {
                let why =
                    format!("the study file specifies a crossing along values that are not numbers, such as {value}");
                return Err(Finding::not_testable(why).into());
            };
            let [of, to] = [0, 1].map(|side| OperandValues::of(operands[side], metric, &here[side]));
            points.add(x as f64, [of, to])?;
        }
        Ok(points)
    }

    /// A value with a missing arm is a gap: that arm could have changed the curve there.
    fn add(&mut self, x: f64, sides: [Result<OperandValues<'a>, Box<Finding<'a>>>; 2]) -> Result<(), Box<Finding<'a>>> {
        let mut whole = Vec::new();
        for side in sides {
            match side {
                Ok(side) => whole.extend(side.arms.into_iter().map(|(_, values)| values)),
                Err(finding) if finding.missing.is_empty() => return Err(finding),
                Err(finding) => self.missing.merge(&finding.missing),
            }
        }
        match <[ByRepeat; 2]>::try_from(whole) {
            Ok([of, to]) => self.measured.push(Point { x, of, to }),
            Err(_) => self.gaps.push(x),
        }
        Ok(())
    }

    fn finding(&self, check: &Check, along: Factor, repeats: &[u32], tails: Tails) -> Finding<'a> {
        let x: Vec<f64> = self.measured.iter().map(|point| point.x).collect();
        let of: Vec<Vec<f64>> = self.measured.iter().map(|point| at(&point.of, repeats)).collect();
        let to: Vec<Vec<f64>> = self.measured.iter().map(|point| at(&point.to, repeats)).collect();
        let (first, last) = (x[0], x[x.len() - 1]);
        let starts = estimate_ratio_at(&of[0], &to[0], tails.fails);
        let here = |x: f64| place(along, &number(x));
        let range = format!("{} to {}", here(first), number(last));
        let curve = RatioCurve::new(&x, &of, &to);
        let shape = tails.map(|tail| curve.as_ref().map_or(Crossing::Unclear, |curve| curve.crossing(tail)));
        let is = |is: fn(&Crossing) -> bool| shape.map(|shape| is(&shape));
        let [above, below] = [is(|shape| *shape == Crossing::AlwaysAbove), is(|shape| *shape == Crossing::AlwaysBelow)];
        if let Some(place) = crosses_at(shape) {
            return self.at_place(check, along, place, (&x, repeats.len()));
        }
        if repeats.len() < REPEATS_MIN {
            let why = format!("{} repeats; a verdict needs {REPEATS_MIN}", repeats.len());
            return self.found(Verdict::Inconclusive, why, &range);
        }
        match never_below(check, last) {
            Some(verdict)
                if (verdict == Verdict::Holds && above.holds) || (verdict == Verdict::DoesNotHold && above.fails) =>
            {
                self.found(verdict, format!("never falls below, {range}"), &format!("above {range}"))
            }
            None if above.holds => {
                self.found(Verdict::Inconclusive, format!("never falls below, {range}"), &format!("above {range}"))
            }
            _ if below.fails => {
                self.found(Verdict::DoesNotHold, format!("is below from the start, {range}"), &format!("below {range}"))
            }
            _ if starts.high < 1.0 => {
                let why = format!("does not start above: {} it is {}x", here(first), number(starts.value));
                self.found(Verdict::DoesNotHold, why, &format!("below {}", here(first)))
            }
            _ => {
                let why = format!("the repeats do not agree on whether or where it falls below, {range}");
                self.found(Verdict::Inconclusive, why, &format!("no clear crossing {range}"))
            }
        }
    }

    /// A gap before or at the crossing leaves it open: the missing values could have moved it.
    fn at_place(&self, check: &Check, along: Factor, at: At<Estimate>, (x, repeats): (&[f64], usize)) -> Finding<'a> {
        let most = [at.holds.high, at.fails.high].into_iter().filter(|high| high.is_finite()).fold(0.0, f64::max);
        let next = x.iter().copied().find(|x| *x >= most).unwrap_or(f64::INFINITY);
        let is_open = self.gaps.iter().any(|gap| *gap < next);
        let computed = Computed {
            estimate: Some(at),
            figures: format!("crosses at a {} of {}", along.noun(), number(at.holds.value)),
            repeats,
            may_be_larger: is_open,
            may_be_smaller: is_open,
            missing: self.missing.clone(),
        };
        let finding = Finding::compare(check, computed, number);
        Finding { why: format!("falls below at a {} of {}", along.noun(), finding.why), ..finding }
    }

    /// No crossing was found; in a gap there could be one.
    fn found(&self, verdict: Verdict, why: String, figures: &str) -> Finding<'a> {
        let (verdict, why) = match self.missing.is_empty() {
            true => (verdict, why),
            false => (Verdict::NotTestable, format!("{why}, without {}", self.missing)),
        };
        Finding {
            verdict,
            figures: Some(figures.to_owned()),
            missing: self.missing.clone(),
            ..Finding::not_testable(why)
        }
    }
}

/// Where it crosses, if that is sure enough for one of the verdicts; for the other it is anywhere then.
fn crosses_at(shape: At<Crossing>) -> Option<At<Estimate>> {
    let place = shape.map(|shape| match shape {
        Crossing::At { x, .. } => Some(x),
        _ => None,
    });
    let known = place.holds.or(place.fails)?;
    let anywhere = Estimate { low: 0.0, high: f64::INFINITY, ..known };
    Some(place.map(|place| place.unwrap_or(anywhere)))
}

/// A curve that never falls below the other crosses it beyond the last value, if at all. `None` if that decides nothing.
fn never_below(check: &Check, last: f64) -> Option<Verdict> {
    match (check.at_least, check.at_most) {
        (_, Some(most)) if most <= last => Some(Verdict::DoesNotHold),
        (Some(least), None) if least <= last => Some(Verdict::Holds),
        _ => None,
    }
}
