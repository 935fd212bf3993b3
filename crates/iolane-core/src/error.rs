//! The error type of everything except the outcome of a single request.
//! An error names what failed, the likely cause and the remedy; the command line maps its kind to an exit code.

use std::{fmt, io};

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The category of an [`Error`]; it decides the exit code of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something invalid (exit code 2).
    Usage,
    /// The target or the path is unavailable on this machine (exit code 3).
    Unavailable,
    /// A limit was reached: memory lock, descriptors, disk space (exit code 1).
    Exhausted,
    /// The operation was tried and failed (exit code 1).
    Failed,
}

/// A failure with its cause and its remedy.
///
/// Printed as one line: `what: cause; remedy`. It converts to [`std::io::Error`], with the kind of its `errno` where it has one, so that `?`
/// works in functions that return that.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Failure>);

/// Boxed, so that a result without an error, which nearly every result is, travels in a register.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
struct Failure {
    kind: ErrorKind,
    what: String,
    cause: String,
    remedy: String,
    source: Option<io::Error>,
}

impl Error {
    fn new(kind: ErrorKind, what: impl Into<String>, cause: impl Into<String>) -> Self {
        let (what, cause) = (what.into(), cause.into());
        Self(Box::new(Failure { kind, what, cause, remedy: String::new(), source: None }))
    }

    /// Wrong use: an invalid value, a combination that no kernel allows.
    pub fn usage(what: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, what, cause)
    }

    /// The target or the path is unavailable here.
    pub fn unavailable(what: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, what, cause)
    }

    /// A limit of the process or the machine was reached.
    pub fn exhausted(what: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exhausted, what, cause)
    }

    /// The operation was tried and failed.
    pub fn failed(what: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, what, cause)
    }

    /// A failed system call: the kind and the remedy follow from `errno` where it implies them.
    pub fn system(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let (kind, remedy) = match error.raw_os_error() {
            Some(libc::EMFILE) => (ErrorKind::Exhausted, "close some files or raise the limit (ulimit -n)"),
            Some(libc::ENFILE) => (ErrorKind::Exhausted, "raise fs.file-max"),
            Some(libc::ENOMEM) => {
                (ErrorKind::Exhausted, "free memory, lower the depth, or raise the locked-memory limit (ulimit -l)")
            }
            Some(libc::ENOSPC) => (ErrorKind::Exhausted, "free space or choose a smaller size"),
            Some(libc::EACCES | libc::EPERM) => {
                (ErrorKind::Unavailable, "run as a user who may open it, or ask for access")
            }
            _ => (ErrorKind::Failed, ""),
        };
        let (what, cause) = (what.into(), describe(&error));
        Self(Box::new(Failure { kind, what, cause, remedy: remedy.into(), source: Some(error) }))
    }

    /// A thread could not be started.
    pub fn no_thread(error: io::Error) -> Self {
        Self::system("starting a thread", error)
            .remedy("raise the limit of threads (ulimit -u, or pids.max of the cgroup)")
    }

    /// Adds or replaces what the reader can do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = remedy.into();
        self
    }

    /// Adds the `errno` (errno(3)) that says the same, for programs whose errors are `std::io`'s.
    #[must_use]
    pub fn errno(mut self, errno: i32) -> Self {
        self.0.source = Some(io::Error::from_raw_os_error(errno));
        self
    }

    /// Replaces the kind, where the caller knows more than `errno` says.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The category of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What failed, and on what.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Why, as far as is known.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// What to do; empty if nothing is known to help.
    pub fn remedy_text(&self) -> &str {
        &self.0.remedy
    }
}

/// The same as `Display`, so that a `main` which returns it prints one line.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For programs whose own errors are `std::io`'s. The text stays whole. The kind is that of the `errno` where there is one: `NotFound`,
/// `PermissionDenied`, `ResourceBusy` for a target in use. `Unsupported` is a path that does not work here.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match (&error.0.source, error.kind()) {
            (Some(source), _) => source.kind(),
            (None, ErrorKind::Usage) => io::ErrorKind::InvalidInput,
            (None, ErrorKind::Unavailable) => io::ErrorKind::Unsupported,
            (None, ErrorKind::Exhausted) => io::ErrorKind::QuotaExceeded,
            (None, ErrorKind::Failed) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// The C library's text for an error, without Rust's `(os error N)`.
pub fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_as_one_line_with_cause_and_remedy() {
        let error = Error::unavailable("io_uring+iopoll on /dev/vda", "the device has no poll queues")
            .remedy("boot with nvme.poll_queues=N");
        assert_eq!(
            error.to_string(),
            "io_uring+iopoll on /dev/vda: the device has no poll queues; boot with nvme.poll_queues=N"
        );
        assert_eq!(Error::usage("depth 0", "it is 1 or more").to_string(), "depth 0: it is 1 or more");
    }

    #[test]
    fn running_out_of_descriptors_is_named_with_its_limit() {
        let error = Error::system("open /x", io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }

    #[test]
    fn an_error_of_std_io_keeps_kind_and_text() {
        let missing = io::Error::from(Error::system("open /x", io::Error::from_raw_os_error(libc::ENOENT)));
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().starts_with("open /x: "), "{missing}");
        let in_use = Error::unavailable("writing to x", "it is mounted").errno(libc::EBUSY);
        assert_eq!(in_use.to_string(), "writing to x: it is mounted");
        assert_eq!(io::Error::from(in_use).kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(io::Error::from(Error::usage("depth 0", "it is 1 or more")).kind(), io::ErrorKind::InvalidInput);
    }
}
