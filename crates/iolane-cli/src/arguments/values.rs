//! Parsers of values that several commands take.

use std::time::Duration;

use iolane::sim::{SimSettings, Timing};
use iolane::units::{Bytes, parse_duration};
use iolane::{Error, IoPath, Result};
use iolane_model::Drive;

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

/// Paths that are asked for; none stands for all.
#[derive(Debug, Clone)]
pub(crate) struct PathsAsked(pub(crate) Vec<IoPath>);

/// Parses a list of paths, or `all`.
pub(super) fn parse_paths_asked(text: &str) -> Result<PathsAsked> {
    match text.trim() {
        "all" => Ok(PathsAsked(Vec::new())),
        list => iolane::paths_of(list).map(PathsAsked),
    }
}

/// Numbers from 1 on, as a list names them, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CountList(pub(crate) Vec<usize>);

/// The most numbers of a list.
const COUNTS_MAX: usize = 10_000;

/// Parses a drive: a profile's name, or the settings that simulate one (`read=80us,units=64`).
pub(super) fn parse_drive(text: &str) -> Result<SimulatedDrive> {
    let settings = if text.contains('=') { text.to_owned() } else { format!("profile={text}") };
    let settings: SimSettings = settings.parse()?;
    let drive = match (
        settings.timing.clone(),
        settings == SimSettings { timing: settings.timing.clone(), ..SimSettings::default() },
    ) {
        (Timing::Units(drive), true) => drive,
        _ => {
            let cause = "it has settings that are not those of a drive with units";
            return Err(Error::usage(format!("drive `{text}`"), cause)
                .remedy("write a profile, or read=80us,write=20us,units=64 (docs/simulated-drives.md)"));
        }
    };
    Ok(SimulatedDrive { text: text.to_owned(), drive })
}

/// A drive that is not here.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedDrive {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) drive: Drive,
}

/// Parses a list of numbers and ranges: `1,2,4` or `1..20`, both ends included.
pub(super) fn parse_counts(text: &str) -> Result<CountList> {
    let bad = |cause: &str| Error::usage(format!("list `{text}`"), cause).remedy("write 1,2,4 or 1..20");
    let number = |part: &str| match part.trim().parse::<usize>() {
        Ok(0) | Err(_) => Err(bad("it has something else than numbers from 1 on")),
        Ok(number) => Ok(number),
    };
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once("..") {
            None => (number(part)?, number(part)?),
            Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
        };
        if first > last {
            return Err(bad("a range that runs backwards"));
        }
        if last - first >= COUNTS_MAX {
            return Err(bad("more than 10,000 numbers"));
        }
        for count in first..=last {
            if !counts.contains(&count) {
                counts.push(count);
            }
        }
    }
    Ok(CountList(counts))
}

/// Parses a command that is not empty.
pub(super) fn parse_command(text: &str) -> Result<String> {
    match text.trim() {
        "" => Err(Error::usage("the meter's command", "it is empty")),
        command => Ok(command.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_numbers_has_ranges_and_each_number_once() {
        let counts = |text: &str| parse_counts(text).map(|CountList(counts)| counts);
        assert_eq!(counts("1..4,2,8").unwrap(), [1, 2, 3, 4, 8]);
        for (text, says) in [("0", "from 1 on"), ("4..1", "backwards"), ("1..x", "from 1 on"), ("1..99999", "10,000")] {
            let error = counts(text).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("1..20"), "{error}");
        }
    }
}
