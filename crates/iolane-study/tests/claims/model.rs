//! Simulated results: the figures that a model gives for each arm, with noise, as rows of runs.

use hdrhistogram::Histogram;
use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::Sourced;
use iolane_study::plan::Arm;
use iolane_study::rows::{ArmResults, LeftOut, Results, Row};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The figures of an arm, in the units of the metrics of the same names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub(crate) iops: f64,
    pub(crate) mean_ns: f64,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
    pub(crate) submit_ns: f64,
    pub(crate) syscalls_per_io: f64,
    pub(crate) cores: f64,
    pub(crate) cache_miss_rate: Option<f64>,
    pub(crate) cycles_per_io: Option<f64>,
    pub(crate) ios_per_joule: Option<f64>,
}

/// The figures of a study, and changes that must make each of its claims fail.
pub(crate) struct Model {
    pub(crate) study: &'static str,
    /// As published in text and tables, and interpolated in between.
    pub(crate) figures: fn(&Arm) -> Figures,
    pub(crate) distortions: &'static [Distortion],
}

/// A change of a model's figures that must make a claim fail.
pub(crate) struct Distortion {
    pub(crate) claim: &'static str,
    pub(crate) what: &'static str,
    pub(crate) distort: fn(&Arm, &mut Figures),
}

/// The source of the joules.
pub(crate) const METER: &str = "RAPL, processor packages and memory only";

/// The largest deviation of a run from the figures of its arm, as a share.
pub(crate) const NOISE: f64 = 0.02;

/// How the repeats of an arm differ.
pub(crate) enum Spread<'a> {
    /// By independent noise.
    Own(f64),
    /// Those of these arms by factors from 0.02 to 50, the others not at all.
    Fiftyfold(Vec<&'a Arm>),
    /// By log-normal noise, other noise in each trial.
    LogNormal { sigma: f64, trial: u32 },
}

const REPEATS: u32 = 5;
const FIFTYFOLD: [f64; REPEATS as usize] = [0.02, 5.0, 1.0, 0.2, 50.0];
const ELAPSED_S: f64 = 10.0;
const REFERENCES: f64 = 1e7;
/// Of the histograms: 1 %, less than the noise.
const DIGITS: u8 = 2;

/// Five repeats of each of these arms.
pub(crate) fn measured(arms: &[Arm], figures: impl Fn(&Arm) -> Figures, spread: &Spread<'_>) -> Results {
    measured_in(arms, |_| (0..REPEATS).collect(), figures, spread)
}

/// These repeats of each of these arms.
pub(crate) fn measured_in(
    arms: &[Arm],
    repeats: impl Fn(&Arm) -> Vec<u32>,
    figures: impl Fn(&Arm) -> Figures,
    spread: &Spread<'_>,
) -> Results {
    let rows = |arm: &Arm| repeats(arm).into_iter().map(|repeat| Row::new(arm.clone(), repeat)).collect();
    let of_arm = |arm: &Arm| ArmResults { arm: arm.clone(), rows: rows(arm) };
    let mut results = Results { arms: arms.iter().map(of_arm).collect(), left_out: Vec::new(), lab: None };
    measure(&mut results, figures, spread);
    results
}

/// Measures the same arms again: that is faster than making new rows.
pub(crate) fn measure(results: &mut Results, figures: impl Fn(&Arm) -> Figures, spread: &Spread<'_>) {
    for row in results.arms.iter_mut().flat_map(|arm| &mut arm.rows) {
        let (arm, repeat) = (row.arm.clone(), row.repeat);
        // The seed of a run is the FNV-1a hash of its arm, repeat and trial.
        let trial = if let Spread::LogNormal { trial, .. } = spread { *trial } else { 0 };
        let name = format!("{arm} {repeat} {trial}");
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || random.next_u64() as f64 / u64::MAX as f64;
        let noise = || match spread {
            Spread::Own(share) => 1.0 + share * (uniform() * 2.0 - 1.0),
            Spread::Fiftyfold(arms) if arms.contains(&&arm) => FIFTYFOLD[repeat as usize],
            Spread::Fiftyfold(_) => 1.0,
            // The sum of twelve uniform numbers is nearly normal.
            Spread::LogNormal { sigma, .. } => (sigma * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).exp(),
        };
        fill(row, &figures(&arm), noise);
    }
}

/// Sets a run to these figures, each with independent noise.
fn fill(row: &mut Row, figures: &Figures, mut noise: impl FnMut() -> f64) {
    row.elapsed_s = ELAPSED_S;
    row.ios = (figures.iops * noise() * ELAPSED_S) as u64;
    row.bytes = row.ios * u64::from(row.arm.workload.block_sizes.max());
    row.mean_ns = Some(figures.mean_ns * noise());
    let (p50_ns, p99_ns) = ((figures.p50_ns * noise()) as u64, (figures.p99_ns * noise()) as u64);
    record(&mut row.latency, &[(p50_ns, 98), (p99_ns.max(p50_ns), 2)]);
    record(&mut row.submit, &[((figures.submit_ns * noise()) as u64, 100)]);
    // System calls are counted, not timed: they differ only at the start and end of a run.
    let mut set = |figure, value: f64| row.figures.set(figure, Ok(Sourced::new(value, METER)));
    set(RunFigure::SyscallsPerIo, figures.syscalls_per_io * (1.0 + (noise() - 1.0) / 10.0));
    set(RunFigure::UserS, figures.cores * noise() * ELAPSED_S);
    set(RunFigure::SystemS, 0.0);
    if let Some(per_joule) = figures.ios_per_joule {
        set(RunFigure::Joules, row.ios as f64 / (per_joule * noise()));
    }
    let mut count = |figure, count: f64| row.figures.set(figure, Ok(Sourced::new(count as u64, METER)));
    count(RunFigure::CacheReferences, REFERENCES);
    if let Some(rate) = figures.cache_miss_rate {
        count(RunFigure::CacheMisses, rate * noise() * REFERENCES);
    }
    if let Some(cycles) = figures.cycles_per_io {
        count(RunFigure::Cycles, cycles * noise() * row.ios as f64);
    }
}

/// These values with their counts, in a histogram as small as possible because there are many.
fn record(histogram: &mut Histogram<u64>, values: &[(u64, u64)]) {
    if histogram.is_empty() {
        *histogram = Histogram::new(DIGITS).unwrap();
    }
    histogram.clear();
    values.iter().for_each(|(value, count)| histogram.record_n(*value, *count).unwrap());
}

/// The same results without some of the arms.
pub(crate) fn left_out(whole: &Results, reason: &str, lost: impl Fn(&Arm) -> bool) -> Results {
    let (gone, arms): (Vec<ArmResults>, Vec<ArmResults>) =
        whole.arms.iter().cloned().partition(|results| lost(&results.arm));
    let left_out =
        |results: ArmResults| LeftOut { arm: results.arm, reason: reason.into(), remedy: String::new(), failed: false };
    Results { arms, left_out: gone.into_iter().map(left_out).collect(), lab: None }
}
