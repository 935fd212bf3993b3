//! The targets of a command: which ones the command line and the environment name, opened with a write permit where they are
//! written, or a scratch file. `probe`, `run` and `study` use it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use iolane::guard::{self, Reason, Refused, WritePermit};
use iolane::units::Bytes;
use iolane::{Error, IoPath, Target, TargetKind, TargetOptions};
use iolane_measure::scratch::Scratch;
use iolane_study::format;
use iolane_study::run_record::TargetRecord;

use crate::arguments::TargetArguments;
use crate::interrupt::STOP;
use crate::output::{Bar, printable};

/// The targets of a command, before any is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chosen {
    Named(Vec<OsString>),
    /// A scratch file in the current folder.
    Scratch,
}

/// The size of a scratch file that was not given one.
pub(crate) const SCRATCH_BYTES: u64 = 1 << 30;

/// The simulated device that the path reaches, for which it is the only one.
fn simulated_target(path: &IoPath) -> Option<TargetKind> {
    iolane::interface_of(path).ok()?.own_target().filter(|kind| kind.is_simulated())
}

impl Chosen {
    /// The targets that are named, on the command line or else by `IOLANE_TARGET`.
    pub(crate) fn of(names: &[OsString]) -> Self {
        match names {
            [] => std::env::var_os("IOLANE_TARGET")
                .filter(|name| !name.is_empty())
                .map_or(Self::Scratch, |name| Self::Named(vec![name])),
            names => Self::Named(names.to_vec()),
        }
    }

    /// The targets of a run or a study; `only_path` is the path if there is but one.
    ///
    /// # Errors
    /// `Usage` for a target named twice, and for `--allow-writes` of something else.
    pub(crate) fn of_arguments(arguments: &TargetArguments, only_path: Option<&IoPath>) -> anyhow::Result<Self> {
        guard::refuse_doubles(&arguments.target)?;
        let chosen = match only_path.and_then(simulated_target) {
            Some(kind) if arguments.target.is_empty() => Self::Named(vec![kind.name().into()]),
            _ => Self::of(&arguments.target),
        };
        let is_target = |name: &OsString| chosen.names().iter().any(|target| guard::is_same_target(name, target));
        match arguments.allow_writes.iter().find(|name| !is_target(name)) {
            None => Ok(chosen),
            Some(stray) => {
                let what = format!("--allow-writes {}", printable(Path::new(stray)));
                let names: Vec<String> = chosen.names().iter().map(|name| printable(Path::new(name))).collect();
                let remedy = match &names[..] {
                    [] => "name it with --target as well".into(),
                    names => format!("the targets are {0}; use --allow-writes {0}", names.join(", ")),
                };
                Err(Error::usage(what, "it is not a target of this command").remedy(remedy).into())
            }
        }
    }

    /// The names; none for a scratch file.
    pub(crate) fn names(&self) -> &[OsString] {
        match self {
            Self::Named(names) => names,
            Self::Scratch => &[],
        }
    }
}

/// Opens targets, and holds their write permits: a device is claimed once, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Opener {
    allow_writes: Vec<OsString>,
    erase: bool,
    permits: Vec<(OsString, WritePermit)>,
}

impl Opener {
    pub(crate) fn new(arguments: &TargetArguments) -> Self {
        Self { allow_writes: arguments.allow_writes.clone(), erase: arguments.erase, permits: Vec::new() }
    }

    /// Whether the user allowed writing to it.
    pub(crate) fn allows(&self, name: &OsStr) -> bool {
        self.allow_writes.iter().any(|allowed| guard::is_same_target(allowed, name))
    }

    /// Opens a target that exists; one that is written needs a permit first.
    pub(crate) fn open(&mut self, name: &OsStr, options: &TargetOptions, writes: bool) -> iolane::Result<Target> {
        match writes {
            true => options.clone().write(self.permit(name)?).open(name),
            false => options.open(name),
        }
    }

    fn permit(&mut self, name: &OsStr) -> iolane::Result<WritePermit> {
        if let Some((_, permit)) = self.permits.iter().find(|(permitted, _)| guard::is_same_target(permitted, name)) {
            return Ok(permit.clone());
        }
        let options = WritePermit::options().among(&self.allow_writes).erase(self.erase);
        let permit = options.request(name).map_err(|refused| in_words_of_the_command_line(refused, name))?;
        self.permits.push((name.into(), permit.clone()));
        Ok(permit)
    }
}

fn in_words_of_the_command_line(refused: Refused, name: &OsStr) -> Error {
    let reason = refused.reason();
    let error = Error::from(refused);
    match reason {
        Reason::NotNamed => error.remedy(format!("to permit it add --allow-writes {}", printable(Path::new(name)))),
        Reason::HoldsData => error.remedy("if all that is on it may be lost add --erase"),
        _ => error,
    }
}

/// Makes a scratch file in the current folder, with a progress bar, and opens it.
pub(crate) fn open_scratch(bytes: u64, seed: u64, options: TargetOptions, writes: bool) -> anyhow::Result<Target> {
    open_scratch_in(Path::new("."), bytes, seed, options, writes)
}

/// The same in another folder than this one.
pub(crate) fn open_scratch_in(
    folder: &Path,
    bytes: u64,
    seed: u64,
    options: TargetOptions,
    writes: bool,
) -> anyhow::Result<Target> {
    check_scratch(bytes)?;
    let bar = Bar::bytes(bytes, "writing the scratch file");
    let scratch = Scratch::create(folder, bytes, seed, &STOP, |written| bar.at(written))?;
    Ok(scratch.open(options, writes)?)
}

/// Opens a scratch file without content, for a command that measures nothing.
pub(crate) fn open_sparse_scratch(bytes: u64, options: TargetOptions, writes: bool) -> anyhow::Result<Target> {
    check_scratch(bytes)?;
    Ok(Scratch::sparse(Path::new("."), bytes)?.open(options, writes)?)
}

fn check_scratch(bytes: u64) -> anyhow::Result<()> {
    if bytes < 4096 {
        return Err(Error::usage(format!("--size {}", Bytes(bytes)), "a scratch file needs 4k or more").into());
    }
    Ok(())
}

/// The devices of this machine that offer paths which files do not: NVMe generic devices, block devices with poll queues,
/// and controllers bound to vfio-pci. Those that cannot be opened are left out.
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
    devices.chain(free_controllers().map(Into::into)).filter_map(|name| Target::open(name).ok()).collect()
}

/// The names of the controllers that are bound to vfio-pci and unused.
pub(crate) fn free_controllers() -> impl Iterator<Item = String> {
    // A damaged record is reported by `iolane nvme`.
    let controllers = iolane::nvme::controllers().unwrap_or_default().into_iter();
    let free = controllers.filter(|controller| controller.vfio_node.is_some() && controller.used_by.is_empty());
    free.map(|controller| format!("pci:{}", controller.bdf))
}

/// A target in a line: `scratch file in . (1 GiB file, O_DIRECT)`.
pub(crate) fn describe(target: &Target) -> String {
    in_words(&TargetRecord::new(target))
}

/// The same of a target in results.
pub(crate) fn in_words(record: &TargetRecord) -> String {
    let TargetRecord { name, bytes, kind, .. } = record;
    format!("{} ({} {kind}, {})", printable(Path::new(name)), format::bytes(*bytes), record.access())
}
