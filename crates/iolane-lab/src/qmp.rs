//! QEMU's monitor, for what happens to hardware while a guest runs: drives pulled out, drives that stop answering.
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

    /// Makes a drive whose backing can stall do so: from now on a request takes as good as forever.
    ///
    /// # Errors
    /// If the drive's backing is another.
    pub(crate) fn stall(&mut self, drive: &str) -> Result<()> {
        let index = drive.trim_start_matches("nvme");
        let limits = json!({ "iops-total": 1, "iops-total-max": 1, "iops-total-max-length": 1 });
        self.ask("qom-set", &json!({ "path": format!("/objects/brake{index}"), "property": "limits", "value": limits }))
            .map(drop)
    }

    /// Does what a line of the form `unplug nvme2` or `stall nvme3` says.
    ///
    /// # Errors
    /// If it says something else, or that fails.
    pub(crate) fn obey(&mut self, line: &str) -> Result<()> {
        match line.split_once(' ') {
            Some(("unplug", drive)) => self.unplug(drive),
            Some(("stall", drive)) => self.stall(drive),
            _ => Err(Error::usage(format!("`{line}`"), "the lab can `unplug` and `stall` a drive")),
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
