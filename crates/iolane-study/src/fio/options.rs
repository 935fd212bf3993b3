//! The options of one job by fio's names: those of its section, over those of the `[global]` sections before it. Lists the
//! supported options and the reasons for refusing others; `translate` reads the values.

use std::collections::BTreeMap;

use iolane::{Error, Result, did_you_mean};

use super::job_file::{Entry, JobFile, Section};
use super::numbers::{KbBase, time_us};
use super::wording::in_words_of_fio;
use iolane_measure::workload::Access;

pub(super) const SECOND_US: u64 = 1_000_000;

/// Supported options, with their aliases.
const SUPPORTED: &[(&str, &[&str])] = &[
    ("blockalign", &["ba"]),
    ("bs", &["blocksize"]),
    ("bsrange", &["blocksize_range"]),
    ("bssplit", &[]),
    ("buffer_compress_percentage", &[]),
    ("buffered", &[]),
    ("cmd_type", &[]),
    ("cpus_allowed", &[]),
    ("cpus_allowed_policy", &[]),
    ("dedupe_mode", &[]),
    ("dedupe_percentage", &[]),
    ("dedupe_working_set_percentage", &[]),
    ("description", &[]),
    ("direct", &[]),
    ("directory", &[]),
    ("do_verify", &[]),
    ("end_fsync", &[]),
    ("exit_what", &[]),
    ("exitall", &[]),
    ("fdatasync", &[]),
    ("filename", &[]),
    ("filename_format", &[]),
    ("fill_device", &["fill_fs"]),
    ("filesize", &[]),
    ("fixedbufs", &[]),
    ("fsync", &[]),
    ("fsync_on_close", &[]),
    ("group_reporting", &[]),
    ("hipri", &[]),
    ("io_size", &["io_limit"]),
    ("iodepth", &[]),
    ("iodepth_batch", &["iodepth_batch_submit"]),
    ("iodepth_batch_complete_max", &[]),
    ("iodepth_batch_complete_min", &["iodepth_batch_complete"]),
    ("io_submit_mode", &[]),
    ("ioengine", &[]),
    ("kb_base", &[]),
    ("loops", &[]),
    ("name", &[]),
    ("new_group", &[]),
    ("nonvectored", &[]),
    ("norandommap", &[]),
    ("nrfiles", &[]),
    ("number_ios", &[]),
    ("numjobs", &[]),
    ("offset", &["fileoffset"]),
    ("ramp_time", &[]),
    ("random_distribution", &[]),
    ("random_sequence_stride", &[]),
    ("randseed", &[]),
    ("rate", &[]),
    ("rate_iops", &[]),
    ("rate_process", &[]),
    ("registerfiles", &[]),
    ("runtime", &["timeout"]),
    ("rw", &["readwrite"]),
    ("rwmixread", &[]),
    ("rwmixwrite", &[]),
    ("size", &[]),
    ("sqthread_poll", &[]),
    ("sqthread_poll_cpu", &[]),
    ("startdelay", &[]),
    ("stonewall", &["wait_for_previous"]),
    ("sync", &[]),
    ("thinktime", &[]),
    ("thread", &["threads"]),
    ("time_based", &[]),
    ("verify", &[]),
    ("verify_pattern", &[]),
    ("wait_for", &[]),
    ("zero_buffers", &[]),
    ("zonemode", &[]),
    ("zonerange", &[]),
    ("zonesize", &[]),
    ("zoneskip", &[]),
];

/// Common options that are not supported: fio's default, which is accepted, what fio does otherwise, and the remedy.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("atomic", "0", "fio would write with RWF_ATOMIC", "leave it out"),
    ("cmdprio", "0", "fio would give some requests another priority", "leave it out"),
    ("cmdprio_bssplit", "", "fio would give some requests another priority", "leave it out"),
    ("cmdprio_class", "0", "fio would give some requests another priority", "leave it out"),
    ("cmdprio_percentage", "0", "fio would give some requests another priority", "leave it out"),
    ("buffer_pattern", "", "fio would write that content, which a drive may compress", "leave it out"),
    ("fadvise_hint", "0", "fio would tell the kernel how it is going to read", "leave it out, or use direct=1"),
    ("file_append", "0", "fio would write after the end of the file", "leave it out"),
    ("file_service_type", "roundrobin", "fio would choose among several files in that way", "leave it out"),
    ("flow", "0", "fio would keep jobs in that proportion", "use one job with rwmixread"),
    ("hugepage-size", "", "fio would use pages of that size", "use --huge-pages, which are 2 MiB"),
    ("ioscheduler", "", "fio would change the scheduler of the device", "set it in /sys/block/DEVICE/queue/scheduler"),
    ("latency_target", "0", "fio would search for the depth that keeps the latency", "use iolane run --rate-until"),
    ("lockfile", "none", "fio would lock the file for each request", "leave it out"),
    ("mem", "malloc", "fio would take its buffers from there", "leave it out, or use --huge-pages for mem=mmaphuge"),
    ("nice", "0", "fio would run at another priority", "start iolane with nice(1)"),
    ("numa_cpu_nodes", "", "fio would run on the CPUs of those nodes", "use cpus_allowed"),
    ("numa_mem_policy", "default", "fio would place its memory on those nodes", "start iolane with numactl(8)"),
    ("percentage_random", "100", "fio would make only that part of the accesses random", "use one job for each"),
    ("pre_read", "0", "fio would read the file into the page cache first", "leave it out"),
    ("prio", "0", "fio would run at another I/O priority", "start iolane with ionice(1)"),
    ("prioclass", "0", "fio would run at another I/O priority", "start iolane with ionice(1)"),
    ("rw_sequencer", "sequential", "fio would change the order of offsets", "leave it out"),
    ("trim_percentage", "0", "fio would discard blocks that it wrote", "leave it out"),
    ("verify_backlog", "0", "fio would read blocks back after that many writes", "leave it out"),
    ("verify_only", "0", "fio would only check what an earlier job wrote", "use rw=read or rw=randread with verify"),
    ("verify_state_load", "0", "fio would check what an earlier job wrote", "use rw=read or rw=randread with verify"),
    (
        "iodepth_low",
        "0",
        "fio would let the queue drain to that depth before refilling it",
        "leave it out, or use iodepth_batch",
    ),
    ("offset_increment", "0", "fio would start each thread at another offset", "leave it out"),
    ("thinktime_blocks", "1", "fio would pause after that many requests instead of after each", "leave it out"),
    ("thinktime_spin", "0", "fio would busy-wait for part of the think time", "leave it out"),
];

const OUTPUT: &str = "fio's output, not the load";
const LAYOUT: &str = "how fio creates its files; iolane creates and fills scratch files itself";
const EARLY_END: &str = "when fio ends the job early; iolane runs it to its end";
const ERRORS: &str = "what fio does after an error; iolane ends the job";
const CHECK: &str = "how fio builds and schedules its own check; iolane's blocks have a header per 512 bytes";
const CONTENT: &str = "the random content that fio writes; iolane writes its own";

/// Options that are accepted and change nothing here, with what they concern in fio.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("allow_file_create", LAYOUT),
    ("allrandrepeat", "fio's random seeds; iolane has one, `randseed`"),
    ("block_error_percentiles", OUTPUT),
    ("bwavgtime", OUTPUT),
    ("clat_percentiles", OUTPUT),
    ("clocksource", "fio's clock"),
    ("comm", "the name of fio's processes"),
    ("continue_on_error", ERRORS),
    ("create_fsync", LAYOUT),
    ("create_on_open", LAYOUT),
    ("create_serialize", LAYOUT),
    ("disable_bw", OUTPUT),
    ("disable_bw_measurement", OUTPUT),
    ("disable_clat", OUTPUT),
    ("disable_lat", OUTPUT),
    ("disable_slat", OUTPUT),
    ("dedupe_global", "whether jobs share the blocks that repeat; here all threads of a job do"),
    ("error_dump", ERRORS),
    ("exitall_on_error", ERRORS),
    ("experimental_verify", CHECK),
    ("fallocate", LAYOUT),
    ("gtod_cpu", "fio's clock"),
    ("gtod_reduce", "how much fio measures"),
    ("ignore_error", ERRORS),
    ("invalidate", "the page cache, which iolane does not drop"),
    ("iopsavgtime", OUTPUT),
    ("lat_percentiles", OUTPUT),
    ("log_avg_msec", OUTPUT),
    ("log_compression", OUTPUT),
    ("log_entries", OUTPUT),
    ("log_hist_coarseness", OUTPUT),
    ("log_hist_msec", OUTPUT),
    ("log_max_value", OUTPUT),
    ("log_offset", OUTPUT),
    ("log_prio", OUTPUT),
    ("log_store_compressed", OUTPUT),
    ("log_unix_epoch", OUTPUT),
    ("max_latency", EARLY_END),
    ("overwrite", LAYOUT),
    ("per_job_logs", OUTPUT),
    ("percentile_list", OUTPUT),
    ("random_generator", "how fio draws random numbers"),
    ("randrepeat", "fio's random seeds; iolane has one, `randseed`"),
    ("rate_cycle", EARLY_END),
    ("rate_iops_min", EARLY_END),
    ("rate_min", EARLY_END),
    ("ratemin", EARLY_END),
    ("refill_buffers", CONTENT),
    ("scramble_buffers", CONTENT),
    ("significant_figures", OUTPUT),
    ("slat_percentiles", OUTPUT),
    ("softrandommap", "how fio keeps its map of blocks"),
    ("ss", EARLY_END),
    ("ss_dur", EARLY_END),
    ("ss_interval", EARLY_END),
    ("ss_ramp", EARLY_END),
    ("stats", OUTPUT),
    ("steadystate", EARLY_END),
    ("steadystate_check_interval", EARLY_END),
    ("steadystate_duration", EARLY_END),
    ("steadystate_ramp_time", EARLY_END),
    ("unified_rw_reporting", OUTPUT),
    ("unit_base", OUTPUT),
    ("unlink", LAYOUT),
    ("unlink_each_loop", LAYOUT),
    ("verify_async", CHECK),
    ("verify_async_cpus", CHECK),
    ("verify_backlog_batch", CHECK),
    ("verify_dump", ERRORS),
    ("verify_fatal", ERRORS),
    ("verify_header_seed", CHECK),
    ("verify_interval", CHECK),
    ("verify_offset", CHECK),
    ("verify_pattern_interval", CHECK),
    ("verify_state_save", OUTPUT),
    ("verify_write_sequence", CHECK),
    ("verifysort", CHECK),
    ("verifysort_nr", CHECK),
    ("write_bw_log", OUTPUT),
    ("write_hist_log", OUTPUT),
    ("write_iops_log", OUTPUT),
    ("write_lat_log", OUTPUT),
];

const UNKNOWN_REMEDY: &str =
    "remove it if the results do not depend on it, or use --lenient; `iolane help fio` lists the supported options";

/// What becomes of options that are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsupported {
    Refused,
    /// They are ignored, and a note of the job names each.
    Ignored,
}

pub(super) struct Options<'a> {
    file: &'a str,
    section: &'a Section,
    /// The last entry of each option, with its position among all entries.
    entries: BTreeMap<&'static str, (usize, &'a Entry)>,
    /// Options that change nothing here, with what they concern.
    without_effect: Vec<(&'static str, &'static str)>,
    /// A note on each option that is not supported, if they are ignored.
    ignored: Vec<String>,
    /// An error for each, if they are refused.
    pub(super) refused: Vec<Error>,
    pub(super) kb_base: KbBase,
}

/// What is done with an option of a job file.
enum Meaning {
    /// Its canonical name.
    Supported(&'static str),
    /// Its name, and what it concerns in fio.
    WithoutEffect(&'static str, &'static str),
    /// It has fio's default value, which is what iolane does.
    Default,
    /// What fio does, and the remedy.
    Unsupported(&'static str, String),
}

impl<'a> Options<'a> {
    /// The options of the job in section `index` of the file.
    ///
    /// # Errors
    /// `Usage` for an invalid `kb_base`, without which no number can be read.
    pub(super) fn of_job(file: &'a JobFile, index: usize, unsupported: Unsupported) -> Result<Self> {
        let section = &file.sections[index];
        let globals = file.sections[..index].iter().filter(|section| section.is_global());
        let mut options = Self {
            file: &file.name,
            section,
            entries: BTreeMap::new(),
            without_effect: Vec::new(),
            ignored: Vec::new(),
            refused: Vec::new(),
            kb_base: KbBase::Compatible,
        };
        for (order, entry) in globals.chain([section]).flat_map(|section| &section.entries).enumerate() {
            match Self::meaning(entry) {
                Meaning::Supported(name) => {
                    options.entries.insert(name, (order, entry));
                }
                Meaning::WithoutEffect(name, concerns) => {
                    if options.without_effect.iter().all(|(known, _)| *known != name) {
                        options.without_effect.push((name, concerns));
                    }
                }
                Meaning::Default => {}
                Meaning::Unsupported(cause, remedy) => match unsupported {
                    Unsupported::Refused => {
                        let error = options.error_at(entry, cause, &remedy);
                        options.refused.push(error);
                    }
                    Unsupported::Ignored => options.ignored.push(note_on_ignored(entry, cause)),
                },
            }
        }
        // kb_base applies to all numbers of the job wherever it is set, as in fio.
        let kb_base = options.parsed("kb_base", parse_kb_base)?;
        options.kb_base = kb_base.unwrap_or(KbBase::Compatible);
        Ok(options)
    }

    fn meaning(entry: &Entry) -> Meaning {
        let is_it = |(name, others): &&(&'static str, &[&str])| *name == entry.key || others.contains(&&*entry.key);
        if let Some((name, _)) = SUPPORTED.iter().find(is_it) {
            return Meaning::Supported(name);
        }
        if let Some((name, concerns)) = WITHOUT_EFFECT.iter().find(|(name, _)| *name == entry.key) {
            return Meaning::WithoutEffect(name, concerns);
        }
        match REFUSED.iter().find(|(name, ..)| *name == entry.key) {
            Some((_, default, ..)) if entry.value.as_deref() == Some(*default) => Meaning::Default,
            Some((_, _, meaning, remedy)) => {
                Meaning::Unsupported(meaning, format!("{remedy}; or use --lenient to ignore it"))
            }
            None => {
                let meant = did_you_mean(&entry.key, Self::known());
                Meaning::Unsupported("this option is not supported", format!("{meant}{UNKNOWN_REMEDY}"))
            }
        }
    }

    /// The names of all options that have a meaning here.
    fn known() -> impl Iterator<Item = &'static str> {
        let supported = SUPPORTED.iter().flat_map(|(name, others)| others.iter().chain([name]));
        let refused = REFUSED.iter().map(|(name, ..)| name);
        supported.chain(refused).chain(WITHOUT_EFFECT.iter().map(|(name, _)| name)).copied()
    }

    /// A note for each thing that options without effect concern: `` `percentile_list`, `unlink` have no effect: ... ``.
    pub(super) fn notes_on_no_effect(&self) -> Vec<String> {
        let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
        for (name, concerns) in &self.without_effect {
            let name = format!("`{name}`");
            match notes.iter_mut().find(|(known, _)| known == concerns) {
                Some((_, names)) => names.push(name),
                None => notes.push((concerns, vec![name])),
            }
        }
        let note = |(concerns, names): (&str, Vec<String>)| {
            let verb = if names.len() == 1 { "has" } else { "have" };
            format!("{} {verb} no effect: {concerns}", names.join(", "))
        };
        notes.into_iter().map(note).collect()
    }

    /// A note on each option that was ignored: `` ignored: `flow=2` (line 12): this option is not supported ``.
    pub(super) fn notes_on_ignored(&self) -> &[String] {
        &self.ignored
    }

    pub(super) fn job_name(&self) -> Result<String> {
        Ok(self.text("name")?.unwrap_or(&self.section.name).to_owned())
    }

    /// An error about the job as a whole.
    pub(super) fn refused_job(&self, cause: impl Into<String>, remedy: &str) -> Error {
        self.in_job(Error::usage("", cause).remedy(remedy))
    }

    /// An error from elsewhere, with the line of the job added.
    pub(super) fn in_job(&self, error: Error) -> Error {
        let error = in_words_of_fio(&error);
        let what = match error.what() {
            "" => String::new(),
            what => format!(": {what}"),
        };
        Error::usage(format!("{}{what}", self.place()), error.cause())
            .with_kind(error.kind())
            .remedy(error.remedy_text())
    }

    /// Whether an error is about the job as a whole, and may disappear with an option that is spelt right.
    pub(super) fn is_about_job(&self, error: &Error) -> bool {
        error.what().starts_with(&self.place())
    }

    /// The job, by its line.
    fn place(&self) -> String {
        format!("{} line {}: job [{}]", self.file, self.section.line, self.section.name)
    }

    /// An error about an option, or about the job if the option is not set.
    pub(super) fn refuse(&self, option: &str, cause: &str, remedy: &str) -> Error {
        match self.entries.get(option) {
            Some((_, entry)) => self.error_at(entry, cause, remedy),
            None => self.refused_job(cause, remedy),
        }
    }

    fn error_at(&self, entry: &Entry, cause: &str, remedy: &str) -> Error {
        let file = entry.included.as_deref().unwrap_or(self.file);
        Error::usage(format!("{file} line {}", entry.line), format!("`{}`: {cause}", written(entry))).remedy(remedy)
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.entries.contains_key(option)
    }

    /// The option of the two that is set last.
    pub(super) fn last_of(&self, one: &'static str, other: &'static str) -> &'static str {
        let order = |option: &str| self.entries.get(option).map(|(order, _)| order);
        if order(one) > order(other) { one } else { other }
    }

    pub(super) fn text(&self, option: &str) -> Result<Option<&'a str>> {
        let Some((_, entry)) = self.entries.get(option) else { return Ok(None) };
        match entry.value.as_deref() {
            None | Some("") => Err(self.error_at(entry, "it needs a value", "write, for example, bs=4k")),
            value => Ok(value),
        }
    }

    /// The parsed value of an option; `parse` returns an error about the value.
    pub(super) fn parsed<T>(&self, option: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
        let Some(text) = self.text(option)? else { return Ok(None) };
        parse(text).map(Some).map_err(|cause| self.refuse(option, &cause, "see fio(1) for the format"))
    }

    /// A switch: on without a value or with 1.
    pub(super) fn flag(&self, option: &str) -> Result<Option<bool>> {
        let Some((_, entry)) = self.entries.get(option) else { return Ok(None) };
        match entry.value.as_deref() {
            None | Some("1") => Ok(Some(true)),
            Some("0") => Ok(Some(false)),
            Some(_) => Err(self.error_at(entry, "expected 0 or 1", "write 0 or 1")),
        }
    }

    /// A number, optionally with a unit of bytes.
    pub(super) fn number(&self, option: &str) -> Result<Option<u64>> {
        self.parsed(option, |text| self.kb_base.number(text))
    }

    /// A number above 0; for many options of fio 0 means none.
    pub(super) fn number_or_none(&self, option: &str) -> Result<Option<u64>> {
        Ok(self.number(option)?.filter(|number| *number > 0))
    }

    /// A number from 1 to `most`.
    pub(super) fn count(&self, option: &str, default: u32, most: u32) -> Result<u32> {
        let count = |text: &str| match self.kb_base.number(text)?.try_into() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(format!("it is not between 1 and {most}")),
        };
        Ok(self.parsed(option, count)?.unwrap_or(default))
    }

    /// A 32-bit number above 0; 0 means none.
    pub(super) fn count_or_none(&self, option: &str) -> Result<Option<u32>> {
        let count = |text: &str| match self.kb_base.number(text)?.try_into() {
            Ok(count) => Ok(count),
            Err(_) => Err(format!("it is not between 0 and {}", u32::MAX)),
        };
        Ok(self.parsed(option, count)?.filter(|count| *count > 0))
    }

    /// A percentage: a whole number up to 100.
    pub(super) fn percent(&self, option: &str) -> Result<Option<u8>> {
        let percent = |text: &str| match self.kb_base.number(text)? {
            percent @ 0..=100 => Ok(percent as u8),
            _ => Err("a percentage cannot exceed 100".into()),
        };
        self.parsed(option, percent)
    }

    /// A time above 0 in microseconds; 0 means none. `bare_us` is the unit of a number without one.
    pub(super) fn time_us(&self, option: &str, bare_us: u64) -> Result<Option<u64>> {
        Ok(self.parsed(option, |text| time_us(text, bare_us))?.filter(|time_us| *time_us > 0))
    }

    /// The part of a comma-separated value (reads, writes, trims) that applies to an access.
    pub(super) fn part_for(&self, option: &str, access: Access) -> Result<Option<&'a str>> {
        let Some(text) = self.text(option)? else { return Ok(None) };
        let (reads, writes) = match text.split_once(',') {
            None => (text, text),
            Some((reads, rest)) => (reads, rest.split(',').next().unwrap_or(rest)),
        };
        if access.is_mixed() && reads != writes {
            let cause = "different values for reads and writes are not supported";
            return Err(self.refuse(option, cause, "use one job for the reads and one for the writes"));
        }
        let part = if access.reads() { reads } else { writes };
        Ok(Some(part).filter(|part| !part.is_empty()))
    }
}

fn written(entry: &Entry) -> String {
    match &entry.value {
        Some(value) => format!("{}={value}", entry.key),
        None => entry.key.clone(),
    }
}

fn note_on_ignored(entry: &Entry, cause: &str) -> String {
    let file = entry.included.as_deref().map_or_else(String::new, |file| format!("{file} "));
    format!("ignored: `{}` ({file}line {}): {cause}", written(entry), entry.line)
}

fn parse_kb_base(text: &str) -> Result<KbBase, String> {
    match text {
        "1024" => Ok(KbBase::Compatible),
        "1000" => Ok(KbBase::Si),
        _ => Err("expected 1024 or 1000".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_and_alias_is_listed_once() {
        let mut names: Vec<&str> = Options::known().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
