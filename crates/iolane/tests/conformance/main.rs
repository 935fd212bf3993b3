//! The conformance suite: the contract of a queue, checked on every registered path and every target this machine offers.
//! One test is one behaviour; it goes over all pairs of path and target and names each one that fails.
//! What cannot be had here is skipped aloud, and a table at the end says what passed, was skipped and failed.
//!
//! | variable `IOLANE_CONFORMANCE_...` | |
//! |---|---|
//! | `TARGETS="/dev/nvme0n1 /dev/ng0n1"` | adds devices, which are **overwritten** |
//! | `ONLY_NAMED=1` | just these, `sim` and `null`: no files, tmpfs or loop devices |
//! | `BRIEF=1` | fewer repetitions of the same, for an emulated machine |
//! | `RECORD=FILE` | at the end writes what stands in the table as JSON: `kernel`, `rows` and `failures` |
//! | `SEED=7` | draws other offsets and sizes |
//!
//! Root with losetup adds loop devices, small file systems and a device that can be stopped; without them those parts are
//! skipped. For an emulated machine build it with `--profile guest`.

mod bench;
mod content;
mod drive;
mod fixtures;
mod paths;
mod places;
mod report;

mod dropping;
mod ends;
mod errors;
mod full;
mod integrity;
mod leaks;
mod operations;
mod order;
mod proofs;
mod regions;
mod signals;
mod threads;
mod waiting;
