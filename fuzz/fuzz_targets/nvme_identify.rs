//! What a controller says of itself, whatever it says: it is refused, or used within the bounds that it named, and never
//! beyond the driver's own memory.
#![no_main]

use iolane_core::{Pages, Pool, Queue, Request};
use iolane_nvme::controller::{Controller, ControllerOptions};
use iolane_nvme::model::{Model, ModelConfig};
use iolane_nvme::queue::{NvmeQueue, NvmeQueueConfig};
use libfuzzer_sys::{arbitrary, fuzz_target};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input {
    /// Places and bytes by which the structures differ from true ones. All that the driver reads lies in the first 540.
    controller: Vec<(u16, u8)>,
    namespace: Vec<(u16, u8)>,
    sgl: bool,
    shadow_doorbells: bool,
    offset: u64,
    bytes: u16,
}

/// A true structure of the model's with some bytes changed.
fn patched(mut structure: Vec<u8>, patches: &[(u16, u8)]) -> Vec<u8> {
    for (place, byte) in patches {
        let place = usize::from(*place) % structure.len();
        structure[place] = *byte;
    }
    structure
}

fuzz_target!(|input: Input| {
    let mut controller = vec![0; 540];
    (controller[77], controller[512], controller[513], controller[516]) = (5, 0x66, 0x44, 1);
    (controller[257], controller[520], controller[536]) = (input.shadow_doorbells.into(), 12, input.sgl.into());
    let mut namespace = vec![0; 384];
    (namespace[1], namespace[9], namespace[130]) = (16, 16, 9);
    let model = Model::new(ModelConfig {
        identify_controller: patched(controller, &input.controller),
        identify_namespace: patched(namespace, &input.namespace),
        sgl: input.sgl,
        shadow_doorbells: input.shadow_doorbells,
        step_ns: 50_000_000,
        ..ModelConfig::default()
    });
    use_it(&model, &input);
    assert_eq!(model.mappings(), 0);
    let beyond = model.violations().into_iter().find(|text| text.contains("mapped") || text.contains("PRP"));
    assert_eq!(beyond, None);
});

fn use_it(model: &std::sync::Arc<Model>, input: &Input) {
    let Ok(controller) = Controller::start(model.port(), ControllerOptions::default()) else { return };
    assert!(controller.identity().transfer_bytes_max.is_none_or(|bytes| bytes >= 4096));
    let Ok(namespace) = controller.namespace(1) else { return };
    assert!(namespace.block_bytes.is_power_of_two() && (512..=65536).contains(&namespace.block_bytes));
    assert!(namespace.bytes >= u64::from(namespace.block_bytes) && namespace.bytes <= i64::MAX as u64);
    let pool = Pool::new(16, 8192, Pages::Base).expect("memory");
    let pools = std::slice::from_ref(&pool);
    let config = NvmeQueueConfig { depth: 4, pools, writable: true, interrupts: false, event_fd: false };
    let Ok(mut queue) = NvmeQueue::open(&controller, namespace, config) else { return };
    let mut buffer = pool.take_frames(0, 16).expect("nothing is taken yet");
    let _ = buffer.set_len(usize::from(input.bytes) * 512 % (16 * 8192));
    let mut requests = vec![
        Request::read(0, input.offset, buffer),
        Request::discard(1, input.offset, input.bytes.into()),
        Request::write_zeroes(2, input.offset, u64::from(input.bytes) << 9),
        Request::fsync(3),
    ];
    assert_eq!(queue.submit(&mut requests), 4);
    let mut completions = Vec::new();
    queue.drain(&mut completions).expect("requests fail, the queue does not");
    assert_eq!(completions.len(), 4);
}
