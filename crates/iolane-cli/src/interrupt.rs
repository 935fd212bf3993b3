//! Ctrl-C: the first one asks whatever runs to end and keep what it has; the second one ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set once the user wants it to end.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// The exit code of a program that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Takes SIGINT, SIGTERM and SIGHUP from now on.
pub(crate) fn catch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            crate::screen::give_back();
            std::process::exit(EXIT_INTERRUPTED);
        }
    })?;
    Ok(())
}
