//! Peers: other measuring tools that the user has installed, run on the same targets for comparison with iolane. One file
//! per tool, registered in `registry`; sessions call [`find`], [`Peer::cannot`] and [`run`]. Nothing here asks the guard: a
//! peer opens for writing only what the caller has opened for writing, and by the caller's descriptor.

mod bdevperf;
mod calls;
mod find;
mod fio;
mod output;
mod peer;
mod registry;
mod run;
mod spdk;
mod spdk_nvme_perf;

pub use find::{Installed, find};
pub use peer::{Load, LoadTarget, Peer, PeerMeasurement};
pub use registry::PEERS;
pub use run::{PeerRun, check_permits, run};

#[cfg(test)]
mod tests;
