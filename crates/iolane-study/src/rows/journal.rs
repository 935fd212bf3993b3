//! The journal of a running study: its set-up, then one line per run, synced to disk before the next run begins. An
//! interrupted study continues from it; a complete study replaces it by `records.parquet`. A line is `["CHECKSUM",JSON]`, so
//! that a damaged one is noticed, and costs only what it held.

use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iolane::{Error, ErrorKind, Result};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Preconditioned, Row};
use crate::energy::EnergyNotes;
use crate::files;
use crate::place::{self, open_own};

/// The journal's name in the folder of results.
pub const FILE: &str = "journal.jsonl";

/// The schema of the journal.
pub const SCHEMA: &str = "iolane.journal/5";

/// The schema before lines had checksums. Such a journal is continued by lines that have them.
const SCHEMA_WITHOUT_CHECKSUMS: &str = "iolane.journal/4";

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
    file: Locked,
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
    /// The numbers of the damaged lines, from 1. What they held is lost.
    pub damaged: Vec<usize>,
}

impl Journal {
    /// Opens the journal of a folder, or creates an empty one, and returns its contents. An incomplete last line, as a
    /// kill leaves it, is dropped.
    ///
    /// # Errors
    /// `Failed` if another study is writing to it, or if its first line is invalid.
    pub fn open<S: for<'de> Deserialize<'de>>(folder: &Path) -> Result<(Self, Option<Begun<S>>)> {
        let path = folder.join(FILE);
        let file = loop {
            let file = open_own(&path, true).map_err(|error| cannot("opening", &path, error))?;
            let file = Locked::new(file, &path)?;
            // A study that has just ended may have removed the file between our open and our lock.
            let found = file.0.metadata().map_err(|error| cannot("opening", &path, error))?;
            if found.nlink() > 0 {
                break file;
            }
        };
        let (begun, whole_bytes) = parse(BufReader::new(&file.0), &path)?;
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
        let begun = self.line(&Heading { schema: SCHEMA.into(), setup });
        let named = begun.and_then(|()| {
            files::sync_folder(place::folder_of(&self.path)).map_err(|error| cannot("writing", &self.path, error))
        });
        named.inspect_err(|_| {
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
        let json = serde_json::to_string(value).map_err(|error| cannot("writing", &self.path, error.into()))?;
        let line = line_of(&json);
        let begin = self.file.0.stream_position().map_err(|error| cannot("writing", &self.path, error))?;
        let written = self.file.0.write_all(line.as_bytes()).and_then(|()| self.file.0.sync_data());
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
        self.file.0.set_len(bytes)?;
        self.file.0.seek(SeekFrom::Start(bytes)).map(drop)
    }

    /// Removes the journal, once its contents are on the disk elsewhere.
    ///
    /// # Errors
    /// `Failed` if it cannot be removed.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| cannot("removing", &self.path, error))
    }
}

/// A line of the journal, with its checksum and its end, for a document without line breaks.
pub fn line_of(json: &str) -> String {
    format!("[\"{:08x}\",{json}]\n", crc32fast::hash(json.as_bytes()))
}

/// The document of a line: that of a whole `["CHECKSUM",JSON]`, or `None` if it is damaged or has no checksum.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (checksum, rest) = line.strip_prefix(b"[\"")?.split_at_checked(8)?;
    let json = rest.strip_prefix(b"\",")?.strip_suffix(b"]")?;
    // Compared as text, so that no other spelling of the number passes.
    (format!("{:08x}", crc32fast::hash(json)).as_bytes() == checksum).then_some(json)
}

/// Parses a journal; returns its contents and the length in bytes of its complete lines. Errors name it as `path`.
///
/// # Errors
/// `Failed` if the first line, which holds the set-up, is invalid, or if the journal cannot be read.
pub fn parse<S: for<'de> Deserialize<'de>>(mut lines: impl BufRead, path: &Path) -> Result<(Option<Begun<S>>, u64)> {
    let (mut line, mut whole_bytes, mut number) = (Vec::new(), 0, 0);
    let mut state: Option<(Begun<S>, bool)> = None;
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line).map_err(|error| cannot("reading", path, error))?;
        if line.pop() != Some(b'\n') {
            return Ok((state.map(|(begun, _)| begun), whole_bytes));
        }
        number += 1;
        match &mut state {
            None => state = Some(heading(&line, path)?),
            Some((begun, has_checksums)) => {
                // A line of an older journal starts with a brace, which no damage of one byte makes of one with a checksum.
                let plain = Some(&line[..]).filter(|_| !*has_checksums);
                let json = checked(&line).or(plain);
                if json.is_none_or(|json| begun.take(json).is_err()) {
                    begun.damaged.push(number);
                }
            }
        }
        whole_bytes += line.len() as u64 + 1;
    }
}

impl<S> Begun<S> {
    fn take(&mut self, json: &[u8]) -> serde_json::Result<()> {
        match serde_json::from_slice(json)? {
            Entry::Run(row) => self.rows.push(row),
            Entry::Preconditioned(done) => self.preconditioned = done,
            Entry::Energy(notes) => self.energy = Some(notes),
        }
        Ok(())
    }

    /// What damage costs, in a line for people; `None` if there is none.
    fn damage(&self, path: &Path) -> Option<String> {
        const SHOWN_MAX: usize = 8;
        let numbers: Vec<String> = self.damaged.iter().take(SHOWN_MAX).map(usize::to_string).collect();
        let more = if self.damaged.len() > SHOWN_MAX { ", ..." } else { "" };
        let (lines, are) = if self.damaged.len() == 1 { ("line", "is") } else { ("lines", "are") };
        (!numbers.is_empty()).then(|| {
            let what = format!(
                "{}: {} {lines} ({}{more}) {are} damaged",
                path.display(),
                self.damaged.len(),
                numbers.join(", ")
            );
            format!("{what}: the runs there are lost and will be measured again; {} runs are whole", self.rows.len())
        })
    }
}

/// Checks, before any work is done, that a study can continue from a folder's journal, if there is one. Returns what damage
/// costs, in a line for people.
///
/// # Errors
/// `Failed` if a study is writing to it, or if its first line is invalid.
pub fn check(folder: &Path) -> Result<Option<String>> {
    let path = folder.join(FILE);
    let Some(file) = existing(&path)? else { return Ok(None) };
    let file = Locked::new(file, &path)?;
    let (begun, _) = parse::<IgnoredAny>(BufReader::new(&file.0), &path)?;
    Ok(begun.and_then(|begun| begun.damage(&path)))
}

/// Removes a folder's journal, if there is one.
///
/// # Errors
/// `Failed` if a study is writing to it, or if it cannot be removed.
pub fn discard(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    let Some(file) = existing(&path)? else { return Ok(()) };
    let _locked = Locked::new(file, &path)?;
    std::fs::remove_file(&path).map_err(|error| cannot("removing", &path, error))
}

fn existing(path: &Path) -> Result<Option<File>> {
    match open_own(path, false) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|error| cannot("opening", path, error)),
    }
}

/// A journal's file, locked against other studies until it is dropped.
#[derive(Debug)]
struct Locked(File);

impl Locked {
    fn new(file: File, path: &Path) -> Result<Self> {
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(Error::failed(path.display().to_string(), "another study writes there now")
                    .remedy("wait for it, or use another --out"))
            }
            Err(TryLockError::Error(error)) => Err(cannot("locking", path, error)),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing does not release a lock that a child of this process has too, which it does from fork to exec.
        let _ = self.0.unlock();
    }
}

/// A journal without runs, and whether all of its lines have checksums.
fn heading<S: for<'de> Deserialize<'de>>(line: &[u8], path: &Path) -> Result<(Begun<S>, bool)> {
    #[derive(Deserialize)]
    struct Version {
        schema: String,
    }
    let bad = |error| bad_line(path, 1, &error);
    let (json, has_checksums) = checked(line).map_or((line, false), |json| (json, true));
    if !has_checksums && line.starts_with(b"[") {
        let what = format!("{} line 1", path.display());
        return Err(Error::failed(what, "it is damaged: its checksum differs").remedy("start over with --fresh"));
    }
    let schema = serde_json::from_slice::<Version>(json).map_err(bad)?.schema;
    if schema != if has_checksums { SCHEMA } else { SCHEMA_WITHOUT_CHECKSUMS } {
        return Err(Error::failed(
            format!("{} line 1", path.display()),
            format!("its schema is {schema:?}, and this version of iolane continues {SCHEMA}"),
        )
        .remedy("continue with the version that began it, or start over with --fresh"));
    }
    let setup = serde_json::from_slice::<Heading<S>>(json).map_err(bad)?.setup;
    let begun = Begun { setup, rows: Vec::new(), preconditioned: Vec::new(), energy: None, damaged: Vec::new() };
    Ok((begun, has_checksums))
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

    /// A journal of three runs, as it is written.
    fn whole() -> Vec<u8> {
        let setup = Heading { schema: SCHEMA.into(), setup: "set up" };
        let mut text = line_of(&serde_json::to_string(&setup).unwrap());
        for repeat in 0..3 {
            text += &line_of(&serde_json::to_string(&Entry::<_, (), ()>::Run(row(repeat))).unwrap());
        }
        text.into_bytes()
    }

    /// The same, as versions without checksums wrote it.
    fn old() -> Vec<u8> {
        let text = String::from_utf8(whole()).unwrap().replace(SCHEMA, SCHEMA_WITHOUT_CHECKSUMS);
        let lines = text.lines().map(|line| format!("{}\n", &line["[\"01234567\",".len()..line.len() - 1]));
        lines.collect::<String>().into_bytes()
    }

    /// Parses a journal that was [`whole`]: every run it returns is one of those written, in their order.
    fn check_damaged(bytes: &[u8]) -> std::result::Result<Option<Begun<String>>, TestCaseError> {
        let (begun, whole_bytes) = match parse::<String>(bytes, Path::new(FILE)) {
            Ok(parsed) => parsed,
            Err(error) => {
                prop_assert!(error.to_string().starts_with("journal.jsonl line 1: "), "{}", error);
                return Ok(None);
            }
        };
        prop_assert!(whole_bytes <= bytes.len() as u64);
        let Some(begun) = begun else { return Ok(None) };
        prop_assert_eq!(&begun.setup, "set up");
        let repeats: Vec<u32> = begun.rows.iter().map(|row| row.repeat).collect();
        prop_assert!(repeats.is_sorted_by(|one, next| one < next), "{:?}", repeats);
        prop_assert!(begun.rows.iter().all(|is| *is == row(is.repeat)));
        Ok(Some(begun))
    }

    proptest! {
        #[test]
        fn a_changed_byte_anywhere_costs_runs_and_changes_none(place: prop::sample::Index, byte: u8) {
            let mut bytes = whole();
            let place = place.index(bytes.len());
            let first_line = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let is_changed = bytes[place] != byte;
            bytes[place] = byte;
            let begun = check_damaged(&bytes)?;
            if place < first_line {
                prop_assert!(begun.is_none() == is_changed, "a damaged set-up is refused");
            } else {
                let kept = begun.map(|begun| begun.rows.len()).unwrap_or_default();
                // The end of a line ends in two of them.
                prop_assert!(kept >= 1 && (kept < 3) == is_changed, "{} runs are left", kept);
            }
        }

        #[test]
        fn damage_of_any_extent_gives_no_run_that_was_not_made(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut: prop::sample::Index,
        ) {
            let mut bytes = whole();
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(cut.index(bytes.len()));
            check_damaged(&bytes)?;
        }

        #[test]
        fn an_old_journal_with_damaged_bytes_is_read_or_refused(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
        ) {
            let mut bytes = old();
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            match parse::<String>(&bytes[..], Path::new(FILE)) {
                Ok((_, whole_bytes)) => prop_assert!(whole_bytes <= bytes.len() as u64),
                Err(error) => prop_assert!(error.to_string().starts_with("journal.jsonl line 1: "), "{}", error),
            }
        }
    }

    #[test]
    fn a_damaged_line_in_the_middle_costs_what_it_held_and_is_named() {
        let folder = Folder::new("middle");
        let text = String::from_utf8(whole()).unwrap();
        // Still a valid run, of another repeat.
        std::fs::write(folder.0.join(FILE), text.replace("\"repeat\":1", "\"repeat\":2")).unwrap();
        let told = check(&folder.0).unwrap().unwrap();
        let expected = "journal.jsonl: 1 line (3) is damaged: the runs there are lost and will be measured again; 2 runs are whole";
        assert!(told.ends_with(expected), "{told}");
        let (mut journal, begun) = open(&folder).unwrap();
        let begun = begun.unwrap();
        assert_eq!((begun.rows, begun.damaged), (vec![row(0), row(2)], vec![3]));
        journal.append(&row(1)).unwrap();
        drop(journal);
        assert_eq!(open(&folder).unwrap().1.unwrap().rows, [row(0), row(2), row(1)]);
    }

    #[test]
    fn a_journal_without_checksums_is_continued() {
        let folder = Folder::new("old");
        std::fs::write(folder.0.join(FILE), old()).unwrap();
        assert_eq!(check(&folder.0).unwrap(), None);
        let (mut journal, _) = open(&folder).unwrap();
        journal.append(&row(3)).unwrap();
        drop(journal);
        let begun = open(&folder).unwrap().1.unwrap();
        assert_eq!((begun.rows, begun.damaged.len()), ((0..4).map(row).collect(), 0));
    }

    #[test]
    fn a_link_in_the_journals_place_is_not_followed() {
        let folder = Folder::new("link");
        let other = folder.0.join("other");
        std::fs::write(&other, whole()).unwrap();
        std::os::unix::fs::symlink(&other, folder.0.join(FILE)).unwrap();
        for error in [open(&folder).unwrap_err(), check(&folder.0).unwrap_err(), discard(&folder.0).unwrap_err()] {
            assert!(error.to_string().contains("journal.jsonl: it is a symbolic link"), "{error}");
        }
        assert_eq!(std::fs::read(other).unwrap(), whole());
    }

    #[test]
    fn two_studies_cannot_write_to_one_folder() {
        let folder = Folder::new("two");
        let (first, _) = open(&folder).unwrap();
        let error = Journal::open::<String>(&folder.0).unwrap_err().to_string();
        assert!(error.contains("another study writes there now"), "{error}");
        // As a child of this process has it until its exec.
        let _child = first.file.0.try_clone().unwrap();
        drop(first);
        open(&folder).unwrap();
    }

    #[test]
    fn a_broken_set_up_and_another_version_are_named() {
        let folder = Folder::new("broken");
        let later = Heading { schema: "iolane.journal/7".into(), setup: "set up" };
        let later = line_of(&serde_json::to_string(&later).unwrap());
        let text = String::from_utf8(whole()).unwrap();
        for (broken, words) in [
            (text.replace("set up", "set-up"), "journal.jsonl line 1"),
            (later, "iolane.journal/7"),
            ("rubbish\n".into(), "journal.jsonl line 1"),
        ] {
            std::fs::write(folder.0.join(FILE), broken).unwrap();
            let error = open(&folder).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--fresh"), "{error}");
        }
    }
}
