//! Names for a file that is written beside the one that it replaces, and renamed when it is whole.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, Result};

/// Names that are tried.
const TRIES: u32 = 1000;

/// What `create` makes under a name of its own beside a file of this name, and that name. Other processes have other numbers, except one in another
/// container, and one that a kill or a power cut ended; threads have the same. What any of them left, and what was planted, has such a
/// name, so that `create` has to be exclusive: it fails with `AlreadyExists`, and is given another name.
///
/// # Errors
/// Those of `create`.
pub fn create_beside<T>(file: &OsStr, mut create: impl FnMut(&OsStr) -> Result<T>) -> Result<(T, OsString)> {
    for attempt in 0..TRIES {
        let mut name = OsString::from(".");
        name.push(file);
        name.push(format!(".{}.{attempt}.part", std::process::id()));
        match create(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created.map(|created| (created, name)),
        }
    }
    Err(Error::from(ErrorKind::AlreadyExists))
}
