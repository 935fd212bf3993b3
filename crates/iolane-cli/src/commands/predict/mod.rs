//! `iolane predict`: a machine and what is asked of it in, a table for each load and a map of the best paths out.

mod map;
mod page;

use std::ffi::OsString;
use std::path::Path;

use iolane::Error;
use iolane_measure::workload::Access;
use iolane_model::{MachineFile, Observation, Published};
use iolane_study::calibrate::{HoldOut, Source};
use iolane_study::files;
use iolane_study::predict::Job;

use super::calibrate::{fit, source};
use crate::arguments::{PredictArguments, SimulatedDrive};
use crate::interrupt::STOP;
use crate::outcome::Outcome;
use crate::output::{Bar, Outputs, printable, warn};

pub(crate) fn predict(arguments: PredictArguments) -> anyhow::Result<Outcome> {
    let asked = arguments.asked(read_percent(&arguments)?);
    let mut kept = Vec::new();
    let (machine, measured) = machine(&arguments.machine, &mut kept)?;
    let (machine, measured) = match &arguments.drive {
        // What was measured on the machine's own drive stands beside no prediction for another one.
        Some(other) => (on_another_drive(machine, other), Vec::new()),
        None => (machine, measured),
    };
    let outputs = Outputs::checked(arguments.json.clone(), &kept)?;
    if let Some(file) = &arguments.page {
        files::check_writable(file, &kept)?;
    }
    let job = Job::new(machine, &asked)?;
    let cells = job.cells();
    let predicted = {
        let bar = Bar::steps(cells, "predicting");
        job.play(&STOP, |done| bar.at(done as u64))?.beside(&measured)
    };
    let shown = printable(&arguments.machine);
    outputs.text(&page::text(&predicted, &shown))?;
    if let Some(file) = &arguments.page {
        let html = iolane_report::predict_page(&predicted, page::sentences(&predicted, &shown))?;
        files::write(file, html.as_bytes())?;
        outputs.text(&format!("\nPage: {}\n", printable(file)))?;
    }
    outputs.document(&predicted)?;
    if !predicted.complete {
        warn(&format!("interrupted: {} loads were predicted, the others are missing", predicted.loads.len()));
    }
    Ok(Outcome::failed_if(!predicted.complete))
}

/// The machine that a name stands for. One that is given by its results is fitted to them, and what they measured is returned too.
fn machine(place: &Path, kept: &mut Vec<OsString>) -> anyhow::Result<(MachineFile, Vec<Observation>)> {
    if let Some(published) = place.to_str().and_then(Published::named) {
        return Ok((published.machine()?, published.observations()?.observations));
    }
    match source(place, kept)? {
        Source::Machine(machine) => Ok((*machine, Vec::new())),
        Source::Gathered(gathered) => {
            let measured = gathered.observations.clone();
            Ok((fit(*gathered, HoldOut::Automatic)?.machine, measured))
        }
    }
}

/// The machine with another drive, which its name then tells.
fn on_another_drive(machine: MachineFile, other: &SimulatedDrive) -> MachineFile {
    let name = format!("{}, with another drive ({})", machine.name, other.text);
    MachineFile { name, ..machine.with_drive(&other.drive) }
}

/// The percentage of reads of a pattern.
fn read_percent(arguments: &PredictArguments) -> anyhow::Result<u8> {
    match (arguments.rw, arguments.read_percent) {
        (Access::RandRw, percent) => Ok(percent.unwrap_or(50)),
        (access, Some(_)) => {
            let what = format!("--read-percent with --rw {}", access.name());
            Err(Error::usage(what, "it does not mix reads and writes").remedy("use --rw randrw").into())
        }
        (Access::RandRead, None) => Ok(100),
        (Access::RandWrite, None) => Ok(0),
        (access, None) => Err(Error::usage(format!("--rw {}", access.name()), "the model spreads requests at random")
            .remedy("use randread, randwrite or randrw")
            .into()),
    }
}
