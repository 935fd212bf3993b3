//! Correlation and linear regression. The alignment of a trace uses them.

/// Pearson's correlation of two series; 0 if one is constant.
pub(super) fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = pairs.clone().count() as f64;
    let mean = |of: fn((f64, f64)) -> f64| pairs.clone().map(of).sum::<f64>() / count;
    let (mean_a, mean_b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        both += a * b;
        of_a += a * a;
        of_b += b * b;
    }
    let size = (of_a * of_b).sqrt();
    if size > 0.0 && size.is_finite() { both / size } else { 0.0 }
}

/// The least-squares line through points: intercept and slope.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let both: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let along: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = both / along;
    (mean_y - slope * mean_x, slope)
}
