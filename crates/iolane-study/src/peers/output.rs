//! The error for output that a parser does not recognize. All parsers return it.

use iolane::Error;
use iolane_measure::process::shown;

/// `found` is the first line that was not expected, `None` at the end of the output.
pub(super) fn unexpected_output(peer: &str, expected: &str, found: Option<&str>) -> Error {
    let found = found.map_or_else(|| "the output ends".into(), |line| format!("found `{}`", shown(line, 100)));
    Error::failed(format!("output of {peer}"), format!("expected {expected}, but {found}"))
        .remedy("its version may print another format")
}
