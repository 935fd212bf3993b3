//! The command line: what each command takes, with its help. Parsed here once into types that cannot be wrong; commands make
//! their jobs of it. Nothing here opens a file or a target.

mod advise;
mod calibrate;
mod cli;
mod compare;
mod energy;
mod help;
mod lab;
pub(crate) mod manual;
mod meter;
mod nvme;
mod placement;
mod predict;
mod probe;
mod report;
mod run;
mod study;
mod survey;
mod targets;
mod values;
mod workload;

pub(crate) use advise::AdviseArguments;
pub(crate) use calibrate::CalibrateArguments;
pub(crate) use cli::{Cli, Command, command};
pub(crate) use compare::CompareArguments;
pub(crate) use energy::EnergyArguments;
pub(crate) use lab::{
    Accel, GuestArguments, LabArguments, LabCommand, LabMatrixArguments, LabRunArguments, LabStudyAllArguments,
};
pub(crate) use meter::MeterArguments;
pub(crate) use nvme::{NvmeBindArguments, NvmeCommand};
pub(crate) use predict::PredictArguments;
pub(crate) use probe::ProbeArguments;
pub(crate) use report::ReportArguments;
pub(crate) use run::RunArguments;
pub(crate) use study::StudyArguments;
pub(crate) use targets::TargetArguments;
pub(crate) use values::SimulatedDrive;
