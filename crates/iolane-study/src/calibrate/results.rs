//! Observations of a study's results.

use iolane::{Error, Result};
use iolane_measure::figures::{FigureValue, RunFigure};

use super::arm::{Measured, observation, why_not};
use super::host::{self, Facts};
use super::{Gathered, NotUsed, count_not_used};
use crate::plan::{Arm, Metric};
use crate::results::Loaded;
use crate::rows::{ArmResults, Row};
use crate::run_record::TargetRecord;
use iolane_measure::host::Host;

impl Gathered {
    /// What the results of a study tell. Rejected runs tell nothing.
    ///
    /// # Errors
    /// `Usage` if no arm tells the model anything; `Failed` if the record of the machine lacks its CPUs.
    pub fn of_results(loaded: &Loaded) -> Result<Self> {
        let place = loaded.folder.display().to_string();
        let document = &loaded.document;
        let results = loaded.results();
        let arms = results.arms.iter();
        Self::of_arms(&document.name, arms, &loaded.rows, &document.host.host, &document.targets)
            .map(|gathered| gathered.found_in(&place))?
            .or_nothing(&place)
    }

    /// What arms of a study tell. `rows` are all rows of the study.
    ///
    /// # Errors
    /// `Failed` if the record of the machine lacks its CPUs.
    pub(crate) fn of_arms<'a>(
        name: &str,
        arms: impl Iterator<Item = &'a ArmResults>,
        rows: &[Row],
        host: &Host,
        targets: &[TargetRecord],
    ) -> Result<Self> {
        let Facts { processor, scheduler, notes } = Facts::of(host, numa_nodes(rows), name)?;
        let mut gathered = Self { notes, ..Self::of_machine(host::name(name, host), (processor, scheduler)) };
        gathered.notes.extend(host::note_of_targets(targets));
        let of_targets = host::why_not_targets(targets);
        for results in arms {
            gathered.add_arm(&results.arm, of_targets.clone(), || measured(results), "");
        }
        Ok(gathered)
    }

    /// Adds what an arm tells, or why it tells nothing: its targets (`of_targets`), its load, or that nothing was measured.
    pub(super) fn add_arm(
        &mut self,
        arm: &Arm,
        of_targets: Option<String>,
        measured: impl FnOnce() -> Measured,
        place: &str,
    ) {
        let told = match of_targets.or_else(|| why_not(arm)) {
            Some(why) => Err(why),
            None => observation(arm, &measured(), place).ok_or_else(|| "nothing was measured".to_owned()),
        };
        match told {
            Ok(observation) => self.observations.push(observation),
            Err(reason) => count_not_used(&mut self.not_used, NotUsed { path: arm.label(), arms: 1, reason }),
        }
    }

    /// The same observations, said to be from this place.
    fn found_in(mut self, place: &str) -> Self {
        self.observations.iter_mut().for_each(|observation| observation.from = place.to_owned());
        self
    }

    pub(super) fn of_machine(
        name: String,
        (processor, scheduler): (iolane_model::Processor<Option<f64>>, iolane_model::Scheduler),
    ) -> Self {
        Self {
            name,
            processor,
            scheduler,
            power: None,
            known: iolane_model::Known::default(),
            seed: 1,
            observations: Vec::new(),
            not_used: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Refuses what tells nothing.
    pub(super) fn or_nothing(self, place: &str) -> Result<Self> {
        if !self.observations.is_empty() {
            return Ok(self);
        }
        let cause = match &self.not_used[..] {
            [] => "it has no arm with a valid run".to_owned(),
            [first, ..] => format!("no arm of it tells the model anything: {}: {}", first.path, first.reason),
        };
        Err(Error::usage(place, cause).remedy(
            "measure psync, libaio, io_uring, io_uring_cmd or nvme with random reads: `iolane calibrate --measure`",
        ))
    }
}

fn measured(results: &ArmResults) -> Measured {
    let latency = results.latency();
    let quantile = |at: f64| (!latency.is_empty()).then(|| latency.value_at_quantile(at) as f64);
    let cpu_s_per_million = results.values(Metric::CpuSPerMillionIos);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let first = &results.rows[0];
    Measured {
        iops: results.values(Metric::Iops).unwrap_or_default(),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        cpu_ns_per_io: cpu_s_per_million.map(|values| mean(values) * 1e3),
        cpus: first.cpus.clone(),
        sqpoll_cpus: first.sqpoll_cpus.clone(),
    }
}

/// The NUMA nodes of the machine, as a list.
fn numa_nodes(rows: &[Row]) -> Option<&str> {
    rows.iter().find_map(|row| match &row.figures.known(RunFigure::NumaNodes)?.value {
        FigureValue::Text(nodes) => Some(nodes.as_str()),
        _ => None,
    })
}
