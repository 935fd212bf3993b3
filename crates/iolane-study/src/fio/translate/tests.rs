//! What fio's options mean here, which differences are noted, and what is refused.

use std::time::Duration;

use iolane::{IoPath, Target};
use iolane_measure::placement::Placement;
use iolane_measure::workload::{Access, BlockSizes, OffsetPattern, Rate};
use proptest::prelude::*;

use super::*;
use crate::fio::Ends;
use crate::fio::job::RUNTIME_MAX;

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
fn a_minimal_job_has_the_defaults_of_fio() {
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
        read_back: true,
        stonewall: false,
        delay: Duration::ZERO,
        group: 0,
        ends: None,
        notes: vec!["the page cache of the targets is not dropped first; fio drops it".into()],
    };
    assert_eq!(jobs, [expected]);
    assert_eq!((jobs[0].workload.depth, jobs[0].workload.block_sizes.single()), (1, Some(4096)));
}

#[test]
fn options_that_behave_as_in_fio_have_no_note() {
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
        batch_submit: Some(1),
        batch_complete_max: Some(1),
        ..Workload::default()
    };
    assert_eq!((job.workload, job.threads, job.size), (workload, 4, Some(Size::Bytes(1 << 30))));
    assert_eq!(
        (job.amount, job.runtime, job.warmup),
        (Amount::Unlimited, Some(Duration::from_secs(5)), Duration::from_secs(1))
    );
    assert_eq!(job.placement.cpus, Some("0-3".parse().unwrap()));
}

#[test]
fn global_sections_apply_to_later_jobs_and_the_last_of_repeated_options_counts() {
    let text =
        "[global]\nfilename=x\nbs=4k\n[a]\nblocksize=8k\nbs=16k\n[global]\nbs=64k\n[b]\nwait_for_previous\nname=c\n";
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
        ("ioengine=pvsync2\nhipri", "psync+iopoll"),
        ("ioengine=posixaio", "posix_aio"),
        ("ioengine=libaio", "libaio"),
        ("ioengine=io_uring\nnonvectored=1", "io_uring"),
        ("ioengine=io_uring\nhipri=1\nfixedbufs", "io_uring+iopoll,fixedbufs"),
        ("ioengine=io_uring\nhipri=0\nregisterfiles=1", "io_uring,fixedfiles"),
        ("ioengine=io_uring\nsqthread_poll", "io_uring+sqpoll,fixedfiles"),
        ("ioengine=io_uring\nsqthread_poll\nregisterfiles=0\nhipri", "io_uring+sqpoll+iopoll"),
        ("ioengine=io_uring_cmd\ncmd_type=nvme\nhipri", "io_uring_cmd+iopoll"),
        ("ioengine=null\nsize=1g", "null"),
    ] {
        let missing_here = path == "posix_aio" && iolane::interface_of(&IoPath::new(path)).is_err();
        if !missing_here {
            assert_eq!(one(lines).path, path.parse().unwrap(), "{lines}");
        }
    }
    let job = one("ioengine=io_uring\nsqthread_poll\nsqthread_poll_cpu=3");
    assert_eq!(job.placement.sqpoll_cpus, Some("3".parse().unwrap()));
    let job = one("ioengine=io_uring\nsqthread_poll=0\nsqthread_poll_cpu=3");
    assert_eq!(job.placement.sqpoll_cpus, None);
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
        ("size=50%", (Amount::Targets, None)),
        ("filesize=2m", (Amount::Bytes(2 << 20), None)),
        ("filesize=2m\nsize=1m", (Amount::Bytes(1 << 20), None)),
        ("size=1m\nloops=3", (Amount::Bytes(3 << 20), None)),
        ("size=1m\nnumber_ios=10", (Amount::Bytes(40 << 10), None)),
        ("bs=1m\nnumber_ios=10\nsize=1m", (Amount::Bytes(1 << 20), None)),
        ("number_ios=10", (Amount::Bytes(40 << 10), None)),
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
    let plan = Job { amount: Amount::Targets, size: Some(Size::Percent(35)), ..job("") }.plan(vec![target("null:1m")]);
    assert_eq!((plan.workload.size, plan.workload.bytes_max), (Some(89 * 4096), Some(89 * 4096)));
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
    let scratch = |folder: &str, bytes| Place::Scratch { folder: folder.into(), bytes, shared: false };
    assert_eq!([&jobs[0].place, &jobs[1].place], [&scratch(".", 1 << 20), &scratch("/mnt", 2 << 20)]);
    // fio's threads share a file whose name lacks the number of the thread.
    let is_shared = |format: &str| {
        let jobs = parse(&format!("[a]\nsize=1m\nnumjobs=2\nfilename_format={format}\n")).unwrap();
        matches!(jobs[0].place, Place::Scratch { shared: true, .. })
    };
    assert_eq!(["log", "$jobname", "$jobname.$jobnum"].map(is_shared), [true, true, false]);
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
    assert_eq!(one("rate_iops=500\nnumjobs=4").workload.rate, Some("2k".parse().unwrap()));
    assert_eq!(one("rw=randread\nrandom_distribution=zipf").workload.offsets.to_string(), "zipf:1.1");
    assert_eq!(one("rw=read\nrandom_distribution=zipf:1.2").workload.offsets, OffsetPattern::UNIFORM);
    let offsets = |lines: &str| one(lines).workload.offsets.to_string();
    assert_eq!(offsets("rw=randread\nrandom_distribution=zoned:50/5:30/15:20/"), "zoned:50/5:30/15:20/80");
    assert_eq!(offsets("rw=randread\nrandom_distribution=zoned:/10:/20:40/"), "zoned:30/10:30/20:40/70");
    let sequence = "rw=randread\nrandom_distribution=sequence:2,0,1";
    assert_eq!(offsets(sequence), "sequence:2:0:1");
    assert_eq!(offsets(&format!("{sequence}\nrandom_sequence_stride=1")), "sequence:2:0:1/3");
    assert_eq!((offsets("rw=read:-8k"), offsets("rw=write:112k\nbs=16k")), ("skip:-8k".into(), "skip:112k".into()));
    assert_eq!((offsets("rw=read:0"), offsets("rw=randread:1")), ("uniform".into(), "uniform".into()));
    let zones = "zonemode=strided\nzonesize=256m\nzoneskip=2g";
    assert_eq!(offsets(zones), "skip:2g/256m");
    assert_eq!(offsets(&format!("{zones}\nzonerange=1g")), "skip:2816m/256m");
    assert_eq!(offsets("zonemode=strided\nzonesize=1m"), "uniform");
    assert_eq!((one("blockalign=8k").workload.align, one("ba=4k").workload.align), (Some(8192), None));
    assert_eq!(one("offset=1g").workload.start, 1 << 30);
    let data = |lines: &str| one(&format!("rw=write\n{lines}")).workload.data.to_string();
    assert_eq!(data("buffer_compress_percentage=30"), "compress:30");
    assert_eq!((data("zero_buffers"), data("dedupe_percentage=40")), ("compress:100".into(), "dedupe:40/5".into()));
    let working_set = "dedupe_percentage=40\ndedupe_mode=working_set\ndedupe_working_set_percentage=9";
    assert_eq!(data(working_set), "dedupe:40/9");
    assert_eq!(one("dedupe_percentage=40").workload.data.to_string(), "random", "a job that only reads");
    let durable = |lines: &str| one(lines).workload.durable;
    assert!(durable("rw=write\nsync=dsync") && durable("rw=write\nsync=1"));
    assert!(!durable("rw=write\nsync=none") && !durable("rw=read\nsync=1"));
    let syncs = one("rw=write\nfdatasync=1").workload;
    assert_eq!((syncs.fsync_every, syncs.fdatasync_every), (None, Some(1)));
    let batches = |lines: &str| {
        let load = one(&format!("ioengine=libaio\niodepth=16\n{lines}")).workload;
        (load.batch_submit, load.batch_complete, load.batch_complete_max)
    };
    assert_eq!(batches(""), (Some(1), None, Some(1)), "fio's defaults");
    let eight = "iodepth_batch_submit=8\niodepth_batch_complete=8";
    assert_eq!(batches(eight), (Some(8), Some(8), Some(8)));
    assert_eq!(batches(&format!("{eight}\niodepth_batch_complete_max=99")), (Some(8), Some(8), None));
    assert_eq!(batches("iodepth_batch=0\niodepth_batch_complete_max=16"), (None, None, None));
    assert_eq!(one("ioengine=psync").workload.batch_submit, None, "one request in flight");
}

#[test]
fn the_rates_of_reads_and_writes_are_a_rate_and_a_mix() {
    let load = |lines: &str| {
        let job = one(lines);
        (job.workload.rate.map(Rate::per_s), job.workload.read_percent, job.notes.len())
    };
    assert_eq!(load("rw=randrw\nrate_iops=300,100"), (Some(400.0), Some(75), 1));
    assert_eq!(load("rw=rw\nrate_iops=100\nnumjobs=2\nrwmixread=50").0, Some(400.0));
    assert_eq!(load("rw=rw\nrate_iops=300,100,7\nrwmixread=75"), (Some(400.0), Some(75), 1));
    assert_eq!(load("rw=rw\nrate_iops=0"), (None, None, 0));
    assert_eq!(load("rw=read\nrate_iops=,100"), (None, None, 0));
    assert_eq!(load("rw=write\nrate_iops=7,100"), (Some(100.0), None, 1));
    assert_eq!(load("rw=read\nbs=8k\nrate=1m"), (Some(128.0), None, 1));
    assert_eq!(load("rw=rw\nrate=12k,4k\nnumjobs=2").0, Some(8.0));
    assert_eq!(load("rw=read\nrate=0\nrate_iops=5").0, Some(5.0));
    let notes = one("rw=rw\nrate_iops=2,1\nrwmixread=50").notes;
    let told = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(told("reads are 67 % of the requests; the rates of fio are 66.67 %"), "{notes:?}");
    assert!(told("from rate_iops, instead of 50 %"), "{notes:?}");
}

#[test]
fn differences_from_fio_are_noted() {
    for (lines, part) in [
        ("rw=randread\nnorandommap=0", "without norandommap fio covers every block once"),
        ("iodepth=8", "one request in flight, as in fio: iodepth=8"),
        ("ioengine=libaio\niodepth=8\nthinktime=5ms", "with thinktime a thread keeps one request in flight"),
        ("numjobs=2", "in fio all start at offset 0"),
        ("numjobs=2\nfilename=a:b", "each thread uses one target"),
        ("numjobs=2\nrw=randread\ngroup_reporting=0", "the total of all threads"),
        ("direct=0", "page cache"),
        ("rw=write\nend_fsync=1", "end_fsync: iolane does not sync at the end; with direct=1 the page cache holds"),
        ("nrfiles=4", "nrfiles=4: one file of the whole size stands for the 4 files"),
        ("rate_iops=10", "latency counts from the scheduled start"),
        ("rw=randrw\nverify=crc32c", "not fio's verify=crc32c"),
        ("rw=write\nverify=md5", "not fio's verify=md5, and reads back what was written after the measured phase"),
        ("rw=write\nverify=md5\ndo_verify=0", "not fio's verify=md5, and reads nothing back with do_verify=0"),
        ("rw=read\nverify=md5", "the target must hold what iolane wrote with the same randseed and bs"),
        ("rw=write\nfill_device=1", "fill_device writes the target, or its size, once"),
        ("cpus_allowed=0-1", "pinned to the first"),
        ("time_based", "no effect without runtime"),
        ("bsrange=4k-8k", "multiples of the smallest size, with equal probability: 4k-8k"),
        ("ioengine=io_uring\nsqthread_poll\nregisterfiles=0", "fio registers the file with sqthread_poll regardless"),
        ("ioengine=io_uring\nnonvectored=0", "iolane does not"),
        ("ioengine=null\nsize=1m", "not opened"),
    ] {
        let notes = one(lines).notes;
        assert!(notes.len() == 1 && notes[0].contains(part), "{lines}: {notes:?}");
    }
}

#[test]
fn every_error_of_a_file_is_reported_once_with_its_line() {
    let error = parse("[global]\nturbo=1\nfilename=x\n[a]\nbs=4x\n[b]\nrw=trim\nnice=2").unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("job file job.fio: it has 4 errors:"), "{error}");
    let told = ["line 2: `turbo=1`", "line 5: `bs=4x`", "line 8: `nice=2`", "line 7: `rw=trim`"];
    assert_eq!(lines.len(), 1 + told.len(), "{error}");
    assert!(lines[1..].iter().zip(told).all(|(line, told)| line.contains(told)), "{error}");
    // An error of the job as a whole may be due to the option that is not known.
    let error = parse("[a]\nfilenam=x\nbs=4k").unwrap_err().to_string();
    assert!(error.lines().count() == 1 && error.contains("did you mean filename?"), "{error}");
    let error = parse("[a]\nfilename=x\nbs=4x\n[b]\nfilename=x\nrw=trim").unwrap_err().to_string();
    assert!(
        error.contains("\n  job.fio line 3: `bs=4x`") && error.contains("\n  job.fio line 6: `rw=trim`"),
        "{error}"
    );
}

#[test]
fn a_misspelt_option_suggests_the_one_that_was_probably_meant() {
    let error = parse("[a]\nfilename=x\niodeph=4").unwrap_err().to_string();
    assert!(error.contains("`iodeph=4`: this option is not supported; did you mean iodepth? "), "{error}");
}

#[test]
fn options_that_change_no_load_are_accepted_with_a_note_and_defaults_without() {
    let defaults = "loops=1\nblockalign=4k\ndo_verify=1\nexit_what=group\nsync=0\nio_submit_mode=inline\nnrfiles=1\noffset=0\nstartdelay=0\nthinktime_blocks=1\nzonemode=none\nrate=0";
    assert_eq!(one(defaults).notes, one("").notes);
    let notes = one("percentile_list=50:99\nrandrepeat=1\nwrite_bw_log=x\npercentile_list=99").notes;
    let told = |part: &str| notes.iter().filter(|note| note.contains(part)).count();
    assert_eq!(told("`percentile_list`, `write_bw_log` have no effect: fio's output, not the load"), 1, "{notes:?}");
    assert_eq!(told("`randrepeat` has no effect: fio's random seeds"), 1, "{notes:?}");
}

#[test]
fn unsupported_options_are_refused_by_line_with_a_remedy() {
    for (lines, parts) in [
        (
            "bs=4k\nturbo=1",
            &[
                "job.fio line 4: `turbo=1`: ",
                "this option is not supported",
                "; remove it",
                "--lenient",
                "`iolane help fio`",
            ][..],
        ),
        ("offset_increment=1g", &["line 3: `offset_increment=1g`: fio would start", "; leave it out", "--lenient"]),
        ("rw=write\nfsync=1\nfdatasync=2", &["line 1: job [a]: fsync=1 with fdatasync=2", "needs one of them"]),
        ("rw=write\ndedupe_percentage=101", &["line 4: `dedupe_percentage=101`", "cannot exceed 100"]),
        ("rw=write\ndedupe_percentage=1\ndedupe_mode=x", &["line 5: `dedupe_mode=x`", "repeat or working_set"]),
        ("sync=2", &["line 3: `sync=2`", "none, sync or dsync"]),
        ("offset=5%", &["line 3: `offset=5%`", "in bytes"]),
        ("rw=randread:8", &["line 3: `rw=randread:8`", "a new offset for each random request"]),
        ("rw=read:-8k\nzonemode=strided\nzonesize=1m\nzoneskip=1m", &["line 4: `zonemode=strided`", "rw skips bytes"]),
        ("rw=read:6k", &["line 1: job [a]: offset pattern `skip:6k`", "6144 is not a multiple of 4k"]),
        ("rw=read:x", &["line 3: `rw=read:x`", "not a whole number"]),
        ("zonemode=zbd", &["line 3: `zonemode=zbd`", "no zoned block devices"]),
        ("zonemode=strided", &["line 3: `zonemode=strided`", "needs zonesize"]),
        ("rw=randread\nzonemode=strided", &["line 4: `zonemode=strided`", "sequential access only"]),
        ("zonemode=strided\nzonesize=2m\nzonerange=1m", &["line 5: `zonerange=1m`", "not smaller than zonesize"]),
        ("rw=randread\nrandom_distribution=zoned:90/90:20/10", &["line 4", "exceed"]),
        ("rw=randread\nrandom_distribution=zoned:50/50:50/,1/1", &["line 4", "the same zones for reads and writes"]),
        ("rw=randread\nrandom_distribution=zoned:/1:/1:/98", &["line 4", "cannot be spread equally"]),
        ("bs", &["line 3: `bs`: it needs a value"]),
        ("bs=", &["line 3: `bs=`: it needs a value"]),
        ("bs=4x", &["line 3: `bs=4x`: ", "not a whole number", "fio(1)"]),
        ("bs=0", &["`bs=0`", "between 1 byte and 1g"]),
        ("rw=rw\nbs=4k,8k", &["line 4: `bs=4k,8k`", "one job for the reads"]),
        ("bssplit=4k/60:8k/60", &["sum to 120"]),
        ("rw=trim", &["line 3: `rw=trim`", "no discard workload"]),
        ("rw=randread:8", &["line 3: `rw=randread:8`"]),
        ("size=99999999999g\nloops=99999999999", &["line 3: `size=99999999999g`"]),
        ("flow=2", &["line 3: `flow=2`: fio would keep jobs in that proportion; use one job"]),
        ("ioengine=mmap", &["line 3: `ioengine=mmap`", "use psync"]),
        ("rw=read\nsize=1k", &["line 1: job [a]: size=1k with bs=4k", "smaller than a block of 4k"]),
        (
            "ioengine=libaio\nhipri",
            &["line 4: `hipri`: ioengine=libaio does not have this option", "use ioengine=pvsync2"],
        ),
        ("ioengine=io_uring_cmd\ncmd_type=scsi", &["line 4", "use cmd_type=nvme"]),
        ("direct=yes", &["line 3: `direct=yes`", "0 or 1"]),
        ("iodepth=0", &["line 3: `iodepth=0`", "between 1 and"]),
        ("numjobs=5000", &["line 3: `numjobs=5000`", "between 1 and 4096"]),
        ("numjobs=4096\n[b]\nfilename=x", &["line 4: job [b]: ", "more than 4096 threads"]),
        ("ioengine=libaio\niodepth=16\niodepth_batch=x", &["line 5: `iodepth_batch=x`"]),
        (
            "rw=rw\nrate_iops=100,0",
            &["line 4: `rate_iops=100,0`", "only reads or only writes", "one job for the reads"],
        ),
        ("rw=rw\nrate_iops=,100", &["line 4: `rate_iops=,100`", "only reads or only writes"]),
        ("rw=rw\nrate_iops=1,1000", &["line 4: `rate_iops=1,1000`", "half a percent"]),
        ("rw=read\nrate=1m\nrate_iops=5", &["line 4: `rate=1m`", "use one of them"]),
        ("rw=read\nrate=1m\nbsrange=4k-8k", &["line 4: `rate=1m`", "use one block size"]),
        ("bsrange=4k-8k\nnumber_ios=5", &["line 4: `number_ios=5`", "use one block size"]),
        ("loops=5", &["line 3: `loops=5`", "no size to repeat"]),
        ("rw=write\nend_fsync=1", &["line 4: `end_fsync=1`", "page cache", "use direct=1"]),
        ("rw=write\nrate=4m\nthinktime=1ms", &["line 5: `thinktime=1ms`: rate decides", "leave rate or thinktime out"]),
        ("io_submit_mode=offload", &["line 3: `io_submit_mode=offload`", "add rate_iops"]),
        ("size=0%", &["line 3: `size=0%`", "between 1 and 100"]),
        ("size=101%", &["line 3: `size=101%`", "between 1 and 100"]),
        ("size=5%\nfilename=a:b\nnumjobs=2", &["line 3: `size=5%`", "single target"]),
        ("size=5%\nioengine=null", &["line 3: `size=5%`", "no target whose size"]),
        ("size=5%\nfilesize=1g", &["line 4: `filesize=1g`", "size is a percentage"]),
        ("blockalign=8x", &["line 3: `blockalign=8x`", "not a whole number"]),
        ("rw=rw\nverify=md5\ndo_verify=0", &["line 5: `do_verify=0`", "leave out verify"]),
        ("hugepage-size=4m", &["line 3: `hugepage-size=4m`: fio would use pages of that size"]),
        ("wait_for=b", &["line 3: `wait_for=b`", "no job of that name"]),
        ("rw=rw\nrate_iops=1,x", &["line 4: `rate_iops=1,x`", "not a whole number"]),
        ("rw=randread\nrandom_distribution=normal:10", &["line 4", "expected random, zipf, pareto, zoned or sequence"]),
        ("rw=write\nverify=md5\nverify_backlog=8", &["line 5: `verify_backlog=8`", "after that many writes"]),
        ("rw=write\nverify=md5\nverify_only", &["line 5: `verify_only`", "use rw=read or rw=randread with verify"]),
        ("rw=randwrite\nfill_device=1", &["line 4: `fill_device=1`", "sequential writes only"]),
        ("rw=read\nfill_fs=1", &["line 4: `fill_fs=1`", "use a job with rw=write before this one"]),
        ("filename=a:b", &["line 3: `filename=a:b`: 2 targets", "numjobs=2"]),
        ("filename=:", &["line 3: `filename=:`", "names no target"]),
        ("directory=/a:/b", &["line 3: `directory=/a:/b`"]),
        ("runtime=1.5", &["line 3: `runtime=1.5`"]),
        ("size=1k", &["line 1: job [a]: ", "smaller than a block of 4k"]),
        ("rate_iops=9\nthinktime=5", &["line 4: `thinktime=5`: rate_iops decides", "leave rate_iops or thinktime out"]),
        ("ioengine=null", &["line 1: job [a]: ioengine=null needs a size"]),
        ("kb_base=10", &["line 3: `kb_base=10`"]),
        ("randseed=-1", &["line 3: `randseed=-1`"]),
    ] {
        let error = parse(&format!("[a]\nfilename=x\n{lines}")).expect_err(lines).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{lines}: {error}");
    }
    let error = parse("[a]\nrw=write\nfill_device=1").unwrap_err().to_string();
    assert!(
        error.contains("line 3: `fill_device=1`") && error.contains("size of a scratch file is not known"),
        "{error}"
    );
    let error = parse("[a]\nbs=4k").unwrap_err().to_string();
    assert!(error.contains("line 1: job [a]: it has neither filename nor size"), "{error}");
}

#[test]
fn writes_are_verified_after_them_and_reads_as_they_complete() {
    let verified = |lines: &str| {
        let plan = one(lines).plan(vec![Target::open("sim:16m").unwrap()]);
        (plan.workload.verify, plan.reads_back(), plan.checks_reads())
    };
    assert_eq!(verified("rw=randwrite\nverify=crc32c"), (true, true, true));
    assert_eq!(verified("rw=write\nverify=crc32c\ndo_verify=0"), (true, false, false));
    assert_eq!(verified("rw=write\ndo_verify=1"), (false, false, false));
    assert_eq!(verified("rw=write\nverify_pattern=0xff"), (true, true, true));
    assert_eq!(verified("rw=write\nverify=0\nverify_pattern=0xff"), (false, false, false));
    assert_eq!(verified("rw=read\nverify=md5"), (true, false, true));
    assert_eq!(verified("rw=randread\nverify=md5\ndo_verify=0"), (true, false, true));
    assert_eq!(verified("rw=randrw\nverify=md5"), (true, false, true));
}

#[test]
fn how_fio_builds_its_own_check_is_noted_once() {
    let load = "rw=write\nverify=meta\n";
    let how = "verify_pattern=0xaa555aa5\nverify_interval=512\nverify_offset=16\nverify_async=2\nverifysort=0";
    let notes = one(&format!("{load}{how}")).notes;
    let expected =
        "`verify_interval`, `verify_offset`, `verify_async`, `verifysort` have no effect: how fio builds and";
    assert!(notes.len() == 2 && notes[1].starts_with(expected), "{notes:?}");
}

#[test]
fn a_job_that_fills_its_target_ends_with_it() {
    assert_eq!(one("rw=write\nfill_device=1").amount, Amount::Targets);
    assert_eq!(one("rw=write\nfill_fs=1\nsize=1m").amount, Amount::Bytes(1 << 20));
    assert_eq!(one("rw=read\nfill_device=0").notes, one("").notes);
    let jobs = parse("[a]\nrw=write\nfill_device=1\nsize=1m\n").unwrap();
    assert_eq!(jobs[0].place, Place::Scratch { folder: ".".into(), bytes: 1 << 20, shared: false });
}

#[test]
fn a_surface_scan_writes_a_target_once_and_verifies_it_in_a_job_of_its_own() {
    let text = "[global]\nthread\nbs=64k\ndirect=1\nioengine=sync\nverify=meta\nverify_pattern=0xaa555aa5\n\
                verify_interval=512\nfilename=disk\n[write]\nrw=write\nfill_device=1\ndo_verify=0\n\
                [verify]\nstonewall\ncreate_serialize=0\nrw=read\ndo_verify=1\n";
    let jobs = parse(text).unwrap();
    let plans: Vec<_> = jobs.iter().map(|job| job.plan(vec![Target::open("sim:16m").unwrap()])).collect();
    assert!(plans.iter().all(|plan| plan.path == IoPath::new("psync") && plan.workload.verify));
    assert!(plans.iter().all(|plan| plan.workload.bytes_max == Some(16 << 20)));
    assert_eq!((plans[0].checks_reads(), plans[1].checks_reads(), jobs[1].stonewall), (false, true, true));
}

#[test]
fn a_job_can_start_later_than_others() {
    assert_eq!(one("startdelay=2").delay, Duration::from_secs(2));
    assert_eq!(one("startdelay=200ms").delay, Duration::from_millis(200));
    let error = parse("[a]\nfilename=x\nstartdelay=1-5").unwrap_err().to_string();
    assert!(error.contains("line 3: `startdelay=1-5`"), "{error}");
}

#[test]
fn exitall_is_of_the_whole_file_and_exit_what_of_a_job() {
    let read = |text: &str| parse(&format!("[global]\nsize=1m\n{text}"));
    let text = "[a]\nexit_what=stonewall\n[b]\nnew_group\n[c]\nstonewall\nexit_what=all\n[d]\nwait_for=c\nexitall";
    let ends: Vec<_> = read(text).unwrap().iter().map(|job| (job.group, job.ends)).collect();
    let expected = [(0, Ends::Running), (1, Ends::Group), (2, Ends::All), (2, Ends::Group)];
    assert_eq!(ends, expected.map(|(group, ends)| (group, Some(ends))));
    let told = |text: &str, part: &str| -> Vec<bool> {
        let jobs = read(text).unwrap();
        jobs.iter().map(|job| job.notes.iter().any(|note| note.contains(part))).collect()
    };
    assert_eq!(told("[a]\nexit_what=all\n[b]", "no effect without exitall"), [true, false]);
    assert_eq!(told("[a]\nexitall=0\n[b]", "exitall=0 ends other jobs"), [true, true]);
    let threads = "[a]\nexitall\nnumjobs=2\n[b]\n[c]\nnumjobs=2\ntime_based\nruntime=1";
    assert_eq!(told(threads, "all of its threads"), [true, false, false]);
    let delayed = "[a]\nexitall\nexit_what=stonewall\n[b]\nstartdelay=1";
    assert_eq!(told(delayed, "during its startdelay"), [false, true]);
    let error = read("[a]\nexit_what=none").unwrap_err().to_string();
    assert!(error.contains("line 4: `exit_what=none`: expected group, stonewall or all"), "{error}");
}

#[test]
fn waiting_for_the_only_job_that_runs_is_a_stonewall() {
    let stonewalls = |text: &str| -> Result<Vec<bool>> {
        Ok(parse(&format!("[global]\nsize=1m\n{text}"))?.iter().map(|job| job.stonewall).collect())
    };
    assert_eq!(stonewalls("[a]\n[b]\nwait_for=a\n[c]\nwait_for=b").unwrap(), [false, true, true]);
    assert_eq!(stonewalls("[a]\n[b]\nstonewall\n[c]\nwait_for=a").unwrap(), [false, true, false]);
    let error = stonewalls("[a]\n[b]\n[c]\nwait_for=a").unwrap_err().to_string();
    assert!(error.contains("line 6: `wait_for=a`: fio would start it while other jobs") && error.contains("stonewall"));
}

#[test]
fn unsupported_options_can_be_ignored_and_each_is_noted() {
    let lenient = |lines: &str| {
        let file = JobFile::parse("job.fio", format!("[a]\nfilename=x\ndirect=1\n{lines}").as_bytes()).unwrap();
        jobs_with(&file, Unsupported::Ignored)
    };
    let job = lenient("flow=2\npre_read=1\nbs=8k\nturbo").unwrap().remove(0);
    let expected = [
        "ignored: `flow=2` (line 4): fio would keep jobs in that proportion",
        "ignored: `pre_read=1` (line 5): fio would read the file into the page cache first",
        "ignored: `turbo` (line 7): this option is not supported",
    ];
    assert_eq!((&job.notes[..], job.workload.block_sizes.single()), (&expected.map(String::from)[..], Some(8192)));
    for (lines, part) in [
        ("flow=2\nbs=4x", "line 5: `bs=4x`"),
        ("rw=trim", "line 4: `rw=trim`"),
        ("size=1k", "job [a]: size=1k with bs=4k"),
    ] {
        let error = lenient(lines).expect_err(lines).to_string();
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        lines in prop::collection::vec(
            ("[a-z_]{1,8}|bs|rw|size|filename|runtime|iodepth|numjobs|bssplit|cpus_allowed|ioengine|loops|rate|rate_iops|filesize|number_ios|startdelay|blockalign|wait_for|rwmixread", "\\PC{0,12}|[0-9a-z:,/%-]{0,12}|rw|[0-9]{1,20}"),
            0..6,
        ),
    ) {
        let lines: Vec<String> = lines.into_iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        let _ = parse(&format!("[a]\nsize=1m\n{}", lines.concat()));
    }
}
