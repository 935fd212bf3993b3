//! A study as data: which factors are varied, which figures are drawn of them, which published claims they decide.
//! Read from TOML; the built-in ones are such files too. Nothing here opens a target or runs anything.

mod arm;
mod file;
mod selection;
mod survey;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::workload::{Access, BlockSizes, Workload};

pub use arm::{Arm, Cores};
pub use file::{BUILT_IN, BuiltIn, built_in};
pub use selection::{Condition, Selection};
pub use survey::{Survey, all_paths};

/// A study: what it varies, shows and decides. Plain data, made by [`Study::parse`] or field by field.
#[derive(Debug, Clone)]
pub struct Study {
    /// The name it is called by; also that of its file.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// Where it was published; empty for one's own.
    pub source: String,
    /// The machine the published figures are of, in a line; empty for one's own.
    pub published_on: String,
    /// What stays the same in every arm; the factors replace their part of it.
    pub workload: Workload,
    /// Lengths and repeats of a run, by scale.
    pub lengths: PerScale<Lengths>,
    /// The arms, as products of factors.
    pub groups: Vec<Group>,
    /// What is shown of them.
    pub figures: Vec<Figure>,
    /// What was published, and how it is decided.
    pub claims: Vec<Claim>,
    /// The file that it was read from, so that results can carry it; empty if there was none.
    pub text: String,
}

/// The scales a study can be run at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In minutes: shorter runs and fewer values of some factors.
    Scaled,
    /// The published lengths and values.
    Full,
}

/// Something that differs between the scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerScale<T> {
    /// At [`Scale::Scaled`].
    pub scaled: T,
    /// At [`Scale::Full`].
    pub full: T,
}

impl<T> PerScale<T> {
    /// The one of a scale.
    pub fn at(&self, scale: Scale) -> &T {
        match scale {
            Scale::Scaled => &self.scaled,
            Scale::Full => &self.full,
        }
    }
}

impl<T: Clone> PerScale<T> {
    /// The same at both scales.
    pub fn same(value: T) -> Self {
        Self { scaled: value.clone(), full: value }
    }
}

/// How long runs are, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// The measured phase of a run; chosen so that all runs fit into the time if `None`.
    pub runtime: Option<Duration>,
    /// Load before it that is not measured.
    pub warmup: Duration,
    /// Runs of each arm.
    pub repeats: usize,
    /// What all runs together may take where `runtime` is not given.
    pub time: Duration,
    /// The longest a run gets for it.
    pub runtime_max: Duration,
}

impl Lengths {
    /// Where time is short, a longer run says no more.
    pub const RUNTIME_MAX: Duration = Duration::from_secs(2);
}

/// Arms that are a product of factors: one for each combination of their values.
#[derive(Debug, Clone)]
pub struct Group {
    /// The paths, with the names that the study has for them.
    pub paths: Vec<NamedPath>,
    /// What requests do.
    pub access: PerScale<Vec<Access>>,
    /// Block sizes.
    pub block_sizes: PerScale<Vec<BlockSizes>>,
    /// Requests in flight on each queue.
    pub depths: PerScale<Vec<u32>>,
    /// Threads, a queue each; the papers' jobs.
    pub threads: PerScale<Vec<usize>>,
    /// Drives the threads are spread over; a drive for each thread if `None`.
    pub drives: PerScale<Vec<Drives>>,
    /// Processors that every thread, the kernel's submission threads among them, has to make do with.
    pub cores: PerScale<Vec<Cores>>,
}

/// A path by the name a study has for it: the name that the paper's figures have.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedPath {
    /// The study's name for it.
    pub name: String,
    /// The path.
    pub path: iolane::IoPath,
}

/// How many drives an arm uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drives {
    /// So many.
    Count(usize),
    /// One for each thread.
    PerThread,
}

/// What is measured of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    BytesPerS,
    /// Mean latency in nanoseconds.
    MeanNs,
    /// Median latency in nanoseconds.
    P50Ns,
    /// 99th percentile of latency in nanoseconds.
    P99Ns,
    /// Median time to hand a batch over, in nanoseconds.
    SubmitP50Ns,
    /// System calls per I/O.
    SyscallsPerIo,
    /// Context switches per I/O.
    ContextSwitchesPerIo,
    /// Interrupts of the targets' devices per I/O.
    InterruptsPerIo,
    /// Processor seconds per second, kernel threads included.
    Cores,
    /// Processor seconds per million I/Os, kernel threads included.
    CpuSPerMillionIos,
    /// Share of cache references that missed.
    CacheMissRate,
    /// Processor cycles per I/O.
    CyclesPerIo,
    /// Instructions per I/O.
    InstructionsPerIo,
    /// I/Os per joule, of all that the meter sees.
    IosPerJoule,
    /// I/Os per joule beyond what the idle machine takes.
    IosPerJouleAboveIdle,
    /// Watts of all that the meter sees.
    Watts,
    /// Watts beyond those of the idle machine.
    WattsAboveIdle,
}

impl Metric {
    /// Whether it is made from joules, which not every machine has.
    pub fn is_of_joules(self) -> bool {
        matches!(self, Self::IosPerJoule | Self::IosPerJouleAboveIdle | Self::Watts | Self::WattsAboveIdle)
    }
}

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// The path, by the study's name for it.
    Path,
    /// Reads or writes.
    Rw,
    /// Block size in bytes.
    Bs,
    /// Requests in flight on each queue.
    Depth,
    /// Threads.
    Threads,
    /// Drives.
    Drives,
    /// Processors.
    Cores,
}

/// Something to draw: one metric along one factor, a line for each path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its number where it was published.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The arms it shows.
    #[serde(default, rename = "where")]
    pub select: Selection,
    /// What lies along it.
    pub x: Factor,
    /// What it shows of them.
    pub y: Metric,
    /// Where the publication draws one metric against another: what lies along the figure in place of the factor, which
    /// then orders the points of a line.
    #[serde(default)]
    pub against: Option<Metric>,
    /// How values are spaced along it.
    #[serde(default)]
    pub x_scale: AxisScale,
    /// How they are spaced upwards.
    #[serde(default)]
    pub y_scale: AxisScale,
    /// Points that the text of the publication gives.
    #[serde(default)]
    pub published: Vec<PublishedPoint>,
}

/// How values are spaced along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisScale {
    /// By their differences.
    #[default]
    Linear,
    /// By their ratios.
    Log,
}

/// A point of a published figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPoint {
    /// The study's name for the path.
    pub path: String,
    /// Where, along the figure's factor; without meaning, and left out, where that is the path.
    #[serde(default)]
    pub x: f64,
    /// The value, in the metric's unit.
    pub y: f64,
    /// In a figure of one metric against another: that other's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<f64>,
}

/// A published claim, and the rule that decides whether it holds here.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name: S1, B2 and so on.
    pub id: String,
    /// The claim, in a line.
    pub says: String,
    /// The published figures, in a line.
    pub published: String,
    /// Why figures here may differ for another reason than the claim's failing; empty if nothing is known.
    #[serde(default)]
    pub differs: String,
    /// All of them have to hold.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
}

/// One thing that a claim rests on.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "file::CheckFile")]
pub struct Check {
    /// What is looked at, in a line.
    pub says: String,
    /// What is worked out.
    pub rule: Rule,
    /// The least it may be.
    pub at_least: Option<f64>,
    /// The most it may be.
    pub at_most: Option<f64>,
    /// The published figure for it.
    pub published: Option<f64>,
}

/// What a check works out, with its interval; then it is set beside the check's bounds.
#[derive(Debug, Clone)]
pub enum Rule {
    /// A metric of one operand over that of another, paired by repeat.
    Ratio {
        /// The metric of both.
        metric: Metric,
        /// Above the line.
        of: Operand,
        /// Below it.
        to: Operand,
        /// Worked out for each value of this factor apart, with the same value in both operands.
        each: Option<Factor>,
        /// The share of those values at which it must be within its bounds; all of them if not given.
        share: Option<f64>,
    },
    /// A metric itself.
    Value {
        /// The metric.
        metric: Metric,
        /// Of what.
        of: Operand,
        /// As for a ratio.
        each: Option<Factor>,
        /// As for a ratio.
        share: Option<f64>,
    },
    /// How well the order of the paths agrees with the published one: Kendall's rank correlation, -1 to 1.
    Order {
        /// What they are ordered by.
        metric: Metric,
        /// Which arms; one for each path.
        of: Selection,
        /// The published value of each path, by the study's name for it.
        published_order: Vec<PublishedValue>,
    },
    /// Where along a factor one operand falls below another.
    Crossing {
        /// What of them.
        metric: Metric,
        /// What is above at first.
        of: Operand,
        /// What it falls below.
        to: Operand,
        /// Along which factor.
        along: Factor,
    },
}

/// A published value of a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// The study's name for it.
    pub path: String,
    /// In the metric's unit, or any other that orders the same way.
    pub value: f64,
}

/// Arms, and which of them stands for all.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    /// The arms.
    #[serde(rename = "where")]
    pub select: Selection,
    /// Which of them, in each repeat.
    #[serde(default)]
    pub take: Take,
}

/// Which arm of several stands for all, repeat by repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// There is but one.
    #[default]
    Only,
    /// The one with the largest value.
    Largest,
    /// The one with the smallest.
    Smallest,
}
