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

/// Parses one depth; the lists of a study are split before.
pub(super) fn parse_depth(text: &str) -> Result<u32> {
    text.parse().map_err(|_| {
        let wrong = |cause: &str| Error::usage(format!("depth `{text}`"), cause);
        match text.contains(['-', ',', ':']) {
            true => wrong("it is not one number").remedy("a study takes a list: `iolane study --depth 4,16,64`"),
            false => wrong("it is no whole number").remedy("write --depth 32"),
        }
    })
}

/// Parses a percentage, `5%` or `5`, as a share of 1.
pub(super) fn parse_percent(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number.ok().filter(|percent| (0.0..=100.0).contains(percent)) {
        Some(percent) => Ok(percent / 100.0),
        None => Err(Error::usage(format!("percentage `{text}`"), "it is no number from 0 to 100").remedy("write 5%")),
    }
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
