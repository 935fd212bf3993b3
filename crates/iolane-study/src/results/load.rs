//! Reads the results of a study from its folder, for comparing, drawing and reanalysis. Refuses files that are
//! incomplete, belong to different studies or have another schema version; it writes nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use iolane::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

use super::replace::records_file;
use super::report::{REPORT_FILE, SCHEMA, StudyReport};
use crate::rows::{Results, Row, journal, parquet};

/// Upper limit for the size of `study.json`, above the size with 100,000 arms.
const REPORT_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Clone)]
pub struct Loaded {
    /// The folder as the user named it.
    pub folder: PathBuf,
    pub document: StudyReport,
    /// The runs of complete repeats, rejected ones included.
    pub rows: Vec<Row>,
}

impl Loaded {
    /// What to know before trusting the figures.
    pub fn warnings(&self) -> Vec<String> {
        self.document.warnings.clone()
    }

    /// The arms that were measured; the others are in [`StudyReport::skipped`].
    pub fn results(&self) -> Results {
        Results::new(&self.rows, Vec::new())
    }
}

/// Reads a study's folder.
///
/// # Errors
/// `Usage` for a folder without results; `Failed` for results that are unreadable, incomplete, or of another version.
pub fn load(folder: &Path) -> Result<Loaded> {
    let mut loaded = load_begun(folder)?;
    // An interrupted study has rows of incomplete repeats.
    loaded.rows.retain(|row| (row.repeat as usize) < loaded.document.repeats);
    // The answers of a rate search are those of its runs, whatever version wrote them.
    loaded.document.rate_until = loaded.document.rate_until.as_ref().map(|known| known.of_runs(&loaded.results()));
    Ok(loaded)
}

/// Reads a study's folder, rows of incomplete repeats included.
pub(super) fn load_begun(folder: &Path) -> Result<Loaded> {
    let json = read_report(folder)?;
    let file = folder.join(REPORT_FILE).display().to_string();
    check_schema(&json, &file)?;
    let document = StudyReport::deserialize(&json)
        .map_err(|error| Error::failed(file, error.to_string()).remedy("measure again with this version of iolane"))?;
    let records = records_file(folder, document.records.crc32);
    let rows = parquet::read(open(&records)?, &records.display().to_string(), document.records.crc32)?;
    Ok(Loaded { folder: folder.into(), document, rows })
}

fn read_report(folder: &Path) -> Result<Value> {
    let path = folder.join(REPORT_FILE);
    let what = path.display().to_string();
    if !path.exists() {
        let shown = folder.display().to_string();
        return Err(if folder.join(journal::FILE).exists() {
            Error::usage(shown, "its study is not complete")
                .remedy("repeat the command that began it, which continues it")
        } else if folder.is_dir() {
            Error::usage(shown, format!("there is no {REPORT_FILE} in it"))
                .remedy("name a folder that `iolane study --out` made")
        } else if folder.exists() {
            Error::usage(shown, "it is a file").remedy("name a folder that `iolane study --out` made")
        } else {
            Error::usage(shown, "there is no such folder").remedy("name a folder that `iolane study --out` made")
        });
    }
    let mut text = String::new();
    let file = open(&path)?;
    file.take(REPORT_BYTES_MAX).read_to_string(&mut text).map_err(|error| cannot_read(&path, error))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::failed(what, format!("not a whole JSON document ({error})")).remedy(COPY_AGAIN))
}

const COPY_AGAIN: &str = "copy the folder again if it is a copy, or measure again";

/// Opens regular files only: opening a named pipe would block.
fn open(path: &Path) -> Result<File> {
    let what = path.display().to_string();
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => File::open(path).map_err(|error| cannot_read(path, error)),
        Ok(_) => Err(Error::failed(what, "not a file")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::failed(what, "the file is missing").remedy(COPY_AGAIN))
        }
        Err(error) => Err(cannot_read(path, error)),
    }
}

fn cannot_read(path: &Path, error: std::io::Error) -> Error {
    Error::system(path.display().to_string(), error).with_kind(iolane::ErrorKind::Failed)
}

fn check_schema(json: &Value, file: &str) -> Result<()> {
    match json["schema"].as_str() {
        Some(SCHEMA) => Ok(()),
        Some(other) => {
            Err(Error::failed(file, format!("its schema is {other}, and this version of iolane reads {SCHEMA}"))
                .remedy("use the version of iolane that wrote it, or measure again"))
        }
        None => Err(Error::failed(file, "it does not say that iolane wrote it")
            .remedy("name a folder that `iolane study --out` made")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;
    use crate::claims::Verdict;
    use crate::plan::Arm;
    use crate::results::RECORDS_FILE;

    /// A folder that is removed when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("iolane-load-{}-{count}", std::process::id()));
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        /// A folder with two repeats of an arm, one of them incomplete.
        fn with_results() -> Self {
            let folder = Self::new();
            let arm = Arm::of_null("null");
            let bytes = parquet::write(&[Row::new(arm.clone(), 0), Row::new(arm, 1)]).unwrap();
            let report = json!({
                "schema": SCHEMA, "name": "survey", "title": "", "complete": false, "repeats": 1, "runtime_s": 1.0,
                "skipped": [], "scale": "scaled", "claims": [{"id": "S1", "verdict": "holds"}],
                "records": {"file": RECORDS_FILE, "rows": 2, "crc32": parquet::checksum(&bytes)},
            });
            folder.write(RECORDS_FILE, &bytes);
            folder.write(REPORT_FILE, report.to_string().as_bytes());
            folder
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            std::fs::write(self.0.join(name), bytes).unwrap();
        }

        fn read(&self, name: &str) -> Vec<u8> {
            std::fs::read(self.0.join(name)).unwrap()
        }

        #[track_caller]
        fn refused(&self, says: &[&str]) {
            let error = load(&self.0).unwrap_err().to_string();
            assert!(says.iter().all(|words| error.contains(words)) && error.lines().count() == 1, "{error}");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_a_study_wrote_comes_back_without_the_repeats_that_are_not_whole() {
        let folder = Folder::with_results();
        let loaded = load(&folder.0).unwrap();
        assert_eq!((loaded.rows.len(), loaded.results().arms.len()), (1, 1));
        assert_eq!((loaded.document.name.as_str(), loaded.document.claims[0].verdict), ("survey", Verdict::Holds));
    }

    #[test]
    fn a_folder_without_results_is_refused_with_what_to_name() {
        Folder::new().refused(&["there is no study.json in it", "iolane study --out"]);
        let nowhere = load(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert!(nowhere.starts_with("/nowhere/at/all: there is no such folder"), "{nowhere}");
        let begun = Folder::new();
        begun.write(journal::FILE, b"{}");
        begun.refused(&["its study is not complete", "continues it"]);
    }

    #[test]
    fn another_schema_is_refused_naming_both_versions() {
        let folder = Folder::with_results();
        let text = String::from_utf8(folder.read(REPORT_FILE)).unwrap();
        folder.write(REPORT_FILE, text.replace(SCHEMA, "iolane.study/9").as_bytes());
        folder.refused(&["iolane.study/9", SCHEMA, "the version of iolane that wrote it"]);
        folder.write(REPORT_FILE, b"[1]");
        folder.refused(&["does not say that iolane wrote it"]);
        folder.write(REPORT_FILE, format!("{{\"schema\": \"{SCHEMA}\"}}").as_bytes());
        folder.refused(&["study.json: missing field", "measure again"]);
    }

    #[test]
    fn a_study_json_that_was_cut_anywhere_is_refused() {
        let folder = Folder::with_results();
        let whole = folder.read(REPORT_FILE);
        for length in 0..whole.len() {
            folder.write(REPORT_FILE, &whole[..length]);
            folder.refused(&["study.json: not a whole JSON document"]);
        }
        folder.write(REPORT_FILE, b"\xff");
        folder.refused(&["study.json: "]);
    }

    #[test]
    fn records_that_are_cut_changed_foreign_or_gone_are_refused() {
        let folder = Folder::with_results();
        let whole = folder.read(RECORDS_FILE);
        folder.write(RECORDS_FILE, &whole[..whole.len() / 2]);
        folder.refused(&["records.parquet: its CRC-32 is", "measure again"]);
        // Even where the checksum matches.
        let foreign = b"PAR1 and nothing else that a Parquet file has PAR1";
        let old = format!("{}", parquet::checksum(&whole));
        let text = String::from_utf8(folder.read(REPORT_FILE)).unwrap();
        folder.write(REPORT_FILE, text.replace(&old, &parquet::checksum(foreign).to_string()).as_bytes());
        folder.write(RECORDS_FILE, foreign);
        folder.refused(&["records.parquet: not a Parquet file"]);
        std::fs::remove_file(folder.0.join(RECORDS_FILE)).unwrap();
        folder.refused(&["records.parquet: the file is missing"]);
        std::fs::create_dir(folder.0.join(RECORDS_FILE)).unwrap();
        folder.refused(&["records.parquet: not a file"]);
    }
}
