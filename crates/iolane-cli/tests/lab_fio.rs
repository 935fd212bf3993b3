//! iolane's figures compared with fio's, in a guest whose clock advances one nanosecond per instruction: they are equal
//! except for the instructions of the two programs. Needs QEMU, a kernel, which is fetched once, and fio; skipped
//! otherwise.

mod common;

use std::path::Path;
use std::time::Duration;

use common::guest::{self, guest_or_skip};
use common::skipped;
use iolane_lab::cache::Cache;
use iolane_lab::session::PROGRAM;
use iolane_lab::{Ended, GuestCommand, Lab, Machine};
use serde_json::Value;

/// The path of fio on the host and in the guest.
const FIO: &str = "/usr/bin/fio";

/// The same requests as options of both programs, with the same number per system call.
struct Arm {
    path: &'static str,
    target: &'static str,
    depth: u32,
    fio: &'static str,
}

/// A device that completes every request at once.
const DEVICE: &str = "/dev/nullb0";

/// io_uring without the flags that fio 3.33 does not set, and the same number of requests per call; libaio's
/// completions are read from its ring, as iolane reads them. `io_uring` at depth 1 is left out: there the difference
/// varies with the work by about 200 instructions, likely because iolane's call also waits for the completion, and
/// fio's only submits.
const ARMS: [Arm; 3] = [
    Arm { path: "psync", target: DEVICE, depth: 1, fio: "--ioengine=psync" },
    Arm {
        path: "libaio",
        target: DEVICE,
        depth: 1,
        fio: "--ioengine=libaio --userspace_reap --iodepth_batch_complete_min=0",
    },
    Arm {
        path: "io_uring,plain",
        target: DEVICE,
        depth: 16,
        fio: "--ioengine=io_uring --iodepth_batch=16 --iodepth_batch_complete_min=16",
    },
];

/// The programs only: no system call, and no device.
const NOTHING: Arm = Arm { path: "null", target: "null", depth: 1, fio: "--ioengine=null" };

/// A part of the target so small that after a few milliseconds the page cache holds all of it.
const SIZE: &str = "1m";

fn iolane(arm: &Arm, direct: bool) -> GuestCommand {
    let Arm { path, target, depth, .. } = arm;
    let line = format!(
        "{PROGRAM} run --target {target} --path {path} --depth {depth} --batch-complete {depth} --direct {direct} --bs 4k \
         --size {SIZE} --warmup 0s --runtime 50ms --json -"
    );
    GuestCommand::new(line.split_whitespace())
}

/// fio runs for longer: it reports its time in whole milliseconds, and another thread may take the processor from it for
/// a tick of 4 ms, which is nearly one hundredth of half a second.
fn fio(arm: &Arm, direct: bool) -> GuestCommand {
    let Arm { target, depth, fio, .. } = arm;
    let direct = u8::from(direct);
    let line = format!(
        "{FIO} --name=agreement --filename={target} {fio} --iodepth={depth} --direct={direct} --rw=randread --bs=4k \
         --size={SIZE} --norandommap --thread --invalidate=0 --time_based --ramp_time=30ms --runtime=1s \
         --lat_percentiles=1 --output-format=json"
    );
    GuestCommand::new(line.split_whitespace())
}

/// The figures of one run, in nanoseconds, which here are instructions.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// The time from one I/O to the next: the inverse of IOPS.
    per_io: f64,
    p50: f64,
}

impl Figures {
    fn of_iolane(printed: &str) -> Self {
        let result = &json(printed)["result"];
        Self { per_io: 1e9 / number(&result["iops"]), p50: number(&result["latency_ns"]["p50"]) }
    }

    fn of_fio(printed: &str) -> Self {
        let read = &json(printed)["jobs"][0]["read"];
        Self { per_io: 1e9 / number(&read["iops"]), p50: number(&read["lat_ns"]["percentile"]["50.000000"]) }
    }

    /// The time between the end of one latency and the start of the next, at depth 1.
    fn outside_latency(self) -> f64 {
        self.per_io - self.p50
    }
}

/// The JSON that a program printed, possibly after notes.
fn json(printed: &str) -> Value {
    let begin = printed.find('{').unwrap_or_else(|| panic!("no JSON in: {printed}"));
    serde_json::from_str(&printed[begin..]).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().filter(|number| *number > 0.0).unwrap_or_else(|| panic!("{value} is no figure"))
}

/// Both programs' figures of one arm.
#[derive(Debug, Clone, Copy)]
struct Pair {
    iolane: Figures,
    fio: Figures,
}

impl Pair {
    /// How many more instructions per I/O fio takes.
    fn difference(self) -> f64 {
        self.fio.per_io - self.iolane.per_io
    }
}

/// Runs each arm with both programs in one guest: without the page cache, through it, and with no I/O at all.
fn measure() -> (Vec<[Pair; 2]>, Pair) {
    let cache = Cache::of_user().unwrap();
    let lab = guest::lab(&cache, Vec::new());
    let lab = Lab {
        machine: Machine { exact: true, ..lab.machine.clone() },
        programs: vec![(FIO.into(), FIO.into())],
        timeout: Duration::from_secs(300),
        ..lab
    };
    let runs = ARMS.iter().flat_map(|arm| [(arm, true), (arm, false)]).chain([(&NOTHING, true)]);
    let commands: Vec<_> = runs.flat_map(|(arm, direct)| [iolane(arm, direct), fio(arm, direct)]).collect();
    let count = commands.len();
    let (outcome, heard) = guest::run(&lab, commands);
    outcome.unwrap();
    assert!(heard.ends.iter().all(|end| *end == Ended::Code(0)), "{heard:#?}");
    let pair = |first: usize| Pair {
        iolane: Figures::of_iolane(heard.stdout(first)),
        fio: Figures::of_fio(heard.stdout(first + 1)),
    };
    let arms = (0..ARMS.len()).map(|arm| [pair(4 * arm), pair(4 * arm + 2)]);
    (arms.collect(), pair(count - 2))
}

/// The difference between the two programs per I/O must come from their own instructions, which do not depend on what
/// the kernel does for the I/O. So the difference must stay the same when the kernel does something quite different:
/// reading the same blocks from the page cache. It does, to a few thousandths; one hundredth is allowed, because a
/// tick may fall to another thread. At depth 1, a program's p50 must be its time per I/O, less its own work
/// between one latency and the next, which its null path shows. The buckets of fio's percentiles are 1/64 wide; one
/// fiftieth is allowed.
#[test]
fn iops_and_p50_differ_from_fios_by_the_programs_own_instructions() {
    guest_or_skip!("agreement with fio");
    if !Path::new(FIO).exists() {
        return skipped("agreement with fio", "fio is not installed; as root: apt-get install fio");
    }
    let (arms, nothing) = measure();
    println!("instructions per I/O          past the page cache         through it");
    println!("path            depth   iolane    fio   more   iolane    fio   more   p50: iolane    fio");
    for (Arm { path, depth, .. }, [direct, cached]) in ARMS.iter().zip(&arms) {
        print!("{path:<15} {depth:>5}");
        for pair in [direct, cached] {
            print!("   {:>6.0} {:>6.0} {:>6.0}", pair.iolane.per_io, pair.fio.per_io, pair.difference());
        }
        println!("        {:>6.0} {:>6.0}", direct.iolane.p50, direct.fio.p50);
    }
    println!("nothing: {nothing:.0?}");
    for (Arm { path, depth, .. }, [direct, cached]) in ARMS.iter().zip(&arms) {
        let tolerance = 0.01 * direct.fio.per_io;
        let moved = (cached.difference() - direct.difference()).abs();
        assert!(moved <= tolerance, "{path} at depth {depth}: the difference moves by {moved:.0} instructions");
        // Otherwise an equal difference would prove nothing.
        let work = (cached.iolane.per_io - direct.iolane.per_io).abs();
        assert!(work > 5.0 * tolerance, "{path} at depth {depth}: the work differs by {work:.0} instructions alone");
        if *depth > 1 {
            continue;
        }
        for pair in [direct, cached] {
            for (name, figures, nothing) in [("iolane", pair.iolane, nothing.iolane), ("fio", pair.fio, nothing.fio)] {
                let expected = figures.per_io - nothing.outside_latency();
                let close = (figures.p50 - expected).abs() <= 0.02 * expected;
                assert!(close, "{name}, {path}: its p50 is {} and not {expected:.0}: {figures:?}", figures.p50);
            }
        }
    }
}
