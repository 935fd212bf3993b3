//! Decides whether a target may be written, or a disk taken from the kernel, so that a mistake destroys no data. The caller asks
//! first and keeps the permit until it is done. A check that fails to get an answer refuses. Nothing here writes.

mod claim;
mod exports;
#[cfg(test)]
mod fake_sysfs;
mod handle;
mod identity;
mod in_use;
mod kernel_files;
mod namespace;
mod openers;
mod proc;
mod refusal;
mod signature;
mod sysfs;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use iolane_core::scheme::Scheme;
use iolane_core::{Error, Result, Target, TargetKind, WritePermission};

use rustix::io::Errno;

use identity::{Found, Identity, disk_of, find, identify};
use in_use::Survey;
pub use refusal::{Reason, Refused};
use refusal::{Refusal, shown};
use sysfs::{Number, Sysfs};

/// Proof that a target may be written, for [`TargetOptions::write`](iolane_core::TargetOptions::write).
///
/// It keeps the result of the checks true until its last clone is dropped, which the opened target keeps:
/// - on a block device it holds the exclusive claim (O_EXCL without O_CREAT, open(2)): no process can mount the device or a partition
///   of it, swap to it, or build a RAID or a volume group on it;
/// - a file is locked (flock(2)), so that no second program with a permit writes to it;
/// - a controller without a kernel driver stays open, so that no other process can open it.
///
/// Data is recognised by its signature: that of a file system, a swap area, a RAID, a volume manager, a partition table, a disk image, or
/// one of these databases: SQLite, redb, LMDB, WiredTiger, tables of RocksDB and LevelDB. Data in any other format is not protected,
/// so a program that uses raw devices checks its own header first.
///
/// ```
/// use iolane::{Target, guard::WritePermit};
/// # fn main() -> iolane::Result<()> {
/// # let path = std::env::temp_dir().join(format!("iolane-doc-permit-{}", std::process::id()));
/// # std::fs::write(&path, [0; 4096]).unwrap();
/// let permit = WritePermit::request(&path)?;                            // refuses what is in use or has a known signature
/// let target = Target::options().direct(false).write(permit).open(&path)?;
/// # std::fs::remove_file(&path).unwrap();
/// assert!(target.writable());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "the claim on a block device ends when the permit is dropped"]
pub struct WritePermit(Arc<Permit>);

#[derive(Debug)]
struct Permit {
    /// The target that was checked; `None` if it is simulated or did not exist.
    identity: Option<Identity>,
    _held: Held,
}

/// What a permit holds, so that the result of the checks stays true.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not used")]
enum Held {
    Nothing,
    /// The claim on a block device, and the lock on its disk.
    Device(OwnedFd, Arc<OwnedFd>),
    /// The lock on a file.
    File(OwnedFd),
    /// A namespace of a controller without a kernel driver.
    Namespace(Target),
}

impl WritePermit {
    /// Checks that `target` may be written, with the default [options](Self::options).
    ///
    /// # Errors
    /// As [`PermitOptions::request`].
    pub fn request(target: impl AsRef<OsStr>) -> Result<Self, Refused> {
        Self::options().request(target)
    }

    /// What to check: by default everything, for any target.
    pub fn options<'a>() -> PermitOptions<'a> {
        PermitOptions { among: None, erase: false }
    }

    fn new(identity: Option<Identity>, held: Held) -> Self {
        Self(Arc::new(Permit { identity, _held: held }))
    }
}

impl WritePermission for WritePermit {
    /// A permit for a target that did not exist covers only simulated devices; a file that the program creates itself
    /// ([`create`](iolane_core::TargetOptions::create)) needs no permit.
    ///
    /// # Errors
    /// `Unavailable` if it is something else.
    fn covers(&self, opened: &Target) -> Result<()> {
        let what = || format!("writing to {}", opened.name());
        let identity = match (Identity::of_opened_namespace(opened), opened.fd()) {
            (Some(identity), _) => Some(identity),
            (None, Some(fd)) => Identity::of(&rustix::fs::fstat(fd).map_err(|errno| Error::system(what(), errno))?),
            (None, None) if opened.kind().is_simulated() => return Ok(()),
            (None, None) => None,
        };
        if self.0.identity.is_some() && identity == self.0.identity {
            return Ok(());
        }
        Err(Error::unavailable(what(), "the name led to something else when it was checked").remedy("start again"))
    }
}

/// What a [`WritePermit`] is given for.
#[derive(Debug, Clone, Copy)]
pub struct PermitOptions<'a> {
    among: Option<&'a [OsString]>,
    erase: bool,
}

impl<'a> PermitOptions<'a> {
    /// Only a target among these may be written, under any of its names: what a user allowed, for a program that is told its targets.
    #[must_use]
    pub fn among(mut self, names: &'a [OsString]) -> Self {
        self.among = Some(names);
        self
    }

    /// Whether a target may be written although it carries a signature: of a file system, a RAID, a volume manager, a partition
    /// table (as wipefs(8) lists them), a disk image or a database. In use it is refused all the same.
    #[must_use]
    pub fn erase(mut self, erase: bool) -> Self {
        self.erase = erase;
        self
    }

    /// Checks that `target` may be written, and keeps it so.
    ///
    /// A simulated device is permitted, and so is a target that does not exist, since opening it fails. Any other must not be in
    /// use, and must carry no signature:
    /// - a block device: not mounted, swap, claimed, held by another device (md, dm, bcache), behind a loop device, exported by the
    ///   kernel (nvmet) or open in another process (this one does not count), nor may its partitions or, for a partition, its disk be;
    /// - the character device of an NVMe namespace: as the block device of that namespace;
    /// - a namespace of a controller without a kernel driver (`pci:...`): no other process can open it. The signatures are read
    ///   through this process's driver. Among the names it stands as `target` does, with its number (`ns=`) or without; other
    ///   settings are ignored;
    /// - a regular file: not swap, not mounted, not behind a loop device, not exported, not open in another process, not locked
    ///   (flock(2)), be it by this process, not an interface of the kernel (/proc, /sys).
    ///
    /// The device is claimed before it is checked, so that nothing changes in between. That a file is open is asked of the kernel, which
    /// knows of all of this machine. That a device is open is not seen of a process in another PID namespace, and of a mapping whose
    /// descriptor was closed.
    /// Sources: open(2), fcntl(2), proc_pid_mountinfo(5), proc_swaps(5), Documentation/ABI/stable/sysfs-block.
    ///
    /// # Errors
    /// [`Refused`], with its [`Reason`]. As an [`Error`] it is `Usage` if the target is not among the names, and otherwise
    /// `Unavailable`, or as opening a controller without a kernel driver.
    pub fn request(self, target: impl AsRef<OsStr>) -> Result<WritePermit, Refused> {
        let target = target.as_ref();
        let nothing_to_harm = WritePermit::new(None, Held::Nothing);
        if TargetKind::simulated(target).is_some() {
            return Ok(nothing_to_harm);
        }
        if let Some(name) = identity::namespace_name(target) {
            let name = name.map_err(|error| Refused::new(Reason::Unsuitable, error))?;
            self.require_named(target, Identity::of_namespace(&name))?;
            let opened = namespace::check(target, self.erase)?;
            return Ok(WritePermit::new(Identity::of_opened_namespace(&opened), Held::Namespace(opened)));
        }
        let refused = |refusal: Refusal| refusal.of(format!("writing to {}", shown(target)));
        if Scheme::of(target).is_some() {
            let cause = "nothing here knows who uses a target of its scheme";
            let remedy = "open it unguarded, if its backend sees to that";
            return Err(refused(Refusal::new(Reason::Unanswered, cause, remedy)));
        }
        let Some(found) = find(target).map_err(refused)? else { return Ok(nothing_to_harm) };
        self.require_named(target, found.identity)?;
        let held = match found.identity {
            Identity::Block(number) => check_device(&found, number, self.erase),
            _ => check_file(&found, self.erase).map(Held::File),
        };
        Ok(WritePermit::new(Some(found.identity), held.map_err(refused)?))
    }

    fn require_named(&self, target: &OsStr, identity: Identity) -> Result<(), Refused> {
        match self.among {
            Some(names) if !names.iter().any(|name| identify(name) == Some(identity)) => {
                let what = format!("writing to {}", shown(target));
                let error = Error::usage(what, "it exists, and what is in it would be lost")
                    .errno(Errno::PERM.raw_os_error())
                    .remedy("name it among the targets that may be written");
                Err(Refused::new(Reason::NotNamed, error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether two names lead to the same target: the same file or device, or the same namespace of an NVMe controller however
/// its address is written.
pub fn is_same_target(a: &OsStr, b: &OsStr) -> bool {
    a == b || identify(a).is_some_and(|identity| identify(b) == Some(identity))
}

/// A whole disk that is not in use, claimed until this is dropped: until then no process can mount it or a partition of it, swap
/// to it, or build on it.
#[derive(Debug)]
#[must_use = "the claim ends when it is dropped"]
pub struct DiskClaim(#[expect(dead_code, reason = "held, not used")] OwnedFd);

/// Claims a disk by the kernel's name (`nvme0n1`), with the checks of [`PermitOptions::request`] except signatures and other
/// openers. `what` begins an error message.
///
/// # Errors
/// `Unavailable` if it is in use, or if a check gets no answer.
pub fn claim_disk(name: &str, what: &str) -> Result<DiskClaim> {
    let claim = || {
        let device = Sysfs::HERE.named(name)?;
        let claim = claim::take_node(&device.node()?, &device)?;
        Survey::of_device(&device)?.check()?;
        Ok(DiskClaim(claim))
    };
    claim().map_err(|refusal: Refusal| refusal.of(what.to_owned()).into())
}

/// Refuses a controller, given by the kernel's name, that the kernel exports as a whole as an NVMe target. `what` begins an error message.
///
/// # Errors
/// `Unavailable` if it is exported, or may be, or if that cannot be read.
pub fn require_not_passed_through(controller: &str, what: &str) -> Result<()> {
    let check = || exports::require_not_passed_through(Path::new(Sysfs::HERE.0), controller);
    check().map_err(|refusal: Refusal| refusal.of(what.to_owned()).into())
}

/// The uses of a disk, given by the kernel's name, such as "its partition nvme0n1p1 is mounted at /boot". It claims nothing, so a
/// use that only a claim shows (a mount in another namespace) is missing.
///
/// # Errors
/// `Unavailable` if a check gets no answer.
pub fn uses_of_disk(name: &str) -> Result<Vec<String>> {
    let uses = Sysfs::HERE.named(name).and_then(|device| Survey::of_device(&device)?.uses());
    uses.map_err(|refusal| refusal.of(format!("who uses {name}")).into())
}

/// Refuses a list of targets in which two are the same: a file and its hard link, a device under two names, a partition and its
/// disk, a namespace named twice. Simulated devices, and names that cannot be looked up, are skipped; opening the latter fails.
///
/// # Errors
/// `Usage`, naming the two.
pub fn refuse_doubles(targets: &[OsString]) -> Result<()> {
    let mut seen: Vec<(&OsString, Identity, Option<Identity>)> = Vec::new();
    for target in targets.iter().filter(|target| TargetKind::simulated(target).is_none()) {
        let Some(identity) = identify(target) else { continue };
        let disk = disk_of(identity);
        for (other, other_identity, other_disk) in &seen {
            let cause = if identity == *other_identity {
                format!("it is the same as {}", shown(other))
            } else if identity.may_be(*other_identity) {
                let cause = format!("it may be the same as {}", shown(other));
                return Err(Error::usage(format!("target {}", shown(target)), cause)
                    .remedy("say of both which namespace is meant (ns=NUMBER)"));
            } else if disk == Some(*other_identity) {
                format!("it is a partition of {}", shown(other))
            } else if *other_disk == Some(identity) {
                format!("{} is a partition of it", shown(other))
            } else {
                continue;
            };
            return Err(Error::usage(format!("target {}", shown(target)), cause).remedy("name one of them"));
        }
        seen.push((target, identity, disk));
    }
    Ok(())
}

fn check_file(found: &Found, erase: bool) -> Result<OwnedFd, Refusal> {
    kernel_files::check(&found.node)?;
    let bytes = found.stat.st_size as u64;
    let survey = Survey::of_file(found.identity, bytes);
    survey.check()?;
    let locked = openers::claim_file(found, &survey)?;
    if !erase {
        signature::check_file(&locked, bytes)?;
    }
    Ok(locked)
}

fn check_device(found: &Found, number: Number, erase: bool) -> Result<Held, Refusal> {
    let device = Sysfs::HERE.block(number)?;
    let claim = claim::take(found, &device)?;
    let survey = Survey::of_device(&device)?;
    survey.check()?;
    let lock = claim::lock_disk(&device)?;
    openers::check_device(&survey)?;
    if !erase {
        signature::check(&claim, &device)?;
    }
    Ok(Held::Device(claim, lock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_core::ErrorKind;

    /// A bus that no test machine has, so that every check after the name fails.
    const NOWHERE: &str = "pci:fffe:fe:1f.7";

    /// Hardware of another crate, which the guard knows nothing of.
    #[linkme::distributed_slice(iolane_core::scheme::SCHEMES)]
    static HARDWARE: Scheme = Scheme::new("guard-test-hardware", |_, _| {
        Ok(iolane_core::scheme::Device { bytes: 4096, block_bytes: 512, state: Box::new(()) })
    });

    #[test]
    fn a_target_of_an_unknown_scheme_gets_no_permit_and_no_other_permit_covers_it() {
        let name = "guard-test-hardware:0";
        assert_eq!(WritePermit::request(name).unwrap_err().reason(), Reason::Unanswered);
        let opened = Target::options().write_unguarded().open(name).unwrap();
        for permit in [WritePermit::request("null").unwrap(), WritePermit::request("/no/such/file").unwrap()] {
            assert!(permit.covers(&opened).is_err());
        }
        WritePermit::request("null").unwrap().covers(&Target::open("null").unwrap()).unwrap();
    }

    #[test]
    fn a_namespace_is_written_only_if_the_very_same_is_named() {
        let ask = |target: &str, allowed: &[&str]| {
            let allowed: Vec<OsString> = allowed.iter().map(Into::into).collect();
            let refused = WritePermit::options().among(&allowed).erase(true).request(target).unwrap_err();
            (refused.reason(), Error::from(refused))
        };
        for allowed in [&[][..], &["pci:fffe:fe:1f.6"], &["pci:fffe:fe:1f.7,ns=2"], &["fffe:fe:1f.7"], &["pci:x"]] {
            let (reason, error) = ask(NOWHERE, allowed);
            assert_eq!((reason, error.kind()), (Reason::NotNamed, ErrorKind::Usage), "{error}");
        }
        for allowed in [NOWHERE, "pci:fffe:fe:1f.7,timeout=1s"] {
            let (reason, error) = ask(NOWHERE, &["/dev/null", allowed]);
            assert_eq!((reason, error.kind()), (Reason::Unsuitable, ErrorKind::Unavailable));
            assert_eq!(error.cause(), "there is no such PCI device");
        }
        assert_eq!(ask("pci:zz", &["pci:zz"]).1.kind(), ErrorKind::Usage);
    }

    #[test]
    fn a_namespace_named_twice_is_refused_and_two_of_one_controller_are_not() {
        let ask = |names: &[&str]| refuse_doubles(&names.iter().map(Into::into).collect::<Vec<_>>());
        for (other, says) in [
            ("pci:00:04.0", "it is the same as pci:0000:00:04.0"),
            ("pci:0000:00:04.0,timeout=2s", "it is the same as pci:0000:00:04.0"),
            ("pci:00:04.0,ns=1", "it may be the same as pci:0000:00:04.0; say of both which namespace"),
        ] {
            let error = ask(&["pci:0000:00:04.0", other]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(says), "{error}");
        }
        ask(&["pci:00:04.0,ns=1", "pci:00:04.0,ns=2", "pci:00:05.0", "pci:zz", "pci:zz"]).unwrap();
    }
}
