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
const QUOTA: Quota = Quota { bytes: 1 << 30, entries: 10_000 };

/// The components of a path beneath its place, the file's name included.
const COMPONENTS_MAX: usize = 32;

/// What a guest may send.
#[derive(Debug, Clone, Copy)]
struct Quota {
    bytes: u64,
    /// Files, and folders that are made for them.
    entries: u32,
}

impl Quota {
    /// Subtracts a file with its bytes, or a folder, which has none.
    fn charge(&mut self, bytes: u64, path: &Path) -> Result<()> {
        let left = self.bytes.checked_sub(bytes).zip(self.entries.checked_sub(1));
        let (bytes, entries) = left.ok_or_else(|| beyond_quota(path))?;
        *self = Self { bytes, entries };
        Ok(())
    }
}

fn beyond_quota(path: &Path) -> Error {
    let Quota { bytes, entries } = QUOTA;
    let all = format!("{} in {entries} files and folders, {COMPONENTS_MAX} deep", Bytes(bytes));
    let cause = format!("the guest may send {all}, and this one is beyond");
    Error::failed(path.display().to_string(), cause)
}

/// What comes back from one guest.
#[derive(Debug)]
pub(crate) struct ReturnedFiles {
    /// Files, and folders with all that is beneath them.
    places: Vec<PathBuf>,
    /// Files beneath these that the guest keeps.
    stays: Vec<PathBuf>,
    left: Quota,
    current: Option<Part>,
}

impl ReturnedFiles {
    pub(crate) fn new(places: &[PathBuf], stays: &[PathBuf]) -> Self {
        Self { places: places.to_vec(), stays: stays.to_vec(), left: QUOTA, current: None }
    }

    /// Begins a file.
    ///
    /// # Errors
    /// Failed if it has no place on the host, exceeds the quota, cannot be written, or if another one is not complete.
    pub(crate) fn begin(&mut self, header: FileHeader) -> Result<()> {
        if self.current.is_some() {
            return Err(Error::failed("the guest", "it began a file within another one"));
        }
        self.left.charge(header.bytes, &header.path)?;
        let (base, inner) = self.place_of(&header.path)?;
        self.current = Some(Part::create(&base, &inner, header, &mut self.left)?);
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
    /// Creates it, and the folders on its way from `base`, which count against what is left.
    fn create(base: &Path, inner: &Path, header: FileHeader, left: &mut Quota) -> Result<Self> {
        if inner.components().count() > COMPONENTS_MAX {
            return Err(beyond_quota(&header.path));
        }
        let shown = header.path.display().to_string();
        files::make_folder(base)?;
        let failed = |errno: Errno| match errno {
            Errno::LOOP | Errno::NOTDIR => {
                Error::failed(&shown, "a link or a file is in the way, and the guest may not follow it")
            }
            errno => Error::system(&shown, errno),
        };
        let (name, mut folders) = split(inner);
        let base = rustix::fs::openat(CWD, base, FOLDER, Mode::empty()).map_err(failed)?;
        let folder = folders.try_fold(base, |folder, name| match open_folder(&folder, name) {
            Err(Errno::NOENT) => {
                left.charge(0, &header.path)?;
                make_folder(&folder, name).map_err(failed)
            }
            opened => opened.map_err(failed),
        })?;
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

/// A handle for what is beneath a folder.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a folder in another one. A path is walked in such steps: each is a name and follows no link, so that none leads out of the
/// place, as openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS.
fn open_folder(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

fn make_folder(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => open_folder(parent, name),
        Err(errno) => Err(errno),
    }
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

    /// All that is in a folder and beneath it.
    fn beneath(folder: &Path) -> Vec<PathBuf> {
        let with_own = |path: PathBuf| {
            let is_folder = !path.is_symlink() && path.is_dir();
            let own = if is_folder { beneath(&path) } else { Vec::new() };
            [path].into_iter().chain(own)
        };
        files::list(folder).into_iter().flat_map(with_own).collect()
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
        let small = || ReturnedFiles { left: Quota { bytes: 5, entries: 2 }, ..into_out(folder.path()) };
        let all = "the guest may send 1g in 10000 files and folders, 32 deep, and this one is beyond";
        for (frames, says) in [
            (vec![file(&out.join("a"), 2), data("abc")], "the guest sent more than it announced"),
            (vec![data("abc")], "it sent data of no file"),
            (vec![file(&out.join("a"), 1), file(&out.join("b"), 1)], "it began a file within another one"),
            (vec![file(&out.join("a"), 6)], all),
            (vec![file(&out.join("a"), u64::MAX)], "this one is beyond"),
            // The same file over and over counts as often as it is sent.
            (vec![file(&out.join("a"), 3), data("abc"), file(&out.join("a"), 3)], "this one is beyond"),
            (vec![file(&out.join("a"), 0), file(&out.join("a"), 0), file(&out.join("a"), 0)], "this one is beyond"),
            (vec![file(&out.join("folder/folder/b"), 0)], "this one is beyond"),
        ] {
            let error = feed(&mut small(), &frames).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let found = beneath(&out);
        assert_eq!(
            found,
            [out.join("a"), out.join("folder")],
            "no part is left behind, and no folder beyond the quota"
        );
    }

    #[test]
    fn a_folder_counts_when_it_is_made_and_no_path_is_deeper_than_32() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut returned = ReturnedFiles { left: Quota { bytes: 5, entries: 100 }, ..into_out(folder.path()) };
        let deepest = out.join("folder/".repeat(31));
        feed(&mut returned, &[file(&deepest.join("a"), 0), file(&deepest.join("b"), 0)]).unwrap();
        assert_eq!((returned.left.entries, beneath(&out).len()), (67, 33));
        let error = feed(&mut returned, &[file(&deepest.join("folder/c"), 0)]).unwrap_err().to_string();
        assert!(error.contains("32 deep"), "{error}");
        assert_eq!(beneath(&out).len(), 33, "nothing was made of it");
    }

    /// The components of a path: a few of any kind, or many folders.
    fn parts() -> impl Strategy<Value = Vec<String>> {
        let any_kind = prop::collection::vec(r"out|x\.json|secret|key|link|\.\.|\.|/|[a-z]", 0..6);
        prop_oneof![any_kind, prop::collection::vec("[a-c]", 20..45)]
    }

    proptest! {
        #[test]
        fn whatever_a_guest_sends_nothing_but_its_places_changes(
            sent in prop::collection::vec((parts(), 0..9u64, any::<bool>()), 0..8),
            entries in 0..50u32,
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
            let mut returned = ReturnedFiles { left: Quota { bytes: 20, entries }, ..ReturnedFiles::new(&places, &[]) };
            for (parts, bytes, is_below) in sent {
                let base = if is_below { out.clone() } else { folder.path().to_owned() };
                let frames = [file(&base.join(parts.join("/")), bytes), Frame::Data(vec![b'x'; bytes as usize])];
                // A guest goes on after an error only here.
                let _ = feed(&mut returned, &frames);
            }
            prop_assert_eq!(files::list(&secret), [secret.join("key")]);
            prop_assert_eq!(fs::read(secret.join("key")).unwrap(), b"key");
            // The two links, which files may replace, and the named file beside them.
            let made = beneath(&out);
            prop_assert!(made.len() <= 2 + entries as usize, "{} of {}", made.len(), entries);
            let is_shallow = |path: &PathBuf| path.strip_prefix(&out).is_ok_and(|rest| rest.components().count() <= COMPONENTS_MAX);
            prop_assert!(made.iter().all(is_shallow), "{:?}", made);
            let found = files::list(folder.path());
            prop_assert!(found.iter().all(|path| path.ends_with("out") || path.ends_with("secret") || path.ends_with("x.json")), "{:?}", found);
        }
    }
}
