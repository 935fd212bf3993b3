//! The flags of a ring: those a path names, those that newer kernels add at no cost, and the combinations that no kernel
//! takes. `setup` tries them in turn; nothing here opens a ring but `build_hybrid`.

use std::io;
use std::os::fd::{IntoRawFd, RawFd};

use ::io_uring::{IoUring, cqueue, squeue};
use rustix::io_uring::{IoringSetupFlags, io_uring_params};

use iolane_core::{AutoOptions, CompletionMode, IoPath, PathOptions, QueueConfig, Result, SubmissionMode};

use crate::checks;

/// The most entries a submission ring can have (IORING_MAX_ENTRIES, io_uring/io_uring.h).
const ENTRIES_MAX: u32 = 32_768;

/// Entries of the submission ring per request in flight.
///
/// The kernel's submission thread posts the completions of a batch before it gives the batch's entries back
/// (io_uring/io_uring.c, io_submit_sqes: io_submit_state_end comes before io_commit_sqring). A caller that reaps those and
/// submits as many again finds the ring still full of the first batch, so the ring has room for both. Without the thread, the
/// entries are free again when the call that submits them returns.
pub(super) const fn entries_per_request(path: &IoPath) -> u32 {
    match path.submission {
        SubmissionMode::Sqpoll => 2,
        SubmissionMode::Default => 1,
    }
}

/// Whether a queue of this path can have a descriptor to wait on.
///
/// A polled ring finds completions only when it is entered. A ring with DEFER_TASKRUN holds them back until it is entered, and
/// wakes only those that wait inside that call: poll(2) on its descriptor sleeps on (seen on Linux 6.18).
pub(super) const fn offers_event_fd(path: &IoPath) -> bool {
    !matches!(path.completion, CompletionMode::Iopoll | CompletionMode::Hybrid) && !path.options.defer
}

/// Most requests in flight on a queue of this path.
pub(super) const fn depth_max(path: &IoPath) -> u32 {
    ENTRIES_MAX / entries_per_request(path)
}

/// The flags of io_uring_setup(2) that iolane uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetupFlags {
    pub(crate) iopoll: bool,
    pub(crate) hybrid: bool,
    pub(crate) sqpoll_idle_ms: Option<u32>,
    pub(crate) sqpoll_cpu: Option<u32>,
    pub(crate) attach_to: Option<RawFd>,
    pub(crate) single_issuer: bool,
    pub(crate) defer_taskrun: bool,
    pub(crate) coop_taskrun: bool,
    pub(crate) submit_all: bool,
    pub(crate) no_sqarray: bool,
}

impl SetupFlags {
    /// The io-uring crate's builder with these flags, except `hybrid`, which it lacks.
    pub(crate) fn builder<S: squeue::EntryMarker, C: cqueue::EntryMarker>(&self) -> ::io_uring::Builder<S, C> {
        let mut builder = IoUring::<S, C>::builder();
        // A child of fork would share the rings' memory with us and corrupt them.
        builder.dontfork();
        if self.iopoll {
            builder.setup_iopoll();
        }
        if let Some(idle_ms) = self.sqpoll_idle_ms {
            builder.setup_sqpoll(idle_ms);
        }
        if let Some(cpu) = self.sqpoll_cpu {
            builder.setup_sqpoll_cpu(cpu);
        }
        if let Some(fd) = self.attach_to {
            builder.setup_attach_wq(fd);
        }
        if self.single_issuer {
            builder.setup_single_issuer();
        }
        if self.defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if self.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        // Without the flag, a caller that never blocks does not see that the kernel has deferred work for it.
        if self.defer_taskrun || self.coop_taskrun {
            builder.setup_taskrun_flag();
        }
        if self.submit_all {
            builder.setup_submit_all();
        }
        if self.no_sqarray {
            builder.setup_no_sqarray();
        }
        builder
    }

    /// The flags the path names.
    fn named(path: &IoPath, config: &QueueConfig) -> Self {
        Self {
            iopoll: path.asks_for_polling(),
            hybrid: path.completion == CompletionMode::Hybrid,
            // 0 selects the kernel's default of one second (io_uring_setup(2), sq_thread_idle).
            sqpoll_idle_ms: path.polls_submissions().then_some(path.options.sq_idle_ms.unwrap_or(0)),
            sqpoll_cpu: config.sqpoll_cpu,
            single_issuer: path.options.defer,
            defer_taskrun: path.options.defer,
            coop_taskrun: path.options.coop,
            ..Self::default()
        }
    }

    /// The sets of flags to try, the best first: those named, with the additions of ever older kernels.
    pub(super) fn ladder(path: &IoPath, config: &QueueConfig, moves: bool) -> Vec<Self> {
        let named = Self::named(path, config);
        if path.options.plain {
            return vec![named];
        }
        if moves {
            // Neither one submitter nor completions that wait until the submitter enters the kernel: it may compute meanwhile, or
            // sleep elsewhere.
            let linux_5_18 = Self { submit_all: true, ..named };
            return vec![Self { no_sqarray: true, ..linux_5_18 }, linux_5_18, named];
        }
        // The submission thread runs completions itself, so they cannot be deferred to the caller.
        let own_completions = !path.polls_submissions();
        let linux_5_18 = Self { submit_all: true, ..named };
        let linux_5_19 = Self { coop_taskrun: own_completions, ..linux_5_18 };
        let linux_6_0 = Self { single_issuer: true, ..linux_5_19 };
        let defers = named.defer_taskrun
            || own_completions && !named.coop_taskrun && !(config.event_fd && offers_event_fd(path));
        let linux_6_1 = if defers { Self { coop_taskrun: false, defer_taskrun: true, ..linux_6_0 } } else { linux_6_0 };
        let linux_6_6 = Self { no_sqarray: true, ..linux_6_1 };
        vec![linux_6_6, linux_6_1, linux_6_0, linux_5_19, linux_5_18, named]
    }
}

/// Refuses combinations of modes and options that no kernel takes on a ring.
pub(crate) fn validate(path: &IoPath) -> Result<()> {
    let options = path.options;
    let sqpoll = path.polls_submissions();
    let refuse = |cause: &str| Err(checks::impossible(path, cause));
    checks::only_options(path, PathOptions { getevents: false, auto: AutoOptions::default(), ..options })?;
    if sqpoll && (options.defer || options.coop) {
        return refuse("the submission thread runs the completions; defer and coop are for rings without one");
    }
    if options.defer && options.coop {
        return refuse("defer and coop exclude each other; choose one");
    }
    if !sqpoll && options.share {
        return refuse("share applies to the submission thread, which needs +sqpoll");
    }
    if !sqpoll && options.sq_idle_ms.is_some() {
        return refuse("sqidle applies to the submission thread, which needs +sqpoll");
    }
    Ok(())
}

/// Sets up a ring with HYBRID_IOPOLL (Linux 6.13), which the io-uring crate's builder lacks. The other parameters are taken
/// from a ring that the builder makes without it.
pub(crate) fn build_hybrid(entries: u32, flags: &SetupFlags) -> io::Result<IoUring> {
    const IORING_SETUP_HYBRID_IOPOLL: u32 = 1 << 17;
    let without: IoUring = flags.builder().build(entries)?;
    // SAFETY: both types are the kernel's `struct io_uring_params`, one of them behind a transparent wrapper.
    let mut params =
        unsafe { std::mem::transmute::<::io_uring::Parameters, io_uring_params>(without.params().clone()) };
    drop(without);
    params.flags |= IoringSetupFlags::from_bits_retain(IORING_SETUP_HYBRID_IOPOLL);
    // SAFETY: the kernel reads the flags, and fills in the rest, during the call.
    let fd = unsafe { rustix::io_uring::io_uring_setup(entries, &mut params) }?;
    // SAFETY: the types are the same, as above. The descriptor is new and moves into the ring, with the parameters that
    // the kernel filled in for it.
    unsafe {
        IoUring::from_fd(fd.into_raw_fd(), std::mem::transmute::<io_uring_params, ::io_uring::Parameters>(params))
    }
}
