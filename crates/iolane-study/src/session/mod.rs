//! A study on this machine: its arms are checked, then run in random order, each recorded in a journal. The command
//! line calls [`Session`]; `results` reports what it measured.

mod applications;
mod arms;
mod attempt;
mod budget;
mod conditions;
pub(crate) mod energy;
mod installed_peer;
mod measured;
mod peers;
mod planned;
mod precondition;
mod progress;
mod run_list;
mod searches;
mod setup;
mod study_session;
mod validity;

pub use conditions::Conditions;
pub use energy::Metering;
pub use installed_peer::InstalledPeer;
pub use measured::Measured;
pub use progress::{Now, Progress};
pub use study_session::Session;
