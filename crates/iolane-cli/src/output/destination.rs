//! Where a document goes: a file or standard output. Every command with `--json` writes through it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iolane_study::{files, results};
use serde::Serialize;

use super::print::{print, print_json, warn};

/// Where a document goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    StandardOutput,
    File(PathBuf),
}

impl From<OsString> for Destination {
    fn from(name: OsString) -> Self {
        if name == "-" { Self::StandardOutput } else { Self::File(name.into()) }
    }
}

impl Destination {
    /// Its file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::StandardOutput => None,
            Self::File(file) => Some(file),
        }
    }
}

/// What a command writes besides its text: a JSON document, if one was asked for.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    json: Option<Destination>,
}

impl Outputs {
    /// Checks that the document can be written without replacing what is to be `kept`.
    pub(crate) fn checked(json: Option<Destination>, kept: &[OsString]) -> anyhow::Result<Self> {
        if let Some(file) = json.as_ref().and_then(Destination::file) {
            files::check_writable(file, kept)?;
        }
        Ok(Self { json })
    }

    /// Whether standard output is free for text.
    fn show_text(&self) -> bool {
        self.json != Some(Destination::StandardOutput)
    }

    /// Prints text, unless the document takes standard output.
    pub(crate) fn text(&self, text: &str) -> anyhow::Result<()> {
        if self.show_text() { print(text) } else { Ok(()) }
    }

    /// Prints warnings to standard error where the text that has them is not printed.
    pub(crate) fn warnings<'a>(&self, warnings: impl IntoIterator<Item = &'a String>) {
        if !self.show_text() {
            warnings.into_iter().for_each(|warning| warn(warning));
        }
    }

    /// Writes the document, if one was asked for.
    pub(crate) fn document(&self, document: &impl Serialize) -> anyhow::Result<()> {
        match &self.json {
            None => Ok(()),
            Some(Destination::StandardOutput) => print_json(&results::to_json(document)?),
            Some(Destination::File(file)) => Ok(files::write(file, results::to_json(document)?.as_bytes())?),
        }
    }
}
