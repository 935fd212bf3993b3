//! Ctrl-C: the first asks the running work to stop and keep its results; the second ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::screen;

/// Set once the user asks it to stop.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// The exit code that shells report for a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

pub(crate) fn is_stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Handles SIGINT, SIGTERM and SIGHUP from now on.
pub(crate) fn catch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            screen::give_back();
            std::process::exit(EXIT_INTERRUPTED);
        }
    })?;
    Ok(())
}
