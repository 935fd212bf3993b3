//! Standard output and standard error. A reader that closes the pipe (`| head`) is no error.

use std::io::{ErrorKind, Write};

use iolane::Error;

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::system("standard output", error).remedy("send it elsewhere").into())
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error. A failure cannot be reported anywhere.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a warning to standard error.
pub(crate) fn warn(warning: &str) {
    complain(&format!("iolane: {warning}"));
}
