//! Expands the groups of a study into arms. Sessions and the lint of claims call it.

use std::collections::HashSet;

use iolane::{Error, Result};

use super::arm::Arm;
use super::group::{Group, NamedPath};
use super::scale::Scale;
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
        let mut arms: Vec<Arm> = self.groups.iter().flat_map(|group| group.arms(scale)).collect();
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
            self.access.at(scale).len(),
            self.block_sizes.at(scale).len(),
            self.depths.at(scale).len(),
            self.threads.at(scale).len(),
            self.drives.at(scale).len(),
            self.cores.at(scale).len(),
        ];
        lengths.into_iter().try_fold(1usize, usize::checked_mul)
    }

    fn arms(&self, scale: Scale) -> Vec<Arm> {
        let mut arms = Vec::new();
        for (rw, bs) in product(self.access.at(scale), self.block_sizes.at(scale)) {
            for (threads, drives) in product(self.threads.at(scale), self.drives.at(scale)) {
                for (cores, depth) in product(self.cores.at(scale), self.depths.at(scale)) {
                    arms.extend(self.paths.iter().map(|NamedPath { name, path }| Arm {
                        name: name.clone(),
                        path: path.clone(),
                        peer: None,
                        rw: *rw,
                        bs: bs.clone(),
                        depth: *depth,
                        threads: *threads,
                        drives: drives.count(*threads),
                        cores: cores.count(*threads),
                    }));
                }
            }
        }
        arms
    }
}

fn product<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}
