//! Statistics of repeated runs: medians with intervals, ratios paired by repeat or unpaired, rank correlation, crossings,
//! steady state and noise. Results, claims and comparisons call it. Pure functions, deterministic by seed: the same
//! records always give the same report. Nothing here prints, and no repeat is ever dropped.

mod bootstrap;
mod crossing;
mod estimate;
mod few;
mod isotonic;
mod median;
mod noise;
mod paired;
mod rank;
mod sample;
mod shuffle;
mod steady;
mod unpaired;

pub use bootstrap::resampled_medians;
pub use crossing::{Crossing, RatioCurve};
pub use estimate::{Estimate, TAIL};
pub use few::REPEATS_ENOUGH;
pub use isotonic::isotonic;
pub use median::{estimate_median, estimate_median_at};
pub use noise::{robust_variation, variation};
pub use paired::{estimate_ratio, estimate_ratio_at};
pub use rank::{estimate_rank_correlation, kendall_tau_b, spearman_rho};
#[cfg(test)]
pub(crate) use sample::disturbance;
pub use sample::median;
pub use shuffle::shuffle;
pub use steady::{SteadyState, WINDOW_ROUNDS, first_steady_round, steady_state};
pub use unpaired::estimate_unpaired_ratio;
