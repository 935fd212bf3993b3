//! What the name of an output stands for, and the journal's file: another user must not lead what is written here to a file of
//! theirs choosing. `files` and the journal ask. Names are resolved here, nothing is written.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// What a name stands for.
#[derive(Debug)]
pub(crate) enum Place {
    /// A file, replaced as a whole, or a name that is free.
    File(PathBuf),
    /// A pipe, a terminal or /dev/null: written to in place.
    Stream(OwnedFd),
}

/// As many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

impl Place {
    /// Symbolic links are followed if they belong to this process's user, to root, or to whoever called sudo, as `out.json` of a user's own
    /// or /dev/stdout do. In a folder that others can write to, theirs would replace a file of this user's.
    ///
    /// # Errors
    /// For a link of another user, a folder, a block device, or a name that cannot be looked up.
    pub(crate) fn of(name: &Path) -> Result<Self> {
        let mut name = name.to_owned();
        for _ in 0..LINKS_MAX {
            check_way(&name)?;
            let node = match open_node(&name, OFlags::NOFOLLOW) {
                Err(Errno::NOENT) => return free(name),
                node => node?,
            };
            let stat = rustix::fs::fstat(&node)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                return Self::of_node(node, &stat, || Ok(name));
            }
            let is_strangers = !is_trusted(stat.st_uid) && !is_unknown(stat.st_uid);
            if is_strangers || !is_trusted(stat.st_uid) && is_open_to_others(folder_of(&name)) {
                return Err(refused("it is a symbolic link of another user"));
            }
            if is_magic(&node)? {
                // Its text is no name; it leads to a descriptor of this user's process (proc_pid_fd(5)).
                let node = open_node(&name, OFlags::empty())?;
                let stat = rustix::fs::fstat(&node)?;
                return Self::of_node(node, &stat, || std::fs::canonicalize(&name));
            }
            // Read from the link that was checked: the name may lead to another by now.
            let target = rustix::fs::readlinkat(&node, "", Vec::new())?;
            name =
                name.parent().unwrap_or(Path::new("")).join(Path::new(std::ffi::OsStr::from_bytes(target.as_bytes())));
        }
        Err(Errno::LOOP.into())
    }

    fn of_node(node: OwnedFd, stat: &Stat, name: impl FnOnce() -> Result<PathBuf>) -> Result<Self> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => name().map(Self::File),
            FileType::Directory => Err(ErrorKind::IsADirectory.into()),
            FileType::BlockDevice => Err(refused("it is a block device")),
            _ => Ok(Self::Stream(node)),
        }
    }

    /// Opens a stream for writing: the very node that was looked at.
    pub(crate) fn open_stream(node: &OwnedFd) -> Result<File> {
        File::options().write(true).open(format!("/proc/self/fd/{}", node.as_raw_fd()))
    }
}

/// Checks that no link on the way to a name was planted: one of another user in a folder that others than this user and root can write to.
/// The kernel refuses those in folders like /tmp, with its sysctl fs.protected_symlinks (proc_sys_fs(5)).
///
/// # Errors
/// For such a link, also on the way of a link on the way.
pub(crate) fn check_way(name: &Path) -> Result<()> {
    check_links(name, &mut Vec::new())
}

/// These links, by device and inode, were followed to this name, and those on their ways are checked.
fn check_links(name: &Path, followed: &mut Vec<(u64, u64)>) -> Result<()> {
    for folder in name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        let Ok(found) = rustix::fs::lstat(folder) else { continue };
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            continue;
        }
        let link = (found.st_dev, found.st_ino);
        if followed.contains(&link) {
            continue;
        }
        followed.push(link);
        if followed.len() > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let parent = folder_of(folder);
        if !is_trusted(found.st_uid) && is_open_to_others(parent) {
            return Err(refused(&format!("{} is a symbolic link of another user", folder.display())));
        }
        // The link itself is checked, not what is behind it: hence a name in it.
        check_links(&parent.join(std::fs::read_link(folder)?).join("a file in it"), followed)?;
    }
    Ok(())
}

/// Opens a file of this user's that stays open, or creates it if `create` is set. It is no link, and has no other name by
/// which it could be a file that matters elsewhere.
///
/// # Errors
/// `NotFound` if it is missing; for a link, another user's file, one with several names, or anything but a file.
pub(crate) fn open_own(path: &Path, create: bool) -> Result<File> {
    let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::CREATE, create);
    let file = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)) {
        Err(Errno::LOOP) => return Err(refused("it is a symbolic link")),
        file => file?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused("it is not a file"));
    }
    if stat.st_uid != this_user() {
        return Err(refused("it belongs to another user"));
    }
    if stat.st_nlink > 1 {
        return Err(refused("it has another name (a hard link)"));
    }
    Ok(file.into())
}

/// The folder that a name is in.
pub(crate) fn folder_of(name: &Path) -> &Path {
    name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_node(name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, name, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
}

fn free(name: PathBuf) -> Result<Place> {
    match name.as_os_str().as_bytes() {
        [.., b'/'] => Err(ErrorKind::IsADirectory.into()),
        _ => Ok(Place::File(name)),
    }
}

fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// This user, root, and who became root by sudo(8).
fn is_trusted(user: u32) -> bool {
    let this = this_user();
    let sudo_user = || std::env::var("SUDO_UID").ok()?.parse().ok();
    user == this || user == 0 || this == 0 && sudo_user() == Some(user)
}

/// Whether users other than the trusted ones can put links into a folder. In a user namespace whoever it does not know, such as the host's
/// root, has one number (user_namespaces(7)); what belongs to that is judged by its permissions alone.
fn is_open_to_others(folder: &Path) -> bool {
    let Ok(found) = rustix::fs::stat(folder) else { return false };
    let mode = Mode::from_raw_mode(found.st_mode);
    let is_someone_elses = !is_trusted(found.st_uid) && !is_unknown(found.st_uid);
    is_someone_elses || mode.contains(Mode::WOTH) || mode.contains(Mode::WGRP) && found.st_gid != 0
}

/// Whether a user stands for all those that this user namespace has no number for.
fn is_unknown(user: u32) -> bool {
    let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    let has_all = || read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
    read("/proc/sys/kernel/overflowuid").trim().parse() == Ok(user) && !has_all()
}

/// Whether a node is on /proc, whose links to descriptors are no names.
fn is_magic(node: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(rustix::fs::fstatfs(node)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn refused(why: &str) -> Error {
    Error::other(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    /// A user who is neither this process's nor root.
    const STRANGER: u32 = 65_534;

    fn give_away(path: &Path) -> bool {
        let user = rustix::fs::Uid::from_raw(STRANGER);
        let given = rustix::fs::chownat(CWD, path, Some(user), None, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        given.inspect_err(|errno| eprintln!("SKIPPED a file of another user: chown: {errno}")).is_ok()
    }

    fn error_of<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_link_of_ones_own_is_followed_and_one_of_another_user_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, far] = ["file", "link", "far"].map(|name| folder.path().join(name));
        symlink("file", &link).unwrap();
        symlink(&link, &far).unwrap();
        // To a file that does not exist yet, and to one that does.
        for _ in 0..2 {
            assert!(matches!(Place::of(&far).unwrap(), Place::File(place) if place == file));
            std::fs::write(&file, "").unwrap();
        }
        if give_away(&link) {
            assert_eq!(error_of(Place::of(&far)), "it is a symbolic link of another user");
            assert_eq!(error_of(Place::of(&link)), "it is a symbolic link of another user");
        }
    }

    #[test]
    fn a_link_that_another_user_planted_leads_to_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let [everyones, theirs] = ["everyones", "theirs"].map(|name| folder.path().join(name));
        std::fs::create_dir(&everyones).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        let link = everyones.join("results");
        symlink(&theirs, &link).unwrap();
        let file = link.join("study.json");
        if !give_away(&link) {
            return;
        }
        // A folder that only its owner writes to has no planted links; one of a group, of everyone, or of another user may have.
        let set = |mode, user| {
            rustix::fs::chmod(&everyones, Mode::from_raw_mode(mode)).unwrap();
            rustix::fs::chown(
                &everyones,
                Some(rustix::fs::Uid::from_raw(user)),
                Some(rustix::fs::Gid::from_raw(STRANGER)),
            )
            .unwrap();
        };
        set(0o755, this_user());
        assert!(matches!(Place::of(&file).unwrap(), Place::File(_)));
        let error = format!("{} is a symbolic link of another user", link.display());
        for (mode, user) in [(0o755, STRANGER), (0o775, this_user()), (0o777, this_user())] {
            set(mode, user);
            assert_eq!(error_of(Place::of(&file)), error, "{mode:o} of {user}");
        }
        let made = crate::files::MadeFolders::make(&link.join("of/mine")).unwrap_err().to_string();
        assert!(made.contains(&error), "{made}");
        assert!(crate::files::check_way(&link).unwrap_err().to_string().contains(&error));
        // Reached by a link of one's own, to a folder or to a file.
        let [own_folder, own_file] = ["own-folder", "own-file"].map(|name| folder.path().join(name));
        symlink(&link, &own_folder).unwrap();
        symlink(&file, &own_file).unwrap();
        assert_eq!(error_of(Place::of(&own_folder.join("x"))), error);
        assert_eq!(error_of(Place::of(&own_file)), error);
    }

    /// Folders, and links in them to a folder, to a link, or to a file in a folder; which of all these are a stranger's, and which folders
    /// everyone can write to.
    #[derive(Debug, Clone)]
    struct Layout {
        folders: Vec<(bool, bool)>,
        links: Vec<(usize, usize, bool)>,
        asked: (usize, bool),
    }

    const FOLDERS: usize = 3;
    const LINKS: usize = 4;

    fn layout() -> impl Strategy<Value = Layout> {
        let folders = prop::collection::vec(any::<(bool, bool)>(), FOLDERS);
        let links = prop::collection::vec((0..FOLDERS, 0..2 * FOLDERS + LINKS, any::<bool>()), LINKS);
        (folders, links, (0..LINKS, any::<bool>())).prop_map(|(folders, links, asked)| Layout { folders, links, asked })
    }

    impl Layout {
        fn folder(root: &Path, number: usize) -> PathBuf {
            root.join(format!("folder{number}"))
        }

        fn link(&self, root: &Path, number: usize) -> PathBuf {
            Self::folder(root, self.links[number].0).join(format!("link{number}"))
        }

        /// Makes it; `false` if this user can give nothing away.
        fn make(&self, root: &Path) -> bool {
            for (number, (is_strangers, is_everyones)) in self.folders.iter().enumerate() {
                let folder = Self::folder(root, number);
                std::fs::create_dir(&folder).unwrap();
                let mode = Mode::from_raw_mode(if *is_everyones { 0o777 } else { 0o755 });
                rustix::fs::chmod(&folder, mode).unwrap();
                if *is_strangers && !give_away(&folder) {
                    return false;
                }
            }
            for (number, (_, target, is_strangers)) in self.links.iter().enumerate() {
                let target = match *target {
                    target if target < FOLDERS => Self::folder(root, target),
                    target if target < 2 * FOLDERS => Self::folder(root, target - FOLDERS).join("file"),
                    target => self.link(root, target - 2 * FOLDERS),
                };
                let link = self.link(root, number);
                symlink(target, &link).unwrap();
                if *is_strangers && !give_away(&link) {
                    return false;
                }
            }
            true
        }

        /// Whether the kernel would cross a link that a stranger may have put there for this user, on the way to a name.
        fn is_led(&self, root: &Path, name: &Path) -> bool {
            let mut way: Vec<PathBuf> = name.strip_prefix(root).unwrap().iter().rev().map(PathBuf::from).collect();
            let (mut at, mut crossed) = (root.to_owned(), 0);
            while let Some(part) = way.pop() {
                let next = at.join(part);
                let Some(number) = (0..LINKS).find(|number| self.link(root, *number) == next) else {
                    at = next;
                    continue;
                };
                let (folder, _, is_strangers) = self.links[number];
                let (is_strangers_folder, is_everyones) = self.folders[folder];
                crossed += 1;
                if is_strangers && (way.is_empty() || is_strangers_folder || is_everyones) || crossed > LINKS_MAX {
                    return crossed <= LINKS_MAX;
                }
                let target = std::fs::read_link(&next).unwrap();
                way.extend(target.strip_prefix(root).unwrap().iter().rev().map(PathBuf::from));
                at = root.to_owned();
            }
            false
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_link_that_a_stranger_may_have_put_there_is_followed_and_others_are(layout in layout()) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            if layout.make(root) {
                let (link, is_beneath) = (layout.link(root, layout.asked.0), layout.asked.1);
                let name = if is_beneath { link.join("study.json") } else { link };
                let refused = Place::of(&name).is_err_and(|error| error.to_string().contains("link of another user"));
                prop_assert_eq!(refused, layout.is_led(root, &name), "{:?}", name);
            }
        }
    }

    #[test]
    fn streams_are_found_behind_links_and_rings_of_links_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let [ring, link] = ["ring", "link"].map(|name| folder.path().join(name));
        symlink("ring", &ring).unwrap();
        assert_eq!(Place::of(&ring).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        symlink("/dev/null", &link).unwrap();
        let Place::Stream(node) = Place::of(&link).unwrap() else { panic!("it is a device") };
        std::io::Write::write_all(&mut Place::open_stream(&node).unwrap(), b"text").unwrap();
        let (mut end, pipe) = std::io::pipe().unwrap();
        let name = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        let Place::Stream(node) = Place::of(Path::new(&name)).unwrap() else { panic!("it is a pipe") };
        std::io::Write::write_all(&mut Place::open_stream(&node).unwrap(), b"text").unwrap();
        drop((pipe, node));
        assert_eq!(std::io::read_to_string(&mut end).unwrap(), "text");
        assert_eq!(Place::of(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_file_of_ones_own_is_opened_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, other] = ["file", "link", "other"].map(|name| folder.path().join(name));
        assert_eq!(open_own(&file, false).unwrap_err().kind(), ErrorKind::NotFound);
        open_own(&file, true).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(error_of(open_own(&link, true)), "it is a symbolic link");
        std::fs::hard_link(&file, &other).unwrap();
        assert_eq!(error_of(open_own(&file, true)), "it has another name (a hard link)");
        std::fs::remove_file(&other).unwrap();
        if give_away(&file) {
            assert_eq!(error_of(open_own(&file, true)), "it belongs to another user");
        }
        rustix::fs::mknodat(CWD, &other, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(error_of(open_own(&other, true)), "it is not a file");
    }
}
