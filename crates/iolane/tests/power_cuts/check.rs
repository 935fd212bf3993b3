//! Replays the record of a drive up to many places, has the examples recover what is there, and compares it with what was acknowledged.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use iolane::{Pages, Pool, QueueConfig, Target, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::log::{Entry, LANDED, Landed, Log, Part};
use crate::page_writer::{self, PAGE_BYTES, Snapshots};
use crate::workload::{self, Kind, NOTE_BYTES, Note, RUN_BYTES};
use crate::write_ahead::files::{Files, NAMES};
use crate::write_ahead::{GROUP_MAX, Group, Store};

/// A run as its record has it.
struct Run {
    begin: u64,
    note: Note,
    /// The entries that acknowledge something, and how much was acknowledged with each.
    acknowledged: Vec<(usize, u64)>,
    /// The entry after the flush that follows its last note.
    end: usize,
}

/// The states that a run goes through; the first is empty.
enum States {
    Groups(Vec<Group>),
    Snapshots(Vec<Vec<Vec<u8>>>),
}

/// What a check found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) cuts: usize,
    pub(crate) failures: Vec<String>,
}

/// Cuts the power of each run in a log this many times, at places that follow from the seed.
///
/// # Errors
/// If the log cannot be read, or shows no run.
pub(crate) fn check(file: &Path, cuts: usize, seed: u64, folder: &Path) -> Result<Found> {
    let mut log = Log::parse(fs::read(file).with_context(|| file.display().to_string())?);
    let runs = runs(&log);
    ensure!(!runs.is_empty(), "{}: no run is recorded", file.display());
    for run in runs.iter().filter(|run| run.note.forced) {
        log.force(run.first()..run.end, run.begin + run.note.kind.places()[0], 2 * PAGE_BYTES);
    }
    let mut found = Found::default();
    for run in &runs {
        let Note { kind, path, seed: of_run, .. } = &run.note;
        let name = format!("{} by {path}, workload {of_run}", kind.name());
        let missing = run.acknowledged.last().is_none_or(|(_, count)| *count != kind.commits());
        ensure!(!missing, "{name}: its record ends before the run did");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ of_run);
        let (count, failures) = run.check(&log, cuts, &mut random, folder)?;
        let flushes = log.entries[run.first()..run.end].iter().filter(|entry| **entry == Entry::Flush).count();
        println!("{count} cuts of {name}: {} failed; {flushes} flushes, {} commits", failures.len(), kind.commits());
        if *kind == Kind::Unsynced {
            ensure!(!failures.is_empty(), "{name}: {count} cuts do not show that its syncs do nothing");
            continue;
        }
        found.cuts += count;
        found.failures.extend(failures.into_iter().map(|failure| format!("{name}, {failure}")));
    }
    Ok(found)
}

/// The runs in a log, in the order in which they were recorded.
fn runs(log: &Log) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, entry) in log.entries.iter().enumerate() {
        let Entry::Write { at, data, .. } = entry else { continue };
        if at % RUN_BYTES != 0 || data.len() != NOTE_BYTES {
            continue;
        }
        let Some(note) = Note::decode(log.data(data)) else { continue };
        let count = note.acknowledged;
        match runs.last_mut() {
            // The first note of a run acknowledges nothing, also where an earlier run wrote its notes.
            Some(run) if count > 0 && run.begin == *at => run.acknowledged.push((number, count)),
            _ => runs.push(Run { begin: *at, note, acknowledged: vec![(number, count)], end: log.entries.len() }),
        }
    }
    for run in &mut runs {
        run.end = run.last_flush(log).map_or(log.entries.len(), |flush| flush + 1);
    }
    runs
}

impl Run {
    fn first(&self) -> usize {
        self.acknowledged[0].0
    }

    fn last_flush(&self, log: &Log) -> Option<usize> {
        let (last_note, _) = *self.acknowledged.last()?;
        (last_note..log.entries.len()).find(|number| log.entries[*number] == Entry::Flush)
    }

    /// Where the power is cut: before and after each flush and each write that is durable at once, after each acknowledgement, and anywhere. The
    /// number is that of the entries before it.
    fn places(&self, log: &Log, cuts: usize, random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
        let mut places = BTreeSet::new();
        for number in self.first() + 1..self.end {
            if matches!(log.entries[number], Entry::Flush | Entry::Write { durable: true, .. }) {
                places.extend([number, number + 1]);
            }
        }
        places.extend(self.acknowledged.iter().map(|(number, _)| number + 1));
        let mut places: Vec<usize> = places.into_iter().collect();
        while places.len() > cuts {
            places.swap_remove(random.next_u64() as usize % places.len());
        }
        let span = (self.end - self.first()) as u64;
        places.extend((places.len()..cuts).map(|_| self.first() + 1 + (random.next_u64() % span) as usize));
        places.sort_unstable();
        places
    }

    fn check(
        &self,
        log: &Log,
        cuts: usize,
        random: &mut Xoshiro256PlusPlus,
        folder: &Path,
    ) -> Result<(usize, Vec<String>)> {
        let kind = self.note.kind;
        let states = States::of(&self.note);
        let begin = self.begin + kind.places()[0];
        let file_bytes = kind.file_bytes() as usize;
        let mut part = Part::new(log, begin, kind.files_bytes() as usize);
        let places = self.places(log, cuts, random);
        let mut failures = Vec::new();
        for place in &places {
            part.replay_to(*place);
            let landed = LANDED[random.next_u64() as usize % LANDED.len()];
            let content = part.after_cut(landed, random);
            let after = self.acknowledged.partition_point(|(number, _)| number < place);
            let acknowledged = self.acknowledged[..after].last().map_or(0, |(_, count)| *count);
            if let Err(error) = states.recover(&content, file_bytes, folder, acknowledged..=acknowledged + 1) {
                failures.push(describe(*place, landed, acknowledged, &error));
            }
        }
        Ok((places.len(), failures))
    }
}

fn describe(place: usize, landed: Landed, acknowledged: u64, error: &anyhow::Error) -> String {
    format!("cut after {place} entries, {landed:?} of the cache landed, {acknowledged} acknowledged: {error:#}")
}

impl States {
    fn of(note: &Note) -> Self {
        match note.kind {
            Kind::PageWriter => Self::Snapshots([vec![vec![]], workload::snapshots(note.seed)].concat()),
            _ => Self::Groups(workload::groups(note.seed).into_iter().fold(vec![Group::new()], |mut states, group| {
                let mut next = states[states.len() - 1].clone();
                next.extend(group);
                states.push(next);
                states
            })),
        }
    }

    /// Recovers what is there after a cut, twice, and compares it with the states that are possible.
    fn recover(&self, content: &[u8], file_bytes: usize, folder: &Path, possible: RangeInclusive<u64>) -> Result<()> {
        let told = |error: Box<dyn std::error::Error>| anyhow::anyhow!("it is not recovered: {error}");
        match self {
            Self::Groups(states) => {
                for (name, bytes) in NAMES.iter().zip(content.chunks(file_bytes)) {
                    fs::write(folder.join(name), bytes)?;
                }
                for _ in 0..2 {
                    let pages = recovered_pages(folder).map_err(told)?;
                    compare(states.iter().position(|state| *state == pages), &possible)?;
                }
                Ok(())
            }
            Self::Snapshots(states) => {
                let file = folder.join("snapshots");
                fs::write(&file, content)?;
                let pages = recovered_snapshot(&file).map_err(told)?;
                compare(states.iter().position(|state| *state == pages), &possible)
            }
        }
    }
}

fn compare(found: Option<usize>, possible: &RangeInclusive<u64>) -> Result<()> {
    let found = found.context("what is found was never committed")?;
    ensure!(possible.contains(&(found as u64)), "the state after commit {found} is found");
    Ok(())
}

fn recovered_pages(folder: &Path) -> Result<Group, Box<dyn std::error::Error>> {
    let files = Files::open(folder, &"psync".parse()?, 2 * GROUP_MAX as u32)?;
    let mut pages = Store::recover(files)?.pages()?;
    for value in pages.values_mut() {
        value.truncate(value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    }
    Ok(pages)
}

fn recovered_snapshot(file: &Path) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let target = Target::options().direct(false).write_unguarded().open(file)?;
    let path = "psync".parse()?;
    let can = probe(&path, &target)?;
    let pool = Pool::new(page_writer::FRAMES, PAGE_BYTES, Pages::Base)?;
    let queue = open_queue(&path, &target, &QueueConfig::new(can.depth_max.min(page_writer::DEPTH)).pool(&pool))?;
    Snapshots::open(queue, pool, can.operations)?.read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;

    /// The write of a note of the run at this place, as a log has it.
    fn note(begin: u64, acknowledged: u64) -> (u64, u64, Vec<u8>) {
        let note = Note { kind: Kind::WriteAhead, seed: 1, acknowledged, forced: false, path: "psync".into() };
        let mut block = vec![0; NOTE_BYTES];
        note.encode(&mut block);
        (begin / 512, 0, block)
    }

    #[test]
    fn a_run_ends_with_a_flush_and_one_that_is_recorded_again_in_its_place_is_another() {
        let flush = || (0, log::FLUSH, Vec::new());
        let clearing = || (2048, 0, vec![0; 512]);
        let first = [clearing(), flush(), note(0, 0), note(0, 1), flush()];
        let second = [clearing(), flush(), note(RUN_BYTES, 0), flush(), note(RUN_BYTES, 1), flush()];
        let again = [clearing(), flush(), note(0, 0), note(0, 1), note(0, 2), flush()];
        let log = Log::parse(log::encode(&[&first[..], &second, &again].concat()));
        let found: Vec<_> = runs(&log).iter().map(|run| (run.begin, run.acknowledged.clone(), run.end)).collect();
        let expected = [
            (0, vec![(2, 0), (3, 1)], 5),
            (RUN_BYTES, vec![(7, 0), (9, 1)], 11),
            (0, vec![(13, 0), (14, 1), (15, 2)], 17),
        ];
        assert_eq!(found, expected);
    }
}
