//! Energy meters, and the power model that can replace one. Commands and studies open a [`Meter`] and ask it for the joules
//! of an interval. Nothing here issues I/O to a target.
//!
//! A meter that does not advance is unavailable, never 0 J, and a modelled figure is marked as modelled. `docs/energy.md`
//! lists what each meter covers.

mod command;
mod curve;
mod hwmon;
mod instrument;
mod ipmi;
mod live;
mod meter;
mod model;
mod perf_power;
mod rapl;
mod source;
mod spec;
mod work;

pub use curve::{Curve, Kind};
pub use meter::Meter;
pub use model::PowerModel;
pub use source::{AS_WIRED, Source, WHOLE_MACHINE};
pub use spec::MeterSpec;
pub use work::Work;
