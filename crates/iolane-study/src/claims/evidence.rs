//! The values measured of the arms of a study, repeat by repeat, or the reason why there are none. The rules call it; it
//! decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use iolane_model::{Outcome, Power};

use super::needs;
use crate::plan::{Arm, Check, Metric, Requests, Selection};
use crate::rows::{ArmResults, LeftOut, Results, Row};
use iolane_measure::figures::FigureValue;
use iolane_measure::host::LabMachine;
use iolane_measure::telemetry::Sourced;

/// All arms of a study except those of peers, whether measured or left out.
///
/// Arms that were left out are included so that `"max"` is the largest value of the plan: a claim about twenty drives must
/// not be decided on four because the machine has no more.
pub(super) struct Evidence<'a> {
    arms: Vec<ArmEvidence<'a>>,
    /// If the results are those of a guest of the lab, what is behind it.
    pub(super) lab: Option<LabMachine>,
}

/// The results of an arm, or why it was left out.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArmEvidence<'a> {
    Measured(Measured<'a>),
    LeftOut(&'a LeftOut),
    Modelled(Modelled<'a>),
}

/// An arm as the model plays it in one draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modelled<'a> {
    arm: &'a Arm,
    outcome: &'a Outcome,
    power: Option<Power>,
}

impl<'a> Modelled<'a> {
    pub(super) fn new(arm: &'a Arm, outcome: &'a Outcome, power: Option<Power>) -> Self {
        Self { arm, outcome, power }
    }

    /// Whether the model has such figures; joules only of a machine whose power it knows.
    pub(super) fn has(metric: Metric) -> bool {
        match metric {
            Metric::LatencyNs(requests, _) => requests == Requests::All,
            Metric::ServiceP50Ns
            | Metric::ServiceP99Ns
            | Metric::SubmitP50Ns
            | Metric::CacheMissRate
            | Metric::CyclesPerIo
            | Metric::InstructionsPerIo => false,
            _ => true,
        }
    }

    fn value(&self, metric: Metric) -> Option<f64> {
        let Self { outcome, power, .. } = self;
        let watts = |above_idle: bool| {
            let power = (*power)?;
            Some(outcome.watts(&power) - if above_idle { power.idle_w } else { 0.0 })
        };
        Some(match metric {
            Metric::Iops => outcome.iops(),
            Metric::BytesPerS => outcome.bytes_per_s(),
            Metric::MeanNs => outcome.latency.mean(),
            Metric::LatencyNs(Requests::All, percentile) => outcome.percentile_ns(100.0 * percentile.share()) as f64,
            Metric::SyscallsPerIo => outcome.calls_per_io(),
            Metric::ContextSwitchesPerIo => outcome.switches_per_io(),
            Metric::InterruptsPerIo => outcome.interrupts_per_io(),
            Metric::Cores => outcome.cores(),
            Metric::CpuSPerMillionIos => outcome.cpu_ns_per_io() / 1e3,
            Metric::Watts => watts(false)?,
            Metric::WattsAboveIdle => watts(true)?,
            Metric::IosPerJoule => outcome.iops() / watts(false)?,
            Metric::IosPerJouleAboveIdle => outcome.iops() / watts(true)?,
            _ => return None,
        })
    }
}

/// The runs of an arm that count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured<'a> {
    results: &'a ArmResults,
    /// The number of the first repeat that does not count.
    end: u32,
    /// That of the evidence.
    lab: Option<LabMachine>,
}

impl<'a> ArmEvidence<'a> {
    pub(super) fn arm(&self) -> &'a Arm {
        match self {
            Self::Measured(measured) => &measured.results.arm,
            Self::LeftOut(left_out) => &left_out.arm,
            Self::Modelled(modelled) => modelled.arm,
        }
    }

    /// A metric by repeat, or why it is not available.
    pub(super) fn values(&self, metric: Metric) -> Result<ByRepeat, String> {
        let Measured { results, end, lab } = match self {
            Self::Measured(measured) => *measured,
            Self::LeftOut(left_out) => return Err(left_out.reason.clone()),
            Self::Modelled(modelled) => {
                let value = modelled.value(metric).ok_or("the model has no such figure")?;
                return Ok(ByRepeat::from([(0, value)]));
            }
        };
        if let Some(reason) = lab.and_then(|lab| needs::shared_cores(&results.arm, metric, lab)) {
            return Err(reason);
        }
        let value = |row: &Row| Some((row.repeat, row.metric(metric).filter(|value| value.is_finite())?));
        let values: ByRepeat = results.rows.iter().filter(|row| row.repeat < end).filter_map(value).collect();
        if values.is_empty() { Err(unavailable(results, metric)) } else { Ok(values) }
    }
}

impl<'a> Evidence<'a> {
    /// The evidence of the repeats below `end`.
    pub(super) fn of(results: &'a Results, end: u32) -> Self {
        let lab = results.lab;
        let measured = results.arms.iter().map(|results| ArmEvidence::Measured(Measured { results, end, lab }));
        let all = measured.chain(results.left_out.iter().map(ArmEvidence::LeftOut));
        Self { arms: all.filter(|evidence| evidence.arm().peer.is_none()).collect(), lab }
    }

    /// The evidence of one draw of the model.
    pub(super) fn of_model(arms: Vec<ArmEvidence<'a>>) -> Self {
        Self { arms, lab: None }
    }

    /// The joules that a check uses, one figure for each source; empty if its metric needs none.
    pub(super) fn joules(&self, check: &Check) -> Vec<&'a Sourced<FigureValue>> {
        let mut sources: Vec<&Sourced<FigureValue>> = Vec::new();
        if !check.rule.metric().is_of_joules() {
            return sources;
        }
        for arm in check.rule.selections().into_iter().flat_map(|selection| self.select(selection)) {
            let ArmEvidence::Measured(Measured { results, .. }) = arm else { continue };
            for joules in results.rows.iter().filter_map(Row::joules) {
                let origin = (&joules.source, joules.modelled);
                if !sources.iter().any(|known| (&known.source, known.modelled) == origin) {
                    sources.push(joules);
                }
            }
        }
        sources
    }

    pub(super) fn select(&self, selection: &Selection) -> Vec<ArmEvidence<'a>> {
        selection.of(&self.arms, |evidence| evidence.arm()).into_iter().copied().collect()
    }
}

/// Values by number of the repeat.
pub(super) type ByRepeat = BTreeMap<u32, f64>;

/// The repeats that occur in all of them, ascending.
pub(super) fn common_repeats<'a>(all: impl IntoIterator<Item = &'a ByRepeat>) -> Vec<u32> {
    let sets = all.into_iter().map(|values| values.keys().copied().collect::<BTreeSet<u32>>());
    sets.reduce(|common, other| &common & &other).unwrap_or_default().into_iter().collect()
}

/// The values of these repeats.
pub(super) fn at(values: &ByRepeat, repeats: &[u32]) -> Vec<f64> {
    repeats.iter().filter_map(|repeat| values.get(repeat).copied()).collect()
}

/// Why no run of an arm has a metric: the reason by metric, and what the runs recorded about the figure behind it.
fn unavailable(results: &ArmResults, metric: Metric) -> String {
    let reason = match metric {
        Metric::Iops | Metric::BytesPerS => "no time was measured",
        Metric::LatencyNs(Requests::Syncs, _) => "no sync was measured",
        Metric::LatencyNs(Requests::Commits, _) => "no commit was measured",
        Metric::MeanNs | Metric::LatencyNs(..) => "no latency was measured",
        Metric::ServiceP50Ns | Metric::ServiceP99Ns => "the time after the start is that of open loops",
        Metric::SubmitP50Ns => "submit latency was not measured",
        Metric::SyscallsPerIo => "system calls were not counted",
        Metric::ContextSwitchesPerIo => "context switches were not counted",
        Metric::InterruptsPerIo => "the device's interrupts were not counted",
        Metric::Cores | Metric::CpuSPerMillionIos => "CPU time was not measured",
        Metric::CacheMissRate => "cache misses were not counted",
        Metric::CyclesPerIo => "CPU cycles were not counted",
        Metric::InstructionsPerIo => "instructions were not counted",
        Metric::IosPerJoule | Metric::Watts => "no meter: joules were not measured",
        Metric::IosPerJouleAboveIdle | Metric::WattsAboveIdle => "the power of the idle machine is not known",
    };
    let mut text = reason.to_owned();
    for why in results.rows.iter().filter_map(|row| row.why_missing(metric)) {
        let why = why.to_string();
        if !text.contains(&why) {
            text.push_str(&format!(" ({why})"));
        }
    }
    text
}
