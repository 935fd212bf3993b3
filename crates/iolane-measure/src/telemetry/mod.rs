//! What a run costs: system calls, processor time, interrupts, hardware counters, clock frequency and memory. The run reads
//! them around its measured phase through [`Watch`]. Nothing here issues I/O to a target or runs on the hot path.
//! `docs/telemetry.md` lists every figure.
//!
//! Rules:
//! - A counter that does not work is [`Unavailable`], with a reason and a remedy. It is never 0.
//! - A counter counts what its documentation says and nothing else: the cost of counting is subtracted exactly, or the
//!   documentation says that it is included.

mod child_calls;
mod counters;
mod cpu;
mod frequency;
mod interrupts;
mod kernel_workers;
mod memory;
mod numa;
mod perf;
mod quota;
mod reading;
mod syscalls;
mod system_use;
mod watch;

pub use child_calls::{CallsAndBytes, ChildCalls, bytes_of};
pub(crate) use counters::Counters;
pub use cpu::{CpuSnapshot, CpuUse, ThreadUse, threads_are_ours_since_5_12};
pub(crate) use interrupts::Interrupts;
pub(crate) use numa::{cpus_of, nodes_of};
pub(crate) use perf::Permission;
pub(crate) use quota::granted_cpus;
pub use quota::limits_on;
pub use reading::{Reading, Sourced, UNAVAILABLE, Unavailable};
pub use syscalls::SyscallCounter;
pub use system_use::{SystemSnapshot, SystemUse};
pub use watch::{RunTelemetry, Watch};
