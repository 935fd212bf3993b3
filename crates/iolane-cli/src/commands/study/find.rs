//! Finds the study that a command line names: built in, or in a file.

use std::path::{Path, PathBuf};

use iolane::Error;
use iolane_study::claims::require_testable;
use iolane_study::plan::{self, Study};

use crate::arguments::StudyArguments;
use crate::output::printable;

/// The largest file that is read.
const STUDY_BYTES_MAX: u64 = 1 << 20;

/// Where a study that measures writes its results.
///
/// # Errors
/// If there is no such study.
pub(crate) fn results_folder(arguments: &StudyArguments) -> anyhow::Result<PathBuf> {
    let named = arguments.study.as_deref().map(find).transpose()?;
    Ok(folder(arguments, named.as_ref()))
}

pub(super) fn folder(arguments: &StudyArguments, named: Option<&Study>) -> PathBuf {
    let own = if arguments.survey.searches_rate() { "rate-until" } else { "survey" };
    let name = named.map_or(own, |study| study.name.as_str());
    arguments.out.clone().unwrap_or_else(|| Path::new("results").join(name))
}

/// The text of a built-in study.
pub(super) fn built_in(name: &str) -> anyhow::Result<&'static str> {
    match plan::built_in(name) {
        Some(built_in) => Ok(built_in.text),
        None => Err(unknown(Path::new(name)).into()),
    }
}

/// The built-in study of that name, or the one in that file.
pub(super) fn find(name: &Path) -> anyhow::Result<Study> {
    if let Some(built_in) = name.to_str().and_then(plan::built_in) {
        return Ok(Study::parse(built_in.text, built_in.name)?);
    }
    let shown = printable(name);
    let metadata = std::fs::metadata(name).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unknown(name),
        _ => Error::system(format!("study {shown}"), error),
    })?;
    if !metadata.is_file() || metadata.len() > STUDY_BYTES_MAX {
        return Err(Error::usage(format!("study {shown}"), "not a file of 1 MiB or less").into());
    }
    let bytes = std::fs::read(name).map_err(|error| Error::system(format!("study {shown}"), error))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("study {shown}"), "not UTF-8 text"))?;
    let study = Study::parse(&text, &shown)?;
    // Otherwise the fault would show only after the study has been measured.
    require_testable(&study, &shown)?;
    Ok(study)
}

fn unknown(name: &Path) -> Error {
    let known: Vec<&str> = plan::BUILT_IN.iter().map(|study| study.name).collect();
    Error::usage(format!("study {}", printable(name)), "no built-in study has that name, and there is no such file")
        .remedy(format!("use {}, or a study file", known.join(", ")))
}
