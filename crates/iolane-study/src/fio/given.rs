//! The options that hold for one job: those of its section over those of the `[global]` sections before it, by fio's
//! names. `translate` asks it for values; which options there are, and why others are refused, stands here.

use std::collections::BTreeMap;

use iolane::{Error, Result};

use super::job_file::{Entry, JobFile, Section};
use super::numbers::{KbBase, time_us};
use crate::workload::Access;

/// The options that are known, each with its other names.
const KNOWN: &[(&str, &[&str])] = &[
    ("bs", &["blocksize"]),
    ("bsrange", &["blocksize_range"]),
    ("bssplit", &[]),
    ("buffered", &[]),
    ("cmd_type", &[]),
    ("cpus_allowed", &[]),
    ("cpus_allowed_policy", &[]),
    ("description", &[]),
    ("direct", &[]),
    ("directory", &[]),
    ("filename", &[]),
    ("fixedbufs", &[]),
    ("fsync", &[]),
    ("group_reporting", &[]),
    ("hipri", &[]),
    ("io_size", &["io_limit"]),
    ("iodepth", &[]),
    ("iodepth_batch", &["iodepth_batch_submit"]),
    ("iodepth_batch_complete_min", &["iodepth_batch_complete"]),
    ("ioengine", &[]),
    ("kb_base", &[]),
    ("name", &[]),
    ("nonvectored", &[]),
    ("norandommap", &[]),
    ("numjobs", &[]),
    ("ramp_time", &[]),
    ("random_distribution", &[]),
    ("randseed", &[]),
    ("rate_iops", &[]),
    ("registerfiles", &[]),
    ("runtime", &["timeout"]),
    ("rw", &["readwrite"]),
    ("rwmixread", &[]),
    ("rwmixwrite", &[]),
    ("size", &[]),
    ("sqthread_poll", &[]),
    ("sqthread_poll_cpu", &[]),
    ("stonewall", &["wait_for_previous"]),
    ("thinktime", &[]),
    ("thread", &[]),
    ("time_based", &[]),
    ("verify", &[]),
];

/// Options often met that cannot be had: what fio does for each, and what to do.
const REFUSED: &[(&str, &str, &str)] = &[
    ("fdatasync", "fio would make data durable without its metadata", "use fsync"),
    ("filesize", "fio would make files of that size", "use size"),
    ("iodepth_batch_complete_max", "fio would take so many completions at once at most", "leave it out"),
    (
        "iodepth_low",
        "fio would let the queue run down to that before it fills it again",
        "leave it out, or use iodepth_batch",
    ),
    ("loops", "fio would do it all so often", "use time_based and runtime, or a larger io_size"),
    ("nrfiles", "fio would spread the job over so many files", "give each file a section of its own"),
    ("number_ios", "fio would end after so many requests", "use io_size"),
    ("offset", "fio would begin there; a run uses a target from its start", "leave it out, or name a partition"),
    ("offset_increment", "fio would begin elsewhere with each thread", "leave it out"),
    ("rate", "fio would limit bytes per second", "use rate_iops, which is requests per second"),
    ("startdelay", "fio would begin later", "use stonewall to run jobs one after the other"),
    ("thinktime_blocks", "fio would think after so many requests instead of each", "leave it out"),
    ("thinktime_spin", "fio would spend part of the think time busy", "leave it out"),
    ("zonemode", "fio would go zone by zone", "leave it out"),
];

/// What to do about an option of which nothing is known.
const UNKNOWN_REMEDY: &str = "leave it out if the figures do not hang on it; docs/fio-job-files.md lists what is known";

/// The options that hold for a job.
pub(super) struct Given<'a> {
    file: &'a str,
    section: &'a Section,
    /// By name: which of all it was, in the order they stand, and the entry. Where there are several, the last.
    entries: BTreeMap<&'static str, (usize, &'a Entry)>,
    pub(super) kb_base: KbBase,
}

impl<'a> Given<'a> {
    /// Those of the job whose section is the `index`th of the file.
    ///
    /// # Errors
    /// `Usage` naming an option that is not known.
    pub(super) fn of_job(file: &'a JobFile, index: usize) -> Result<Self> {
        let section = &file.sections[index];
        let globals = file.sections[..index].iter().filter(|section| section.is_global());
        let mut given = Self { file: &file.name, section, entries: BTreeMap::new(), kb_base: KbBase::Compatible };
        for (order, entry) in globals.chain([section]).flat_map(|section| &section.entries).enumerate() {
            given.entries.insert(given.name_of(entry)?, (order, entry));
        }
        // Before any number, as in fio.
        given.kb_base = given.parsed("kb_base", parse_kb_base)?.unwrap_or(KbBase::Compatible);
        Ok(given)
    }

    /// The one name of an option.
    fn name_of(&self, entry: &Entry) -> Result<&'static str> {
        let is_it = |(name, others): &&(&'static str, &[&str])| *name == entry.key || others.contains(&&*entry.key);
        if let Some((name, _)) = KNOWN.iter().find(is_it) {
            return Ok(name);
        }
        Err(match REFUSED.iter().find(|(name, ..)| *name == entry.key) {
            Some((_, meaning, remedy)) => self.refused(entry, meaning, remedy),
            None => self.refused(entry, "no option of that name is known here", UNKNOWN_REMEDY),
        })
    }

    /// The name of the job.
    pub(super) fn job_name(&self) -> Result<String> {
        Ok(self.text("name")?.unwrap_or(&self.section.name).to_owned())
    }

    /// An error of the job as a whole.
    pub(super) fn refused_job(&self, cause: impl Into<String>, remedy: &str) -> Error {
        self.in_job(Error::usage("", cause).remedy(remedy))
    }

    /// An error that something else found out about the job, with its place in the file.
    pub(super) fn in_job(&self, error: Error) -> Error {
        let what = match error.what() {
            "" => String::new(),
            what => format!(": {what}"),
        };
        let what = format!("{} line {}: job [{}]{what}", self.file, self.section.line, self.section.name);
        Error::usage(what, error.cause()).with_kind(error.kind()).remedy(error.remedy_text())
    }

    /// An error of an option that was given; of the job, if it was not.
    pub(super) fn refuse(&self, option: &str, cause: &str, remedy: &str) -> Error {
        match self.entries.get(option) {
            Some((_, entry)) => self.refused(entry, cause, remedy),
            None => self.refused_job(cause, remedy),
        }
    }

    fn refused(&self, entry: &Entry, cause: &str, remedy: &str) -> Error {
        let written = match &entry.value {
            Some(value) => format!("{}={value}", entry.key),
            None => entry.key.clone(),
        };
        Error::usage(format!("{} line {}", self.file, entry.line), format!("`{written}`: {cause}")).remedy(remedy)
    }

    /// Whether an option is given at all.
    pub(super) fn has(&self, option: &str) -> bool {
        self.entries.contains_key(option)
    }

    /// The one of two that stands last.
    pub(super) fn last_of(&self, one: &'static str, other: &'static str) -> &'static str {
        let order = |option: &str| self.entries.get(option).map(|(order, _)| order);
        if order(one) > order(other) { one } else { other }
    }

    /// An option's value.
    pub(super) fn text(&self, option: &str) -> Result<Option<&'a str>> {
        let Some((_, entry)) = self.entries.get(option) else { return Ok(None) };
        match entry.value.as_deref() {
            None | Some("") => Err(self.refused(entry, "it needs a value", "write it like bs=4k")),
            value => Ok(value),
        }
    }

    /// An option's value, as `parse` understands it; its errors are sentences about the value.
    pub(super) fn parsed<T>(&self, option: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
        let Some(text) = self.text(option)? else { return Ok(None) };
        parse(text).map(Some).map_err(|cause| self.refuse(option, &cause, "see fio(1) for how it is written"))
    }

    /// Whether an option is on: given alone, or as 1.
    pub(super) fn flag(&self, option: &str) -> Result<Option<bool>> {
        let Some((_, entry)) = self.entries.get(option) else { return Ok(None) };
        match entry.value.as_deref() {
            None | Some("1") => Ok(Some(true)),
            Some("0") => Ok(Some(false)),
            Some(_) => Err(self.refused(entry, "it is either on or off", "write 1 or 0")),
        }
    }

    /// A number, with a unit of bytes or none.
    pub(super) fn number(&self, option: &str) -> Result<Option<u64>> {
        self.parsed(option, |text| self.kb_base.number(text))
    }

    /// A number above 0; for many options 0 is fio's word for none.
    pub(super) fn number_or_none(&self, option: &str) -> Result<Option<u64>> {
        Ok(self.number(option)?.filter(|number| *number > 0))
    }

    /// A number within bounds, which fits 32 bits.
    pub(super) fn count(&self, option: &str, default: u32, most: u32) -> Result<u32> {
        let count = |text: &str| match self.kb_base.number(text)?.try_into() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(format!("it is not between 1 and {most}")),
        };
        Ok(self.parsed(option, count)?.unwrap_or(default))
    }

    /// A number above 0 that fits 32 bits; fio's 0 is none.
    pub(super) fn count_or_none(&self, option: &str) -> Result<Option<u32>> {
        let count = |text: &str| match self.kb_base.number(text)?.try_into() {
            Ok(count) => Ok(count),
            Err(_) => Err(format!("it is not between 0 and {}", u32::MAX)),
        };
        Ok(self.parsed(option, count)?.filter(|count| *count > 0))
    }

    /// A time in microseconds above 0; fio's 0 is none.
    pub(super) fn time_us(&self, option: &str, bare_us: u64) -> Result<Option<u64>> {
        Ok(self.parsed(option, |text| time_us(text, bare_us))?.filter(|time_us| *time_us > 0))
    }

    /// The part of a value with commas (reads, writes, trims) that holds for an access.
    pub(super) fn part_for(&self, option: &str, access: Access) -> Result<Option<&'a str>> {
        let Some(text) = self.text(option)? else { return Ok(None) };
        let (reads, writes) = match text.split_once(',') {
            None => (text, text),
            Some((reads, rest)) => (reads, rest.split(',').next().unwrap_or(rest)),
        };
        if access.is_mixed() && reads != writes {
            let cause = "reads and writes have values of their own, and are of one kind here";
            return Err(self.refuse(option, cause, "make a job of the reads and a job of the writes"));
        }
        let part = if access.reads() { reads } else { writes };
        Ok(Some(part).filter(|part| !part.is_empty()))
    }
}

fn parse_kb_base(text: &str) -> Result<KbBase, String> {
    match text {
        "1024" => Ok(KbBase::Compatible),
        "1000" => Ok(KbBase::Si),
        _ => Err("it is either 1024 or 1000".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_one_entry_whatever_its_names() {
        let mut names: Vec<&str> =
            KNOWN.iter().flat_map(|(name, others)| others.iter().chain([name])).copied().collect();
        names.extend(REFUSED.iter().map(|(name, ..)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
