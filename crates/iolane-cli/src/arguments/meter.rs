//! The options that choose an energy meter, which `run` and `study` share.

use clap::Args;
use iolane_measure::meters::{MeterSpec, PowerModel};

use super::values::parse_command;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Energy")]
pub(crate) struct MeterArguments {
    /// Energy meter: auto (the one that covers most of this machine), none, rapl, perf, hwmon or ipmi
    #[arg(long, default_value = "auto", value_name = "NAME")]
    meter: MeterSpec,
    /// Command that prints watts, one number per line; one that exits is run again, at most once a second
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["meter", "power_model"], value_parser = parse_command)]
    meter_command: Option<String>,
    /// Estimate energy from idle watts plus watts per busy core; results are marked as modelled
    #[arg(long, value_name = "idle=W,core=W", conflicts_with = "meter")]
    power_model: Option<PowerModel>,
}

impl MeterArguments {
    /// No meter.
    pub(super) fn none() -> Self {
        Self { meter: MeterSpec::None, meter_command: None, power_model: None }
    }

    pub(crate) fn spec(&self) -> MeterSpec {
        match (&self.meter_command, self.power_model) {
            (Some(command), _) => MeterSpec::Command(command.clone()),
            (None, Some(model)) => MeterSpec::Model(model),
            (None, None) => self.meter.clone(),
        }
    }
}
