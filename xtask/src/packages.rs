//! Debian packages that tests and benchmarks call programs of: looked for, installed where that is allowed and the user agrees.
//! Never a reason to fail by itself: who needs a package says what is skipped without it.

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use crate::child::{is_installed, program, succeeds, succeeds_quietly};
use crate::skips::Skip;
use crate::verdict::is_ci;

/// A package, the program that shows it is there, and who asks for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) needed_by: &'static str,
}

/// What the tests call.
pub(crate) const FOR_TESTS: [Package; 22] = [
    QEMU,
    FIO,
    CHROMIUM,
    Package { name: "util-linux", program: "losetup", needed_by: "tests on loop devices, mounts and swap" },
    for_signatures("fdisk", "sfdisk"),
    for_signatures("e2fsprogs", "mkfs.ext4"),
    for_signatures("xfsprogs", "mkfs.xfs"),
    for_signatures("btrfs-progs", "mkfs.btrfs"),
    for_signatures("cryptsetup-bin", "cryptsetup"),
    for_signatures("dosfstools", "mkfs.vfat"),
    for_signatures("erofs-utils", "mkfs.erofs"),
    for_signatures("exfatprogs", "mkfs.exfat"),
    for_signatures("f2fs-tools", "mkfs.f2fs"),
    for_signatures("genisoimage", "genisoimage"),
    for_signatures("jfsutils", "mkfs.jfs"),
    for_signatures("lvm2", "pvcreate"),
    for_signatures("nilfs-tools", "mkfs.nilfs2"),
    for_signatures("ntfs-3g", "mkntfs"),
    for_signatures("squashfs-tools", "mksquashfs"),
    for_signatures("udftools", "mkudffs"),
    MDADM,
    BCACHE_TOOLS,
];

/// A package that makes file systems, volumes or partition tables.
const fn for_signatures(name: &'static str, program: &'static str) -> Package {
    Package { name, program, needed_by: "tests that refuse to write over what a device holds" }
}

/// What tests and benchmarks compare with.
pub(crate) const FIO: Package = Package { name: "fio", program: "fio", needed_by: "the comparison with fio" };

/// What makes arrays and caches of drives in guests.
pub(crate) const MDADM: Package = Package { name: "mdadm", program: "mdadm", needed_by: "drives in use, in guests" };
pub(crate) const BCACHE_TOOLS: Package =
    Package { name: "bcache-tools", program: "make-bcache", needed_by: "drives in use, in guests" };

/// What counts the instructions of a program.
pub(crate) const VALGRIND: Package =
    Package { name: "valgrind", program: "valgrind", needed_by: "counting the driver's instructions" };

/// What the lab runs on.
pub(crate) const QEMU: Package =
    Package { name: "qemu-system-x86", program: "qemu-system-x86_64", needed_by: "tests in virtual machines" };

/// What shows reports as readers see them.
pub(crate) const CHROMIUM: Package =
    Package { name: "chromium", program: "chromium", needed_by: "tests of reports in a browser" };

/// What fetches the chart library and the checker of pages.
pub(crate) const NPM: Package =
    Package { name: "npm", program: "npm", needed_by: "the check of reports for accessibility" };

impl Package {
    /// What is left out where it is missing.
    pub(crate) fn skip(&self) -> Skip {
        Skip::parse("host", &format!("{}: package {} is not installed", self.needed_by, self.name))
    }
}

/// How this user may run apt-get.
enum Installer {
    Root,
    Sudo,
}

/// Whether `--yes` was given.
static YES: AtomicBool = AtomicBool::new(false);

/// From now on packages are installed without a question.
pub(crate) fn allow() {
    YES.store(true, Ordering::Relaxed);
}

/// Installs those packages that are missing, if the user agrees, and returns those that still are.
///
/// # Errors
/// If there is nobody to ask, and neither `--yes` nor continuous integration stands for a consent.
pub(crate) fn install(packages: &[Package]) -> Result<Vec<&Package>> {
    let missing = still_missing(packages);
    if missing.is_empty() {
        return Ok(missing);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    eprintln!("Missing Debian packages: {}", names.join(" "));
    let installer = match installer(&names) {
        Ok(installer) => installer,
        Err(cause) => {
            eprintln!("They could not be installed: {cause}");
            return Ok(missing);
        }
    };
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    match Consent::of(YES.load(Ordering::Relaxed) || is_ci(), can_ask) {
        Consent::Given => {}
        Consent::Asked if is_agreed()? => {}
        Consent::Asked => return Ok(missing),
        Consent::Missing => bail!("installing packages as root needs a consent: give --yes, or set CI=true"),
    }
    if let Err(cause) = apt_install(&installer, &names) {
        eprintln!("They could not be installed: {cause}");
    }
    Ok(still_missing(packages))
}

/// Whether packages may be installed as root.
#[derive(Debug, PartialEq)]
enum Consent {
    Given,
    /// At the terminal.
    Asked,
    Missing,
}

impl Consent {
    fn of(is_given: bool, can_ask: bool) -> Self {
        match (is_given, can_ask) {
            (true, _) => Self::Given,
            (false, true) => Self::Asked,
            (false, false) => Self::Missing,
        }
    }
}

/// Asks once; the answer holds for all that is missing later.
fn is_agreed() -> Result<bool> {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    if let Some(answer) = ANSWER.get() {
        return Ok(*answer);
    }
    eprint!("Install them as root by apt-get? Without them some tests are skipped. [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(*ANSWER.get_or_init(|| matches!(answer.trim(), "y" | "Y" | "yes")))
}

fn still_missing(packages: &[Package]) -> Vec<&Package> {
    packages.iter().filter(|package| !is_installed(package.program)).collect()
}

/// How this user may install them, or why not.
fn installer(names: &[&str]) -> Result<Installer, String> {
    if !is_installed("apt-get") {
        return Err("there is no apt-get here; install them by your system's own means".into());
    }
    // A process owns its folder in /proc by its effective user.
    if std::fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0) {
        return Ok(Installer::Root);
    }
    let has_sudo = succeeds_quietly(program("sudo").args(["-n", "true"]));
    let remedy = || format!("neither root nor sudo without a password; run `{}`", remedy(names));
    has_sudo.then_some(Installer::Sudo).ok_or_else(remedy)
}

fn remedy(names: &[&str]) -> String {
    format!("apt-get install {}", names.join(" "))
}

fn apt_install(installer: &Installer, names: &[&str]) -> Result<(), String> {
    let remedy = remedy(names);
    // Without fresh lists an image that was built long ago asks for versions the mirror no longer has; if the lists
    // cannot be fetched, the old ones may still do.
    let updated = apt_get(installer, &["update", "-q"])?;
    let arguments = [&["install", "-q", "-y", "--no-install-recommends"], names].concat();
    match (apt_get(installer, &arguments)?, updated) {
        (true, _) => Ok(()),
        (false, true) => Err(format!("apt-get failed, see above; run `{remedy}`")),
        (false, false) => Err(format!("the package lists could not be fetched, see above; when online `{remedy}`")),
    }
}

fn apt_get(installer: &Installer, arguments: &[&str]) -> Result<bool, String> {
    let words: &[&str] = match installer {
        Installer::Root => &["env"],
        Installer::Sudo => &["sudo", "-n", "env"],
    };
    let mut command = program(words[0]);
    // Standard output is kept for what the caller was asked for.
    command
        .stdout(std::io::stderr())
        .args(&words[1..])
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
        .args(arguments);
    succeeds(&mut command).map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_installed_as_root_without_a_consent() {
        assert_eq!(Consent::of(true, false), Consent::Given);
        assert_eq!(Consent::of(false, true), Consent::Asked);
        assert_eq!(Consent::of(false, false), Consent::Missing);
    }

    #[test]
    fn what_is_installed_is_not_missing() {
        let shell = Package { name: "dash", program: "sh", needed_by: "everyone" };
        let other = Package { name: "none", program: "no-such-program", needed_by: "nobody" };
        let packages = [shell, other];
        let missing: Vec<&str> = still_missing(&packages).iter().map(|package| package.name).collect();
        assert_eq!(missing, ["none"]);
    }
}
