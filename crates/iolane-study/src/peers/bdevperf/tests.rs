use std::time::Duration;

use super::*;
use crate::peers::tests::{Arm, arguments};
use iolane_measure::workload::Access;

const AIO: &str = include_str!("../../../tests/fixtures/peers/bdevperf-aio.txt");

#[test]
fn the_command_contains_the_whole_load() {
    let mut arm = Arm::new("libaio", &["/dev/nvme0n1"]);
    assert_eq!(arguments(&Bdevperf, &arm.load()), "-m 0x1 -c FOLDER/bdevs.json -q 16 -o 4096 -w randread -t 2");
    arm.cpus = Some("0-7".parse().unwrap());
    let load = Load { access: Access::RandRw, read_percent: 70, threads: 6, ..arm.load() };
    assert_eq!(arguments(&Bdevperf, &load), "-m 0x3f -c FOLDER/bdevs.json -q 16 -o 4096 -w randrw -M 70 -t 2 -C");
}

#[test]
fn each_target_is_a_bdev_of_the_paths_kind() {
    let arm = Arm::new("io_uring", &["/dev/nvme0n1", "/x/a\"b"]);
    assert_eq!(
        configuration(&Load { block_bytes: 512, ..arm.load() }, &["/dev/nvme0n1".into(), "/x/a\"b".into()]).to_string(),
        r#"{"subsystems":[{"subsystem":"bdev","config":[{"method":"bdev_uring_create","params":{"name":"b0","filename":"/dev/nvme0n1","block_size":512}},{"method":"bdev_uring_create","params":{"name":"b1","filename":"/x/a\"b","block_size":512}}]}]}"#
    );
    let arm = Arm::new("libaio", &["/x"]);
    let written = Load { access: Access::Write, ..arm.load() };
    for (load, readonly) in [(arm.load(), true), (written, false)] {
        let bdev = &configuration(&load, &["/x".into()])["subsystems"][0]["config"][0];
        assert_eq!(bdev["method"], "bdev_aio_create");
        assert_eq!(bdev["params"], json!({ "name": "b0", "filename": "/x", "block_size": 4096, "readonly": readonly }));
    }
}

#[test]
fn a_device_is_opened_by_its_descriptor_under_the_kernels_name() {
    let folder = tempfile::tempdir().unwrap();
    let device =
        LoadTarget { kernel_name: Some("nvme0n1".into()), ..Arm::new("libaio", &["/proc/1/fd/3"]).targets[0].clone() };
    let name = file_name(1, &device, folder.path()).unwrap();
    assert_eq!(name.file_name().unwrap(), "nvme0n1");
    assert_eq!(std::fs::read_link(&name).unwrap(), Path::new("/proc/1/fd/3"));
    let file = LoadTarget { kernel_name: None, ..device };
    assert_eq!(file_name(1, &file, folder.path()).unwrap(), Path::new("/proc/1/fd/3"));
}

#[test]
fn what_it_cannot_run_is_refused_with_the_reason() {
    for path in ["psync", "io_uring+iopoll", "io_uring+sqpoll", "io_uring,fixedbufs", "nvme"] {
        let cause = format!("its only paths are io_uring and libaio without options, not {path}");
        assert_eq!(Bdevperf.cannot(&Arm::new(path, &["/x"]).load()), Some(cause));
    }
    let arm = Arm::new("io_uring,plain", &["/x", "/y"]);
    for (load, cause) in [
        (Load { threads: 3, ..arm.load() }, "with several targets it runs exactly one thread per target"),
        (Load { block_bytes: 1000, ..arm.load() }, "its block size must be a multiple of 512 bytes"),
        (Load { direct: false, ..arm.load() }, "it always bypasses the page cache"),
        (Load { size: Some(4096), ..arm.load() }, "it always uses the whole target"),
    ] {
        assert_eq!(Bdevperf.cannot(&load).as_deref(), Some(cause));
    }
    assert_eq!(Bdevperf.cannot(&arm.load()), None);
    let differences = Bdevperf.differences(&Load { warmup: Duration::from_secs(1), ..arm.load() }).join("\n");
    assert!(differences.contains("no warm-up") && differences.contains("for writing"), "{differences}");
    let differences = Bdevperf.differences(&Arm::new("libaio", &["/x"]).load()).join("\n");
    assert!(!differences.contains("for writing"), "{differences}");
}

/// The expected values are those in the sample.
#[test]
fn the_total_is_read() {
    let measured = Bdevperf.parse(AIO, &Arm::new("libaio", &["/x"]).load()).unwrap();
    assert_eq!((measured.iops, measured.elapsed_s, measured.ios, measured.errors), (15_618.90, 2.0, 31_238, 0));
    assert_eq!((measured.min_ns, measured.mean_ns, measured.max_ns), (141_780.0, 1_022_300.0, 11_645_240.0));
}

#[test]
fn failures_are_computed_from_their_rate() {
    let failing = AIO.replace("0.00     0.00    1022.30", "1.50     0.50    1022.30");
    assert_eq!(Bdevperf.parse(&failing, &Arm::new("libaio", &["/x"]).load()).unwrap().errors, 4);
}

#[test]
fn the_line_that_is_not_understood_is_named() {
    let arm = Arm::new("libaio", &["/x"]);
    for (text, expected) in [
        (String::new(), "expected the table `Device Information : runtime(s) IOPS ...`, but the output ends"),
        (AIO.trim_end().into(), "expected a row of totals, but the output ends"),
        (AIO.replacen("61.01", "61,01", 1), "expected eight numbers of a job, but found `b0"),
        (AIO.replacen("15618.90", "15619.90", 1), "expected the sum of the jobs above, but found `Total"),
        (AIO.replacen("\n Total ", "\n Summa ", 1), "expected eight numbers of a job, but found `Summa"),
    ] {
        let error = Bdevperf.parse(&text, &arm.load()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = Bdevperf.parse(AIO, &Load { threads: 2, ..arm.load() }).unwrap_err().to_string();
    assert!(error.contains("expected a row for each of 2 threads, but found `1 rows`"), "{error}");
}
