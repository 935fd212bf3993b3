//! `iolane calibrate`: measures what is needed, or reads results; fits a machine, prints it and writes its file.

mod page;
mod sources;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use iolane::{Error, IoPath};
use iolane_model::Behaviour;
use iolane_study::calibrate::{self, CalibrateDocument, Calibrated, Gathered, HoldOut, Source};
use iolane_study::files;

pub(crate) use self::sources::source;

use crate::arguments::CalibrateArguments;
use crate::interrupt::is_stopped;
use crate::outcome::Outcome;
use crate::output::{Bar, Outputs, printable};
use crate::targets::Chosen;

/// Between two looks whether the user asked to stop.
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn calibrate(arguments: CalibrateArguments) -> anyhow::Result<Outcome> {
    check(&arguments)?;
    // Checked before something is measured, and once more with what the results name.
    let chosen = Chosen::of(&arguments.targets.target);
    let mut kept: Vec<OsString> = chosen.names().to_vec();
    let outputs = outputs(&arguments, &kept)?;
    let results = if arguments.measure { vec![measure(&arguments)?] } else { arguments.results.clone() };
    let gathered = gather(&results, &mut kept)?;
    files::check_writable(&arguments.out, &kept)?;
    let hold_out = arguments.hold_out.clone().unwrap_or_default();
    let calibrated = fit(gathered, hold_out)?;
    files::write(&arguments.out, calibrated.machine.to_text().as_bytes())?;
    outputs.text(&page::text(&calibrated, &arguments.out))?;
    outputs.document(&CalibrateDocument::new(&calibrated, printable(&arguments.out)))?;
    Ok(Outcome::Done)
}

fn check(arguments: &CalibrateArguments) -> anyhow::Result<()> {
    let targets = &arguments.targets;
    if !arguments.measure && (!targets.target.is_empty() || targets.size.is_some()) {
        return Err(Error::usage("--target", "nothing is measured").remedy("add --measure").into());
    }
    let unknown = arguments.paths().into_iter().find_map(|path| Behaviour::of(&path).err());
    unknown.map_or(Ok(()), |error| Err(error.into()))
}

fn outputs(arguments: &CalibrateArguments, kept: &[OsString]) -> anyhow::Result<Outputs> {
    files::check_writable(&arguments.out, kept)?;
    let kept: Vec<OsString> = kept.iter().cloned().chain([arguments.out.clone().into()]).collect();
    Outputs::checked(arguments.json.clone(), &kept)
}

/// Measures each path that the model knows at a few depths.
fn measure(arguments: &CalibrateArguments) -> anyhow::Result<PathBuf> {
    let paths = match arguments.paths() {
        paths if paths.is_empty() => modelled_paths(),
        paths => paths,
    };
    let goes_on = "the same command continues it";
    super::study::measure_for(arguments.study(paths), goes_on)
}

/// Every path that the model knows, without options. Those that a target lacks are left out by the study.
fn modelled_paths() -> Vec<IoPath> {
    let has_no_option = |path: &IoPath| !path.to_string().contains(',');
    iolane::interfaces()
        .flat_map(|interface| interface.paths())
        .filter(|path| Behaviour::of(path).is_ok() && has_no_option(path))
        .collect()
}

/// What results tell together. Their files are added to what no output may replace.
fn gather(results: &[PathBuf], kept: &mut Vec<OsString>) -> anyhow::Result<Gathered> {
    let mut all = Vec::new();
    for place in results {
        match source(place, kept)? {
            Source::Gathered(gathered) => all.push((printable(place), *gathered)),
            Source::Machine(_) => {
                let cause = "it is a machine that was calibrated";
                return Err(Error::usage(printable(place), cause)
                    .remedy(format!("predict with it: iolane predict --machine {}", printable(place)))
                    .into());
            }
        }
    }
    Ok(Gathered::together(all)?)
}

/// Fits a machine in a thread of its own, so that Ctrl-C ends the program at once: there is nothing to keep.
///
/// # Errors
/// As the fit; `Failed` if it was interrupted.
pub(crate) fn fit(gathered: Gathered, hold_out: HoldOut) -> anyhow::Result<Calibrated> {
    let _bar = Bar::unknown("fitting the machine");
    let (sender, fitted) = mpsc::channel();
    let fit = move || {
        // Nobody receives it once the user has asked to stop.
        let _ = sender.send(calibrate::calibrate(&gathered, &hold_out));
    };
    std::thread::Builder::new().name("fit".into()).spawn(fit).map_err(Error::no_thread)?;
    loop {
        match fitted.recv_timeout(TICK) {
            Ok(calibrated) => return Ok(calibrated?),
            Err(RecvTimeoutError::Timeout) if is_stopped() => {
                return Err(Error::failed("calibrating", "it was interrupted, and wrote nothing").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("calibrating", "the fit ended without a result").into());
            }
        }
    }
}
