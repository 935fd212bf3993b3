//! Rate searches in a comparison: an arm for each path and depth, whose figure is the highest rate that keeps the bound. The
//! rates that were tried on the way there are no arms: where a search looked says nothing of what it found.

use iolane::{Error, Result};

use super::arms::{ArmComparison, Cell, Change, IsSame, Ratio, across};
use crate::results::{Loaded, Searched};
use crate::rows::Results;
use crate::search::{HighestRate, ratio};

/// The arms of searches; `None` if the folders are none.
///
/// # Errors
/// `Usage` if some folders are searches and others are not, or if they search for different bounds.
pub(super) fn arms(loaded: &[Loaded], results: &[Results], is_same: IsSame) -> Result<Option<Vec<ArmComparison>>> {
    let bounds: Vec<Option<String>> = loaded
        .iter()
        .map(|loaded| loaded.document.rate_until.as_ref().map(|rate_until| rate_until.bound.to_string()))
        .collect();
    if let Some(other) = bounds.iter().position(|bound| *bound != bounds[0]) {
        let name = |index: usize| loaded[index].folder.display().to_string();
        let what = |index: usize| match &bounds[index] {
            Some(bound) => format!("{} searches the highest rate with {bound}", name(index)),
            None => format!("{} searches no rate", name(index)),
        };
        return Err(Error::usage(
            format!("comparing {} and {}", name(0), name(other)),
            format!("{}, {}", what(0), what(other)),
        )
        .remedy("compare searches for one bound"));
    }
    if bounds[0].is_none() {
        return Ok(None);
    }
    let searched = |(loaded, results): (&Loaded, &Results)| {
        let rate_until = loaded.document.rate_until.as_ref();
        rate_until.map_or_else(Vec::new, |rate_until| rate_until.searched(results))
    };
    let searches: Vec<Vec<Searched>> = loaded.iter().zip(results).map(searched).collect();
    Ok(Some(across(&searches, is_same, |search| &search.arm, cell)))
}

fn cell(search: &Searched, first: Option<&Searched>) -> Cell {
    let to_first = first.and_then(|first| {
        let estimate = ratio(&search.highest, &first.highest)?;
        let repeats = search.runs.min(first.runs);
        Some(Ratio { estimate, repeats, shown: search.complete && first.complete && estimate.shows_difference() })
    });
    Cell {
        iops: match &search.highest {
            HighestRate::Found { rate, .. } => rate.value,
            HighestRate::AtLeast(rate) => *rate,
            HighestRate::None(_) => 0.0,
        },
        p99_ns: None,
        p99_ratio: None,
        change: to_first.map(Change::of),
        iops_ratio: to_first,
    }
}
