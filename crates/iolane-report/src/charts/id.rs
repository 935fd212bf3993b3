//! Names of charts for links and files.

use std::collections::HashSet;

use super::chart::Chart;

/// Lower-case letters, digits and `-`.
pub(super) fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// Numbers the charts whose name another has before them.
pub(super) fn make_distinct(charts: &mut [Chart]) {
    let mut known = HashSet::new();
    for chart in charts {
        let plain = chart.id.clone();
        let mut count = 1;
        while !known.insert(chart.id.clone()) {
            count += 1;
            chart.id = format!("{plain}-{count}");
        }
    }
}
