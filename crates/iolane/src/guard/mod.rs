//! Decides whether a target may be written, or a disk taken from the kernel, so that a mistake destroys no data. The caller asks
//! first and keeps the permit until it is done. A check that fails to get an answer refuses. Nothing here writes.

mod claim;
#[cfg(test)]
mod fake_sysfs;
mod identity;
mod in_use;
mod kernel_files;
mod namespace;
mod proc;
mod refusal;
mod signature;
mod sysfs;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use iolane_core::{Error, Result, Target, TargetKind};

use identity::{Found, Identity, disk_of, find, identify};
use in_use::Survey;
use refusal::{Refusal, shown};
use sysfs::{Number, Sysfs};

/// Proof that writing is permitted.
///
/// On a block device it holds the exclusive claim (O_EXCL without O_CREAT, open(2)) until it is dropped: until then no process can
/// mount the device or a partition of it, swap to it, or build a RAID or a volume group on it. A controller without a kernel
/// driver stays open, so that no other process can open it.
#[derive(Debug)]
#[must_use = "the claim on a block device ends when the permit is dropped"]
pub struct WritePermit {
    /// The target that was checked; `None` if it is simulated or did not exist.
    identity: Option<Identity>,
    _held: Held,
}

/// What a permit holds, so that the result of the checks stays true.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not used")]
enum Held {
    Nothing,
    /// The claim on a block device; for a file only a handle (O_PATH), so that its inode number is not reused.
    Descriptor(OwnedFd),
    /// A namespace of a controller without a kernel driver.
    Namespace(Target),
}

impl WritePermit {
    /// Checks that an opened target is the one that was permitted, since its name may lead elsewhere by now.
    ///
    /// A permit for a target that did not exist covers only simulated devices; a file that the run created itself
    /// ([`create`](iolane_core::TargetOptions::create)) needs no permit.
    ///
    /// # Errors
    /// `Unavailable` if it is something else.
    pub fn covers(&self, opened: &Target) -> Result<()> {
        let what = || format!("writing to {}", opened.name());
        let identity = match (Identity::of_opened_namespace(opened), opened.fd()) {
            (Some(identity), _) => Some(identity),
            (None, Some(fd)) => Identity::of(&rustix::fs::fstat(fd).map_err(|errno| Error::system(what(), errno))?),
            (None, None) => return Ok(()),
        };
        if self.identity.is_some() && identity == self.identity {
            return Ok(());
        }
        Err(Error::unavailable(what(), "the name led to something else when it was checked").remedy("start again"))
    }
}

/// Checks that `target` may be written. `allowed`: the names given with `--allow-writes`; `erase`: `--erase`.
///
/// A simulated device is permitted, and so is a target that does not exist, since opening it fails. Any other must be
/// among `allowed`, under any of its names, and must not be in use:
/// - a block device: not mounted, swap, claimed, held by another device (md, dm, bcache) or behind a loop device,
///   nor may its partitions or, for a partition, its disk be; and without `erase` it must carry no signature of a
///   file system, a RAID, a volume manager or a partition table (as wipefs(8) lists them);
/// - the character device of an NVMe namespace: as the block device of that namespace;
/// - a namespace of a controller without a kernel driver (`pci:...`): no other process can open it; without `erase` it must
///   carry no signature either, which is read through this process's driver. `allowed` must name it as `target` does,
///   with its number (`ns=`) or without; other settings are ignored;
/// - a regular file: not swap, not mounted, not behind a loop device, not an interface of the kernel (/proc, /sys).
///
/// The device is claimed before it is checked, so that nothing changes in between.
/// Sources: open(2), proc_pid_mountinfo(5), proc_swaps(5), Documentation/ABI/stable/sysfs-block.
///
/// # Errors
/// `Usage` if the target is not among `allowed`; `Unavailable` if it is in use, carries a signature, cannot be written, or if
/// a check gets no answer. For a controller without a kernel driver: as opening it.
pub fn permit_writes(target: &OsStr, allowed: &[OsString], erase: bool) -> Result<WritePermit> {
    let nothing_to_harm = WritePermit { identity: None, _held: Held::Nothing };
    if TargetKind::simulated(target).is_some() {
        return Ok(nothing_to_harm);
    }
    if let Some(name) = identity::namespace_name(target) {
        require_allowed(target, Identity::of_namespace(&name?), allowed)?;
        let opened = namespace::check(target, erase)?;
        return Ok(WritePermit { identity: Identity::of_opened_namespace(&opened), _held: Held::Namespace(opened) });
    }
    let refused = |refusal: Refusal| refusal.of(format!("writing to {}", shown(target)));
    let Some(found) = find(target).map_err(refused)? else { return Ok(nothing_to_harm) };
    require_allowed(target, found.identity, allowed)?;
    let identity = Some(found.identity);
    let held = match found.identity {
        Identity::Block(number) => check_device(found, number, erase),
        _ => check_file(found),
    };
    Ok(WritePermit { identity, _held: Held::Descriptor(held.map_err(refused)?) })
}

/// Whether two names lead to the same target: the same file or device, or the same namespace of an NVMe controller however
/// its address is written.
pub fn is_same_target(a: &OsStr, b: &OsStr) -> bool {
    a == b || identify(a).is_some_and(|identity| identify(b) == Some(identity))
}

fn require_allowed(target: &OsStr, identity: Identity, allowed: &[OsString]) -> Result<()> {
    if allowed.iter().any(|allowed| identify(allowed) == Some(identity)) {
        return Ok(());
    }
    let name = shown(target);
    Err(Error::usage(format!("writing to {name}"), "it exists, and what is in it would be lost")
        .remedy(format!("to permit it add --allow-writes {name}")))
}

/// A whole disk that is not in use, claimed until this is dropped: until then no process can mount it or a partition of it, swap
/// to it, or build on it.
#[derive(Debug)]
#[must_use = "the claim ends when it is dropped"]
pub struct DiskClaim(#[expect(dead_code, reason = "held, not used")] OwnedFd);

/// Claims a disk by the kernel's name (`nvme0n1`), with the checks of [`permit_writes`] except signatures. `what` begins an error
/// message.
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
    claim().map_err(|refusal: Refusal| refusal.of(what.to_owned()))
}

/// The uses of a disk, given by the kernel's name, such as "its partition nvme0n1p1 is mounted at /boot". It claims nothing, so a
/// use that only a claim shows (a mount in another namespace) is missing.
///
/// # Errors
/// `Unavailable` if a check gets no answer.
pub fn uses_of_disk(name: &str) -> Result<Vec<String>> {
    let uses = Sysfs::HERE.named(name).and_then(|device| Survey::of_device(&device)?.uses());
    uses.map_err(|refusal| refusal.of(format!("who uses {name}")))
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

fn check_file(found: Found) -> Result<OwnedFd, Refusal> {
    kernel_files::check(&found.node)?;
    Survey::of_file(found.identity, found.stat.st_size as u64).check()?;
    Ok(found.node)
}

fn check_device(found: Found, number: Number, erase: bool) -> Result<OwnedFd, Refusal> {
    let device = Sysfs::HERE.block(number)?;
    let claim = claim::take(&found, &device)?;
    Survey::of_device(&device)?.check()?;
    if !erase {
        signature::check(&claim, &device)?;
    }
    Ok(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_core::ErrorKind;

    /// A bus that no test machine has, so that every check after the name fails.
    const NOWHERE: &str = "pci:fffe:fe:1f.7";

    #[test]
    fn a_namespace_is_written_only_if_the_very_same_is_named() {
        let ask = |target: &str, allowed: &[&str]| {
            let allowed: Vec<OsString> = allowed.iter().map(Into::into).collect();
            permit_writes(OsStr::new(target), &allowed, true).unwrap_err()
        };
        for allowed in [&[][..], &["pci:fffe:fe:1f.6"], &["pci:fffe:fe:1f.7,ns=2"], &["fffe:fe:1f.7"], &["pci:x"]] {
            let error = ask(NOWHERE, allowed);
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
            assert_eq!(error.remedy_text(), format!("to permit it add --allow-writes {NOWHERE}"));
        }
        for allowed in [NOWHERE, "pci:fffe:fe:1f.7,timeout=1s"] {
            let error = ask(NOWHERE, &["/dev/null", allowed]);
            assert_eq!((error.kind(), error.cause()), (ErrorKind::Unavailable, "there is no such PCI device"));
        }
        assert_eq!(ask("pci:zz", &["pci:zz"]).kind(), ErrorKind::Usage);
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
