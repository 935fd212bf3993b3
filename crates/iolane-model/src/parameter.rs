//! The numbers of a machine by name, so that a fit can change them one by one.

use std::fmt;

use crate::{Drive, Machine, PathCosts, Processor};

/// A number that a fit can change. Written `drive.read_ns`, `psync.call_ns`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameter {
    /// Whose number it is.
    pub of: Part,
    /// The name of the number.
    pub name: &'static str,
}

/// A part of a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The cores.
    Processor,
    /// Each drive.
    Drive,
    /// A path, by its name.
    Path(String),
}

impl Parameter {
    /// Of the processor.
    pub fn of_processor(name: &'static str) -> Self {
        Self { of: Part::Processor, name }
    }

    /// Of the drive.
    pub fn of_drive(name: &'static str) -> Self {
        Self { of: Part::Drive, name }
    }

    /// Of a path.
    pub fn of_path(path: &str, name: &'static str) -> Self {
        Self { of: Part::Path(path.to_owned()), name }
    }

    /// Its value on a machine; 0 if the machine lacks it.
    pub fn get(&self, machine: &Machine) -> f64 {
        let found = |numbers: &[(&str, &f64)]| numbers.iter().find(|(name, _)| *name == self.name).map(|(_, of)| **of);
        match &self.of {
            Part::Processor => found(&machine.processor.numbers()),
            Part::Drive => found(&machine.drive.numbers()),
            Part::Path(path) => machine.paths.get(path).and_then(|costs| found(&costs.numbers())),
        }
        .unwrap_or(0.0)
    }

    /// Sets it on a machine.
    pub fn set(&self, machine: &mut Machine, value: f64) {
        let change = |name: &str, old: &f64| if name == self.name { value } else { *old };
        match &self.of {
            Part::Processor => machine.processor = Processor::map(&machine.processor, change),
            Part::Drive => machine.drive = Drive::map(&machine.drive, change),
            Part::Path(path) => {
                if let Some(costs) = machine.paths.get_mut(path) {
                    *costs = PathCosts::map(costs, change);
                }
            }
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.of, self.name)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processor => "processor",
            Self::Drive => "drive",
            Self::Path(path) => path,
        })
    }
}
