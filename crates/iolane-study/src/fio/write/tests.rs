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
        iodepth_batch=32\niodepth_batch_complete_min=1\niodepth_batch_complete_max=32\n\
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
    assert!(!job_text(&[JobSpec { sqpoll_cpus: Some("3".parse().unwrap()), ..spec() }]).contains("sqthread_poll_cpu"));
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
        (with(|load| (load.access, load.rate) = (Access::RandRw, Some(Rate::new(6.0).unwrap()))), "these are 1.5 and"),
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
        (read_percent, fsync) in (0u8..=100, prop::option::of(1u32..1000)),
        (submit, complete, complete_max) in any::<(Option<u32>, Option<u32>, Option<u32>)>(),
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
        // A limit of the depth is none.
        let below = |limit: Option<u32>| limit.map(|limit| 1 + limit % depth).filter(|limit| *limit < depth);
        let batch_submit = below(submit);
        let batch_complete = complete.map(|least| 1 + least % depth).filter(|least| *least > 1);
        let batch_complete_max = below(complete_max).filter(|most| batch_complete.is_none_or(|least| least <= *most));
        let workload = Workload {
            access,
            read_percent: access.is_mixed().then_some(read_percent),
            block_sizes: block_sizes.parse().unwrap(),
            // Multiples of every block size and alignment.
            offsets: if access.is_random() { offsets } else { skip }.parse().unwrap(),
            align,
            depth,
            batch_submit,
            batch_complete,
            batch_complete_max,
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
    jobs.push(JobSpec { targets: vec!["a:b".into(), "c d".into()], runtime: Duration::from_micros(1500), ..spec() });
    let scratch = with(|load| (load.size, load.seed) = (Some(1 << 20), i64::MAX as u64));
    jobs.push(JobSpec { targets: vec![], cpus: None, ..scratch });
    jobs.push(with(|load| {
        (load.access, load.read_percent) = (Access::RandRw, Some(70));
        (load.batch_submit, load.fsync_every, load.offsets) = (Some(4), Some(8), "zipf:1.2".parse().unwrap());
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
