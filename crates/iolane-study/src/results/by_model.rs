//! Claims that a complete study cannot test, decided by the model from the study's own calibration.

use std::collections::HashSet;

use iolane_measure::meters::{PowerModel, Source};
use iolane_model::{Power, Residual};

use super::report::StudyReport;
use crate::calibrate::{self, Calibrated, Gathered, HoldOut};
use crate::claims::{self, Model, Verdict};
use crate::plan::{Arm, Metric, Study};
use crate::rows::{ArmResults, Results, Row};

/// The most arms that the fit sees: more make it slow, and hardly better.
const ARMS_MAX: usize = 60;
/// The most that half of the figures of a path may be off for the model to explain it.
const MEDIAN_MAX: f64 = 0.1;
/// The most that each of them may be off.
const WORST_MAX: f64 = 0.3;

impl StudyReport {
    /// Decides by the model what it can of the claims that are not testable, and says so in the warnings. `results` are those that the
    /// claims were decided on.
    pub(super) fn decide_by_model(&mut self, study: &Study, results: &Results, rows: &[Row]) -> Option<String> {
        let is_untested = |decision: &claims::Decision| decision.verdict == Verdict::NotTestable;
        if !self.complete || !self.claims.iter().any(is_untested) {
            return None;
        }
        let arms: Vec<&ArmResults> = results.arms.iter().filter(|arm| is_evidence(arm, results)).collect();
        if !could_help(study, &self.claims, results, &arms) {
            return None;
        }
        let arms = &arms[..arms.len().min(ARMS_MAX)];
        let gathered =
            Gathered::of_arms(&self.name, arms.iter().copied(), rows, &self.host.host, &self.targets).ok()?;
        let mut calibrated = calibrate::calibrate(&gathered, &HoldOut::Nothing).ok()?;
        let unexplained = drop_unexplained(&mut calibrated, arms);
        calibrated.machine.power = self.energy.source.as_ref().and_then(power);
        let model = Model::new(&calibrated.machine);
        let decided = claims::decide_by_model(study, results, &self.looks, &model, &mut self.claims);
        summary(decided, gathered.observations.len(), &unexplained)
    }
}

/// The power of the machine, if the study's joules are those of a model of it.
fn power(source: &Source) -> Option<Power> {
    let PowerModel { idle_watts, core_watts } = source.name.parse().ok().filter(|_| source.modelled)?;
    // The study's model counts processor time, whichever hardware thread of a core it is of.
    Some(Power { idle_w: idle_watts, core_w: core_watts, second_thread_w: core_watts, per_mb_per_s_w: 0.0 })
}

/// What came of the model, in a sentence; `None` if it had nothing to say.
fn summary(decided: usize, arms: usize, unexplained: &[Unexplained]) -> Option<String> {
    let paths: Vec<String> = unexplained.iter().map(Unexplained::in_words).collect();
    let of_paths = format!("it does not explain {} here, and decides nothing about it", paths.join(", "));
    match (decided, paths.is_empty()) {
        (0, true) => None,
        (0, false) => Some(format!(
            "the model (docs/model.md), calibrated on {arms} arms of this study, decides no claim that is not testable here: {of_paths}"
        )),
        (_, explains_all) => {
            let rest = if explains_all { String::new() } else { format!("; {of_paths}") };
            Some(format!(
                "{decided} claims ask for more than was measured and rest on the model, calibrated on {arms} arms of this study \
                 (docs/model.md); they do not count as measured{rest}"
            ))
        }
    }
}

/// A path that the fit does not explain.
#[derive(Debug, PartialEq)]
struct Unexplained {
    path: String,
    /// How far half of its figures are off at least, and the worst of them; `None` if its submission thread never had a core of its own.
    off: Option<(f64, f64)>,
}

impl Unexplained {
    fn in_words(&self) -> String {
        let why = match self.off {
            Some((median, worst)) => {
                format!("half of its figures are off by {:.0} % or more, one by {:.0} %", median * 100.0, worst * 100.0)
            }
            None => "its submission thread never had a core of its own".to_owned(),
        };
        format!("{} ({why})", self.path)
    }
}

/// Takes the paths from the machine whose arms the fit does not explain, and returns them. A path with submission threads needs an
/// arm whose threads had cores of their own: sharing one tells when the threads run, and not what a request costs.
fn drop_unexplained(calibrated: &mut Calibrated, arms: &[&ArmResults]) -> Vec<Unexplained> {
    let mut unexplained = Vec::new();
    calibrated.machine.paths.retain(|path, _| {
        let mut off: Vec<f64> =
            calibrated.fitted.iter().filter(|residual| residual.path == *path).map(Residual::off).collect();
        off.sort_by(f64::total_cmp);
        let (median, worst) = (off.get(off.len() / 2).copied(), off.last().copied());
        let (median, worst) = (median.unwrap_or(f64::INFINITY), worst.unwrap_or(f64::INFINITY));
        let is_near = median <= MEDIAN_MAX && worst <= WORST_MAX;
        let of_path = || arms.iter().map(|arm| &arm.arm).filter(|arm| arm.path.to_string() == *path);
        let is_free = |arm: &Arm| arm.cores.is_none_or(|cores| arm.threads_in_all() <= cores);
        let was_free = of_path().any(is_free) || of_path().all(|arm| !arm.path.polls_submissions());
        if !(is_near && was_free) {
            unexplained.push(Unexplained { path: path.clone(), off: (!is_near).then_some((median, worst)) });
        }
        is_near && was_free
    });
    unexplained
}

/// Whether an arm tells what its path costs: in a guest, only if what is busy has cores of its own.
fn is_evidence(arm: &ArmResults, results: &Results) -> bool {
    arm.arm.peer.is_none() && results.lab.is_none_or(|lab| claims::shared_cores(&arm.arm, Metric::Iops, lab).is_none())
}

/// Whether the model could decide a check that is not testable, and it needs only paths that were measured.
fn could_help(study: &Study, decisions: &[claims::Decision], results: &Results, arms: &[&ArmResults]) -> bool {
    let measured: HashSet<String> =
        arms.iter().filter(|arm| calibrate::why_not(&arm.arm).is_none()).map(|arm| arm.arm.path.to_string()).collect();
    let all = results.arms.iter().map(|arm| &arm.arm).chain(results.left_out.iter().map(|left_out| &left_out.arm));
    let all: Vec<&Arm> = all.filter(|arm| arm.peer.is_none()).collect();
    let claims = study.claims.iter().zip(decisions).filter(|(_, decision)| decision.verdict == Verdict::NotTestable);
    let checks = claims.flat_map(|(claim, decision)| {
        let could_decide = |check| claims::could_decide(claim, check, results.lab);
        claim.checks.iter().zip(&decision.checks).filter(move |(check, _)| could_decide(check))
    });
    let untested = checks.filter(|(_, decision)| decision.verdict == Verdict::NotTestable);
    untested.map(|(check, _)| check).any(|check| {
        let selections = check.rule.selections().into_iter();
        let needed: Vec<&&Arm> = selections.flat_map(|selection| selection.of(&all, |arm| arm)).collect();
        !needed.is_empty() && needed.iter().all(|arm| measured.contains(&arm.path.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use iolane_model::PUBLISHED;

    use super::*;

    fn arm(path: &str, cores: Option<usize>) -> ArmResults {
        let arm = Arm { path: path.parse().unwrap(), cores, ..Arm::of_null(path) };
        ArmResults { arm, rows: Vec::new() }
    }

    /// What is dropped if each figure of each path is off by these shares, and these arms were measured.
    fn dropped(off: &[f64], arms: &[ArmResults]) -> Vec<Unexplained> {
        let machine = PUBLISHED[0].machine().unwrap();
        let of_path = |path: &String| {
            let residual = |off: &f64| Residual {
                path: path.clone(),
                what: String::new(),
                observed: 100.0,
                predicted: 100.0 * (1.0 + off),
            };
            off.iter().map(residual).collect::<Vec<Residual>>()
        };
        let fitted = machine.paths.keys().flat_map(of_path).collect();
        let (held_out, not_used, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut calibrated = Calibrated { machine, fitted, held_out, not_used, notes };
        drop_unexplained(&mut calibrated, &arms.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_path_whose_figures_are_far_off_decides_nothing_and_a_submission_thread_needs_a_core_once() {
        let sqpoll = "io_uring+sqpoll,fixedfiles,plain";
        let free = [arm(sqpoll, Some(1)), arm(sqpoll, Some(2)), arm("nvme", Some(1))];
        assert!(dropped(&[0.01, -0.05, 0.25], &free).is_empty());
        for off in [&[0.01, 0.02, 0.5][..], &[0.01, 0.15, 0.2], &[0.01, 0.02, -0.3]] {
            assert_eq!(dropped(off, &free).len(), 5, "{off:?}");
        }
        assert_eq!(dropped(&[0.01], &[arm(sqpoll, Some(1))]), [Unexplained { path: sqpoll.to_owned(), off: None }]);
    }

    #[test]
    fn the_model_has_the_power_that_the_study_assumed_and_none_that_was_measured() {
        let modelled = Source::modelled(&"idle=40,core=10".parse().unwrap());
        let power = power(&modelled).unwrap();
        assert_eq!((power.idle_w, power.core_w, power.second_thread_w), (40.0, 10.0, 10.0));
        assert_eq!(super::power(&Source::measured("idle=40,core=10", "a socket")), None);
    }

    #[test]
    fn the_summary_says_what_the_model_decided_and_what_it_does_not_explain() {
        let unexplained = [("libaio", Some((0.124, 0.5))), ("io_uring+sqpoll", None)]
            .map(|(path, off)| Unexplained { path: path.to_owned(), off });
        assert_eq!(summary(0, 9, &[]), None);
        let refused = summary(0, 9, &unexplained).unwrap();
        for words in [
            "decides no claim that is not testable here: it does not explain libaio (half of its figures are off by 12 % or more, one by 50 %)",
            "io_uring+sqpoll (its submission thread never had a core of its own) here",
        ] {
            assert!(refused.contains(words), "{refused}");
        }
        assert!(summary(2, 9, &[]).unwrap().ends_with("they do not count as measured"));
        assert!(
            summary(2, 9, &unexplained).unwrap().contains("they do not count as measured; it does not explain libaio")
        );
    }
}
