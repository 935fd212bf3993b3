//! What the texts state of several jobs, cores and drives, and of what it follows: figures 4 and 5 of systor22, figures 4 to 8 of
//! hotstorage23, the four drives of floe26.

use iolane_core::error::Result;

use super::bench::{Bench, Cell, Expected, Unchecked};
use crate::{Figure, Outcome};

const SPDK: &str = "nvme";
const IOU: &str = "io_uring,plain";
const IOU_P: &str = "io_uring+iopoll,plain";
const IOU_K: &str = "io_uring+sqpoll,fixedfiles,plain";
const IOU_KP: &str = "io_uring+sqpoll+iopoll,fixedfiles,plain";
const LIBAIO: &str = "libaio,getevents";
const PSYNC: &str = "psync";
const PSYNC_P: &str = "psync+iopoll";
const IOU_FLOE: &str = "io_uring,fixedfiles";

const IOPS: fn(&Outcome) -> f64 = Outcome::iops;

/// A number of jobs, each on its own drive, at depth 128.
fn jobs(path: &'static str, jobs: usize, cores: usize) -> Cell {
    Cell { path, threads: jobs, drives: jobs, cores, block_bytes: 4096, depth: 128 }
}

fn more(bench: &mut Bench, a: &'static str, b: &'static str, (count, cores): (usize, usize)) -> Result<Figure> {
    bench.percent_more(IOPS, [jobs(a, count, cores), jobs(b, count, cores)])
}

fn share(bench: &mut Bench, a: &'static str, b: &'static str, (count, cores): (usize, usize)) -> Result<Figure> {
    bench.ratio(IOPS, [jobs(a, count, cores), jobs(b, count, cores)])
}

/// The first number of jobs on 20 cores at which the submission thread is behind calls.
fn crossing(bench: &mut Bench) -> Result<Figure> {
    let draws = bench.prediction(jobs(IOU_K, 10, 20))?.outcomes.len();
    let mut first = vec![f64::from(21); draws];
    for count in (10..=14).rev() {
        let ahead: Vec<f64> = bench.prediction(jobs(IOU, count, 20))?.outcomes.iter().map(IOPS).collect();
        let behind = bench.prediction(jobs(IOU_K, count, 20))?.outcomes.iter().map(IOPS);
        for (draw, (behind, ahead)) in behind.zip(ahead).enumerate() {
            if behind < ahead {
                first[draw] = count as f64;
            }
        }
    }
    Ok(Figure::of(first))
}

/// A number of threads on the one drive of hotstorage23, at depth 1.
fn threads(path: &'static str, threads: usize, block_bytes: u64) -> Cell {
    Cell { path, threads, drives: 1, cores: 8, block_bytes, depth: 1 }
}

fn cores_used(bench: &mut Bench, cell: Cell) -> Result<Figure> {
    Ok(bench.prediction(cell)?.cores)
}

/// I/Os per joule of one path relative to the best of others: the least over the powers of a machine that are checked.
fn per_joule(bench: &mut Bench, of: Cell, others: &[Cell]) -> Result<Figure> {
    let mut least: Option<Figure> = None;
    for idle_w in [20.0, 60.0] {
        for core_w in [5.0, 12.0] {
            let power = crate::Power { idle_w, core_w, second_thread_w: core_w / 4.0, per_mb_per_s_w: 0.0 };
            let mut values: Vec<Vec<f64>> = Vec::new();
            for cell in [of].iter().chain(others) {
                let outcomes = &bench.prediction(*cell)?.outcomes;
                values.push(outcomes.iter().map(|outcome| outcome.iops() / outcome.watts(&power)).collect());
            }
            let best = |draw: usize| values[1..].iter().map(|values| values[draw]).fold(0.0, f64::max);
            let found = Figure::of((0..values[0].len()).map(|draw| values[0][draw] / best(draw)));
            if least.is_none_or(|least| found.value < least.value) {
                least = Some(found);
            }
        }
    }
    Ok(least.expect("there are powers to check"))
}

/// One thread on each of some drives of floe26.
fn floe(path: &'static str, drives: usize, block_bytes: u64) -> Cell {
    Cell { path, threads: drives, drives, cores: 64, block_bytes, depth: 128 }
}

const fn stated(
    claim: &'static str,
    says: &'static str,
    expected: Expected,
    predict: fn(&mut Bench) -> Result<Figure>,
) -> Unchecked {
    Unchecked { claim, says, expected, predict }
}

use Expected::{AtLeast, AtMost, Jobs, Percent, PercentWithin};

/// The statements of a study.
pub(super) fn statements(study: &str) -> &'static [Unchecked] {
    match study {
        "systor22" => SYSTOR22,
        "hotstorage23" => HOTSTORAGE23,
        "floe26" => FLOE26,
        _ => &[],
    }
}

const SYSTOR22: &[Unchecked] = &[
    stated("S7", "iou+k against spdk, 5 jobs on 10 cores", Percent(-15.0), |b| more(b, IOU_K, SPDK, (5, 10))),
    stated("S7", "iou+k against iou, 5 jobs on 10 cores", Percent(45.0), |b| more(b, IOU_K, IOU, (5, 10))),
    stated("S7", "iou+k against iou+p, 5 jobs on 10 cores", Percent(45.0), |b| more(b, IOU_K, IOU_P, (5, 10))),
    stated("S7", "iou+k against libaio, 5 jobs on 10 cores", Percent(80.0), |b| more(b, IOU_K, LIBAIO, (5, 10))),
    stated("S8", "iou+k against libaio, 5 jobs on 7 cores", Percent(-20.0), |b| more(b, IOU_K, LIBAIO, (5, 7))),
    stated("S8", "iou+k as a share of libaio, 5 jobs on 5 cores", AtMost(0.5), |b| share(b, IOU_K, LIBAIO, (5, 5))),
    stated("S9", "iou+k with 10 jobs as a share of ten times one job", AtLeast(0.95), |b| {
        let ten = b.ratio(IOPS, [jobs(IOU_K, 10, 20), jobs(IOU_K, 1, 2)])?;
        Ok(ten.map(|ratio| ratio / 10.0))
    }),
    stated("S9", "iou+k against spdk, 10 jobs on 20 cores", PercentWithin(-16.0, -9.0), |b| {
        more(b, IOU_K, SPDK, (10, 20))
    }),
    stated("S9", "iou+k against iou, 10 jobs on 20 cores", PercentWithin(27.0, 45.0), |b| {
        more(b, IOU_K, IOU, (10, 20))
    }),
    stated("S9", "iou+k against libaio, 10 jobs on 20 cores", PercentWithin(50.0, 76.0), |b| {
        more(b, IOU_K, LIBAIO, (10, 20))
    }),
    stated("S10", "jobs at which iou+k falls below iou, 20 cores", Jobs(12.0), crossing),
    stated("S10", "iou+k against spdk, 14 jobs on 20 cores", Percent(-44.0), |b| more(b, IOU_K, SPDK, (14, 20))),
    stated("S10", "iou+k against iou, 14 jobs on 20 cores", Percent(-18.0), |b| more(b, IOU_K, IOU, (14, 20))),
    stated("S10", "iou+k against libaio, 14 jobs on 20 cores", Percent(-5.0), |b| more(b, IOU_K, LIBAIO, (14, 20))),
    stated("S10", "iou+k as a share of spdk, 20 jobs on 20 cores", AtMost(1.0 / 3.0), |b| {
        share(b, IOU_K, SPDK, (20, 20))
    }),
    stated("S10", "iou+k against libaio, 20 jobs on 20 cores", Percent(-50.0), |b| more(b, IOU_K, LIBAIO, (20, 20))),
    stated("S10", "iou+k against iou, 20 jobs on 20 cores", Percent(-50.0), |b| more(b, IOU_K, IOU, (20, 20))),
    stated("S11", "iou against spdk, 20 jobs on 20 cores", Percent(-33.0), |b| more(b, IOU, SPDK, (20, 20))),
    stated("S11", "libaio against iou, 20 jobs on 20 cores", Percent(-10.0), |b| more(b, LIBAIO, IOU, (20, 20))),
];

const HOTSTORAGE23: &[Unchecked] = &[
    stated("E6", "cores used by io_uring spoll int, one thread, 4 KiB", AtLeast(1.95), |b| {
        cores_used(b, threads(IOU_K, 1, 4096))
    }),
    stated("E6", "cores used by io_uring syscall int, one thread, 4 KiB", AtMost(1.0), |b| {
        cores_used(b, threads(IOU, 1, 4096))
    }),
    stated("E6", "cores used by spdk, 8 threads, 4 KiB", AtLeast(7.9), |b| cores_used(b, threads(SPDK, 8, 4096))),
    stated("E6", "cores used by io_uring spoll int, 8 threads, 4 KiB", AtLeast(7.9), |b| {
        cores_used(b, threads(IOU_K, 8, 4096))
    }),
    stated("E7", "posix-sio cpoll per joule against the best other path, 8 threads, 4 KiB", AtLeast(1.0), |b| {
        per_joule(b, threads(PSYNC_P, 8, 4096), &others(PSYNC_P, 8, 4096))
    }),
    stated("E7", "posix-sio int per joule against the best other path, 8 threads, 128 KiB", AtLeast(1.0), |b| {
        per_joule(b, threads(PSYNC, 8, 131_072), &others(PSYNC, 8, 131_072))
    }),
    stated("E8", "best interrupts per joule against the best polling, 8 threads, 128 KiB", AtLeast(1.0), |b| {
        per_joule(b, threads(PSYNC, 8, 131_072), &[SPDK, PSYNC_P, IOU_P, IOU_KP].map(|path| threads(path, 8, 131_072)))
    }),
];

const FLOE26: &[Unchecked] = &[
    stated("F6", "driver on four drives as a multiple of one, 32 KiB", AtLeast(3.9), |b| {
        b.ratio(IOPS, [floe(SPDK, 4, 32_768), floe(SPDK, 1, 32_768)])
    }),
    stated("F6", "io_uring as a share of the driver, four drives, 32 KiB", AtMost(0.5), |b| {
        b.ratio(IOPS, [floe(IOU_FLOE, 4, 32_768), floe(SPDK, 4, 32_768)])
    }),
    stated("F6", "io_uring as a share of the driver, four drives, 128 KiB", AtLeast(0.9), |b| {
        b.ratio(IOPS, [floe(IOU_FLOE, 4, 131_072), floe(SPDK, 4, 131_072)])
    }),
];

/// The other paths of hotstorage23 with the same load.
fn others(path: &str, count: usize, block_bytes: u64) -> Vec<Cell> {
    let all = [SPDK, PSYNC, PSYNC_P, IOU, IOU_P, IOU_K, IOU_KP, LIBAIO];
    all.into_iter().filter(|other| *other != path).map(|other| threads(other, count, block_bytes)).collect()
}
