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
        batch_submit,
        batch_complete,
        batch_complete_max,
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
    // At a rate fio would hold requests back until a batch is full.
    let submit_max = batch_submit.or(rate.is_none().then_some(*depth));
    for (option, batch) in [
        ("iodepth_batch", submit_max),
        ("iodepth_batch_complete_min", Some(batch_complete.unwrap_or(1))),
        ("iodepth_batch_complete_max", Some(batch_complete_max.unwrap_or(*depth))),
    ] {
        if let Some(batch) = batch.filter(|_| *depth > 1) {
            text.push_str(&format!("{option}={batch}\n"));
        }
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
mod tests;
