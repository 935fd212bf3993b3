//! Linear algebra of a fit: symmetric positive definite matrices of some tens of rows.

/// A lower triangle L with L Lᵀ = the matrix (Cholesky). `None` if the matrix is not positive definite.
pub(super) fn cholesky(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let mut lower = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = (0..column).map(|at| lower[row][at] * lower[column][at]).sum();
            let rest = matrix[row][column] - known;
            lower[row][column] = if row != column {
                rest / lower[column][column]
            } else if rest > 0.0 {
                rest.sqrt()
            } else {
                return None;
            };
        }
    }
    Some(lower)
}

/// The x with L Lᵀ x = b.
pub(super) fn solve(lower: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let size = lower.len();
    let mut x = b.to_vec();
    for row in 0..size {
        let known: f64 = (0..row).map(|at| lower[row][at] * x[at]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    for row in (0..x.len()).rev() {
        let known: f64 = (row + 1..x.len()).map(|at| lower[at][row] * x[at]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved_and_one_that_is_not_positive_definite_is_refused() {
        let matrix = vec![vec![4.0, 2.0, 0.4], vec![2.0, 5.0, 1.0], vec![0.4, 1.0, 3.0]];
        let lower = cholesky(&matrix).unwrap();
        let x = solve(&lower, &[1.0, -2.0, 0.5]);
        for (row, expected) in matrix.iter().zip([1.0, -2.0, 0.5]) {
            let found: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert!(cholesky(&[vec![1.0, 2.0], vec![2.0, 1.0]]).is_none());
    }
}
