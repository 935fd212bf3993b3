//! What was measured of the arms that a check is about, repeat by repeat, and what of them is missing, with the reasons.
//! The rules call it; it decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::finding::Finding;
use crate::plan::{Arm, Check, Factor, Metric, Operand, Rule, Selection, Take};
use crate::quantity::place;
use crate::records::{ArmResults, LeftOut, Results, Row, UNAVAILABLE};
use crate::stats::{largest_by_repeat, median, smallest_by_repeat};

/// All arms of a study that are iolane's own: those that were measured, and those that were not.
///
/// Both, so that `"max"` is the largest of the plan: a claim about twenty drives is not decided on four because there
/// were no more.
pub(super) struct Evidence<'a>(Vec<Candidate<'a>>);

/// An arm of the plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum Candidate<'a> {
    Measured(&'a ArmResults),
    LeftOut(&'a LeftOut),
}

impl<'a> Candidate<'a> {
    pub(super) fn arm(&self) -> &'a Arm {
        match self {
            Self::Measured(results) => &results.arm,
            Self::LeftOut(left_out) => &left_out.arm,
        }
    }

    /// A metric by repeat; or why it could not be had.
    pub(super) fn values(&self, metric: Metric) -> Result<ByRepeat, String> {
        let results = match self {
            Self::Measured(results) => results,
            Self::LeftOut(left_out) => return Err(left_out.reason.clone()),
        };
        let value = |row: &Row| Some((row.repeat, row.metric(metric).filter(|value| value.is_finite())?));
        let values: ByRepeat = results.rows.iter().filter_map(value).collect();
        if values.is_empty() { Err(unavailable(results, metric)) } else { Ok(values) }
    }
}

impl<'a> Evidence<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let measured = results.arms.iter().map(Candidate::Measured);
        let all = measured.chain(results.left_out.iter().map(Candidate::LeftOut));
        Self(all.filter(|candidate| candidate.arm().peer.is_none()).collect())
    }

    /// Who told the joules that a check is about; none where it is about something else.
    pub(super) fn joules_from(&self, check: &Check) -> Vec<&'a str> {
        let (metric, operands) = match &check.rule {
            Rule::Ratio { metric, of, to, .. } | Rule::Crossing { metric, of, to, .. } => (metric, vec![of, to]),
            Rule::Value { metric, of, .. } => (metric, vec![of]),
            Rule::Order { metric, of, .. } => return self.joules_of(*metric, &[of]),
        };
        let selections: Vec<&Selection> = operands.iter().map(|operand| &operand.select).collect();
        self.joules_of(*metric, &selections)
    }

    fn joules_of(&self, metric: Metric, selections: &[&Selection]) -> Vec<&'a str> {
        let mut sources: Vec<&str> = Vec::new();
        if !metric.is_of_joules() {
            return sources;
        }
        for candidate in selections.iter().flat_map(|selection| self.select(selection)) {
            let Candidate::Measured(results) = candidate else { continue };
            for source in results.rows.iter().filter_map(Row::joules_from) {
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
        }
        sources
    }

    pub(super) fn select(&self, selection: &Selection) -> Vec<Candidate<'a>> {
        selection.of(&self.0, |candidate| candidate.arm()).into_iter().copied().collect()
    }
}

/// Values by the number of the repeat.
pub(super) type ByRepeat = BTreeMap<u32, f64>;

/// What stands for an operand.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    /// Its values.
    pub(super) values: ByRepeat,
    /// The arm that they are of: `iou+k at depth 128`; with `mostly` before it where the repeats are of several.
    pub(super) label: String,
    /// Which arms it might have been and was not, because they are missing.
    pub(super) missing: Missing<'a>,
    take: Take,
}

impl<'a> Standing<'a> {
    /// What an operand comes to with these arms. Its label tells the arm that stands for them from all that the figure
    /// is about.
    ///
    /// # Errors
    /// That it is not testable, and why: none was measured, or the study's file has more than one or none.
    pub(super) fn of(
        operand: &Operand,
        metric: Metric,
        arms: &[Candidate<'a>],
        about: &[Candidate<'a>],
    ) -> Result<Self, Finding<'a>> {
        if arms.is_empty() {
            return Err(Finding::not_testable("the study as it was run has no such arm"));
        }
        if operand.take == Take::Only && arms.len() > 1 {
            let names: Vec<String> = arms.iter().map(|candidate| candidate.arm().to_string()).collect();
            let why = format!("the study's file selects {} arms where one is meant: {}", arms.len(), names.join("; "));
            return Err(Finding::not_testable(why));
        }
        let mut missing = Missing::default();
        let mut measured = Vec::new();
        for candidate in arms {
            match candidate.values(metric) {
                Ok(values) => measured.push((candidate.arm(), values)),
                Err(reason) => missing.add(reason, candidate.arm()),
            }
        }
        if measured.is_empty() {
            return Err(Finding::missing(missing));
        }
        let (values, chosen, is_always) = choose(operand.take, &measured);
        let about: Vec<&Arm> = about.iter().map(Candidate::arm).collect();
        let mostly = if is_always { "" } else { "mostly " };
        let label = format!("{mostly}{}", label(chosen, &about));
        Ok(Self { values, label, missing, take: operand.take })
    }

    /// Whether what is missing could make it larger.
    pub(super) fn may_be_larger(&self) -> bool {
        self.take == Take::Largest && !self.missing.is_empty()
    }

    /// Whether what is missing could make it smaller.
    pub(super) fn may_be_smaller(&self) -> bool {
        self.take == Take::Smallest && !self.missing.is_empty()
    }

    /// The median of those repeats.
    pub(super) fn median(&self, repeats: &[u32]) -> f64 {
        median(&at(&self.values, repeats))
    }
}

/// The values that stand for all, the arm that gives most of them, and whether it gives all. An arm that lacks a repeat
/// would leave it to the others, so that only repeats that all of them have count.
fn choose<'a>(take: Take, measured: &[(&'a Arm, ByRepeat)]) -> (ByRepeat, &'a Arm, bool) {
    let repeats = common_repeats(measured.iter().map(|(_, values)| values));
    let arms: Vec<Vec<f64>> = measured.iter().map(|(_, values)| at(values, &repeats)).collect();
    let taken = match take {
        Take::Smallest => smallest_by_repeat(&arms),
        Take::Only | Take::Largest => largest_by_repeat(&arms),
    };
    let likeness = |arm: &[f64]| arm.iter().zip(&taken).filter(|(value, taken)| value == taken).count();
    // The first of those that are alike: an order that does not depend on noise.
    let best = (0..arms.len()).rev().max_by_key(|index| likeness(&arms[*index])).unwrap_or(0);
    let is_always = likeness(&arms[best]) == repeats.len();
    (repeats.into_iter().zip(taken).collect(), measured[best].0, is_always)
}

/// The path's name, and those factors in which it differs from others it is among.
pub(super) fn label(arm: &Arm, among: &[&Arm]) -> String {
    let mut words = vec![arm.name.clone()];
    for factor in [Factor::Rw, Factor::Bs, Factor::Depth, Factor::Threads, Factor::Drives, Factor::Cores] {
        let shown = arm.shown(factor);
        if among.iter().any(|other| other.shown(factor) != shown) {
            words.push(place(factor, &shown));
        }
    }
    words.join(" ")
}

/// The repeats that all have, ascending.
pub(super) fn common_repeats<'a>(all: impl IntoIterator<Item = &'a ByRepeat>) -> Vec<u32> {
    let sets = all.into_iter().map(|values| values.keys().copied().collect::<BTreeSet<u32>>());
    sets.reduce(|common, other| &common & &other).unwrap_or_default().into_iter().collect()
}

/// The values of those repeats.
pub(super) fn at(values: &ByRepeat, repeats: &[u32]) -> Vec<f64> {
    repeats.iter().filter_map(|repeat| values.get(repeat).copied()).collect()
}

/// Arms that a check is about and that have no value, by reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Missing<'a>(Vec<(String, Vec<&'a Arm>)>);

impl<'a> Missing<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, reason: String, arm: &'a Arm) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, arms)) if arms.contains(&arm) => {}
            Some((_, arms)) => arms.push(arm),
            None => self.0.push((reason, vec![arm])),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (reason, arms) in &other.0 {
            arms.iter().for_each(|arm| self.add(reason.clone(), arm));
        }
    }
}

/// `iou+p (8 arms: the device has no poll queues), spdk (1 arm: ...)`
impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, arms)) in self.0.iter().enumerate() {
            let mut names: Vec<&str> = Vec::new();
            for arm in arms {
                if !names.contains(&arm.name.as_str()) {
                    names.push(&arm.name);
                }
            }
            let (names, plural) = (names.join(", "), if arms.len() == 1 { "" } else { "s" });
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{names} ({} arm{plural}: {reason})", arms.len())?;
        }
        Ok(())
    }
}

/// Why no run of an arm has a metric: the metric's own reason, and what the runs say of the figure it is made from.
fn unavailable(results: &ArmResults, metric: Metric) -> String {
    let (reason, figure) = match metric {
        Metric::Iops | Metric::BytesPerS => ("no time was measured", "elapsed_s"),
        Metric::MeanNs | Metric::P50Ns | Metric::P99Ns => ("no latency was measured", "latency"),
        Metric::SubmitP50Ns => ("the time to hand a batch over was not measured", "submit"),
        Metric::SyscallsPerIo => ("system calls were not counted", "syscalls_per_io"),
        Metric::ContextSwitchesPerIo => ("context switches were not counted", "context_switches"),
        Metric::InterruptsPerIo => ("the device's interrupts were not counted", "device_interrupts"),
        Metric::Cores | Metric::CpuSPerMillionIos => ("processor time was not measured", "cpu_s"),
        Metric::CacheMissRate => ("cache misses were not counted", "cache_misses"),
        Metric::CyclesPerIo => ("processor cycles were not counted", "cycles"),
        Metric::InstructionsPerIo => ("instructions were not counted", "instructions"),
        Metric::IosPerJoule | Metric::Watts => ("no meter: joules were not measured", "joules"),
        Metric::IosPerJouleAboveIdle | Metric::WattsAboveIdle => ("what the idle machine takes is not known", "joules"),
    };
    let mut text = reason.to_owned();
    for source in results.rows.iter().filter_map(|row| row.sources.get(figure)) {
        let why = source.strip_prefix(UNAVAILABLE).unwrap_or(source);
        if !text.contains(why) {
            text.push_str(&format!(" ({why})"));
        }
    }
    text
}
