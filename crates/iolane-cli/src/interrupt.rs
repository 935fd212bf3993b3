//! Ctrl-C: the first asks the running work to stop and keep its results; the second ends the program at once. And the other signals that
//! would end or stop it halfway: Ctrl-Z and Ctrl-\\ give the terminal back first, and a file that grows beyond a limit is an error.

use std::sync::atomic::{AtomicBool, Ordering};

use iolane::Error;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output::screen;
use crate::session::has_shell;

/// Set once the user asks it to stop.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// The exit code that shells report for a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

pub(crate) fn is_stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Handles signals from now on, except those that the program was started to ignore, as nohup(1) has it ignore SIGHUP. SIGINT is handled all the
/// same: a script has its background programs ignore it, and `kill -INT` of the script is to keep what was measured.
///
/// # Errors
/// If no thread can be started that waits for them.
pub(crate) fn catch() -> iolane::Result<()> {
    // SIGXFSZ is handled to be survived: the write that caused it fails.
    let always = [SIGINT, SIGTERM, SIGHUP, SIGXFSZ];
    let with_terminal = [SIGQUIT, SIGTSTP, SIGCONT];
    let with_terminal = with_terminal.into_iter().filter(|_| has_shell());
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let is_caught = |signal: &i32| *signal == SIGINT || ignored & (1 << (signal - 1)) == 0;
    let caught = always.into_iter().chain(with_terminal).filter(is_caught);
    let mut signals = Signals::new(caught).map_err(|error| Error::system("waiting for signals", error))?;
    let wait = move || signals.forever().for_each(handle);
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(Error::no_thread)?;
    Ok(())
}

fn handle(signal: i32) {
    match signal {
        SIGXFSZ => {}
        SIGCONT => screen::show_again(),
        SIGTSTP | SIGQUIT => {
            screen::give_back();
            let _ = emulate_default_handler(signal);
        }
        _ => {
            if STOP.swap(true, Ordering::Relaxed) {
                screen::give_back();
                std::process::exit(EXIT_INTERRUPTED);
            }
        }
    }
}

/// The signals that a process ignores, by its status (proc_pid_status(5)): the lowest bit is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status() {
        let status = "Name:\tiolane\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!(ignored(status), 1 << (SIGHUP - 1) | 1 << 12);
        assert_eq!(ignored(""), 0);
    }
}
