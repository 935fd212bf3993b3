//! The rule `crossing`: where along a factor one operand falls below another.

use super::each::{common_values, with_value};
use super::evidence::{ByRepeat, Candidate, Evidence, Missing, Standing, at, common_repeats};
use super::finding::Measured;
use super::{Finding, REPEATS_MIN, Verdict};
use crate::plan::{Arm, Check, Factor, Metric, Operand};
use crate::quantity::{number, place};
use crate::stats::{Crossing, Estimate, crossing, estimate_ratio};

/// Where the first of two operands falls below the second.
pub(super) fn find<'a>(
    check: &Check,
    metric: Metric,
    operands: [&Operand; 2],
    along: Factor,
    evidence: &Evidence<'a>,
) -> Finding<'a> {
    let points = match Points::of(metric, operands, along, evidence) {
        Ok(points) => points,
        Err(finding) => return finding,
    };
    let Points { measured, missing, .. } = &points;
    if measured.len() < 2 {
        return match missing.is_empty() {
            true => Finding::not_testable("the study as it was run has no two places to compare"),
            false => Finding::missing(missing.clone()),
        };
    }
    let repeats = common_repeats(measured.iter().flat_map(|point| [&point.of, &point.to]));
    if repeats.is_empty() {
        return Finding::nothing_common();
    }
    points.judge(check, along, &repeats)
}

/// Both operands at one value of the factor.
struct Point {
    x: f64,
    of: ByRepeat,
    to: ByRepeat,
}

/// The values of the factor that both operands have.
struct Points<'a> {
    /// Where all of both was measured, ascending.
    measured: Vec<Point>,
    /// Where it was not.
    gaps: Vec<f64>,
    missing: Missing<'a>,
}

impl<'a> Points<'a> {
    fn of(
        metric: Metric,
        operands: [&Operand; 2],
        along: Factor,
        evidence: &Evidence<'a>,
    ) -> Result<Self, Finding<'a>> {
        let arms = operands.map(|operand| evidence.select(&operand.select));
        let plain = |arms: &Vec<Candidate<'a>>| -> Vec<&'a Arm> { arms.iter().map(Candidate::arm).collect() };
        let mut points = Self { measured: Vec::new(), gaps: Vec::new(), missing: Missing::default() };
        for shown in common_values(along, &arms.each_ref().map(plain)) {
            let here = arms.each_ref().map(|arms| with_value(arms, along, &shown));
            let Some(x) = here[0].first().and_then(|candidate| candidate.arm().number(along)) else {
                let why = format!("the study's file looks for a crossing along what is no number, such as {shown}");
                return Err(Finding::not_testable(why));
            };
            let [of, to] = [0, 1].map(|side| Standing::of(operands[side], metric, &here[side], &here[side]));
            points.add(x as f64, [of, to])?;
        }
        Ok(points)
    }

    /// A place counts only where nothing of either operand is missing: the curve could run otherwise.
    fn add(&mut self, x: f64, sides: [Result<Standing<'a>, Finding<'a>>; 2]) -> Result<(), Finding<'a>> {
        let mut whole = Vec::new();
        for side in sides {
            match side {
                Ok(side) if side.missing.is_empty() => whole.push(side.values),
                Ok(side) => self.missing.merge(&side.missing),
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

    fn judge(&self, check: &Check, along: Factor, repeats: &[u32]) -> Finding<'a> {
        let x: Vec<f64> = self.measured.iter().map(|point| point.x).collect();
        let of: Vec<Vec<f64>> = self.measured.iter().map(|point| at(&point.of, repeats)).collect();
        let to: Vec<Vec<f64>> = self.measured.iter().map(|point| at(&point.to, repeats)).collect();
        let (first, last) = (x[0], x[x.len() - 1]);
        let starts = estimate_ratio(&of[0], &to[0]);
        let here = |x: f64| place(along, &number(x));
        let range = format!("{} to {}", here(first), number(last));
        match crossing(&x, &of, &to) {
            Crossing::At { x: at, .. } => self.judge_place(check, along, at, (&x, repeats.len())),
            _ if repeats.len() < REPEATS_MIN => {
                let why = format!("{} repeats: it takes {REPEATS_MIN} to decide", repeats.len());
                self.found(Verdict::Inconclusive, why, &range)
            }
            Crossing::AlwaysAbove => {
                let verdict = never_below(check, last);
                self.found(verdict, format!("never falls below, {range}"), &format!("above {range}"))
            }
            Crossing::AlwaysBelow => {
                self.found(Verdict::DoesNotHold, format!("is below from the first, {range}"), &format!("below {range}"))
            }
            Crossing::Unclear if starts.high < 1.0 => {
                let why = format!("is not above at first: {} it is {}x", here(first), number(starts.value));
                self.found(Verdict::DoesNotHold, why, &format!("below {}", here(first)))
            }
            Crossing::Unclear => {
                let why = format!("the repeats do not agree where, or whether, it falls below, {range}");
                self.found(Verdict::Inconclusive, why, &format!("no clear crossing {range}"))
            }
        }
    }

    /// A place before the next one that was measured could have been another, had what is missing been measured.
    fn judge_place(&self, check: &Check, along: Factor, at: Estimate, (x, repeats): (&[f64], usize)) -> Finding<'a> {
        let next = x.iter().copied().find(|x| *x >= at.high).unwrap_or(f64::INFINITY);
        let is_open = self.gaps.iter().any(|gap| *gap < next);
        let measured = Measured {
            estimate: Some(at),
            figures: format!("crosses at a {} of {}", word(along), number(at.value)),
            repeats,
            may_be_larger: is_open,
            may_be_smaller: is_open,
            missing: self.missing.clone(),
        };
        let finding = Finding::judge(check, measured, number);
        Finding { why: format!("falls below at a {} of {}", word(along), finding.why), ..finding }
    }

    /// There is no place; what is missing could have one, or lead away from it.
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

/// What a factor is called.
fn word(factor: Factor) -> &'static str {
    match factor {
        Factor::Path => "path",
        Factor::Rw => "kind of access",
        Factor::Bs => "block size",
        Factor::Depth => "depth",
        Factor::Threads => "number of threads",
        Factor::Drives => "number of drives",
        Factor::Cores => "number of cores",
    }
}

/// A curve that never falls below another does so beyond the last place, if at all.
fn never_below(check: &Check, last: f64) -> Verdict {
    match (check.at_least, check.at_most) {
        (_, Some(most)) if most <= last => Verdict::DoesNotHold,
        (Some(least), None) if least <= last => Verdict::Holds,
        _ => Verdict::Inconclusive,
    }
}
