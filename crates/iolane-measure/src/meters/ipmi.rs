//! Power of the whole machine from the board's management controller (IPMI DCMI, Get Power Reading), read once a second with
//! ipmitool. Where the kernel's ACPI power meter has the same value, `hwmon` is used instead.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::curve::Kind;
use super::instrument::{Candidate, Instrument};
use super::source::{Source, WHOLE_MACHINE};
use crate::process::{Limits, capture};
use crate::telemetry::{Reading, Unavailable};

/// The kernel's device for the controller.
pub(super) const DEVICE: &str = "/dev/ipmi0";

const LIMITS: Limits = Limits { time: Duration::from_secs(5), patience: Duration::from_secs(1) };

/// The controller, read with this program.
#[derive(Debug)]
struct Controller {
    program: PathBuf,
}

/// The meter, if controller and program exist. It is not read yet.
///
/// # Errors
/// If one of them is missing.
pub(super) fn candidates(device: &Path, search: &str) -> Reading<Vec<Candidate>> {
    if !device.exists() {
        return Err(Unavailable::new(format!("there is no {}", device.display()))
            .remedy("modprobe ipmi_si ipmi_devintf, if the board has a management controller"));
    }
    let places = std::env::split_paths(search).map(|folder| folder.join("ipmitool"));
    let program = places.into_iter().find(|program| program.is_file());
    let program = program.ok_or_else(|| {
        Unavailable::new("ipmitool is not installed").remedy("install it (Debian: apt install ipmitool)")
    })?;
    let source = Source::measured("IPMI DCMI", WHOLE_MACHINE);
    Ok(vec![Candidate { instrument: Box::new(Controller { program }), source }])
}

impl Instrument for Controller {
    fn kind(&self) -> Kind {
        Kind::Gauge
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn read(&mut self) -> Reading<f64> {
        let mut command = Command::new(&self.program);
        command.args(["dcmi", "power", "reading"]);
        let never = AtomicBool::new(false);
        let finished = capture(&mut command, &LIMITS, &never).map_err(|error| Unavailable::new(error.to_string()))?;
        if !finished.succeeded() {
            return Err(Unavailable::new(format!("ipmitool failed{}", finished.complaints())).remedy("run as root"));
        }
        watts(&finished.stdout)
    }
}

/// The watts that ipmitool prints. A controller without a sensor returns 0, or `deactivated`.
fn watts(text: &str) -> Reading<f64> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix(':'))?;
        Some(line.trim())
    };
    if let Some(state) = value("Power reading state is").filter(|state| *state != "activated") {
        return Err(Unavailable::new(format!("the management controller's power reading is {}", shown(state))));
    }
    let reading = value("Instantaneous power reading").and_then(|reading| reading.split_whitespace().next());
    match reading.and_then(|reading| reading.parse::<u32>().ok()) {
        Some(0) => Err(Unavailable::new("the management controller reads 0 W: it has no power sensor")),
        Some(watts) => Ok(f64::from(watts)),
        None => Err(Unavailable::new(format!("ipmitool printed no power reading: {}", shown(text)))),
    }
}

fn shown(text: &str) -> String {
    crate::process::shown(text.trim(), 100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sysfs_fixture::Fixture;

    const READING: &str = include_str!("../../tests/fixtures/energy/ipmitool-dcmi-power-reading.txt");

    #[test]
    fn the_instantaneous_reading_is_taken() {
        assert_eq!(watts(READING).unwrap(), 214.0);
    }

    #[test]
    fn a_controller_without_a_sensor_is_unavailable_and_not_0() {
        let why = |text: &str| watts(text).unwrap_err().to_string();
        assert!(why(&READING.replace("214", "0")).contains("it has no power sensor"));
        assert!(why(&READING.replace(" activated", " deactivated")).ends_with("is deactivated"));
        assert_eq!(why("DCMI request failed"), "ipmitool printed no power reading: DCMI request failed");
    }

    #[test]
    fn a_missing_controller_or_program_is_reported_with_a_remedy() {
        let tree = Fixture::new();
        let why = |search: &str| candidates(&tree.0.join("ipmi0"), search).unwrap_err().to_string();
        assert!(why("").contains("modprobe ipmi_si"));
        tree.write("ipmi0", "");
        assert!(why("/nowhere").starts_with("ipmitool is not installed; install it"));
        tree.write("bin/ipmitool", "");
        let found = candidates(&tree.0.join("ipmi0"), &tree.0.join("bin").display().to_string()).unwrap();
        assert_eq!(found[0].source.to_string(), "IPMI DCMI, whole machine");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(.|\n){0,200}", number in any::<u64>()) {
            let _ = watts(&text);
            let _ = watts(&format!("Instantaneous power reading: {number} Watts"));
        }
    }
}
