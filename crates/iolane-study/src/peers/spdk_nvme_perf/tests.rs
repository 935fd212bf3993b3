use std::time::Duration;

use super::*;
use crate::peers::tests::{Arm, arguments};
use iolane_measure::workload::Access;

const HISTOGRAM: &str = include_str!("../../../tests/fixtures/peers/spdk_nvme_perf-LL.txt");
const TABLE: &str = include_str!("../../../tests/fixtures/peers/spdk_nvme_perf.txt");

fn arm() -> Arm {
    Arm::new("nvme", &["pci:0000:00:03.0"])
}

#[test]
fn the_command_contains_the_whole_load() {
    assert_eq!(
        arguments(&SpdkNvmePerf, &arm().load()),
        "-r trtype:PCIe traddr:0000:00:03.0 -q 16 -o 4096 -w randread -t 2 -LL -c 0x1"
    );
    let mut arm = Arm::new("nvme", &["pci:00:03.0,ns=2", "pci:0000:00:04.0"]);
    arm.cpus = Some("1,4,9".parse().unwrap());
    let load = Load {
        access: Access::RandRw,
        read_percent: 70,
        runtime: Duration::from_millis(1200),
        warmup: Duration::from_millis(500),
        ..arm.load()
    };
    assert_eq!(
        arguments(&SpdkNvmePerf, &load),
        "-r trtype:PCIe traddr:0000:00:03.0 ns:2 -r trtype:PCIe traddr:0000:00:04.0 -q 16 -o 4096 -w randrw -M 70 \
         -t 2 -a 1 -LL -c 0x12"
    );
    let differences = SpdkNvmePerf.differences(&load).join("\n");
    for expected in ["the seed of SPDK's tools cannot be set", "ran for 2 s", "warmed up for 1 s", "every namespace"] {
        assert!(differences.contains(expected), "{differences}");
    }
}

#[test]
fn what_it_cannot_run_is_refused_with_the_reason() {
    for (path, target, cause) in [
        ("io_uring", "pci:0000:00:03.0", "its only path is nvme, not io_uring"),
        ("nvme+int", "pci:0000:00:03.0", "it always polls"),
        ("nvme", "/dev/nvme0n1", "it drives NVMe controllers; /dev/nvme0n1 is not one"),
        ("nvme", "pci:0000:00:03.0,shadow=off", "it has no option for `shadow=off`"),
    ] {
        assert_eq!(SpdkNvmePerf.cannot(&Arm::new(path, &[target]).load()).as_deref(), Some(cause));
    }
    let mut arm = arm();
    assert_eq!(SpdkNvmePerf.cannot(&arm.load()), None);
    let size = Load { size: Some(4096), ..arm.load() };
    assert_eq!(SpdkNvmePerf.cannot(&size).as_deref(), Some("it always uses the whole target"));
    arm.cpus = Some("3".parse().unwrap());
    let threads = Load { threads: 2, ..arm.load() };
    assert_eq!(SpdkNvmePerf.cannot(&threads).as_deref(), Some("it needs one CPU per thread: 2 threads, 1 CPUs"));
}

/// The expected values are those in the sample.
#[test]
fn the_total_and_the_histogram_are_read() {
    let measured = SpdkNvmePerf.parse(HISTOGRAM, &arm().load()).unwrap();
    assert_eq!((measured.ios, measured.iops, measured.elapsed_s), (43_912, 21_956.0, 2.0));
    assert_eq!((measured.min_ns, measured.mean_ns, measured.max_ns), (52_210.0, 730_420.0, 22_192_510.0));
    let latency = measured.latency.unwrap();
    assert_eq!(latency.len(), 43_912);
    // Its own summary gives the upper end of the bucket: 412.751 us at 50 %, 8620.505 us at 99 %.
    for (quantile, end_ns) in [(0.5, 412_751.0), (0.99, 8_620_505.0)] {
        let ratio = latency.value_at_quantile(quantile) as f64 / end_ns;
        assert!((0.99..1.001).contains(&ratio), "{quantile}: {ratio}");
    }
}

/// The sample twice, as two threads print it.
fn two_threads() -> String {
    let histogram = &HISTOGRAM[HISTOGRAM.find("Latency histogram").unwrap()..];
    let row = HISTOGRAM.lines().find(|line| line.starts_with("PCIE")).unwrap();
    HISTOGRAM.replacen(row, &format!("{row}\n{row}"), 1).replacen(
        "   21956.00      85.77     730.42      52.21   22192.51\n\n",
        "   43912.00     171.54     730.42      52.21   22192.51\n\n",
        1,
    ) + histogram
}

#[test]
fn the_histograms_of_all_threads_are_added_up() {
    let arm = arm();
    let measured = SpdkNvmePerf.parse(&two_threads(), &Load { threads: 2, ..arm.load() }).unwrap();
    assert_eq!((measured.ios, measured.iops, measured.elapsed_s), (87_824, 43_912.0, 2.0));
    let error = SpdkNvmePerf.parse(&two_threads(), &arm.load()).unwrap_err().to_string();
    assert!(error.contains("expected a row for each of 1 threads, but found `2 rows`"), "{error}");
}

#[test]
fn the_line_that_is_not_understood_is_named() {
    let arm = arm();
    for (text, expected) in [
        (String::new(), "expected the table `Device Information : IOPS ...`, but the output ends"),
        ("EAL: no huge pages\n".into(), "but found `EAL: no huge pages`"),
        (TABLE.into(), "expected a latency histogram (-LL) for each row of the table, but the output ends"),
        (
            HISTOGRAM.replacen("21956.00", "nan", 1),
            "expected five numbers of a device or of the total, but found `PCIE",
        ),
        (HISTOGRAM.replacen("21956.00", "22956.00", 1), "expected the sum of the rows above, but found `Total"),
        (HISTOGRAM.replace("21956.00", "12956.00"), "but found `43912 in the histogram`"),
        (HISTOGRAM.replacen("64.591 -", "66.591 -", 1), "expected a bucket `1.0 - 2.0: 3.0% (4)`, but found `66.591"),
        (HISTOGRAM.replacen("(        5)", "(       55)", 1), "expected a histogram's line at "),
    ] {
        let error = SpdkNvmePerf.parse(&text, &arm.load()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn it_writes_only_to_a_namespace_that_is_named() {
    let cause = |target: &str, access| SpdkNvmePerf.cannot(&Load { access, ..Arm::new("nvme", &[target]).load() });
    let refused = cause("pci:0000:00:03.0", Access::RandWrite).unwrap();
    assert_eq!(refused, "it writes to every namespace of a controller unless one is named (pci:BDF,ns=1)");
    assert_eq!(cause("pci:0000:00:03.0", Access::RandRead), None);
    assert_eq!(cause("pci:0000:00:03.0,ns=1", Access::RandWrite), None);
}
