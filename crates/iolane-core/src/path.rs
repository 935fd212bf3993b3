//! `IoPath`: the notation of a path to the disk, `interface+submission+completion,options`, and its parser.
//! Only the grammar lives here: the registry knows which interfaces exist, and each of them which combinations it takes.

use std::fmt;
use std::str::FromStr;

use crate::did_you_mean::did_you_mean;
use crate::error::{Error, Result};
use crate::goal::Goal;

/// How a request is handed to the kernel or the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SubmissionMode {
    /// The interface's own way: a system call, or a doorbell for a user-space driver.
    #[default]
    Default,
    /// A kernel thread polls the submission ring (`+sqpoll`, IORING_SETUP_SQPOLL).
    Sqpoll,
}

/// How completions are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompletionMode {
    /// The interface's own way: interrupts for kernel interfaces, polling for a user-space driver.
    #[default]
    Default,
    /// Interrupts, named explicitly (`+int`).
    Interrupt,
    /// Busy polling of the device's completion queue (`+iopoll`).
    Iopoll,
    /// Sleep for part of the expected latency, then poll (`+hybrid`).
    Hybrid,
}

/// Access to one flag of the options.
type Flag = fn(&mut PathOptions) -> &mut bool;

/// What follows the commas of a path: settings of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathOptions {
    /// Buffers are registered with the kernel once (`fixedbufs`). The block layer then requires whole blocks in each of their
    /// pages, and may refuse a buffer that does not begin at a multiple of the block size.
    pub fixed_buffers: bool,
    /// The target's descriptor is registered with the ring once (`fixedfiles`).
    pub fixed_files: bool,
    /// Completions run when the caller asks for them (`defer`, DEFER_TASKRUN + SINGLE_ISSUER).
    pub defer: bool,
    /// Completions do not interrupt running user code (`coop`, COOP_TASKRUN).
    pub coop: bool,
    /// No setup flags except those named, as in programs written before the newer flags (`plain`).
    pub plain: bool,
    /// Milliseconds without work after which the kernel's submission thread sleeps (`sqidle=MS`).
    pub sq_idle_ms: Option<u32>,
    /// Queues share one kernel submission thread (`share`, ATTACH_WQ).
    pub share: bool,
    /// Completions are fetched by system calls (`getevents`, io_getevents(2)), as libaio's own functions do, although they
    /// could be read in user space.
    pub getevents: bool,
    /// Those of a path that chooses among others.
    pub auto: AutoOptions,
}

/// Settings of a path that chooses among others: what it aims at, and what it may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AutoOptions {
    /// What it aims at (`goal=NAME`); throughput if it is not given.
    pub goal: Option<Goal>,
    /// The most cores that the path it takes may keep busy, in percent of one (`cores=0.5` is 50).
    pub cores_max_percent: Option<u32>,
    /// It takes no path with a kernel thread that polls for submissions (`nosqpoll`).
    pub no_sqpoll: bool,
    /// It sends no request to a path only to measure it (`noexplore`).
    pub no_explore: bool,
    /// It changes the path every few requests whatever they cost (`restless`), which tests what a change could break.
    pub restless: bool,
}

impl PathOptions {
    /// No options.
    pub const NONE: Self = Self {
        fixed_buffers: false,
        fixed_files: false,
        defer: false,
        coop: false,
        plain: false,
        sq_idle_ms: None,
        share: false,
        getevents: false,
        auto: AutoOptions { goal: None, cores_max_percent: None, no_sqpoll: false, no_explore: false, restless: false },
    };

    /// The flags without a value, by the name they have in a path, in the order they are printed.
    const FLAGS: [(&'static str, Flag); 10] = [
        ("fixedbufs", |options| &mut options.fixed_buffers),
        ("fixedfiles", |options| &mut options.fixed_files),
        ("defer", |options| &mut options.defer),
        ("coop", |options| &mut options.coop),
        ("plain", |options| &mut options.plain),
        ("share", |options| &mut options.share),
        ("getevents", |options| &mut options.getevents),
        ("nosqpoll", |options| &mut options.auto.no_sqpoll),
        ("noexplore", |options| &mut options.auto.no_explore),
        ("restless", |options| &mut options.auto.restless),
    ];

    fn set(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err("nothing stands between two commas, or after the last".into());
        }
        if let Some(value) = text.strip_prefix("sqidle=") {
            let idle_ms = value.parse().map_err(|_| format!("`{text}` is not sqidle=MILLISECONDS"))?;
            return match self.sq_idle_ms.replace(idle_ms) {
                None => Ok(()),
                Some(_) => Err("`sqidle` is given twice".into()),
            };
        }
        if let Some(value) = text.strip_prefix("goal=") {
            let goal = value
                .parse()
                .map_err(|error: Error| format!("`{text}`: {}; {}", error.cause(), error.remedy_text()))?;
            return match self.auto.goal.replace(goal) {
                None => Ok(()),
                Some(_) => Err("`goal` is given twice".into()),
            };
        }
        if let Some(value) = text.strip_prefix("cores=") {
            let percent = percent_of(value).ok_or_else(|| format!("`{text}` is not cores=N, such as 0.5, 1 or 2"))?;
            return match self.auto.cores_max_percent.replace(percent) {
                None => Ok(()),
                Some(_) => Err("`cores` is given twice".into()),
            };
        }
        let Some((name, flag)) = Self::FLAGS.iter().find(|(name, _)| *name == text) else {
            let known = Self::FLAGS.iter().map(|(name, _)| *name).chain(["sqidle=", "goal=", "cores="]);
            return Err(format!("`{text}` is not an option{}", suggestion(text, known)));
        };
        match std::mem::replace(flag(self), true) {
            false => Ok(()),
            true => Err(format!("`{name}` is given twice")),
        }
    }

    /// The options by name, as written in a path.
    pub fn names(&self) -> Vec<String> {
        let mut copy = *self;
        let set = Self::FLAGS.iter().filter(|(_, flag)| *flag(&mut copy));
        let mut names: Vec<String> = set.map(|(name, _)| name.to_string()).collect();
        names.extend(self.sq_idle_ms.map(|idle_ms| format!("sqidle={idle_ms}")));
        names.extend(self.auto.goal.map(|goal| format!("goal={goal}")));
        let percent = self.auto.cores_max_percent;
        names.extend(percent.map(|percent| format!("cores={}", f64::from(percent) / 100.0)));
        names
    }
}

/// A number of cores as a percentage of one: 0.01 to 10,000 cores, of which two digits behind the point count.
fn percent_of(cores: &str) -> Option<u32> {
    let percent = (cores.parse::<f64>().ok()? * 100.0).round();
    (1.0..=1e6).contains(&percent).then_some(percent as u32)
}

/// A path to the disk: interface, submission, completion, options.
///
/// Written `io_uring+sqpoll+iopoll,fixedbufs,fixedfiles`; printing and parsing are inverse.
/// Parsing also accepts the names in published papers (`iou`, `iou+p`, `iou+k`, `posix-sio`, `posix-aio`) and those of
/// earlier versions of iolane (`+spoll`, `+cpoll`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IoPath {
    interface: String,
    /// How requests reach the kernel or the device.
    pub submission: SubmissionMode,
    /// How completions are detected.
    pub completion: CompletionMode,
    /// Settings.
    pub options: PathOptions,
}

/// Names of interfaces in published measurements, and their names here: "Understanding Modern Storage APIs: A systematic
/// study of libaio, SPDK, and io_uring" (SYSTOR '22) and "Energy Implications of IO Interface Design Choices"
/// (HotStorage '23).
const INTERFACE_ALIASES: [(&str, &str); 5] = [
    ("iou", "io_uring"),
    ("posix-sio", "psync"),
    ("posix-aio", "posix_aio"),
    ("uring", "io_uring"),
    ("io_uring_passthrough", "io_uring_cmd"),
];

impl IoPath {
    /// The path of an interface without modes and options.
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

    /// Whether the path asks for polled completions, all the time (`+iopoll`) or after a sleep (`+hybrid`). An interface
    /// may poll without being asked: [`Interface::polls_completions`](crate::Interface::polls_completions) covers both.
    pub fn asks_for_polling(&self) -> bool {
        matches!(self.completion, CompletionMode::Iopoll | CompletionMode::Hybrid)
    }

    /// Whether a kernel thread polls for submissions.
    pub fn polls_submissions(&self) -> bool {
        self.submission == SubmissionMode::Sqpoll
    }

    /// How many kernel threads poll for the submissions of this many queues.
    pub fn submission_threads(&self, queues: usize) -> usize {
        match self.polls_submissions() {
            true if self.options.share => 1,
            true => queues,
            false => 0,
        }
    }

    /// The same path, with interrupts named explicitly.
    #[must_use]
    pub fn interrupts(mut self) -> Self {
        self.completion = CompletionMode::Interrupt;
        self
    }

    /// The same path, polling for completions.
    #[must_use]
    pub fn iopoll(mut self) -> Self {
        self.completion = CompletionMode::Iopoll;
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
    pub fn sqpoll(mut self) -> Self {
        self.submission = SubmissionMode::Sqpoll;
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
            "sqpoll" | "spoll" | "k" => {
                return match std::mem::replace(&mut self.submission, SubmissionMode::Sqpoll) {
                    SubmissionMode::Default => Ok(()),
                    SubmissionMode::Sqpoll => Err("`sqpoll` is given twice".into()),
                };
            }
            "int" => CompletionMode::Interrupt,
            "iopoll" | "cpoll" | "p" => CompletionMode::Iopoll,
            "hybrid" => CompletionMode::Hybrid,
            _ => {
                let meant = suggestion(mode, ["sqpoll", "int", "iopoll", "hybrid"]);
                return Err(format!("`{mode}` is not a submission or completion mode{meant}"));
            }
        };
        match std::mem::replace(&mut self.completion, completion) {
            CompletionMode::Default => Ok(()),
            _ => Err("two completion modes are given".into()),
        }
    }
}

/// `; did you mean NAME?`, or nothing.
fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match did_you_mean(given, known).trim_end() {
        "" => String::new(),
        question => format!("; {question}"),
    }
}

impl FromStr for IoPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::usage(format!("path `{text}`"), cause).remedy(
                "write interface[+sqpoll][+int|+iopoll|+hybrid][,fixedbufs][,fixedfiles][,defer][,coop][,plain][,sqidle=MS][,share][,getevents][,goal=GOAL][,cores=N][,nosqpoll][,noexplore][,restless]",
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
        if self.submission == SubmissionMode::Sqpoll {
            f.write_str("+sqpoll")?;
        }
        f.write_str(match self.completion {
            CompletionMode::Default => "",
            CompletionMode::Interrupt => "+int",
            CompletionMode::Iopoll => "+iopoll",
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
    fn each_queue_has_a_submission_thread_unless_they_share_one() {
        for (path, threads) in [("io_uring", 0), ("io_uring+sqpoll", 3), ("io_uring+sqpoll,share", 1)] {
            assert_eq!(path.parse::<IoPath>().unwrap().submission_threads(3), threads, "{path}");
        }
    }

    #[test]
    fn a_path_prints_as_it_was_written() {
        for text in [
            "psync",
            "psync+iopoll",
            "io_uring+sqpoll+iopoll,fixedbufs,fixedfiles",
            "nvme+int",
            "io_uring,plain,sqidle=50",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn names_from_papers_and_earlier_versions_are_accepted() {
        for (alias, path) in [
            ("io_uring+spoll+cpoll", "io_uring+sqpoll+iopoll"),
            ("iou", "io_uring"),
            ("iou+p", "io_uring+iopoll"),
            ("iou+k", "io_uring+sqpoll"),
            ("posix-sio", "psync"),
            ("posix-aio", "posix_aio"),
        ] {
            assert_eq!(parse(alias), parse(path));
        }
    }

    #[test]
    fn iopoll_and_hybrid_ask_for_polling() {
        for (path, asks) in
            [("io_uring", false), ("io_uring+iopoll", true), ("io_uring+hybrid", true), ("io_uring+int", false)]
        {
            assert_eq!(parse(path).asks_for_polling(), asks, "{path}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_cause() {
        for (text, cause) in [
            ("", "does not begin"),
            ("+iopoll", "does not begin"),
            ("io_uring+fast", "`fast` is not a submission"),
            ("io_uring+iopoll+int", "two completion modes"),
            ("io_uring+sqpoll+sqpoll", "twice"),
            ("io_uring,fixedbufs,fixedbufs", "twice"),
            ("io_uring,sqidle=x", "MILLISECONDS"),
            ("io_uring,sqidle=1,sqidle=2", "twice"),
            ("io_uring,turbo", "`turbo` is not an option"),
            ("auto,cores=0", "`cores=0` is not cores=N"),
            ("auto,cores=nan", "`cores=nan` is not cores=N"),
            ("auto,cores=1,cores=1", "twice"),
            ("io_uring,,plain", "nothing stands between two commas"),
        ] {
            let error = text.parse::<IoPath>().unwrap_err().to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }

    prop_compose! {
        fn any_path()(
            interface in "[a-z][a-z0-9_]{0,12}",
            sqpoll: bool,
            completion in prop::sample::select(vec![
                CompletionMode::Default, CompletionMode::Interrupt, CompletionMode::Iopoll, CompletionMode::Hybrid,
            ]),
            flags: [bool; 10],
            sq_idle_ms in prop::option::of(any::<u32>()),
            cores_max_percent in prop::option::of(1u32..=1_000_000),
            goal in prop::option::of(prop::sample::select(Goal::NAMES.map(|(_, goal)| goal).to_vec())),
        ) -> IoPath {
            let mut path = IoPath::new(&interface);
            if sqpoll { path = path.sqpoll(); }
            path.completion = completion;
            let [fixed_buffers, fixed_files, defer, coop, plain, share, getevents, no_sqpoll, no_explore, restless] = flags;
            let auto = AutoOptions { goal, cores_max_percent, no_sqpoll, no_explore, restless };
            path.options =
                PathOptions { fixed_buffers, fixed_files, defer, coop, plain, sq_idle_ms, share, getevents, auto };
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

    #[test]
    fn a_misspelt_mode_or_option_suggests_the_one_that_was_probably_meant() {
        let refused = |text: &str| text.parse::<IoPath>().unwrap_err().cause().to_owned();
        assert_eq!(refused("io_uring+sqpol"), "`sqpol` is not a submission or completion mode; did you mean sqpoll?");
        assert_eq!(refused("io_uring,fixedbuf"), "`fixedbuf` is not an option; did you mean fixedbufs?");
        assert_eq!(refused("io_uring,turbo"), "`turbo` is not an option");
    }
}
