//! A study in a guest, and its results if there are new ones. `matrix` and `study-all` run several.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iolane_lab::KernelSource;
use iolane_study::results::{self, Loaded, REPORT_FILE};

use super::{by_model, guest};
use crate::arguments::GuestArguments;
use crate::outcome::{Outcome, message};

pub(super) struct GuestStudy {
    /// What it measured; `None` if it wrote no results.
    pub(super) loaded: Option<Loaded>,
    /// What went wrong; there may be results nevertheless.
    pub(super) trouble: Option<String>,
}

impl GuestStudy {
    /// Runs the study that the words describe; its results go to `folder`.
    pub(super) fn run(
        arguments: &GuestArguments,
        kernel: Option<&KernelSource>,
        words: &[String],
        folder: &Path,
    ) -> Self {
        let before = stamp(folder);
        let trouble = match guest::run(arguments, kernel, (words, Some(folder)), &mut std::io::sink()) {
            Ok(Outcome::Done | Outcome::Code(0)) => None,
            Ok(_) => Some("the study, or a part of it, failed".into()),
            Err(error) => Some(message(&error)),
        };
        // Unchanged results are those of an earlier study.
        if stamp(folder) == before {
            return Self { loaded: None, trouble };
        }
        by_model::decide(folder);
        match results::load(folder) {
            Ok(loaded) => Self { loaded: Some(loaded), trouble },
            Err(error) => Self { loaded: None, trouble: Some(error.to_string()) },
        }
    }
}

/// The identity of the results in a folder; it changes when they are replaced.
pub(super) fn stamp(folder: &Path) -> Option<(u64, i64, i64)> {
    let found = std::fs::metadata(folder.join(REPORT_FILE)).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec()))
}
