//! Opens what a command works on: the named targets, guarded before anything may be written, or a scratch file.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use iolane::guard::{self, WritePermit};
use iolane::units::Bytes;
use iolane::{Error, IoPath, Target, TargetKind};
use iolane_study::scratch::Scratch;
use iolane_study::workload::Workload;

use crate::arguments::TargetArguments;
use crate::interrupt::STOP;
use crate::output::Bar;

/// Open targets, and what keeps them safe while they are.
pub(crate) struct OpenTargets {
    pub(crate) targets: Vec<Target>,
    /// Whether they hold a scratch file's content.
    pub(crate) prefilled: bool,
    /// The part of each that is used; none for a scratch file, which is made in the right size.
    pub(crate) size: Option<Bytes>,
    _permits: Permits,
}

/// What may be written, by name. A device is claimed once, for as long as this is kept, however often it is opened.
#[derive(Default)]
pub(crate) struct Permits(Vec<(OsString, WritePermit)>);

impl Permits {
    /// Opens a target that is there; one that is to be written is guarded before.
    pub(crate) fn open(
        &mut self,
        name: &OsStr,
        arguments: &TargetArguments,
        writes: bool,
        direct: bool,
    ) -> anyhow::Result<Target> {
        let known = self.0.iter().any(|(permitted, _)| permitted == name);
        // Checked first, for opening for writing is a change already: of a device's claim, of a tape's place.
        if writes && !known {
            self.0.push((name.into(), guard::permit_writes(name, &arguments.allow_writes, arguments.erase)?));
        }
        let target = Target::options().write(writes).direct(direct).open(name)?;
        if let Some((_, permit)) = self.0.iter().find(|(permitted, _)| writes && permitted == name) {
            permit.covers(&target)?;
        }
        Ok(target)
    }
}

/// Whether a command writes to its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    /// It only reads.
    No,
    /// It writes to every one; one that was not allowed is refused.
    Yes,
    /// It writes to those that were allowed, and reads the others.
    WhereAllowed,
}

impl Writing {
    /// As a workload does it.
    pub(crate) fn of(workload: &Workload) -> Self {
        if workload.access.writes() { Self::Yes } else { Self::No }
    }

    fn covers(self, name: &OsStr, allowed: &[OsString]) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::WhereAllowed => allowed.iter().any(|allowed| allowed == name),
        }
    }
}

const SCRATCH_BYTES: Bytes = Bytes(1 << 30);

/// The target that stands in for one that is not named: `IOLANE_TARGET` in the environment. Without it that is a scratch
/// file.
fn default_target() -> Option<OsString> {
    std::env::var_os("IOLANE_TARGET").filter(|name| !name.is_empty())
}

/// The targets that are named, on the command line or else in the environment.
pub(crate) fn named(on_command_line: &[OsString]) -> Vec<OsString> {
    match on_command_line {
        [] => default_target().into_iter().collect(),
        named => named.to_vec(),
    }
}

/// The devices of this machine on which paths can be had that no file offers: NVMe's generic devices, block devices that
/// complete by polling, and controllers that were taken from the kernel. Those that may not be opened are left out.
pub(crate) fn special_devices() -> Vec<Target> {
    let names_in = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let polls = |disk: &OsString| {
        let io_poll = std::fs::read_to_string(Path::new("/sys/block").join(disk).join("queue/io_poll"));
        io_poll.is_ok_and(|io_poll| io_poll.trim() == "1")
    };
    let disks = names_in("/sys/block").into_iter().filter(polls);
    let devices = names_in("/sys/class/nvme-generic").into_iter().chain(disks);
    let devices = devices.map(|name| Path::new("/dev").join(name).into_os_string());
    devices.chain(taken_controllers().map(Into::into)).filter_map(|name| Target::open(name).ok()).collect()
}

/// The names of the controllers that vfio-pci has and nobody has open.
pub(crate) fn taken_controllers() -> impl Iterator<Item = String> {
    // A damaged record is `iolane nvme` to tell of.
    let controllers = iolane::nvme::controllers().unwrap_or_default().into_iter();
    let free = controllers.filter(|controller| controller.vfio_node.is_some() && controller.used_by.is_empty());
    free.map(|controller| format!("pci:{}", controller.bdf))
}

/// Whether [`open`] would make a scratch file.
pub(crate) fn would_be_scratch(arguments: &TargetArguments, path: Option<&IoPath>) -> bool {
    let made_up = matches!(path.map(IoPath::interface), Some("null" | "sim"));
    named(&arguments.target).is_empty() && !made_up
}

/// Opens the targets of a run or study; `path` is the only one to be taken, if there is but one.
pub(crate) fn open(
    arguments: &TargetArguments,
    writing: Writing,
    seed: u64,
    path: Option<&IoPath>,
) -> anyhow::Result<OpenTargets> {
    guard::refuse_doubles(&arguments.target)?;
    if arguments.target.is_empty() {
        if let Some(name) = arguments.allow_writes.first() {
            let what = format!("--allow-writes {}", name.to_string_lossy().replace(char::is_control, "?"));
            return Err(Error::usage(what, "no --target is given").remedy("name it by --target as well").into());
        }
        return match path.map(IoPath::interface) {
            // Made-up devices are reached by the path of their own name, and by no other.
            Some(made_up @ ("null" | "sim")) => open_named(arguments, &[OsStr::new(made_up)], writing),
            _ => match default_target() {
                Some(name) => open_named(arguments, &[&name], writing),
                None => open_scratch(arguments, writing, seed),
            },
        };
    }
    let names: Vec<&OsStr> = arguments.target.iter().map(AsRef::as_ref).collect();
    open_named(arguments, &names, writing)
}

fn open_named(arguments: &TargetArguments, names: &[&OsStr], writing: Writing) -> anyhow::Result<OpenTargets> {
    let mut permits = Permits::default();
    let writes = |name: &OsStr| writing.covers(name, &arguments.allow_writes);
    let targets = names.iter().map(|name| permits.open(name, arguments, writes(name), arguments.direct));
    let targets = targets.collect::<anyhow::Result<Vec<Target>>>()?;
    Ok(OpenTargets { targets, prefilled: false, size: arguments.size, _permits: permits })
}

fn open_scratch(arguments: &TargetArguments, writing: Writing, seed: u64) -> anyhow::Result<OpenTargets> {
    let scratch = scratch(Path::new("."), arguments.size.unwrap_or(SCRATCH_BYTES), seed)?;
    let target = scratch.open(writing != Writing::No, arguments.direct)?;
    Ok(OpenTargets { targets: vec![target], prefilled: true, size: None, _permits: Permits::default() })
}

/// Makes a scratch file in a folder, with a bar that shows how far it is.
pub(crate) fn scratch(folder: &Path, size: Bytes, seed: u64) -> anyhow::Result<Scratch> {
    if size.0 < 4096 {
        return Err(Error::usage(format!("--size {size}"), "a scratch file has 4k or more").into());
    }
    let bar = Bar::bytes(size.0, "making the scratch file");
    Ok(Scratch::create(folder, size.0, seed, &STOP, |written| bar.at(written))?)
}

/// What a target is, in a line: `scratch file in . (1g file, O_DIRECT)`.
pub(crate) fn describe(target: &Target) -> String {
    let access = match (target.kind(), target.direct()) {
        (TargetKind::Null | TargetKind::Sim, _) => "made up",
        (TargetKind::NvmeController, _) => "without a kernel driver",
        (_, true) => "O_DIRECT",
        (_, false) => "through the page cache",
    };
    format!("{} ({} {}, {access})", output_name(target), Bytes(target.bytes()), target.kind().name())
}

/// The name with control characters made harmless to a terminal.
fn output_name(target: &Target) -> String {
    target.name().chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
