//! Decides whether a target may be written, or a disk taken from the kernel, so that nobody's data is lost by a slip of the
//! hand. Whoever is about to do that asks here first and keeps the answer until done; nothing here writes.
//! Whatever cannot be found out counts against it.

mod claim;
#[cfg(test)]
mod fake_sysfs;
mod identity;
mod in_use;
mod kernel_files;
mod proc;
mod refusal;
mod signature;
mod sysfs;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use iolane_core::{Error, Result, Target};

use identity::{Found, Identity, disk_of, find, identify};
use in_use::Survey;
use refusal::{Refusal, shown};
use sysfs::{Number, Sysfs};

/// Proof that writing is permitted.
///
/// On a block device it holds the exclusive claim (O_EXCL without O_CREAT, open(2)) until it is dropped: meanwhile
/// nobody can mount the device or a partition of it, swap to it, or build a RAID or a volume group on it.
#[derive(Debug)]
#[must_use = "the claim on a block device ends when the permit is dropped"]
pub struct WritePermit {
    /// What was checked; `None` if it is made up or was missing.
    identity: Option<Identity>,
    /// The claim on a block device; of a file a mere handle (O_PATH), so that its inode number is not given away.
    _held: Option<OwnedFd>,
}

impl WritePermit {
    /// Checks that an opened target is the very thing that was permitted: a name may lead elsewhere by now.
    ///
    /// A permit for a target that was missing covers made-up devices alone; a file that the run created itself
    /// ([`create`](iolane_core::TargetOptions::create)) needs no permit.
    ///
    /// # Errors
    /// `Unavailable` if it is something else.
    pub fn covers(&self, opened: &Target) -> Result<()> {
        let Some(fd) = opened.fd() else { return Ok(()) };
        let what = || format!("writing to {}", opened.name());
        let stat = rustix::fs::fstat(fd).map_err(|errno| Error::system(what(), errno))?;
        if self.identity.is_some() && Identity::of(&stat) == self.identity {
            return Ok(());
        }
        Err(Error::unavailable(what(), "the name led to something else when it was checked").remedy("start again"))
    }
}

/// Checks that `target` may be written. `allowed`: the names given with `--allow-writes`; `erase`: `--erase`.
///
/// A made-up device is permitted, and so is a target that does not exist: opening it will say so. Any other must be
/// among `allowed`, by whatever name, and must not be in use:
/// - a block device: not mounted, swap, claimed, held by another device (md, dm, bcache) or behind a loop device,
///   nor may its partitions or, for a partition, its disk be; and without `erase` it must carry no signature of a
///   file system, a RAID, a volume manager or a partition table (as wipefs(8) lists them);
/// - the character device of an NVMe namespace: as the block device of that namespace;
/// - a regular file: not swap, not mounted, not behind a loop device, not a door to the kernel (/proc, /sys).
///
/// The device is claimed first and checked while the claim is held, so that nothing can change in between.
/// Sources: open(2), proc_pid_mountinfo(5), proc_swaps(5), Documentation/ABI/stable/sysfs-block.
///
/// # Errors
/// `Usage` if the target is not among `allowed`; `Unavailable` if it is in use, carries a signature, is nothing that
/// can be written, or if any of that cannot be found out.
pub fn permit_writes(target: &OsStr, allowed: &[OsString], erase: bool) -> Result<WritePermit> {
    let nothing_to_harm = WritePermit { identity: None, _held: None };
    if is_made_up(target) {
        return Ok(nothing_to_harm);
    }
    let name = shown(target);
    let refused = |refusal: Refusal| refusal.of(format!("writing to {name}"));
    let Some(found) = find(target).map_err(refused)? else { return Ok(nothing_to_harm) };
    if !allowed.iter().any(|allowed| identify(allowed) == Some(found.identity)) {
        return Err(Error::usage(format!("writing to {name}"), "it exists, and what is in it would be lost")
            .remedy(format!("to permit it add --allow-writes {name}")));
    }
    let identity = Some(found.identity);
    let held = match found.identity {
        Identity::File { .. } => check_file(found),
        Identity::Block(number) => check_device(found, number, erase),
    };
    Ok(WritePermit { identity, _held: Some(held.map_err(refused)?) })
}

/// A whole disk that nobody uses, claimed until this is dropped: meanwhile nobody can mount it or a partition of it, swap to
/// it, or build on it.
#[derive(Debug)]
#[must_use = "the claim ends when it is dropped"]
pub struct DiskClaim(#[expect(dead_code, reason = "held, not used")] OwnedFd);

/// Claims a disk, by the kernel's name for it (`nvme0n1`), on the terms of [`permit_writes`]; signatures do not count.
/// `what` is what an error says was to be done.
///
/// # Errors
/// `Unavailable` if it is in use, or if that cannot be found out.
pub fn claim_disk(name: &str, what: &str) -> Result<DiskClaim> {
    let claim = || {
        let device = Sysfs::HERE.named(name)?;
        let claim = claim::take_node(&device.node()?, &device)?;
        Survey::of_device(&device)?.check()?;
        Ok(DiskClaim(claim))
    };
    claim().map_err(|refusal: Refusal| refusal.of(what.to_owned()))
}

/// What use is made of a disk, by the kernel's name for it: each as "its partition nvme0n1p1 is mounted at /boot". Claims
/// nothing, so that one that only a claim would show (a mount in another namespace) is not among them.
///
/// # Errors
/// `Unavailable` if that cannot be found out.
pub fn uses_of_disk(name: &str) -> Result<Vec<String>> {
    let uses = Sysfs::HERE.named(name).and_then(|device| Survey::of_device(&device)?.uses());
    uses.map_err(|refusal| refusal.of(format!("who uses {name}")))
}

/// Refuses a list of targets in which two are the same thing: a file and its hard link, a device under two names,
/// a partition and its disk. Made-up devices and what cannot be looked up are passed over; opening tells of the latter.
///
/// # Errors
/// `Usage`, naming the two.
pub fn refuse_doubles(targets: &[OsString]) -> Result<()> {
    let mut seen: Vec<(&OsString, Identity, Option<Identity>)> = Vec::new();
    for target in targets.iter().filter(|target| !is_made_up(target)) {
        let Some(identity) = identify(target) else { continue };
        let disk = disk_of(identity);
        for (other, other_identity, other_disk) in &seen {
            let cause = if identity == *other_identity {
                format!("it is the same as {}", shown(other))
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

/// Whether the target is a device that `iolane_core::target` makes up, which wins over a file of that name.
fn is_made_up(target: &OsStr) -> bool {
    let scheme = target.to_str().and_then(|target| target.split(':').next());
    matches!(scheme, Some("null" | "sim"))
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
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn made_up_devices_are_told_as_the_core_tells_them() {
        for (name, expected) in
            [("null", true), ("null:1g", true), ("sim:seed=7", true), ("nullx", false), ("/sim", false)]
        {
            assert_eq!(is_made_up(OsStr::new(name)), expected, "{name}");
        }
        assert!(!is_made_up(OsStr::from_bytes(b"null:\xff")));
    }
}
