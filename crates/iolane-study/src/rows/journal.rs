//! The journal of a running study: its set-up, then one line per run, synced to disk before the next run begins. An
//! interrupted study continues from it; a complete study replaces it by `records.parquet`.

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

/// The journal's name in the folder of results.
pub const FILE: &str = "journal.jsonl";

/// The schema of the journal.
pub const SCHEMA: &str = "iolane.journal/4";

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
struct Heading<S> {
    schema: String,
    setup: S,
}

/// Every other line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry<R, P, E> {
    Run(R),
    Preconditioned(P),
    /// Energy figures that are not part of a run; the last entry is valid.
    Energy(E),
}

/// An open journal, locked against other writers.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

/// The contents of a folder's journal.
#[derive(Debug)]
pub struct Begun<S> {
    pub setup: S,
    /// The completed runs.
    pub rows: Vec<Row>,
    /// The latest preconditioning of targets.
    pub preconditioned: Vec<Preconditioned>,
    /// The latest energy figures that are not part of a run; `None` if there are none.
    pub energy: Option<EnergyNotes>,
}

impl Journal {
    /// Opens the journal of a folder, or creates an empty one, and returns its contents. An incomplete last line, as a
    /// kill leaves it, is dropped.
    ///
    /// # Errors
    /// `Failed` if another study is writing to it, or if a line is invalid.
    pub fn open<S: for<'de> Deserialize<'de>>(folder: &Path) -> Result<(Self, Option<Begun<S>>)> {
        let path = folder.join(FILE);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = loop {
            let file = options.open(&path).map_err(|error| cannot("opening", &path, error))?;
            lock(&file, &path)?;
            // A study that has just ended may have removed the file between our open and our lock.
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

    /// Starts over with this set-up.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn begin(&mut self, setup: &impl Serialize) -> Result<()> {
        self.cut(0).map_err(|error| cannot("writing", &self.path, error))?;
        self.line(&Heading { schema: SCHEMA.into(), setup }).inspect_err(|_| {
            // An empty journal would mean that a study is in progress in this folder.
            let _ = std::fs::remove_file(&self.path);
        })
    }

    /// Appends a run.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        self.line(&Entry::<_, (), ()>::Run(row))
    }

    /// Appends the preconditioning of targets.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn note_preconditioning(&mut self, done: &[Preconditioned]) -> Result<()> {
        self.line(&Entry::<(), _, ()>::Preconditioned(done))
    }

    /// Appends energy figures that are not part of a run.
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
            // An incomplete line, as a full disk leaves it, would corrupt the lines after it.
            let _ = self.cut(begin);
            match error.kind() {
                std::io::ErrorKind::StorageFull => cannot("writing", &self.path, error)
                    .remedy("make room, and repeat the command: it continues where this one stopped"),
                _ => cannot("writing", &self.path, error),
            }
        })
    }

    /// Truncates the journal to `bytes`, and continues from there.
    fn cut(&mut self, bytes: u64) -> std::io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes)).map(drop)
    }

    /// Removes the journal, once its contents are stored elsewhere.
    ///
    /// # Errors
    /// `Failed` if it cannot be removed.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| cannot("removing", &self.path, error))
    }
}

/// Parses a journal; returns its contents and the length in bytes of its complete lines. Errors name it as `path`.
///
/// # Errors
/// `Failed` for an invalid line, or if the journal cannot be read.
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

/// Checks, before any work is done, that a study can continue from a folder's journal, if there is one.
///
/// # Errors
/// `Failed` if a study is writing to it, or if a line is invalid.
pub fn check(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    let Ok(file) = File::open(&path) else { return Ok(()) };
    lock(&file, &path)?;
    parse::<IgnoredAny>(BufReader::new(&file), &path).map(drop)
}

/// Removes a folder's journal, if there is one.
///
/// # Errors
/// `Failed` if a study is writing to it, or if it cannot be removed.
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
            format!("its schema is {other:?}, and this version of iolane continues {SCHEMA}"),
        )
        .remedy("continue with the version that began it, or start over with --fresh")),
    }
}

fn bad_line(path: &Path, number: usize, error: &serde_json::Error) -> Error {
    // serde_json parsed one line, so its line number is always 1. Control characters would break the error into several
    // lines.
    let cause = error.to_string().replace(" at line 1 column ", " at column ").replace(char::is_control, "?");
    Error::failed(format!("{} line {number}", path.display()), cause).remedy("start over with --fresh")
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

    /// A folder that is removed when the test ends.
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

    /// Opens the journal, once no child process of another test has inherited it: each has, from fork to exec.
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
