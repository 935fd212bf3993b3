//! Energy of a study as a whole: load steps for an external meter, the meter's trace, and its alignment with the study.
//! Meters that are read during a run are in `iolane_measure::meters`.

pub mod align;
mod alignment;
mod fit;
mod notes;
mod refine;
mod search;
pub mod steps;
pub mod trace;

pub use alignment::Alignment;
pub use notes::EnergyNotes;
