//! Doorbells beside a reset by another thread, with every order in which the two can see each other's writes (loom): a queue rings no doorbell
//! once the controller has dropped it, and rings again once it was recreated.

// The file of the library, with the atomics of loom in place of the processor's. Two full fences are what the pair of fences there promises.
mod atomic {
    use loom::sync::atomic::fence;
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    pub(crate) fn light_fence() {
        fence(Ordering::SeqCst);
    }
    pub(crate) fn heavy_fence() {
        fence(Ordering::SeqCst);
    }
}
#[allow(dead_code, reason = "counts what the driver reports")]
#[path = "../src/reset_gate.rs"]
mod reset_gate;

use atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use reset_gate::{Gate, Resets};

/// A controller with one queue, as the driver's threads share it.
struct Controller {
    resets: Resets,
    gate: Gate,
    /// Whether the driver has the queue: what the lock of the driver's controller guards.
    is_open: Mutex<bool>,
    /// Whether the device has it.
    has_queue: AtomicU32,
    rung: AtomicU32,
    /// What the device has seen of `rung` when it dropped the queue.
    rung_before_reset: AtomicU32,
}

impl Controller {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            resets: Resets::new(),
            gate: Gate::new(),
            is_open: Mutex::new(true),
            has_queue: AtomicU32::new(1),
            rung: AtomicU32::new(0),
            rung_before_reset: AtomicU32::new(0),
        })
    }

    /// Rings the doorbell, unless it is held back.
    fn ring(&self, known: u32) {
        self.gate.pass(&self.resets, known, || {
            assert_eq!(self.has_queue.load(Ordering::Relaxed), 1, "a doorbell of a queue that the device has not");
            self.rung.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// As `Controller::reset`, by a thread that has no queue.
    fn reset(&self) {
        let is_open = self.is_open.lock().unwrap();
        let before = self.resets.count();
        self.resets.begin(is_open.then_some(&self.gate).into_iter(), || {
            thread::yield_now();
            true
        });
        assert!(!self.resets.is_over_since(before), "the queue would wait for the lock");
        self.rung_before_reset.store(self.rung.load(Ordering::Relaxed), Ordering::Relaxed);
        self.has_queue.store(0, Ordering::Relaxed);
        self.resets.end();
    }

    /// As `Controller::delete_queue_pair`.
    fn delete(&self, known: u32) {
        let mut is_open = self.is_open.lock().unwrap();
        if self.resets.count() == known {
            assert_eq!(
                self.has_queue.load(Ordering::Relaxed),
                1,
                "the device is asked to delete a queue that it has not"
            );
            self.has_queue.store(0, Ordering::Relaxed);
        }
        *is_open = false;
    }

    /// As `Controller::rebuild`. Returns the count of resets.
    fn rebuild(&self) -> u32 {
        let _is_open = self.is_open.lock().unwrap();
        assert_eq!(self.has_queue.load(Ordering::Relaxed), 0, "a queue is recreated that the device has");
        self.has_queue.store(1, Ordering::Relaxed);
        self.resets.count()
    }
}

/// A thread that resets the controller.
fn reset_beside(controller: &Arc<Controller>) -> thread::JoinHandle<()> {
    let controller = controller.clone();
    thread::spawn(move || controller.reset())
}

/// Runs it in every order, but for those with more than a few switches between threads, which tell nothing new, and take long.
fn in_every_order(run: impl Fn() + Sync + Send + 'static) {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(4);
    bounded.check(run);
}

#[test]
fn a_queue_that_flushes_and_is_dropped_beside_a_reset_rings_no_doorbell_after_its_end() {
    in_every_order(|| {
        let controller = Controller::new();
        let resets = reset_beside(&controller);
        controller.ring(0);
        controller.ring(0);
        controller.delete(0);
        resets.join().unwrap();
        assert_eq!((controller.resets.ended(), controller.has_queue.load(Ordering::Relaxed)), (1, 0));
        let rung = |word: &AtomicU32| word.load(Ordering::Relaxed);
        assert_eq!(rung(&controller.rung_before_reset), rung(&controller.rung), "the device has seen each doorbell");
    });
}

#[test]
fn a_doorbell_is_held_back_only_by_a_reset_after_which_the_queue_is_recreated_and_rings() {
    in_every_order(|| {
        let controller = Controller::new();
        let resets = reset_beside(&controller);
        controller.ring(0);
        let mut known = 0;
        if controller.rung.load(Ordering::Relaxed) == 0 {
            while !controller.resets.is_over_since(known) {
                thread::yield_now();
            }
            known = controller.rebuild();
            controller.ring(known);
        }
        assert_eq!(controller.rung.load(Ordering::Relaxed), 1);
        resets.join().unwrap();
        assert_eq!(
            controller.resets.is_over_since(known),
            known == 0,
            "a reset after the doorbell is still to be noticed"
        );
    });
}

#[test]
fn a_queue_is_recreated_after_each_of_two_resets_or_once_after_both() {
    in_every_order(|| {
        let controller = Controller::new();
        let resets = [reset_beside(&controller), reset_beside(&controller)];
        let mut known = 0;
        let mut recreate = || {
            if controller.resets.is_over_since(known) {
                known = controller.rebuild();
                controller.ring(known);
            }
        };
        recreate();
        for reset in resets {
            reset.join().unwrap();
        }
        recreate();
        assert_eq!((controller.resets.ended(), known), (2, 4));
        assert_eq!(controller.has_queue.load(Ordering::Relaxed), 1);
    });
}
