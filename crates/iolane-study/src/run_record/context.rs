//! The machine and the targets in the record of a run.

use iolane::scheme::Scheme;
use iolane_measure::host::{DeviceHost, Host};
use serde::{Deserialize, Serialize};

/// The machine, and the device behind the first target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    #[serde(flatten)]
    pub host: Host,
    pub device: Option<DeviceHost>,
}

impl HostRecord {
    /// Reads the facts of the machine and of the target's device.
    pub fn gather(target: Option<&iolane::Target>) -> Self {
        Self { host: Host::gather(), device: target.and_then(DeviceHost::gather) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRecord {
    pub kind: String,
    pub name: String,
    pub bytes: u64,
    pub block_bytes: u32,
    pub direct: bool,
}

impl TargetRecord {
    /// The record of a target.
    pub fn new(target: &iolane::Target) -> Self {
        Self {
            kind: target.kind().name().into(),
            name: target.name().into(),
            bytes: target.bytes(),
            block_bytes: target.block_bytes(),
            direct: target.direct(),
        }
    }

    /// How it was reached: `O_DIRECT`, `page cache`, `no kernel driver` or `simulated`.
    pub fn access(&self) -> &'static str {
        match (Scheme::of_kind(&self.kind), self.direct) {
            (Some(scheme), _) if scheme.simulated => "simulated",
            (Some(_), _) => "no kernel driver",
            (None, true) => "O_DIRECT",
            (None, false) => "page cache",
        }
    }
}
