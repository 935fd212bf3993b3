//! What a choice may not do, whatever it would gain. `experience` compares costs by it, and `chooser` explores only where it may.

use crate::window::Cost;

/// Bounds of a choice. The default has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The most cores that a path may keep busy while requests are in flight.
    pub cores_max: Option<f64>,
    /// Whether requests may be sent to a path only to measure it.
    pub explores: bool,
}

/// A window of a path that spins uses a little more than one core, or a little less.
const TOLERANCE: f64 = 1.05;

/// Cost of a path beyond the bound, for each core: more than any request takes, in nanoseconds.
const BEYOND_NS: f64 = 1e18;

impl Default for Bounds {
    fn default() -> Self {
        Self { cores_max: None, explores: true }
    }
}

impl Bounds {
    /// Whether a path of this cost keeps them.
    pub(crate) fn are_kept(&self, cost: &Cost) -> bool {
        self.cores_max.is_none_or(|most| cost.cores <= most * TOLERANCE)
    }

    /// What a cost counts for: that by the goal within the bounds; beyond them the cores, behind every path that keeps them.
    pub(crate) fn rank(&self, cost: &Cost) -> f64 {
        if self.are_kept(cost) { cost.first } else { BEYOND_NS * cost.cores }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_beyond_the_bound_ranks_behind_all_that_keep_it_and_by_its_cores() {
        let bounds = Bounds { cores_max: Some(1.0), ..Bounds::default() };
        let cost = |first, cores| Cost { first, second: 0.0, cores };
        let slow = cost(1e9, 1.04);
        assert!(bounds.are_kept(&slow) && !bounds.are_kept(&cost(1.0, 1.2)));
        assert!(bounds.rank(&slow) < bounds.rank(&cost(1.0, 1.2)));
        assert!(bounds.rank(&cost(1.0, 1.2)) < bounds.rank(&cost(1.0, 2.0)));
        assert_eq!(Bounds::default().rank(&cost(1.0, 64.0)), 1.0);
    }
}
