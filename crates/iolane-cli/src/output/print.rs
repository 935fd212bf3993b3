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
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn written(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
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

/// Ends the program with what the argument parser says, help or an error: in colours, unless an argument in it would control the terminal.
pub(crate) fn exit(message: &clap::Error) -> ! {
    let plain = message.render().to_string();
    if safe(&plain) != plain {
        complain(plain.trim_end());
    } else if message.use_stderr() {
        let _ = message.print();
    } else if let Err(error) = written(message.print().and_then(|()| std::io::stdout().flush())) {
        complain(&format!("iolane: {error}"));
        std::process::exit(1);
    }
    std::process::exit(message.exit_code())
}
