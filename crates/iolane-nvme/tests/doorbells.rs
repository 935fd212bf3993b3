//! Shadow doorbells, with every order in which driver and controller can see each other's writes (loom): a controller that has found nothing
//! more to do, and waits for the register, has the register written after every command that it has not seen.

// The file of the library, with the atomics of loom in place of the processor's.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}
#[allow(dead_code, reason = "counts what the driver reports")]
#[path = "../src/doorbell.rs"]
mod doorbell;

use std::ptr::NonNull;

use atomic::{AtomicU32, Ordering, fence};
use doorbell::{Doorbell, Shadow};
use loom::sync::Arc;
use loom::thread;

/// What driver and controller share.
struct Words {
    register: AtomicU32,
    value: AtomicU32,
    event_index: AtomicU32,
}

impl Words {
    fn new() -> Arc<Self> {
        let word = || AtomicU32::new(0);
        Arc::new(Self { register: word(), value: word(), event_index: word() })
    }
}

/// The driver: hands over this number of commands, one after the other.
fn drive(words: &Words, commands: u32) {
    // SAFETY: the words outlive the doorbell, and are atomics.
    let mut doorbell = unsafe {
        let shadow = Shadow::new(NonNull::from(&words.value), NonNull::from(&words.event_index));
        Doorbell::new(&words.register, Some(shadow))
    };
    (1..=commands).for_each(|index| doorbell.ring(index));
}

/// The controller: takes what it finds, says up to where, looks once more, and then waits for the register. Returns the index that it knows
/// when it waits (NVMe Base Specification 2.0, annex B.5).
fn control(words: &Words) -> u32 {
    let mut known = words.value.load(Ordering::Acquire);
    loop {
        words.event_index.store(known, Ordering::Release);
        fence(Ordering::SeqCst);
        let now = words.value.load(Ordering::Acquire);
        if now == known {
            return known;
        }
        known = now;
    }
}

const COMMANDS: u32 = 2;

#[test]
fn a_controller_that_waits_was_told_of_every_command_that_it_has_not_seen() {
    // More switches between the two than these tell nothing new, and take long.
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(4);
    bounded.check(|| {
        let words = Words::new();
        let shared = words.clone();
        let controller = thread::spawn(move || control(&shared));
        drive(&words, COMMANDS);
        let known = controller.join().unwrap();
        let told = words.register.load(Ordering::Acquire);
        assert!(known == COMMANDS || told > known, "it waits, knows of {known} of {COMMANDS}, and was told {told}");
    });
}
