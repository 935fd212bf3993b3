//! Standard output and standard error: no text reaches them otherwise. A reader that closes the pipe (`| head`) is no error.

use std::io::{ErrorKind, Write};

use iolane::Error;

use super::safe::{safe, safe_json};

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write(&safe(text))
}

/// Prints a JSON document to standard output.
pub(crate) fn print_json(json: &str) -> anyhow::Result<()> {
    write(&safe_json(json))
}

fn write(text: &str) -> anyhow::Result<()> {
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
    let _ = writeln!(std::io::stderr(), "{}", safe(line));
}

/// Prints a warning to standard error.
pub(crate) fn warn(warning: &str) {
    complain(&format!("iolane: {warning}"));
}

/// Ends the program with what the argument parser says: in colours, unless an argument in it would control the terminal.
pub(crate) fn exit(error: &clap::Error) -> ! {
    let plain = error.render().to_string();
    if safe(&plain) == plain {
        error.exit();
    }
    complain(plain.trim_end());
    std::process::exit(error.exit_code())
}
