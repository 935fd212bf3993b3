//! What a machine can be asked: paths it was calibrated for, block sizes and writes that its numbers tell something about.

use iolane::units::Bytes;
use iolane::{Error, IoPath, Result};
use iolane_model::{MachineFile, Number};

use super::Asked;

/// The most threads, cores and drives of a load.
const MOST: usize = 4096;
/// The largest depth of a load.
const DEPTH_MAX: u32 = 1 << 16;
/// The largest block.
const BLOCK_MAX: u64 = 1 << 26;

/// The names in the machine's file of the paths that are asked for.
///
/// # Errors
/// `Usage` for a path that the machine was not calibrated for.
pub(super) fn names(machine: &MachineFile, paths: &[IoPath]) -> Result<Vec<String>> {
    if paths.is_empty() {
        return Ok(machine.paths.keys().cloned().collect());
    }
    let is_same = |name: &str, path: &IoPath| name.parse::<IoPath>().is_ok_and(|known| known == *path);
    let name_of = |path: &IoPath| {
        let known = machine.paths.keys().find(|name| is_same(name, path));
        known.cloned().ok_or_else(|| {
            let all: Vec<&str> = machine.paths.keys().map(String::as_str).collect();
            let cause = format!("the machine was not calibrated for it, but for {}", all.join("; "));
            Error::usage(format!("--path {path}"), cause)
                .remedy(format!("measure it: iolane calibrate --measure --path {path}"))
        })
    };
    let mut names: Vec<String> = Vec::new();
    for name in paths.iter().map(name_of) {
        let name = name?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Checks loads.
///
/// # Errors
/// `Usage` for what the machine's numbers tell nothing about.
pub(super) fn check(machine: &MachineFile, asked: &Asked) -> Result<()> {
    let within = |option: &str, value: u64, most: u64| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::usage(format!("{option} {value}"), format!("it is not from 1 to {most}"))),
    };
    for threads in &asked.threads {
        within("--threads", *threads as u64, MOST as u64)?;
    }
    for cores in &asked.cores {
        within("--cores", *cores as u64, MOST as u64)?;
    }
    within("--drives", asked.drives as u64, MOST as u64)?;
    for depth in &asked.depths {
        within("--depth", (*depth).into(), DEPTH_MAX.into())?;
    }
    for batch in asked.batch_submit.iter().chain(&asked.batch_complete_max) {
        within("--batch", (*batch).into(), DEPTH_MAX.into())?;
    }
    for bytes in &asked.block_bytes {
        within("--bs", *bytes, BLOCK_MAX)?;
        check_block(machine, *bytes)?;
    }
    let (reads, writes) = (|percent: &u8| *percent > 0, |percent: &u8| *percent < 100);
    if asked.read_percents.iter().any(reads) {
        check_access(machine, "read_ns", &machine.drive.read_ns, ("reads", "--rw randread"))?;
    }
    if asked.read_percents.iter().any(writes) {
        check_access(machine, "write_ns", &machine.drive.write_ns, ("writes", "--rw randwrite"))?;
    }
    Ok(())
}

/// A block within a page takes as long as a page; a larger one takes its bytes, if the bytes per second are known.
fn check_block(machine: &MachineFile, bytes: u64) -> Result<()> {
    let page = machine.drive.page_bytes;
    let observed = &machine.block_bytes;
    let is_like = |known: &u64| *known == bytes || (*known <= page && bytes <= page);
    if observed.iter().any(is_like) || is_told(&machine.drive.bytes_per_s) {
        return Ok(());
    }
    let sizes: Vec<String> = observed.iter().map(|size| Bytes(*size).to_string()).collect();
    let cause = match &sizes[..] {
        [] => "the bytes per second of the drive are not known".to_owned(),
        sizes => {
            format!("the machine was calibrated with {}, which does not tell the bytes per second", sizes.join(", "))
        }
    };
    Err(Error::usage(format!("--bs {}", Bytes(bytes)), cause)
        .remedy("measure large blocks at a large depth too (iolane study --bs 4k,128k --depth 1,16), or give drive.bytes_per_s in the file"))
}

fn check_access(machine: &MachineFile, name: &str, number: &Number, (what, option): (&str, &str)) -> Result<()> {
    if is_told(number) || machine.draws.contains_key(&format!("drive.{name}")) {
        return Ok(());
    }
    Err(Error::usage(format!("predicting {what}"), format!("the machine was calibrated without {what}"))
        .remedy(format!("measure them too (iolane study {option}), or give drive.{name} in the file")))
}

/// Whether a number was given, or is told by the observations.
fn is_told(number: &Number) -> bool {
    match number {
        Number::Plain(_) => true,
        Number::Fitted(fitted) => fitted.determined,
    }
}
