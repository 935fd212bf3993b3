//! Contradictions between the parts of a study file that its types do not exclude. `file` calls it; which arms a claim
//! selects is checked by `claims::lint`.

use iolane::{Error, Result};

use super::claim::{Check, Claim};
use super::factor::Factor;
use super::figure::Figure;
use super::study::Study;

/// # Errors
/// `Usage` for the first contradiction.
pub(super) fn validate(study: &Study, file: &str) -> Result<()> {
    let found = claims(study).and_then(|()| study.figures.iter().try_for_each(|figure| of_figure(study, figure)));
    found.map_err(|cause| Error::usage(file, cause))
}

fn claims(study: &Study) -> Result<(), String> {
    for (index, claim) in study.claims.iter().enumerate() {
        if study.claims[..index].iter().any(|other| other.id == claim.id) {
            return Err(format!("[[claim]] {} occurs twice", claim.id));
        }
        if claim.checks.is_empty() {
            return Err(format!("[[claim]] {} has no check", claim.id));
        }
        claim.checks.iter().try_for_each(|check| of_check(study, claim, check))?;
    }
    Ok(())
}

fn of_check(study: &Study, claim: &Claim, check: &Check) -> Result<(), String> {
    let place = format!("[[claim]] {}: check `{}`", claim.id, check.says);
    match (check.at_least, check.at_most) {
        (None, None) => return Err(format!("{place} has neither at_least nor at_most")),
        (Some(least), Some(most)) if least > most => return Err(format!("{place}: at_least is above at_most")),
        _ => {}
    }
    match check.paths().find(|name| !knows(study, name)) {
        Some(name) => Err(format!("{place}: no group has a path `{name}`")),
        None => Ok(()),
    }
}

fn of_figure(study: &Study, figure: &Figure) -> Result<(), String> {
    if matches!(figure.x, Factor::Rw | Factor::Offsets | Factor::Application) {
        let cause =
            "`rw`, `offsets` and `application` cannot be the x axis: write one figure for each, selected by `where`";
        return Err(format!("[[figure]] {}: {cause}", figure.id));
    }
    let published = figure.published.iter().map(|point| &point.path);
    match figure.select.path.iter().chain(published).find(|name| !knows(study, name)) {
        Some(name) => Err(format!("[[figure]] {}: no group has a path `{name}`", figure.id)),
        None => Ok(()),
    }
}

fn knows(study: &Study, name: &str) -> bool {
    study.groups.iter().flat_map(|group| &group.paths).any(|path| path.name == name)
}
