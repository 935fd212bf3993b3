//! Completion entries of a controller that says anything: each request is answered once, its buffer comes back, and the
//! driver never waits longer than its timeouts.
#![no_main]

use std::collections::BTreeSet;

use iolane_core::{Pages, Pool, Queue, Request};
use iolane_nvme::command::{CompletionEntry, Status};
use iolane_nvme::controller::{Controller, ControllerOptions};
use iolane_nvme::model::{Faults, Model, ModelConfig};
use iolane_nvme::queue::{NvmeQueue, NvmeQueueConfig};
use libfuzzer_sys::{arbitrary, fuzz_target};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input {
    depth: u8,
    /// Whether the controller answers by itself, too.
    answers: bool,
    turns: Vec<Turn>,
}

#[derive(Debug, arbitrary::Arbitrary)]
struct Turn {
    requests: u8,
    min: u8,
    entries: Vec<Entry>,
}

#[derive(Debug, arbitrary::Arbitrary)]
struct Entry {
    /// Slot and use of it, so that entries hit commands in flight now and then.
    slot: u8,
    generation: u8,
    /// Bits that are as they should be where 0.
    queue: u16,
    head: u16,
    status: u16,
    phase: bool,
    result: u32,
}

const PAGE_BYTES: u64 = 4096;

fuzz_target!(|input: Input| {
    let depth = u32::from(input.depth % 16) + 1;
    let missing_completion = if input.answers { 0 } else { 1 << 16 };
    let faults = Faults { missing_completion, ..Faults::default() };
    // A step is long, so that what is never answered is soon too old.
    let model = Model::new(ModelConfig { faults, step_ns: 50_000_000, ..ModelConfig::default() });
    let controller =
        Controller::start(model.port(), ControllerOptions::default()).expect("admin commands are answered");
    let namespace = controller.namespace(1).expect("it has one");
    let pool = Pool::new(32, PAGE_BYTES as usize, Pages::Base).expect("memory");
    let pools = std::slice::from_ref(&pool);
    let config = NvmeQueueConfig { depth, pools, writable: true, interrupts: false, event_fd: false };
    let mut queue = NvmeQueue::open(&controller, namespace, config).expect("the first queue");

    let mut tags = BTreeSet::new();
    let mut next_tag = 0;
    for turn in input.turns.iter().take(64) {
        let mut requests = Vec::new();
        while requests.len() < usize::from(turn.requests % 20)
            && let Some(buffer) = pool.take()
        {
            requests.push(Request::read(next_tag, next_tag % 64 * PAGE_BYTES, buffer));
            next_tag += 1;
        }
        let first_tag = next_tag - requests.len() as u64;
        let taken = queue.submit(&mut requests) as u64;
        tags.extend(first_tag..first_tag + taken);
        queue.flush().expect("nothing fails here");
        for entry in turn.entries.iter().take(40) {
            model.post(
                1,
                CompletionEntry {
                    result: entry.result,
                    submission_head: entry.head,
                    submission_queue: entry.queue ^ 1,
                    identifier: u16::from(entry.slot) | u16::from(entry.generation) << 12,
                    status: Status(entry.status),
                    phase: !entry.phase,
                },
            );
        }
        let min = usize::from(turn.min).min(queue.in_flight());
        let mut completions = Vec::new();
        assert!(queue.reap(min, &mut completions).expect("requests fail, the queue does not") >= min);
        for completion in completions {
            assert!(tags.remove(&completion.tag), "{} was answered twice", completion.tag);
            assert!(completion.buffer.is_some());
        }
        assert_eq!(tags.len(), queue.in_flight());
    }
    let mut completions = Vec::new();
    queue.drain(&mut completions).expect("requests fail, the queue does not");
    assert!(completions.iter().all(|completion| tags.remove(&completion.tag)) && tags.is_empty());
    drop(completions);
    assert!(pool.take_frames(0, 32).is_some(), "all buffers are back");
    drop((queue, controller));
    assert_eq!(model.mappings(), 0);
    let touched = model.violations().into_iter().find(|text| text.contains("mapped"));
    assert_eq!(touched, None);
});
