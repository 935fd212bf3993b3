//! Each rule and each verdict on a study of three paths; `tests/claims` covers the built-in studies.

use serde_json::json;

use super::*;
use crate::plan::{Arm, Scale, Study};
use crate::rows::{ArmResults, LeftOut, Results, Row, Warning};
use crate::stats::{Estimate, disturbance};
use iolane_measure::figures::RunFigure;
use iolane_measure::host::LabMachine;
use iolane_measure::telemetry::{Sourced, Unavailable};
use iolane_measure::workload::random_stream;

/// A study of paths a, b and c at depths 1, 4 and 16 with one claim of these checks.
fn study(checks: &str) -> Study {
    let text = format!(
        r#"
        name = "small"
        title = "three paths"
        paths = {{ a = "libaio", b = "psync", c = "io_uring" }}
        [[group]]
        path = ["a", "b", "c"]
        depth = [1, 4, 16]
        [[claim]]
        id = "X1"
        says = "a is fast"
        published = "a 20, b 10"
        differs = "drives differ"
        {checks}
        "#
    );
    Study::parse(&text, "small").unwrap_or_else(|error| panic!("{error}"))
}

/// A study with one check.
fn check(rule: &str) -> Study {
    study(&format!("[[claim.check]]\nsays = \"a over b\"\n{rule}"))
}

const A_OVER_B_AT_16: &str = r#"
    rule = "ratio"
    metric = "iops"
    of = { where = { path = "a", depth = 16 } }
    to = { where = { path = "b", depth = 16 } }
"#;

/// Sets the IOPS of a row.
fn iops(row: &mut Row, value: f64) {
    (row.ios, row.elapsed_s) = ((value * 1000.0) as u64, 1000.0);
}

/// Fills the row of a run, or returns a reason to leave the arm out.
type Fill<'a> = &'a dyn Fn(&mut Row) -> Result<(), &'static str>;

fn results(study: &Study, repeats: u32, fill: Fill<'_>) -> Results {
    let mut results = Results::default();
    for arm in study.arms(Scale::Scaled).unwrap() {
        let rows = (0..repeats).map(|repeat| {
            let mut row = Row::new(arm.clone(), repeat);
            fill(&mut row).map(|()| row)
        });
        match rows.collect::<Result<Vec<Row>, &str>>() {
            Ok(rows) => results.arms.push(ArmResults { arm, rows }),
            Err(reason) => {
                let (reason, remedy) = (reason.into(), String::new());
                results.left_out.push(LeftOut { arm, reason, remedy, failed: false });
            }
        }
    }
    results
}

/// The decision on the only claim of a study with this number of repeats.
fn decided(study: &Study, repeats: u32, fill: Fill<'_>) -> Decision {
    let results = results(study, repeats, fill);
    let [decision] = <[Decision; 1]>::try_from(decide(study, &results, &Looks::default())).unwrap();
    decision
}

/// The same noise for every arm of a repeat: it cancels out of ratios.
fn shared_noise(repeat: u32) -> f64 {
    [1.0, 0.9, 1.1, 0.8, 1.05][repeat as usize % 5]
}

/// Independent noise of each arm.
fn own_noise(row: &Row, size: f64) -> f64 {
    let place = row.arm.name.as_bytes()[0] as u32 * 3 + row.repeat * 7;
    1.0 + size * (f64::from(place % 11) / 5.0 - 1.0)
}

/// a twice as fast as b, c in between; deeper is faster.
fn plain(row: &mut Row) -> Result<(), &'static str> {
    let by_path = match row.arm.name.as_str() {
        "a" => 200.0,
        "b" => 100.0,
        _ => 150.0,
    };
    let noise = shared_noise(row.repeat);
    iops(row, by_path * f64::from(row.arm.workload.depth) * noise);
    Ok(())
}

#[test]
fn a_ratio_within_its_bounds_holds_and_shows_the_figures_behind_it() {
    let study = check(&format!("{A_OVER_B_AT_16} at_least = 1.5\n published = 1.8"));
    let decision = decided(&study, 5, &plain);
    assert_eq!(decision.verdict, Verdict::Holds);
    assert_eq!(decision.why, "2x (95 %: 2x to 2x), required at least 1.5x; published 1.8x");
    assert_eq!(decision.measured.as_deref(), Some("3.2 k IOPS (a) against 1.6 k IOPS (b)"));
    assert_eq!((decision.published.as_str(), decision.differs.as_str()), ("a 20, b 10", "drives differ"));
    let [check] = &decision.checks[..] else { panic!("{decision:?}") };
    assert_eq!((check.published, check.at_least, check.at_most), (Some(1.8), Some(1.5), None));
    assert_eq!(check.measured, Some(Estimate { value: 2.0, low: 2.0, high: 2.0 }));
}

#[test]
fn a_ratio_on_the_wrong_side_of_either_bound_does_not_hold() {
    for bounds in ["at_least = 2.5", "at_most = 1.9", "at_least = 0.5\nat_most = 1.0"] {
        let decision = decided(&check(&format!("{A_OVER_B_AT_16} {bounds}")), 5, &plain);
        assert_eq!(decision.verdict, Verdict::DoesNotHold, "{bounds}: {}", decision.why);
    }
    // A bound is within.
    for bounds in ["at_least = 2.0", "at_most = 2.0"] {
        assert_eq!(decided(&check(&format!("{A_OVER_B_AT_16} {bounds}")), 5, &plain).verdict, Verdict::Holds);
    }
}

#[test]
fn an_interval_on_both_sides_of_a_bound_is_inconclusive() {
    let noisy = |row: &mut Row| {
        let noise = own_noise(row, 0.3);
        iops(row, if row.arm.name == "a" { 200.0 } else { 100.0 } * noise);
        Ok(())
    };
    let decision = decided(&check(&format!("{A_OVER_B_AT_16} at_least = 2.0")), 5, &noisy);
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
}

#[test]
fn repeats_are_paired_by_their_numbers() {
    // b lacks repeat 0, a lacks repeat 4; by position nothing would cancel out.
    let study = check(&format!("{A_OVER_B_AT_16} at_least = 1.9\nat_most = 2.1"));
    let mut results = results(&study, 5, &plain);
    for arm in &mut results.arms {
        let lost = if arm.arm.name == "a" { 4 } else { 0 };
        arm.rows.retain(|row| row.repeat != lost);
    }
    assert_eq!(decide(&study, &results, &Looks::default())[0].verdict, Verdict::Holds);
}

#[test]
fn fewer_than_three_common_repeats_decide_nothing() {
    let study = check(&format!("{A_OVER_B_AT_16} at_least = 1.5"));
    for (repeats, words) in [(1, "from 1 repeat; a verdict needs 3"), (2, "from 2 repeats; a verdict needs 3")] {
        let decision = decided(&study, repeats, &plain);
        assert_eq!(decision.verdict, Verdict::Inconclusive);
        assert!(decision.why.contains(words), "{}", decision.why);
    }
    assert_eq!(decided(&study, 3, &plain).verdict, Verdict::Holds);
    let mut apart = results(&study, 6, &plain);
    for arm in &mut apart.arms {
        let even = arm.arm.name == "a";
        arm.rows.retain(|row| row.repeat.is_multiple_of(2) == even);
    }
    let decision = &decide(&study, &apart, &Looks::default())[0];
    assert_eq!((decision.verdict, &decision.measured), (Verdict::Inconclusive, &None));
    assert_eq!(decision.why, "no repeat is common to all arms of the check");
}

#[test]
fn a_ratio_to_zero_is_inconclusive() {
    let study = check(&format!("{} at_most = 1.0", A_OVER_B_AT_16.replace("iops", "syscalls_per_io")));
    let decision = decided(&study, 5, &|row| {
        row.figures.set(RunFigure::SyscallsPerIo, Ok(Sourced::new(0.0, "test")));
        Ok(())
    });
    assert_eq!(decision.verdict, Verdict::Inconclusive);
    assert_eq!(decision.checks[0].measured, None);
    assert!(decision.why.contains("0 calls per I/O (b)"), "{}", decision.why);
}

#[test]
fn a_value_that_is_not_a_number_counts_as_a_missing_repeat() {
    let study = check(&format!("{} at_least = 0.9\nat_most = 1.1", A_OVER_B_AT_16.replace("iops", "mean_ns")));
    let some_broken = |broken: u32| {
        move |row: &mut Row| {
            row.mean_ns = Some(if row.repeat < broken { f64::NAN } else { 5.0 });
            Ok(())
        }
    };
    assert_eq!(decided(&study, 5, &some_broken(2)).verdict, Verdict::Holds);
    assert_eq!(decided(&study, 5, &some_broken(3)).verdict, Verdict::Inconclusive);
    let decision = decided(&study, 5, &some_broken(5));
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert_eq!(decision.why, "not measured: a, b (2 arms: no latency was measured)");
}

#[test]
fn the_largest_and_the_smallest_are_those_of_the_medians() {
    // c leads in repeat 0, a in the others: a is the larger one.
    let turns = |row: &mut Row| {
        let value = match (row.arm.name.as_str(), row.repeat) {
            ("b", _) => 90.0,
            ("c", 0) => 101.0,
            ("c", _) => 95.0,
            _ => 100.0,
        };
        iops(row, value);
        Ok(())
    };
    let best = |take: &str, bounds: &str| {
        check(&format!(
            r#"
            rule = "ratio"
            metric = "iops"
            of = {{ where = {{ path = ["a", "c"], depth = 4 }}, take = "{take}" }}
            to = {{ where = {{ path = "b", depth = 4 }} }}
            {bounds}
            "#
        ))
    };
    assert_eq!(decided(&best("largest", "at_least = 1.1"), 5, &turns).verdict, Verdict::Holds);
    assert_eq!(decided(&best("smallest", "at_most = 1.15"), 5, &turns).verdict, Verdict::Holds);
    let decision = decided(&best("largest", "at_least = 1.1"), 5, &turns);
    assert_eq!(decision.measured.as_deref(), Some("100 IOPS (a) against 90 IOPS (b)"));
    assert!(decision.why.starts_with("1.11x (95 %: "), "{}", decision.why);
}

/// Six arms are slower than a in four repeats of five, and each leads in another one: the best of each repeat is always ahead of a.
#[test]
fn the_best_of_many_slower_arms_is_not_ahead_of_another_one() {
    let study = check(
        r#"
        rule = "ratio"
        metric = "iops"
        of = { where = { path = "a", depth = 16 } }
        to = { where = { path = ["b", "c"] }, take = "largest" }
        at_least = 1.0
        "#,
    );
    let in_turn = |row: &mut Row| {
        let arm = row.arm.workload.depth.ilog2() / 2 + if row.arm.name == "c" { 3 } else { 0 };
        let leads = row.arm.name != "a" && row.repeat % 5 == arm % 5;
        iops(
            row,
            if row.arm.name == "a" {
                100.0
            } else if leads {
                110.0
            } else {
                95.0
            },
        );
        Ok(())
    };
    let decision = decided(&study, 5, &in_turn);
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
}

/// Each of forty checks may fail by chance. The interval of one alone is outside its bound; shared among forty, it is not.
#[test]
fn looks_at_the_same_repeats_decide_with_the_error_that_earlier_looks_left() {
    let study = check(&format!("{A_OVER_B_AT_16} at_least = 1"));
    // Seven of seven repeats are above the bound by chance in one of 128 cases, which is more than the first look may spend.
    let of_a = [101.0, 102.0, 103.0, 105.0, 108.0, 130.0, 160.0];
    let results = results(&study, 7, &|row: &mut Row| {
        iops(row, if row.arm.name == "a" { of_a[row.repeat as usize] } else { 100.0 });
        Ok(())
    });
    let verdict = |looks: &Looks| decide(&study, &results, looks).remove(0).verdict;
    let mut looks = Looks::first(7);
    assert_eq!(verdict(&looks), Verdict::Inconclusive);
    (1..Looks::MAX).for_each(|_| looks.add(7));
    assert_eq!(verdict(&looks), Verdict::Holds);
}

#[test]
fn of_several_checks_one_must_fail_more_clearly_than_alone() {
    let one = format!("{A_OVER_B_AT_16} at_least = 2.0");
    let low = |row: &mut Row| {
        let noise = [0.97, 0.98, 0.955, 0.96, 0.965][row.repeat as usize];
        iops(row, if row.arm.name == "a" { 200.0 * noise } else { 100.0 });
        Ok(())
    };
    let alone = check(&one);
    assert_eq!(decided(&alone, 5, &low).verdict, Verdict::DoesNotHold);
    let mut of_forty = alone.clone();
    let mut holding = of_forty.claims[0].checks[0].clone();
    holding.at_least = Some(1.0);
    of_forty.claims[0].checks.extend(std::iter::repeat_n(holding, 39));
    let decision = decided(&of_forty, 5, &low);
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
    assert!(decision.checks[0].why.contains("where each of several comparisons could fail the claim"), "{decision:?}");
}

#[test]
fn the_chosen_arm_of_several_is_named_with_the_factors_that_distinguish_it() {
    let study = check(
        r#"
        rule = "value"
        metric = "iops"
        of = { where = { path = ["a", "b"] }, take = "largest" }
        at_least = 3000
        published = 3500
        "#,
    );
    let decision = decided(&study, 5, &plain);
    assert_eq!(decision.measured.as_deref(), Some("3.2 k IOPS (a at depth 16)"));
    assert_eq!(decision.verdict, Verdict::Inconclusive);
    let words = "3.2 k IOPS (95 %: 2.34 to 3.62 k IOPS), required at least 3 k IOPS; published 3.5 k IOPS";
    assert_eq!(decision.why, words);
}

#[test]
fn several_arms_where_one_is_required_are_an_error_in_the_file() {
    let study = check(&format!("{} at_least = 1.5", A_OVER_B_AT_16.replace(", depth = 16", "")));
    let decision = decided(&study, 5, &plain);
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert!(decision.why.starts_with("the study file selects 3 arms where `take` expects one: a "), "{}", decision.why);
    let wrong = lint(&study);
    let [error] = &wrong.errors[..] else { panic!("one error, for both scales: {wrong:?}") };
    assert!(error.starts_with("claim X1: check `a over b`: `of` selects 3 arms (a randread 4k depth 1; "), "{error}");
    assert!(error.ends_with("narrow `where` to one, or set `take` to \"largest\" or \"smallest\""), "{error}");
}

#[test]
fn arms_that_the_study_does_not_have_are_not_testable() {
    let study = check(&format!("{} at_least = 1.5", A_OVER_B_AT_16.replace("depth = 16", "depth = 17")));
    let decision = decided(&study, 5, &plain);
    assert_eq!((decision.verdict, decision.measured), (Verdict::NotTestable, None));
    assert_eq!(decision.why, "the study has no such arm at this scale");
    assert_eq!(lint(&study).errors, ["claim X1: check `a over b`: `of` selects no arm"]);
    assert_eq!(lint(&check(&format!("{A_OVER_B_AT_16} at_least = 1.5"))), Lint::default());
}

#[test]
fn a_check_that_only_one_scale_can_decide_is_noted_and_is_no_error() {
    let text = A_OVER_B_AT_16.replace("16", "64");
    let study = check(&format!("{text} at_least = 1.5"));
    let only_full = study.text.replace("depth = [1, 4, 16]", "depth = { scaled = [1], full = [1, 64] }");
    let lint = lint(&Study::parse(&only_full, "small").unwrap());
    let note = "claim X1: check `a over b`: `of` selects no arm at scale `scaled`";
    assert_eq!((lint.errors, lint.notes), (Vec::new(), vec![note.to_owned()]));
}

#[test]
fn peers_take_no_part() {
    let study = check(&format!("{A_OVER_B_AT_16} at_least = 1.5"));
    let mut results = results(&study, 5, &plain);
    let peer = |arm: &Arm| Arm { peer: Some("fio".into()), ..arm.clone() };
    let of_fio: Vec<ArmResults> =
        results.arms.iter().map(|arm| ArmResults { arm: peer(&arm.arm), rows: arm.rows.clone() }).collect();
    results.arms.extend(of_fio.clone());
    assert_eq!(
        decide(&study, &results, &Looks::default())[0].verdict,
        Verdict::Holds,
        "a second a would be one too many"
    );
    results.arms = of_fio;
    assert_eq!(decide(&study, &results, &Looks::default())[0].verdict, Verdict::NotTestable);
}

#[test]
fn an_unavailable_path_makes_its_checks_not_testable_with_the_reason() {
    let study = check(&format!("{A_OVER_B_AT_16} at_least = 1.5"));
    let without_b = |row: &mut Row| if row.arm.name == "b" { Err("no such drive") } else { plain(row) };
    let decision = decided(&study, 5, &without_b);
    assert_eq!((decision.verdict, decision.measured), (Verdict::NotTestable, None));
    assert_eq!(decision.why, "not measured: b (1 arm: no such drive)");
}

#[test]
fn max_is_the_largest_value_of_the_plan_and_not_of_the_measured_arms() {
    let study = check(&format!("{} at_least = 1.5", A_OVER_B_AT_16.replace("16", "\"max\"")));
    let without_16 = |row: &mut Row| if row.arm.workload.depth == 16 { Err("too deep") } else { plain(row) };
    let decision = decided(&study, 5, &without_16);
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert_eq!(decision.why, "not measured: a, b (2 arms: too deep)");
}

#[test]
fn an_unavailable_metric_is_named_with_the_reason_from_the_runs() {
    let energy = A_OVER_B_AT_16.replace("iops", "ios_per_joule");
    let decision = decided(&check(&format!("{energy} at_least = 1.5")), 5, &|row| {
        row.warnings = vec![Warning::note("no joules: the disk is slow")];
        row.figures.set::<f64>(RunFigure::Joules, Err(Unavailable::new("no RAPL")));
        plain(row)
    });
    assert_eq!(decision.verdict, Verdict::NotTestable);
    let why = "not measured: a, b (2 arms: no meter: joules were not measured (no RAPL))";
    assert_eq!(decision.why, why);
    for metric in ["cache_miss_rate", "cycles_per_io", "cores", "syscalls_per_io", "submit_p50_ns", "p99_ns"] {
        let study = check(&format!("{} at_least = 1.5", A_OVER_B_AT_16.replace("iops", metric)));
        assert_eq!(decided(&study, 5, &plain).verdict, Verdict::NotTestable, "{metric}");
    }
}

/// With an arm missing, the verdict depends on whether that arm could have changed the ratio.
#[test]
fn a_verdict_of_a_largest_or_smallest_stands_only_if_the_missing_could_not_change_it() {
    let best_over_b = |take: &str, bounds: &str| {
        check(&format!(
            r#"
            rule = "ratio"
            metric = "iops"
            of = {{ where = {{ path = ["a", "c"], depth = 4 }}, take = "{take}" }}
            to = {{ where = {{ path = "b", depth = 4 }} }}
            {bounds}
            "#
        ))
    };
    let b_over_best = |take: &str, bounds: &str| {
        check(&format!(
            r#"
            rule = "ratio"
            metric = "iops"
            of = {{ where = {{ path = "b", depth = 4 }} }}
            to = {{ where = {{ path = ["a", "c"], depth = 4 }}, take = "{take}" }}
            {bounds}
            "#
        ))
    };
    // Only a is there, at twice b.
    let without_c = |row: &mut Row| if row.arm.name == "c" { Err("no poll queues") } else { plain(row) };
    let cases = [
        (best_over_b("largest", "at_least = 1.5"), Verdict::Holds),
        (best_over_b("largest", "at_least = 2.5"), Verdict::NotTestable),
        (best_over_b("largest", "at_most = 1.5"), Verdict::DoesNotHold),
        (best_over_b("largest", "at_most = 2.5"), Verdict::NotTestable),
        (best_over_b("smallest", "at_most = 2.5"), Verdict::Holds),
        (best_over_b("smallest", "at_least = 2.5"), Verdict::DoesNotHold),
        (best_over_b("smallest", "at_least = 1.5"), Verdict::NotTestable),
        (b_over_best("largest", "at_most = 0.6"), Verdict::Holds),
        (b_over_best("largest", "at_least = 0.6"), Verdict::DoesNotHold),
        (b_over_best("largest", "at_least = 0.4"), Verdict::NotTestable),
        (b_over_best("smallest", "at_least = 0.4"), Verdict::Holds),
        (b_over_best("smallest", "at_most = 0.6"), Verdict::NotTestable),
    ];
    for (study, verdict) in cases {
        let decision = decided(&study, 5, &without_c);
        assert_eq!(decision.verdict, verdict, "{}", decision.why);
        assert!(decision.why.contains("without c (1 arm: no poll queues), which could"), "{}", decision.why);
        assert!(decision.measured.is_some());
    }
}

#[test]
fn a_value_is_judged_in_its_own_unit() {
    let rule = r#"
        rule = "value"
        metric = "mean_ns"
        of = { where = { path = "a", depth = 1 } }
        at_most = 100000
    "#;
    let takes = |ns: f64| {
        move |row: &mut Row| {
            row.mean_ns = Some(ns + f64::from(row.repeat) * 100.0);
            Ok(())
        }
    };
    let decision = decided(&check(rule), 5, &takes(90_000.0));
    assert_eq!(decision.verdict, Verdict::Holds);
    assert_eq!(decision.why, "90.2 us (95 %: 90 to 90.4 us), required at most 100 us");
    assert_eq!(decided(&check(rule), 5, &takes(100_001.0)).verdict, Verdict::DoesNotHold);
    assert_eq!(decided(&check(rule), 5, &takes(99_800.0)).verdict, Verdict::Inconclusive);
}

/// A ratio at each depth, at a share of them.
fn each_depth(share: &str) -> Study {
    check(&format!(
        r#"
        rule = "ratio"
        metric = "iops"
        of = {{ where = {{ path = "a" }} }}
        to = {{ where = {{ path = "b" }} }}
        each = "depth"
        {share}
        at_least = 1.5
        "#
    ))
}

/// a over b by depth.
fn ratios(at_1: f64, at_4: f64, at_16: f64) -> impl Fn(&mut Row) -> Result<(), &'static str> {
    move |row| {
        let ratio = match row.arm.workload.depth {
            1 => at_1,
            4 => at_4,
            _ => at_16,
        };
        let noise = shared_noise(row.repeat);
        iops(row, if row.arm.name == "a" { 100.0 * ratio } else { 100.0 } * noise);
        Ok(())
    }
}

#[test]
fn a_check_of_each_value_has_to_hold_at_all_of_them_and_shows_the_nearest_to_failing() {
    let decision = decided(&each_depth(""), 5, &ratios(3.0, 1.6, 2.0));
    assert_eq!(decision.verdict, Verdict::Holds);
    assert_eq!(decision.checks[0].measured.unwrap().value, 1.6);
    let why = "holds at all 3; closest to failing at depth 4: 1.6x (95 %: 1.6x to 1.6x), required at least 1.5x";
    assert_eq!(decision.why, why);
    assert_eq!(decision.measured.as_deref(), Some("at depth 4 160 IOPS (a) against 100 IOPS (b)"));
    let decision = decided(&each_depth(""), 5, &ratios(3.0, 1.6, 1.2));
    assert_eq!(decision.verdict, Verdict::DoesNotHold);
    let why = "holds at 2 of 3, fails at depth 16; worst at depth 16: 1.2x";
    assert!(decision.why.starts_with(why), "{}", decision.why);
}

#[test]
fn a_share_of_the_values_is_enough_where_the_study_says_so() {
    let two_thirds = each_depth("share = 0.66");
    assert_eq!(decided(&two_thirds, 5, &ratios(3.0, 1.6, 1.2)).verdict, Verdict::Holds);
    assert_eq!(decided(&two_thirds, 5, &ratios(3.0, 1.1, 1.2)).verdict, Verdict::DoesNotHold);
    // Rounding of the product must not decide.
    assert_eq!(decided(&each_depth("share = 0.3333333333333333"), 5, &ratios(1.0, 1.0, 2.0)).verdict, Verdict::Holds);
}

#[test]
fn values_that_are_not_clear_count_for_neither_side() {
    let noisy_at_16 = |row: &mut Row| {
        ratios(3.0, 1.6, 1.5)(row)?;
        if row.arm.workload.depth == 16 {
            row.ios = (row.ios as f64 * own_noise(row, 0.2)) as u64;
        }
        Ok(())
    };
    let decision = decided(&each_depth(""), 5, &noisy_at_16);
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
    assert!(decision.why.starts_with("holds at 2 of 3, inconclusive at depth 16"), "{}", decision.why);
    assert_eq!(decided(&each_depth("share = 0.66"), 5, &noisy_at_16).verdict, Verdict::Holds);
}

#[test]
fn where_a_check_fails_a_value_that_fails_is_shown_and_not_one_that_is_not_clear() {
    let decision = decided(&each_depth(""), 5, &|row| {
        ratios(1.4, 1.6, 1.5)(row)?;
        if row.arm.workload.depth == 16 {
            row.ios = (row.ios as f64 * own_noise(row, 0.5)) as u64;
        }
        Ok(())
    });
    assert_eq!(decision.verdict, Verdict::DoesNotHold);
    let why = "holds at 1 of 3, fails at depth 1, inconclusive at depth 16; worst at depth 1: 1.4x";
    assert!(decision.why.starts_with(why), "{}", decision.why);
}

#[test]
fn values_that_were_not_tested_count_for_neither_side() {
    let without_16 = |ratio: f64| {
        move |row: &mut Row| {
            if row.arm.workload.depth == 16 { Err("too deep") } else { ratios(3.0, ratio, 2.0)(row) }
        }
    };
    let decision = decided(&each_depth(""), 5, &without_16(1.6));
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert!(decision.why.starts_with("holds at 2 of 3, not tested at depth 16; closest"), "{}", decision.why);
    assert!(decision.why.ends_with("; not measured: a, b (2 arms: too deep)"), "{}", decision.why);
    assert_eq!(decided(&each_depth(""), 5, &without_16(1.1)).verdict, Verdict::DoesNotHold);
    assert_eq!(decided(&each_depth("share = 0.66"), 5, &without_16(1.6)).verdict, Verdict::Holds);
    let decision = decided(&each_depth(""), 5, &|_| Err("no drive"));
    assert_eq!(decision.why, "not measured: a, b (6 arms: no drive)", "once, and not once for each depth");
}

const ORDER: &str = r#"
    rule = "order"
    metric = "mean_ns"
    of = { where = { depth = 1 } }
    published_order = [{ path = "a", value = 1 }, { path = "b", value = 2 }, { path = "c", value = 3 }]
    at_least = 0.8
"#;

fn takes(a: f64, b: f64, c: f64) -> impl Fn(&mut Row) -> Result<(), &'static str> {
    move |row| {
        let ns = match row.arm.name.as_str() {
            "a" => a,
            "b" => b,
            _ => c,
        };
        row.mean_ns = Some(ns * shared_noise(row.repeat));
        Ok(())
    }
}

#[test]
fn an_order_holds_if_it_correlates_with_the_published_one() {
    let decision = decided(&check(ORDER), 5, &takes(5e3, 7e3, 9e3));
    assert_eq!(decision.verdict, Verdict::Holds);
    assert_eq!(decision.measured.as_deref(), Some("a 5 us, b 7 us, c 9 us"));
    assert_eq!(decision.why, "1 (95 %: 1 to 1), required at least 0.8");
    assert_eq!(decided(&check(ORDER), 5, &takes(9e3, 7e3, 5e3)).verdict, Verdict::DoesNotHold);
    assert_eq!(lint(&check(ORDER)), Lint::default());
}

#[test]
fn an_order_within_the_noise_or_of_equals_is_inconclusive() {
    let noisy = |row: &mut Row| {
        row.mean_ns = Some(100.0 * own_noise(row, 0.5));
        Ok(())
    };
    let order = ORDER.replace("0.8", "0.1");
    let decision = decided(&check(&order), 5, &noisy);
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
    assert_eq!(decided(&check(ORDER), 5, &takes(5.0, 5.0, 5.0)).verdict, Verdict::Inconclusive);
    assert_eq!(decided(&check(ORDER), 2, &takes(5.0, 6.0, 7.0)).verdict, Verdict::Inconclusive);
}

#[test]
fn an_order_is_decided_on_what_there_is_while_that_is_more_than_half_of_its_pairs() {
    let paths = ["a", "b", "c", "d", "e"];
    let order: Vec<String> =
        paths.iter().enumerate().map(|(value, path)| format!("{{ path = \"{path}\", value = {value} }}")).collect();
    let text = format!(
        r#"
        name = "small"
        title = "five paths"
        paths = {{ a = "libaio", b = "psync", c = "io_uring", d = "io_uring+iopoll", e = "io_uring+sqpoll" }}
        [[group]]
        path = ["a", "b", "c", "d", "e"]
        [[claim]]
        id = "X1"
        says = "in order"
        published = ""
        [[claim.check]]
        says = "order"
        rule = "order"
        metric = "mean_ns"
        of = {{ where = {{}} }}
        published_order = [{}]
        at_least = 0.8
        "#,
        order.join(", ")
    );
    let study = Study::parse(&text, "small").unwrap();
    let without = |lost: &'static [&'static str]| {
        move |row: &mut Row| {
            row.mean_ns = Some(f64::from(row.arm.name.as_bytes()[0]) * shared_noise(row.repeat));
            if lost.contains(&row.arm.name.as_str()) { Err("not here") } else { Ok(()) }
        }
    };
    let decision = decided(&study, 5, &without(&["d"]));
    assert_eq!(decision.verdict, Verdict::Holds, "6 of 10 pairs");
    assert!(decision.why.ends_with(", required at least 0.8, without d (1 arm: not here)"), "{}", decision.why);
    // What a claim is about must be there.
    let about_d = Study::parse(&text.replace("path = \"d\",", "path = \"d\", required = true,"), "small").unwrap();
    let decision = decided(&about_d, 5, &without(&["d"]));
    assert_eq!((decision.verdict, decision.why.as_str()), (Verdict::NotTestable, "not measured: d (1 arm: not here)"));
    assert_eq!(decided(&about_d, 5, &without(&["e"])).verdict, Verdict::Holds);
    let decision = decided(&study, 5, &without(&["d", "e"]));
    assert_eq!(decision.verdict, Verdict::NotTestable, "3 of 10 pairs");
    assert_eq!(decision.why, "not measured: d, e (2 arms: not here)");
}

#[test]
fn an_order_needs_one_arm_for_each_path() {
    let study = check(&ORDER.replace("depth = 1 ", ""));
    let decision = decided(&study, 5, &takes(1.0, 2.0, 3.0));
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert_eq!(decision.why, "the study file selects 3 arms of a where an order needs one");
    let fault = "`of` selects 3 arms of a where an order needs one";
    assert_eq!(lint(&study).errors, [format!("claim X1: check `a over b`: {fault}")]);
}

fn crossing_of(bounds: &str) -> Study {
    check(&format!(
        r#"
        rule = "crossing"
        metric = "iops"
        of = {{ where = {{ path = "a" }} }}
        to = {{ where = {{ path = "b" }} }}
        along = "depth"
        {bounds}
        "#
    ))
}

#[test]
fn a_crossing_within_its_bounds_holds_and_elsewhere_does_not() {
    let decision = decided(&crossing_of("at_least = 4\nat_most = 16\npublished = 12"), 5, &ratios(2.0, 2.0, 0.5));
    assert_eq!(decision.verdict, Verdict::Holds);
    assert_eq!(decision.checks[0].measured.unwrap().value.round(), 8.0);
    let why = "falls below at a depth of 8 (95 %: 8 to 8), required 4 to 16; published 12";
    assert_eq!(decision.why, why);
    for bounds in ["at_least = 9", "at_most = 7"] {
        assert_eq!(decided(&crossing_of(bounds), 5, &ratios(2.0, 2.0, 0.5)).verdict, Verdict::DoesNotHold);
    }
    assert_eq!(decided(&crossing_of("at_most = 16"), 2, &ratios(2.0, 2.0, 0.5)).verdict, Verdict::Inconclusive);
    assert_eq!(lint(&crossing_of("at_most = 16")), Lint::default());
}

#[test]
fn a_curve_that_never_falls_below_crosses_beyond_what_was_measured_if_at_all() {
    let never = |bounds: &str| decided(&crossing_of(bounds), 5, &ratios(2.0, 2.0, 2.0)).verdict;
    assert_eq!(never("at_least = 4\nat_most = 16"), Verdict::DoesNotHold);
    assert_eq!(never("at_least = 4"), Verdict::Holds);
    assert_eq!(never("at_most = 64"), Verdict::Inconclusive);
    assert_eq!(never("at_least = 64"), Verdict::Inconclusive);
    let decision = decided(&crossing_of("at_most = 16"), 5, &ratios(2.0, 2.0, 2.0));
    assert_eq!(decision.why, "never falls below, at depth 1 to 16");
}

#[test]
fn a_curve_that_is_not_above_at_first_does_not_cross() {
    assert_eq!(decided(&crossing_of("at_most = 16"), 5, &ratios(0.5, 0.5, 0.5)).verdict, Verdict::DoesNotHold);
    let decision = decided(&crossing_of("at_most = 16"), 5, &ratios(0.5, 2.0, 2.0));
    assert_eq!(decision.verdict, Verdict::DoesNotHold);
    assert_eq!(decision.why, "does not start above: at depth 1 it is 0.5x");
    let decision = decided(&crossing_of("at_most = 16"), 2, &ratios(0.5, 0.5, 0.5));
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
}

#[test]
fn a_crossing_on_which_the_repeats_do_not_agree_is_inconclusive() {
    let noisy = |row: &mut Row| {
        let noise = own_noise(row, 0.5);
        iops(row, 100.0 * noise);
        Ok(())
    };
    let decision = decided(&crossing_of("at_most = 16"), 5, &noisy);
    assert_eq!(decision.verdict, Verdict::Inconclusive, "{}", decision.why);
}

/// With one interval of 95 % at each look, a tenth of these claims held.
#[test]
fn a_crossing_beyond_its_bound_seldom_holds_however_often_it_is_looked_at() {
    const CASES: u32 = 120;
    // It is at 8, between the ratios of 2 at 4 and of 0.5 at 16.
    let study = crossing_of("at_most = 7.99");
    let mut looks = Looks::first(5);
    looks.add(7);
    looks.add(9);
    let mut holding = 0;
    for case in 0..CASES {
        let noisy = |row: &mut Row| {
            let place = row.arm.name.as_bytes()[0] as u32 * 64 + row.arm.workload.depth;
            let mut random = random_stream(u64::from(case * 64 + row.repeat), place);
            ratios(2.0, 2.0, 0.5)(row)?;
            iops(row, row.ios as f64 / row.elapsed_s * disturbance(&mut random, 0.15));
            Ok(())
        };
        let results = results(&study, 12, &noisy);
        holding += u32::from(decide(&study, &results, &looks)[0].verdict == Verdict::Holds);
    }
    assert!(holding * 100 <= 4 * CASES, "{holding} of {CASES}");
}

#[test]
fn a_gap_before_a_crossing_leaves_it_open_and_one_beyond_does_not() {
    let without = |lost: u32, ratios: (f64, f64, f64)| {
        move |row: &mut Row| {
            if row.arm.workload.depth == lost {
                Err("not here")
            } else {
                self::ratios(ratios.0, ratios.1, ratios.2)(row)
            }
        }
    };
    let study = crossing_of("at_least = 1\nat_most = 16");
    assert_eq!(decided(&study, 5, &without(16, (2.0, 0.5, 0.5))).verdict, Verdict::Holds);
    let decision = decided(&study, 5, &without(4, (2.0, 0.5, 0.5)));
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert!(
        decision.why.ends_with("without a, b (2 arms: not here), which could change the verdict"),
        "{}",
        decision.why
    );
    assert_eq!(decided(&study, 5, &without(16, (2.0, 2.0, 0.5))).verdict, Verdict::NotTestable);
    let only_one_left = |row: &mut Row| if row.arm.workload.depth > 1 { Err("not here") } else { plain(row) };
    assert_eq!(decided(&study, 5, &only_one_left).verdict, Verdict::NotTestable);
}

#[test]
fn a_crossing_along_what_is_no_number_is_an_error_in_the_file() {
    let study = crossing_of("at_most = 16");
    let text = r#"
        rule = "crossing"
        metric = "iops"
        of = { where = { path = "a", depth = 1 } }
        to = { where = { path = "a", depth = 1 } }
        along = "rw"
        at_most = 16
    "#;
    let decision = decided(&check(text), 5, &plain);
    assert_eq!(decision.verdict, Verdict::NotTestable);
    assert!(decision.why.contains("along values that are not numbers, such as randread"), "{}", decision.why);
    assert!(lint(&check(text)).errors[0].ends_with("a crossing needs a factor whose values are numbers"));
    assert_eq!(lint(&study), Lint::default());
}

/// A claim with two checks: a over b at depth 1 and at depth 16, each at least 1.5.
fn two_checks() -> Study {
    let check = |depth: u32| {
        let rule = A_OVER_B_AT_16.replace("16", &depth.to_string());
        format!("[[claim.check]]\nsays = \"at {depth}\"\n{rule} at_least = 1.5\n")
    };
    study(&(check(1) + &check(16)))
}

#[test]
fn a_claim_needs_all_its_checks_and_one_failure_outweighs_what_is_not_known() {
    let decision = decided(&two_checks(), 5, &ratios(3.0, 1.0, 2.0));
    assert_eq!(decision.verdict, Verdict::Holds);
    assert!(decision.why.starts_with("all 2 checks hold; closest to failing: at 16: 2x"), "{}", decision.why);
    let measured = "300 IOPS (a) against 100 IOPS (b); 200 IOPS (a) against 100 IOPS (b)";
    assert_eq!(decision.measured.as_deref(), Some(measured));
    let without = |at_1: Option<f64>, at_16: Option<f64>| {
        move |row: &mut Row| match if row.arm.workload.depth == 1 { at_1 } else { at_16 } {
            Some(ratio) => ratios(ratio, ratio, ratio)(row),
            None => Err("not here"),
        }
    };
    let decision = decided(&two_checks(), 5, &without(None, Some(1.0)));
    assert_eq!(decision.verdict, Verdict::DoesNotHold);
    assert!(decision.why.starts_with("1 of 2 checks failed; worst: at 16: 1x"), "{}", decision.why);
    let decision = decided(&two_checks(), 5, &without(None, Some(2.0)));
    assert_eq!(decision.verdict, Verdict::NotTestable);
    let why = "1 of 2 checks not testable: not measured: a, b (2 arms: not here); checks that hold: at 16";
    assert_eq!(decision.why, why);
    assert_eq!(
        decision.checks.iter().map(|check| check.verdict).collect::<Vec<_>>(),
        [Verdict::NotTestable, Verdict::Holds]
    );
}

#[test]
fn a_claim_with_an_unclear_check_is_inconclusive_unless_another_fails() {
    let noisy_at_1 = |at_16: f64| {
        move |row: &mut Row| {
            ratios(1.5, 1.5, at_16)(row)?;
            if row.arm.workload.depth == 1 {
                row.ios = (row.ios as f64 * own_noise(row, 0.2)) as u64;
            }
            Ok(())
        }
    };
    assert_eq!(decided(&two_checks(), 5, &noisy_at_1(2.0)).verdict, Verdict::Inconclusive);
    assert_eq!(decided(&two_checks(), 5, &noisy_at_1(1.0)).verdict, Verdict::DoesNotHold);
}

#[test]
fn a_figure_without_arms_is_an_error_in_the_file() {
    let figure = "[[figure]]\nid = \"1\"\ntitle = \"t\"\nwhere = { depth = 17 }\nx = \"depth\"\ny = \"iops\"";
    let study = study(&format!("[[claim.check]]\nsays = \"s\"\n{A_OVER_B_AT_16} at_least = 1\n{figure}"));
    assert_eq!(lint(&study).errors, ["figure 1: `where` selects no arm at either scale"]);
}

#[test]
fn a_decision_is_written_with_the_words_of_its_verdict() {
    let decision = decided(&check(&format!("{A_OVER_B_AT_16} at_least = 2.5")), 5, &plain);
    let written = serde_json::to_value(&decision).unwrap();
    assert_eq!(written["verdict"], json!("does not hold"));
    assert_eq!(written["checks"][0]["measured"], json!({ "value": 2.0, "low": 2.0, "high": 2.0 }));
    let words = [Verdict::Holds, Verdict::DoesNotHold, Verdict::Inconclusive, Verdict::NotTestable];
    assert_eq!(
        words.map(|verdict| verdict.to_string()),
        ["holds", "does not hold", "inconclusive", "not testable here"]
    );
}

#[test]
fn a_claim_about_energy_names_the_source_of_the_joules() {
    let energy = check(&format!("{} at_least = 1.5", A_OVER_B_AT_16.replace("iops", "ios_per_joule")));
    let by = |joules: Sourced<f64>| {
        decided(&energy, 5, &|row| {
            plain(row)?;
            row.figures.set(RunFigure::Joules, Ok(joules.clone()));
            Ok(())
        })
    };
    let measured = by(Sourced::new(10.0, "RAPL, processor packages only"));
    assert_eq!(measured.verdict, Verdict::Holds);
    let why = "2x (95 %: 2x to 2x), required at least 1.5x; joules by RAPL, processor packages only";
    assert_eq!((measured.why.as_str(), measured.checks[0].why.as_str()), (why, why));
    let modelled = by(Sourced::new(10.0, "idle=40,core=8").modelled());
    assert!(modelled.why.ends_with("required at least 1.5x; joules modelled: idle=40,core=8"), "{}", modelled.why);
    assert_eq!((modelled.verdict, modelled.checks[0].verdict), (Verdict::HoldsByModel, Verdict::HoldsByModel));
    assert_eq!(serde_json::to_value(modelled.verdict).unwrap(), "holds by model");
    let iops = decided(&check(&format!("{A_OVER_B_AT_16} at_least = 1.5")), 5, &plain);
    assert!(!iops.why.contains("joules"), "{}", iops.why);
}

#[test]
fn where_the_clock_counts_instructions_a_claim_is_decided_by_simulation_and_more_processors_than_the_host_has_decide_too()
 {
    let lab = |exact| LabMachine { cpus: 16, host_cpus: 1, drives_have_ceiling: false, exact };
    let verdict = |at_least: f64, exact: bool| {
        let study = check(&format!("{A_OVER_B_AT_16} at_least = {at_least:?}"));
        let results = Results { lab: Some(lab(exact)), ..results(&study, 5, &plain) };
        let [decision] = <[Decision; 1]>::try_from(decide(&study, &results, &Looks::default())).unwrap();
        (decision.verdict, decision.checks[0].verdict)
    };
    assert_eq!(verdict(1.5, true), (Verdict::HoldsBySimulation, Verdict::HoldsBySimulation));
    assert_eq!(verdict(3.0, true), (Verdict::DoesNotHoldBySimulation, Verdict::DoesNotHoldBySimulation));
    assert_eq!(verdict(1.5, false).0, Verdict::NotTestable);
    assert_eq!(serde_json::to_value(Verdict::DoesNotHoldBySimulation).unwrap(), "does not hold by simulation");
}
