//! fio's options for targets, length and CPUs.

use std::time::Duration;

use iolane::units::{Bytes, CpuList};
use iolane::{IoPath, Result};
use iolane_measure::placement::Placement;
use iolane_measure::workload::{Access, Workload};

use crate::fio::job::{Amount, Place, Size};
use crate::fio::options::{Options, SECOND_US};

/// How much of the targets a job uses: fio's filesize, or else its size.
pub(super) fn size(options: &Options<'_>) -> Result<Option<Size>> {
    match (own_size(options)?, options.number_or_none("filesize")?) {
        (Some(Size::Percent(_)), Some(_)) => {
            Err(options.refuse("filesize", "size is a percentage", "use filesize, or size in percent"))
        }
        (_, Some(bytes)) => Ok(Some(Size::Bytes(bytes))),
        (size, None) => Ok(size),
    }
}

/// fio's size: bytes, or a percentage of the target.
fn own_size(options: &Options<'_>) -> Result<Option<Size>> {
    let size = |text: &str| match text.strip_suffix('%') {
        Some(percent) => match percent.parse::<u8>() {
            Ok(percent @ 1..=100) => Ok(Some(Size::Percent(percent))),
            _ => Err("a percentage is a whole number between 1 and 100".into()),
        },
        None => Ok(Some(options.kb_base.number(text)?).filter(|bytes| *bytes > 0).map(Size::Bytes)),
    };
    Ok(options.parsed("size", size)?.flatten())
}

/// fio's fill_device writes until the file system is full; here a job of sequential writes ends with its target anyway.
pub(super) fn check_fill(
    options: &Options<'_>,
    access: Access,
    size: Option<Size>,
    notes: &mut Vec<String>,
) -> Result<()> {
    if options.flag("fill_device")? != Some(true) {
        return Ok(());
    }
    let refuse = |cause: &str, remedy: &str| Err(options.refuse("fill_device", cause, remedy));
    if access != Access::Write {
        let cause = "fio would write until the file system is full; iolane fills a target with sequential writes only";
        return refuse(cause, "use a job with rw=write before this one, and stonewall");
    }
    if size.is_none() && !options.has("filename") {
        let cause = "fio would write until the file system is full, and the size of a scratch file is not known";
        return refuse(cause, "use size=, or name a target with filename=");
    }
    notes.push("fill_device writes the target, or its size, once; fio writes until the file system is full".into());
    Ok(())
}

/// fio syncs at the end of a job, within its time, if it is told to; iolane does not. Past the page cache such a sync flushes the
/// volatile cache of the drive, and a note says that it is missing.
pub(super) fn check_end_sync(
    options: &Options<'_>,
    access: Access,
    is_direct: bool,
    notes: &mut Vec<String>,
) -> Result<()> {
    for option in ["end_fsync", "fsync_on_close"] {
        if options.flag(option)? != Some(true) || !access.writes() {
            continue;
        }
        if !is_direct {
            let cause = "fio would write the page cache back at the end, within the time of the job";
            return Err(options.refuse(option, cause, "use direct=1, or fsync=N for syncs in between"));
        }
        notes.push(format!(
            "{option}: iolane does not sync at the end; with direct=1 the page cache holds nothing, but the volatile \
             cache of the drive is not flushed, so that writes may look faster than in fio"
        ));
    }
    Ok(())
}

/// fio spreads the size of a job over its files; here it is in one.
pub(super) fn note_files(options: &Options<'_>, notes: &mut Vec<String>) -> Result<()> {
    let files = options.count("nrfiles", 1, u32::MAX)?;
    if files > 1 {
        notes.push(format!("nrfiles={files}: one file of the whole size stands for the {files} files of each thread"));
    }
    Ok(())
}

/// The targets of a job. A file of its own holds `start` bytes before those that it uses.
pub(super) fn place(options: &Options<'_>, path: &IoPath, size: Option<Size>, start: u64) -> Result<Place> {
    let has_target = options.has("filename") && path.interface() != "null";
    if matches!(size, Some(Size::Percent(_))) && !has_target {
        let cause = "there is no target whose size it is a percentage of";
        return Err(options.refuse("size", cause, "give a size in bytes, or name a target with filename="));
    }
    let size = size.and_then(Size::bytes).map(|bytes| bytes.saturating_add(start));
    if path.interface() == "null" {
        let size = size.ok_or_else(|| {
            options.refused_job("ioengine=null needs a size; without one fio does nothing", "set size=")
        })?;
        return Ok(Place::Named(vec![format!("null:{}", Bytes(size))]));
    }
    let folder = options.text("directory")?;
    if folder.is_some_and(|folder| folder.contains(':')) {
        return Err(options.refuse(
            "directory",
            "only one directory per job is supported",
            "use one job per directory",
        ));
    }
    match (options.text("filename")?, size) {
        (Some(names), _) => {
            let names = split_names(names).into_iter();
            let names = names.map(|name| folder.map_or(name.clone(), |folder| format!("{folder}/{name}")));
            Ok(Place::Named(names.collect()))
        }
        (None, Some(bytes)) => {
            // fio's own format has the number of the thread in it.
            let shared = options.text("filename_format")?.is_some_and(|format| !format.contains("$jobnum"));
            Ok(Place::Scratch { folder: folder.unwrap_or(".").into(), bytes, shared })
        }
        (None, None) => Err(options.refused_job(
            "it has neither filename nor size",
            "name a target with filename=, or set the size of a scratch file with size=",
        )),
    }
}

/// Names separated by colons; `\:` is a colon within a name.
fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, names.last_mut()) {
            ('\\', Some(name)) if characters.next_if_eq(&':').is_some() => name.push(':'),
            (':', _) => names.push(String::new()),
            (other, Some(name)) => name.push(other),
            (_, None) => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// When the job ends: after its bytes or its time, whichever comes first, as in fio.
pub(super) fn end(
    options: &Options<'_>,
    size: Option<Size>,
    workload: &Workload,
    notes: &mut Vec<String>,
) -> Result<(Amount, Option<Duration>)> {
    let runtime = options.time_us("runtime", SECOND_US)?.map(Duration::from_micros);
    // With filesize, fio's size is only the number of bytes after which the job ends.
    let size = own_size(options)?.or(size).and_then(Size::bytes);
    let mut amount = match options.number_or_none("io_size")?.or(size) {
        Some(bytes) => Amount::Bytes(bytes),
        None => Amount::Targets,
    };
    if let Some(loops) = options.number("loops")?.filter(|loops| *loops > 1) {
        let Amount::Bytes(bytes) = amount else {
            return Err(options.refuse("loops", "the job has no size to repeat", "use size= or io_size="));
        };
        amount = Amount::Bytes(bytes.saturating_mul(loops));
        notes.push(format!("loops={loops} is one run of as many bytes; fio starts each loop at offset 0"));
    }
    if let Some(requests) = options.number_or_none("number_ios")? {
        let Some(block_bytes) = workload.block_sizes.single() else {
            let cause = "the number of bytes depends on the block sizes drawn";
            return Err(options.refuse("number_ios", cause, "use one block size, or io_size"));
        };
        let bytes = requests.saturating_mul(block_bytes.into());
        amount = match amount {
            Amount::Bytes(limit) => Amount::Bytes(bytes.min(limit)),
            _ => Amount::Bytes(bytes),
        };
    }
    match (options.flag("time_based")?, runtime) {
        (Some(true), Some(_)) => Ok((Amount::Unlimited, runtime)),
        (Some(true), None) => {
            notes.push("time_based has no effect without runtime, as in fio".into());
            Ok((amount, None))
        }
        _ => Ok((amount, runtime)),
    }
}

pub(super) fn placement(options: &Options<'_>, threads: usize, notes: &mut Vec<String>) -> Result<Placement> {
    let cpus = |text: &str| text.parse::<CpuList>().map_err(|error| error.cause().to_owned());
    let allowed = options.parsed("cpus_allowed", cpus)?;
    let is_split = match options.text("cpus_allowed_policy")? {
        None | Some("shared") => false,
        Some("split") => true,
        Some(_) => {
            return Err(options.refuse("cpus_allowed_policy", "expected shared or split", "use one of them"));
        }
    };
    if !is_split && allowed.as_ref().is_some_and(|cpus| cpus.cpus().len() > 1) {
        let pinned = if threads == 1 {
            "the thread is pinned to the first CPU"
        } else {
            "threads are pinned to the CPUs in turn"
        };
        notes.push(format!("{pinned}; fio lets each thread run on any of them"));
    }
    let polls = options.flag("sqthread_poll")? == Some(true);
    let sqpoll_cpus = options.parsed("sqthread_poll_cpu", cpus)?.filter(|_| polls);
    Ok(Placement { cpus: allowed, sqpoll_cpus })
}
