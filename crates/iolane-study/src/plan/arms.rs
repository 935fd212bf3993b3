//! Expands the groups of a study into arms. Sessions and the lint of claims call it.

use std::collections::HashSet;

use iolane::{Error, Result};
use iolane_application::Application;
use iolane_measure::workload::{DataPattern, OffsetPattern, Workload};

use super::arm::Arm;
use super::group::{Group, NamedPath};
use super::scale::{PerScale, Scale};
use super::study::Study;

/// A study with more arms than this is taken for a mistake.
const ARMS_MAX: usize = 100_000;

impl Study {
    /// Every arm at a scale, each once, in the order of the file.
    ///
    /// # Errors
    /// `Usage` if there are more than 100,000, or none.
    pub fn arms(&self, scale: Scale) -> Result<Vec<Arm>> {
        let what = || format!("study {}", self.name);
        let count = self.groups.iter().try_fold(0usize, |sum, group| sum.checked_add(group.count(scale)?));
        if count.is_none_or(|count| count > ARMS_MAX) {
            return Err(Error::usage(what(), format!("it has more than {ARMS_MAX} arms"))
                .remedy("give its factors fewer values"));
        }
        let mut known = HashSet::new();
        let mut arms: Vec<Arm> = self.groups.iter().flat_map(|group| group.arms(&self.workload, scale)).collect();
        arms.retain(|arm| known.insert(arm.clone()));
        match arms.is_empty() {
            true => Err(Error::usage(what(), "it has no arms").remedy("give it a [[group]] with a path")),
            false => Ok(arms),
        }
    }
}

impl Group {
    /// The number of combinations; `None` on overflow.
    fn count(&self, scale: Scale) -> Option<usize> {
        let lengths = [
            self.paths.len(),
            self.applications.len().max(1),
            self.access.at(scale).len(),
            length(&self.read_percents, scale),
            self.block_sizes.at(scale).len(),
            length(&self.offsets, scale),
            self.depths.at(scale).len(),
            length(&self.rates, scale),
            length(&self.batch_submits, scale),
            length(&self.batch_completes, scale),
            length(&self.batch_complete_maxes, scale),
            length(&self.fsyncs, scale),
            length(&self.fdatasyncs, scale),
            self.threads.at(scale).len(),
            self.drives.at(scale).len(),
            self.cores.at(scale).len(),
        ];
        lengths.into_iter().try_fold(1usize, usize::checked_mul)
    }

    fn arms(&self, base: &Workload, scale: Scale) -> Vec<Arm> {
        let applications: Vec<Option<Application>> = match self.applications.is_empty() {
            true => vec![None],
            false => self.applications.iter().copied().map(Some).collect(),
        };
        let loads = self.loads(base, scale);
        let mut arms = Vec::new();
        for (application, load) in product(&applications, &loads) {
            let load = application.map_or_else(|| load.clone(), |application| load_of(application, load));
            for (threads, drives) in product(self.threads.at(scale), self.drives.at(scale)) {
                for (cores, depth) in product(self.cores.at(scale), self.depths.at(scale)) {
                    arms.extend(self.paths.iter().map(|NamedPath { name, path }| Arm {
                        name: name.clone(),
                        path: path.clone(),
                        peer: None,
                        application: *application,
                        workload: Workload { depth: *depth, ..load.clone() },
                        threads: *threads,
                        drives: drives.count(*threads),
                        cores: cores.count(*threads),
                    }));
                }
            }
        }
        arms
    }

    /// The workloads but for their depth. What has no meaning for an access is left out, so that a study may have reads
    /// beside mixes with several shares of reads: equal loads are one arm.
    fn loads(&self, base: &Workload, scale: Scale) -> Vec<Workload> {
        let mut loads = vec![base.clone()];
        vary(&mut loads, Some(self.access.at(scale)), |load, access| load.access = *access);
        vary(&mut loads, at(&self.read_percents, scale), |load, percent| load.read_percent = Some(*percent));
        vary(&mut loads, Some(self.block_sizes.at(scale)), |load, sizes| load.block_sizes = sizes.clone());
        vary(&mut loads, at(&self.offsets, scale), |load, offsets| load.offsets = *offsets);
        vary(&mut loads, at(&self.rates, scale), |load, rate| load.rate = Some(*rate));
        vary(&mut loads, at(&self.batch_submits, scale), |load, most| load.batch_submit = Some(*most));
        vary(&mut loads, at(&self.batch_completes, scale), |load, least| load.batch_complete = Some(*least));
        vary(&mut loads, at(&self.batch_complete_maxes, scale), |load, most| load.batch_complete_max = Some(*most));
        vary(&mut loads, at(&self.fsyncs, scale), |load, every| load.fsync_every = Some(*every));
        vary(&mut loads, at(&self.fdatasyncs, scale), |load, every| load.fdatasync_every = Some(*every));
        for load in &mut loads {
            load.read_percent = load.access.is_mixed().then(|| load.read_percent());
            if !load.offsets.suits(load.access.is_random()) {
                load.offsets = OffsetPattern::UNIFORM;
            }
            if !load.access.writes() {
                load.data = DataPattern::RANDOM;
                load.durable = false;
            }
            load.fsync_every = load.fsync_every.filter(|_| load.access.writes());
            load.fdatasync_every = load.fdatasync_every.filter(|_| load.access.writes());
        }
        loads
    }
}

/// The load of an application: what it requests, and its rate if it has one.
fn load_of(application: Application, load: &Workload) -> Workload {
    Workload {
        access: application.access(),
        read_percent: application.access().is_mixed().then_some(50),
        block_sizes: application.block_sizes(),
        rate: load.rate.filter(|_| application.has_rate()),
        start: load.start,
        size: load.size,
        seed: load.seed,
        ..Workload::default()
    }
}

fn at<T>(values: &Option<PerScale<Vec<T>>>, scale: Scale) -> Option<&Vec<T>> {
    values.as_ref().map(|values| values.at(scale))
}

fn length<T>(values: &Option<PerScale<Vec<T>>>, scale: Scale) -> usize {
    at(values, scale).map_or(1, Vec::len)
}

/// Replaces each load by one for each value of a factor; a factor without values leaves them as they are.
fn vary<T>(loads: &mut Vec<Workload>, values: Option<&Vec<T>>, set: impl Fn(&mut Workload, &T)) {
    let Some(values) = values else { return };
    let with = |load: &Workload, value: &T| {
        let mut load = load.clone();
        set(&mut load, value);
        load
    };
    *loads = loads.iter().flat_map(|load| values.iter().map(|value| with(load, value))).collect();
}

fn product<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}
