//! The metrics that figures show and claims are decided by. `rows` computes them from a run, `format` prints them.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Iops,
    BytesPerS,
    /// Mean latency in nanoseconds.
    MeanNs,
    /// Median latency in nanoseconds.
    P50Ns,
    /// 99th percentile of latency in nanoseconds.
    P99Ns,
    /// Median time to submit a batch, in nanoseconds.
    SubmitP50Ns,
    SyscallsPerIo,
    ContextSwitchesPerIo,
    /// Interrupts of the targets' devices per I/O.
    InterruptsPerIo,
    /// CPU seconds per second, kernel threads included.
    Cores,
    /// CPU seconds per million I/Os, kernel threads included.
    CpuSPerMillionIos,
    /// Cache misses over cache references, 0 to 1.
    CacheMissRate,
    CyclesPerIo,
    InstructionsPerIo,
    /// I/Os per joule of everything the meter measures.
    IosPerJoule,
    /// I/Os per joule above the idle power of the machine.
    IosPerJouleAboveIdle,
    /// Power of everything the meter measures.
    Watts,
    /// Power above the idle power of the machine.
    WattsAboveIdle,
}

impl Metric {
    /// Whether it requires joules, which not every machine can measure.
    pub fn is_of_joules(self) -> bool {
        matches!(self, Self::IosPerJoule | Self::IosPerJouleAboveIdle | Self::Watts | Self::WattsAboveIdle)
    }
}
