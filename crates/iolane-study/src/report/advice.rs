//! The answer of a study in sentences: for each kind of load, the path to take where little is in flight and where much is.

use super::ArmReport;
use crate::plan::Arm;

/// Everything but path and depth, in an order that can be sorted by.
pub(crate) fn load_of(arm: &Arm) -> (&'static str, u32, usize, usize, Option<usize>) {
    (arm.rw.name(), arm.bs.max(), arm.threads, arm.drives, arm.cores)
}

/// For each kind of load: the best path at the smallest depth and at the largest, and those not shown to differ from it.
pub fn advice(arms: &[ArmReport]) -> Vec<String> {
    if arms.iter().any(|arm| arm.iops_repeats.len() < REPEATS_FOR_ADVICE) {
        return vec![format!(
            "No advice: with fewer than {REPEATS_FOR_ADVICE} repeats chance cannot be told from difference."
        )];
    }
    let own: Vec<&ArmReport> = arms.iter().filter(|arm| arm.arm.peer.is_none()).collect();
    let loads: Vec<&[&ArmReport]> = own.chunk_by(|a, b| load_of(&a.arm) == load_of(&b.arm)).collect();
    let is_only = loads.len() == 1;
    loads.into_iter().map(|arms| of_load(arms, is_only)).collect()
}

fn of_load(arms: &[&ArmReport], is_only: bool) -> String {
    let mut depths: Vec<u32> = arms.iter().map(|arm| arm.arm.depth).collect();
    depths.dedup();
    let ends = match depths[..] {
        [] => return String::new(),
        [only] => vec![only],
        [first, .., last] => vec![first, last],
    };
    let parts: Vec<String> = ends.iter().filter_map(|depth| advice_at(*depth, arms)).collect();
    let sentence = format!("{}.", parts.join("; "));
    match is_only {
        true => sentence.replacen('b', "B", 1),
        false => format!("{}: {sentence}", load(&arms[0].arm)),
    }
}

/// What is asked of an arm's path, its depth left out, in words: `randread 4k, 2 threads`.
pub fn load(arm: &Arm) -> String {
    let Arm { rw, bs, threads, drives, cores, .. } = arm;
    let mut text = format!("{rw} {bs}");
    if *threads > 1 {
        text.push_str(&format!(", {threads} threads"));
    }
    if *drives > 1 {
        text.push_str(&format!(" on {drives} drives"));
    }
    match cores {
        Some(1) => text.push_str(", 1 core"),
        Some(cores) => text.push_str(&format!(", {cores} cores")),
        None => {}
    }
    text
}

/// Intervals of fewer repeats than this are too narrow to be believed.
pub(crate) const REPEATS_FOR_ADVICE: usize = 3;

/// An arm below this share of the best is not called its equal, however wide the interval: it was too noisy to tell.
const CLOSE_TO_BEST: f64 = 0.9;

fn advice_at(depth: u32, arms: &[&ArmReport]) -> Option<String> {
    let at_depth: Vec<&ArmReport> = arms.iter().filter(|arm| arm.arm.depth == depth).copied().collect();
    let best = at_depth.iter().find(|arm| arm.of_best.is_none())?;
    let (equal, worse): (Vec<&ArmReport>, Vec<&ArmReport>) = at_depth
        .iter()
        .filter(|arm| arm.of_best.is_some())
        .partition(|arm| arm.of_best.is_some_and(|ratio| !ratio.shows_difference()));
    let is_close = |arm: &&ArmReport| arm.of_best.is_some_and(|ratio| ratio.value >= CLOSE_TO_BEST);
    let (equal, unclear): (Vec<&ArmReport>, Vec<&ArmReport>) = equal.into_iter().partition(is_close);
    // Of those that are not shown to differ, the one that costs least is the one to take.
    let cores = |arm: &ArmReport| arm.cores_used.unwrap_or(f64::INFINITY);
    let take = equal.iter().fold(best, |take, arm| if cores(arm) < 0.9 * cores(take) { arm } else { take });
    let mut text = format!("by IOPS at depth {depth} take {}", take.arm.name);
    if take.arm != best.arm {
        text.push_str(&format!(
            " (no difference shown to {}, with {:.2} instead of {:.2} cores)",
            best.arm.name,
            cores(take),
            cores(best)
        ));
    } else if !equal.is_empty() {
        let names: Vec<&str> = equal.iter().map(|arm| arm.arm.name.as_str()).collect();
        text.push_str(&format!(" (no difference shown to {})", names.join(", ")));
    }
    if let Some(ratio) = worse.last().and_then(|arm| arm.of_best.map(|ratio| (arm, ratio))) {
        text.push_str(&format!(", {:.1}x {}", 1.0 / ratio.1.value, ratio.0.arm.name));
    }
    if !unclear.is_empty() {
        let shown = |arm: &&ArmReport| {
            let (low, high) = arm.of_best.map_or((0.0, 0.0), |ratio| (ratio.low, ratio.high));
            format!("{} ({low:.2}x to {high:.2}x)", arm.arm.name)
        };
        let names: Vec<String> = unclear.iter().map(shown).collect();
        text.push_str(&format!(", too noisy to tell from {}", names.join(", ")));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::arm_reports;
    use super::*;
    use crate::records::{Results, Row};

    /// The advice on arms with these names, I/Os per second and processor time.
    fn advise(arms: &[(&str, &[f64], f64)]) -> String {
        let rows: Vec<Row> = arms.iter().flat_map(|(name, iops, cores)| rows(name, iops, *cores)).collect();
        let reports = arm_reports(&Results::new(&rows, Vec::new()), &rows);
        advice(&reports).join(" / ")
    }

    fn rows(name: &str, iops: &[f64], cores: f64) -> Vec<Row> {
        let arm = Arm::of_null(name);
        let row = |(repeat, iops): (usize, &f64)| Row {
            ios: *iops as u64,
            elapsed_s: 1.0,
            user_s: Some(cores),
            system_s: Some(0.0),
            ..Row::new(arm.clone(), repeat as u32)
        };
        iops.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_advice_names_the_best_and_what_it_gains() {
        let text = advise(&[("a", &[20.0, 21.0, 22.0], 1.0), ("b", &[10.0, 10.0, 11.0], 1.0)]);
        assert_eq!(text, "By IOPS at depth 1 take a, 2.0x b.");
    }

    #[test]
    fn of_paths_without_a_shown_difference_the_cheaper_is_advised() {
        let text = advise(&[("a", &[20.0, 21.0, 22.0], 2.0), ("b", &[21.0, 19.0, 20.0], 1.0)]);
        assert_eq!(text, "By IOPS at depth 1 take b (no difference shown to a, with 1.00 instead of 2.00 cores).");
    }

    #[test]
    fn an_arm_far_below_the_best_is_not_called_its_equal() {
        let text = advise(&[("a", &[20.0, 20.0, 20.0], 2.0), ("b", &[2.0, 4.0, 21.0], 1.0)]);
        assert_eq!(text, "By IOPS at depth 1 take a, too noisy to tell from b (0.10x to 1.05x).");
    }

    #[test]
    fn too_few_repeats_give_no_advice() {
        assert!(advise(&[("a", &[1.0], 1.0)]).contains("No advice"));
    }
}
