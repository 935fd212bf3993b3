//! The page in a results folder, which `study` and `energy` renew, and the files that nothing may replace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iolane_report::PAGE_FILE;
use iolane_study::files;
use iolane_study::results::{self, Loaded, RECORDS_FILE, REPORT_FILE};

use crate::output::warn;

/// Writes the page of a folder's results. A failure is reported here; the results are valid without the page.
pub(super) fn renew(folder: &Path) -> Option<PathBuf> {
    let file = folder.join(PAGE_FILE);
    let page = results::load(folder).and_then(|loaded| iolane_report::page(&loaded));
    match page.and_then(|page| files::write(&file, page.as_bytes())) {
        Ok(()) => Some(file),
        Err(error) => {
            warn(&format!("the report page: {error}"));
            None
        }
    }
}

/// The files that no report may replace: the targets, where they still exist, and the results.
pub(super) fn kept(loaded: &Loaded) -> Vec<OsString> {
    let targets = loaded.document.targets.iter().map(|target| OsString::from(&target.name));
    targets.chain([REPORT_FILE, RECORDS_FILE].map(|file| loaded.folder.join(file).into())).collect()
}
