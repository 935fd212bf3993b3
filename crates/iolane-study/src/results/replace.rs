//! Replaces the results in a folder so that a kill or a power cut at any moment leaves the whole old or the whole new ones.
//! `study.json` decides which, by the CRC-32 of its records: new records wait beside `records.parquet`, under a name with theirs,
//! until `study.json` is the new one. `load` asks here where the records are. Nothing here looks into them.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iolane::{Error, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::report::{RECORDS_FILE, REPORT_FILE, StudyReport, to_json};
use crate::files::{self, Part};
use crate::place::folder_of;
use crate::rows::parquet;

/// A replacement takes far less.
const LOCKED_AT_MOST: Duration = Duration::from_secs(10);

/// A step of a replacement, on the disk when it returns.
type Step = Box<dyn FnOnce() -> Result<()>>;

/// Replaces a folder's results. They are on the disk, names included, when this returns.
///
/// # Errors
/// `Failed` if the results cannot be written.
///
/// # Panics
/// If the report is of other records.
pub fn replace(folder: &Path, records: &[u8], report: &StudyReport) -> Result<()> {
    // The records of another process that replaces results now would be taken for those that a kill left. Where a folder cannot be
    // locked, as on NFS, two processes must not do that at the same time.
    let opened = File::open(folder);
    if let Ok(opened) = &opened {
        lock(opened, folder)?;
    }
    steps(folder, records, report)?.into_iter().try_for_each(|step| step())?;
    if let Ok(Some(file)) = files::behind_links(&folder.join(RECORDS_FILE)) {
        remove_waiting(&file);
    }
    Ok(())
}

/// Locks a folder, until its descriptor is closed, if it can be locked.
fn lock(opened: &File, folder: &Path) -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(50);
    let deadline = Instant::now() + LOCKED_AT_MOST;
    while rustix::fs::flock(opened, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        if Instant::now() >= deadline {
            let cause = format!("another program keeps it locked (flock(2)) for {} s", LOCKED_AT_MOST.as_secs());
            return Err(
                Error::failed(folder.display().to_string(), cause).remedy("end that program, and repeat the command")
            );
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The file with the records of a folder that have this CRC-32.
pub(super) fn records_file(folder: &Path, crc32: u32) -> PathBuf {
    let records = folder.join(RECORDS_FILE);
    // None wait for a stream.
    let waiting = files::behind_links(&records).ok().flatten().map(|file| waiting(&file, crc32));
    waiting.filter(|waiting| waiting.exists()).unwrap_or(records)
}

/// The steps of a replacement. Everything is written, without its name, when this returns.
///
/// After each step the folder has the records that its `study.json` is made from: those that wait are of another one until the
/// second step, and the old ones until the third.
fn steps(folder: &Path, records: &[u8], report: &StudyReport) -> Result<Vec<Step>> {
    assert_eq!(report.records.crc32, parquet::checksum(records), "the report is of other records");
    let name = folder.join(RECORDS_FILE);
    let file = files::behind_links(&name)?;
    let waiting = file.as_ref().map(|file| waiting(file, report.records.crc32));
    let records = Part::write(waiting.as_ref().unwrap_or(&name), records)?;
    let report = Part::write(&folder.join(REPORT_FILE), to_json(report)?.as_bytes())?;
    let mut steps: Vec<Step> = vec![Box::new(|| records.rename()), Box::new(|| report.rename())];
    if let Some((waiting, file)) = waiting.zip(file) {
        steps.push(Box::new(move || files::rename(&waiting, &file)));
    }
    Ok(steps)
}

/// The name of records with this CRC-32 that wait to become a file. Their folder may have those of other files, too.
fn waiting(file: &Path, crc32: u32) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{crc32:08x}.next"));
    file.with_file_name(name)
}

/// Removes records that a kill left waiting. Those that cannot be removed do no harm.
fn remove_waiting(file: &Path) {
    let is_waiting = |name: &OsStr| {
        let name = name.to_string_lossy();
        let crc32 = name.strip_suffix(".next").and_then(|name| u32::from_str_radix(name.rsplit_once('.')?.1, 16).ok());
        crc32.is_some_and(|crc32| waiting(file, crc32).file_name() == Some(name.as_ref().as_ref()))
    };
    let entries = std::fs::read_dir(folder_of(file)).into_iter().flatten().flatten();
    for left in entries.filter(|entry| is_waiting(&entry.file_name())) {
        let _ = std::fs::remove_file(left.path());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::plan::Arm;
    use crate::results::{SCHEMA, load};
    use crate::rows::Row;

    const STEPS: usize = 3;

    /// Results with this many runs.
    fn results(runs: u32) -> (Vec<u8>, StudyReport) {
        let rows: Vec<Row> = (0..runs).map(|repeat| Row::new(Arm::of_null("null"), repeat)).collect();
        let records = parquet::write(&rows).unwrap();
        let report = json!({
            "schema": SCHEMA, "name": format!("{runs} runs"), "complete": true, "repeats": runs, "runtime_s": 1.0,
            "records": {"file": RECORDS_FILE, "rows": runs, "crc32": parquet::checksum(&records)},
        });
        (records, serde_json::from_value(report).unwrap())
    }

    /// Replaces a folder's results by those of this many runs.
    fn replace_by(folder: &Path, runs: u32) {
        let (records, report) = results(runs);
        replace(folder, &records, &report).unwrap();
    }

    /// Does the first steps of that, and no more.
    fn replace_in_part(folder: &Path, runs: u32, steps_done: usize) {
        let (records, report) = results(runs);
        let steps = steps(folder, &records, &report).unwrap();
        assert_eq!(steps.len(), STEPS);
        steps.into_iter().take(steps_done).try_for_each(|step| step()).unwrap();
    }

    /// The runs of a folder's results, which are whole.
    #[track_caller]
    fn runs(folder: &Path) -> u32 {
        let loaded = load(folder).unwrap();
        assert_eq!(loaded.document.name, format!("{} runs", loaded.rows.len()));
        loaded.rows.len() as u32
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn folder_with(runs: u32) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        replace_by(folder.path(), runs);
        folder
    }

    #[test]
    fn results_that_were_replaced_have_the_usual_names_and_nothing_else_is_left() {
        let folder = folder_with(1);
        replace_by(folder.path(), 2);
        assert_eq!((runs(folder.path()), names(folder.path())), (2, vec![RECORDS_FILE.into(), REPORT_FILE.into()]));
        let (records, report) = results(2);
        assert_eq!(std::fs::read(folder.path().join(RECORDS_FILE)).unwrap(), records);
        assert_eq!(std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap(), to_json(&report).unwrap());
    }

    #[test]
    fn a_stop_after_any_step_leaves_whole_results_and_the_next_replacement_removes_what_waits() {
        for (steps_done, whole) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
            let folder = folder_with(1);
            replace_in_part(folder.path(), 2, steps_done);
            assert_eq!(runs(folder.path()), whole, "after {steps_done} steps");
            replace_by(folder.path(), 3);
            assert_eq!((runs(folder.path()), names(folder.path()).len()), (3, 2), "after {steps_done} steps");
        }
    }

    #[test]
    fn replacements_that_stop_one_after_another_leave_whole_results() {
        for [first, second] in (0..=STEPS).flat_map(|first| (0..=STEPS).map(move |second| [first, second])) {
            // The same results again, as from the same meter's file, and others.
            for next in [2, 3] {
                let folder = folder_with(1);
                replace_in_part(folder.path(), 2, first);
                let before = runs(folder.path());
                replace_in_part(folder.path(), next, second);
                let whole = if second < 2 { before } else { next };
                assert_eq!(runs(folder.path()), whole, "{first} steps, then {second} to {next} runs");
            }
        }
    }

    #[test]
    fn first_results_are_whole_once_there_is_a_study_json() {
        for steps_done in 0..=STEPS {
            let folder = tempfile::tempdir().unwrap();
            replace_in_part(folder.path(), 1, steps_done);
            match steps_done {
                0 | 1 => assert!(load(folder.path()).unwrap_err().to_string().contains("there is no study.json in it")),
                _ => assert_eq!(runs(folder.path()), 1, "after {steps_done} steps"),
            }
        }
    }

    #[test]
    fn records_wait_beside_the_file_behind_a_link_and_those_of_other_files_are_left_alone() {
        let [folder, elsewhere] = [folder_with(1), tempfile::tempdir().unwrap()];
        let [link, file] = [folder.path().join(RECORDS_FILE), elsewhere.path().join("runs.parquet")];
        std::fs::rename(&link, &file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace_in_part(folder.path(), 2, 2);
        assert_eq!((runs(folder.path()), names(elsewhere.path()).len()), (2, 2));
        let others = ["other.parquet.01234567.next", "runs.parquet.20261127", "runs.parquet.7.next", "runs.next"];
        others.iter().for_each(|name| std::fs::write(elsewhere.path().join(name), "").unwrap());
        replace_by(folder.path(), 3);
        assert_eq!((runs(folder.path()), link.is_symlink()), (3, true));
        let mut kept: Vec<&str> = others.into_iter().chain(["runs.parquet"]).collect();
        kept.sort_unstable();
        assert_eq!(names(elsewhere.path()), kept);
    }

    #[test]
    fn results_that_cannot_be_written_leave_those_that_wait() {
        let folder = folder_with(1);
        replace_in_part(folder.path(), 2, 2);
        let report = folder.path().join(REPORT_FILE);
        let text = std::fs::read(&report).unwrap();
        std::fs::remove_file(&report).unwrap();
        std::fs::create_dir(&report).unwrap();
        for next in [2, 3] {
            let (records, report) = results(next);
            let error = replace(folder.path(), &records, &report).unwrap_err().to_string();
            assert!(error.contains("study.json"), "{error}");
        }
        std::fs::remove_dir(&report).unwrap();
        std::fs::write(&report, text).unwrap();
        assert_eq!((runs(folder.path()), names(folder.path()).len()), (2, 3), "and no part is left");
    }

    #[test]
    fn records_that_go_to_a_stream_are_written_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.path().join(RECORDS_FILE)).unwrap();
        replace_by(folder.path(), 1);
        assert_eq!(names(folder.path()), [RECORDS_FILE, REPORT_FILE]);
    }
}
