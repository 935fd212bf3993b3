//! What a model controller is told about itself before it is made: its shape, the faults it has, and what it counts.
//! Tests and benchmarks write these; nothing here does anything.

/// The shape of a model controller. The default is a plain drive of 64 MiB, without faults.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Namespaces 1, 2, ... in order.
    pub namespaces: Vec<NamespaceConfig>,
    /// I/O queue pairs it has.
    pub queues_max: u16,
    /// Most entries of an I/O queue (CAP.MQES + 1), 2 to 65536.
    pub queue_entries_max: u32,
    /// Interrupt vectors it has.
    pub vectors: u32,
    /// Most bytes of a transfer are 4096 shifted left by this (MDTS); 0 is no limit.
    pub transfer_pages_log2: u8,
    /// Bytes from one doorbell to the next: 4, 8, 16, ... 128.
    pub doorbell_stride_bytes: usize,
    /// Whether I/O commands may describe their data by an SGL data block descriptor.
    pub sgl: bool,
    /// Whether it takes Doorbell Buffer Config.
    pub shadow_doorbells: bool,
    /// For how many steps it looks at a shadow doorbell without being told to, once it was told.
    pub shadow_awake_steps: u64,
    /// Whether it has a volatile write cache, which can be turned off.
    pub volatile_write_cache: bool,
    /// Whether reads and writes move data. Without, they are answered at once, for benchmarks of the driver.
    pub moves_data: bool,
    /// What a step takes by the model's clock, in nanoseconds. A model with a thread of its own goes by the real one.
    pub step_ns: u64,
    /// Steps from CC.EN to CSTS.RDY, either way.
    pub ready_steps: u64,
    /// CAP.TO: how long it claims that this takes at most, in units of 500 ms.
    pub ready_timeout_half_seconds: u8,
    /// What Identify answers instead for a controller, from the first byte on, as far as it reaches.
    pub identify_controller: Vec<u8>,
    /// What Identify answers instead for every namespace, from the first byte on, as far as it reaches.
    pub identify_namespace: Vec<u8>,
    /// What goes wrong.
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
            moves_data: true,
            step_ns: 100_000,
            ready_steps: 2,
            ready_timeout_half_seconds: 1,
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

/// What goes wrong, and how often: each as so many cases in 65536, drawn from the seed. With the same seed, and the same
/// commands at the same steps, the same goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Draws everything else.
    pub seed: u64,
    /// Whether admin commands are struck, too; otherwise I/O commands alone.
    pub admin: bool,
    /// A completion has the phase of the round before.
    pub wrong_phase: u32,
    /// A completion names another command: one that may exist, or any number at all.
    pub wrong_identifier: u32,
    /// A completion comes twice.
    pub duplicate_completion: u32,
    /// A completion says that the submission queue was read to a place that it does not have.
    pub wrong_submission_head: u32,
    /// A completion names another submission queue.
    pub wrong_submission_queue: u32,
    /// A command is carried out some steps late, after others that came behind it.
    pub late_completion: u32,
    /// Most steps that such a command is late; 0 is taken as 1.
    pub late_steps_max: u32,
    /// A command is never answered; whether it was carried out is drawn, too.
    pub missing_completion: u32,
    /// A command is not carried out, and answered with any status but success.
    pub failed_command: u32,
    /// The controller reports a fatal error at a command (CSTS.CFS), and answers no more until it is reset.
    pub fatal: u32,
    /// The device is gone at a command, for good: its registers read as ones.
    pub gone: u32,
    /// CSTS.RDY never follows a change of CC.EN.
    pub stuck_reset: u32,
    /// Abort says that it aborted nothing, and aborts nothing.
    pub idle_abort: u32,
    /// Identify answers what cannot be: nonsense in one field, or everywhere.
    pub false_identify: u32,
    /// A completion comes without its interrupt.
    pub lost_interrupt: u32,
}

/// What a model controller has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that it looked.
    pub steps: u64,
    /// Commands that it read.
    pub commands: u64,
    /// Completions that it wrote.
    pub completions: u64,
    /// Doorbell registers found written. Two writes of one doorbell between two looks are one.
    pub doorbells: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Times that it became ready.
    pub starts: u64,
    /// Faults that struck.
    pub faults: u64,
}
