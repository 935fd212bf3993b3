//! Claims that a machine is too small to measure are decided by the model, and never count as measured.

use std::sync::LazyLock;

use iolane_measure::host::LabMachine;
use iolane_model::{MachineFile, PUBLISHED};
use iolane_study::claims::{Decision, Looks, Model, Verdict, could_decide, decide, decide_by_model};
use iolane_study::plan::{Scale, Study, built_in};
use iolane_study::rows::{LeftOut, Results};

/// The machine of systor22, fitted once.
fn machine() -> MachineFile {
    static MACHINE: LazyLock<MachineFile> = LazyLock::new(|| {
        PUBLISHED.into_iter().find(|published| published.name == "systor22").unwrap().machine().unwrap()
    });
    MACHINE.clone()
}

/// The decisions of some claims of a study of which nothing was measured, before and after the model.
fn decided(name: &str, claims: &[&str], machine: &MachineFile) -> (Vec<Decision>, Vec<Decision>) {
    let mut study = Study::parse(built_in(name).unwrap().text, name).unwrap();
    study.claims.retain(|claim| claims.contains(&claim.id.as_str()));
    let arms = study.arms(Scale::Scaled).unwrap().into_iter();
    let left_out =
        arms.map(|arm| LeftOut { arm, reason: "too few cores".into(), remedy: String::new(), failed: false });
    let results = Results { left_out: left_out.collect(), ..Results::default() };
    let before = decide(&study, &results, &Looks::default());
    let mut after = before.clone();
    decide_by_model(&study, &results, &Looks::default(), &Model::new(machine), &mut after);
    (before, after)
}

#[test]
fn the_published_machine_decides_what_was_published_of_several_drives() {
    let machine = machine();
    let (before, after) = decided("systor22", &["S7", "S10", "S11"], &machine);
    assert!(before.iter().all(|decision| decision.verdict == Verdict::NotTestable));
    let verdicts: Vec<(&str, Verdict)> =
        after.iter().map(|decision| (decision.id.as_str(), decision.verdict)).collect();
    for decision in &after {
        for check in &decision.checks {
            assert!(check.why.starts_with("by model, calibrated on what was measured here: "), "{}", check.why);
            let measured = check.measured.unwrap();
            assert!(measured.low <= measured.value && measured.value <= measured.high, "{measured:?}");
        }
        assert!(decision.measured.as_ref().unwrap().contains("by model: "), "{:?}", decision.measured);
    }
    let expected = [("S7", Verdict::HoldsByModel), ("S10", Verdict::HoldsByModel)];
    assert_eq!(verdicts[..2], expected, "{after:?}");
    // What the text states of one job tells the ratio of libaio to io_uring within some 8 %, and the bound of S11 is as near.
    assert!(matches!(verdicts[2].1, Verdict::HoldsByModel | Verdict::Inconclusive), "{:?}", after[2]);
}

#[test]
fn what_the_machine_was_not_calibrated_for_stays_not_testable() {
    let mut machine = machine();
    machine.paths.remove("nvme");
    let (_, after) = decided("systor22", &["S7", "S8"], &machine);
    // S7 compares with the driver; S8 does not.
    assert_eq!(after[0].verdict, Verdict::NotTestable, "{}", after[0].why);
    assert!(after[1].why.contains("by model, calibrated on"), "{}", after[1].why);
    // Blocks of a size, and joules, that nothing was measured or stated of.
    let (_, after) = decided("hotstorage23", &["E2", "E6"], &machine);
    assert!(after.iter().all(|decision| decision.verdict == Verdict::NotTestable), "{after:?}");
}

#[test]
fn what_a_guest_lacks_besides_cores_and_drives_is_not_for_the_model() {
    let lab = LabMachine { cpus: 2, host_cpus: 2, drives_have_ceiling: true, exact: false };
    let testable = |study: &str, id: &str| {
        let study = Study::parse(built_in(study).unwrap().text, study).unwrap();
        let claim = study.claims.iter().find(|claim| claim.id == id).unwrap();
        claim.checks.iter().map(|check| could_decide(claim, check, Some(lab))).collect::<Vec<_>>()
    };
    assert!(testable("systor22", "S7").into_iter().all(|could| could));
    // Writes to an emulated drive reach no medium, and the model knows neither caches nor cycles.
    assert!(testable("ijraset24", "B3").into_iter().all(|could| !could));
    assert!(testable("systor22", "S12").into_iter().all(|could| !could));
    assert!(testable("floe26", "F7").into_iter().all(|could| !could));
}

#[test]
fn a_machine_on_which_a_claim_is_wrong_says_so_by_model() {
    let mut machine = machine();
    // libaio that takes ten times as long.
    let costs = machine.paths.get_mut("libaio,getevents").unwrap();
    costs.0 = costs.0.map(|_, number| (10.0 * number.value()).into());
    machine.draws.retain(|name, _| !name.contains("libaio"));
    let (_, after) = decided("systor22", &["S8"], &machine);
    assert_eq!(after[0].verdict, Verdict::DoesNotHoldByModel, "{}", after[0].why);
}
