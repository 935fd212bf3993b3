//! Keeps a guest's kernel from changing its own code while commands run. Process 1 calls it in guests that boot with one
//! processor running (`maxcpus=1`): what would be patched later is switched on first, for the guest's whole life, and only
//! then the other processors start. It opens things and reads nothing from them.
//!
//! QEMU's translator with a thread for each processor can keep the translation of a breakpoint (`int3`) that one processor
//! writes into the kernel's code for the time of a patch, and another one translates meanwhile. That processor then meets the
//! breakpoint when the kernel has forgotten it, and the kernel dies or hangs.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use perf_event::events::{Software, Tracepoint};
use perf_event::{Builder, Counter};
use rustix::io_uring::{io_uring_params, io_uring_setup};

use crate::files;

const PROCESSORS: &str = "/sys/devices/system/cpu";
const SYSTEM_CALL_TRACEPOINT: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";

/// What is switched on as long as this exists. A part that this kernel lacks is never patched either.
pub(crate) struct Held {
    _task_event: Option<Counter>,
    _tracepoint: Option<Counter>,
    _ring: Option<OwnedFd>,
}

/// Names of the processors that have not started.
pub(crate) fn waiting_processors() -> Vec<String> {
    let is_offline = |name: &String| {
        let state = fs::read_to_string(Path::new(PROCESSORS).join(name).join("online"));
        state.is_ok_and(|state| state.trim() == "0")
    };
    let entries = files::list(Path::new(PROCESSORS));
    let names = entries.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    names.filter(is_offline).collect()
}

/// Starts the processor of that name.
pub(crate) fn start_processor(name: &str) -> std::io::Result<()> {
    fs::write(Path::new(PROCESSORS).join(name).join("online"), "1")
}

impl Held {
    pub(crate) fn new() -> Self {
        Self {
            // Patched when the first event that counts for a task opens, and a second after the last one closed:
            // `perf_sched_events` in kernel/events/core.c, a jump label in the scheduler.
            _task_event: Builder::new(Software::DUMMY).build().ok(),
            _tracepoint: system_call_tracepoint(),
            _ring: ring_with_array(),
        }
    }
}

/// An event on the tracepoint by which runs count system calls. Perf registers one probe for all events of a tracepoint
/// (`perf_trace_event_reg` in kernel/trace/trace_event_perf.c): while this one is open, neither the tracepoint's jump label
/// nor its static call changes. Each system call of the guest takes the kernel's traced entry meanwhile.
fn system_call_tracepoint() -> Option<Counter> {
    let id = fs::read_to_string(SYSTEM_CALL_TRACEPOINT).ok()?.trim().parse().ok()?;
    Builder::new(Tracepoint::with_id(id)).exclude_kernel(false).exclude_hv(false).build().ok()
}

/// A ring with an index array. The first such ring and the end of the last one patch `io_key_has_sqarray` in
/// io_uring/io_uring.c, from Linux 6.15 on.
fn ring_with_array() -> Option<OwnedFd> {
    let mut params = io_uring_params::default();
    // SAFETY: the parameters are a live local, which the kernel reads and fills; with no flags they hold no pointers. The
    // ring is never mapped and carries no request.
    unsafe { io_uring_setup(1, &mut params) }.ok()
}
