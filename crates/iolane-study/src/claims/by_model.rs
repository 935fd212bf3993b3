//! Decides by the model what a machine is too small to measure: its own calibration plays the arms of a check, draw by draw, and the
//! check's figure of each draw makes the interval. `decide` measures first; only checks that are not testable come here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use iolane_measure::host::LabMachine;
use iolane_model::{MachineFile, Outcome, predict};

use super::bounds;
use super::decide::{combine, find_all, find_by_rule};
use super::decision::Decision;
use super::evidence::{ArmEvidence, Evidence, Modelled};
use super::finding::Finding;
use super::looks::Looks;
use super::needs;
use super::tails::{At, Tails};
use super::verdict::Verdict;
use crate::calibrate;
use crate::format::{number, quantity, range};
use crate::plan::{Arm, Check, Claim, Metric, Rule, Study};
use crate::rows::Results;
use crate::stats::{Estimate, median};

/// Begins the reason of a finding of the model.
const BY_MODEL: &str = "by model, calibrated on what was measured here";

/// Of the draws of a machine, this share must have a figure.
const SHARE_MIN: f64 = 0.9;

/// What each draw of a machine came to, or why it cannot be played.
type Played = Rc<Result<Vec<Outcome>, String>>;

/// A machine that plays arms, each once.
pub struct Model<'a> {
    machine: &'a MachineFile,
    played: RefCell<HashMap<Arm, Played>>,
}

impl<'a> Model<'a> {
    /// That of a calibration.
    pub fn new(machine: &'a MachineFile) -> Self {
        Self { machine, played: RefCell::default() }
    }

    /// The finding of a check with all of its arms played; `None` if the model cannot play one, or has no such figure.
    pub(super) fn find<'b>(&self, check: &Check, evidence: &Evidence<'b>) -> Option<Finding<'b>> {
        let metric = check.rule.metric();
        let mut arms: Vec<(&Arm, Played)> = Vec::new();
        for arm in check.rule.selections().into_iter().flat_map(|selection| evidence.select(selection)) {
            if !arms.iter().any(|(known, _)| *known == arm.arm()) {
                arms.push((arm.arm(), self.play(arm.arm())));
            }
        }
        let played: Option<Vec<(&Arm, &[Outcome])>> =
            arms.iter().map(|(arm, outcomes)| Some((*arm, outcomes.as_ref().as_ref().ok()?.as_slice()))).collect();
        let played = played?;
        let draws = played.iter().map(|(_, outcomes)| outcomes.len()).min()?;
        let figures: Vec<(f64, String)> = (0..draws)
            .filter_map(|draw| {
                let power = self.machine.power;
                let of_draw = played.iter().map(|(arm, outcomes)| Modelled::new(arm, &outcomes[draw], power));
                let evidence = Evidence::of_model(of_draw.map(ArmEvidence::Modelled).collect());
                let finding = find_by_rule(check, &evidence, Tails::share(1.0));
                Some((finding.measured?.value, finding.figures?))
            })
            .collect();
        if figures.is_empty() || (figures.len() as f64) < SHARE_MIN * draws as f64 {
            return None;
        }
        Some(compare(check, metric, figures))
    }

    fn play(&self, arm: &Arm) -> Played {
        if let Some(known) = self.played.borrow().get(arm) {
            return known.clone();
        }
        let played = Rc::new(self.outcomes(arm));
        self.played.borrow_mut().insert(arm.clone(), played.clone());
        played
    }

    fn outcomes(&self, arm: &Arm) -> Result<Vec<Outcome>, String> {
        let mut machine = self.machine.clone();
        let load = calibrate::load(arm, &mut machine)?;
        predict(&machine, &load).map(|prediction| prediction.outcomes).map_err(|error| error.to_string())
    }
}

/// Whether the model could decide a check: it has such figures, and cores and drives are all that the claim's machine lacks. A medium
/// that the writes did not reach is not in a calibration either.
pub fn could_decide(claim: &Claim, check: &Check, lab: Option<LabMachine>) -> bool {
    Modelled::has(check.rule.metric()) && lab.and_then(|lab| needs::unmet(&claim.needs, lab)).is_none()
}

/// Decides anew, by the model, the claims that are not testable: each check that is not, if the model can play all of its arms. Returns
/// of how many claims it decided a check.
pub fn decide_by_model(
    study: &Study,
    results: &Results,
    looks: &Looks,
    model: &Model<'_>,
    decisions: &mut [Decision],
) -> usize {
    let Some((end, tails)) = looks.ends_with_tails().last() else { return 0 };
    let mut decided = 0;
    let evidence = Evidence::of(results, end);
    let not_testable = |(_, decision): &(&Claim, &mut Decision)| decision.verdict == Verdict::NotTestable;
    for (claim, decision) in study.claims.iter().zip(decisions).filter(not_testable) {
        let mut findings = find_all(claim, &evidence, tails);
        let mut is_decided = false;
        for (check, finding) in claim.checks.iter().zip(&mut findings) {
            if finding.verdict == Verdict::NotTestable
                && could_decide(claim, check, results.lab)
                && let Some(modelled) = model.find(check, &evidence)
            {
                (*finding, is_decided) = (modelled, true);
            }
        }
        *decision = combine(claim, &findings);
        decided += usize::from(is_decided);
    }
    decided
}

/// The figures of the draws are those of machines that fit what was measured equally well: their range is the interval.
fn compare<'a>(check: &Check, metric: Metric, mut figures: Vec<(f64, String)>) -> Finding<'a> {
    figures.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let values: Vec<f64> = figures.iter().map(|(value, _)| *value).collect();
    let estimate = Estimate { value: median(&values), low: values[0], high: values[values.len() - 1] };
    let verdict = bounds::verdict(check, At { holds: estimate.into(), fails: estimate.into() }).by_model();
    let show = |value: f64| match check.rule {
        Rule::Value { .. } => quantity(metric, value),
        Rule::Crossing { .. } => number(value),
        Rule::Ratio { .. } | Rule::Order { .. } => super::finding::times(value),
    };
    let interval = range(&show(estimate.low), &show(estimate.high));
    let required = bounds::in_words(check, show);
    let published = check.published.map_or(String::new(), |published| format!("; published {}", show(published)));
    let why = format!("{BY_MODEL}: {} (draws: {interval}), required {required}{published}", show(estimate.value));
    let (_, shown) = figures.swap_remove(values.len() / 2);
    Finding {
        verdict,
        measured: Some(estimate),
        why,
        figures: Some(format!("by model: {shown}")),
        margin: bounds::margin(check, estimate),
        ..Finding::not_testable("")
    }
}

impl std::fmt::Debug for Model<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("machine", &self.machine.name).finish_non_exhaustive()
    }
}
