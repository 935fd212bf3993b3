//! How a guest's instructions are executed. Machines, drives and sessions depend on it.

use std::fmt;

/// How a guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// By the host's processor.
    Kvm,
    /// Translated by QEMU, with a host thread for each processor.
    Tcg,
    /// Translated by QEMU, with one host thread that runs the processors in turn.
    TcgInTurn,
    /// Translated by QEMU, on a clock that advances one nanosecond with every instruction.
    Exact,
}

impl Accelerator {
    /// Whether all of QEMU's threads have to share a processor of the host. With one thread for all processors it leaves out the memory
    /// barriers of the guest's code (of `lock` and `mfence`), although its devices run on another thread. In exact mode they keep one of
    /// their own: the guest's clock goes on while it waits for a device that has to share.
    pub(crate) fn shares_a_processor(self) -> bool {
        self == Self::TcgInTurn
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "KVM",
            Self::Tcg => "TCG",
            Self::TcgInTurn => "TCG, processors in turn",
            Self::Exact => "TCG, 1 ns of virtual time an instruction",
        })
    }
}
