//! Files of results, written whole: each is complete under its name or is left as it was. Results folders, reports and the
//! command line write through it. It knows no format, and never writes to a target.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use iolane::{Error, Result, guard};

/// Writes a file whole, or leaves what was there.
///
/// # Errors
/// `Failed` if it cannot be written.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    write_together(&[(file, bytes)])
}

/// Writes files that belong together. All of them are on the disk before the first gets its name, so that most failures
/// leave every file as it was.
///
/// # Errors
/// `Failed` naming the file that cannot be written.
pub fn write_together(files: &[(&Path, &[u8])]) -> Result<()> {
    let write = |(file, bytes): &(&Path, &[u8])| Part::write(file, bytes).map_err(|error| cannot_write(file, error));
    let parts = files.iter().map(write).collect::<Result<Vec<Part>>>()?;
    for (part, (file, _)) in parts.into_iter().zip(files) {
        part.rename().map_err(|error| cannot_write(file, error))?;
    }
    Ok(())
}

/// Checks, before work is done for it, that a file could be written, and that it is none of `kept`.
///
/// # Errors
/// `Usage` for a file that is to be kept, `Failed` for one that cannot be written.
pub fn check_writable(file: &Path, kept: &[OsString]) -> Result<()> {
    if kept.iter().any(|kept| guard::refuse_doubles(&[kept.clone(), file.into()]).is_err()) {
        let cause = "it is a target or holds results, and would be lost";
        return Err(
            Error::usage(format!("writing {}", printable(file)), cause).remedy("choose another file for the results")
        );
    }
    let tried = match Place::of(file) {
        Ok(Place::File(file)) => {
            let part = part_of(&file);
            File::create_new(&part).and_then(|_| std::fs::remove_file(&part))
        }
        Ok(Place::Stream) => Ok(()),
        Err(error) => Err(error),
    };
    tried.map_err(|error| cannot_write(file, error))
}

/// A name with control characters replaced, for one line of a message.
pub fn printable(file: &Path) -> String {
    file.to_string_lossy().replace(char::is_control, "?")
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
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = folder.ancestors().take_while(missing).map(PathBuf::from).collect();
        std::fs::create_dir_all(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => cannot_write(folder, ErrorKind::NotADirectory.into()),
            _ => cannot_write(folder, error),
        })?;
        Ok(Self(made))
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

/// What a name stands for.
enum Place {
    /// A file, replaced as a whole; a symbolic link is resolved.
    File(PathBuf),
    /// A pipe, a terminal or /dev/null: written to in place.
    Stream,
}

impl Place {
    fn of(file: &Path) -> std::io::Result<Self> {
        match std::fs::metadata(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => match file.as_os_str().as_bytes() {
                [.., b'/'] => Err(ErrorKind::IsADirectory.into()),
                _ => Ok(Self::File(file.into())),
            },
            Err(error) => Err(error),
            Ok(found) if found.is_file() => Ok(Self::File(std::fs::canonicalize(file)?)),
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Ok(found) if found.file_type().is_block_device() => Err(std::io::Error::other("it is a block device")),
            Ok(_) => Ok(Self::Stream),
        }
    }
}

/// A written file that does not have its name yet; removed on drop unless it was renamed.
struct Part {
    part: PathBuf,
    /// `None` once it is renamed, or if it was a stream.
    file: Option<PathBuf>,
}

impl Part {
    fn write(file: &Path, bytes: &[u8]) -> std::io::Result<Self> {
        match Place::of(file)? {
            Place::Stream => match std::fs::OpenOptions::new().write(true).open(file)?.write_all(bytes) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
                _ => Ok(Self { part: file.into(), file: None }),
            },
            Place::File(file) => {
                let part = part_of(&file);
                let mut written = File::create_new(&part)?;
                let this = Self { part, file: Some(file) };
                // On the disk before the rename: after a power cut the name must not be an empty file's.
                written.write_all(bytes).and_then(|()| written.sync_all())?;
                Ok(this)
            }
        }
    }

    fn rename(mut self) -> std::io::Result<()> {
        let Some(file) = self.file.as_ref() else { return Ok(()) };
        std::fs::rename(&self.part, file)?;
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

/// A name in the same folder that no other process uses.
fn part_of(file: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
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
    fn a_file_that_is_to_be_kept_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("target");
        std::fs::write(&file, "data").unwrap();
        let error = check_writable(&folder.path().join("./target"), &[file.into()]).unwrap_err().to_string();
        assert!(error.contains("it is a target or holds results"), "{error}");
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
