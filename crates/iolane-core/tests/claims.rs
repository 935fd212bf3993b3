//! The claims of a pool's frames, with every order in which the steps of a few threads and their view of memory can come (loom): no frame
//! has two holders, a holder sees what the last one wrote, and what is not claimed in the end is free.

// The file of the library, with the atomics of loom in place of the processor's.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}
#[path = "../src/claims.rs"]
mod claims;

use claims::Claims;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Frames with a byte each, whose use by two threads at once loom reports.
struct Pool {
    claims: Claims,
    bytes: Vec<UnsafeCell<u8>>,
}

impl Pool {
    fn new(frames: usize) -> Arc<Self> {
        Arc::new(Self { claims: Claims::new(frames), bytes: (0..frames).map(|_| UnsafeCell::new(0)).collect() })
    }

    fn write(&self, frame: usize) {
        // SAFETY: the caller has claimed the frame; loom checks that this keeps others away.
        self.bytes[frame].with_mut(|byte| unsafe { *byte += 1 });
    }

    /// Claims any frame, uses it and gives it back.
    fn use_any(&self) -> bool {
        let Some(frame) = self.claims.claim_any() else { return false };
        self.write(frame);
        self.claims.release(frame);
        true
    }

    fn use_all(&self) -> bool {
        let frames = self.claims.frames();
        if !self.claims.claim_all(0, frames) {
            return false;
        }
        (0..frames).for_each(|frame| self.write(frame));
        (0..frames).for_each(|frame| self.claims.release(frame));
        true
    }
}

/// Two threads that use a pool, each in its way; whether each got what it wanted. Nothing stays claimed.
fn side_by_side(frames: usize, one: fn(&Pool) -> bool, other: fn(&Pool) -> bool) -> (Arc<Pool>, [bool; 2]) {
    let pool = Pool::new(frames);
    let shared = pool.clone();
    let thread = thread::spawn(move || other(&shared));
    let used = [one(&pool), thread.join().unwrap()];
    assert!(pool.claims.all_free() && !pool.claims.is_claimed(0));
    (pool, used)
}

#[test]
fn a_frame_has_one_holder_who_sees_what_the_last_one_wrote() {
    loom::model(|| {
        let (_, used) = side_by_side(1, Pool::use_any, Pool::use_any);
        assert!(used.contains(&true), "one of them found it free");
    });
}

#[test]
fn enough_frames_for_all_threads_are_enough() {
    loom::model(|| {
        let (_, used) = side_by_side(2, Pool::use_any, Pool::use_any);
        assert_eq!(used, [true, true]);
    });
}

#[test]
fn several_frames_are_claimed_together_or_not_at_all() {
    loom::model(|| {
        let (_, used) = side_by_side(2, Pool::use_any, Pool::use_all);
        assert!(used.contains(&true), "each gave way to the other");
    });
}

#[test]
fn two_that_want_several_frames_leave_none_behind() {
    loom::model(|| {
        let (pool, _) = side_by_side(2, Pool::use_all, Pool::use_all);
        assert!(pool.use_all(), "both are free");
    });
}
