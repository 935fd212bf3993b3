//! Makes jobs that can be run of a job file's sections: fio's options as a path, a workload, threads and targets.
//! What cannot be had is refused by its line; what differs from fio is said in the job's notes. Opens no target.

use std::path::PathBuf;
use std::time::Duration;

use iolane::units::{Bytes, CpuList};
use iolane::{IoPath, Pages, Result, Target};

use super::given::Given;
use super::job_file::{JobFile, Section};
use crate::placement::Placement;
use crate::run::RunPlan;
use crate::workload::{Access, BlockSizes, OffsetPattern, Workload};

/// One job of a file: what to run, on what and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its section's name, or what `name=` says.
    pub name: String,
    /// The path that fio's engine takes.
    pub path: IoPath,
    /// What to ask for; how much of the target is used and when a thread has done enough, [`plan`](Self::plan) adds.
    pub workload: Workload,
    /// Threads, a queue each (`numjobs`).
    pub threads: usize,
    /// What is read and written.
    pub place: Place,
    /// fio's `size`: bytes of all its targets together that are used; all there are if `None`.
    pub size: Option<u64>,
    /// What each thread moves at most.
    pub amount: Amount,
    /// When it ends at the latest; only once its amount is done if `None`.
    pub runtime: Option<Duration>,
    /// Load before it that is not measured (`ramp_time`).
    pub warmup: Duration,
    /// Whether the page cache is passed by.
    pub direct: bool,
    /// Where threads run.
    pub placement: Placement,
    /// Whether it waits until the jobs before it have ended.
    pub stonewall: bool,
    /// What is not as fio would have it, a sentence each.
    pub notes: Vec<String>,
}

/// What a job reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Targets that are there, by name (`filename`).
    Named(Vec<String>),
    /// A scratch file for each thread, of so many bytes.
    Scratch {
        /// Where (`directory`).
        folder: PathBuf,
        /// How large (`size`).
        bytes: u64,
    },
}

/// What a thread moves at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Whatever it can in its time.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
    /// As many bytes as are used of all its targets together.
    Targets,
}

impl Job {
    /// The plan of the job on targets that were opened for it, which hold what they hold.
    pub fn plan(&self, targets: Vec<Target>) -> RunPlan {
        let mut workload = self.workload.clone();
        if let Place::Named(_) = self.place {
            workload.size = self.size.map(|size| size / targets.len().max(1) as u64);
        }
        workload.bytes_max = match self.amount {
            Amount::Unlimited => None,
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Targets => Some(targets.iter().fold(0, |sum: u64, target| sum.saturating_add(target.bytes()))),
        };
        RunPlan {
            path: self.path.clone(),
            targets,
            workload,
            threads: self.threads,
            placement: self.placement.clone(),
            runtime: self.runtime.unwrap_or(RUNTIME_MAX),
            warmup: self.warmup,
            pages: Pages::Base,
            prefilled: false,
            watched: true,
        }
    }
}

/// How long a job may take that ends with its amount alone: a year.
const RUNTIME_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The most threads that the jobs of a file may have, which is fio's limit too (`REAL_MAX_JOBS`).
const THREADS_MAX: u32 = 4096;

/// The jobs of a file, in its order.
///
/// # Errors
/// `Usage` naming the line of what is not known, not right, or cannot be had, with what it means and what to do.
pub fn jobs(file: &JobFile) -> Result<Vec<Job>> {
    let of_jobs = file.sections.iter().enumerate().filter(|(_, section)| !Section::is_global(section));
    let mut jobs = Vec::new();
    let mut threads = 0;
    for (index, _) in of_jobs {
        let given = Given::of_job(file, index)?;
        let job = job(&given)?;
        threads += job.threads;
        if threads > THREADS_MAX as usize {
            let cause = format!("the jobs have more than {THREADS_MAX} threads together");
            return Err(given.refused_job(cause, "use a smaller numjobs"));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

fn job(given: &Given<'_>) -> Result<Job> {
    let mut notes = Vec::new();
    let path = path(given, &mut notes)?;
    let threads = given.count("numjobs", 1, THREADS_MAX)? as usize;
    let workload = workload(given, &path, threads, &mut notes)?;
    let size = given.number_or_none("size")?;
    let place = place(given, &path, size)?;
    let (amount, runtime) = end(given, size, &mut notes)?;
    let direct = match given.last_of("direct", "buffered") {
        "direct" => given.flag("direct")?,
        _ => given.flag("buffered")?.map(|buffered| !buffered),
    };
    let job = Job {
        name: given.job_name()?,
        path,
        workload,
        threads,
        place,
        size,
        amount,
        runtime,
        warmup: Duration::from_micros(given.time_us("ramp_time", SECOND_US)?.unwrap_or(0)),
        direct: direct.unwrap_or(false),
        placement: placement(given, threads, &mut notes)?,
        stonewall: given.flag("stonewall")?.unwrap_or(false),
        notes,
    };
    check(given, &job)?;
    Ok(Job { notes: [job.notes.clone(), notes_on_places(given, &job)?].concat(), ..job })
}

const SECOND_US: u64 = 1_000_000;

/// fio's engines that block: each has one request in flight, whatever iodepth says.
const BLOCKING: [&str; 4] = ["psync", "sync", "pvsync", "pvsync2"];
const RINGS: [&str; 2] = ["io_uring", "io_uring_cmd"];

/// The options of engines, with the engines that have each.
const ENGINE_OPTIONS: [(&str, &[&str]); 7] = [
    ("hipri", &["pvsync2", "io_uring", "io_uring_cmd"]),
    ("sqthread_poll", &RINGS),
    ("sqthread_poll_cpu", &RINGS),
    ("fixedbufs", &RINGS),
    ("registerfiles", &RINGS),
    ("nonvectored", &RINGS),
    ("cmd_type", &["io_uring_cmd"]),
];

/// The path that an engine with its options takes.
fn path(given: &Given<'_>, notes: &mut Vec<String>) -> Result<IoPath> {
    let engine = given.text("ioengine")?.unwrap_or("psync");
    let interface = match engine {
        blocking if BLOCKING.contains(&blocking) => "psync",
        "posixaio" => "posix_aio",
        "libaio" | "io_uring" | "io_uring_cmd" | "null" => engine,
        _ => {
            let engines = "use psync, sync, pvsync, pvsync2, posixaio, libaio, io_uring, io_uring_cmd or null";
            return Err(given.refuse("ioengine", "no path here is like that engine", engines));
        }
    };
    let foreign = ENGINE_OPTIONS.iter().find(|(option, engines)| given.has(option) && !engines.contains(&engine));
    if let Some((option, engines)) = foreign {
        let cause = format!("ioengine={engine} has no such option");
        return Err(given.refuse(option, &cause, &format!("leave it out, or use ioengine={}", engines.join(" or "))));
    }
    if given.text("cmd_type")?.is_some_and(|kind| kind != "nvme") {
        return Err(given.refuse("cmd_type", "only commands of NVMe are known", "use cmd_type=nvme"));
    }
    if engine == "sync" {
        notes.push("fio's sync seeks before each request, which takes another system call; psync here does not".into());
    }
    if given.number("nonvectored")? == Some(0) {
        notes.push("fio uses vectors with nonvectored=0; requests here have none".into());
    }
    let mut path = IoPath::new(interface);
    if given.flag("hipri")? == Some(true) {
        path = path.cpoll();
    }
    path.options.fixed_buffers = given.flag("fixedbufs")?.unwrap_or(false);
    path.options.fixed_files = given.flag("registerfiles")?.unwrap_or(false);
    if given.flag("sqthread_poll")? == Some(true) {
        path = path.spoll();
        // As fio does, which always registers the file then.
        path.options.fixed_files = given.flag("registerfiles")?.unwrap_or(true);
        if !path.options.fixed_files {
            notes.push("fio registers the file all the same with sqthread_poll; it is not registered here".into());
        }
    }
    Ok(path)
}

fn parse_access(text: &str) -> Result<Access, String> {
    match text {
        trim if trim.contains("trim") => Err("discarding is no workload here".into()),
        text => text.parse().map_err(|_| "it is not read, write, randread, randwrite, rw or randrw alone".into()),
    }
}

fn workload(given: &Given<'_>, path: &IoPath, threads: usize, notes: &mut Vec<String>) -> Result<Workload> {
    let access = given.parsed("rw", parse_access)?.unwrap_or(Access::Read);
    let think_us = given.time_us("thinktime", 1)?;
    let seed = |text: &str| match given.kb_base.number(text)? {
        seed if i64::try_from(seed).is_ok() => Ok(seed),
        _ => Err("it is larger than 2^63 - 1".into()),
    };
    let mut workload = Workload {
        access,
        read_percent: read_percent(given)?.filter(|_| access.is_mixed()),
        block_sizes: block_sizes(given, access, notes)?,
        depth: depth(given, path, think_us, notes)?,
        rate: rate(given, access, threads, notes)?,
        think_us,
        fsync_every: given.count_or_none("fsync")?.filter(|_| access.writes()),
        verify: verify(given, notes)?,
        seed: given.parsed("randseed", seed)?.unwrap_or(Workload::default().seed),
        ..Workload::default()
    };
    workload.batch = batch(given, workload.depth)?;
    if access.is_random() {
        workload.offsets = given.parsed("random_distribution", parse_distribution)?.unwrap_or(OffsetPattern::UNIFORM);
        if workload.offsets == OffsetPattern::UNIFORM && given.flag("norandommap")? != Some(true) {
            notes.push(
                "offsets are drawn anew each time; without norandommap fio asks for no block again before it has asked for \
                 all"
                    .into(),
            );
        }
    }
    Ok(workload)
}

/// Of rwmixread and rwmixwrite the later one counts.
fn read_percent(given: &Given<'_>) -> Result<Option<u8>> {
    let percent = |text: &str| match given.kb_base.number(text)? {
        percent @ 0..=100 => Ok(percent as u8),
        _ => Err("a percentage is 100 at most".into()),
    };
    Ok(match given.last_of("rwmixread", "rwmixwrite") {
        "rwmixread" => given.parsed("rwmixread", percent)?,
        _ => given.parsed("rwmixwrite", percent)?.map(|percent| 100 - percent),
    })
}

/// A split wins over the rest, as in fio; of bs and bsrange the later one counts.
fn block_sizes(given: &Given<'_>, access: Access, notes: &mut Vec<String>) -> Result<BlockSizes> {
    let size = |text: &str| given.kb_base.number(text).map(|bytes| Bytes(bytes).to_string());
    let option = match given.last_of("bs", "bsrange") {
        _ if given.has("bssplit") => "bssplit",
        last => last,
    };
    let Some(text) = given.part_for(option, access)? else { return Ok(Workload::default().block_sizes) };
    let rewritten = match option {
        "bs" => size(text),
        "bsrange" => match text.split_once('-') {
            None => Err("it is not a smallest and a largest size".into()),
            Some((min, max)) => size(min).and_then(|min| Ok(format!("{min}-{}", size(max)?))),
        },
        _ => text
            .split(':')
            .map(|entry| {
                let (bytes, percent) = entry.split_once('/').unwrap_or((entry, ""));
                Ok(format!("{}/{percent}", size(bytes)?))
            })
            .collect::<Result<Vec<String>, String>>()
            .map(|entries| entries.join(":")),
    };
    let sizes = rewritten.and_then(|text| text.parse::<BlockSizes>().map_err(|error| error.cause().to_owned()));
    let sizes = sizes.map_err(|cause| given.refuse(option, &cause, "see fio(1) for how it is written"))?;
    if option == "bsrange" && sizes.single().is_none() {
        notes.push(format!("blocks are all multiples of the smallest, equally often: {sizes}"));
    }
    Ok(sizes)
}

fn depth(given: &Given<'_>, path: &IoPath, think_us: Option<u64>, notes: &mut Vec<String>) -> Result<u32> {
    let depth = given.count("iodepth", 1, u32::MAX)?;
    let reason = match (path.interface(), think_us) {
        ("psync", _) => "this engine has one request in flight",
        (_, Some(_)) => "with thinktime a thread has one request in flight",
        _ => return Ok(depth),
    };
    if depth > 1 {
        notes.push(format!("{reason}, in fio too: iodepth={depth} has no effect"));
    }
    Ok(1)
}

/// A batch here is handed over at once and waited for as a whole; fio says both by an option each.
fn batch(given: &Given<'_>, depth: u32) -> Result<Option<u32>> {
    // As fio does, which takes a batch of more than the depth for the depth.
    let submit = given.count("iodepth_batch", 1, u32::MAX)?.min(depth);
    let complete = given.count("iodepth_batch_complete_min", 1, u32::MAX)?.min(depth);
    if submit == complete {
        return Ok(Some(submit).filter(|batch| *batch > 1));
    }
    let option = if submit > complete { "iodepth_batch" } else { "iodepth_batch_complete_min" };
    let cause = "as many requests are waited for here as are handed over at once";
    Err(given.refuse(option, cause, "give iodepth_batch and iodepth_batch_complete_min the same value"))
}

/// fio's rate is each thread's.
fn rate(given: &Given<'_>, access: Access, threads: usize, notes: &mut Vec<String>) -> Result<Option<f64>> {
    let Some(text) = given.part_for("rate_iops", access)? else { return Ok(None) };
    let refuse = |cause: &str, remedy: &str| Err(given.refuse("rate_iops", cause, remedy));
    let rate = match given.kb_base.number(text) {
        Ok(0) => return Ok(None),
        Ok(rate) => rate,
        Err(cause) => return refuse(&cause, "see fio(1) for how it is written"),
    };
    if access.is_mixed() {
        let cause = "fio keeps it for the reads and for the writes, and they have one rate together here";
        return refuse(cause, "make a job of the reads and a job of the writes");
    }
    notes.push("with a rate, latency counts from the moment a request was due; fio counts from when it began".into());
    Ok(Some(rate as f64 * threads as f64))
}

fn verify(given: &Given<'_>, notes: &mut Vec<String>) -> Result<bool> {
    let Some(method) = given.text("verify")? else { return Ok(false) };
    if matches!(method, "0" | "null") {
        return Ok(false);
    }
    notes.push(format!(
        "what is written tells its place in a way of iolane's own, not fio's verify={method}; what is read is compared \
         with it at once"
    ));
    Ok(true)
}

fn parse_distribution(text: &str) -> Result<OffsetPattern, String> {
    let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
    // fio's own defaults (FIO_DEF_ZIPF and FIO_DEF_PARETO in its options.c).
    let value = match (name, value) {
        ("random", None) => return Ok(OffsetPattern::UNIFORM),
        ("zipf", value) => value.unwrap_or("1.1"),
        ("pareto", value) => value.unwrap_or("0.2"),
        _ => return Err("it is not random, zipf or pareto".into()),
    };
    let number = value.parse::<f64>().map_err(|_| format!("`{value}` is no number"))?;
    let pattern = if name == "zipf" { OffsetPattern::zipf(number) } else { OffsetPattern::pareto(number) };
    pattern.map_err(|error| error.cause().to_owned())
}

/// What the job works on.
fn place(given: &Given<'_>, path: &IoPath, size: Option<u64>) -> Result<Place> {
    if path.interface() == "null" {
        let size =
            size.ok_or_else(|| given.refused_job("there is no size, and fio would do nothing", "give it a size"))?;
        return Ok(Place::Named(vec![format!("null:{}", Bytes(size))]));
    }
    let folder = given.text("directory")?;
    if folder.is_some_and(|folder| folder.contains(':')) {
        return Err(given.refuse("directory", "one folder is known for a job", "make a job for each folder"));
    }
    match (given.text("filename")?, size) {
        (Some(names), _) => {
            let names = split_names(names).into_iter();
            let names = names.map(|name| folder.map_or(name.clone(), |folder| format!("{folder}/{name}")));
            Ok(Place::Named(names.collect()))
        }
        (None, Some(bytes)) => Ok(Place::Scratch { folder: folder.unwrap_or(".").into(), bytes }),
        (None, None) => Err(given.refused_job(
            "there is neither a filename nor a size",
            "name a target with filename=, or give the size of a scratch file with size=",
        )),
    }
}

/// Names with colons between them; one that belongs to a name has a backslash before it.
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

/// When the job ends: fio stops at whichever comes first, its bytes or, given one, its time.
fn end(given: &Given<'_>, size: Option<u64>, notes: &mut Vec<String>) -> Result<(Amount, Option<Duration>)> {
    let runtime = given.time_us("runtime", SECOND_US)?.map(Duration::from_micros);
    let amount = match given.number_or_none("io_size")?.or(size) {
        Some(bytes) => Amount::Bytes(bytes),
        None => Amount::Targets,
    };
    match (given.flag("time_based")?, runtime) {
        (Some(true), Some(_)) => Ok((Amount::Unlimited, runtime)),
        (Some(true), None) => {
            notes.push("time_based has no effect without runtime, in fio neither".into());
            Ok((amount, None))
        }
        _ => Ok((amount, runtime)),
    }
}

fn placement(given: &Given<'_>, threads: usize, notes: &mut Vec<String>) -> Result<Placement> {
    let cpus = |text: &str| text.parse::<CpuList>().map_err(|error| error.cause().to_owned());
    let allowed = given.parsed("cpus_allowed", cpus)?;
    let apart = match given.text("cpus_allowed_policy")? {
        None | Some("shared") => false,
        Some("split") => true,
        Some(_) => {
            return Err(given.refuse("cpus_allowed_policy", "it is neither shared nor split", "use one of them"));
        }
    };
    if !apart && allowed.as_ref().is_some_and(|cpus| cpus.cpus().len() > 1) {
        let whose = if threads == 1 {
            "the thread is pinned to the first of its cpus"
        } else {
            "threads are pinned to the cpus in turn"
        };
        notes.push(format!("{whose}; fio lets each run on any of them"));
    }
    let polls = given.flag("sqthread_poll")? == Some(true);
    let spoll_cpus = given.parsed("sqthread_poll_cpu", cpus)?.filter(|_| polls);
    Ok(Placement { cpus: allowed, spoll_cpus })
}

/// Checks what can be known of the job before its targets are opened.
fn check(given: &Given<'_>, job: &Job) -> Result<()> {
    let access = job.workload.access;
    let scratch = matches!(job.place, Place::Scratch { .. });
    if job.workload.verify && !access.is_mixed() && !(scratch && access.reads()) {
        let cause = match access.reads() {
            true => "nothing says what the target should hold",
            false => "fio would read everything back at the end, and what is read is compared at once here",
        };
        return Err(given.refuse("verify", cause, "use rw=rw or rw=randrw"));
    }
    if let Place::Named(names) = &job.place {
        match names.len() {
            0 => return Err(given.refuse("filename", "it names nothing", "leave it out for a scratch file")),
            count if count > job.threads => {
                let cause = format!("{count} targets need a thread each");
                let remedy = format!("use numjobs={count}, or make a job for each");
                return Err(given.refuse("filename", &cause, &remedy));
            }
            _ => {}
        }
    }
    let interface = iolane::interface_of(&job.path).and_then(|interface| interface.validate(&job.path));
    let bytes_max = if let Amount::Bytes(bytes) = job.amount { Some(bytes) } else { None };
    let workload = Workload { size: job.size, bytes_max, ..job.workload.clone() };
    interface.and_then(|()| workload.validate()).map_err(|error| given.in_job(error))
}

/// What is not as in fio because of where the job works.
fn notes_on_places(given: &Given<'_>, job: &Job) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let made_up = job.path.interface() == "null";
    if made_up && given.has("filename") {
        notes.push("a device is made up for ioengine=null; what filename names is not opened".into());
    }
    if job.threads > 1 && given.flag("group_reporting")? != Some(true) {
        notes.push("figures are of all its threads together, as with group_reporting".into());
    }
    let Place::Named(names) = &job.place else { return Ok(notes) };
    if names.len() > 1 {
        notes.push("each thread works on one target, in turn; fio's threads work on all of them".into());
    }
    if job.threads > names.len() && !job.workload.access.is_random() {
        notes.push("threads begin at different places of their target; fio's all begin at its start".into());
    }
    if !job.direct && !made_up {
        notes.push("what the page cache holds of a target is left there; fio drops it first".into());
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Vec<Job>> {
        jobs(&JobFile::parse("job.fio", text.as_bytes())?)
    }

    /// The one job of a file whose section has these lines, below a target.
    #[track_caller]
    fn one(lines: &str) -> Job {
        let text = format!("[a]\nfilename=/dev/x\ngroup_reporting\ndirect=1\nnorandommap\n{lines}");
        let mut jobs = parse(&text).unwrap();
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    #[test]
    fn a_job_that_says_little_has_the_defaults_of_fio() {
        let jobs = parse("[a]\nfilename=/dev/x\n").unwrap();
        let expected = Job {
            name: "a".into(),
            path: IoPath::new("psync"),
            workload: Workload { access: Access::Read, ..Workload::default() },
            threads: 1,
            place: Place::Named(vec!["/dev/x".into()]),
            size: None,
            amount: Amount::Targets,
            runtime: None,
            warmup: Duration::ZERO,
            direct: false,
            placement: Placement::default(),
            stonewall: false,
            notes: vec!["what the page cache holds of a target is left there; fio drops it first".into()],
        };
        assert_eq!(jobs, [expected]);
        assert_eq!((jobs[0].workload.depth, jobs[0].workload.block_sizes.single()), (1, Some(4096)));
    }

    #[test]
    fn what_is_as_in_fio_has_no_note() {
        let lines = "rw=randrw\nbs=8k\niodepth=32\nioengine=io_uring\nnumjobs=4\nruntime=5\ntime_based\nramp_time=1\n\
                     rwmixread=70\nrandseed=7\nsize=1g\nfsync=64\ncpus_allowed=0-3\ncpus_allowed_policy=split\nthread";
        let job = one(lines);
        assert_eq!(job.notes, Vec::<String>::new());
        let workload = Workload {
            access: Access::RandRw,
            block_sizes: BlockSizes::fixed(8192).unwrap(),
            depth: 32,
            read_percent: Some(70),
            seed: 7,
            fsync_every: Some(64),
            ..Workload::default()
        };
        assert_eq!((job.workload, job.threads, job.size), (workload, 4, Some(1 << 30)));
        assert_eq!(
            (job.amount, job.runtime, job.warmup),
            (Amount::Unlimited, Some(Duration::from_secs(5)), Duration::from_secs(1))
        );
        assert_eq!(job.placement.cpus, Some("0-3".parse().unwrap()));
    }

    #[test]
    fn global_sections_hold_for_what_follows_and_the_last_of_doubles_counts() {
        let text = "[global]\nfilename=x\nbs=4k\n[a]\nblocksize=8k\nbs=16k\n[global]\nbs=64k\n[b]\nwait_for_previous\nname=c\n";
        let jobs = parse(text).unwrap();
        let sizes: Vec<_> = jobs.iter().map(|job| job.workload.block_sizes.single().unwrap()).collect();
        assert_eq!(sizes, [16384, 65536]);
        assert_eq!((&*jobs[0].name, &*jobs[1].name), ("a", "c"));
        assert_eq!((jobs[0].stonewall, jobs[1].stonewall), (false, true));
    }

    #[test]
    fn engines_and_their_options_are_paths() {
        for (lines, path) in [
            ("ioengine=sync", "psync"),
            ("ioengine=pvsync", "psync"),
            ("ioengine=pvsync2\nhipri", "psync+cpoll"),
            ("ioengine=posixaio", "posix_aio"),
            ("ioengine=libaio", "libaio"),
            ("ioengine=io_uring\nnonvectored=1", "io_uring"),
            ("ioengine=io_uring\nhipri=1\nfixedbufs", "io_uring+cpoll,fixedbufs"),
            ("ioengine=io_uring\nhipri=0\nregisterfiles=1", "io_uring,fixedfiles"),
            ("ioengine=io_uring\nsqthread_poll", "io_uring+spoll,fixedfiles"),
            ("ioengine=io_uring\nsqthread_poll\nregisterfiles=0\nhipri", "io_uring+spoll+cpoll"),
            ("ioengine=io_uring_cmd\ncmd_type=nvme\nhipri", "io_uring_cmd+cpoll"),
            ("ioengine=null\nsize=1g", "null"),
        ] {
            let missing_here = path == "posix_aio" && iolane::interface_of(&IoPath::new(path)).is_err();
            if !missing_here {
                assert_eq!(one(lines).path, path.parse().unwrap(), "{lines}");
            }
        }
        let job = one("ioengine=io_uring\nsqthread_poll\nsqthread_poll_cpu=3");
        assert_eq!(job.placement.spoll_cpus, Some("3".parse().unwrap()));
        let job = one("ioengine=io_uring\nsqthread_poll=0\nsqthread_poll_cpu=3");
        assert_eq!(job.placement.spoll_cpus, None);
    }

    #[test]
    fn a_job_ends_with_its_bytes_or_its_time_whichever_fio_would_take() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (lines, end) in [
            ("", (Amount::Targets, None)),
            ("size=1m", (Amount::Bytes(1 << 20), None)),
            ("size=1m\nio_size=4m", (Amount::Bytes(4 << 20), None)),
            ("runtime=2m", (Amount::Targets, seconds(120))),
            ("size=1m\nruntime=3", (Amount::Bytes(1 << 20), seconds(3))),
            ("size=1m\nruntime=3\ntime_based=1", (Amount::Unlimited, seconds(3))),
            ("size=1m\nruntime=3\ntime_based=0", (Amount::Bytes(1 << 20), seconds(3))),
            ("size=1m\ntime_based\nruntime=0", (Amount::Bytes(1 << 20), None)),
        ] {
            let job = one(lines);
            assert_eq!((job.amount, job.runtime), end, "{lines}");
        }
    }

    #[test]
    fn bytes_end_a_thread_in_the_plan_and_a_size_is_shared_by_the_targets() {
        let target = |name: &str| Target::open(name).unwrap();
        let targets = || vec![target("null:1m"), target("null:3m")];
        let job = |lines: &str| one(&format!("ioengine=null\nsize=1m\n{lines}"));
        let plan = job("numjobs=2").plan(targets());
        assert_eq!((plan.workload.size, plan.workload.bytes_max), (Some(512 << 10), Some(1 << 20)));
        let plan = Job { amount: Amount::Targets, size: None, ..job("") }.plan(targets());
        assert_eq!((plan.workload.size, plan.workload.bytes_max, plan.runtime), (None, Some(4 << 20), RUNTIME_MAX));
        let plan = job("time_based\nruntime=1").plan(targets());
        assert_eq!((plan.workload.bytes_max, plan.runtime), (None, Duration::from_secs(1)));
    }

    #[test]
    fn names_have_colons_between_them_and_a_folder_before_each() {
        let places = |lines: &str| one(&format!("numjobs=2\n{lines}")).place;
        let named = |names: &[&str]| Place::Named(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(places("filename=/dev/a:/dev/b"), named(&["/dev/a", "/dev/b"]));
        assert_eq!(places("filename=pci\\:0000\\:00\\:04.0:b\\c"), named(&["pci:0000:00:04.0", "b\\c"]));
        assert_eq!(places("directory=/mnt\nfilename=a:/b"), named(&["/mnt/a", "/mnt//b"]));
        let jobs = parse("[a]\nsize=1m\n[b]\nsize=2m\ndirectory=/mnt").unwrap();
        let scratch = |folder: &str, bytes| Place::Scratch { folder: folder.into(), bytes };
        assert_eq!([&jobs[0].place, &jobs[1].place], [&scratch(".", 1 << 20), &scratch("/mnt", 2 << 20)]);
    }

    #[test]
    fn sizes_mixes_rates_and_patterns_are_workloads() {
        let sizes = |lines: &str| one(lines).workload.block_sizes.to_string();
        assert_eq!(sizes("rw=randread\nbs=8k,16k"), "8k");
        assert_eq!(sizes("rw=randwrite\nbs=8k,16k,32k"), "16k");
        assert_eq!(sizes("rw=randwrite\nbs=8k,"), "4k");
        assert_eq!(sizes("kb_base=1000\nbs=4096"), "4k");
        assert_eq!(sizes("bs=1m\nbssplit=4k/70:64k/30"), "4k/70:64k/30");
        assert_eq!(sizes("bssplit=4k/50:8k/:16k/"), "4k/50:8k:16k");
        assert_eq!(sizes("bs=1m\nbsrange=4k-16k"), "4k-16k");
        assert_eq!(sizes("bsrange=4k-16k\nbs=1m"), "1m");
        let percent = |lines: &str| one(&format!("rw=rw\n{lines}")).workload.read_percent();
        assert_eq!((percent("rwmixread=70\nrwmixwrite=40"), percent("rwmixwrite=40\nrwmixread=70")), (60, 70));
        assert_eq!(one("rwmixread=70").workload.read_percent, None);
        assert_eq!(one("rate_iops=500\nnumjobs=4").workload.rate, Some(2000.0));
        assert_eq!(one("rw=randread\nrandom_distribution=zipf").workload.offsets.to_string(), "zipf:1.1");
        assert_eq!(one("rw=read\nrandom_distribution=zipf:1.2").workload.offsets, OffsetPattern::UNIFORM);
        let batched = "ioengine=libaio\niodepth=16\niodepth_batch_submit=8\niodepth_batch_complete=8";
        assert_eq!(one(batched).workload.batch, Some(8));
    }

    #[test]
    fn what_differs_from_fio_is_noted() {
        for (lines, part) in [
            ("rw=randread\nnorandommap=0", "without norandommap fio asks for no block again"),
            ("iodepth=8", "one request in flight, in fio too: iodepth=8"),
            ("ioengine=libaio\niodepth=8\nthinktime=5ms", "with thinktime a thread has one request in flight"),
            ("numjobs=2", "fio's all begin at its start"),
            ("numjobs=2\nfilename=a:b", "each thread works on one target"),
            ("numjobs=2\nrw=randread\ngroup_reporting=0", "all its threads together"),
            ("direct=0", "page cache"),
            ("rate_iops=10", "latency counts from the moment"),
            ("rw=randrw\nverify=crc32c", "not fio's verify=crc32c"),
            ("cpus_allowed=0-1", "pinned to the first"),
            ("time_based", "no effect without runtime"),
            ("bsrange=4k-8k", "multiples of the smallest, equally often: 4k-8k"),
            ("ioengine=io_uring\nsqthread_poll\nregisterfiles=0", "fio registers the file all the same"),
            ("ioengine=io_uring\nnonvectored=0", "requests here have none"),
            ("ioengine=null\nsize=1m", "not opened"),
        ] {
            let notes = one(lines).notes;
            assert!(notes.len() == 1 && notes[0].contains(part), "{lines}: {notes:?}");
        }
    }

    #[test]
    fn what_is_unknown_or_cannot_be_had_is_refused_by_its_line_with_a_remedy() {
        for (lines, parts) in [
            ("bs=4k\nturbo=1", &["job.fio line 4: `turbo=1`: ", "no option of that name", "; leave it out"][..]),
            ("offset=1g", &["line 3: `offset=1g`: fio would begin there", "; leave it out"]),
            ("bs", &["line 3: `bs`: it needs a value"]),
            ("bs=", &["line 3: `bs=`: it needs a value"]),
            ("bs=4x", &["line 3: `bs=4x`: ", "not a whole number", "fio(1)"]),
            ("bs=0", &["`bs=0`", "between 1 byte and 1g"]),
            ("rw=rw\nbs=4k,8k", &["line 4: `bs=4k,8k`", "a job of the reads"]),
            ("bssplit=4k/60:8k/60", &["sum to 120"]),
            ("rw=trim", &["line 3: `rw=trim`", "discarding"]),
            ("rw=randread:8", &["line 3: `rw=randread:8`"]),
            ("ioengine=mmap", &["line 3: `ioengine=mmap`", "use psync"]),
            (
                "ioengine=libaio\nhipri",
                &["line 4: `hipri`: ioengine=libaio has no such option", "use ioengine=pvsync2"],
            ),
            ("ioengine=io_uring_cmd\ncmd_type=scsi", &["line 4", "use cmd_type=nvme"]),
            ("direct=yes", &["line 3: `direct=yes`", "1 or 0"]),
            ("iodepth=0", &["line 3: `iodepth=0`", "between 1 and"]),
            ("numjobs=5000", &["line 3: `numjobs=5000`", "between 1 and 4096"]),
            ("numjobs=4096\n[b]\nfilename=x", &["line 4: job [b]: ", "more than 4096 threads"]),
            ("ioengine=libaio\niodepth=16\niodepth_batch=8", &["line 5: `iodepth_batch=8`", "the same value"]),
            ("rw=rw\nrate_iops=100", &["line 4: `rate_iops=100`", "a job of the reads"]),
            ("rw=randread\nrandom_distribution=normal:10", &["line 4", "not random, zipf or pareto"]),
            ("verify=md5", &["line 3: `verify=md5`", "use rw=rw or rw=randrw"]),
            ("rw=write\nverify=md5", &["line 4: `verify=md5`", "fio would read everything back"]),
            ("filename=a:b", &["line 3: `filename=a:b`: 2 targets", "numjobs=2"]),
            ("filename=:", &["line 3: `filename=:`", "names nothing"]),
            ("directory=/a:/b", &["line 3: `directory=/a:/b`"]),
            ("runtime=1.5", &["line 3: `runtime=1.5`"]),
            ("size=1k", &["line 1: job [a]: ", "smaller than a block of 4k"]),
            ("rate_iops=9\nthinktime=5", &["line 1: job [a]: a think time of 5 us"]),
            ("ioengine=null", &["line 1: job [a]: there is no size"]),
            ("kb_base=10", &["line 3: `kb_base=10`"]),
            ("randseed=-1", &["line 3: `randseed=-1`"]),
        ] {
            let error = parse(&format!("[a]\nfilename=x\n{lines}")).expect_err(lines).to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{lines}: {error}");
        }
        let error = parse("[a]\nbs=4k").unwrap_err().to_string();
        assert!(error.contains("line 1: job [a]: there is neither a filename nor a size"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            lines in prop::collection::vec(
                ("[a-z_]{1,8}|bs|rw|size|filename|runtime|iodepth|numjobs|bssplit|cpus_allowed|ioengine", "\\PC{0,12}|[0-9a-z:,/-]{0,12}"),
                0..6,
            ),
        ) {
            let lines: Vec<String> = lines.into_iter().map(|(key, value)| format!("{key}={value}\n")).collect();
            let _ = parse(&format!("[a]\nsize=1m\n{}", lines.concat()));
        }
    }
}
