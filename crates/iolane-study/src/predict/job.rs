//! Plays each load on each path, on as many threads as there are CPUs, until it is stopped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use iolane::{Error, IoPath, Result};
use iolane_model::{Behaviour, LEFT_OUT, Load, Machine, MachineFile, predict};

use super::answer::Answer;
use super::checks::{check, names};
use super::document::{LoadPredicted, MachineNamed, Predicted, SCHEMA};
use super::figures::{NotPlayed, PathPredicted};
use super::{Asked, Goal};

/// More loads than this are taken for a mistake.
const LOADS_MAX: usize = 20_000;
/// Between two looks at what is done.
const TICK: Duration = Duration::from_millis(100);

/// Loads to be played on a machine; everything was checked.
#[derive(Debug)]
pub struct Job {
    machine: MachineFile,
    /// Cores of the machine as it was calibrated.
    calibrated_cores: usize,
    goal: Goal,
    /// Those with the same load follow each other.
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    load: Load,
    /// Why the path cannot have this load.
    why_not: Option<String>,
}

impl Job {
    /// The loads that are asked for.
    ///
    /// # Errors
    /// `Usage` for what the machine was not calibrated for, and for too many loads.
    pub fn new(mut machine: MachineFile, asked: &Asked) -> Result<Self> {
        check(&machine, asked)?;
        let names = names(&machine, &asked.paths)?;
        let calibrated_cores = machine.processor.cores;
        let cores = if asked.cores.is_empty() { vec![calibrated_cores] } else { asked.cores.clone() };
        machine.processor.cores = cores.iter().copied().fold(calibrated_cores, usize::max);
        let lists =
            [asked.threads.len(), cores.len(), asked.depths.len(), asked.block_bytes.len(), asked.read_percents.len()];
        let loads = lists.into_iter().chain([names.len()]).try_fold(1usize, usize::checked_mul);
        if loads.is_none_or(|loads| loads > LOADS_MAX) {
            return Err(Error::usage("predicting", format!("there are more than {LOADS_MAX} loads"))
                .remedy("give the options fewer values"));
        }
        let best = machine.best();
        let mut cells = Vec::new();
        for &read_percent in &asked.read_percents {
            for &block_bytes in &asked.block_bytes {
                for &depth in &asked.depths {
                    for &cores in &cores {
                        for &threads in &asked.threads {
                            let of = LoadValues { asked, read_percent, block_bytes, depth, cores, threads };
                            for name in &names {
                                cells.push(of.cell(&best, name)?);
                            }
                        }
                    }
                }
            }
        }
        Ok(Self { machine, calibrated_cores, goal: asked.goal, cells })
    }

    /// How many loads there are, each on each path.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Plays them. Once `stop` is set no further one begins, and what is complete is returned. `progress` is called with the number
    /// that is done, now and then.
    ///
    /// # Errors
    /// `Usage` if the model cannot play a load.
    pub fn play(self, stop: &AtomicBool, mut progress: impl FnMut(usize)) -> Result<Predicted> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let played: Vec<Mutex<Option<Result<Played>>>> = self.cells.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(cell) = self.cells.get(at) else { return };
                let outcome = self.play_one(cell);
                *played[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(self.cells.len());
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, work);
            // As many as can be started.
            let workers: Vec<_> = (0..threads).map_while(|number| start(number).ok()).collect();
            if workers.is_empty() {
                work();
            }
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                progress(done.load(Ordering::Relaxed));
                std::thread::park_timeout(TICK);
            }
        });
        let played: Vec<Option<Result<Played>>> =
            played.into_iter().map(|played| played.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
        self.predicted(played)
    }

    fn play_one(&self, cell: &Cell) -> Result<Played> {
        if let Some(why_not) = &cell.why_not {
            return Ok(Err(NotPlayed { path: cell.load.path.clone(), reason: why_not.clone() }));
        }
        let prediction = predict(&self.machine, &cell.load)?;
        let power = self.machine.power.as_ref();
        let scores = prediction.outcomes.iter().map(|outcome| self.goal.score(outcome, power)).collect();
        Ok(Ok((PathPredicted::new(&cell.load.path, &prediction), scores)))
    }

    fn predicted(&self, played: Vec<Option<Result<Played>>>) -> Result<Predicted> {
        let mut loads = Vec::new();
        let mut played = played.into_iter();
        let mut is_complete = true;
        for of_load in self.cells.chunk_by(|a, b| is_same_load(&a.load, &b.load)) {
            let of_load_played: Vec<Option<Result<Played>>> = played.by_ref().take(of_load.len()).collect();
            let Some(of_paths) = of_load_played.into_iter().collect::<Option<Vec<_>>>() else {
                is_complete = false;
                continue;
            };
            let (mut paths, mut not_played) = (Vec::new(), Vec::new());
            for of_path in of_paths {
                match of_path? {
                    Ok(path) => paths.push(path),
                    Err(why_not) => not_played.push(why_not),
                }
            }
            let answer = Answer::of(&paths);
            let paths = paths.into_iter().map(|(path, _)| path).collect();
            loads.push(LoadPredicted::new(&of_load[0].load, paths, not_played, answer));
        }
        let best = self.machine.best();
        Ok(Predicted {
            schema: SCHEMA,
            machine: MachineNamed::new(&self.machine, self.calibrated_cores),
            goal: self.goal,
            decided_by: self.goal.in_words(best.power.as_ref()),
            complete: is_complete,
            loads,
            held_out: self.machine.held_out.clone(),
            left_out: LEFT_OUT.to_vec(),
        })
    }
}

/// A path with its score in each draw, or why it was not played.
type Played = Result<(PathPredicted, Vec<f64>), NotPlayed>;

struct LoadValues<'a> {
    asked: &'a Asked,
    read_percent: u8,
    block_bytes: u64,
    depth: u32,
    cores: usize,
    threads: usize,
}

impl LoadValues<'_> {
    fn cell(&self, machine: &Machine, name: &str) -> Result<Cell> {
        let Self { asked, read_percent, block_bytes, depth, cores, threads } = *self;
        let load = Load {
            threads,
            drives: asked.drives,
            cores,
            block_bytes,
            depth,
            reads: f64::from(read_percent) / 100.0,
            batch_submit: asked.batch_submit,
            batch_complete_max: asked.batch_complete_max,
            ..Load::new(machine, name)?
        };
        let why_not = why_not(&load.io_path, depth);
        Ok(Cell { load, why_not })
    }
}

/// Why a path cannot have a depth.
fn why_not(path: &IoPath, depth: u32) -> Option<String> {
    let blocks = Behaviour::of(path).is_ok_and(|behaviour| behaviour.blocks);
    (blocks && depth > 1)
        .then(|| "it has one request in flight on each thread: ask for more threads at depth 1".to_owned())
}

fn is_same_load(one: &Load, other: &Load) -> bool {
    let of_no_path = |load: &Load| Load { path: String::new(), io_path: IoPath::new("null"), ..load.clone() };
    of_no_path(one) == of_no_path(other)
}
