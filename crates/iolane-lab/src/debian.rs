//! Packages of Debian, kernels above all: downloaded by apt, which checks their signatures, into a state folder of the lab's own.
//! Nothing is installed or changed on this machine. `kernel_source` calls it, and `kernel_store` keeps what it makes; `emulator` calls it
//! for a newer QEMU, and xtask for the source of the standard library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iolane_core::units::Bytes;
use iolane_core::{Error, Result};

use crate::cache::Cache;
use crate::files;
use crate::kernel::{Kernel, release_of};
use crate::kernel_store::kept_or_made;

pub use crate::kernel_store::kept;

/// Which of Debian's suites has which series. Other versions are looked for in the last one's backports, which keep
/// each kernel for a while.
const SUITES: &[(&str, &str)] = &[("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie")];
pub const BACKPORTS: &str = "trixie-backports";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
pub(crate) const MIRROR: &str = "http://deb.debian.org";

/// What unpacking a kernel takes for a while: the packages, the whole tree of modules, and apt's lists.
const SPACE_BYTES_MIN: u64 = 1 << 30;

/// The kernel of this version, from the cache or from Debian.
pub(crate) fn kernel(version: &str, cache: &Cache, say: &mut dyn FnMut(&str)) -> Result<Kernel> {
    kept_or_made(version, cache, |workshop| {
        require_space(workshop)?;
        say(&format!("fetching Debian's kernel {version}, once (some 100 MB)"));
        let packages = Apt::of_kernels(workshop, suite_of(version))?.download_kernel(version)?;
        unpack_kernel(&packages, workshop)
    })
}

/// The kernel in a package, which is kept under the package's checksum.
pub(crate) fn from_package(package: &Path, cache: &Cache) -> Result<Kernel> {
    let name = format!("file-{}", &files::sha256(&files::read(package)?)[..16]);
    kept_or_made(&name, cache, |workshop| {
        require_space(workshop)?;
        unpack_kernel(&[package.to_owned()], workshop)
    })
}

/// Unpacks packages of one of Debian's suites, each named as for apt-get(8) (`rust-src=1.95*`), into a new folder; it is there whole, or not
/// at all.
///
/// # Errors
/// If Debian has none, cannot be reached, or there is no room.
pub fn unpack_packages(suite: &str, packages: &[String], folder: &Path) -> Result<()> {
    let system = |error| Error::system(folder.display().to_string(), error);
    let beside = folder.parent().unwrap_or(Path::new("."));
    files::make_folder(beside)?;
    let workshop = tempfile::tempdir_in(beside).map_err(system)?;
    let what = format!("{} of Debian's {suite}", packages.join(", "));
    let apt = Apt { folder: workshop.path(), suite, what: &what, otherwise: "without it nothing can be done" };
    apt.update()?;
    let tree = workshop.path().join("tree");
    for package in apt.download(packages)? {
        unpack(&package, &tree)?;
    }
    std::fs::rename(&tree, folder).map_err(system)
}

fn suite_of(version: &str) -> &'static str {
    SUITES.iter().find(|(series, _)| is_of_series(version, series)).map_or(BACKPORTS, |(_, suite)| suite)
}

/// Whether `6.1.0` is of the series `6.1`; `6.12` is not.
fn is_of_series(version: &str, series: &str) -> bool {
    version.strip_prefix(series).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
}

fn require_space(folder: &Path) -> Result<()> {
    let found = rustix::fs::statvfs(folder).map_err(|error| Error::system(folder.display().to_string(), error))?;
    let free = found.f_bavail * found.f_frsize;
    if free >= SPACE_BYTES_MIN {
        return Ok(());
    }
    let cause = format!("{} MiB free, and unpacking a kernel takes {}", free >> 20, Bytes(SPACE_BYTES_MIN));
    Err(Error::exhausted(format!("folder {}", folder.display()), cause)
        .remedy("free space, or set IOLANE_LAB_CACHE to a folder elsewhere"))
}

/// apt with lists, state and cache of its own.
struct Apt<'a> {
    folder: &'a Path,
    suite: &'a str,
    /// What errors are about, and what remains to do without it.
    what: &'a str,
    otherwise: &'a str,
}

impl<'a> Apt<'a> {
    fn of_kernels(folder: &'a Path, suite: &'a str) -> Result<Self> {
        let otherwise = "without it name a file, as in --kernel ./vmlinuz";
        let apt = Self { folder, suite, what: "Debian's kernels", otherwise };
        apt.update()?;
        Ok(apt)
    }

    /// Fetches the suite's lists.
    fn update(&self) -> Result<()> {
        let (folder, suite) = (self.folder, self.suite);
        if !Path::new(KEYRING).exists() {
            return Err(Error::unavailable(self.what, format!("there is no {KEYRING} to check them with"))
                .remedy(format!("as root: apt-get install debian-archive-keyring; {}", self.otherwise)));
        }
        for name in ["state/lists/partial", "cache/archives/partial", "packages", "empty.d"] {
            files::make_folder(&folder.join(name))?;
        }
        files::write(&folder.join("status"), b"")?;
        let release = suite.trim_end_matches("-backports");
        let line = |place: &str, suite: &str| format!("deb [signed-by={KEYRING}] {MIRROR}/{place} {suite} main\n");
        let mut sources = line("debian", suite);
        if suite == release {
            sources += &line("debian-security", &format!("{release}-security"));
        }
        files::write(&folder.join("sources.list"), sources.as_bytes())?;
        self.run("apt-get", &["update"], folder).map(|_| ())
    }

    /// Downloads the newest kernel of a version, and gives its packages.
    fn download_kernel(&self, version: &str) -> Result<Vec<PathBuf>> {
        let names = self.run("apt-cache", &["pkgnames", "linux-"], self.folder)?;
        let packages = packages_of(version, names.lines());
        if packages.is_empty() {
            let mut known: Vec<String> = names.lines().filter_map(series_of_package).collect();
            known.sort_by_key(|series| numbers(series));
            known.dedup();
            let cause = format!("Debian's {} has none; it has {}", self.suite, known.join(", "));
            return Err(Error::unavailable(format!("kernel {version}"), cause)
                .remedy(format!("choose one of those, or one of {}", series_list())));
        }
        self.download(&packages)
    }

    /// Downloads packages, named as for apt-get(8).
    fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let place = self.folder.join("packages");
        let arguments: Vec<&str> = ["download"].into_iter().chain(packages.iter().map(String::as_str)).collect();
        self.run("apt-get", &arguments, &place)?;
        Ok(files::list(&place))
    }

    fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
        let option = |name: &str, value: &str| ["-o".to_owned(), format!("{name}={value}")];
        let place = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new(program);
        command
            .args(option("Dir::Etc::SourceList", &place("sources.list")))
            .args(option("Dir::Etc::SourceParts", &place("empty.d")))
            .args(option("Dir::State", &place("state")))
            .args(option("Dir::State::status", &place("status")))
            .args(option("Dir::Cache", &place("cache")))
            .args(option("APT::Architecture", "amd64"))
            .args(option("APT::Architectures", "amd64"))
            .args(option("APT::Sandbox::User", ""))
            .args(option("Acquire::Languages", "none"))
            // Lists that cannot be fetched are an error, not a warning.
            .args(option("APT::Update::Error-Mode", "any"))
            .args(option("Acquire::Retries", "1"))
            .args(option("Acquire::http::Timeout", "30"))
            .args(option("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false"))
            .args(arguments)
            .current_dir(folder);
        run(&mut command, self.what)
            .map_err(|error| error.remedy(format!("is {MIRROR} reachable from here? {}", self.otherwise)))
    }
}

/// The series that are always there.
pub(crate) fn series_list() -> String {
    SUITES.iter().map(|(series, _)| *series).collect::<Vec<_>>().join(", ")
}

/// Runs a program for its standard output.
fn run(command: &mut Command, what: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Error::unavailable(what, format!("cannot start {program}: {}", iolane_core::error::describe(&error)))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    let first = complaints.lines().find(|line| line.starts_with("E:") || line.contains("error"));
    let cause = first.or(complaints.lines().next()).unwrap_or("it failed without a message");
    Err(Error::unavailable(what, format!("{program}: {}", cause.trim())))
}

/// The packages that make up the newest kernel of a version: one, or from 7.1 on the image, the modules, and the list of
/// what is built in, apart.
fn packages_of<'a>(version: &str, names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let of_kind = |kind: &str| {
        let candidates = names.clone().filter_map(|name| {
            let release = name.strip_prefix("linux-")?.strip_prefix(kind)?.strip_prefix('-')?;
            (is_of_series(release, version) && is_plain(release)).then(|| release.to_owned())
        });
        candidates.max_by_key(|release| numbers(release))
    };
    let (binary, image) = (of_kind("binary"), of_kind("image"));
    match (binary, image) {
        (Some(binary), image) if image.as_ref().is_none_or(|image| numbers(image) <= numbers(&binary)) => {
            ["binary", "modules", "base"].map(|part| format!("linux-{part}-{binary}")).into()
        }
        (_, Some(image)) => vec![format!("linux-image-{image}")],
        _ => Vec::new(),
    }
}

/// A kernel for every PC, not one for a cloud, for real time, or without a signature.
fn is_plain(release: &str) -> bool {
    release.ends_with("-amd64") && !["-cloud-", "-rt-"].iter().any(|word| release.contains(word))
}

fn series_of_package(name: &str) -> Option<String> {
    let release = name.strip_prefix("linux-image-").or_else(|| name.strip_prefix("linux-binary-"))?;
    let mut parts = release.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain(release) && digits(major) && digits(minor)).then(|| format!("{major}.{minor}"))
}

/// The numbers in a release, by which releases are ordered.
fn numbers(release: &str) -> Vec<u32> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn unpack(package: &Path, folder: &Path) -> Result<()> {
    let in_words: [&OsStr; 3] = ["-x".as_ref(), package.as_os_str(), folder.as_os_str()];
    run(Command::new("dpkg-deb").args(in_words), &package.display().to_string())
        .map_err(|error| error.remedy("is it whole, and a Debian package? fetch it again"))
        .map(|_| ())
}

/// Unpacks packages into a folder that is gone later, and reads what a guest needs.
fn unpack_kernel(packages: &[PathBuf], workshop: &Path) -> Result<Kernel> {
    let tree = workshop.join("tree");
    files::make_folder(&tree)?;
    let mut origin = String::new();
    for package in packages {
        unpack(package, &tree)?;
        let shown = package.display().to_string();
        let version = run(Command::new("dpkg-deb").arg("-f").arg(package).arg("Version"), &shown)?;
        origin = format!("Debian {}", version.trim());
    }
    let modules = ["lib/modules", "usr/lib/modules"].iter().flat_map(|home| files::list(&tree.join(home)));
    let modules: Vec<PathBuf> = modules.filter(|folder| folder.join("kernel").is_dir()).collect();
    let homes = modules.iter().map(|folder| folder.join("vmlinuz")).chain(files::list(&tree.join("boot")));
    let image = homes.into_iter().find(|path| path.is_file() && named_vmlinuz(path));
    match (image, modules.first()) {
        (Some(image), Some(modules)) => Kernel::new(&image, release_of(&image)?, modules, &origin),
        _ => Err(Error::unavailable(origin, "it holds no kernel with its modules")
            .remedy("name a package like linux-image-6.1.0-56-amd64, not a meta package")),
    }
}

fn named_vmlinuz(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[
        "linux-image-6.12.107+deb13-amd64",
        "linux-image-6.12.117+deb13-amd64",
        "linux-image-6.12.117+deb13-cloud-amd64",
        "linux-image-6.12.117+deb13-rt-amd64",
        "linux-image-6.1.0-56-amd64",
        "linux-image-6.1.0-9-amd64-unsigned",
        "linux-image-6.1.0-9-amd64",
        "linux-binary-7.2.9+deb13-amd64",
        "linux-binary-7.2.12+deb13-amd64",
        "linux-image-7.2.9+deb13-amd64",
        "linux-modules-7.2.12+deb13-amd64",
        "linux-image-amd64",
    ];

    #[test]
    fn the_newest_plain_kernel_of_a_version_is_taken() {
        let packages = |version| packages_of(version, NAMES.iter().copied());
        assert_eq!(packages("6.12"), ["linux-image-6.12.117+deb13-amd64"]);
        assert_eq!(packages("6.12.107"), ["linux-image-6.12.107+deb13-amd64"]);
        assert_eq!(packages("6.1"), ["linux-image-6.1.0-56-amd64"]);
        let parts = ["binary", "modules", "base"].map(|part| format!("linux-{part}-7.2.12+deb13-amd64"));
        assert_eq!(packages("7.2"), parts);
        assert_eq!(packages("7.9"), Vec::<String>::new());
    }

    #[test]
    fn series_lead_to_their_suites() {
        let of =
            [("5.10", "bullseye"), ("6.1", "bookworm"), ("6.1.0", "bookworm"), ("6.12", "trixie"), ("7.2", BACKPORTS)];
        of.iter().for_each(|(version, suite)| assert_eq!(suite_of(version), *suite, "{version}"));
        assert_eq!(series_of_package("linux-image-6.12.117+deb13-amd64").as_deref(), Some("6.12"));
        assert_eq!(series_of_package("linux-image-amd64"), None);
    }

    #[test]
    fn a_file_that_is_no_package_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("linux.deb");
        std::fs::write(&package, b"!<arch>\ntruncated").unwrap();
        let error = unpack_kernel(&[package], folder.path()).unwrap_err();
        assert!(error.to_string().contains("linux.deb"), "{error}");
        assert_eq!(error.kind(), iolane_core::ErrorKind::Unavailable);
    }
}
