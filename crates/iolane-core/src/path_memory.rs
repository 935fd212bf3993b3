//! What queues that choose among paths have learnt, kept for later queues and later runs of a program. `auto` reads and fills it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::part_file::create_beside;
use crate::path::IoPath;

/// The costs of paths by place and load. Clones share one memory; queues of several threads may use it at once.
///
/// A place is a kernel, a drive and a goal: what was learnt at one says nothing of another.
#[derive(Debug, Clone, Default)]
pub struct PathMemory {
    places: Arc<Mutex<BTreeMap<String, Loads>>>,
}

/// By size of request and requests in flight, both as rounded powers of two.
type Loads = BTreeMap<(u32, u32), KnownLoad>;

/// What is known of the paths at one load.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KnownLoad {
    /// Mean size of a request in bytes.
    pub request_bytes: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// What a request cost on each path that was measured, in nanoseconds: by the goal, and by what decides between equals. Then the
    /// cores that the path kept busy.
    pub costs: Vec<(IoPath, [f64; 3])>,
}

impl KnownLoad {
    /// A load of which nothing is known yet.
    pub fn new(request_bytes: f64, in_flight: f64) -> Self {
        Self { request_bytes, in_flight, costs: Vec::new() }
    }

    fn class(&self) -> (u32, u32) {
        let rounded = |value: f64| value.max(1.0).log2().round() as u32;
        (rounded(self.request_bytes), rounded(self.in_flight))
    }
}

/// The first line of a file.
const HEADING: &str = "iolane path memory 2";
/// Loads of a place, and places, that are kept.
const LOADS_MAX: usize = 64;
const PLACES_MAX: usize = 256;
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

impl PathMemory {
    /// An empty memory, for the queues of one process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a memory from a file that [`save`](Self::save) wrote; a file that is not there is an empty one.
    ///
    /// # Errors
    /// If it cannot be read; `Usage`, with the line, if it is something else.
    pub fn load(file: impl AsRef<Path>) -> Result<Self> {
        let file = file.as_ref();
        let what = || format!("path memory {}", file.display());
        let text = match File::open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::new()),
            Err(error) => return Err(Error::system(what(), error)),
            Ok(opened) => {
                let mut text = String::new();
                opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| Error::system(what(), error))?;
                text
            }
        };
        text.parse().map_err(|error: Error| {
            Error::usage(format!("{}, {}", what(), error.what()), error.cause())
                .remedy("remove the file: it is learnt anew")
        })
    }

    /// Writes it to a file, which is replaced as a whole: a reader sees the former content or the new one.
    ///
    /// # Errors
    /// If it cannot be written. The former file is then as it was.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<()> {
        let file = file.as_ref();
        let failed = |error: io::Error| Error::system(format!("path memory {}", file.display()), error);
        let create = |name: &OsStr| File::create_new(file.with_file_name(name));
        let (mut new, name) = create_beside(file.file_name().unwrap_or_default(), create).map_err(failed)?;
        let beside = file.with_file_name(name);
        let written = new.write_all(self.to_string().as_bytes()).and_then(|()| new.sync_all());
        let replaced = written.and_then(|()| std::fs::rename(&beside, file));
        replaced.map_err(|error| {
            // The error that is reported says more than one of this.
            let _ = std::fs::remove_file(&beside);
            failed(error)
        })
    }

    /// What is known at a place.
    pub fn at(&self, place: &str) -> Vec<KnownLoad> {
        self.places().get(place).map_or_else(Vec::new, |loads| loads.values().cloned().collect())
    }

    /// Adds what was learnt at a place. A load replaces the one of its size and depth that was known.
    pub fn note(&self, place: &str, learnt: Vec<KnownLoad>) {
        let mut places = self.places();
        if !places.contains_key(place) && places.len() == PLACES_MAX {
            places.pop_first();
        }
        let loads = places.entry(place.to_owned()).or_default();
        for load in learnt.into_iter().filter(|load| !load.costs.is_empty()) {
            if !loads.contains_key(&load.class()) && loads.len() == LOADS_MAX {
                loads.pop_first();
            }
            loads.insert(load.class(), load);
        }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Loads>> {
        // No caller panics while it changes the map.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a file, which [`FromStr`](std::str::FromStr) reads.
impl fmt::Display for PathMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADING}")?;
        for (place, loads) in self.places().iter() {
            writeln!(f, "place {}", place.replace(char::is_control, " "))?;
            for KnownLoad { request_bytes, in_flight, costs } in loads.values() {
                writeln!(f, "load {request_bytes:.0} {in_flight:.2}")?;
                for (path, [first, second, cores]) in costs {
                    writeln!(f, "path {path} {first:.1} {second:.1} {cores:.3}")?;
                }
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for PathMemory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let memory = Self::new();
        let mut lines = text.lines().enumerate();
        let wrong = |line: usize, cause: &str| Error::usage(format!("line {}", line + 1), cause);
        if lines.next().is_none_or(|(_, line)| line != HEADING) {
            return Err(wrong(0, "it does not begin as a path memory of this version does"));
        }
        let mut place = None;
        let mut learnt: Vec<KnownLoad> = Vec::new();
        for (number, line) in lines {
            let wrong = |cause| wrong(number, cause);
            let (kind, rest) = line.split_once(' ').ok_or_else(|| wrong("a word is missing"))?;
            let words: Vec<&str> = rest.split(' ').collect();
            match (kind, &words[..], &place) {
                ("place", _, _) => {
                    place.iter().for_each(|place: &String| memory.note(place, std::mem::take(&mut learnt)));
                    place = Some(rest.to_owned());
                }
                ("load", [bytes, in_flight], Some(_)) => {
                    let numbers = number_of(bytes).zip(number_of(in_flight));
                    let (bytes, in_flight) = numbers.ok_or_else(|| wrong("expected a size and a number in flight"))?;
                    learnt.push(KnownLoad::new(bytes, in_flight));
                }
                ("path", [path, first, second, cores], _) => {
                    let costs = number_of(first).zip(number_of(second)).zip(number_of(cores));
                    let expected = "expected two costs in nanoseconds, and a number of cores";
                    let ((first, second), cores) = costs.ok_or_else(|| wrong(expected))?;
                    let load = learnt.last_mut().ok_or_else(|| wrong("it belongs to no load"))?;
                    // A path that this version does not know is no candidate of its queues.
                    load.costs.extend(path.parse().ok().map(|path| (path, [first, second, cores])));
                }
                _ => return Err(wrong("expected `place NAME`, `load BYTES IN_FLIGHT` or `path NAME COST COST CORES`")),
            }
        }
        place.iter().for_each(|place| memory.note(place, std::mem::take(&mut learnt)));
        Ok(memory)
    }
}

/// A number that is neither negative nor infinite.
fn number_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(bytes: f64, in_flight: f64, path: &str) -> KnownLoad {
        let costs = vec![(path.parse().unwrap(), [1000.0, 500.5, 0.25])];
        KnownLoad { costs, ..KnownLoad::new(bytes, in_flight) }
    }

    #[test]
    fn what_was_learnt_comes_back_from_a_file_that_is_replaced_as_a_whole() {
        let file = std::env::temp_dir().join(format!("iolane-path-memory-{}", std::process::id()));
        let memory = PathMemory::load(&file).unwrap();
        assert_eq!(memory.at("here"), []);
        memory.note("here", vec![load(4096.0, 16.0, "io_uring"), load(4096.0, 1.0, "psync")]);
        memory.note("there", vec![load(131_072.0, 4.0, "io_uring,fixedbufs")]);
        memory.save(&file).unwrap();
        let read = PathMemory::load(&file).unwrap();
        assert_eq!(read.at("here"), [load(4096.0, 1.0, "psync"), load(4096.0, 16.0, "io_uring")]);
        assert_eq!(read.at("there"), [load(131_072.0, 4.0, "io_uring,fixedbufs")]);
        // A later word on a load of this size and depth replaces the earlier one.
        read.note("here", vec![load(4200.0, 14.0, "libaio")]);
        assert_eq!(read.at("here")[1], load(4200.0, 14.0, "libaio"));
        read.save(&file).unwrap();
        assert_eq!(PathMemory::load(&file).unwrap().at("here").len(), 2);
        std::fs::remove_file(&file).unwrap();
        assert!(read.save("/proc/no/such/folder").is_err());
    }

    #[test]
    fn savers_at_the_same_time_leave_a_whole_file_and_touch_no_other() {
        let folder = std::env::temp_dir().join(format!("iolane-path-memories-{}", std::process::id()));
        // A process of this number may have been killed here.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (file, theirs) = (folder.join("paths"), folder.join("theirs"));
        std::fs::write(&theirs, "theirs").unwrap();
        // A name that a saver might take.
        std::os::unix::fs::symlink(&theirs, folder.join(format!(".paths.{}.0.part", std::process::id()))).unwrap();
        let memories = [1.0, 4096.0].map(|bytes| {
            let memory = PathMemory::new();
            memory.note("here", (0..60).map(|power| load(bytes * f64::from(power).exp2(), 1.0, "psync")).collect());
            memory
        });
        std::thread::scope(|scope| {
            for memory in &memories {
                scope.spawn(|| (0..50).for_each(|_| memory.save(&file).unwrap()));
            }
            for _ in 0..50 {
                let loads = PathMemory::load(&file).unwrap().at("here").len();
                assert!(loads == 0 || loads == 60, "{loads}");
            }
        });
        assert_eq!(PathMemory::load(&file).unwrap().at("here").len(), 60);
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3, "no part is left behind");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn something_else_is_refused_with_its_line_and_an_unknown_path_is_left_out() {
        let refused = |text: &str| text.parse::<PathMemory>().unwrap_err().to_string();
        assert!(refused("").starts_with("line 1: "));
        for (line, cause) in [
            ("load 4096 1", "expected `place NAME`"),
            ("place x\npath psync 1 2 1", "it belongs to no load"),
            ("place x\nload 4096 inf", "expected a size and a number in flight"),
            ("place x\nload 4096 1\npath psync 1 -2 1", "expected two costs"),
            ("place x\nload 4096 1\n\n", "a word is missing"),
        ] {
            let error = refused(&format!("{HEADING}\n{line}\n"));
            assert!(error.contains(cause), "{line}: {error}");
        }
        let memory: PathMemory =
            format!("{HEADING}\nplace x\nload 4096 1\npath io_uring+warp 1 2 1\npath psync 1 2 0.5\n").parse().unwrap();
        assert_eq!(memory.at("x")[0].costs, [("psync".parse().unwrap(), [1.0, 2.0, 0.5])]);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let memory = PathMemory::new();
        for place in 0..1000 {
            let loads = (0..100).map(|power| load(f64::from(power).exp2(), 1.0, "psync"));
            memory.note(&place.to_string(), loads.collect());
        }
        let text = memory.to_string();
        assert!((text.len() as u64) < FILE_BYTES_MAX, "{}", text.len());
        assert_eq!(text.lines().filter(|line| line.starts_with("place")).count(), PLACES_MAX);
        assert_eq!(memory.at("999").len(), LOADS_MAX);
    }
}
