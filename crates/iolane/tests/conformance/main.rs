//! The conformance suite: the contract of a queue, checked on every registered path and every target this machine offers.
//! One test is one behaviour; it goes over all pairs of path and target and names each one that fails. What is unavailable
//! here prints a SKIPPED line, and a table at the end counts what passed, was skipped and failed.
//!
//! | variable `IOLANE_CONFORMANCE_...` | |
//! |---|---|
//! | `PATHS=psync,io_uring+sqpoll` | only these paths; an interface's name stands for all of its paths |
//! | `TARGETS="/dev/nvme0n1 /dev/ng0n1"` | adds devices, which are **overwritten** |
//! | `PLACES="file tmpfs"` | of the places that the suite makes itself only these |
//! | `ONLY_NAMED=1` | only those devices: no files, tmpfs, loop devices or simulated devices |
//! | `BRIEF=1` | fewer repetitions, for an emulated machine |
//! | `SOAK=60` | seconds that `soaking` gives each path |
//! | `RECORD=FILE` | at the end writes the table as JSON: `kernel`, `rows` and `failures` |
//! | `SEED=7` | draws other offsets and sizes |
//! | `BUG=lost-write` | makes the interface `broken` one with this bug (`broken/bugs.rs`) |
//! | `SEEN=FILE` | writes what the suite finds on each broken queue |
//!
//! Loop devices, small file systems and a device that can be stopped need root and losetup; without them those parts are
//! skipped.

/// An interface and a scheme that the library does not know.
#[allow(dead_code, reason = "its main")]
#[path = "../../examples/own_backend.rs"]
mod own_backend;

mod bench;
mod broken;
mod content;
mod drive;
mod fixtures;
mod paths;
mod places;
mod report;

mod attaching;
mod cancelling;
mod chaining;
mod deadlines;
mod dropping;
mod ends;
mod errors;
mod full;
mod integrity;
mod leaks;
mod mix;
mod moving;
mod operations;
mod order;
mod proofs;
mod regions;
mod self_test;
mod signals;
mod soaking;
mod syncing;
mod syscall_counter;
mod threads;
mod timeouts;
mod truncating;
mod vectored;
mod waiting;
