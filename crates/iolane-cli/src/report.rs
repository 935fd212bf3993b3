//! `iolane report`: the page of a study's results. The library makes it; this reads the folder and says where the page is.

use std::path::{Path, PathBuf};

use iolane_study::report::{self, PAGE_FILE};

use crate::Outcome;
use crate::arguments::ReportArguments;
use crate::output;

pub(crate) fn report(arguments: &ReportArguments) -> anyhow::Result<Outcome> {
    let file = arguments.out.clone().unwrap_or_else(|| arguments.folder.join(PAGE_FILE));
    output::check_writable(&file, &[])?;
    write_page(&arguments.folder, &file)?;
    if !output::json_on_stdout(Some(&file)) {
        output::print(&format!("{}\n", output::shown(&file)))?;
    }
    Ok(Outcome::Done)
}

/// Writes the page of the results in a folder, to standard output if the file is `-`.
fn write_page(folder: &Path, file: &Path) -> anyhow::Result<()> {
    let page = report::page(&report::load(folder)?)?;
    match output::json_on_stdout(Some(file)) {
        true => output::print(&page),
        false => output::write_file(file, page.as_bytes()),
    }
}

/// Writes the page into the folder of a study that has just ended, and names it; where that fails, says so: the results
/// are there all the same.
pub(crate) fn page_of(folder: &Path) -> Option<PathBuf> {
    let file = folder.join(PAGE_FILE);
    match write_page(folder, &file) {
        Ok(()) => Some(file),
        Err(error) => {
            output::complain(&format!("iolane: the page of the results: {error:#}"));
            None
        }
    }
}
