//! Power and energy sensors in the kernel's hwmon tree: the ACPI power meter, power supplies, and counters of processor
//! sockets. Sensors of other parts (a graphics card, a rail) do not measure a run and are skipped. Nothing is written there.
//! Source: Documentation/hwmon/sysfs-interface.rst (power in microwatts, energy in microjoules).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::curve::Kind;
use super::instrument::{Candidate, Instrument};
use super::source::{PACKAGES, Source, WHOLE_MACHINE};
use crate::telemetry::{Reading, Unavailable};

/// Where the kernel lists the sensors.
pub(super) const ROOT: &str = "/sys/class/hwmon";

#[derive(Debug)]
struct Sensor {
    chip: String,
    label: String,
    file: PathBuf,
    kind: Kind,
}

/// Whether a sensor belongs to a meter.
type Belongs = fn(&Sensor) -> bool;

/// Sensors whose readings are added.
#[derive(Debug)]
struct Sensors {
    files: Vec<PathBuf>,
    kind: Kind,
    period: Duration,
    /// A counter's microjoules when it was first read.
    begun: Option<f64>,
}

/// The shortest interval between readings.
const PERIOD: Duration = Duration::from_millis(250);

/// The available meters, those of the whole machine first.
///
/// # Errors
/// If there is none; the reason names other sensors that exist.
pub(super) fn candidates(root: &Path) -> Reading<Vec<Candidate>> {
    let sensors = sensors(root);
    let mut found = Vec::new();
    let groups: [(&str, Belongs, &str); 4] = [
        ("the ACPI power meter", |sensor| sensor.chip == "power_meter", WHOLE_MACHINE),
        ("the power supplies' input", |sensor| sensor.kind == Kind::Gauge && is_input(&sensor.label), WHOLE_MACHINE),
        (
            "the power supply's total",
            |sensor| sensor.chip == "corsairpsu" && sensor.label == "power total",
            WHOLE_MACHINE,
        ),
        (
            "socket counters",
            |sensor| sensor.kind == Kind::Counter && sensor.label.to_lowercase().starts_with("esocket"),
            PACKAGES,
        ),
    ];
    for (name, belongs, covers) in groups {
        let group: Vec<&Sensor> = sensors.iter().filter(|sensor| belongs(sensor)).collect();
        let Some(first) = group.first() else { continue };
        let files: Vec<PathBuf> = group.iter().map(|sensor| sensor.file.clone()).collect();
        let period = group.iter().map(|sensor| averaged_over(sensor)).max().unwrap_or(PERIOD).max(PERIOD);
        let instrument = Sensors { files, kind: first.kind, period, begun: None };
        found.push(Candidate {
            instrument: Box::new(instrument),
            source: Source::measured(&format!("hwmon, {name}"), covers),
        });
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let others: Vec<&str> = sensors.iter().map(|sensor| sensor.chip.as_str()).collect();
    Err(match others.is_empty() {
        true => Unavailable::new("hwmon has no power sensor").remedy("modprobe acpi_power_meter, if the board has one"),
        false => Unavailable::new(format!("hwmon has sensors of other parts only ({})", others.join(", ")))
            .remedy("modprobe acpi_power_meter, if the board has one"),
    })
}

/// The label of a PMBus power supply's input: `pin`, or `pin1`.
fn is_input(label: &str) -> bool {
    label.strip_prefix("pin").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
}

/// Every power or energy sensor; the average of a sensor that has one.
fn sensors(root: &Path) -> Vec<Sensor> {
    let mut chips: Vec<PathBuf> =
        fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    chips.sort();
    chips.iter().flat_map(|chip| sensors_of(chip)).collect()
}

fn sensors_of(folder: &Path) -> Vec<Sensor> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).map(|text| text.trim().to_owned());
    let chip = text("name").unwrap_or_default();
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut sensors: Vec<Sensor> = Vec::new();
    for name in &names {
        let Some((stem, ending)) = name.split_once('_') else { continue };
        let kind = match (stem.trim_end_matches(|c: char| c.is_ascii_digit()), ending) {
            ("power", "average") => Kind::Gauge,
            ("power", "input") if !names.contains(&format!("{stem}_average")) => Kind::Gauge,
            ("energy", "input") => Kind::Counter,
            _ => continue,
        };
        let label = text(&format!("{stem}_label")).unwrap_or_default();
        sensors.push(Sensor { chip: chip.clone(), label, file: folder.join(name), kind });
    }
    sensors
}

/// The interval that the ACPI power meter averages over.
fn averaged_over(sensor: &Sensor) -> Duration {
    let name = sensor.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('_').next().unwrap_or_default();
    let interval = fs::read_to_string(sensor.file.with_file_name(format!("{stem}_average_interval")));
    let milliseconds = interval.ok().and_then(|text| text.trim().parse().ok());
    milliseconds.map_or(PERIOD, |milliseconds: u64| Duration::from_millis(milliseconds.min(60_000)))
}

impl Instrument for Sensors {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn read(&mut self) -> Reading<f64> {
        let sum = self.files.iter().map(|file| micro(file)).sum::<Reading<f64>>()?;
        let begun = match self.kind {
            Kind::Counter => *self.begun.get_or_insert(sum),
            Kind::Gauge => 0.0,
        };
        Ok((sum - begun) / 1e6)
    }
}

fn micro(file: &Path) -> Reading<f64> {
    let text = fs::read_to_string(file).map_err(|error| {
        let unavailable = Unavailable::new(format!("{}: {}", file.display(), iolane::error::describe(&error)));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => unavailable.remedy("run as root"),
            _ => unavailable,
        }
    })?;
    let number: Option<u64> = text.trim().parse().ok();
    let not_one = || Unavailable::new(format!("{}: `{}` is not a number", file.display(), text.trim()));
    number.map(|number| number as f64).ok_or_else(not_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs_fixture::Fixture;

    fn chip(name: &str, files: &[(&str, &str)]) -> Fixture {
        let tree = Fixture::new();
        add(&tree, "hwmon0", name, files);
        tree
    }

    fn add(tree: &Fixture, folder: &str, name: &str, files: &[(&str, &str)]) {
        tree.write(&format!("{folder}/name"), &format!("{name}\n"));
        files.iter().for_each(|(file, text)| {
            tree.write(&format!("{folder}/{file}"), text);
        });
    }

    fn first(tree: &Fixture) -> Candidate {
        candidates(&tree.0).unwrap().remove(0)
    }

    #[test]
    fn the_acpi_power_meter_is_the_whole_machine_in_watts_and_read_as_often_as_it_averages() {
        let files = [("power1_average", "87500000\n"), ("power1_average_interval", "1000"), ("power1_input", "1")];
        let tree = chip("power_meter", &files);
        let mut meter = first(&tree);
        assert_eq!(meter.source.to_string(), "hwmon, the ACPI power meter, whole machine");
        assert_eq!((meter.instrument.read().unwrap(), meter.instrument.kind()), (87.5, Kind::Gauge));
        assert_eq!(meter.instrument.period(), Duration::from_secs(1));
    }

    #[test]
    fn two_power_supplies_are_summed_by_their_input_and_not_their_output() {
        let supply =
            [("power1_label", "pin"), ("power1_input", "60000000"), ("power2_label", "pout1"), ("power2_input", "5")];
        let tree = chip("pmbus", &supply);
        add(&tree, "hwmon1", "pmbus", &supply);
        assert_eq!(first(&tree).instrument.read().unwrap(), 120.0);
    }

    #[test]
    fn socket_counters_count_joules_from_the_first_reading_and_leave_cores_out() {
        let tree = chip(
            "amd_energy",
            &[
                ("energy1_label", "Ecore000"),
                ("energy1_input", "1"),
                ("energy2_label", "Esocket0"),
                ("energy2_input", "5000000"),
            ],
        );
        let mut meter = first(&tree);
        assert_eq!(meter.source.to_string(), "hwmon, socket counters, processor packages only");
        assert_eq!(meter.instrument.read().unwrap(), 0.0);
        tree.write("hwmon0/energy2_input", "7500000");
        assert_eq!(meter.instrument.read().unwrap(), 2.5);
    }

    #[test]
    fn sensors_of_other_parts_are_not_used_and_are_named() {
        let why = |tree: &Fixture| candidates(&tree.0).unwrap_err().to_string();
        assert!(
            why(&chip("amdgpu", &[("power1_average", "9000000")]))
                .starts_with("hwmon has sensors of other parts only (amdgpu)")
        );
        assert!(why(&chip("coretemp", &[("temp1_input", "40000")])).starts_with("hwmon has no power sensor"));
        assert!(candidates(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn an_unreadable_sensor_is_unavailable_and_not_0() {
        let tree = chip("power_meter", &[("power1_average", "-5")]);
        assert!(first(&tree).instrument.read().unwrap_err().reason.ends_with("`-5` is not a number"));
        std::fs::remove_file(tree.0.join("hwmon0/power1_average")).unwrap();
        std::fs::create_dir(tree.0.join("hwmon0/power1_average")).unwrap();
        assert!(first(&tree).instrument.read().unwrap_err().reason.contains("power1_average"));
    }
}
