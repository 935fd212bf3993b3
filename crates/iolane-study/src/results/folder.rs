//! The folder of a study's results: `records.parquet` and `study.json`, replaced together, and the journal that they
//! supersede. `iolane study` and `iolane energy` write through it. It measures nothing and prints nothing.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use iolane::{Error, Result};
use serde::Deserialize;

use super::reanalyze::Remade;
use super::replace::replace;
use super::report::{Asked, RECORDS_FILE, REPORT_FILE, RecordsFile, StudyReport, to_json};
use crate::files::{self, MadeFolders};
use crate::rows::{journal, parquet};
use crate::session::Measured;

#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    damage: Option<String>,
    _made: MadeFolders,
}

/// What happened to the results of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// They are in the folder; the journal is removed unless the study was interrupted.
    Yes,
    /// The study was interrupted, and the folder keeps the results of a complete one. The journal stays too.
    KeptEarlier,
}

impl ResultsFolder {
    /// Creates the folder, and checks that results can be written there and that a study can start or continue.
    /// `others` are further files that will be written there; `targets` are never replaced.
    ///
    /// # Errors
    /// `Failed` if the folder or a file cannot be written, if another study writes there, or if its journal cannot be
    /// continued and `fresh` is false; `Usage` if a file is one of the targets, or if there is a `study.json` of another program.
    pub fn prepare(path: &Path, others: &[&str], targets: &[OsString], fresh: bool) -> Result<Self> {
        let made = MadeFolders::make(path)?;
        for file in files_of(path, others) {
            files::check_writable(file.as_ref(), targets)?;
        }
        check_is_ours(&path.join(REPORT_FILE))?;
        let damage = if fresh { None } else { journal::check(path)? };
        Ok(Self { path: path.into(), damage, _made: made })
    }

    /// The files that a study writes there, with others of these names.
    pub fn files(&self, others: &[&str]) -> Vec<OsString> {
        files_of(&self.path, others).collect()
    }

    /// What is lost of the study that is continued, in a line for people; `None` if nothing is.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the journal of an interrupted study, so that the next study starts over.
    ///
    /// # Errors
    /// `Failed` if a study is writing to the journal, or if it cannot be removed.
    pub fn discard_journal(&self) -> Result<()> {
        journal::discard(&self.path)
    }

    /// Writes the results, and removes the journal if the study is complete. An interrupted study does not replace the
    /// results of a complete one.
    ///
    /// # Errors
    /// `Failed` if no run is valid, or if the results cannot be written.
    pub fn write(&self, asked: &Asked, measured: Measured) -> Result<(StudyReport, Written)> {
        if measured.rows.iter().all(|row| row.rejected.is_some()) {
            let error = nothing_measured(&measured);
            measured.journal.remove()?;
            return Err(error);
        }
        let records = parquet::write(&measured.rows)?;
        let file = RecordsFile::new(measured.rows.len(), parquet::checksum(&records));
        let report = StudyReport::new(asked, &measured, file);
        if measured.interrupted && holds_complete_results(&self.path) {
            return Ok((report, Written::KeptEarlier));
        }
        replace(&self.path, &records, &report)?;
        if !measured.interrupted {
            measured.journal.remove()?;
        }
        Ok((report, Written::Yes))
    }
}

/// Checks that results replace nothing but results: a file of that name, if it has any content, names its schema near its beginning.
fn check_is_ours(report: &Path) -> Result<()> {
    if !report.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(report).and_then(|file| file.take(4096).read_to_end(&mut head));
    if read.is_ok() && !head.is_empty() && !String::from_utf8_lossy(&head).contains("iolane.study/") {
        let cause = "it does not say that iolane wrote it, and the results would replace it";
        return Err(
            Error::usage(report.display().to_string(), cause).remedy("name another folder with --out, or move it away")
        );
    }
    Ok(())
}

/// Replaces a folder's results by those with joules of an external meter; files in `kept` are not replaced.
///
/// # Errors
/// `Failed` if the results cannot be written, `Usage` if one of their files is in `kept`.
pub fn write_remade(folder: &Path, remade: &Remade, kept: &[OsString]) -> Result<()> {
    for file in [RECORDS_FILE, REPORT_FILE] {
        files::check_writable(&folder.join(file), kept)?;
    }
    replace(folder, &remade.records, &remade.report)
}

/// Replaces a folder's `study.json` by one of the same runs.
///
/// # Errors
/// `Failed` if it cannot be written.
pub fn write_report(folder: &Path, report: &StudyReport) -> Result<()> {
    files::write(&folder.join(REPORT_FILE), to_json(report)?.as_bytes())
}

fn nothing_measured(measured: &Measured) -> Error {
    if measured.interrupted {
        return Error::failed("study", "it was interrupted before a run ended");
    }
    let last = measured.left_out.last();
    let why = last.map(|left_out| format!(" ({}: {})", left_out.arm.label(), left_out.reason));
    Error::failed("study", format!("nothing was measured{}", why.unwrap_or_default()))
}

/// Whether a folder holds the results of a complete study. Unreadable results count as none, so they are replaced.
fn holds_complete_results(folder: &Path) -> bool {
    #[derive(Deserialize)]
    struct Completeness {
        complete: bool,
    }
    let text = std::fs::read(folder.join(REPORT_FILE)).unwrap_or_default();
    serde_json::from_slice::<Completeness>(&text).is_ok_and(|report| report.complete)
}

fn files_of(path: &Path, others: &[&str]) -> impl Iterator<Item = OsString> {
    [REPORT_FILE, RECORDS_FILE, journal::FILE].iter().chain(others).map(|file| path.join(file).into())
}
