//! Writes arms of a study as a fio job file, so that anyone can repeat them without iolane. The inverse of `translate`
//! where there is one. Returns text; writes no files.

use std::time::Duration;

use iolane::IoPath;
use iolane::units::{Bytes, CpuList};

use super::engine::engine;
use iolane_measure::workload::{Arrivals, DataPattern, OffsetPattern, Workload};

/// One arm to be written as a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// The name of its section; characters that fio cannot read are replaced.
    pub name: String,
    pub path: IoPath,
    /// Its size is that of each target that is used, or that of the scratch file. fio draws other numbers from its seed.
    pub workload: Workload,
    /// Threads, assigned to the targets in turn; at least one per target.
    pub threads: usize,
    /// Targets by name; empty for a scratch file, which fio creates once for all threads and arms.
    pub targets: Vec<String>,
    /// The measured phase.
    pub runtime: Duration,
    /// Load before the measured phase.
    pub warmup: Duration,
    /// Bypass the page cache.
    pub direct: bool,
    /// CPUs of the threads, in turn.
    pub cpus: Option<CpuList>,
    /// CPUs of the kernel's submission threads, in turn.
    pub sqpoll_cpus: Option<CpuList>,
}

/// A job file that runs these arms in sequence. An arm that fio cannot run is a comment with the reason.
pub fn job_text(jobs: &[JobSpec]) -> String {
    let mut text = String::from("; Jobs run in sequence. Run a single one with: fio --section=NAME FILE\n");
    for job in jobs {
        text.push('\n');
        match sections(job) {
            Ok(sections) => text.push_str(&sections),
            Err(reason) => text.push_str(&format!("; {}: {reason}\n", section_name(&job.name))),
        }
    }
    text
}

/// The reasons why arms are only comments in [`job_text`], each with the number of arms.
pub fn left_out(jobs: &[JobSpec]) -> Vec<(String, usize)> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for reason in jobs.iter().filter_map(|job| sections(job).err()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, arms)) => *arms += 1,
            None => reasons.push((reason, 1)),
        }
    }
    reasons
}

/// The sections of one arm: one per target, run concurrently.
///
/// # Errors
/// Why fio cannot run it, in one sentence.
pub fn sections(job: &JobSpec) -> Result<String, String> {
    let engine = engine_options(&job.path)?;
    let places = places(job)?;
    let mut text = String::new();
    for (index, place) in places.iter().enumerate() {
        // Thread i uses target i modulo the number of targets.
        let threads = (job.threads.saturating_sub(index)).div_ceil(places.len());
        if threads == 0 {
            return Err(format!("{} targets need at least as many threads", places.len()));
        }
        let number = if index == 0 { String::new() } else { format!("-{}", index + 1) };
        text.push_str(&format!("[{}{number}]\n", section_name(&job.name)));
        if index == 0 {
            text.push_str("stonewall\n");
        }
        text.push_str(&engine);
        text.push_str(place);
        text.push_str(&common_options(job, threads)?);
        text.push_str(&submission_cpu(job, index, threads));
    }
    Ok(text)
}

fn engine_options(path: &IoPath) -> Result<String, String> {
    let engine = engine(path)?;
    let mut text = format!("ioengine={}\n", engine.name);
    engine.options.iter().for_each(|(key, value)| text.push_str(&format!("{key}={value}\n")));
    if path.polls_submissions() && !path.options.fixed_files {
        text.push_str("registerfiles=0 ; fio registers the file with sqthread_poll regardless\n");
    }
    Ok(text)
}

/// What fio calls the scratch file, in the folder that it runs in.
const SCRATCH_NAME: &str = "iolane-scratch";

/// The lines that name each target.
fn places(job: &JobSpec) -> Result<Vec<String>, String> {
    let size = job.workload.size.map_or(String::new(), |size| format!("size={}\n", Bytes(size)));
    if job.targets.is_empty() || job.path.interface() == "null" {
        return match (size.is_empty(), job.path.interface()) {
            (true, _) => Err("there is no size for a scratch file".into()),
            (false, "null") => Ok(vec![size]),
            // Without it, fio makes a file for each thread of each arm.
            (false, _) => Ok(vec![format!("filename_format={SCRATCH_NAME}\n{size}")]),
        };
    }
    let place = |name: &String| Ok(format!("filename={}\n{size}", file_name(name)?));
    job.targets.iter().map(place).collect()
}

/// A target's name with colons escaped; fio cannot read every character.
fn file_name(name: &str) -> Result<String, String> {
    let unreadable = [";", "#", "\\", "${", "$pagesize", "$mb_memory", "$ncpus"];
    if name.is_empty()
        || name.trim() != name
        || name.contains(char::is_control)
        || unreadable.iter().any(|part| name.contains(part))
    {
        return Err(format!("fio cannot read the name {name:?}"));
    }
    Ok(name.replace(':', "\\:"))
}

/// The options that are the same for all targets.
fn common_options(job: &JobSpec, threads: usize) -> Result<String, String> {
    // Names every field, so that none is left out of a job without a word.
    let Workload {
        access,
        read_percent: _,
        block_sizes,
        offsets,
        align,
        depth,
        batch,
        fsync_every,
        fdatasync_every,
        rate,
        arrivals,
        think_us,
        data,
        durable,
        verify,
        start,
        size: _,
        bytes_max,
        seed,
    } = &job.workload;
    if *seed > i64::MAX as u64 {
        return Err(format!("fio accepts no seed larger than 2^63 - 1; this one is {seed}"));
    }
    if *verify {
        return Err("fio has no option for reads that are checked while others write".into());
    }
    if bytes_max.is_some() {
        return Err("fio has no option for a job that ends after a time or a number of bytes".into());
    }
    let sizes = block_sizes.to_string();
    let sizes = match sizes.contains(['/', ':']) {
        true => format!("bssplit={sizes}"),
        false if sizes.contains('-') => format!("bsrange={sizes}"),
        false => format!("bs={sizes}"),
    };
    let mut text = format!(
        "rw={access}{}\n{sizes}\niodepth={depth}\nnumjobs={threads}\ngroup_reporting\nthread\ndirect={}\n\
         time_based\nruntime={}\nramp_time={}\nrandseed={seed}\n",
        skip_after_block(*offsets),
        u8::from(job.direct),
        time(job.runtime),
        time(job.warmup),
    );
    if access.is_mixed() {
        text.push_str(&format!("rwmixread={}\n", job.workload.read_percent()));
    }
    if access.is_random() {
        text.push_str("norandommap\n");
    }
    text.push_str(&spread(*offsets)?);
    if let Some(align) = align {
        text.push_str(&format!("blockalign={}\n", Bytes((*align).into())));
    }
    if *start > 0 {
        text.push_str(&format!("offset={}\n", Bytes(*start)));
    }
    if let Some(rate) = rate {
        text.push_str(&format!("rate_iops={}\n", rates_of_a_thread(job, rate.per_s())?));
        if *arrivals == Arrivals::Poisson {
            text.push_str("rate_process=poisson\n");
        }
    }
    if let Some(batch) = batch {
        text.push_str(&format!("iodepth_batch={batch}\niodepth_batch_complete_min={batch}\n"));
    }
    for (option, every) in [("fsync", fsync_every), ("fdatasync", fdatasync_every)] {
        if let Some(every) = every {
            text.push_str(&format!("{option}={every}\n"));
        }
    }
    if let Some(think_us) = think_us {
        text.push_str(&format!("thinktime={think_us}us\n"));
    }
    text.push_str(&data_options(*data));
    if *durable {
        text.push_str("sync=dsync\n");
    }
    if let Some(cpus) = &job.cpus {
        text.push_str(&format!("cpus_allowed={cpus}\ncpus_allowed_policy=split\n"));
    }
    Ok(text)
}

/// What follows `rw` where bytes are skipped after each block.
fn skip_after_block(offsets: OffsetPattern) -> String {
    match offsets.skipped() {
        Some((bytes, None)) if bytes < 0 => format!(":-{}", Bytes(bytes.unsigned_abs())),
        Some((bytes, None)) => format!(":{}", Bytes(bytes.unsigned_abs())),
        _ => String::new(),
    }
}

/// What written blocks hold.
fn data_options(data: DataPattern) -> String {
    let mut text = match data.compress_percent() {
        0 => String::new(),
        100 => "zero_buffers\n".into(),
        percent => format!("buffer_compress_percentage={percent}\n"),
    };
    if let Some((percent, set)) = data.duplicates() {
        text.push_str(&format!(
            "dedupe_percentage={percent}\ndedupe_mode=working_set\ndedupe_working_set_percentage={set}\ndedupe_global=1\n"
        ));
    }
    text
}

/// The option of a distribution of random offsets.
fn distribution(offsets: OffsetPattern) -> Result<String, String> {
    let Some((blocks, advance)) = offsets.ordered() else { return Ok(format!("random_distribution={offsets}\n")) };
    let blocks: Vec<String> = blocks.iter().map(u32::to_string).collect();
    let stride = match advance {
        0 => "",
        _ if advance as usize == blocks.len() => "random_sequence_stride=1\n",
        _ => return Err(format!("fio moves a sequence on by its length; this one moves on by {advance} blocks")),
    };
    Ok(format!("random_distribution=sequence:{}\n{stride}", blocks.join(",")))
}

/// The options of a pattern of offsets.
fn spread(offsets: OffsetPattern) -> Result<String, String> {
    match offsets.skipped() {
        None if offsets == OffsetPattern::UNIFORM => Ok(String::new()),
        None if offsets.is_hot() => {
            Err("fio has no hot blocks that are scattered; zoned:90/10:10/90 has the first ones hot".into())
        }
        None => distribution(offsets),
        Some((_, None)) => Ok(String::new()),
        Some((bytes, Some(every))) => {
            let (size, skip) = (Bytes(every), Bytes(bytes.unsigned_abs()));
            Ok(format!("zonemode=strided\nzonesize={size}\nzonerange={size}\nzoneskip={skip}\n"))
        }
    }
}

/// fio's rate is that of one thread, and a whole number; the reads and the writes of a mix have one each.
fn rates_of_a_thread(job: &JobSpec, per_s: f64) -> Result<String, String> {
    let each = per_s / job.threads as f64;
    let is_possible = |rate: f64| rate.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&rate);
    if !job.workload.access.is_mixed() {
        return match is_possible(each) {
            true => Ok(each.to_string()),
            false => Err(format!("fio's rate is a whole number per thread; this one is {each}")),
        };
    }
    let reads = each * f64::from(job.workload.read_percent()) / 100.0;
    let writes = each - reads;
    match is_possible(reads) && is_possible(writes) {
        true => Ok(format!("{reads},{writes}")),
        false => Err(format!(
            "fio's rates of the reads and the writes of a mix are whole numbers per thread; these are {reads} and {writes}"
        )),
    }
}

/// The CPU of a section's submission threads; fio has one option for all of them.
fn submission_cpu(job: &JobSpec, section: usize, threads: usize) -> String {
    let cpus = job.sqpoll_cpus.as_ref().map_or(&[][..], CpuList::cpus);
    match (cpus, threads) {
        _ if !job.path.polls_submissions() => String::new(),
        ([], _) => String::new(),
        ([only], _) => format!("sqthread_poll_cpu={only}\n"),
        (several, 1) => format!("sqthread_poll_cpu={}\n", several[section % several.len()]),
        _ => "; fio has no option for one CPU per submission thread\n".into(),
    }
}

/// A time in the largest exact unit; fio has none below the microsecond.
fn time(time: Duration) -> String {
    match time.as_micros() {
        us if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        us if us.is_multiple_of(1000) => format!("{}ms", us / 1000),
        us => format!("{us}us"),
    }
}

/// A name that fio accepts for a job.
fn section_name(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() || ";#[]$/".contains(c) { '-' } else { c }).collect();
    match name.trim() {
        "" => "job".into(),
        name if name.starts_with("global") => format!("job-{name}"),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use iolane_measure::workload::{Access, Rate};

    use super::*;
    use crate::fio::{Amount, Job, JobFile, Place, Size, jobs};
    use iolane_measure::placement::Placement;
    use proptest::prelude::*;

    fn spec() -> JobSpec {
        JobSpec {
            name: "io_uring at 32".into(),
            path: IoPath::new("io_uring"),
            workload: Workload { depth: 32, ..Workload::default() },
            threads: 2,
            targets: vec!["/dev/nvme0n1".into()],
            runtime: Duration::from_secs(5),
            warmup: Duration::from_millis(500),
            direct: true,
            cpus: Some("0-1".parse().unwrap()),
            sqpoll_cpus: None,
        }
    }

    /// The arm with another load.
    fn with(change: impl Fn(&mut Workload)) -> JobSpec {
        let mut job = spec();
        change(&mut job.workload);
        job
    }

    fn parse(text: &str) -> Vec<Job> {
        JobFile::parse("job.fio", text.as_bytes()).and_then(|file| jobs(&file)).expect(text)
    }

    #[test]
    fn an_arm_is_written_as_one_complete_section() {
        let expected = "; Jobs run in sequence. Run a single one with: fio --section=NAME FILE\n\n\
            [io_uring at 32]\nstonewall\nioengine=io_uring\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\niodepth=32\nnumjobs=2\n\
            group_reporting\nthread\ndirect=1\ntime_based\nruntime=5s\nramp_time=500ms\nrandseed=1\nnorandommap\n\
            cpus_allowed=0-1\ncpus_allowed_policy=split\n";
        assert_eq!(job_text(&[spec()]), expected);
    }

    #[test]
    fn reasons_why_arms_are_left_out_are_counted() {
        let verified = with(|workload| workload.verify = true);
        let limited = with(|workload| workload.bytes_max = Some(1 << 20));
        let reasons = left_out(&[verified.clone(), spec(), limited, verified]);
        let arms: Vec<usize> = reasons.iter().map(|(_, arms)| *arms).collect();
        assert_eq!(arms, [2, 1], "{reasons:?}");
        assert!(reasons[0].0.contains("checked while others write"), "{reasons:?}");
        assert_eq!(left_out(&[spec()]), []);
    }

    #[test]
    fn each_target_has_a_section_and_its_threads() {
        let targets = vec!["a".to_owned(), "pci:0000:00:04.0".to_owned()];
        let jobs = parse(&job_text(&[JobSpec { targets, threads: 3, ..spec() }, spec()]));
        let seen: Vec<_> = jobs.iter().map(|job| (job.threads, job.stonewall, job.place.clone())).collect();
        let named = |name: &str| Place::Named(vec![name.into()]);
        let expected = [(2, true, named("a")), (1, false, named("pci:0000:00:04.0")), (2, true, named("/dev/nvme0n1"))];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_submission_thread_has_its_cpu_where_fio_can_say_so() {
        let sqpoll = |threads, cpus: &str| JobSpec {
            path: "io_uring+sqpoll".parse().unwrap(),
            threads,
            sqpoll_cpus: Some(cpus.parse().unwrap()),
            ..spec()
        };
        assert!(job_text(&[sqpoll(1, "3")]).contains("\nsqthread_poll_cpu=3\n"));
        let two = JobSpec { targets: vec!["a".into(), "b".into()], ..sqpoll(2, "2-3") };
        let placed: Vec<_> = parse(&job_text(&[two])).into_iter().map(|job| job.placement.sqpoll_cpus).collect();
        assert_eq!(placed, [Some("2".parse().unwrap()), Some("3".parse().unwrap())]);
        let text = job_text(&[sqpoll(2, "2-3")]);
        assert!(!text.contains("sqthread_poll_cpu") && text.contains("; fio has no option for one CPU"), "{text}");
        assert!(
            !job_text(&[JobSpec { sqpoll_cpus: Some("3".parse().unwrap()), ..spec() }]).contains("sqthread_poll_cpu")
        );
    }

    #[test]
    fn an_arm_that_fio_cannot_run_is_a_comment_with_the_reason() {
        let path = |path: &str| JobSpec { path: path.parse().unwrap(), ..spec() };
        let target = |name: &str| JobSpec { targets: vec![name.into()], ..spec() };
        for (job, reason) in [
            (path("nvme"), "no engine for nvme"),
            (path("io_uring+hybrid"), "hybrid polling"),
            (path("io_uring,defer"), "no option for `defer`"),
            (path("io_uring+sqpoll,sqidle=5"), "no option for `sqidle`"),
            (target("a;b"), "cannot read the name \"a;b\""),
            (target(" a"), "cannot read the name"),
            (target("${HOME}"), "cannot read the name"),
            (target("a\n"), "cannot read the name"),
            (JobSpec { targets: vec![], ..spec() }, "no size"),
            (JobSpec { threads: 0, ..spec() }, "as many threads"),
            (with(|load| load.seed = u64::MAX), "no seed larger"),
            (with(|load| load.offsets = "hot:90/10".parse().unwrap()), "no hot blocks that are scattered"),
            (with(|load| load.verify = true), "checked while others write"),
            (with(|load| load.bytes_max = Some(1 << 20)), "a number of bytes"),
            (with(|load| load.rate = Some(Rate::new(3.0).unwrap())), "this one is 1.5"),
            (
                with(|load| (load.access, load.rate) = (Access::RandRw, Some(Rate::new(6.0).unwrap()))),
                "these are 1.5 and",
            ),
            (
                with(|load| {
                    (load.access, load.read_percent) = (Access::Rw, Some(100));
                    load.rate = Some(Rate::new(4.0).unwrap());
                }),
                "these are 2 and 0",
            ),
        ] {
            let refused = sections(&job).expect_err(reason);
            assert!(refused.contains(reason), "{refused}");
            let text = job_text(&[job, spec()]);
            assert!(text.contains(&format!("\n; io_uring at 32: {refused}\n")), "{text}");
            assert_eq!(parse(&text).len(), 1);
        }
    }

    #[test]
    fn a_name_that_fio_would_misread_is_changed() {
        let name = |name: &str| parse(&job_text(&[JobSpec { name: name.into(), ..spec() }]))[0].name.clone();
        assert_eq!([name("global"), name(""), name("a;b]"), name("a\nb")], ["job-global", "job", "a-b-", "a-b"]);
    }

    prop_compose! {
        fn any_spec()(
            path in prop::sample::select(vec![
                "psync", "psync+iopoll", "libaio", "io_uring", "io_uring+iopoll", "io_uring,fixedbufs,fixedfiles",
                "io_uring+sqpoll", "io_uring+sqpoll+iopoll,fixedfiles", "io_uring_cmd", "io_uring_cmd+iopoll,fixedbufs",
            ]),
            access in prop::sample::select(Access::ALL.to_vec()),
            block_sizes in prop::sample::select(vec!["512", "4k", "3000", "1m", "4k-64k", "4k/70:64k/30", "4k/50:8k:16k"]),
            (depth, threads) in (1u32..5000, 1usize..4096),
            target in prop::option::of("[a-zA-Z0-9_./:=,][a-zA-Z0-9_./: =,\\[\\]-]{0,20}[a-z]"),
            size in (1u64 << 30)..(1 << 50),
            (read_percent, batch, fsync) in (0u8..=100, prop::option::of(2u32..5000), prop::option::of(1u32..1000)),
            offsets in prop::sample::select(vec!["uniform", "zipf:1.2", "pareto:0.3", "zoned:50/5:30/15:20/80", "sequence:2:0:1",
                "sequence:2:0:1/3"]),
            skip in prop::sample::select(vec!["uniform", "skip:375m", "skip:-750m", "skip:750m/375m"]),
            (align, start) in (prop::sample::select(vec![None, Some(3000 << 10)]), prop::sample::select(vec![0, 6 << 20])),
            data in prop::sample::select(vec!["random", "compress:50", "compress:100", "dedupe:40/5", "compress:10+dedupe:5/1"]),
            (is_poisson, data_only, is_durable) in any::<(bool, bool, bool)>(),
            pace in prop_oneof![Just((None, None)), (1u32..1_000_000).prop_map(|each| (Some(each), None)),
                (1u64..100_000).prop_map(|us| (None, Some(us)))],
            (runtime_us, warmup_us) in (1u64..10_000_000_000, 0u64..10_000_000_000),
            (seed, direct) in (0..i64::MAX as u64, any::<bool>()),
            cpus in prop::option::of(prop::collection::btree_set(0u32..300, 1..8)),
            sqpoll_cpu in prop::option::of(0u32..300),
        ) -> JobSpec {
            let path: IoPath = path.parse().unwrap();
            let sqpoll_cpu = sqpoll_cpu.filter(|_| path.polls_submissions());
            let (rate, think_us) = pace;
            let depth = if path.interface() == "psync" || think_us.is_some() { 1 } else { depth };
            // Reads and writes of a mix each have a whole rate above 0.
            let hundreds = if access.is_mixed() { 100 } else { 1 };
            let rate = rate
                .filter(|_| !access.is_mixed() || (1..100).contains(&read_percent))
                .map(|each| Rate::new(f64::from(each) * f64::from(hundreds) * threads as f64).unwrap());
            let workload = Workload {
                access,
                read_percent: access.is_mixed().then_some(read_percent),
                block_sizes: block_sizes.parse().unwrap(),
                // Multiples of every block size and alignment.
                offsets: if access.is_random() { offsets } else { skip }.parse().unwrap(),
                align,
                depth,
                batch: batch.map(|batch| batch.min(depth)).filter(|batch| *batch > 1),
                fsync_every: fsync.filter(|_| access.writes() && !data_only),
                fdatasync_every: fsync.filter(|_| access.writes() && data_only),
                rate,
                arrivals: if rate.is_some() && is_poisson { Arrivals::Poisson } else { Arrivals::Even },
                think_us,
                data: if access.writes() { data.parse().unwrap() } else { DataPattern::RANDOM },
                durable: access.writes() && is_durable,
                verify: false,
                start,
                size: Some(size),
                bytes_max: None,
                seed,
            };
            JobSpec {
                name: "arm 1".into(),
                path,
                workload,
                threads,
                targets: target.into_iter().collect(),
                runtime: Duration::from_micros(runtime_us),
                warmup: Duration::from_micros(warmup_us),
                direct,
                cpus: cpus.map(|cpus| cpus.into_iter().collect()),
                sqpoll_cpus: sqpoll_cpu.map(|cpu| [cpu].into_iter().collect()),
            }
        }
    }

    /// A job that was read back, as the arm it was written from.
    fn spec_of(job: Job) -> JobSpec {
        assert!(job.stonewall && job.amount == Amount::Unlimited, "{job:?}");
        let Placement { cpus, sqpoll_cpus } = job.placement;
        JobSpec {
            name: job.name,
            path: job.path,
            workload: Workload { size: job.size.and_then(Size::bytes), ..job.workload },
            threads: job.threads,
            targets: if let Place::Named(names) = job.place { names } else { Vec::new() },
            runtime: job.runtime.unwrap(),
            warmup: job.warmup,
            direct: job.direct,
            cpus,
            sqpoll_cpus,
        }
    }

    proptest! {
        #[test]
        fn a_written_job_file_is_read_back_unchanged(spec in any_spec()) {
            let read: Vec<JobSpec> = parse(&job_text(std::slice::from_ref(&spec))).into_iter().map(spec_of).collect();
            prop_assert_eq!(read, [spec]);
        }
    }

    #[test]
    fn fio_accepts_a_written_job_file() {
        if Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_err() {
            return eprintln!("SKIPPED fio_accepts_a_written_job_file: fio is not installed");
        }
        let path = |path: &str| JobSpec { path: path.parse().unwrap(), ..with(|load| load.size = Some(1 << 20)) };
        let sizes = |sizes: &str| {
            let job = with(|load| load.block_sizes = sizes.parse().unwrap());
            JobSpec { name: sizes.replace(':', " "), ..job }
        };
        let paths = [
            "psync",
            "psync+iopoll",
            "libaio",
            "posix_aio",
            "io_uring+sqpoll",
            "io_uring+iopoll,fixedbufs,fixedfiles",
            "io_uring_cmd",
            "null",
        ];
        let mut jobs: Vec<JobSpec> = paths.into_iter().map(path).collect();
        jobs.extend(["4k-64k", "4k/70:64k/30", "4k/50:8k:16k"].map(sizes));
        jobs.push(JobSpec {
            targets: vec!["a:b".into(), "c d".into()],
            runtime: Duration::from_micros(1500),
            ..spec()
        });
        let scratch = with(|load| (load.size, load.seed) = (Some(1 << 20), i64::MAX as u64));
        jobs.push(JobSpec { targets: vec![], cpus: None, ..scratch });
        jobs.push(with(|load| {
            (load.access, load.read_percent) = (Access::RandRw, Some(70));
            (load.batch, load.fsync_every, load.offsets) = (Some(4), Some(8), "zipf:1.2".parse().unwrap());
        }));
        jobs.push(with(|load| load.offsets = "zoned:50/5:30/15:20/80".parse().unwrap()));
        jobs.extend(["skip:64k", "skip:-8k", "skip:1m/64k"].map(|skip| {
            let job = with(|load| (load.access, load.offsets) = (Access::Read, skip.parse().unwrap()));
            JobSpec { name: skip.into(), ..job }
        }));
        jobs.push(with(|load| (load.align, load.start) = (Some(8192), 1 << 20)));
        jobs.push(with(|load| load.rate = Some(Rate::new(1000.0).unwrap())));
        jobs.push(with(|load| {
            (load.access, load.read_percent, load.rate) = (Access::Rw, Some(25), Some(Rate::new(800.0).unwrap()));
        }));
        jobs.push(with(|load| (load.depth, load.think_us) = (1, Some(50))));
        let mut fio = Command::new("fio");
        fio.args(["--parse-only", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut fio = fio.spawn().unwrap();
        fio.stdin.take().unwrap().write_all(job_text(&jobs).as_bytes()).unwrap();
        let ended = fio.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert!(ended.status.success() && !said.contains("dropped") && !said.contains("Bad option"), "{said}");
    }
}
