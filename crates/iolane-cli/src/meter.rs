//! Opens the energy meter that `run` and `study` were asked to read.

use iolane::Error;
use iolane_measure::meters::MeterSpec;
use iolane_study::session::Metering;

use crate::arguments::MeterArguments;

/// A meter that was asked for by name must be available; `auto` may find none.
pub(crate) fn open(arguments: &MeterArguments, load_steps: bool) -> anyhow::Result<Metering> {
    let metering = Metering::open(arguments.spec(), load_steps);
    match (&metering.spec, &metering.meter) {
        (MeterSpec::Auto | MeterSpec::None, _) | (_, Ok(_)) => Ok(metering),
        (spec, Err(why)) => {
            Err(Error::unavailable(format!("meter {spec}"), why.reason.clone()).remedy(&why.remedy).into())
        }
    }
}
