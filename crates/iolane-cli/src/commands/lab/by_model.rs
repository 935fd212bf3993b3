//! What a guest leaves to its host: claims that need more cores or drives are decided by the model, which would take a guest without
//! KVM minutes.

use std::path::Path;

use iolane_study::results;

use crate::commands::report_page;
use crate::output::{self, Bar};

/// Decides them in the results that a guest has just written. A failure is reported here; the results are valid without it.
pub(super) fn decide(folder: &Path) {
    let bar = Bar::unknown("deciding claims by the model");
    let decided = results::with_model(folder);
    drop(bar);
    let written = decided
        .and_then(|report| report.map_or(Ok(false), |report| results::write_report(folder, &report).map(|()| true)));
    match written {
        Ok(true) => {
            report_page::renew(folder);
        }
        Ok(false) => {}
        Err(error) => output::warn(&format!("claims by the model: {error}")),
    }
}
