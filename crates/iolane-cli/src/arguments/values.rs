//! Parsers of values that several commands take.

use std::time::Duration;

use iolane::units::{Bytes, parse_duration};
use iolane::{Error, IoPath, Result};

/// Parses a duration in which something can be measured.
pub(super) fn parse_runtime(text: &str) -> Result<Duration> {
    match parse_duration(text)? {
        Duration::ZERO => Err(Error::usage(format!("duration `{text}`"), "nothing would be measured")),
        runtime => Ok(runtime),
    }
}

/// Parses bytes of which offsets are multiples.
pub(super) fn parse_align(text: &str) -> Result<u32> {
    let Bytes(bytes) = text.parse()?;
    u32::try_from(bytes).map_err(|_| Error::usage(format!("alignment `{text}`"), "it is 4 GiB or more"))
}

/// Paths that an option names, separated by commas.
#[derive(Debug, Clone)]
pub(crate) struct PathList(pub(crate) Vec<IoPath>);

/// Parses a list of paths; `libaio,io_uring,fixedbufs` is two.
pub(super) fn parse_paths(text: &str) -> Result<PathList> {
    iolane::paths_of(text).map(PathList)
}

/// Parses a command that is not empty.
pub(super) fn parse_command(text: &str) -> Result<String> {
    match text.trim() {
        "" => Err(Error::usage("the meter's command", "it is empty")),
        command => Ok(command.into()),
    }
}
