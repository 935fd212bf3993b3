//! The files that a guest sends, put in their places on the host. The guest is not trusted: it writes only beneath the files and
//! folders that were named for it, follows no link there, and has a quota. `session` feeds it the frames.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use iolane_core::part_file::create_beside;
use iolane_core::units::Bytes;
use iolane_core::{Error, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::channel::FileHeader;
use crate::files;

/// Far more than the results of any command.
const QUOTA: Quota = Quota { bytes: 1 << 30, files: 10_000 };

#[derive(Debug, Clone, Copy)]
struct Quota {
    bytes: u64,
    files: u32,
}

/// What comes back from one guest.
#[derive(Debug)]
pub(crate) struct ReturnedFiles {
    /// Files, and folders with all that is beneath them.
    places: Vec<PathBuf>,
    /// Files beneath these that the guest keeps.
    stays: Vec<PathBuf>,
    quota: Quota,
    left: Quota,
    current: Option<Part>,
}

impl ReturnedFiles {
    pub(crate) fn new(places: &[PathBuf], stays: &[PathBuf]) -> Self {
        Self { places: places.to_vec(), stays: stays.to_vec(), quota: QUOTA, left: QUOTA, current: None }
    }

    /// Begins a file.
    ///
    /// # Errors
    /// Failed if it has no place on the host, exceeds the quota, cannot be written, or if another one is not complete.
    pub(crate) fn begin(&mut self, header: FileHeader) -> Result<()> {
        if self.current.is_some() {
            return Err(Error::failed("the guest", "it began a file within another one"));
        }
        self.charge(&header)?;
        let (base, inner) = self.place_of(&header.path)?;
        self.current = Some(Part::create(&base, &inner, header)?);
        self.finish_whole()
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// Failed if there is no file, if the bytes are more than were announced, or cannot be written.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.current {
            Some(part) => part.take(bytes)?,
            None => return Err(Error::failed("the guest", "it sent data of no file")),
        }
        self.finish_whole()
    }

    fn charge(&mut self, header: &FileHeader) -> Result<()> {
        let left = self.left.bytes.checked_sub(header.bytes).zip(self.left.files.checked_sub(1));
        let Some((bytes, files)) = left else {
            let Quota { bytes, files } = self.quota;
            let cause = format!("the guest may send {} and {files} files in all, and this one is beyond", Bytes(bytes));
            return Err(Error::failed(header.path.display().to_string(), cause));
        };
        self.left = Quota { bytes, files };
        Ok(())
    }

    /// The folder on the host that a path of the guest is beneath, and the rest of it. That folder was named by the user, whose
    /// links are followed.
    fn place_of(&self, path: &Path) -> Result<(PathBuf, PathBuf)> {
        let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
            && !self.stays.iter().any(|file| file == path);
        let found = self.places.iter().filter(|_| is_plain).find_map(|place| {
            let rest = path.strip_prefix(place).ok()?;
            match rest.as_os_str().is_empty() {
                true => Some((place.parent()?.to_owned(), place.file_name()?.into())),
                false => Some((place.clone(), rest.to_owned())),
            }
        });
        found.ok_or_else(|| Error::failed(path.display().to_string(), "the guest may not write there"))
    }

    /// Moves the file to its place once it is complete.
    fn finish_whole(&mut self) -> Result<()> {
        self.current.take_if(|part| part.left == 0).map_or(Ok(()), Part::finish)
    }
}

/// A file that is not complete, under a temporary name in its folder; removed on drop unless it is finished.
#[derive(Debug)]
struct Part {
    shown: String,
    folder: OwnedFd,
    name: OsString,
    part: OsString,
    file: File,
    left: u64,
    is_finished: bool,
}

impl Part {
    /// Creates it, and the folders on its way from `base`.
    fn create(base: &Path, inner: &Path, header: FileHeader) -> Result<Self> {
        let shown = header.path.display().to_string();
        files::make_folder(base)?;
        let failed = |errno: Errno| match errno {
            Errno::LOOP | Errno::NOTDIR => {
                Error::failed(&shown, "a link or a file is in the way, and the guest may not follow it")
            }
            errno => Error::system(&shown, errno),
        };
        let (name, folders) = split(inner);
        let folder = open_folders(base, folders).map_err(failed)?;
        let (file, part) = create_part(&folder, &name).map_err(failed)?;
        Ok(Self { shown, folder, name, part, file: file.into(), left: header.bytes, is_finished: false })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.left = (self.left.checked_sub(bytes.len() as u64))
            .ok_or_else(|| Error::failed(&self.shown, "the guest sent more than it announced"))?;
        self.file.write_all(bytes).map_err(|error| Error::system(&self.shown, error))
    }

    /// Gives it its name; a link of that name is replaced, not followed (rename(2)).
    fn finish(mut self) -> Result<()> {
        let renamed = rustix::fs::renameat(&self.folder, &self.part, &self.folder, &self.name);
        renamed.map_err(|errno| Error::system(&self.shown, errno))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = rustix::fs::unlinkat(&self.folder, &self.part, AtFlags::empty());
        }
    }
}

/// Creates a file in the folder under a name that nothing has.
fn create_part(folder: &OwnedFd, name: &OsStr) -> Result<(OwnedFd, OsString), Errno> {
    // Exclusive: what has that name, a link too, is not opened. The mode is the host's, whatever the file has in the guest.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = |part: &OsStr| Ok(rustix::fs::openat(folder, part, flags, Mode::from_raw_mode(0o666))?);
    create_beside(name, create).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::EXIST))
}

/// The last part of a path, and those before it.
fn split(inner: &Path) -> (OsString, impl Iterator<Item = &OsStr>) {
    let folders = inner.parent().into_iter().flat_map(Path::iter);
    (inner.file_name().unwrap_or_default().to_owned(), folders)
}

/// Opens a folder beneath `base` step by step, and makes what is missing. Each step is a name and follows no link, so that none
/// leads out of `base`: as openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS.
fn open_folders<'a>(base: &Path, folders: impl Iterator<Item = &'a OsStr>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(CWD, base, flags, Mode::empty())?;
    for name in folders {
        match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        folder = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;
    use crate::channel::Frame;

    /// Feeds what a guest sends, as bytes of the channel.
    fn feed(returned: &mut ReturnedFiles, frames: &[Frame]) -> Result<()> {
        let mut stream = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut stream).unwrap());
        let mut stream = stream.as_slice();
        while let Some(frame) = Frame::read(&mut stream).unwrap() {
            match frame {
                Frame::File(header) => returned.begin(header)?,
                Frame::Data(bytes) => returned.take(&bytes)?,
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    fn file(path: &Path, bytes: u64) -> Frame {
        Frame::File(FileHeader { path: path.into(), bytes })
    }

    fn data(text: &str) -> Frame {
        Frame::Data(text.into())
    }

    fn into_out(folder: &Path) -> ReturnedFiles {
        ReturnedFiles::new(&[folder.join("out")], &[])
    }

    #[test]
    fn a_file_appears_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out/of/study.json");
        let mut returned = into_out(folder.path());
        feed(&mut returned, &[file(&path, 5), data("abc")]).unwrap();
        assert!(!path.exists());
        feed(&mut returned, &[data("de"), file(&folder.path().join("out/empty"), 0)]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abcde");
        assert_eq!(fs::read(folder.path().join("out/empty")).unwrap(), b"");
        assert_eq!(files::list(path.parent().unwrap()), [path]);
    }

    #[test]
    fn a_named_file_comes_back_and_what_is_beside_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut returned = ReturnedFiles::new(&[folder.path().join("x.json")], &[]);
        feed(&mut returned, &[file(&folder.path().join("x.json"), 2), data("{}")]).unwrap();
        for other in ["y.json", "x.json2", "../x.json", "x.json/../y"] {
            let error = feed(&mut returned, &[file(&folder.path().join(other), 1)]).unwrap_err().to_string();
            assert!(error.contains("the guest may not write there"), "{error}");
        }
        assert_eq!(files::list(folder.path()), [folder.path().join("x.json")]);
    }

    #[test]
    fn a_file_that_stays_in_the_guest_replaces_none_here() {
        let folder = tempfile::tempdir().unwrap();
        let [out, journal] = ["out", "out/journal"].map(|name| folder.path().join(name));
        let mut returned = ReturnedFiles::new(&[out], std::slice::from_ref(&journal));
        let error = feed(&mut returned, &[file(&journal, 2), data("{}")]).unwrap_err().to_string();
        assert!(error.contains("the guest may not write there") && !journal.exists(), "{error}");
    }

    #[test]
    fn links_beneath_a_place_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [out, secret] = ["out", "secret"].map(|name| folder.path().join(name));
        fs::create_dir(&out).unwrap();
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("key"), "key").unwrap();
        symlink("../secret", out.join("folder")).unwrap();
        symlink("../secret/key", out.join("file")).unwrap();
        let error = feed(&mut into_out(folder.path()), &[file(&out.join("folder/new"), 1)]).unwrap_err().to_string();
        assert!(error.contains("the guest may not follow it"), "{error}");
        feed(&mut into_out(folder.path()), &[file(&out.join("file"), 2), data("no")]).unwrap();
        assert_eq!(files::list(&secret), [secret.join("key")]);
        assert_eq!(
            (fs::read(secret.join("key")).unwrap(), fs::read(out.join("file")).unwrap()),
            ("key".into(), "no".into())
        );
    }

    #[test]
    fn a_guest_sends_no_more_than_it_announced_and_no_more_than_its_quota() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let small = || ReturnedFiles { left: Quota { bytes: 5, files: 2 }, ..into_out(folder.path()) };
        for (frames, says) in [
            (vec![file(&out.join("a"), 2), data("abc")], "the guest sent more than it announced"),
            (vec![data("abc")], "it sent data of no file"),
            (vec![file(&out.join("a"), 1), file(&out.join("b"), 1)], "it began a file within another one"),
            (vec![file(&out.join("a"), 6)], "the guest may send 1g and 10000 files in all, and this one is beyond"),
            (vec![file(&out.join("a"), u64::MAX)], "this one is beyond"),
            // The same file over and over counts as often as it is sent.
            (vec![file(&out.join("a"), 3), data("abc"), file(&out.join("a"), 3)], "this one is beyond"),
            (vec![file(&out.join("a"), 0), file(&out.join("a"), 0), file(&out.join("a"), 0)], "this one is beyond"),
        ] {
            let error = feed(&mut small(), &frames).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(files::list(&out).iter().all(|path| path.ends_with("a")), "no part is left behind");
    }

    proptest! {
        #[test]
        fn whatever_a_guest_sends_nothing_but_its_places_changes(
            sent in prop::collection::vec((prop::collection::vec("out|x\\\\.json|secret|key|link|\\\\.\\\\.|\\\\.|/|[a-z]", 0..6), 0..9u64, any::<bool>()), 0..8),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let [out, secret] = ["out", "secret"].map(|name| folder.path().join(name));
            for path in [&out, &secret] {
                fs::create_dir(path).unwrap();
            }
            fs::write(secret.join("key"), "key").unwrap();
            symlink("../secret", out.join("link")).unwrap();
            symlink("../secret/key", out.join("key")).unwrap();
            let places = [out.clone(), folder.path().join("x.json")];
            let mut returned = ReturnedFiles { left: Quota { bytes: 20, files: 4 }, ..ReturnedFiles::new(&places, &[]) };
            for (parts, bytes, is_below) in sent {
                let base = if is_below { out.clone() } else { folder.path().to_owned() };
                let frames = [file(&base.join(parts.join("/")), bytes), Frame::Data(vec![b'x'; bytes as usize])];
                // A guest goes on after an error only here.
                let _ = feed(&mut returned, &frames);
            }
            prop_assert_eq!(files::list(&secret), [secret.join("key")]);
            prop_assert_eq!(fs::read(secret.join("key")).unwrap(), b"key");
            let found = files::list(folder.path());
            prop_assert!(found.iter().all(|path| path.ends_with("out") || path.ends_with("secret") || path.ends_with("x.json")), "{:?}", found);
        }
    }
}
