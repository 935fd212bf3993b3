//! Whether a run of tests went well, and what it says at its end. In continuous integration a skip that is not listed in
//! `xtask/skips.toml` is a failure. It runs no test.

use anyhow::{Result, bail};

use crate::skips::{Accepted, Skip};
use crate::tally::Tally;
use crate::times::Times;

/// Whether continuous integration runs this: its environment says so by custom.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Prints what there is to say at the end; whether all is well.
pub(crate) fn conclude(tally: &Tally, times: &Times, accepted: &Accepted, verbose: bool, ci: bool) -> bool {
    let unlisted = accepted.split(&tally.skipped).1.len();
    print!("{}{}", times.summary(), tally.report(accepted, verbose));
    if verbose {
        accepted.unused().iter().for_each(|entry| println!("unused in xtask/skips.toml: {entry}"));
    }
    if ci && unlisted > 0 {
        println!("\nFAILED: {unlisted} skips are not listed in xtask/skips.toml, see above");
    }
    print!("{}", tally.counts());
    tally.failures.is_empty() && !(ci && unlisted > 0)
}

/// In continuous integration nothing is tested on a machine that lacks what the tests need.
pub(crate) fn require_accepted(skipped: &[Skip], accepted: &Accepted, ci: bool) -> Result<()> {
    match accepted.split(skipped).1.as_slice() {
        [first, ..] if ci => bail!("{first}\nCI accepts only the skips that xtask/skips.toml lists"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages;

    #[test]
    fn in_continuous_integration_a_missing_package_is_an_error_unless_it_is_listed() {
        let skipped = [packages::QEMU.skip()];
        let error = require_accepted(&skipped, &Accepted::default(), true).unwrap_err().to_string();
        assert!(error.contains("qemu-system-x86"), "{error}");
        require_accepted(&skipped, &Accepted::default(), false).unwrap();
    }
}
