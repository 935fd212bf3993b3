//! Files of results, written whole: each is complete under its name or is left as it was (`place` says what a name stands for). Results folders, reports and the
//! command line write through it. It knows no format, and never writes to a target.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use iolane::part_file::create_beside;
use iolane::{Error, Result, guard};

use crate::place::{self, Place};

/// Writes a file whole, or leaves what was there.
///
/// # Errors
/// `Failed` if it cannot be written.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    write_together(&[(file, bytes)])
}

/// Writes files that belong together. All of them are on the disk before the first gets its name, so that most failures
/// leave every file as it was. They get their names one by one: a kill in between leaves some of them new. The results of a
/// study, of which one file is useless without the other, are written by [`results::replace`](crate::results::replace).
///
/// # Errors
/// `Failed` naming the file that cannot be written.
pub fn write_together(files: &[(&Path, &[u8])]) -> Result<()> {
    let parts = files.iter().map(|(file, bytes)| Part::write(file, bytes)).collect::<Result<Vec<Part>>>()?;
    parts.into_iter().try_for_each(Part::rename)
}

/// The file that a name stands for, behind links; `None` for a stream.
///
/// # Errors
/// `Failed` if it cannot be written.
pub(crate) fn behind_links(name: &Path) -> Result<Option<PathBuf>> {
    match Place::of(name).map_err(|error| cannot_write(name, error))? {
        Place::File(file) => Ok(Some(file)),
        Place::Stream(_) => Ok(None),
    }
}

/// Gives a file another name in its folder. The name is on the disk when this returns.
///
/// # Errors
/// `Failed` if it cannot be renamed.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = std::fs::rename(from, to).and_then(|()| sync_folder(place::folder_of(to)));
    renamed.map_err(|error| cannot_write(to, error))
}

/// Waits until the names in a folder are on the disk, which fsync(2) of a file does not promise for the file's own name.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A folder may allow writing and not reading, and some file systems sync no folders.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => Ok(()),
        synced => synced,
    }
}

/// Checks, before work is done for it, that a file could be written, and that it is none of `kept`.
///
/// # Errors
/// `Usage` for a file that is to be kept, `Failed` for one that cannot be written.
pub fn check_writable(file: &Path, kept: &[OsString]) -> Result<()> {
    if kept.iter().any(|kept| is_same(kept.as_ref(), file)) {
        let cause = "it is a target, holds results or is read, and would be lost";
        return Err(
            Error::usage(format!("writing {}", printable(file)), cause).remedy("choose another file for the results")
        );
    }
    let tried = match Place::of(file) {
        Ok(Place::File(file)) => create_part(&file).and_then(|(_, part)| std::fs::remove_file(part)),
        Ok(Place::Stream(_)) => Ok(()),
        Err(error) => Err(error),
    };
    tried.map_err(|error| cannot_write(file, error))
}

/// A name with control characters replaced, for one line of a message.
pub fn printable(file: &Path) -> String {
    file.to_string_lossy().replace(char::is_control, "?")
}

/// Checks that no folder on the way to a name, nor one of that name, is reached by a link that another user planted.
///
/// # Errors
/// `Failed` if one is.
pub fn check_way(name: &Path) -> Result<()> {
    place::check_way(&name.join("a file in it")).map_err(|error| cannot_write(name, error))
}

/// Folders made for results. Those that are still empty are removed when this is dropped.
#[derive(Debug)]
pub struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Makes a folder and its missing parents.
    ///
    /// # Errors
    /// `Failed` if it cannot be made.
    pub fn make(folder: &Path) -> Result<Self> {
        check_way(folder)?;
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = folder.ancestors().take_while(missing).map(PathBuf::from).collect();
        std::fs::create_dir_all(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => cannot_write(folder, ErrorKind::NotADirectory.into()),
            _ => cannot_write(folder, error),
        })?;
        let made = Self(made);
        let synced = made.0.iter().try_for_each(|folder| sync_folder(place::folder_of(folder)));
        synced.map_err(|error| cannot_write(folder, error))?;
        Ok(made)
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        // Innermost first; the system refuses to remove those that hold something.
        for folder in &self.0 {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// A written file that does not have its name yet; removed on drop unless it was renamed.
pub(crate) struct Part {
    part: PathBuf,
    /// `None` once it is renamed, or if it was a stream.
    file: Option<PathBuf>,
}

impl Part {
    /// Writes a file for a name. It is on the disk when this returns; a stream has been written to.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    pub(crate) fn write(name: &Path, bytes: &[u8]) -> Result<Self> {
        Self::try_write(name, bytes).map_err(|error| cannot_write(name, error))
    }

    fn try_write(name: &Path, bytes: &[u8]) -> std::io::Result<Self> {
        match Place::of(name)? {
            Place::Stream(node) => match Place::open_stream(&node)?.write_all(bytes) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
                _ => Ok(Self { part: name.into(), file: None }),
            },
            Place::File(file) => {
                let (mut written, part) = create_part(&file)?;
                let this = Self { part, file: Some(file) };
                // On the disk before the rename: after a power cut the name must not be an empty file's.
                written.write_all(bytes).and_then(|()| written.sync_all())?;
                Ok(this)
            }
        }
    }

    /// Gives the file its name, which is on the disk when this returns.
    ///
    /// # Errors
    /// `Failed` if it cannot be renamed.
    pub(crate) fn rename(mut self) -> Result<()> {
        let Some(file) = self.file.as_ref() else { return Ok(()) };
        rename(&self.part, file)?;
        self.file = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Creates a file in the same folder under a name that nothing has.
fn create_part(file: &Path) -> std::io::Result<(File, PathBuf)> {
    let create = |name: &OsStr| File::create_new(file.with_file_name(name));
    let (part, name) = create_beside(file.file_name().unwrap_or_default(), create)?;
    Ok((part, file.with_file_name(name)))
}

/// Whether two names mean one file, or two files of one place that are not there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |file: &Path| Some((std::fs::canonicalize(place::folder_of(file)).ok()?, file.file_name()?.to_owned()));
    guard::refuse_doubles(&[one.into(), other.into()]).is_err()
        || place(one).is_some_and(|one| place(other) == Some(one))
}

/// Always `Failed`: `Unavailable` is about targets and paths.
fn cannot_write(file: &Path, error: std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or choose another place",
        _ => "choose a place you may write",
    };
    Error::system(format!("writing {}", printable(file)), error).with_kind(iolane::ErrorKind::Failed).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_belong_together_are_all_replaced_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        write_together(&[(&one, b"1"), (&two, b"2")]).unwrap();
        let missing = folder.path().join("missing/two");
        let error = write_together(&[(&one, b"changed"), (&missing, b"2")]).unwrap_err();
        assert_eq!(error.kind(), iolane::ErrorKind::Failed);
        assert!(error.to_string().contains("missing/two"), "{error}");
        assert_eq!(std::fs::read(&one).unwrap(), b"1");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no part is left behind");
    }

    #[test]
    fn a_part_that_a_killed_process_of_the_same_number_left_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("study.json");
        let (_, left) = create_part(&file).unwrap();
        check_writable(&file, &[]).unwrap();
        write(&file, b"results").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"results");
        assert!(left.exists(), "it may be another process's, in a container");
    }

    #[test]
    fn a_file_that_is_to_be_kept_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("target");
        std::fs::write(&file, "data").unwrap();
        let error = check_writable(&folder.path().join("./target"), &[file.into()]).unwrap_err().to_string();
        assert!(error.contains("it is a target, holds results or is read"), "{error}");
    }

    #[test]
    fn a_file_that_another_name_means_is_no_place_though_it_is_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let kept: OsString = folder.path().join("records").into();
        assert!(check_writable(&folder.path().join("./records"), std::slice::from_ref(&kept)).is_err());
        check_writable(&folder.path().join("other"), &[kept]).unwrap();
    }

    #[test]
    fn a_link_is_kept_and_the_file_behind_it_is_replaced_unless_another_user_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, b"after").unwrap();
        assert_eq!((std::fs::read(&file).unwrap(), link.is_symlink()), (b"after".to_vec(), true));
        if std::os::unix::fs::lchown(&link, Some(65_534), None).is_err() {
            return eprintln!("SKIPPED a link of another user: only root can make one");
        }
        for error in [write(&link, b"theirs").unwrap_err(), check_writable(&link, &[]).unwrap_err()] {
            assert!(error.to_string().contains("it is a symbolic link of another user"), "{error}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"after");
    }

    #[test]
    fn made_folders_go_with_what_was_not_put_into_them() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        let made = MadeFolders::make(&inner).unwrap();
        std::fs::write(folder.path().join("a/kept"), "").unwrap();
        drop(made);
        assert!(folder.path().join("a").exists() && !inner.exists());
    }
}
