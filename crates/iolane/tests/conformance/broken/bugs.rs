//! The bugs, each with one line that says what it breaks and the check that must see it. What they do is in `faults`.

use iolane::{IoErrorKind, IoPath, Operation, Operations, Request, Target, TargetId};

use super::Kind;
use super::faults::{
    CancelledTwice, Doubled, EarlyRead, Exchanged, Fault, Held, LeakedDescriptor, Lost, Mapped, OnEnd, OnTake, Sound,
    Taken, Torn, WaitsOn, every, whole,
};
use crate::paths::interface_of;

/// A bug of the set.
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    /// What is broken.
    pub(crate) breaks: &'static str,
    /// The place that shows it: `tmpfs`, where no disk and no privilege are needed, if it can.
    pub(crate) place: &'static str,
    /// The check that must fail, whatever others do.
    pub(crate) seen_by: &'static str,
    pub(super) fault: fn(&Target) -> Box<dyn Fault>,
}

/// Those that show on a device, which has its end where it is and no cache that the suite sees.
const ON_DEVICES: [&str; 11] = [
    "lost-write",
    "early-read",
    "doubled",
    "lost-completion",
    "swapped-tags",
    "swapped-data",
    "swapped-buffers",
    "torn-write",
    "displaced-write",
    "hidden-error",
    "cancelled-twice",
];

impl Bug {
    /// Whether it shows on a named device.
    pub(crate) fn shows_on_device(&self) -> bool {
        ON_DEVICES.contains(&self.name)
    }

    /// Why a queue of this path cannot have it, if it cannot.
    pub(super) fn is_impossible(&self, path: &IoPath, operations: Operations) -> Option<String> {
        let needed = match self.name {
            // A path that carries out each request before it takes the next has nothing to exchange or to cancel.
            "swapped-tags" | "swapped-data" | "swapped-buffers" | "cancelled-twice" => {
                return interface_of(path).is_blocking().then(|| format!("{path} has one request at a time"));
            }
            "plain-durable-write" => Operations::DURABLE_WRITE,
            "plain-vectored-durable-write" => Operations::DURABLE_WRITE.with(Operations::VECTORED),
            _ => return None,
        };
        (!operations.contains(needed)).then(|| format!("{path} has no such operation"))
    }
}

const INTEGRITY: &str = "integrity::what_one_path_writes_every_path_reads_back_right";
const LARGE: &str = "order::requests_larger_than_a_command_of_the_device_end_or_are_refused";
const ODD: &str = "ends::odd_requests_end_on_every_path_as_psync_ends_them";
const SHORT_READ: &str = "ends::a_read_across_the_end_is_short_and_one_past_it_brings_nothing";
const OPERATIONS: &str = "operations::operations_that_probe_names_are_carried_out_and_no_others";
const SYNC: &str = "syncing::a_sync_leaves_no_write_in_the_cache";

/// The same queue without a bug, of which every check must say so.
pub(crate) const NO_BUG: Bug =
    Bug { name: "none", breaks: "", place: "tmpfs", seen_by: "", fault: |_| Box::new(Sound) };

/// The set.
pub(crate) const BUGS: &[Bug] = &[
    Bug {
        name: "lost-write",
        breaks: "every 7th write is reported as done and dropped",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| {
            let mut is_due = every(7);
            OnTake::fault(move |asked, request| match asked.kind == Kind::Write && is_due() {
                true => Taken::Done(whole(request)),
                false => Taken::Passed(request),
            })
        },
    },
    Bug {
        name: "early-read",
        breaks: "every 5th read completes before its data is in the buffer",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| Box::new(EarlyRead::default()),
    },
    Bug {
        name: "early-write",
        breaks: "a write completes before it is carried out, with the next write",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |target| Box::new(Held::until(target, |request| matches!(request.operation, Operation::Write(_)))),
    },
    Bug {
        name: "early-sync",
        breaks: "a sync overtakes a write that completed before it",
        place: "tmpfs",
        seen_by: OPERATIONS,
        fault: |target| {
            let is_sync = |request: &Request| matches!(request.operation, Operation::Fsync | Operation::Fdatasync);
            Box::new(Held::until(target, move |request| !is_sync(request)))
        },
    },
    Bug {
        name: "doubled",
        breaks: "every 5th request completes twice",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| Box::new(Doubled(Box::new(every(5)))),
    },
    Bug {
        name: "lost-completion",
        breaks: "every 5th completion is lost, and its request stays in flight",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| Box::new(Lost { is_due: Box::new(every(5)), lost: 0 }),
    },
    Bug {
        name: "swapped-tags",
        breaks: "two requests in flight exchange their tags",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| Exchanged::fault(|_| true, |one, other| std::mem::swap(&mut one.tag, &mut other.tag)),
    },
    Bug {
        name: "swapped-data",
        breaks: "two reads in flight exchange their data",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| {
            Exchanged::fault(
                |asked| asked.kind == Kind::Read,
                |one, other| {
                    if let (Some(one), Some(other)) = (&mut one.buffer, &mut other.buffer) {
                        let both = one.len().min(other.len());
                        one[..both].swap_with_slice(&mut other[..both]);
                    }
                },
            )
        },
    },
    Bug {
        name: "swapped-buffers",
        breaks: "two writes of one length get each other's buffer back",
        place: "tmpfs",
        seen_by: LARGE,
        fault: |_| {
            Exchanged::fault(
                |asked| asked.kind == Kind::Write,
                |one, other| {
                    let bytes = |completion: &iolane::Completion| completion.buffer.as_ref().map(|buffer| buffer.len());
                    if bytes(one) == bytes(other) {
                        std::mem::swap(&mut one.buffer, &mut other.buffer);
                    }
                },
            )
        },
    },
    Bug {
        name: "torn-write",
        breaks: "of every 7th write only the first half is carried out",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| Box::new(Torn::default()),
    },
    Bug {
        name: "displaced-write",
        breaks: "every 7th write goes one block too far",
        place: "tmpfs",
        seen_by: INTEGRITY,
        fault: |_| {
            let mut is_due = every(7);
            OnTake::fault(move |asked, mut request| {
                if asked.kind == Kind::Write && is_due() {
                    request.offset = request.offset.saturating_add(4096);
                }
                Taken::Passed(request)
            })
        },
    },
    Bug {
        name: "file-not-extended",
        breaks: "a write past the end of a file is reported as done and dropped",
        place: "tmpfs",
        seen_by: ODD,
        fault: |target| {
            let end = target.bytes();
            OnTake::fault(move |asked, request| match asked.kind == Kind::Write && request.offset >= end {
                true => Taken::Done(whole(request)),
                false => Taken::Passed(request),
            })
        },
    },
    Bug {
        name: "short-as-whole",
        breaks: "a read across the end is reported as whole",
        place: "tmpfs",
        seen_by: SHORT_READ,
        fault: |_| {
            OnEnd::fault(|asked, result| match result {
                Ok(1..) if asked.kind == Kind::Read => Ok(asked.bytes as u32),
                result => result,
            })
        },
    },
    Bug {
        name: "wrong-short-length",
        breaks: "a read across the end counts whole sectors only",
        place: "tmpfs",
        seen_by: SHORT_READ,
        fault: |_| {
            OnEnd::fault(|asked, result| match result {
                Ok(moved) if asked.kind == Kind::Read && (moved as usize) < asked.bytes => Ok(moved / 512 * 512),
                result => result,
            })
        },
    },
    Bug {
        name: "hidden-error",
        breaks: "a failed read or write is reported as whole",
        place: "tmpfs",
        seen_by: ODD,
        fault: |_| {
            OnEnd::fault(|asked, result| match asked.kind {
                Kind::Other => result,
                _ => Ok(result.unwrap_or(asked.bytes as u32)),
            })
        },
    },
    Bug {
        name: "hidden-media-error",
        breaks: "a read that failed with EIO is reported as whole",
        place: "loop512",
        seen_by: "errors::a_media_error_reaches_the_tags_it_belongs_to_and_no_others",
        fault: |_| {
            OnEnd::fault(|asked, result| match result {
                Err(error) if error.kind() == IoErrorKind::Media => Ok(asked.bytes as u32),
                result => result,
            })
        },
    },
    Bug {
        name: "no-fsync",
        breaks: "fsync does nothing",
        place: "buffered",
        seen_by: SYNC,
        fault: |_| {
            OnTake::fault(|_, request| match request.operation {
                Operation::Fsync => Taken::Done(whole(request)),
                _ => Taken::Passed(request),
            })
        },
    },
    Bug {
        name: "no-fdatasync",
        breaks: "fdatasync does nothing",
        place: "buffered",
        seen_by: SYNC,
        fault: |_| {
            OnTake::fault(|_, request| match request.operation {
                Operation::Fdatasync => Taken::Done(whole(request)),
                _ => Taken::Passed(request),
            })
        },
    },
    Bug {
        name: "no-flush",
        breaks: "fsync of a device does not reach it",
        place: "loop512",
        seen_by: SYNC,
        fault: |_| {
            OnTake::fault(|_, request| match request.operation {
                Operation::Fsync => Taken::Done(whole(request)),
                _ => Taken::Passed(request),
            })
        },
    },
    Bug {
        name: "plain-durable-write",
        breaks: "a durable write is an ordinary one",
        place: "buffered",
        seen_by: "syncing::a_durable_write_is_not_left_in_the_cache",
        fault: |_| {
            passed_as(|operation| match operation {
                Operation::DurableWrite(buffer) => Operation::Write(buffer),
                operation => operation,
            })
        },
    },
    Bug {
        name: "plain-vectored-durable-write",
        breaks: "a durable write of several buffers is an ordinary one",
        place: "buffered",
        seen_by: "syncing::a_durable_write_is_not_left_in_the_cache",
        fault: |_| {
            passed_as(|operation| match operation {
                Operation::DurableWriteVectored(buffers) => Operation::WriteVectored(buffers),
                operation => operation,
            })
        },
    },
    Bug {
        name: "mixed-targets",
        breaks: "requests for the other targets go to the first",
        place: "tmpfs",
        seen_by: "attaching::each_request_reaches_the_target_that_it_names_while_others_come_and_go",
        fault: |_| OnTake::fault(|_, request| Taken::Passed(request.on(TargetId::FIRST))),
    },
    Bug {
        name: "cancelled-twice",
        breaks: "a cancelled request completes a second time",
        place: "tmpfs",
        seen_by: "cancelling::cancelled_requests_complete_once_and_others_as_ever",
        fault: |_| Box::new(CancelledTwice),
    },
    Bug {
        name: "ignored-timeout",
        breaks: "a wait does not end with its timeout, so that no deadline is noticed",
        place: "loop512",
        seen_by: "deadlines::a_request_is_late_while_its_device_is_stopped",
        fault: |_| Box::new(WaitsOn),
    },
    Bug {
        name: "leaked-descriptor",
        breaks: "a dropped queue leaves a descriptor open",
        place: "tmpfs",
        seen_by: "leaks::thousands_of_queues_leave_no_descriptor_mapping_or_thread",
        fault: |target| LeakedDescriptor::of(target),
    },
    Bug {
        name: "mapped-file",
        breaks: "reads through a mapping: SIGBUS when the file is truncated",
        place: "tmpfs",
        seen_by: "truncating::a_file_that_shrinks_under_an_open_queue_ends_its_reads_short",
        fault: |target| Box::new(Mapped::of(target)),
    },
];

/// Passes every operation on as another one.
fn passed_as(change: fn(Operation) -> Operation) -> Box<dyn Fault> {
    OnTake::fault(move |_, request| Taken::Passed(Request { operation: change(request.operation), ..request }))
}
