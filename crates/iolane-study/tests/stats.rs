//! The study's statistics beside those of scipy and numpy. `fixtures/stats.py` made `fixtures/stats.json` and says how;
//! this test reads it, needs no Python, and computes nothing that it compares with.

use std::path::Path;

use iolane_study::stats::{
    Crossing, Estimate, RatioCurve, TAIL, WINDOW_ROUNDS, estimate_median, estimate_rank_correlation, estimate_ratio,
    estimate_unpaired_ratio, kendall_tau_b, median, robust_variation, spearman_rho, steady_state, variation,
};
use serde::Deserialize;

/// Two ways of adding up the same few numbers differ by less than this share.
const ROUNDING: f64 = 1e-9;

/// The share of resamples that cross may differ from the exact one by this: over four standard deviations of 10,000 draws
/// about a share of 0.95.
const SHARE_TOLERANCE: f64 = 0.01;

#[derive(Deserialize)]
struct Fixture {
    samples: Vec<SampleCase>,
    ratios: Vec<RatioCase>,
    unpaired_ratios: Vec<RatioCase>,
    correlations: Vec<CorrelationCase>,
    rank_estimates: Vec<RankEstimateCase>,
    crossings: Vec<CrossingCase>,
    windows: Vec<WindowCase>,
}

/// For each end of the interval: the reference at 2.5 % (97.5 %) of the resamples, between the points three standard
/// deviations of 10,000 draws to each side. The end must lie between these two: the whole of the tolerance.
type Interval = [[f64; 3]; 2];

#[derive(Deserialize)]
struct SampleCase {
    sample: Vec<f64>,
    median: f64,
    interval: Interval,
    variation: f64,
    median_absolute_deviation: f64,
}

#[derive(Deserialize)]
struct RatioCase {
    numerators: Vec<f64>,
    denominators: Vec<f64>,
    value: f64,
    interval: Interval,
}

#[derive(Deserialize)]
struct CorrelationCase {
    a: Vec<f64>,
    b: Vec<f64>,
    tau_b: f64,
    rho: f64,
}

#[derive(Deserialize)]
struct RankEstimateCase {
    published: Vec<f64>,
    measured: Vec<Vec<f64>>,
    value: f64,
    interval: Interval,
}

#[derive(Deserialize)]
struct CrossingCase {
    x: Vec<f64>,
    a: Vec<Vec<f64>>,
    b: Vec<Vec<f64>>,
    value: f64,
    interval: Interval,
    share_of_resamples: f64,
}

#[derive(Deserialize)]
struct WindowCase {
    window: [f64; WINDOW_ROUNDS],
    mean: f64,
    range: f64,
    slope: f64,
}

fn fixture() -> Fixture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stats.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn assert_close(ours: f64, reference: f64) {
    assert!((ours - reference).abs() <= ROUNDING * reference.abs().max(1.0), "{ours} here, {reference} there");
}

#[track_caller]
fn assert_estimate(ours: Estimate, value: f64, [low, high]: Interval) {
    assert_close(ours.value, value);
    for (end, [least, _, most]) in [(ours.low, low), (ours.high, high)] {
        let slack = ROUNDING * most.abs();
        assert!(least - slack <= end && end <= most + slack, "{end} is not from {least} to {most}");
    }
}

#[test]
fn medians_and_their_intervals_are_those_of_scipy() {
    let cases = fixture().samples;
    assert_eq!(cases.iter().map(|case| case.sample.len()).collect::<Vec<_>>(), [3, 5, 6, 9, 30]);
    for case in cases {
        assert_close(median(&case.sample), case.median);
        assert_estimate(estimate_median(&case.sample), case.median, case.interval);
    }
}

#[test]
fn noise_is_that_of_scipy() {
    for case in fixture().samples {
        assert_close(variation(&case.sample).unwrap(), case.variation);
        let robust = 1.4826 * case.median_absolute_deviation / case.median;
        assert_close(robust_variation(&case.sample).unwrap(), robust);
    }
}

#[test]
fn paired_ratios_have_the_interval_that_scipy_gives_their_median() {
    for case in fixture().ratios {
        assert_estimate(estimate_ratio(&case.numerators, &case.denominators), case.value, case.interval);
    }
}

#[test]
fn ratios_of_arms_measured_apart_have_the_interval_that_counting_every_resample_gives() {
    let cases = fixture().unpaired_ratios;
    assert!(cases.iter().any(|case| case.numerators.len() != case.denominators.len()));
    for case in cases {
        let ours = estimate_unpaired_ratio(&case.numerators, &case.denominators);
        if case.numerators.len().min(case.denominators.len()) >= 5 {
            assert_estimate(ours, case.value, case.interval);
        } else {
            // The interval of few repeats is that of Student's t where it is the wider one.
            let [[_, _, low], [high, _, _]] = case.interval;
            assert_close(ours.value, case.value);
            assert!(ours.low <= low * (1.0 + ROUNDING) && high <= ours.high * (1.0 + ROUNDING), "{ours:?}");
        }
    }
}

#[test]
fn rank_correlations_are_those_of_scipy_with_ties_and_without() {
    for case in fixture().correlations {
        assert_close(kendall_tau_b(&case.a, &case.b).unwrap(), case.tau_b);
        assert_close(spearman_rho(&case.a, &case.b).unwrap(), case.rho);
    }
}

#[test]
fn rank_correlations_have_the_lower_end_that_counting_every_resample_gives() {
    for case in fixture().rank_estimates {
        let ours = estimate_rank_correlation(&case.published, &case.measured, TAIL).unwrap();
        // The upper end is not that of the resamples: see `estimate_rank_correlation`.
        assert_estimate(Estimate { high: case.interval[1][1], ..ours }, case.value, case.interval);
    }
}

#[test]
fn crossings_are_where_numpy_interpolates_them_if_enough_resamples_cross() {
    let mut unclear = 0;
    for case in fixture().crossings {
        match RatioCurve::new(&case.x, &case.a, &case.b).unwrap().crossing(TAIL) {
            Crossing::At { x, share_of_resamples } => {
                // It is at least that of Student's t.
                let (low, high) = (case.interval[0][2], case.interval[1][0]);
                assert!(x.low <= low * (1.0 + ROUNDING) && x.high >= high * (1.0 - ROUNDING), "{x:?}");
                assert_close(x.value, case.value);
                assert!((share_of_resamples - case.share_of_resamples).abs() <= SHARE_TOLERANCE);
            }
            Crossing::Unclear => {
                // Of the one with more, the ratios at its ends are not shown to be above and below 1.
                assert!(case.share_of_resamples < 0.98, "{}", case.share_of_resamples);
                unclear += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unclear, 2);
}

#[test]
fn the_slope_of_a_window_is_that_of_least_squares() {
    for case in fixture().windows {
        let state = steady_state(&case.window);
        assert_close(state.range_share, case.range / case.mean);
        assert_close(state.slope_share, (case.slope * (WINDOW_ROUNDS - 1) as f64).abs() / case.mean);
    }
}
