//! Every claim of the built-in studies is decided correctly on results that agree with the publication, on results that
//! contradict it, and on incomplete or noisy results. The results come from a model of each study; nothing is measured.

mod model;
mod models;
mod wrong_verdicts;

use std::collections::BTreeSet;
use std::path::Path;

use iolane_study::claims::{Decision, Lint, Looks, Verdict, decide, lint};
use iolane_study::plan::{Arm, BUILT_IN, Claim, Rule, Scale, Selection, Study};
use iolane_study::rows::Results;

use model::{Figures, METER, Model, NOISE, Spread, left_out, measured};
use models::MODELS;

const SCALES: [Scale; 2] = [Scale::Scaled, Scale::Full];

fn study(name: &str) -> Study {
    let built_in = iolane_study::plan::built_in(name).unwrap();
    Study::parse(built_in.text, name).unwrap_or_else(|error| panic!("{error}"))
}

/// A study reduced to one claim, and the arms that the claim uses.
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
        let [decision] = <[Decision; 1]>::try_from(decide(&self.study, results, &Looks::default())).unwrap();
        decision
    }

    /// Results that agree with the publication.
    fn published(&self) -> Results {
        measured(&self.arms, self.model.figures, &Spread::Own(NOISE))
    }

    fn name(&self) -> String {
        format!("{} {:?}", self.claim().id, self.scale)
    }
}

/// Claims of which the small scale has no arms: those about twenty drives.
fn is_full_only(claim: &str) -> bool {
    claim == "S19"
}

/// Every claim at each scale that has its arms.
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
        let has_arms = move |case: &Case| case.scale == Scale::Full || !is_full_only(&case.claim().id);
        study(model.study).claims.iter().map(of_claim).filter(has_arms).collect::<Vec<_>>()
    })
}

fn case(id: &str) -> Case {
    cases().find(|case| case.claim().id == id).unwrap()
}

fn selections(claim: &Claim) -> Vec<&Selection> {
    claim.checks.iter().flat_map(|check| check.rule.selections()).collect()
}

#[test]
fn every_check_of_the_built_in_studies_selects_its_arms_at_both_scales() {
    for built_in in BUILT_IN {
        let Lint { errors, notes } = lint(&study(built_in.name));
        assert_eq!(errors, [""; 0], "{}", built_in.name);
        let of_scale = |note: &String| note.starts_with("claim S19: ") && note.ends_with("at scale `scaled`");
        assert!(notes.iter().all(of_scale), "{notes:#?}");
    }
}

#[test]
fn every_study_with_claims_has_a_model_and_every_claim_a_distortion() {
    let ids = |names: Vec<&str>| names.into_iter().map(String::from).collect::<BTreeSet<String>>();
    let names = BUILT_IN.iter().map(|built_in| built_in.name);
    let with_claims = ids(names.filter(|name| !study(name).claims.is_empty()).collect());
    assert_eq!(ids(MODELS.iter().map(|model| model.study).collect()), with_claims);
    for model in MODELS {
        let study = study(model.study);
        let claims = ids(study.claims.iter().map(|claim| claim.id.as_str()).collect());
        let distorted = ids(model.distortions.iter().map(|distortion| distortion.claim).collect());
        assert_eq!(distorted, claims, "{}: what would make each claim fail", model.study);
    }
}

/// docs/published-studies.md names where each result of the texts is checked.
#[test]
fn the_page_of_published_results_names_every_claim_and_no_other() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published-studies.md");
    let page = std::fs::read_to_string(page).unwrap();
    let is_id = |word: &&str| {
        let (letter, number) = word.split_at(word.len().min(1));
        ["S", "B", "E", "F"].contains(&letter) && number.parse::<u32>().is_ok()
    };
    let cells = page.lines().filter_map(|line| line.trim_end_matches('|').rsplit('|').next());
    let words = cells.flat_map(|cell| cell.split(|c: char| !c.is_alphanumeric()));
    let named: BTreeSet<String> = words.filter(is_id).map(str::to_owned).collect();
    let claims = BUILT_IN.iter().flat_map(|built_in| study(built_in.name).claims);
    assert_eq!(named, claims.map(|claim| claim.id).collect::<BTreeSet<String>>());
}

#[test]
fn every_claim_holds_on_results_that_agree_with_the_publication() {
    for (model, scale) in MODELS.iter().flat_map(|model| SCALES.map(|scale| (model, scale))) {
        let study = study(model.study);
        let results = measured(&study.arms(scale).unwrap(), model.figures, &Spread::Own(NOISE));
        for decision in decide(&study, &results, &Looks::default()) {
            if is_full_only(&decision.id) && scale == Scale::Scaled {
                assert_eq!(decision.verdict, Verdict::NotTestable, "{}", decision.id);
                continue;
            }
            assert_eq!(decision.verdict, Verdict::Holds, "{} {scale:?}: {}", decision.id, decision.why);
            assert!(decision.measured.is_some_and(|measured| !measured.is_empty()), "{}", decision.id);
            assert!(decision.checks.iter().all(|check| check.measured.is_some()), "{}", decision.id);
        }
    }
}

#[test]
fn every_claim_fails_on_results_that_contradict_it() {
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
            assert!(decision.why.contains(", required ") || decision.why.contains("never falls below"), "{what}");
        }
    }
}

#[test]
fn without_a_path_that_it_requires_a_claim_is_not_testable_with_the_reason() {
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
fn without_measurements_every_claim_is_not_testable_with_the_reason() {
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
        if ["E2", "E3", "E4", "E7", "E8", "E13", "E14", "E19"].contains(&decision.id.as_str()) {
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
        if !["E2", "E3", "E4", "E7", "E8", "E13", "E14", "E19"].contains(&decision.id.as_str()) {
            continue;
        }
        assert_eq!(decision.verdict, Verdict::Holds, "{}: {}", case.name(), decision.why);
        assert!(decision.why.contains(&format!("; joules by {METER}")), "{}", decision.why);
    }
}

#[test]
fn without_counters_the_claims_about_cache_and_cycles_are_not_testable() {
    for (id, words) in [("S12", "cache misses"), ("F7", "CPU cycles")] {
        let case = case(id);
        let without = |arm: &Arm| Figures { cache_miss_rate: None, cycles_per_io: None, ..(case.model.figures)(arm) };
        let decision = case.decide(&measured(&case.arms, without, &Spread::Own(NOISE)));
        assert_eq!(decision.verdict, Verdict::NotTestable);
        assert!(decision.why.contains(&format!("{words} were not counted")), "{}", decision.why);
    }
}

/// Since Linux 5.19 blocking calls cannot poll, which removes a path from Table 2.
#[test]
fn the_order_of_table_2_is_decided_without_the_path_that_current_kernels_lack() {
    let case = case("E1");
    let results = left_out(&case.published(), "accepted, not polled", |arm| arm.name == "posix-sio iopoll");
    let decision = case.decide(&results);
    assert_eq!(decision.verdict, Verdict::Holds, "{}", decision.why);
    let why = &decision.checks[0].why;
    assert!(why.contains("without posix-sio iopoll (1 arm: accepted, not polled)"), "{why}");
    let three_less = ["spdk", "libaio", "posix-aio"];
    let results = left_out(&case.published(), "not here", |arm| three_less.contains(&arm.name.as_str()));
    assert_eq!(case.decide(&results).verdict, Verdict::NotTestable, "15 of 36 pairs");
}

/// The numerators differ up to fiftyfold between repeats, one of which agrees with the publication; the denominators do not
/// differ.
#[test]
fn repeats_that_disagree_make_every_claim_inconclusive() {
    // The joules of a run follow its I/Os, so that its watts do not differ.
    for case in cases().filter(|case| !["E13", "E19"].contains(&case.claim().id.as_str())) {
        let select = |select: &Selection| select.of(&case.arms, |arm| arm);
        let unsettled = case.claim().checks.iter().flat_map(|check| match &check.rule {
            // With the same arms on both sides, only a change of a single arm changes the ratio.
            Rule::Ratio { of, to, .. } if select(&of.select) == select(&to.select) => {
                select(&of.select).into_iter().take(1).collect()
            }
            Rule::Ratio { of, .. } | Rule::Value { of, .. } | Rule::Crossing { of, .. } => select(&of.select),
            // Likewise a change of all arms would keep their order.
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
