//! `IoPath`: the one notation for a way to the disk, `interface+submission+completion,options`.
//! Only the grammar lives here; whether an interface exists, and takes a combination, its registry entry decides.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// How a request is handed to the kernel or the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SubmissionMode {
    /// The interface's own way: a system call, or a doorbell for a user-space driver.
    #[default]
    Default,
    /// A kernel thread polls the submission ring (`+spoll`, IORING_SETUP_SQPOLL).
    Spoll,
}

/// How the end of a request is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompletionMode {
    /// The interface's own way: interrupts for kernel interfaces, polling for a user-space driver.
    #[default]
    Default,
    /// Interrupts, asked for by name (`+int`).
    Interrupt,
    /// Busy polling of the device's completion queue (`+cpoll`).
    Cpoll,
    /// Sleep for a part of the expected latency, then poll (`+hybrid`).
    Hybrid,
}

/// Reaches one flag of the options.
type Flag = fn(&mut PathOptions) -> &mut bool;

/// What follows the commas of a path: settings of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathOptions {
    /// Buffers are registered with the kernel once (`fixedbufs`). The block layer then wants whole blocks from each of their pages:
    /// a buffer that does not begin at a multiple of the block size may be refused where another is not.
    pub fixed_buffers: bool,
    /// The target's descriptor is registered with the ring once (`fixedfiles`).
    pub fixed_files: bool,
    /// Completions are run when the caller asks for them (`defer`, DEFER_TASKRUN + SINGLE_ISSUER).
    pub defer: bool,
    /// Completions interrupt no running user code (`coop`, COOP_TASKRUN).
    pub coop: bool,
    /// No set-up flag beside those named: how the papers' programs used the interface (`plain`).
    pub plain: bool,
    /// Milliseconds without work after which the kernel's submission thread sleeps (`sqidle=MS`).
    pub sq_idle_ms: Option<u32>,
    /// Queues share one kernel submission thread (`share`, ATTACH_WQ).
    pub share: bool,
}

impl PathOptions {
    /// The flags without a value, by the name they have in a path, in the order they are printed.
    const FLAGS: [(&'static str, Flag); 6] = [
        ("fixedbufs", |options| &mut options.fixed_buffers),
        ("fixedfiles", |options| &mut options.fixed_files),
        ("defer", |options| &mut options.defer),
        ("coop", |options| &mut options.coop),
        ("plain", |options| &mut options.plain),
        ("share", |options| &mut options.share),
    ];

    fn set(&mut self, text: &str) -> Result<(), String> {
        if let Some(value) = text.strip_prefix("sqidle=") {
            let idle_ms = value.parse().map_err(|_| format!("`{text}` is not sqidle=MILLISECONDS"))?;
            return match self.sq_idle_ms.replace(idle_ms) {
                None => Ok(()),
                Some(_) => Err("`sqidle` is given twice".into()),
            };
        }
        let Some((name, flag)) = Self::FLAGS.iter().find(|(name, _)| *name == text) else {
            return Err(format!("`{text}` is no option"));
        };
        match std::mem::replace(flag(self), true) {
            false => Ok(()),
            true => Err(format!("`{name}` is given twice")),
        }
    }

    /// The options by name, as they stand in a path.
    pub fn names(&self) -> Vec<String> {
        let mut copy = *self;
        let set = Self::FLAGS.iter().filter(|(_, flag)| *flag(&mut copy));
        let mut names: Vec<String> = set.map(|(name, _)| name.to_string()).collect();
        names.extend(self.sq_idle_ms.map(|idle_ms| format!("sqidle={idle_ms}")));
        names
    }
}

/// A way to the disk: interface, submission, completion, options.
///
/// Written `io_uring+spoll+cpoll,fixedbufs,fixedfiles`; printing and parsing are inverse.
/// The papers' names are taken too: `iou`, `iou+p`, `iou+k`, `posix-sio`, `posix-aio`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IoPath {
    interface: String,
    /// How requests are handed over.
    pub submission: SubmissionMode,
    /// How completions are learned.
    pub completion: CompletionMode,
    /// Settings.
    pub options: PathOptions,
}

/// What the papers call an interface, and what it is called here (PAPERS: SYSTOR '22, HotStorage '23).
const INTERFACE_ALIASES: [(&str, &str); 5] = [
    ("iou", "io_uring"),
    ("posix-sio", "psync"),
    ("posix-aio", "posix_aio"),
    ("uring", "io_uring"),
    ("io_uring_passthrough", "io_uring_cmd"),
];

/// The interface that has no kernel to take interrupts for it.
const USER_SPACE_DRIVER: &str = "nvme";

impl IoPath {
    /// The path that an interface takes when nothing else is said.
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.into(),
            submission: SubmissionMode::default(),
            completion: CompletionMode::default(),
            options: PathOptions::default(),
        }
    }

    /// The interface's name, never an alias.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Whether completions are learned by polling the device, all the time or after a sleep. A user-space driver does that
    /// unless interrupts are asked for.
    pub fn polls_completions(&self) -> bool {
        match self.completion {
            CompletionMode::Cpoll | CompletionMode::Hybrid => true,
            CompletionMode::Default => self.interface == USER_SPACE_DRIVER,
            CompletionMode::Interrupt => false,
        }
    }

    /// Whether a kernel thread takes the submissions.
    pub fn polls_submissions(&self) -> bool {
        self.submission == SubmissionMode::Spoll
    }

    /// The same path, with interrupts asked for by name.
    #[must_use]
    pub fn interrupts(mut self) -> Self {
        self.completion = CompletionMode::Interrupt;
        self
    }

    /// The same path, polling for completions.
    #[must_use]
    pub fn cpoll(mut self) -> Self {
        self.completion = CompletionMode::Cpoll;
        self
    }

    /// The same path, sleeping and then polling for completions.
    #[must_use]
    pub fn hybrid(mut self) -> Self {
        self.completion = CompletionMode::Hybrid;
        self
    }

    /// The same path, with a kernel thread that polls for submissions.
    #[must_use]
    pub fn spoll(mut self) -> Self {
        self.submission = SubmissionMode::Spoll;
        self
    }

    /// The same path, with buffers and file registered once.
    #[must_use]
    pub fn registered(mut self) -> Self {
        self.options.fixed_buffers = true;
        self.options.fixed_files = true;
        self
    }

    fn set_mode(&mut self, mode: &str) -> Result<(), String> {
        let completion = match mode {
            "spoll" | "k" => {
                return match std::mem::replace(&mut self.submission, SubmissionMode::Spoll) {
                    SubmissionMode::Default => Ok(()),
                    SubmissionMode::Spoll => Err("`spoll` is given twice".into()),
                };
            }
            "int" => CompletionMode::Interrupt,
            "cpoll" | "p" => CompletionMode::Cpoll,
            "hybrid" => CompletionMode::Hybrid,
            _ => return Err(format!("`{mode}` is no way to submit or complete")),
        };
        match std::mem::replace(&mut self.completion, completion) {
            CompletionMode::Default => Ok(()),
            _ => Err("two ways to complete are given".into()),
        }
    }
}

impl FromStr for IoPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::usage(format!("path `{text}`"), cause).remedy(
                "write interface[+spoll][+int|+cpoll|+hybrid][,fixedbufs][,fixedfiles][,defer][,coop][,plain][,sqidle=MS][,share]",
            )
        };
        let mut parts = text.split(',');
        let mut modes = parts.next().unwrap_or_default().split('+');
        let name = modes.next().unwrap_or_default();
        let well_formed = |name: &str| {
            name.len() <= 32
                && name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
        };
        if !well_formed(name) {
            return Err(bad("it does not begin with an interface's name".into()));
        }
        let alias = INTERFACE_ALIASES.iter().find(|(alias, _)| *alias == name);
        let mut path = Self::new(alias.map_or(name, |(_, name)| name));
        for mode in modes {
            path.set_mode(mode).map_err(bad)?;
        }
        for option in parts {
            path.options.set(option).map_err(bad)?;
        }
        Ok(path)
    }
}

impl fmt::Display for IoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        if self.submission == SubmissionMode::Spoll {
            f.write_str("+spoll")?;
        }
        f.write_str(match self.completion {
            CompletionMode::Default => "",
            CompletionMode::Interrupt => "+int",
            CompletionMode::Cpoll => "+cpoll",
            CompletionMode::Hybrid => "+hybrid",
        })?;
        self.options.names().iter().try_for_each(|name| write!(f, ",{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> IoPath {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_prints_as_it_was_written() {
        for text in [
            "psync",
            "psync+cpoll",
            "io_uring+spoll+cpoll,fixedbufs,fixedfiles",
            "nvme+int",
            "io_uring,plain,sqidle=50",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn the_papers_names_are_taken() {
        for (alias, path) in [
            ("iou", "io_uring"),
            ("iou+p", "io_uring+cpoll"),
            ("iou+k", "io_uring+spoll"),
            ("posix-sio", "psync"),
            ("posix-aio", "posix_aio"),
        ] {
            assert_eq!(parse(alias), parse(path));
        }
    }

    #[test]
    fn a_user_space_driver_polls_unless_interrupts_are_asked_for() {
        for (path, polls) in [
            ("nvme", true),
            ("nvme+int", false),
            ("io_uring", false),
            ("io_uring+cpoll", true),
            ("io_uring+hybrid", true),
            ("io_uring+int", false),
        ] {
            assert_eq!(parse(path).polls_completions(), polls, "{path}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_cause() {
        for (text, cause) in [
            ("", "does not begin"),
            ("+cpoll", "does not begin"),
            ("io_uring+fast", "`fast` is no way"),
            ("io_uring+cpoll+int", "two ways"),
            ("io_uring+spoll+spoll", "twice"),
            ("io_uring,fixedbufs,fixedbufs", "twice"),
            ("io_uring,sqidle=x", "MILLISECONDS"),
            ("io_uring,sqidle=1,sqidle=2", "twice"),
            ("io_uring,turbo", "`turbo` is no option"),
        ] {
            let error = text.parse::<IoPath>().unwrap_err().to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }

    prop_compose! {
        fn any_path()(
            interface in "[a-z][a-z0-9_]{0,12}",
            spoll: bool,
            completion in prop::sample::select(vec![
                CompletionMode::Default, CompletionMode::Interrupt, CompletionMode::Cpoll, CompletionMode::Hybrid,
            ]),
            flags: [bool; 6],
            sq_idle_ms in prop::option::of(any::<u32>()),
        ) -> IoPath {
            let mut path = IoPath::new(&interface);
            if spoll { path = path.spoll(); }
            path.completion = completion;
            let [fixed_buffers, fixed_files, defer, coop, plain, share] = flags;
            path.options = PathOptions { fixed_buffers, fixed_files, defer, coop, plain, sq_idle_ms, share };
            path
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(path in any_path()) {
            prop_assume!(INTERFACE_ALIASES.iter().all(|(alias, _)| *alias != path.interface()));
            prop_assert_eq!(parse(&path.to_string()), path);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z+,=_0-9]{0,40}|\\PC{0,20}") {
            if let Ok(path) = text.parse::<IoPath>() {
                prop_assert_eq!(parse(&path.to_string()), path);
            }
        }
    }
}
