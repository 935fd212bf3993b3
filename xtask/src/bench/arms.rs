//! What `cargo xtask bench` compares with fio, and the goals.

/// A path that is compared with fio, and how many times fio's requests it should make.
pub(super) struct Arm {
    pub(super) path: &'static str,
    pub(super) depth: u32,
    pub(super) goal_ratio: f64,
}

pub(super) const ARMS: [Arm; 3] = [
    Arm { path: "psync", depth: 1, goal_ratio: 1.08 },
    Arm { path: "libaio", depth: 32, goal_ratio: 2.0 },
    Arm { path: "io_uring", depth: 32, goal_ratio: 1.75 },
];

/// The cost of the engine without a device: `null` completes each request at once.
pub(super) const NULL_DEPTH: u32 = 32;
