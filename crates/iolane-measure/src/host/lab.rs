//! What is behind a guest of the lab, which measurements in it do not show. The lab hands it over; claims use it.

use serde::{Deserialize, Serialize};

/// What is behind the virtual processors and drives of a guest of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabMachine {
    /// Virtual processors.
    pub cpus: usize,
    /// Processors of the host that the lab may use, for these and for the emulated drives.
    pub host_cpus: usize,
    /// Whether the drives have a limit of requests or bytes per second.
    pub drives_have_ceiling: bool,
    /// Whether its clock counts instructions: its processors are simulated, and need none of the host's to themselves.
    #[serde(default)]
    pub exact: bool,
}

/// The variable in which a guest of the lab finds what is behind it, as JSON.
pub const LAB_VARIABLE: &str = "IOLANE_LAB_MACHINE";

impl LabMachine {
    /// `None` outside of the lab.
    pub fn of_this_guest() -> Option<Self> {
        serde_json::from_str(&std::env::var(LAB_VARIABLE).ok()?).ok()
    }
}
