//! fio's options for access, block sizes, depth, rate and verification as a workload.

use iolane::units::Bytes;
use iolane::{Error, IoPath, Result};
use iolane_measure::workload::{Access, Arrivals, BlockSizes, DataPattern, OffsetPattern, Rate, Workload};

use crate::fio::options::Options;

/// fio's rw without what may follow after a colon.
fn parse_access(text: &str) -> Result<Access, String> {
    match text.split(':').next().unwrap_or(text) {
        trim if trim.contains("trim") => Err("iolane has no discard workload".into()),
        name => name.parse().map_err(|_| "expected read, write, randread, randwrite, rw or randrw".into()),
    }
}

pub(super) fn translate(
    options: &Options<'_>,
    path: &IoPath,
    threads: usize,
    notes: &mut Vec<String>,
) -> Result<Workload> {
    let access = options.parsed("rw", parse_access)?.unwrap_or(Access::Read);
    let think_us = options.time_us("thinktime", 1)?;
    let seed = |text: &str| match options.kb_base.number(text)? {
        seed if i64::try_from(seed).is_ok() => Ok(seed),
        _ => Err("it is larger than 2^63 - 1".into()),
    };
    let mut workload = Workload {
        access,
        read_percent: read_percent(options)?.filter(|_| access.is_mixed()),
        block_sizes: block_sizes(options, access, notes)?,
        depth: depth(options, path, think_us, notes)?,
        rate: None,
        think_us,
        fsync_every: options.count_or_none("fsync")?.filter(|_| access.writes()),
        fdatasync_every: options.count_or_none("fdatasync")?.filter(|_| access.writes()),
        data: data(options, access, notes)?,
        durable: durable(options, notes)? && access.writes(),
        verify: verify(options, access, notes)?,
        start: options.parsed("offset", |text| offset(text, options))?.unwrap_or(0),
        seed: options.parsed("randseed", seed)?.unwrap_or(Workload::default().seed),
        ..Workload::default()
    };
    set_rate(options, &mut workload, threads, notes)?;
    if let (Some(think_us), Some(_)) = (think_us, workload.rate) {
        let rate = if options.has("rate_iops") { "rate_iops" } else { "rate" };
        let cause = format!("{rate} decides when requests start, and a pause of {think_us} us after each would, too");
        return Err(options.refuse("thinktime", &cause, &format!("leave {rate} or thinktime out")));
    }
    if workload.rate.is_some() {
        workload.arrivals = options.parsed("rate_process", parse_arrivals)?.unwrap_or_default();
    }
    workload.align = align(options, &workload)?;
    check_submit_mode(options, workload.rate, notes)?;
    set_batches(options, &mut workload)?;
    workload.offsets = super::offsets::translate(options, access, notes)?;
    let is_uniform = access.is_random() && workload.offsets == OffsetPattern::UNIFORM;
    if is_uniform && options.flag("norandommap")? != Some(true) {
        notes.push(
            "offsets are drawn with replacement; without norandommap fio covers every block once before repeating any"
                .into(),
        );
    }
    Ok(workload)
}

fn offset(text: &str, options: &Options<'_>) -> Result<u64, String> {
    match text.ends_with('%') {
        true => Err("iolane needs the offset in bytes".into()),
        false => options.kb_base.number(text),
    }
}

/// The last of rwmixread and rwmixwrite takes effect, as in fio.
fn read_percent(options: &Options<'_>) -> Result<Option<u8>> {
    Ok(match options.last_of("rwmixread", "rwmixwrite") {
        "rwmixread" => options.percent("rwmixread")?,
        _ => options.percent("rwmixwrite")?.map(|percent| 100 - percent),
    })
}

/// bssplit takes precedence, then the last of bs and bsrange, as in fio.
fn block_sizes(options: &Options<'_>, access: Access, notes: &mut Vec<String>) -> Result<BlockSizes> {
    let size = |text: &str| options.kb_base.number(text).map(|bytes| Bytes(bytes).to_string());
    let option = match options.last_of("bs", "bsrange") {
        _ if options.has("bssplit") => "bssplit",
        last => last,
    };
    let Some(text) = options.part_for(option, access)? else { return Ok(Workload::default().block_sizes) };
    let rewritten = match option {
        "bs" => size(text),
        "bsrange" => match text.split_once('-') {
            None => Err("expected MIN-MAX".into()),
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
    let sizes = sizes.map_err(|cause| options.refuse(option, &cause, "see fio(1) for how it is written"))?;
    if option == "bsrange" && sizes.single().is_none() {
        notes.push(format!("block sizes are the multiples of the smallest size, with equal probability: {sizes}"));
    }
    Ok(sizes)
}

fn depth(options: &Options<'_>, path: &IoPath, think_us: Option<u64>, notes: &mut Vec<String>) -> Result<u32> {
    let depth = options.count("iodepth", 1, u32::MAX)?;
    let reason = match (path.interface(), think_us) {
        ("psync", _) => "this engine keeps one request in flight",
        (_, Some(_)) => "with thinktime a thread keeps one request in flight",
        _ => return Ok(depth),
    };
    if depth > 1 {
        notes.push(format!("{reason}, as in fio: iodepth={depth} has no effect"));
    }
    Ok(1)
}

/// fio submits one request and takes one completion at a time, unless told otherwise; no limit is one of the depth. At a rate
/// the requests that are due are submitted together, which are rarely two.
fn set_batches(options: &Options<'_>, workload: &mut Workload) -> Result<()> {
    let depth = workload.depth;
    // fio also limits a batch to the depth.
    let at_most = |batch: Option<u32>| batch.unwrap_or(depth).min(depth);
    let given = |option: &str, default: u32| match options.has(option) {
        true => Ok::<_, Error>(at_most(options.count_or_none(option)?)),
        false => Ok(default.min(depth)),
    };
    let submit = given("iodepth_batch", if workload.rate.is_some() { depth } else { 1 })?;
    let complete = options.count_or_none("iodepth_batch_complete_min")?.unwrap_or(1).min(depth);
    let complete_max = given("iodepth_batch_complete_max", complete)?.max(complete);
    workload.batch_submit = Some(submit).filter(|most| *most < depth);
    workload.batch_complete = Some(complete).filter(|least| *least > 1);
    workload.batch_complete_max = Some(complete_max).filter(|most| *most < depth);
    Ok(())
}

/// The rates of reads and writes in an option of fio's; 0 is none.
fn rates(options: &Options<'_>, option: &str) -> Result<Option<(u64, u64)>> {
    let rates = |text: &str| -> Result<(u64, u64), String> {
        let number = |part: &str| if part.is_empty() { Ok(0) } else { options.kb_base.number(part) };
        match text.split_once(',') {
            None => number(text).map(|both| (both, both)),
            Some((reads, rest)) => Ok((number(reads)?, number(rest.split(',').next().unwrap_or(rest))?)),
        }
    };
    options.parsed(option, rates)
}

/// fio's rate applies to each thread, iolane's to all of them. Reads and writes have a rate each in fio, which together
/// decide the mix.
fn set_rate(options: &Options<'_>, workload: &mut Workload, threads: usize, notes: &mut Vec<String>) -> Result<()> {
    let option = match (rates(options, "rate_iops")?, rates(options, "rate")?) {
        (Some(requests), Some(bytes)) if requests != (0, 0) && bytes != (0, 0) => {
            return Err(options.refuse("rate", "rate_iops limits requests already", "use one of them"));
        }
        (_, Some(bytes)) if bytes != (0, 0) => "rate",
        _ => "rate_iops",
    };
    let Some((reads, writes)) = rates(options, option)? else { return Ok(()) };
    let refuse = |cause: &str, remedy: &str| Err(options.refuse(option, cause, remedy));
    let rate = match (workload.access.reads(), workload.access.writes()) {
        (true, false) => reads as f64,
        (false, _) => writes as f64,
        (true, true) if reads == 0 && writes == 0 => 0.0,
        (true, true) if reads == 0 || writes == 0 => {
            let cause = "fio would limit only reads or only writes; iolane limits both";
            return refuse(cause, "give both a rate, or use one job for the reads and one for the writes");
        }
        (true, true) => {
            let percent = 100.0 * reads as f64 / (reads as f64 + writes as f64);
            let rounded = percent.round() as u8;
            if !(1..=99).contains(&rounded) {
                let cause = "less than half a percent of the requests would be of one kind";
                return refuse(cause, "use one job for the reads and one for the writes");
            }
            if percent.fract() != 0.0 {
                notes.push(format!("reads are {rounded} % of the requests; the rates of fio are {percent:.2} %"));
            }
            if let Some(other) = workload.read_percent.filter(|other| *other != rounded) {
                notes.push(format!("reads are {rounded} % of the requests, from {option}, instead of {other} %"));
            }
            workload.read_percent = Some(rounded);
            reads as f64 + writes as f64
        }
    };
    if rate > 0.0 {
        let request = match (option, workload.block_sizes.single()) {
            ("rate", Some(bytes)) => f64::from(bytes),
            ("rate", None) => {
                return refuse(
                    "the rate in requests depends on the block sizes drawn",
                    "use one block size, or rate_iops",
                );
            }
            _ => 1.0,
        };
        notes.push(
            "with a rate, latency counts from the scheduled start of a request; fio counts from its actual start"
                .into(),
        );
        workload.rate = Some(Rate::new(rate * threads as f64 / request)?);
    }
    Ok(())
}

/// Without it offsets are multiples of the smallest block, in fio too.
fn align(options: &Options<'_>, workload: &Workload) -> Result<Option<u32>> {
    let Some(text) = options.part_for("blockalign", workload.access)? else { return Ok(None) };
    let align = options.kb_base.number(text).and_then(|bytes| u32::try_from(bytes).map_err(|_| "4 GiB or more".into()));
    let align = align.map_err(|cause| options.refuse("blockalign", &cause, "see fio(1) for how it is written"))?;
    Ok(Some(align).filter(|align| *align > 0 && *align != workload.block_sizes.min()))
}

/// A rate is an open loop in any case: requests are submitted at their time, whatever has completed.
fn check_submit_mode(options: &Options<'_>, rate: Option<Rate>, notes: &mut Vec<String>) -> Result<()> {
    match (options.text("io_submit_mode")?, rate) {
        (None | Some("inline"), _) => Ok(()),
        (Some("offload"), Some(_)) => {
            notes.push("io_submit_mode=offload: iolane submits at the scheduled times without further threads".into());
            Ok(())
        }
        (Some("offload"), None) => Err(options.refuse(
            "io_submit_mode",
            "fio would submit from other threads",
            "leave it out, or add rate_iops",
        )),
        (Some(_), _) => Err(options.refuse("io_submit_mode", "expected inline or offload", "use one of them")),
    }
}

/// fio's sync: O_SYNC or O_DSYNC.
fn durable(options: &Options<'_>, notes: &mut Vec<String>) -> Result<bool> {
    match options.text("sync")? {
        None | Some("0" | "none") => Ok(false),
        Some("dsync") => Ok(true),
        Some("1" | "sync") => {
            notes.push("files are opened with O_DSYNC; with O_SYNC fio also waits for metadata such as times".into());
            Ok(true)
        }
        Some(_) => Err(options.refuse("sync", "expected none, sync or dsync", "use one of them")),
    }
}

/// What written blocks hold.
fn data(options: &Options<'_>, access: Access, notes: &mut Vec<String>) -> Result<DataPattern> {
    let compress = options.percent("buffer_compress_percentage")?.unwrap_or(0);
    let compress = if options.flag("zero_buffers")? == Some(true) { 100 } else { compress };
    let duplicates = options.percent("dedupe_percentage")?.filter(|percent| *percent > 0 && access.writes());
    let set = options.percent("dedupe_working_set_percentage")?.unwrap_or(DataPattern::SET_PERCENT);
    match options.text("dedupe_mode")? {
        _ if duplicates.is_none() => {}
        None | Some("repeat") => notes.push(format!("blocks repeat a set of {set} %; fio repeats the block before")),
        Some("working_set") => {}
        Some(_) => return Err(options.refuse("dedupe_mode", "expected repeat or working_set", "use one of them")),
    }
    let pattern = DataPattern::new(compress, duplicates.map(|percent| (percent, set)));
    match pattern {
        _ if !access.writes() => Ok(DataPattern::RANDOM),
        pattern => {
            pattern.map_err(|error| options.refuse("dedupe_working_set_percentage", error.cause(), "use 1 or more"))
        }
    }
}

fn parse_arrivals(text: &str) -> Result<Arrivals, String> {
    match text {
        "linear" => Ok(Arrivals::Even),
        "poisson" => Ok(Arrivals::Poisson),
        _ => Err("expected linear or poisson".into()),
    }
}

/// Whether blocks have content that can be checked. fio checks a pattern where no method is given, and checks what a job
/// only reads whatever do_verify says.
fn verify(options: &Options<'_>, access: Access, notes: &mut Vec<String>) -> Result<bool> {
    let pattern = options.text("verify_pattern")?.map(|_| "pattern");
    let Some(method) = options.text("verify")?.or(pattern) else { return Ok(false) };
    if matches!(method, "0" | "null") {
        return Ok(false);
    }
    let reads_back = options.flag("do_verify")? != Some(false);
    if access.is_mixed() && !reads_back {
        let cause = "fio would not read back what it wrote; iolane verifies the reads of a mix";
        return Err(options.refuse("do_verify", cause, "leave out verify and do_verify"));
    }
    let checks = match (access.reads(), access.writes()) {
        (true, false) if options.has("filename") => {
            "checks each read as it completes: the target must hold what iolane wrote with the same randseed and bs"
        }
        (true, _) => "checks each read as it completes",
        _ if reads_back => "reads back what was written after the measured phase, which the figures leave out",
        _ => "reads nothing back with do_verify=0: a later job with rw=read, the same randseed and bs can check it",
    };
    notes.push(format!("verification uses iolane's own block content, not fio's verify={method}, and {checks}"));
    Ok(true)
}
