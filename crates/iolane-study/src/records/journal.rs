//! The journal of a study that runs: what was set up, then a line for each run, on the disk before the next one begins.
//! From it an interrupted study goes on; when all is done it has become `records.parquet`, and is gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use iolane::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::Row;

/// Its name in the folder of results.
pub const FILE: &str = "journal.jsonl";

const SCHEMA: &str = "iolane.journal/1";

/// The first line.
#[derive(Serialize, Deserialize)]
struct Heading<S> {
    schema: String,
    setup: S,
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
        let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| cannot("opening", &path, error))?;
        lock(&file, &path)?;
        let mut journal = Self { file, path };
        let begun = journal.read()?;
        Ok((journal, begun))
    }

    fn read<S: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<Begun<S>>> {
        let mut lines = BufReader::new(&self.file);
        let (mut line, mut whole_bytes, mut number) = (Vec::new(), 0, 0);
        let mut begun = None;
        loop {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(|error| cannot("reading", &self.path, error))?;
            if line.pop() != Some(b'\n') {
                break;
            }
            number += 1;
            let bad = |error: serde_json::Error| {
                let what = format!("{} line {number}", self.path.display());
                Error::failed(what, error.to_string()).remedy("--fresh begins anew")
            };
            match &mut begun {
                None => begun = Some(Begun { setup: heading(&line, &self.path)?, rows: Vec::new() }),
                Some(Begun { rows, .. }) => rows.push(serde_json::from_slice(&line).map_err(bad)?),
            }
            whole_bytes += line.len() as u64 + 1;
        }
        let trimmed = self.file.set_len(whole_bytes).and_then(|()| self.file.seek(SeekFrom::End(0)));
        trimmed.map_err(|error| cannot("writing", &self.path, error))?;
        Ok(begun)
    }

    /// Begins anew, with what was set up.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn begin(&mut self, setup: &impl Serialize) -> Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map_err(|error| cannot("writing", &self.path, error))?;
        self.line(&Heading { schema: SCHEMA.into(), setup })
    }

    /// Adds a run.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        self.line(row)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(|error| cannot("writing", &self.path, error.into()))?;
        line.push(b'\n');
        let begin = self.file.stream_position().map_err(|error| cannot("writing", &self.path, error))?;
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            // Half a line, if the disk became full, would hide what comes after it.
            let _ = self.file.set_len(begin).and_then(|()| self.file.seek(SeekFrom::Start(begin)));
            cannot("writing", &self.path, error)
        })
    }

    /// Takes it away, once what it holds is kept elsewhere.
    ///
    /// # Errors
    /// `Failed` if it cannot be removed.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| cannot("removing", &self.path, error))
    }
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
    let what = format!("{} line 1", path.display());
    #[derive(Deserialize)]
    struct Version {
        schema: String,
    }
    let bad = |error: serde_json::Error| Error::failed(&what, error.to_string()).remedy("--fresh begins anew");
    match serde_json::from_slice::<Version>(line).map_err(bad)?.schema {
        schema if schema == SCHEMA => Ok(serde_json::from_slice::<Heading<S>>(line).map_err(bad)?.setup),
        other => Err(Error::failed(
            &what,
            format!("its schema is {other}, and this version of iolane goes on with {SCHEMA}"),
        )
        .remedy("go on with the version that began it, or begin anew with --fresh")),
    }
}

fn cannot(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::system(format!("{doing} {}", path.display()), error)
        .with_kind(ErrorKind::Failed)
        .remedy("choose a place you may write by --out")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let arm = crate::plan::Arm {
            name: "null".into(),
            path: "null".parse().unwrap(),
            peer: None,
            rw: crate::workload::Access::RandRead,
            bs: "4k".parse().unwrap(),
            depth: 1,
            threads: 1,
            drives: 1,
            cores: None,
        };
        let mut row = Row::new(arm, repeat);
        row.latency.record(77).unwrap();
        row
    }

    fn begin(folder: &Folder, rows: u32) {
        let (mut journal, begun) = Journal::open::<String>(&folder.0).unwrap();
        assert!(begun.is_none());
        journal.begin(&"set up").unwrap();
        (0..rows).for_each(|repeat| journal.append(&row(repeat)).unwrap());
    }

    #[test]
    fn what_was_appended_is_there_when_it_is_opened_again() {
        let folder = Folder::new("again");
        begin(&folder, 3);
        let (_, begun) = Journal::open::<String>(&folder.0).unwrap();
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
            let (mut journal, begun) = Journal::open::<String>(&folder.0).unwrap();
            let kept = begun.unwrap().rows.len();
            assert_eq!(kept, whole[first_line..length].iter().filter(|byte| **byte == b'\n').count());
            journal.append(&row(9)).unwrap();
            drop(journal);
            let (_, begun) = Journal::open::<String>(&folder.0).unwrap();
            assert_eq!(begun.unwrap().rows.len(), kept + 1);
        }
    }

    #[test]
    fn two_studies_cannot_write_to_one_folder() {
        let folder = Folder::new("two");
        let (_first, _) = Journal::open::<String>(&folder.0).unwrap();
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
            let error = Journal::open::<String>(&folder.0).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--fresh"), "{error}");
        }
    }
}
