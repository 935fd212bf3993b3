//! What a name on the command line stands for: a publication, a results folder, or a file.

use std::ffi::OsString;
use std::path::Path;

use iolane::Error;
use iolane_model::PUBLISHED;
use iolane_study::calibrate::{Gathered, Source};
use iolane_study::results;

use super::super::report_page;
use crate::output::printable;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads results or a machine. The files are added to what no output may replace.
pub(crate) fn source(place: &Path, kept: &mut Vec<OsString>) -> anyhow::Result<Source> {
    if let Some(published) = place.to_str().map(Source::published).transpose()?.flatten() {
        return Ok(published);
    }
    let shown = printable(place);
    let metadata = std::fs::metadata(place).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unknown(&shown),
        _ => Error::system(shown.clone(), error),
    })?;
    if metadata.is_dir() {
        let loaded = results::load(place)?;
        kept.extend(report_page::kept(&loaded));
        return Ok(Source::Gathered(Box::new(Gathered::of_results(&loaded)?)));
    }
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(Error::usage(shown, "not a folder, or a file of 64 MiB or less").into());
    }
    let bytes = std::fs::read(place).map_err(|error| Error::system(shown.clone(), error))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::usage(shown.clone(), "not UTF-8 text").remedy("name the results folder instead of a file in it")
    })?;
    kept.push(place.into());
    Ok(Source::parse(&text, &shown)?)
}

fn unknown(shown: &str) -> Error {
    let published: Vec<&str> = PUBLISHED.iter().map(|published| published.name).collect();
    Error::usage(
        shown,
        format!("there is no such file or folder, and no publication of that name ({})", published.join(", ")),
    )
    .remedy("make it: iolane calibrate --measure")
}
