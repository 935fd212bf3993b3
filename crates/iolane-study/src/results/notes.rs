//! Warnings about a whole study: too few repeats or requests, arms that were not in a steady state, and the warnings of
//! its runs.

use super::advice::REQUESTS_FOR_TAIL;
use super::arms::ArmReport;
use crate::plan::Arm;
use crate::rows::{ArmResults, Preconditioned, Results, Row, Warning, WarningKind, given_up};
use crate::stats::{REPEATS_ENOUGH, WINDOW_ROUNDS};

/// A warning where intervals rest on an assumption.
pub(crate) fn too_few(repeats: usize) -> Option<String> {
    (2..REPEATS_ENOUGH).contains(&repeats).then(|| {
        format!(
            "with {repeats} repeats, intervals are those of Student's t, which are wide and assume that repeats vary \
             normally; {REPEATS_ENOUGH} repeats or more hardly need the assumption and show smaller differences"
        )
    })
}

/// A warning for a target that was not in a steady state before its writes were measured, or not fully written.
pub(super) fn not_steady(target: &Preconditioned) -> Option<String> {
    let Preconditioned { target, passes, rounds, steady_round } = target;
    let mut troubles = Vec::new();
    if *passes < 0.99 {
        troubles.push(format!("{:.0} % of it was written in sequence first", passes * 100.0));
    }
    if steady_round.is_none() {
        troubles.push(format!("it was not steady after {} rounds of random writes", rounds.len()));
    }
    let hint = "--full takes the time that SNIA's specification asks for";
    (!troubles.is_empty()).then(|| format!("preconditioning of {target}: {}; {hint}", troubles.join(", and ")))
}

/// A warning for each arm that was given up in a repeat that only undecided claims wanted.
pub(super) fn given_up_later(rows: &[Row], results: &Results, repeats: usize) -> Vec<String> {
    let is_left_out = |arm: &Arm| results.left_out.iter().any(|left_out| left_out.arm == *arm);
    let later = |row: &&Row| row.repeat as usize >= repeats && !is_left_out(&row.arm);
    let warning = |row: &Row| {
        let why = row.rejected.as_deref().unwrap_or_default();
        format!(
            "{}: given up in further repeat {}, and claims are decided on those before: {why}",
            row.arm,
            row.repeat + 1
        )
    };
    given_up(rows).into_iter().filter(later).map(warning).collect()
}

/// A warning for arms whose repeats drift or vary too much.
pub(super) fn unsteady(arms: &[ArmReport]) -> Option<String> {
    let unsteady: Vec<&ArmReport> =
        arms.iter().filter(|arm| arm.steady.is_some_and(|steady| !steady.reached)).collect();
    let worst = unsteady.iter().max_by(|a, b| range(a).total_cmp(&range(b)))?;
    Some(format!(
        "{} of {} arms were not in a steady state over their last {WINDOW_ROUNDS} repeats (SNIA PTS: range 20 %, slope 10 %); \
         the widest, {}, by {:.0} %",
        unsteady.len(),
        arms.len(),
        worst.arm,
        range(worst) * 100.0
    ))
}

/// A warning for each load that a program without iolane does better than every path.
pub(super) fn better_without(arms: &[ArmReport]) -> Vec<String> {
    let is_better = |arm: &&ArmReport| {
        arm.arm.application.is_some() && arm.arm.peer.is_some() && arm.of_best.is_some_and(|ratio| ratio.low > 1.0)
    };
    let note = |arm: &ArmReport| {
        let Arm { peer, workload, .. } = &arm.arm;
        let peer = peer.as_deref().unwrap_or_default();
        format!(
            "{} depth {}: {peer}, without iolane, is {} as good as the best path",
            arm.arm.load_in_words(),
            workload.depth,
            arm.standing()
        )
    };
    arms.iter().filter(is_better).map(note).collect()
}

/// With fewer requests in a run than this, the 99th percentile is one of the ten slowest.
const REQUESTS_FOR_P99: u64 = 1000;

/// A warning for arms whose runs have too few requests for a 99th percentile.
pub(super) fn few_requests(results: &Results) -> Option<String> {
    // Operations of an application that are done together have one latency; of requests, those of peers may have none.
    let requests = |row: &Row| if row.arm.application.is_some() { row.latency.len() } else { row.ios };
    let fewest = |arm: &ArmResults| arm.rows.iter().map(requests).min().unwrap_or(0);
    let few: Vec<&ArmResults> = results.arms.iter().filter(|arm| fewest(arm) < REQUESTS_FOR_P99).collect();
    let worst = few.iter().min_by_key(|arm| fewest(arm))?;
    let withheld = match fewest(worst) < REQUESTS_FOR_TAIL {
        true => format!("; no advice on latency rests on fewer than {REQUESTS_FOR_TAIL}"),
        false => String::new(),
    };
    Some(format!(
        "{} of {} arms have runs of fewer than {REQUESTS_FOR_P99} requests, so that their p99 is little more than the slowest \
         ones; the fewest, {}, has {}{withheld}",
        few.len(),
        results.arms.len(),
        worst.arm,
        fewest(worst)
    ))
}

fn range(arm: &ArmReport) -> f64 {
    arm.steady.map_or(0.0, |steady| steady.range_share)
}

/// Each warning once, with the arms that have it; of several of one kind, the first is shown. Those of these kinds are left
/// out.
pub(super) fn merge_warnings(results: &Results, without: &[WarningKind]) -> Vec<String> {
    let mut merged: Vec<(&Warning, Vec<&Arm>)> = Vec::new();
    for arm in &results.arms {
        let warnings = arm.rows.iter().flat_map(|row| &row.warnings);
        for warning in warnings.filter(|warning| !without.contains(&warning.kind)) {
            match merged.iter_mut().find(|(known, _)| known.is_like(warning)) {
                Some((_, arms)) if arms.last() == Some(&&arm.arm) => {}
                Some((_, arms)) => arms.push(&arm.arm),
                None => merged.push((warning, vec![&arm.arm])),
            }
        }
    }
    let all: Vec<&Arm> = results.arms.iter().map(|arm| &arm.arm).collect();
    merged.into_iter().map(|(warning, arms)| format!("{}: {}", named(&arms, &all), warning.text)).collect()
}

/// Some of a study's arms in a few words: a path once, where all its arms are among them, and at most three names.
fn named(arms: &[&Arm], all: &[&Arm]) -> String {
    if arms.len() == all.len() && all.len() > 1 {
        return "every arm".to_owned();
    }
    let of_label = |among: &[&Arm], label: &str| among.iter().filter(|arm| arm.label() == label).count();
    let mut names: Vec<(String, usize)> = Vec::new();
    for arm in arms {
        let label = arm.label();
        let count = of_label(arms, &label);
        let (name, count) = match count > 1 && count == of_label(all, &label) {
            true => (format!("every arm of {label}"), count),
            false => (arm.to_string(), 1),
        };
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, count));
        }
    }
    match &names[..] {
        [(first, _), (second, _), rest @ ..] if rest.len() > 1 => {
            let others: usize = rest.iter().map(|(_, count)| count).sum();
            format!("{first}; {second} and {others} more arms")
        }
        few => few.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use iolane_application::Application;
    use iolane_measure::workload::Workload;

    use super::super::arms::arm_reports;
    use super::*;
    use crate::rows::LeftOut;

    /// Five runs of lookups, by iolane or without it, each with 100 batches.
    fn lookups(peer: Option<&str>, keys: u64) -> Vec<Row> {
        let application = Some(Application::MultiGet);
        let arm = Arm { application, peer: peer.map(str::to_owned), ..Arm::of_null("a") };
        let run = |repeat| {
            let mut row = Row { ios: keys + u64::from(repeat), elapsed_s: 1.0, ..Row::new(arm.clone(), repeat) };
            row.latency.record_n(1000, 100).unwrap();
            row
        };
        (0..5).map(run).collect()
    }

    fn reports(rows: &[Row]) -> Vec<ArmReport> {
        arm_reports(&Results::new(rows, Vec::new()), rows)
    }

    #[test]
    fn a_program_without_iolane_that_is_better_than_every_path_is_named() {
        let beside = |keys| better_without(&reports(&[lookups(None, 10_000), lookups(Some("std"), keys)].concat()));
        assert_eq!(beside(20_000), ["multi-get depth 1: std, without iolane, is 2.00x as good as the best path"]);
        assert!(beside(10_000).is_empty() && beside(5_000).is_empty());
    }

    #[test]
    fn operations_that_are_done_together_are_one_request_for_a_percentile() {
        let rows = lookups(None, 64_000);
        let note = few_requests(&Results::new(&rows, Vec::new())).unwrap();
        assert!(
            note.contains("1 of 1 arms have runs of fewer than 1000 requests") && note.contains("has 100"),
            "{note}"
        );
    }

    #[test]
    fn a_warning_names_a_path_once_when_all_its_arms_have_it() {
        let arms: Vec<Arm> = ["a", "b"]
            .into_iter()
            .flat_map(|name| {
                [1, 16, 31]
                    .map(|depth| Arm { workload: Workload { depth, ..Workload::default() }, ..Arm::of_null(name) })
            })
            .collect();
        let of = |picked: &[usize]| {
            let picked: Vec<&Arm> = picked.iter().map(|&index| &arms[index]).collect();
            named(&picked, &arms.iter().collect::<Vec<_>>())
        };
        assert_eq!(of(&[0, 1, 2, 3, 4, 5]), "every arm");
        assert_eq!(of(&[0, 1, 2]), "every arm of a");
        assert_eq!(of(&[0, 1, 2, 4]), "every arm of a; b randread 4k depth 16");
        assert_eq!(of(&[0, 1]), "a randread 4k depth 1; a randread 4k depth 16");
        assert_eq!(of(&[0, 1, 3, 4]), "a randread 4k depth 1; a randread 4k depth 16 and 2 more arms");
    }

    #[test]
    fn an_arm_that_was_given_up_in_a_later_look_is_named_unless_it_is_left_out_anyway() {
        let run = |repeat, rejected: Option<&str>| Row {
            rejected: rejected.map(str::to_owned),
            ..Row::new(Arm::of_null("a"), repeat)
        };
        let rows = [run(0, None), run(1, Some("it stalled")), run(1, Some("it stalled")), run(1, Some("it stalled"))];
        let results = |repeats| Results::of_looks(&rows, Vec::new(), repeats);
        let warned = given_up_later(&rows, &results(1), 1);
        assert_eq!(warned.len(), 1);
        assert!(
            warned[0].ends_with("given up in further repeat 2, and claims are decided on those before: it stalled")
        );
        assert!(given_up_later(&rows, &results(2), 2).is_empty());
        let left_out = LeftOut { arm: Arm::of_null("a"), reason: String::new(), remedy: String::new(), failed: true };
        assert!(given_up_later(&rows, &Results::new(&rows, vec![left_out]), 1).is_empty());
    }
}
