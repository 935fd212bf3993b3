//! Medians, and how far they may be off: bootstrap intervals from resampled runs.
//! Pure functions of their numbers; the seed is fixed, so that the same runs give the same interval.

/// How many times the runs are drawn anew.
const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The ends of a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The middle value, or the mean of the two in the middle; NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(&sorted(values), 0.5)
}

/// The 95 % interval of `median(after) / median(before)`, by drawing whole pairs: what disturbed one half of a pair
/// may have disturbed the other. Both slices have the same length.
pub(crate) fn ratio_interval(before: &[f64], after: &[f64]) -> Interval {
    assert_eq!(before.len(), after.len(), "runs come in pairs");
    bootstrap(before.len(), |drawn| {
        let pick = |values: &[f64]| median(&drawn.iter().map(|&pair| values[pair]).collect::<Vec<_>>());
        pick(after) / pick(before)
    })
}

/// The 95 % interval of the median.
pub(crate) fn median_interval(values: &[f64]) -> Interval {
    bootstrap(values.len(), |drawn| median(&drawn.iter().map(|&run| values[run]).collect::<Vec<_>>()))
}

/// The middle 95 % of a statistic of runs drawn with replacement.
fn bootstrap(runs: usize, statistic: impl Fn(&[usize]) -> f64) -> Interval {
    let mut random = Xorshift(SEED);
    let mut drawn = vec![0; runs];
    let mut results = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(|run| *run = random.below(runs));
        results.push(statistic(&drawn));
    }
    let results = sorted(&results);
    Interval { low: percentile(&results, 0.025), high: percentile(&results, 0.975) }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// Between two values as near to each as the fraction says (Hyndman and Fan's type 7, numpy's default).
fn percentile(sorted: &[f64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = fraction * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// Marsaglia's xorshift64 (Journal of Statistical Software 8(14), 2003): small, and good enough to draw runs by.
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 to `end - 1`, from the upper half of the bits, which are the better ones.
    fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIO: [f64; 7] = [1000.0, 1010.0, 990.0, 1005.0, 950.0, 1020.0, 1001.0];
    const IOLANE: [f64; 7] = [1100.0, 1090.0, 1085.0, 1110.0, 1000.0, 1130.0, 1095.0];

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12 * right.abs()
    }

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles_are_those_of_numpy() {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        // numpy.percentile([1, 2, 4, 8, 16], [2.5, 97.5])
        assert!(close(percentile(&values, 0.025), 1.1));
        assert!(close(percentile(&values, 0.975), 15.2));
    }

    #[test]
    fn intervals_are_those_of_an_independent_program() {
        // Computed in Python with the same generator; its own generator gives the same ends.
        let ratio = ratio_interval(&FIO, &IOLANE);
        assert!(close(ratio.low, 1.0792079207920793) && close(ratio.high, 1.1044776119402986), "{ratio:?}");
        let spread = median_interval(&IOLANE);
        assert!(close(spread.low, 1085.0) && close(spread.high, 1110.0), "{spread:?}");
        assert!(close(median(&IOLANE) / median(&FIO), 1.0939060939060938));
    }

    #[test]
    fn runs_that_agree_leave_no_doubt() {
        assert_eq!(ratio_interval(&[2.0; 5], &[3.0; 5]), Interval { low: 1.5, high: 1.5 });
        assert_eq!(median_interval(&[7.0; 5]), Interval { low: 7.0, high: 7.0 });
    }
}
