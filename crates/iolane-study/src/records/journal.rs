//! The journal of a study that runs: what was set up, then a line for each run, on the disk before the next one begins.
//! From it an interrupted study goes on; when all is done it has become `records.parquet`, and is gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iolane::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Preconditioned, Row};
use crate::energy::EnergyNotes;

/// Its name in the folder of results.
pub const FILE: &str = "journal.jsonl";

const SCHEMA: &str = "iolane.journal/2";

/// The first line.
#[derive(Serialize, Deserialize)]
struct Heading<S> {
    schema: String,
    setup: S,
}

/// A line behind it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry<R, P, E> {
    /// A run has ended.
    Run(R),
    /// Targets have been made ready for writes.
    Preconditioned(P),
    /// What is known of energy beside the runs; the last counts.
    Energy(E),
}

/// A journal that is open; nobody else can write to it meanwhile.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

/// What a folder's journal holds.
#[derive(Debug)]
pub struct Begun<S> {
    /// What was set up.
    pub setup: S,
    /// The runs that have ended.
    pub rows: Vec<Row>,
    /// What was done to targets before writes were measured, the last time.
    pub preconditioned: Vec<Preconditioned>,
    /// What is known of energy beside the runs, if anything was noted.
    pub energy: Option<EnergyNotes>,
}

impl Journal {
    /// Opens the journal of a folder, or makes an empty one; tells what it holds. A last line that is not whole, which a
    /// kill leaves, is dropped.
    ///
    /// # Errors
    /// `Failed` if another study writes to it, or for a line that is not its own.
    pub fn open<S: for<'de> Deserialize<'de>>(folder: &Path) -> Result<(Self, Option<Begun<S>>)> {
        let path = folder.join(FILE);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = loop {
            let file = options.open(&path).map_err(|error| cannot("opening", &path, error))?;
            lock(&file, &path)?;
            // One that ended just now may have taken away what was opened before it could be locked.
            let found = file.metadata().map_err(|error| cannot("opening", &path, error))?;
            if found.nlink() > 0 {
                break file;
            }
        };
        let (begun, whole_bytes) = parse(BufReader::new(&file), &path)?;
        let mut journal = Self { file, path };
        journal.cut(whole_bytes).map_err(|error| cannot("writing", &journal.path, error))?;
        Ok((journal, begun))
    }

    /// Begins anew, with what was set up.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn begin(&mut self, setup: &impl Serialize) -> Result<()> {
        self.cut(0).map_err(|error| cannot("writing", &self.path, error))?;
        self.line(&Heading { schema: SCHEMA.into(), setup }).inspect_err(|_| {
            // Empty, it would say of its folder that a study is under way there.
            let _ = std::fs::remove_file(&self.path);
        })
    }

    /// Adds a run.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        self.line(&Entry::<_, (), ()>::Run(row))
    }

    /// Adds what was done to targets before writes are measured.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn note_preconditioning(&mut self, done: &[Preconditioned]) -> Result<()> {
        self.line(&Entry::<(), _, ()>::Preconditioned(done))
    }

    /// Adds what is known of energy beside the runs.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn note_energy(&mut self, notes: &EnergyNotes) -> Result<()> {
        self.line(&Entry::<(), (), _>::Energy(notes))
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(|error| cannot("writing", &self.path, error.into()))?;
        line.push(b'\n');
        let begin = self.file.stream_position().map_err(|error| cannot("writing", &self.path, error))?;
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            // Half a line, if the disk became full, would hide what comes after it.
            let _ = self.cut(begin);
            match error.kind() {
                std::io::ErrorKind::StorageFull => cannot("writing", &self.path, error)
                    .remedy("make room, and give the same command again: it goes on where this one stopped"),
                _ => cannot("writing", &self.path, error),
            }
        })
    }

    /// Leaves so many bytes of it, and goes on behind them.
    fn cut(&mut self, bytes: u64) -> std::io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes)).map(drop)
    }

    /// Takes it away, once what it holds is kept elsewhere.
    ///
    /// # Errors
    /// `Failed` if it cannot be removed.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| cannot("removing", &self.path, error))
    }
}

/// What the lines of a journal hold, and the length in bytes of those that are whole; `path` is what messages call it.
///
/// # Errors
/// `Failed` for a line that is not its own, or if they cannot be read.
pub fn parse<S: for<'de> Deserialize<'de>>(mut lines: impl BufRead, path: &Path) -> Result<(Option<Begun<S>>, u64)> {
    let (mut line, mut whole_bytes, mut number) = (Vec::new(), 0, 0);
    let mut begun = None;
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line).map_err(|error| cannot("reading", path, error))?;
        if line.pop() != Some(b'\n') {
            return Ok((begun, whole_bytes));
        }
        number += 1;
        match &mut begun {
            None => {
                let setup = heading(&line, path)?;
                begun = Some(Begun { setup, rows: Vec::new(), preconditioned: Vec::new(), energy: None });
            }
            Some(Begun { rows, preconditioned, energy, .. }) => {
                match serde_json::from_slice(&line).map_err(|error| bad_line(path, number, &error))? {
                    Entry::Run(row) => rows.push(row),
                    Entry::Preconditioned(done) => *preconditioned = done,
                    Entry::Energy(notes) => *energy = Some(notes),
                }
            }
        }
        whole_bytes += line.len() as u64 + 1;
    }
}

/// Finds out, before work is done for it, whether a study could go on from a folder's journal, if there is one.
///
/// # Errors
/// `Failed` if a study writes to it now, or for a line that is not its own.
pub fn check(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    let Ok(file) = File::open(&path) else { return Ok(()) };
    lock(&file, &path)?;
    parse::<IgnoredAny>(BufReader::new(&file), &path).map(drop)
}

/// Forgets what a folder's journal holds, if there is one.
///
/// # Errors
/// `Failed` if a study writes to it now, or it cannot be removed.
pub fn discard(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    let Ok(file) = File::open(&path) else { return Ok(()) };
    lock(&file, &path)?;
    std::fs::remove_file(&path).map_err(|error| cannot("removing", &path, error))
}

fn lock(file: &File, path: &Path) -> Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::failed(path.display().to_string(), "another study writes there now")
            .remedy("wait for it, or use another --out")
    })
}

fn heading<S: for<'de> Deserialize<'de>>(line: &[u8], path: &Path) -> Result<S> {
    #[derive(Deserialize)]
    struct Version {
        schema: String,
    }
    let bad = |error| bad_line(path, 1, &error);
    match serde_json::from_slice::<Version>(line).map_err(bad)?.schema {
        schema if schema == SCHEMA => Ok(serde_json::from_slice::<Heading<S>>(line).map_err(bad)?.setup),
        other => Err(Error::failed(
            format!("{} line 1", path.display()),
            format!("its schema is {other:?}, and this version of iolane goes on with {SCHEMA}"),
        )
        .remedy("go on with the version that began it, or begin anew with --fresh")),
    }
}

fn bad_line(path: &Path, number: usize, error: &serde_json::Error) -> Error {
    // It was given one line, and counts from there; what the line holds stays on one line of a message.
    let cause = error.to_string().replace(" at line 1 column ", " at column ").replace(char::is_control, "?");
    Error::failed(format!("{} line {number}", path.display()), cause).remedy("--fresh begins anew")
}

fn cannot(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::system(format!("{doing} {}", path.display()), error)
        .with_kind(ErrorKind::Failed)
        .remedy("choose a place you may write by --out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A folder that is gone at the test's end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("iolane-journal-{name}-{}", std::process::id()));
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn row(repeat: u32) -> Row {
        let arm = crate::plan::Arm::of_null("null");
        let mut row = Row::new(arm, repeat);
        row.latency.record(77).unwrap();
        row
    }

    /// Opens it once no child of another test has it open too, as each has from its making until it runs its program.
    fn open(folder: &Folder) -> Result<(Journal, Option<Begun<String>>)> {
        for _ in 0..1_000_000 {
            match Journal::open(&folder.0) {
                Err(error) if error.to_string().contains("another study writes") => std::thread::yield_now(),
                opened => return opened,
            }
        }
        Journal::open(&folder.0)
    }

    fn begin(folder: &Folder, rows: u32) {
        let (mut journal, begun) = open(folder).unwrap();
        assert!(begun.is_none());
        journal.begin(&"set up").unwrap();
        (0..rows).for_each(|repeat| journal.append(&row(repeat)).unwrap());
    }

    #[test]
    fn what_was_appended_is_there_when_it_is_opened_again() {
        let folder = Folder::new("again");
        begin(&folder, 3);
        let (_, begun) = open(&folder).unwrap();
        let begun = begun.unwrap();
        assert_eq!((begun.setup.as_str(), begun.rows.len()), ("set up", 3));
        assert_eq!(begun.rows[2], row(2));
    }

    #[test]
    fn a_journal_cut_off_at_any_byte_keeps_its_whole_lines_and_can_go_on() {
        let folder = Folder::new("cut");
        begin(&folder, 3);
        let whole = std::fs::read(folder.0.join(FILE)).unwrap();
        let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in (first_line..whole.len()).step_by(7) {
            std::fs::write(folder.0.join(FILE), &whole[..length]).unwrap();
            let (mut journal, begun) = open(&folder).unwrap();
            let kept = begun.unwrap().rows.len();
            assert_eq!(kept, whole[first_line..length].iter().filter(|byte| **byte == b'\n').count());
            journal.append(&row(9)).unwrap();
            drop(journal);
            let (_, begun) = open(&folder).unwrap();
            assert_eq!(begun.unwrap().rows.len(), kept + 1);
        }
    }

    proptest! {
        #[test]
        fn a_journal_with_damaged_bytes_is_read_or_refused(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
        ) {
            let heading = serde_json::to_vec(&Heading { schema: SCHEMA.into(), setup: "set up" }).unwrap();
            let mut bytes = [&heading[..], &serde_json::to_vec(&row(0)).unwrap(), b""].join(&b'\n');
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            match parse::<String>(&bytes[..], Path::new(FILE)) {
                Ok((_, whole_bytes)) => prop_assert!(whole_bytes <= bytes.len() as u64),
                Err(error) => prop_assert!(error.to_string().starts_with("journal.jsonl line "), "{}", error),
            }
        }
    }

    #[test]
    fn two_studies_cannot_write_to_one_folder() {
        let folder = Folder::new("two");
        let (_first, _) = open(&folder).unwrap();
        let error = Journal::open::<String>(&folder.0).unwrap_err().to_string();
        assert!(error.contains("another study writes there now"), "{error}");
    }

    #[test]
    fn a_broken_line_and_another_version_are_named() {
        let folder = Folder::new("broken");
        begin(&folder, 1);
        let text = std::fs::read_to_string(folder.0.join(FILE)).unwrap();
        for (broken, words) in [
            (text.replace("\"repeat\":0", "\"repeat\":x"), "journal.jsonl line 2"),
            (text.replace(SCHEMA, "iolane.journal/7"), "iolane.journal/7"),
            ("rubbish\n".into(), "journal.jsonl line 1"),
        ] {
            std::fs::write(folder.0.join(FILE), broken).unwrap();
            let error = open(&folder).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--fresh"), "{error}");
        }
    }
}
