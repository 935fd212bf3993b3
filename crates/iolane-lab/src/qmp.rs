//! QEMU's monitor, for what happens to hardware while a guest runs: drives that are pulled out.
//! QEMU Machine Protocol: <https://www.qemu.org/docs/master/interop/qmp-spec.html>.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use iolane_core::{Error, Result};
use serde_json::{Value, json};

/// The hardware of a running guest.
pub(crate) struct Hardware {
    lines: BufReader<UnixStream>,
}

impl Hardware {
    /// Takes the monitor's end of a socket, and greets.
    pub(crate) fn new(socket: UnixStream) -> Result<Self> {
        let mut hardware = Self { lines: BufReader::new(socket) };
        hardware.ask("qmp_capabilities", &json!({}))?;
        Ok(hardware)
    }

    /// Pulls a drive out of its slot, as asked from outside; the guest's kernel lets go of it soon after.
    ///
    /// # Errors
    /// If there is no such drive, or it is not removable.
    pub(crate) fn unplug(&mut self, drive: &str) -> Result<()> {
        self.ask("device_del", &json!({ "id": drive })).map(drop)
    }

    /// Does what a line of the form `unplug nvme2` says.
    ///
    /// # Errors
    /// If it says something else, or that fails.
    pub(crate) fn obey(&mut self, line: &str) -> Result<()> {
        match line.split_once(' ') {
            Some(("unplug", drive)) => self.unplug(drive),
            _ => Err(Error::usage(format!("`{line}`"), "all that a command can ask for is to `unplug` a drive")),
        }
    }

    fn ask(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        let failed = |cause: String| Error::failed(format!("QEMU's {command}"), cause);
        writeln!(self.lines.get_mut(), "{request}").map_err(|error| failed(error.to_string()))?;
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return Err(failed("it is gone".into())),
                Ok(_) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
            let answer: Value = serde_json::from_str(&line).map_err(|error| failed(error.to_string()))?;
            // Greetings and events come in between.
            if let Some(error) = answer.get("error") {
                return Err(failed(error["desc"].as_str().unwrap_or("it refused").to_owned()));
            }
            if let Some(result) = answer.get("return") {
                return Ok(result.clone());
            }
        }
    }
}
