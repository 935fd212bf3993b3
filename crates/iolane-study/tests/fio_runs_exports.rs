//! Real fio runs every kind of arm that `iolane study --fio` writes, on scratch files, and reports the load of the arm. Needs
//! fio, and of each path that the machine has it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use iolane::Target;
use iolane::units::Bytes;
use iolane_measure::workload::{Access, Arrivals, Rate, Workload};
use iolane_study::fio::{JobSpec, job_text};
use serde_json::Value;

const TEST: &str = "fio_runs_every_kind_of_arm_that_is_exported";
const FILE_BYTES: u64 = 1 << 20;

/// An arm whose section has its name.
fn arm(name: &str, path: &str, target: &str, change: impl Fn(&mut Workload)) -> JobSpec {
    let mut workload = Workload { depth: 4, size: Some(FILE_BYTES), ..Workload::default() };
    change(&mut workload);
    JobSpec {
        name: name.replace([',', ':'], " "),
        path: path.parse().unwrap(),
        workload,
        threads: 1,
        targets: vec![target.into()],
        runtime: Duration::from_millis(50),
        warmup: Duration::ZERO,
        direct: true,
        cpus: None,
        sqpoll_cpus: None,
    }
}

/// The paths that this machine has on a file, of those that fio has.
fn paths(target: &str) -> Vec<&'static str> {
    let file = Target::open(target).unwrap();
    let is_here = |path: &&str| match iolane::probe(&path.parse().unwrap(), &file) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("SKIPPED {TEST} {path}: {}", why.cause());
            false
        }
    };
    let all = [
        "psync",
        "psync+iopoll",
        "posix_aio",
        "libaio",
        "io_uring",
        "io_uring,fixedbufs,fixedfiles",
        "io_uring+sqpoll,fixedfiles",
        "io_uring+iopoll,fixedbufs",
        "io_uring_cmd",
    ];
    all.into_iter().filter(is_here).collect()
}

fn arms(target: &str, other: &str) -> Vec<JobSpec> {
    let path_arm = |path: &str| {
        let depth = if path.starts_with("psync") { 1 } else { 4 };
        arm(path, path, target, |load| load.depth = depth)
    };
    let mut arms: Vec<JobSpec> = paths(target).into_iter().map(path_arm).collect();
    arms.push(arm("null", "null", target, |_| {}));
    let rate = |per_s| Some(Rate::new(per_s).unwrap());
    let mut load = |name: &str, change: &dyn Fn(&mut Workload)| arms.push(arm(name, "libaio", target, change));
    for access in Access::ALL {
        load(&format!("access {access}"), &|load| load.access = access);
    }
    load("mix", &|load| (load.access, load.read_percent) = (Access::RandRw, Some(70)));
    load("sizes", &|load| load.block_sizes = "4k-64k".parse().unwrap());
    load("split", &|load| load.block_sizes = "4k/70:64k/30".parse().unwrap());
    load("shares", &|load| load.block_sizes = "4k/50:8k:16k".parse().unwrap());
    for offsets in ["zipf:1.2", "pareto:0.3", "zoned:50/5:30/15:20/80"] {
        load(offsets, &|load| load.offsets = offsets.parse().unwrap());
    }
    for offsets in ["skip:8k", "skip:-8k", "skip:64k/32k"] {
        load(offsets, &|load| (load.access, load.offsets) = (Access::Read, offsets.parse().unwrap()));
    }
    load("aligned", &|load| (load.align, load.start, load.size) = (Some(16384), 1 << 18, Some(1 << 19)));
    load("fdatasync", &|load| (load.access, load.fdatasync_every) = (Access::Write, Some(4)));
    load("fsync", &|load| (load.access, load.fsync_every) = (Access::RandWrite, Some(8)));
    load("one by one", &|load| (load.batch_submit, load.batch_complete_max) = (Some(1), Some(1)));
    load("batches", &|load| {
        (load.batch_submit, load.batch_complete, load.batch_complete_max) = (Some(2), Some(2), Some(3));
    });
    load("rate", &|load| load.rate = rate(2000.0));
    load("poisson", &|load| (load.rate, load.arrivals) = (rate(2000.0), Arrivals::Poisson));
    load("mixed rate", &|load| {
        (load.access, load.read_percent, load.rate) = (Access::Rw, Some(25), rate(4000.0));
    });
    load("think time", &|load| (load.depth, load.think_us) = (1, Some(50)));
    arms.push(JobSpec {
        threads: 3,
        targets: vec![target.into(), other.into()],
        ..arm("targets", "libaio", target, |_| {})
    });
    arms.push(JobSpec { threads: 2, targets: vec![], ..arm("scratch", "io_uring", target, |load| load.depth = 8) });
    arms.push(JobSpec {
        cpus: Some("0".parse().unwrap()),
        direct: false,
        ..arm("placed", "psync", target, |load| load.depth = 1)
    });
    arms
}

/// What fio reports of the options of an arm: those of its last section, which has the threads of the last target.
fn expected_options(arm: &JobSpec) -> Vec<(&'static str, String)> {
    let load = &arm.workload;
    let threads = arm.threads / arm.targets.len().max(1);
    let sizes = load.block_sizes.to_string();
    let option = if sizes.contains('/') {
        "bssplit"
    } else if sizes.contains('-') {
        "bsrange"
    } else {
        "bs"
    };
    let mut expected = vec![
        ("rw", access_with_skip(load)),
        (option, sizes),
        ("iodepth", load.depth.to_string()),
        ("numjobs", threads.to_string()),
        ("direct", u8::from(arm.direct).to_string()),
    ];
    if load.access.is_mixed() {
        expected.push(("rwmixread", load.read_percent().to_string()));
    }
    match load.rate.map(Rate::per_s) {
        Some(per_s) if load.access.is_mixed() => {
            let reads = per_s * f64::from(load.read_percent()) / 100.0;
            expected.push(("rate_iops", format!("{reads},{}", per_s - reads)));
        }
        Some(per_s) => expected.push(("rate_iops", per_s.to_string())),
        None => {}
    }
    if load.arrivals == Arrivals::Poisson {
        expected.push(("rate_process", "poisson".into()));
    }
    let batch = |limit: Option<u32>| (load.depth > 1).then(|| limit.unwrap_or(load.depth).to_string());
    let numbers = [
        ("fsync", load.fsync_every.map(|every| every.to_string())),
        ("fdatasync", load.fdatasync_every.map(|every| every.to_string())),
        ("iodepth_batch", batch(load.batch_submit).filter(|_| load.rate.is_none())),
        ("iodepth_batch_complete_max", batch(load.batch_complete_max)),
        ("ba", load.align.map(|align| Bytes(align.into()).to_string())),
        ("offset", Some(load.start).filter(|start| *start > 0).map(|start| Bytes(start).to_string())),
    ];
    expected.extend(numbers.into_iter().filter_map(|(option, number)| Some((option, number?))));
    expected.extend(load.think_us.map(|think_us| ("thinktime", format!("{think_us}us"))));
    match load.offsets.to_string().as_str() {
        "uniform" | "skip:8k" | "skip:-8k" => {}
        "skip:64k/32k" => expected.extend([("zonesize", "32k".into()), ("zoneskip", "64k".into())]),
        other => expected.push(("random_distribution", other.into())),
    }
    expected
}

/// fio's rw, with what is left out after each block.
fn access_with_skip(load: &Workload) -> String {
    let skip = load.offsets.to_string().strip_prefix("skip:").filter(|skip| !skip.contains('/')).map(str::to_owned);
    skip.map_or(load.access.to_string(), |skip| format!("{}:{skip}", load.access))
}

fn check(arm: &JobSpec, job: &Value) {
    let name = &arm.name;
    // fio would take what is before a `/` for a folder.
    assert_eq!((&job["jobname"], &job["error"]), (&name.replace('/', "-").into(), &0.into()), "{job:#}");
    for (option, value) in expected_options(arm) {
        assert_eq!(job["job options"][option], value.as_str(), "{option} of {name}: {}", job["job options"]);
    }
    let ios = |kind: &str| job[kind]["total_ios"].as_u64().unwrap();
    let (reads, writes) = (ios("read"), ios("write"));
    let access = arm.workload.access;
    assert!(
        reads + writes > 0 && (reads == 0 || access.reads()) && (writes == 0 || access.writes()),
        "{name}: {job:#}"
    );
    if let Some(every) = arm.workload.fsync_every.or(arm.workload.fdatasync_every) {
        let syncs = ios("sync");
        assert!(syncs <= writes / u64::from(every) + 1, "{name}: {syncs} syncs of {writes} writes");
    }
    if let Some(rate) = arm.workload.rate {
        // Twice the rate, as arrivals may be random.
        let most = 20.0 + 2.0 * rate.per_s() * job["job_runtime"].as_f64().unwrap() / 1000.0;
        assert!((reads + writes) as f64 <= most, "{name}: {} requests, and not {most}", reads + writes);
    }
}

fn run(folder: &Path, arms: &[JobSpec]) -> Value {
    std::fs::write(folder.join("arms.fio"), job_text(arms)).unwrap();
    let ended = Command::new("fio")
        .args(["--output-format=json", "--output=out.json", "arms.fio"])
        .current_dir(folder)
        .output();
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{}: {said}", ended.status);
    let text = std::fs::read_to_string(folder.join("out.json")).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{said}"))
}

#[test]
fn fio_runs_every_kind_of_arm_that_is_exported() {
    if Command::new("fio").arg("--version").output().is_err() {
        return eprintln!("SKIPPED {TEST}: fio is not installed");
    }
    // On a disk, for O_DIRECT.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![1; FILE_BYTES as usize]).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let arms = arms(&file("one"), &file("two"));
    let report = run(folder.path(), &arms);
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), arms.len(), "fio ran other jobs: {report:#}");
    arms.iter().zip(jobs).for_each(|(arm, job)| check(arm, job));
}
