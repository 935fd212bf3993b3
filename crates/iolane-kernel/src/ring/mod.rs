//! The parts that `io_uring` and `io_uring_cmd` share: the flags a ring is set up with, registered files and buffers, and the
//! queue. How a request becomes an entry is up to the implementation of `Encode`.

pub(crate) mod calls;
mod cancelled;
mod encode;
mod flags;
mod probe;
mod queue;
mod registered_buffers;
mod registered_ring;
pub(crate) mod ring_target;
mod setup;
mod shared_thread;

pub(crate) use encode::{Encode, REGISTERED_BYTES_MAX, RingFile};
pub(crate) use flags::{SetupFlags, build_hybrid, validate};
pub(crate) use probe::probe;
pub(crate) use queue::{Moves, RingQueue, Stays};
