//! What was not measured, and why: for the text of a study's results and for a dry run.

use iolane_study::results::Skipped;

use crate::output::reasons;

/// The section `Not measured`; paths with the same reason and remedy are listed together. Empty if all was measured.
pub(super) fn text(skipped: &[Skipped]) -> String {
    let mut groups: Vec<(Vec<&str>, usize, &Skipped)> = Vec::new();
    for entry in skipped {
        match groups.iter_mut().find(|(.., first)| first.reason == entry.reason && first.remedy == entry.remedy) {
            Some((paths, arms, _)) => {
                *arms += entry.arms;
                paths.push(&entry.path);
            }
            None => groups.push((vec![&entry.path], entry.arms, entry)),
        }
    }
    let name = |(paths, arms, first): &(Vec<&str>, usize, &Skipped)| match arms {
        1 => first.which.clone(),
        arms => format!("{} ({arms} arms)", paths.join(", ")),
    };
    let names: Vec<String> = groups.iter().map(name).collect();
    let entries = names
        .iter()
        .zip(&groups)
        .map(|(name, (.., first))| (name.as_str(), first.reason.as_str(), first.remedy.as_str()));
    let reasons = reasons(entries);
    if reasons.is_empty() { reasons } else { format!("Not measured:\n{reasons}\n") }
}
