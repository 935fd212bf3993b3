//! The place of this process in the session of its terminal. Asked by `nix`: a session or group of another PID namespace has the number 0, as in a
//! container that was entered from outside, and `rustix` takes that for impossible.

use nix::unistd::{Pid, getpgrp, getppid, getsid, tcgetpgrp};

/// The number of a process, session or group of another PID namespace.
const ELSEWHERE: Pid = Pid::from_raw(0);

/// Whether a shell can have stopped programs go on: the parent is in the same session. Without one, as in a container or a terminal of its own, the
/// kernel drops the signals of the terminal that stop (setpgid(2), orphaned process groups), and so does this program.
pub(crate) fn has_shell() -> bool {
    let (own, parent) = (getsid(None), getppid());
    own != Ok(ELSEWHERE) && parent != ELSEWHERE && getsid(Some(parent)) == own
}

/// Whether the terminal is this process's to draw on, and not that of the shell that runs it in the background.
pub(crate) fn is_in_foreground() -> bool {
    // An error: it is not the controlling terminal, which nobody shares.
    tcgetpgrp(std::io::stderr()).map_or(true, |group| group == ELSEWHERE || group == getpgrp())
}
