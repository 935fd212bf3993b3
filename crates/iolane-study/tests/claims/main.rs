//! Every claim of the built-in studies is decided right: on results that have what was published, on results that have
//! the opposite, and where something was not measured or runs do not agree. The results are made, by a model for each
//! study; nothing here measures.

mod model;
mod models;

use std::collections::BTreeSet;

use iolane_study::claims::{Decision, Verdict, decide, lint};
use iolane_study::plan::{Arm, BUILT_IN, Claim, Rule, Scale, Selection, Study};
use iolane_study::records::Results;

use model::{Figures, METER, Model, NOISE, Spread, left_out, measured};
use models::MODELS;

const SCALES: [Scale; 2] = [Scale::Scaled, Scale::Full];

fn study(name: &str) -> Study {
    let built_in = iolane_study::plan::built_in(name).unwrap();
    Study::parse(built_in.text, name).unwrap_or_else(|error| panic!("{error}"))
}

/// A claim, alone in its study, and the arms that it is about.
struct Case {
    model: &'static Model,
    study: Study,
    scale: Scale,
    arms: Vec<Arm>,
}

impl Case {
    fn claim(&self) -> &Claim {
        &self.study.claims[0]
    }

    fn decide(&self, results: &Results) -> Decision {
        let [decision] = <[Decision; 1]>::try_from(decide(&self.study, results)).unwrap();
        decision
    }

    /// What was published.
    fn published(&self) -> Results {
        measured(&self.arms, self.model.figures, &Spread::Own(NOISE))
    }

    fn name(&self) -> String {
        format!("{} {:?}", self.claim().id, self.scale)
    }
}

/// Every claim at each scale.
fn cases() -> impl Iterator<Item = Case> {
    MODELS.iter().flat_map(|model| SCALES.map(|scale| (model, scale))).flat_map(|(model, scale)| {
        let whole = study(model.study);
        let arms = whole.arms(scale).unwrap();
        let of_claim = move |claim: &Claim| {
            let study = Study { claims: vec![claim.clone()], ..whole.clone() };
            let selected: Vec<&Arm> =
                selections(claim).into_iter().flat_map(|select| select.of(&arms, |arm| arm)).collect();
            let arms = arms.iter().filter(|arm| selected.contains(arm)).cloned().collect();
            Case { model, study, scale, arms }
        };
        study(model.study).claims.iter().map(of_claim).collect::<Vec<_>>()
    })
}

fn case(id: &str) -> Case {
    cases().find(|case| case.claim().id == id).unwrap()
}

/// What each check selects, first what it is about, then what that is set beside.
fn selections(claim: &Claim) -> Vec<&Selection> {
    let of_rule = |rule| match rule {
        &Rule::Ratio { ref of, ref to, .. } | &Rule::Crossing { ref of, ref to, .. } => vec![&of.select, &to.select],
        Rule::Value { of, .. } => vec![&of.select],
        Rule::Order { of, .. } => vec![of],
    };
    claim.checks.iter().flat_map(|check| of_rule(&check.rule)).collect()
}

#[test]
fn the_built_in_studies_select_what_they_mean_at_both_scales() {
    for built_in in BUILT_IN {
        assert_eq!(lint(&study(built_in.name)), Vec::<String>::new(), "{}", built_in.name);
    }
}

#[test]
fn every_study_has_a_model_and_every_claim_a_distortion() {
    let ids = |names: Vec<&str>| names.into_iter().map(String::from).collect::<BTreeSet<String>>();
    let built_in = ids(BUILT_IN.iter().map(|built_in| built_in.name).collect());
    assert_eq!(ids(MODELS.iter().map(|model| model.study).collect()), built_in);
    for model in MODELS {
        let study = study(model.study);
        let claims = ids(study.claims.iter().map(|claim| claim.id.as_str()).collect());
        let distorted = ids(model.distortions.iter().map(|distortion| distortion.claim).collect());
        assert_eq!(distorted, claims, "{}: what would make each claim fail", model.study);
    }
}

#[test]
fn every_claim_holds_on_results_that_have_what_was_published() {
    for (model, scale) in MODELS.iter().flat_map(|model| SCALES.map(|scale| (model, scale))) {
        let study = study(model.study);
        let results = measured(&study.arms(scale).unwrap(), model.figures, &Spread::Own(NOISE));
        for decision in decide(&study, &results) {
            assert_eq!(decision.verdict, Verdict::Holds, "{} {scale:?}: {}", decision.id, decision.why);
            assert!(decision.measured.is_some_and(|measured| !measured.is_empty()), "{}", decision.id);
            assert!(decision.checks.iter().all(|check| check.measured.is_some()), "{}", decision.id);
        }
    }
}

#[test]
fn every_claim_fails_on_results_that_have_the_opposite() {
    for case in cases() {
        let distortions = case.model.distortions.iter().filter(|distortion| distortion.claim == case.claim().id);
        for distortion in distortions {
            let distorted = |arm: &Arm| {
                let mut figures = (case.model.figures)(arm);
                (distortion.distort)(arm, &mut figures);
                figures
            };
            let decision = case.decide(&measured(&case.arms, distorted, &Spread::Own(NOISE)));
            let what = format!("{}: {}: {}", case.name(), distortion.what, decision.why);
            assert_eq!(decision.verdict, Verdict::DoesNotHold, "{what}");
            assert!(decision.why.contains("was asked") || decision.why.contains("never falls below"), "{what}");
        }
    }
}

#[test]
fn a_path_that_a_claim_cannot_do_without_makes_it_not_testable_with_the_reason() {
    let reason = "no such path on this machine";
    for case in cases() {
        let whole = case.published();
        let alone: BTreeSet<&String> = selections(case.claim())
            .into_iter()
            .filter_map(|select| if let [path] = &select.path[..] { Some(path) } else { None })
            .collect();
        for path in alone {
            let decision = case.decide(&left_out(&whole, reason, |arm| arm.name == *path));
            let what = format!("{} without {path}: {}", case.name(), decision.why);
            assert_eq!(decision.verdict, Verdict::NotTestable, "{what}");
            assert!(decision.why.contains(reason) && decision.why.contains(path.as_str()), "{what}");
        }
    }
}

#[test]
fn nothing_measured_makes_every_claim_not_testable_with_the_reason() {
    for case in cases() {
        let decision = case.decide(&left_out(&case.published(), "the drive is in use", |_| true));
        assert_eq!((decision.verdict, &decision.measured), (Verdict::NotTestable, &None), "{}", case.name());
        assert!(decision.why.contains("the drive is in use"), "{}: {}", case.name(), decision.why);
    }
}

#[test]
fn without_a_meter_the_claims_about_energy_are_not_testable_and_the_others_hold() {
    for case in cases().filter(|case| case.study.name == "hotstorage23") {
        let without_meter = |arm: &Arm| Figures { ios_per_joule: None, ..(case.model.figures)(arm) };
        let decision = case.decide(&measured(&case.arms, without_meter, &Spread::Own(NOISE)));
        if ["E2", "E3", "E4", "E7", "E8"].contains(&decision.id.as_str()) {
            assert_eq!(decision.verdict, Verdict::NotTestable, "{}", case.name());
            assert!(decision.why.contains("no meter: joules were not measured"), "{}", decision.why);
        } else {
            assert_eq!(decision.verdict, Verdict::Holds, "{}: {}", case.name(), decision.why);
        }
    }
}

#[test]
fn with_a_meter_the_claims_about_energy_are_decided_and_say_which() {
    for case in cases().filter(|case| case.study.name == "hotstorage23") {
        let decision = case.decide(&case.published());
        if !["E2", "E3", "E4", "E7", "E8"].contains(&decision.id.as_str()) {
            continue;
        }
        assert_eq!(decision.verdict, Verdict::Holds, "{}: {}", case.name(), decision.why);
        assert!(decision.why.contains(&format!("; joules by {METER}")), "{}", decision.why);
    }
}

#[test]
fn without_counters_the_claims_about_cache_and_cycles_are_not_testable() {
    for (id, words) in [("S12", "cache misses"), ("F7", "processor cycles")] {
        let case = case(id);
        let without = |arm: &Arm| Figures { cache_miss_rate: None, cycles_per_io: None, ..(case.model.figures)(arm) };
        let decision = case.decide(&measured(&case.arms, without, &Spread::Own(NOISE)));
        assert_eq!(decision.verdict, Verdict::NotTestable);
        assert!(decision.why.contains(&format!("{words} were not counted")), "{}", decision.why);
    }
}

/// From Linux 5.19 on, blocking calls cannot poll: Table 2 has a path less.
#[test]
fn the_order_of_table_2_is_decided_without_the_path_that_no_kernel_of_today_has() {
    let case = case("E1");
    let results = left_out(&case.published(), "accepted, not polled", |arm| arm.name == "posix-sio cpoll");
    let decision = case.decide(&results);
    assert_eq!(decision.verdict, Verdict::Holds, "{}", decision.why);
    assert!(decision.why.contains("without posix-sio cpoll (1 arm: accepted, not polled)"), "{}", decision.why);
    let three_less = ["spdk", "libaio", "posix-aio"];
    let results = left_out(&case.published(), "not here", |arm| three_less.contains(&arm.name.as_str()));
    assert_eq!(case.decide(&results).verdict, Verdict::NotTestable, "15 of 36 pairs");
}

/// What a claim is about differs fifty-fold between repeats, in one of which it is what was published; what that is set
/// beside does not differ.
#[test]
fn runs_that_do_not_agree_make_every_claim_inconclusive() {
    for case in cases() {
        let select = |select: &Selection| select.of(&case.arms, |arm| arm);
        let unsettled = case.claim().checks.iter().flat_map(|check| match &check.rule {
            // The same arms on both sides keep their ratio, unless one differs from the others.
            Rule::Ratio { of, to, .. } if select(&of.select) == select(&to.select) => {
                select(&of.select).into_iter().take(1).collect()
            }
            Rule::Ratio { of, .. } | Rule::Value { of, .. } | Rule::Crossing { of, .. } => select(&of.select),
            // And so do all arms their order.
            Rule::Order { of, .. } => select(of).into_iter().step_by(2).collect(),
        });
        let results = measured(&case.arms, case.model.figures, &Spread::Fiftyfold(unsettled.collect()));
        let decision = case.decide(&results);
        assert_eq!(decision.verdict, Verdict::Inconclusive, "{}: {}", case.name(), decision.why);
    }
}

#[test]
fn two_repeats_decide_no_claim() {
    for case in cases() {
        let mut results = case.published();
        results.arms.iter_mut().for_each(|arm| arm.rows.truncate(2));
        let decision = case.decide(&results);
        assert_eq!(decision.verdict, Verdict::Inconclusive, "{}: {}", case.name(), decision.why);
    }
}
