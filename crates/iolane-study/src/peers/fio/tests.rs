use std::time::Duration;

use super::*;
use crate::peers::tests::{Arm, arguments};
use iolane_measure::workload::Access;

#[test]
fn the_command_contains_the_whole_load() {
    let mut arm = Arm::new("io_uring+sqpoll+iopoll,fixedbufs,fixedfiles", &["/dev/a:b", "/dev/c"]);
    (arm.cpus, arm.sqpoll_cpus) = (Some("0,2".parse().unwrap()), Some("4".parse().unwrap()));
    let load = Load {
        access: Access::RandRw,
        read_percent: 70,
        threads: 3,
        warmup: Duration::from_millis(1500),
        size: Some(1 << 20),
        ..arm.load()
    };
    assert_eq!(
        arguments(&Fio, &load),
        "--output-format=json+ --eta=never --thread --group_reporting --allow_file_create=0 --overwrite=1 --invalidate=0 \
         --rw=randrw --bs=4096 --rwmixread=70 --norandommap --randseed=1 --iodepth=16 --direct=1 \
         --iodepth_batch=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16 --time_based --runtime=2000000us --ramp_time=1500000us --lat_percentiles=1 --clat_percentiles=0 \
         --ioengine=io_uring --hipri=1 --sqthread_poll=1 --fixedbufs=1 --registerfiles=1 \
         --name=thread0 --filename=/dev/a\\:b --size=1048576 --cpus_allowed=0 --sqthread_poll_cpu=4 \
         --name=thread1 --filename=/dev/c --size=1048576 --cpus_allowed=2 --sqthread_poll_cpu=4 \
         --name=thread2 --filename=/dev/a\\:b --size=1048576 --cpus_allowed=0 --sqthread_poll_cpu=4"
    );
}

#[test]
fn the_limits_of_batches_are_those_of_the_load() {
    let arm = Arm::new("libaio", &["/x"]);
    let load = Load { batch_submit: Some(1), batch_complete: Some(2), batch_complete_max: Some(3), ..arm.load() };
    let expected = " --iodepth_batch=1 --iodepth_batch_complete_min=2 --iodepth_batch_complete_max=3 ";
    assert!(arguments(&Fio, &load).contains(expected), "{}", arguments(&Fio, &load));
}

#[test]
fn a_load_that_only_reads_cannot_write() {
    let arm = Arm::new("psync", &["/x"]);
    assert!(arguments(&Fio, &arm.load()).contains(" --readonly "));
    let load = Load { access: Access::Write, ..arm.load() };
    assert!(!arguments(&Fio, &load).contains("--readonly"));
}

#[test]
fn what_fio_cannot_run_is_refused_with_the_reason() {
    for (path, target, cause) in [
        ("nvme", "pci:0000:00:04.0", "fio has no engine for nvme"),
        ("io_uring,defer", "/x", "fio has no option for `defer`"),
        ("psync", "null:1g", "fio opens files and devices; null:1g is neither"),
        ("io_uring_cmd", "/dev/nvme0n1", "fio's io_uring_cmd needs a target /dev/ngXnY"),
    ] {
        let arm = Arm::new(path, &[target]);
        assert_eq!(Fio.cannot(&arm.load()).as_deref(), Some(cause));
    }
    for (path, target) in [("psync", "/x"), ("io_uring+sqpoll", "nullified"), ("io_uring_cmd", "/dev/ng0n1")] {
        assert_eq!(Fio.cannot(&Arm::new(path, &[target]).load()), None, "{path}");
    }
}

const MIXED: &str = include_str!("../../../tests/fixtures/peers/fio-io_uring-randrw-2-threads.json");

/// The expected sums are those in the sample under `lat_ns`, `iops`, `io_bytes` and `job_runtime`.
#[test]
fn reads_and_writes_of_all_threads_are_added_up() {
    let arm = Arm::new("io_uring", &["data"]);
    let measured = Fio.parse(MIXED, &Load { threads: 2, depth: 4, ..arm.load() }).unwrap();
    let json: serde_json::Value = serde_json::from_str(MIXED).unwrap();
    let job = &json["jobs"][0];
    let sum = |key: &str| ["read", "write"].map(|side| job[side][key].as_f64().unwrap()).iter().sum::<f64>();
    assert!(["read", "write"].iter().all(|side| job[side]["total_ios"].as_u64() > Some(0)));
    let ended = ["read", "write"].map(|side| job[side]["lat_ns"]["N"].as_u64().unwrap()).iter().sum::<u64>();
    assert_eq!((measured.ios, measured.iops), (ended, sum("iops")));
    assert_eq!(measured.bytes as f64, sum("io_bytes"));
    let least = |side: &str| job[side]["lat_ns"]["min"].as_f64().unwrap();
    assert_eq!(measured.min_ns, least("read").min(least("write")));
    // The percentage refers to the time of both threads.
    let percent = measured.system_s.unwrap() / (job["job_runtime"].as_f64().unwrap() / 1e3) * 100.0;
    assert!((percent - job["sys_cpu"].as_f64().unwrap()).abs() < 1e-6);
}

#[test]
fn a_histograms_percentiles_are_fios_own() {
    let sample = include_str!("../../../tests/fixtures/peers/fio-psync-randread.json");
    let arm = Arm::new("psync", &["data"]);
    let latency = Fio.parse(sample, &arm.load()).unwrap().latency.unwrap();
    let json: serde_json::Value = serde_json::from_str(&sample[sample.find("\n{").unwrap()..]).unwrap();
    let percentiles = json["jobs"][0]["read"]["lat_ns"]["percentile"].as_object().unwrap();
    for (percent, value) in percentiles {
        let value_ns = value.as_u64().unwrap();
        let found_ns = latency.value_at_percentile(percent.parse().unwrap());
        assert!(latency.equivalent(found_ns, value_ns), "{percent} %: {found_ns} ns, not {value_ns} ns");
    }
}

#[test]
fn figures_of_a_job_that_failed_are_not_taken() {
    let sample = include_str!("../../../tests/fixtures/peers/fio-failed-iopoll.json");
    let error = Fio.parse(sample, &Arm::new("io_uring+iopoll", &["data"]).load()).unwrap_err().to_string();
    assert!(error.contains("expected a job without an error, but found `\"error\" : 95`"), "{error}");
}

#[test]
fn notes_around_the_object_are_passed_over() {
    let arm = Arm::new("io_uring", &["data"]);
    let text = format!("note: {{capped}}\n{MIXED}\nfio: the end\n");
    assert!(Fio.parse(&text, &arm.load()).is_ok());
}

#[test]
fn the_line_that_is_not_understood_is_named() {
    let arm = Arm::new("io_uring", &["data"]);
    for (text, expected) in [
        (String::new(), "expected a JSON object, but the output ends"),
        ("fio: bad option\n".into(), "expected a JSON object, but found `fio: bad option`"),
        (MIXED.replacen("\"job_runtime\" : ", "\"job_runtime\" : x", 1), "but found `\"job_runtime\" : x"),
        (MIXED.replacen("\"bins\"", "\"bin\"", 1), "expected buckets of "),
        ("{\n\"jobs\" : []\n}\n".into(), "expected one job (--group_reporting), but found `0 jobs`"),
        (MIXED[..MIXED.len() / 2].into(), "but the output ends"),
    ] {
        let error = Fio.parse(&text, &arm.load()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
