//! Models of the four publications: the figures of each arm, and changes that make each claim fail.

use iolane_measure::workload::Access;
use iolane_study::plan::Arm;

use crate::model::{Distortion, Figures, Model};

pub(crate) const MODELS: &[Model] = &[SYSTOR22, IJRASET24, HOTSTORAGE23, FLOE26];

const SYSTOR22: Model = Model {
    study: "systor22",
    figures: systor22,
    distortions: &[
        Distortion {
            claim: "S1",
            what: "on one core iou+k is nearly as fast as iou",
            distort: |arm, figures| {
                if arm.name == "iou+k" && alone(arm, 1) {
                    figures.iops = 150e3
                }
            },
        },
        Distortion {
            claim: "S2",
            what: "on two cores iou+k stays behind iou",
            distort: |arm, figures| {
                if arm.name == "iou+k" && alone(arm, 2) {
                    figures.iops *= 0.6
                }
            },
        },
        Distortion {
            claim: "S3",
            what: "on one core spdk is slower than io_uring",
            distort: |arm, figures| {
                if arm.name == "spdk" && alone(arm, 1) {
                    figures.iops *= 0.4
                }
            },
        },
        Distortion {
            claim: "S4",
            what: "iou+p takes 1.5 times as long for a request",
            distort: |arm, figures| {
                if arm.name == "iou+p" && arm.workload.depth <= 16 {
                    figures.iops /= 1.5
                }
            },
        },
        Distortion {
            claim: "S5",
            what: "iou loses at depth 128",
            distort: |arm, figures| {
                if arm.name == "iou" && arm.workload.depth == 128 {
                    figures.iops *= 0.6
                }
            },
        },
        Distortion {
            claim: "S5",
            what: "iou loses at depth 4",
            distort: |arm, figures| {
                if arm.name == "iou" && arm.workload.depth == 4 {
                    figures.iops *= 0.6
                }
            },
        },
        Distortion {
            claim: "S6",
            what: "libaio gets by with one call at large depth",
            distort: |arm, figures| {
                if arm.name == "libaio" && arm.workload.depth > 16 {
                    figures.syscalls_per_io = 0.9
                }
            },
        },
        Distortion {
            claim: "S6",
            what: "iou+k makes a system call every fifth time",
            distort: |arm, figures| {
                if arm.name == "iou+k" {
                    figures.syscalls_per_io = 0.2
                }
            },
        },
        Distortion {
            claim: "S7",
            what: "iou+k is half as fast on several drives, however many cores",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.drives > 1 {
                    figures.iops *= 0.5
                }
            },
        },
        Distortion {
            claim: "S7",
            what: "iou+k is faster than spdk on several drives",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.drives > 1 {
                    figures.iops *= 1.4
                }
            },
        },
        Distortion {
            claim: "S8",
            what: "submission threads of two jobs need no cores of their own",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.threads == 2 {
                    figures.iops = 520e3
                }
            },
        },
        Distortion {
            claim: "S9",
            what: "iou+k does not scale beyond one drive",
            distort: |arm, figures| {
                if arm.name == "iou+k" {
                    figures.iops /= arm.drives as f64
                }
            },
        },
        Distortion {
            claim: "S10",
            what: "iou+k is fastest with any number of jobs on four cores",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.cores == Some(4) {
                    figures.iops = 260e3 * arm.threads as f64;
                }
            },
        },
        Distortion {
            claim: "S11",
            what: "libaio is ahead of io_uring with many drives",
            distort: |arm, figures| {
                if arm.name == "libaio" && arm.threads > 2 {
                    figures.iops *= 1.5
                }
            },
        },
        Distortion {
            claim: "S12",
            what: "spdk misses the cache as often",
            distort: |arm, figures| {
                if arm.name == "spdk" {
                    figures.cache_miss_rate = Some(0.05)
                }
            },
        },
        Distortion {
            claim: "S13",
            what: "on one core iou+k answers within a third of a millisecond",
            distort: |arm, figures| {
                if arm.name == "iou+k" && alone(arm, 1) {
                    figures.p50_ns = 300e3
                }
            },
        },
        Distortion {
            claim: "S14",
            what: "a third core makes iou half as fast again",
            distort: |arm, figures| {
                if arm.name == "iou" && alone(arm, 3) {
                    figures.iops *= 1.5
                }
            },
        },
        Distortion {
            claim: "S15",
            what: "iou+p loses at depth 128",
            distort: |arm, figures| {
                if arm.name == "iou+p" && arm.workload.depth == 128 {
                    figures.iops *= 0.7
                }
            },
        },
        Distortion {
            claim: "S16",
            what: "libaio gains from twice the cores",
            distort: |arm, figures| {
                if arm.name == "libaio" && arm.threads == 2 && arm.cores == Some(4) {
                    figures.iops *= 1.5
                }
            },
        },
        Distortion {
            claim: "S17",
            what: "iou+k is half as fast on five drives",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.threads == 5 {
                    figures.iops *= 0.5
                }
            },
        },
        Distortion {
            claim: "S18",
            what: "submission threads of five jobs need no cores of their own",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.threads == 5 {
                    figures.iops = 1300e3
                }
            },
        },
        Distortion {
            claim: "S19",
            what: "iou+k is as fast as spdk with many jobs",
            distort: |arm, figures| {
                if arm.name == "iou+k" && arm.threads >= 14 {
                    figures.iops = 300e3 * arm.drives as f64
                }
            },
        },
        Distortion {
            claim: "S20",
            what: "libaio waits for the drive",
            distort: |arm, figures| {
                if arm.name == "libaio" {
                    figures.cores = 0.7
                }
            },
        },
    ],
};

/// Whether the arm is one job on this number of cores.
fn alone(arm: &Arm, cores: usize) -> bool {
    (arm.threads, arm.cores) == (1, Some(cores))
}

fn systor22(arm: &Arm) -> Figures {
    let cores_a_job = arm.cores.unwrap() as f64 / arm.threads as f64;
    let has_two = cores_a_job >= 2.0;
    // IOPS that a path reaches on a drive, and nanoseconds of a request that nothing waits for.
    let (most_iops, least_ns) = match arm.name.as_str() {
        "spdk" => (if has_two { 313e3 } else { 305e3 }, 90e3),
        "iou+k" if alone(arm, 1) => (13e3, 95e3),
        "iou+k" => (sqpoll_iops(cores_a_job), 95e3),
        "iou+p" => (if has_two { 195e3 } else { 171e3 }, 92e3),
        "libaio" => (if has_two { 151e3 } else { 145e3 }, 205e3),
        _ => (if has_two { 182e3 } else { 165e3 }, 190e3),
    };
    let depth = f64::from(arm.workload.depth);
    let iops = (depth / least_ns * 1e9).min(most_iops);
    Figures {
        iops: iops * arm.drives as f64,
        p50_ns: if arm.name == "iou+k" && alone(arm, 1) { 8e6 } else { depth / iops * 1e9 },
        p99_ns: depth / iops * 2e9,
        syscalls_per_io: match arm.name.as_str() {
            "spdk" | "iou+k" => 0.0,
            "libaio" => 2.0,
            "iou+p" => 1.0,
            _ => 0.98,
        },
        cores: 1.0,
        cache_miss_rate: Some(if arm.name == "spdk" { 0.006 } else { 0.05 }),
        ..Figures::default()
    }
}

/// What a submission thread reaches with fewer than two cores for each job: figures 4 and 5.
fn sqpoll_iops(cores_a_job: f64) -> f64 {
    let published = [(1.0, 60e3), (1.4, 116e3), (1.67, 171e3), (2.0, 260e3)];
    let between = published.windows(2).find(|ends| cores_a_job <= ends[1].0);
    between.map_or(260e3, |ends| {
        let share = (cores_a_job - ends[0].0) / (ends[1].0 - ends[0].0);
        ends[0].1 + share * (ends[1].1 - ends[0].1)
    })
}

const IJRASET24: Model = Model {
    study: "ijraset24",
    figures: ijraset24,
    distortions: &[
        Distortion {
            claim: "B1",
            what: "reads go on gaining at depth 128",
            distort: |arm, figures| {
                if arm.workload.depth == 128 {
                    figures.iops *= 2.0
                }
            },
        },
        Distortion {
            claim: "B2",
            what: "four reads wait for each other",
            distort: |arm, figures| {
                if arm.workload.depth == 4 {
                    figures.mean_ns *= 2.0
                }
            },
        },
        Distortion {
            claim: "B3",
            what: "writes gain from depth",
            distort: |arm, figures| {
                if arm.workload.access == Access::RandWrite && arm.workload.depth > 16 {
                    figures.iops *= 4.0
                }
            },
        },
        Distortion {
            claim: "B4",
            what: "writes of io_uring take longer",
            distort: |arm, figures| {
                if arm.workload.access == Access::RandWrite && arm.name == "io_uring" {
                    figures.mean_ns *= 1.4;
                }
            },
        },
        Distortion {
            claim: "B5",
            what: "AIO is ahead at low depth",
            distort: |arm, figures| {
                if arm.name == "AIO" && arm.workload.depth <= 4 {
                    figures.iops *= 1.3
                }
            },
        },
        Distortion {
            claim: "B6",
            what: "AIO writes more at low depth",
            distort: |arm, figures| {
                if arm.name == "AIO" && arm.workload.depth <= 4 {
                    figures.iops *= 1.4
                }
            },
        },
        Distortion {
            claim: "B7",
            what: "128 writes at once take a quarter of the time",
            distort: |arm, figures| {
                if arm.workload.depth == 128 {
                    figures.mean_ns /= 4.0
                }
            },
        },
    ],
};

fn ijraset24(arm: &Arm) -> Figures {
    let depth = f64::from(arm.workload.depth);
    let aio = arm.name == "AIO";
    let iops = match arm.workload.access {
        Access::RandWrite => 5_500.0,
        _ => (depth / 90e-6).min(if arm.workload.depth <= 16 { 107e3 } else { 118e3 }),
    };
    let slower = match arm.workload.access {
        Access::RandWrite if aio => 1.1,
        _ if aio => 1.06,
        _ => 1.0,
    };
    Figures { iops: iops / slower, mean_ns: depth / iops * 1e9 * slower, ..Figures::default() }
}

const HOTSTORAGE23: Model = Model {
    study: "hotstorage23",
    figures: hotstorage23,
    distortions: &[
        Distortion {
            claim: "E1",
            what: "what was quickest is slowest",
            distort: |_, figures| figures.p50_ns = 30_000.0 - figures.p50_ns,
        },
        Distortion {
            claim: "E1",
            what: "spdk is behind the others, whose order is as published",
            distort: |arm, figures| {
                if arm.name == "spdk" {
                    (figures.p50_ns, figures.p99_ns) = (2.0 * figures.p50_ns, 2.0 * figures.p99_ns)
                }
            },
        },
        Distortion {
            claim: "E2",
            what: "spdk takes three times the energy",
            distort: |arm, figures| {
                if arm.name == "spdk" {
                    scale_energy(figures, 1.0 / 3.0)
                }
            },
        },
        Distortion {
            claim: "E3",
            what: "iopoll takes a third of the energy",
            distort: |arm, figures| {
                if arm.name == "io_uring iopoll" {
                    scale_energy(figures, 3.0)
                }
            },
        },
        Distortion {
            claim: "E4",
            what: "a submission thread takes a third of the energy with eight threads",
            distort: |arm, figures| {
                if arm.name == "io_uring sqpoll" && arm.threads == 8 {
                    scale_energy(figures, 3.0)
                }
            },
        },
        Distortion {
            claim: "E5",
            what: "a submission thread is as slow as libaio for small requests",
            distort: |arm, figures| {
                if arm.name.starts_with("io_uring sqpoll") {
                    figures.iops *= 0.6
                }
            },
        },
        Distortion {
            claim: "E6",
            what: "a submission thread takes no core",
            distort: |arm, figures| {
                if arm.name.starts_with("io_uring sqpoll") {
                    figures.cores = 0.9
                }
            },
        },
        Distortion {
            claim: "E7",
            what: "spdk takes half the energy with many threads",
            distort: |arm, figures| {
                if arm.name == "spdk" && arm.threads > 1 {
                    scale_energy(figures, 2.0)
                }
            },
        },
        Distortion {
            claim: "E8",
            what: "spdk takes a third of the energy for large requests of many threads",
            distort: |arm, figures| {
                if arm.name == "spdk" && arm.threads > 1 && arm.workload.block_sizes.max() == 128 << 10 {
                    scale_energy(figures, 3.0);
                }
            },
        },
        Distortion {
            claim: "E9",
            what: "a submission thread halves the tail of writes",
            distort: |arm, figures| {
                if arm.name.starts_with("io_uring sqpoll") && arm.workload.access == Access::RandWrite {
                    figures.p99_ns /= 2.0;
                    figures.p50_ns = figures.p50_ns.min(figures.p99_ns);
                }
            },
        },
        Distortion {
            claim: "E10",
            what: "io_uring writes faster",
            distort: |arm, figures| {
                if arm.name.starts_with("io_uring") {
                    figures.p50_ns *= 0.6
                }
            },
        },
        Distortion {
            claim: "E11",
            what: "polled blocking calls take twice as long",
            distort: |arm, figures| {
                if arm.name == "posix-sio iopoll" {
                    (figures.p50_ns, figures.p99_ns) = (2.0 * figures.p50_ns, 2.0 * figures.p99_ns)
                }
            },
        },
        Distortion {
            claim: "E12",
            what: "posix-aio takes half as long",
            distort: |arm, figures| {
                if arm.name == "posix-aio" {
                    figures.p50_ns *= 0.5
                }
            },
        },
        Distortion {
            claim: "E13",
            what: "submission threads draw a quarter of the power",
            distort: |arm, figures| {
                if arm.name == "io_uring sqpoll" && arm.threads == 8 {
                    scale_energy(figures, 4.0)
                }
            },
        },
        Distortion {
            claim: "E14",
            what: "spdk takes half the energy with many threads",
            distort: |arm, figures| {
                if arm.name == "spdk" && arm.threads > 1 {
                    scale_energy(figures, 2.0)
                }
            },
        },
        Distortion {
            claim: "E14",
            what: "libaio is the efficient one for reads and io_uring for writes",
            distort: |arm, figures| match (arm.name.as_str(), arm.workload.access) {
                ("io_uring", Access::RandRead) | ("libaio", Access::RandWrite) => scale_energy(figures, 0.8),
                _ => {}
            },
        },
        Distortion {
            claim: "E15",
            what: "polling both takes twice as long",
            distort: |arm, figures| {
                if arm.name == "io_uring sqpoll iopoll" {
                    figures.p50_ns *= 2.0
                }
            },
        },
        Distortion {
            claim: "E15",
            what: "polling both is faster than spdk",
            distort: |arm, figures| {
                if arm.name == "io_uring sqpoll iopoll" {
                    figures.p50_ns *= 0.6
                }
            },
        },
        Distortion {
            claim: "E16",
            what: "polled blocking calls take half as long",
            distort: |arm, figures| halve_latency(arm, figures, "posix-sio iopoll"),
        },
        Distortion {
            claim: "E17",
            what: "a submission thread halves the latency",
            distort: |arm, figures| halve_latency(arm, figures, "io_uring sqpoll"),
        },
        Distortion {
            claim: "E18",
            what: "polling both halves the latency",
            distort: |arm, figures| halve_latency(arm, figures, "io_uring sqpoll iopoll"),
        },
        Distortion {
            claim: "E19",
            what: "a submission thread draws half the power with one thread",
            distort: |arm, figures| {
                if arm.name == "io_uring sqpoll" && arm.threads == 1 {
                    scale_energy(figures, 2.0)
                }
            },
        },
    ],
};

fn halve_latency(arm: &Arm, figures: &mut Figures, path: &str) {
    if arm.name == path {
        (figures.p50_ns, figures.p99_ns) = (figures.p50_ns / 2.0, figures.p99_ns / 2.0)
    }
}

fn scale_energy(figures: &mut Figures, factor: f64) {
    figures.ios_per_joule = figures.ios_per_joule.map(|per_joule| per_joule * factor);
}

/// A path of hotstorage23: microseconds of Table 2 (read p50, p99, write p50, p99) and I/Os per joule, in the order of
/// [`energy_case`].
struct PathRow(&'static str, [f64; 4], [f64; 6]);

#[rustfmt::skip]
const PATHS: [PathRow; 9] = [
    PathRow("spdk",                 [ 6.23,  7.47,  8.44, 10.40], [3000.0, 6000.0, 2300.0, 4000.0, 420.0, 330.0]),
    PathRow("posix-sio iopoll",      [ 8.69,  9.06, 11.11, 12.24], [2500.0, 2500.0, 2000.0, 6000.0, 240.0, 400.0]),
    PathRow("io_uring iopoll",       [ 8.65,  9.03, 14.50, 15.93], [2400.0, 4300.0, 2400.0, 4800.0, 400.0, 330.0]),
    PathRow("io_uring sqpoll iopoll", [ 7.89,  9.05, 12.38, 22.33], [1900.0, 5000.0, 2300.0, 3000.0, 370.0, 240.0]),
    PathRow("posix-sio",            [11.68, 12.36, 14.08, 15.64], [2300.0, 2300.0, 2000.0, 5200.0, 500.0, 530.0]),
    PathRow("io_uring sqpoll",       [ 8.72, 11.15, 13.34, 25.32], [1800.0, 5100.0, 2200.0, 3000.0, 380.0, 250.0]),
    PathRow("libaio",               [12.35, 13.06, 16.33, 21.87], [2200.0, 4200.0, 2600.0, 4600.0, 490.0, 440.0]),
    PathRow("io_uring",             [12.73, 13.45, 16.92, 23.61], [2300.0, 4200.0, 2600.0, 5000.0, 500.0, 430.0]),
    PathRow("posix-aio",            [19.10, 28.89, 21.60, 34.46], [1500.0, 2000.0, 1500.0, 2000.0, 440.0, 350.0]),
];

/// Which of a path's energies: 4 KiB one at a time, deep, 16 KiB, 4 KiB of many threads, 128 KiB of one, of many.
fn energy_case(arm: &Arm) -> usize {
    match (arm.workload.block_sizes.max() >> 10, arm.threads, arm.workload.depth) {
        (4, 1, 1) => 0,
        (4, 1, _) => 1,
        (16, ..) => 2,
        (4, ..) => 3,
        (_, 1, _) => 4,
        _ => 5,
    }
}

fn hotstorage23(arm: &Arm) -> Figures {
    let row = |name: &str| PATHS.iter().find(|path| path.0 == name).unwrap();
    let PathRow(_, latency_us, _) = row(&arm.name);
    // With many threads libaio is to writes what io_uring is to reads.
    let of_reads = match arm.workload.access {
        Access::RandWrite if arm.threads > 1 && arm.name == "libaio" => "io_uring",
        Access::RandWrite if arm.threads > 1 && arm.name == "io_uring" => "libaio",
        _ => arm.name.as_str(),
    };
    let PathRow(_, _, energy) = row(of_reads);
    let [p50_us, p99_us] = match arm.workload.access {
        Access::RandWrite => [latency_us[2], latency_us[3]],
        _ => [latency_us[0], latency_us[1]],
    };
    let is_sqpoll = arm.name.contains("sqpoll");
    let is_polled = is_sqpoll || arm.name == "spdk" || arm.name.contains("iopoll");
    let one_at_a_time = 1e6 / p50_us;
    let iops = match (arm.workload.block_sizes.max() >> 10, arm.workload.depth) {
        (4, 1) => one_at_a_time * arm.threads as f64,
        (4, _) if is_sqpoll || arm.name == "spdk" => (one_at_a_time * f64::from(arm.workload.depth)).min(500e3),
        (4, _) => (one_at_a_time * f64::from(arm.workload.depth)).min(350e3),
        (16, _) => 140e3,
        _ => 17e3,
    };
    let cores = match (arm.threads, is_sqpoll) {
        (1, true) => 1.95,
        (1, false) => 1.0,
        _ if is_polled => 8.0,
        _ => 2.0,
    };
    Figures {
        iops,
        p50_ns: p50_us * 1e3,
        p99_ns: p99_us * 1e3,
        cores,
        ios_per_joule: Some(energy[energy_case(arm)]),
        ..Figures::default()
    }
}

const FLOE26: Model = Model {
    study: "floe26",
    figures: floe26,
    distortions: &[
        Distortion {
            claim: "F1",
            what: "the driver has half its bandwidth at 16 KiB",
            distort: |arm, figures| {
                if arm.name == "driver" && arm.workload.block_sizes.max() == 16 << 10 {
                    figures.iops *= 0.5
                }
            },
        },
        Distortion {
            claim: "F2",
            what: "io_uring is twice as fast with 32 KiB",
            distort: |arm, figures| {
                if arm.name == "io_uring" && arm.workload.block_sizes.max() == 32 << 10 {
                    figures.iops *= 2.0
                }
            },
        },
        Distortion {
            claim: "F2",
            what: "io_uring never reaches more than half of the drive",
            distort: |arm, figures| {
                if arm.name == "io_uring" {
                    let bytes_per_s = figures.iops * f64::from(arm.workload.block_sizes.max());
                    figures.iops *= (3.4e9 / bytes_per_s).min(1.0)
                }
            },
        },
        Distortion {
            claim: "F3",
            what: "a submission thread gains nothing past depth 16",
            distort: |arm, figures| {
                if arm.name == "sqpoll" && arm.workload.depth < 64 {
                    figures.iops *= 64.0 / f64::from(arm.workload.depth)
                }
            },
        },
        Distortion {
            claim: "F4",
            what: "iopoll alone makes it half as fast again",
            distort: |arm, figures| {
                if arm.name == "sqpoll iopoll" {
                    figures.iops *= 1.5
                }
            },
        },
        Distortion {
            claim: "F5",
            what: "a submission thread takes a request as slowly as a call",
            distort: |arm, figures| {
                if arm.name == "sqpoll" {
                    figures.submit_ns = 9_000.0
                }
            },
        },
        Distortion {
            claim: "F5",
            what: "a submission thread takes three times as long as the driver",
            distort: |arm, figures| {
                if arm.name == "sqpoll" {
                    figures.submit_ns *= 3.0
                }
            },
        },
        Distortion {
            claim: "F6",
            what: "the driver does not scale",
            distort: |arm, figures| {
                if arm.name == "driver" {
                    figures.iops /= arm.drives as f64
                }
            },
        },
        Distortion {
            claim: "F7",
            what: "the driver takes as many cycles",
            distort: |arm, figures| {
                if arm.name == "driver" {
                    figures.cycles_per_io = Some(3_000.0)
                }
            },
        },
        Distortion {
            claim: "F8",
            what: "registered buffers cost bandwidth",
            distort: |arm, figures| {
                if arm.name == "sqpoll bufs" {
                    figures.iops *= 0.7
                }
            },
        },
        Distortion {
            claim: "F9",
            what: "submission threads take no cores",
            distort: |arm, figures| {
                if arm.name == "sqpoll" {
                    figures.cores /= 2.0
                }
            },
        },
        Distortion {
            claim: "F10",
            what: "batching costs bandwidth",
            distort: |arm, figures| {
                if arm.name == "io_uring now" {
                    figures.iops *= 0.5
                }
            },
        },
    ],
};

/// GB/s of one drive by block size, 4 KiB to 128 KiB in powers of two; above they are as at 128 KiB.
const DRIVER: [f64; 6] = [1.7, 3.4, 6.4, 6.8, 6.8, 6.8];
const IO_URING: [f64; 6] = [0.8, 1.5, 2.3, 3.2, 5.0, 6.7];
const SPOLL: [f64; 6] = [1.3, 2.4, 3.8, 5.0, 6.2, 6.8];

fn floe26(arm: &Arm) -> Figures {
    let (curve, share) = match arm.name.as_str() {
        "driver" => (DRIVER, 1.0),
        "sqpoll" => (SPOLL, 1.0),
        "sqpoll iopoll" => (SPOLL, 1.03),
        "sqpoll bufs" => (DRIVER, 0.93),
        "sqpoll iopoll bufs" => (DRIVER, 0.97),
        "shared sqpoll" => (SPOLL, 0.6),
        "io_uring now" => (IO_URING, 1.4),
        _ => (IO_URING, 1.0),
    };
    let size = (arm.workload.block_sizes.max() >> 12).ilog2() as usize;
    // Four drives want more submissions than a thread of a polling kernel gives: figures of its own.
    let shared = if arm.drives > 1 && curve == SPOLL && size < 5 { 0.6 } else { 1.0 };
    let full_depth = if curve == IO_URING { 16.0 } else { 64.0 };
    let deep = (f64::from(arm.workload.depth) / full_depth).min(1.0);
    let bytes_per_s = curve[size.min(5)] * share * shared * deep * 1e9;
    let is_quick = arm.name == "driver" || arm.name.contains("sqpoll");
    Figures {
        iops: bytes_per_s / f64::from(arm.workload.block_sizes.max()) * arm.drives as f64,
        submit_ns: if is_quick { 1_500.0 } else { 13_000.0 },
        cycles_per_io: Some(if arm.name == "driver" { 300.0 } else { 3_000.0 }),
        cores: arm.threads as f64 * if arm.name.contains("sqpoll") { 2.0 } else { 1.0 },
        ..Figures::default()
    }
}
