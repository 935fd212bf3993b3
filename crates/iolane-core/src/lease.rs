//! Whether a regular file is open anywhere else: the kernel knows it even of processes that this one may not look into, and of
//! itself (fcntl(2), F_SETLEASE).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Whether the file of `fd`, which is open for reading only, is open through any other description, this process's own included.
/// With `for_writing`, only those that may write count.
///
/// # Errors
/// `EACCES` if the file is another user's; `EINVAL` if its file system has no leases.
pub fn is_open_elsewhere(fd: impl AsFd, for_writing: bool) -> io::Result<bool> {
    let fd = fd.as_fd();
    // An open that falls into the moment of the lease sends a signal: one that is ignored unless there is a handler, instead of
    // SIGIO, which ends the process.
    fcntl(fd, F_SETSIG, libc::SIGURG)?;
    let lease = if for_writing { libc::F_RDLCK } else { libc::F_WRLCK };
    match fcntl(fd, libc::F_SETLEASE, lease) {
        Ok(()) => fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Missing in the `libc` crate for some C libraries (include/uapi/asm-generic/fcntl.h).
const F_SETSIG: libc::c_int = 10;

fn fcntl(fd: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: these commands take an integer and touch no memory of this process.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::sync::PoisonError;

    use crate::open_files::TURN;

    #[test]
    fn another_description_is_seen_and_one_that_only_reads_is_no_writer() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join(format!("iolane-lease-{}", std::process::id()));
        fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let seen = |file: &File| (is_open_elsewhere(file, false).unwrap(), is_open_elsewhere(file, true).unwrap());
        let alone = seen(&file);
        let reader = File::open(&path).unwrap();
        let beside_a_reader = seen(&file);
        drop(reader);
        let writer = File::options().write(true).open(&path).unwrap();
        let beside_a_writer = seen(&file);
        drop(writer);
        let again = seen(&file);
        fs::remove_file(&path).unwrap();
        assert_eq!(
            [alone, beside_a_reader, beside_a_writer, again],
            [(false, false), (true, false), (true, true), (false, false)]
        );
    }
}
