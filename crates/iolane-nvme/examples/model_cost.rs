//! The driver's cost per request, with model controllers that complete at once in the same thread: time to submit and to complete,
//! and doorbell register writes. `cargo xtask bench --nvme` runs it, and once more under callgrind, which counts the instructions of
//! the function `driver`.
//!
//!     model_cost DRIVES DEPTH ROUNDS shadow|registers

use std::sync::Arc;
use std::time::{Duration, Instant};

use iolane_core::{Buffer, Completion, Pages, Pool, Queue, Request};
use iolane_nvme::controller::{Controller, ControllerOptions};
use iolane_nvme::model::{Model, ModelConfig};
use iolane_nvme::queue::{NvmeQueue, NvmeQueueConfig};

const BLOCK_BYTES: usize = 4096;

/// A queue on a model, and its requests.
struct Drive {
    model: Arc<Model>,
    queue: NvmeQueue,
    requests: Vec<Request>,
    completions: Vec<Completion>,
    free: Vec<Buffer>,
    next: u64,
    _pool: Pool,
}

impl Drive {
    fn new(depth: u32, shadow_doorbells: bool) -> iolane_core::Result<Self> {
        let model = Model::new(ModelConfig { moves_data: false, shadow_doorbells: true, ..ModelConfig::default() });
        let options = ControllerOptions { shadow_doorbells, ..ControllerOptions::default() };
        let controller = Controller::start(model.port(), options)?;
        let namespace = controller.namespace(1)?;
        let pool = Pool::new(depth as usize, BLOCK_BYTES, Pages::Base)?;
        let pools = std::slice::from_ref(&pool);
        let config = NvmeQueueConfig { depth, pools, writable: false, interrupts: false, event_fd: false };
        let queue = NvmeQueue::open(&controller, namespace, config)?;
        let free = std::iter::from_fn(|| pool.take()).collect();
        let capacity = depth as usize;
        let (requests, completions) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        Ok(Self { model, queue, requests, completions, free, next: 0, _pool: pool })
    }

    /// Makes requests of all buffers that are free.
    fn prepare(&mut self) {
        while let Some(buffer) = self.free.pop() {
            self.next = self.next.wrapping_add(1);
            self.requests.push(Request::read(self.next, self.next % 1024 * BLOCK_BYTES as u64, buffer));
        }
    }

    fn take_back(&mut self) {
        for completion in self.completions.drain(..) {
            assert_eq!(completion.result, Ok(BLOCK_BYTES as u32));
            self.free.extend(completion.buffer);
        }
    }
}

/// Only the driver's work: callgrind counts the instructions of this function and of the functions it calls.
#[inline(never)]
fn driver(
    queue: &mut NvmeQueue,
    requests: &mut Vec<Request>,
    completions: &mut Vec<Completion>,
) -> iolane_core::Result<usize> {
    queue.turn(requests, 0, completions)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [drives, depth, rounds, doorbells] = arguments.as_slice() else {
        return Err("usage: model_cost DRIVES DEPTH ROUNDS shadow|registers".into());
    };
    let (drives, depth, rounds): (usize, u32, u64) = (drives.parse()?, depth.parse()?, rounds.parse()?);
    let mut drives = (0..drives).map(|_| Drive::new(depth, doorbells == "shadow")).collect::<Result<Vec<_>, _>>()?;
    let (mut spent, mut answered) = (Duration::ZERO, 0u64);
    for _ in 0..rounds {
        for drive in &mut drives {
            drive.prepare();
            let began = Instant::now();
            let at_once = driver(&mut drive.queue, &mut drive.requests, &mut drive.completions)?;
            spent += began.elapsed();
            drive.model.step();
            let began = Instant::now();
            let after = driver(&mut drive.queue, &mut drive.requests, &mut drive.completions)?;
            spent += began.elapsed();
            answered += (at_once + after) as u64;
            drive.take_back();
        }
    }
    let writes: u64 = drives.iter().map(|drive| drive.queue.counts().register_writes).sum();
    println!("requests {answered}");
    println!("ns_per_request {:.2}", spent.as_secs_f64() * 1e9 / answered as f64);
    println!("register_writes_per_request {:.4}", writes as f64 / answered as f64);
    Ok(())
}
