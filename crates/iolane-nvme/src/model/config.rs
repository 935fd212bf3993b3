//! The configuration of a model controller: its features, its faults, and its counters. Tests and benchmarks write these; there is
//! no behaviour here.

/// The features of a model controller. The default is a drive of 64 MiB without faults.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Namespaces 1, 2, ... in order.
    pub namespaces: Vec<NamespaceConfig>,
    /// The number of I/O queue pairs.
    pub queues_max: u16,
    /// Most entries of an I/O queue (CAP.MQES + 1), 2 to 65536.
    pub queue_entries_max: u32,
    /// The number of interrupt vectors.
    pub vectors: u32,
    /// Most bytes of a transfer are 4096 shifted left by this (MDTS); 0 is no limit.
    pub transfer_pages_log2: u8,
    /// Bytes from one doorbell to the next: 4, 8, 16, ... 131072.
    pub doorbell_stride_bytes: usize,
    /// Whether I/O commands may describe their data by an SGL data block descriptor.
    pub sgl: bool,
    /// Whether it supports Doorbell Buffer Config.
    pub shadow_doorbells: bool,
    /// The number of steps for which it polls a shadow doorbell after the register was written.
    pub shadow_awake_steps: u64,
    /// Whether it has a volatile write cache, which can be disabled.
    pub volatile_write_cache: bool,
    /// The most blocks of an atomic write, 1 or more (AWUPF + 1).
    pub atomic_write_blocks: u16,
    /// Whether reads and writes move data. Otherwise they complete at once, for benchmarks of the driver.
    pub moves_data: bool,
    /// The duration of a step by the model's clock, in nanoseconds. A model with a thread uses the real clock.
    pub step_ns: u64,
    /// Steps from a change of CC.EN to that of CSTS.RDY.
    pub ready_steps: u64,
    /// CAP.TO: the maximum that it reports for this, in units of 500 ms.
    pub ready_timeout_half_seconds: u8,
    /// Overrides the register CAP, whatever the controller does.
    pub capabilities: Option<u64>,
    /// Overrides the register VS.
    pub version: Option<u32>,
    /// Overrides the register CSTS once the controller is ready.
    pub status: Option<u32>,
    /// Overrides the answer to Number of Queues: submission queues less one, completion queues less one in the upper half.
    pub queues_granted: Option<u32>,
    /// Overrides the first bytes of the Identify data of the controller.
    pub identify_controller: Vec<u8>,
    /// Overrides the first bytes of the Identify data of every namespace.
    pub identify_namespace: Vec<u8>,
    /// The faults.
    pub faults: Faults,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            namespaces: vec![NamespaceConfig { blocks: 1 << 17, block_bytes: 512 }],
            queues_max: 16,
            queue_entries_max: 1024,
            vectors: 17,
            transfer_pages_log2: 5,
            doorbell_stride_bytes: 4,
            sgl: false,
            shadow_doorbells: false,
            shadow_awake_steps: 16,
            volatile_write_cache: true,
            atomic_write_blocks: 8,
            moves_data: true,
            step_ns: 100_000,
            ready_steps: 2,
            ready_timeout_half_seconds: 1,
            capabilities: None,
            version: None,
            status: None,
            queues_granted: None,
            identify_controller: Vec::new(),
            identify_namespace: Vec::new(),
            faults: Faults::default(),
        }
    }
}

/// One namespace of a model controller; it reads as zeroes until it is written.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceConfig {
    /// Its size in blocks.
    pub blocks: u64,
    /// Bytes of a block: 512 or 4096.
    pub block_bytes: u32,
}

/// The frequencies of faults, in cases of 65536, drawn from the seed. The same seed and the same commands at the same steps give the
/// same faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The seed of all draws.
    pub seed: u64,
    /// Whether admin commands have faults too; otherwise only I/O commands.
    pub admin: bool,
    /// A completion has the wrong phase.
    pub wrong_phase: u32,
    /// A completion has another command identifier: one that may exist, or an arbitrary one.
    pub wrong_identifier: u32,
    /// A completion is duplicated.
    pub duplicate_completion: u32,
    /// A completion has a submission queue head outside the queue.
    pub wrong_submission_head: u32,
    /// A completion has another submission queue identifier.
    pub wrong_submission_queue: u32,
    /// A command is carried out some steps late, after later ones.
    pub late_completion: u32,
    /// The maximum delay of such a command in steps; 0 means 1.
    pub late_steps_max: u32,
    /// A command never completes; whether it is carried out is drawn too.
    pub missing_completion: u32,
    /// A command is not carried out, and completes with a random failure.
    pub failed_command: u32,
    /// The controller reports a fatal error at a command (CSTS.CFS), and does nothing until it is reset.
    pub fatal: u32,
    /// The device disappears at a command, for good: its registers read as ones.
    pub gone: u32,
    /// CSTS.RDY never follows a change of CC.EN.
    pub stuck_reset: u32,
    /// Abort does nothing, and reports that.
    pub idle_abort: u32,
    /// Identify returns invalid data, in one field or everywhere.
    pub false_identify: u32,
    /// A completion raises no interrupt.
    pub lost_interrupt: u32,
}

/// The counters of a model controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Commands read.
    pub commands: u64,
    /// Writes among them with Force Unit Access.
    pub forced: u64,
    /// Completions written.
    pub completions: u64,
    /// Doorbell register writes seen. Two writes of one doorbell within a step count as one.
    pub doorbells: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// The number of times it became ready.
    pub starts: u64,
    /// Faults that occurred.
    pub faults: u64,
}
