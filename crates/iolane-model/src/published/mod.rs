//! The machines of the publications, from what their texts state of one job on one drive, and what the texts state of more.

mod bench;
mod held_out;
mod statements;

use iolane_core::error::Result;

pub use bench::{Expected, Verdict};
pub use held_out::{Statement, check};

use crate::{MachineFile, Observations};

/// A published machine.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// The name of the study.
    pub name: &'static str,
    observations: &'static str,
    machine: &'static str,
}

/// Those of which the texts state enough: that of ijraset24 states nothing of more than one job.
pub const PUBLISHED: [Published; 3] = [
    Published {
        name: "systor22",
        observations: include_str!("../../machines/systor22.toml"),
        machine: include_str!("../../machines/systor22.machine.toml"),
    },
    Published {
        name: "hotstorage23",
        observations: include_str!("../../machines/hotstorage23.toml"),
        machine: include_str!("../../machines/hotstorage23.machine.toml"),
    },
    Published {
        name: "floe26",
        observations: include_str!("../../machines/floe26.toml"),
        machine: include_str!("../../machines/floe26.machine.toml"),
    },
];

impl Published {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        PUBLISHED.into_iter().find(|published| published.name == name)
    }

    /// What the text states of one job on one drive.
    ///
    /// # Errors
    /// None: a test parses each.
    pub fn observations(&self) -> Result<Observations> {
        Observations::parse(self.observations, self.name)
    }

    /// The machine that fits it, with how far it is off of what it was not fitted to; the example `published` writes it.
    ///
    /// # Errors
    /// None: a test fits each anew.
    pub fn machine(&self) -> Result<MachineFile> {
        MachineFile::parse(self.machine, self.name)
    }
}
