//! Compares the results of several folders: differences between their machines, the change of each arm, and the
//! verdicts of each claim. The first folder is the baseline. It is given loaded results; it reads and prints nothing.

mod arms;
mod differences;
mod gate;
mod losses;
mod searches;

use std::collections::HashSet;

use iolane::{Error, Result};
use serde::Serialize;

use crate::claims::Verdict;
use crate::plan::Arm;
use crate::results::{Loaded, REPEATS_FOR_ADVICE, Skipped, too_few};
use crate::rows::Results;

use arms::{IsSame, across, does_the_same, is_one_arm};

pub use arms::{ArmComparison, Cell, Change, Ratio};
pub use differences::Difference;
pub use gate::{Gate, Loss};

/// A comparison of folders: schema `iolane.compare/1`, described in `docs/schema/compare.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    schema: &'static str,
    /// The figure of an arm.
    pub compares: Compares,
    pub folders: Vec<Folder>,
    /// Differences between their machines and settings.
    pub differences: Vec<Difference>,
    /// Every arm of any folder, by load, depth, and path.
    pub arms: Vec<ArmComparison>,
    /// Arms that some folders lack.
    pub not_compared: Vec<Missing>,
    /// The verdicts of every claim of any folder.
    pub claims: Vec<ClaimComparison>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
    /// Whether more was lost than is allowed; `None` if that was not asked.
    pub gate: Option<Gate>,
}

/// The figure by which arms are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Compares {
    /// I/Os per second.
    #[serde(rename = "iops")]
    Iops,
    /// The highest rate that keeps a bound, in requests per second: what a rate search found.
    #[serde(rename = "highest_rate")]
    HighestRate,
}

impl Compares {
    /// `IOPS` or `highest rate`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::HighestRate => "highest rate",
        }
    }
}

/// A folder, and its comparison with the first.
#[derive(Debug, Clone, Serialize)]
pub struct Folder {
    /// The folder as the user named it.
    pub folder: String,
    /// A short name that distinguishes the folder from the others.
    pub label: String,
    pub name: String,
    /// The number of arms that were measured.
    pub arms: usize,
    /// Repeats of each arm.
    pub repeats: usize,
    pub runtime_s: f64,
    /// Its IOPS compared with the first folder; `None` for the first.
    pub changes: Option<Changes>,
    /// The comparison as a sentence.
    pub summary: Option<String>,
}

/// The number of arms that changed in IOPS and in their tail.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changes {
    /// Arms that both folders have.
    pub compared: usize,
    /// Arms that are shown to be faster.
    pub faster: usize,
    /// Arms that are shown to be slower.
    pub slower: usize,
    pub no_difference_shown: usize,
    /// Arms whose 99th percentile is shown to be shorter.
    pub p99_shorter: usize,
    /// Arms whose 99th percentile is shown to be longer.
    pub p99_longer: usize,
    /// The largest gain that is shown.
    pub largest_gain: Option<Extreme>,
    /// The largest loss that is shown.
    pub largest_loss: Option<Extreme>,
}

/// The arm with the largest change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Extreme {
    /// The arm in words.
    pub arm: String,
    /// Its IOPS as a ratio to those in the first folder.
    pub ratio: f64,
}

/// Arms of one path that one folder lacks, for one reason, and another folder has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The path's name in the study.
    pub path: String,
    /// The number of arms.
    pub arms: usize,
    /// The first of the arms.
    pub which: String,
    /// The label of the folder that lacks them.
    pub folder: String,
    pub reason: String,
    /// How to fix it; empty if no remedy is known.
    pub remedy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimComparison {
    pub id: String,
    /// The claim as a sentence.
    pub says: String,
    /// The verdict by folder; `None` where its study does not have the claim.
    pub verdicts: Vec<Option<Verdict>>,
    /// Whether the verdicts differ.
    pub changed: bool,
}

impl Comparison {
    /// Compares each folder with the first.
    ///
    /// # Errors
    /// `Usage` with fewer than two folders, and for a folder of another study that has no arm in common with the first.
    pub fn new(loaded: &[Loaded]) -> Result<Self> {
        if loaded.len() < 2 {
            return Err(Error::usage("comparing", "there is one folder").remedy("name two or more"));
        }
        let results: Vec<Results> = loaded.iter().map(Loaded::results).collect();
        let labels = labels(loaded);
        let is_one_study = loaded.iter().all(|other| other.document.name == loaded[0].document.name);
        let is_same: IsSame = if is_one_study { is_one_arm } else { does_the_same };
        let (compares, arms) = match searches::arms(loaded, &results, is_same)? {
            Some(arms) => (Compares::HighestRate, arms),
            None => {
                let measured: Vec<_> = results.into_iter().map(|results| results.arms).collect();
                (Compares::Iops, across(&measured, is_same, |results| &results.arm, Cell::new))
            }
        };
        let folder = |index| folder(loaded, &labels, (compares, &arms), index);
        let folders: Vec<Folder> = (0..loaded.len()).map(folder).collect();
        let unrelated = folders.iter().find(|folder| {
            folder.name != folders[0].name && folder.changes.as_ref().is_some_and(|changes| changes.compared == 0)
        });
        if let Some(other) = unrelated {
            let (a, b) = (&folders[0], other);
            let cause = format!("they are of {} and {}, and have no arm in common", a.name, b.name);
            return Err(Error::usage(format!("comparing {} and {}", a.folder, b.folder), cause)
                .remedy("compare results of one study"));
        }
        Ok(Self {
            schema: "iolane.compare/1",
            compares,
            differences: differences::differences(loaded),
            not_compared: missing(&arms, loaded, &labels),
            claims: claims(loaded),
            warnings: warnings(loaded, &labels),
            gate: None,
            folders,
            arms,
        })
    }
}

/// Short names of the folders: the last part of each name, or, where those are not unique, the whole names without
/// their common beginning and end: `linux-6.1` and `linux-7.2` for `linux-6.1/results/x` and `linux-7.2/results/x`.
fn labels(loaded: &[Loaded]) -> Vec<String> {
    let parts = |loaded: &Loaded| -> Vec<String> {
        loaded.folder.components().map(|part| part.as_os_str().to_string_lossy().into()).collect()
    };
    let names: Vec<Vec<String>> = loaded.iter().map(parts).collect();
    let are_distinct = |labels: &[String]| labels.iter().collect::<HashSet<_>>().len() == labels.len();
    let ends: Vec<String> = names.iter().filter_map(|parts| parts.last().cloned()).collect();
    if ends.len() == names.len() && are_distinct(&ends) {
        return ends;
    }
    let backwards: Vec<Vec<String>> = names.iter().map(|parts| parts.iter().rev().cloned().collect()).collect();
    let (begin, end) = (in_common(&names), in_common(&backwards));
    let middle = |parts: &Vec<String>| Some(parts.get(begin..parts.len() - end)?.join("/"));
    let middles: Option<Vec<String>> = names.iter().map(middle).collect();
    match middles.filter(|labels| are_distinct(labels) && labels.iter().all(|label| !label.is_empty())) {
        Some(labels) => labels,
        None => loaded.iter().map(|loaded| loaded.folder.display().to_string()).collect(),
    }
}

/// The number of leading parts that all names share.
fn in_common(names: &[Vec<String>]) -> usize {
    let is_common =
        |at: &usize| names.iter().all(|parts| parts.get(*at).is_some_and(|part| names[0].get(*at) == Some(part)));
    (0..).take_while(is_common).count()
}

fn folder(
    loaded: &[Loaded],
    labels: &[String],
    (compares, arms): (Compares, &[ArmComparison]),
    index: usize,
) -> Folder {
    let document = &loaded[index].document;
    let changes = (index > 0).then(|| Changes::new(arms, index));
    Folder {
        folder: loaded[index].folder.display().to_string(),
        label: labels[index].clone(),
        name: document.name.clone(),
        arms: arms.iter().filter(|arm| arm.folders[index].is_some()).count(),
        repeats: document.repeats,
        runtime_s: document.runtime_s,
        summary: changes.as_ref().map(|changes| {
            let unequal = differences::unequal_loads(&loaded[0].document, document);
            changes.summary(compares, &format!("{} against {}", labels[index], labels[0]), &unequal)
        }),
        changes,
    }
}

impl Changes {
    fn new(arms: &[ArmComparison], index: usize) -> Self {
        let changes = arms.iter().filter_map(|arm| {
            let cell = arm.folders[index].as_ref()?;
            Some((arm, cell.change?, cell.iops_ratio?.estimate.value))
        });
        let changes: Vec<(&ArmComparison, Change, f64)> = changes.collect();
        let p99_ratios = arms.iter().filter_map(|arm| arm.folders[index].as_ref()?.p99_ratio);
        let (p99_longer, p99_shorter): (Vec<Ratio>, Vec<Ratio>) =
            p99_ratios.filter(|ratio| ratio.shown).partition(|ratio| ratio.estimate.value > 1.0);
        let of = |wanted: Change| changes.iter().filter(move |(_, change, _)| *change == wanted);
        let extreme =
            |(arm, _, ratio): &(&ArmComparison, Change, f64)| Extreme { arm: arm.arm.to_string(), ratio: *ratio };
        Self {
            compared: changes.len(),
            faster: of(Change::Faster).count(),
            slower: of(Change::Slower).count(),
            no_difference_shown: of(Change::NoDifferenceShown).count(),
            p99_shorter: p99_shorter.len(),
            p99_longer: p99_longer.len(),
            largest_gain: of(Change::Faster).max_by(|a, b| a.2.total_cmp(&b.2)).map(extreme),
            largest_loss: of(Change::Slower).min_by(|a, b| a.2.total_cmp(&b.2)).map(extreme),
        }
    }

    /// `unequal` are the fields in which the loads differ.
    fn summary(&self, compares: Compares, against: &str, unequal: &[&str]) -> String {
        if self.compared == 0 {
            return match unequal {
                [] => format!("{against}: no arm in common."),
                fields => format!("{against}: no arm in common; the loads differ in {}.", fields.join(", ")),
            };
        }
        let Self { compared, faster, slower, no_difference_shown, p99_shorter, p99_longer, .. } = self;
        let extreme = |what: &str, extreme: &Option<Extreme>| {
            let Extreme { arm, ratio } = extreme.as_ref()?;
            Some(format!("; the largest {what} is {ratio:.2}x, {arm}"))
        };
        if compares == Compares::HighestRate {
            return format!(
                "{against}: of {compared} searches {faster} find a higher rate and {slower} a lower one, \
                 {no_difference_shown} show no difference{}{}.",
                extreme("gain", &self.largest_gain).unwrap_or_default(),
                extreme("loss", &self.largest_loss).unwrap_or_default()
            );
        }
        format!(
            "{against}: of {compared} arms {faster} are faster and {slower} slower, {no_difference_shown} show no \
             difference{}{}; the p99 of {p99_shorter} is shorter, that of {p99_longer} longer.",
            extreme("gain", &self.largest_gain).unwrap_or_default(),
            extreme("loss", &self.largest_loss).unwrap_or_default()
        )
    }
}

/// What a folder lacks and another has.
fn missing(arms: &[ArmComparison], loaded: &[Loaded], labels: &[String]) -> Vec<Missing> {
    let mut all: Vec<Missing> = Vec::new();
    for (index, folder) in loaded.iter().enumerate() {
        for ArmComparison { arm, .. } in arms.iter().filter(|arm| arm.folders[index].is_none()) {
            let (reason, remedy) = why_missing(arm, folder);
            let (path, label) = (arm.label(), &labels[index]);
            let is_same = |known: &&mut Missing| {
                known.path == path && known.folder == *label && known.reason == reason && known.remedy == remedy
            };
            match all.iter_mut().find(is_same) {
                Some(known) => known.arms += 1,
                None => {
                    let (which, folder) = (arm.to_string(), label.clone());
                    all.push(Missing { path, arms: 1, which, folder, reason, remedy });
                }
            }
        }
    }
    // A stable sort: arms of one path stay in the order of the folders.
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// Why a folder lacks an arm, and how to fix it. A study groups reasons by path, and names one arm of each.
fn why_missing(arm: &Arm, folder: &Loaded) -> (String, String) {
    let skipped = &folder.document.skipped;
    let of_path: Vec<&Skipped> = skipped.iter().filter(|skipped| skipped.path == arm.label()).collect();
    let exactly = of_path.iter().find(|skipped| skipped.which == arm.to_string());
    match (exactly, &of_path[..]) {
        (Some(one), _) | (None, [one]) => (one.reason.clone(), one.remedy.clone()),
        (None, []) => ("it was not among its arms".into(), String::new()),
        (None, several) => {
            let reasons: Vec<&str> = several.iter().map(|skipped| skipped.reason.as_str()).collect();
            (reasons.join("; or "), String::new())
        }
    }
}

fn claims(loaded: &[Loaded]) -> Vec<ClaimComparison> {
    let mut all: Vec<ClaimComparison> = Vec::new();
    for (index, folder) in loaded.iter().enumerate() {
        for claim in &folder.document.claims {
            let at = all.iter().position(|known| known.id == claim.id).unwrap_or_else(|| {
                let verdicts = vec![None; loaded.len()];
                all.push(ClaimComparison { id: claim.id.clone(), says: claim.says.clone(), verdicts, changed: false });
                all.len() - 1
            });
            all[at].verdicts[index] = Some(claim.verdict);
        }
    }
    for claim in &mut all {
        claim.changed = claim.verdicts.iter().any(|verdict| *verdict != claim.verdicts[0]);
    }
    all
}

fn warnings(loaded: &[Loaded], labels: &[String]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (folder, label) in loaded.iter().zip(labels) {
        if !folder.document.complete {
            let repeats = folder.document.repeats;
            warnings.push(format!("{label} was interrupted: {repeats} of its repeats are complete"));
        }
    }
    match loaded.iter().map(|folder| folder.document.repeats).min() {
        Some(repeats) if repeats < REPEATS_FOR_ADVICE => warnings.push(format!(
            "with fewer than {REPEATS_FOR_ADVICE} repeats a difference cannot be distinguished from chance: \
             none is shown"
        )),
        Some(repeats) => warnings.extend(too_few(repeats)),
        None => {}
    }
    warnings
}

#[cfg(test)]
mod tests;
