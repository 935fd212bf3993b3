//! What a simulated load came to.

use hdrhistogram::Histogram;

use crate::Power;

/// What a load came to, after its warm-up.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The time that was counted, in nanoseconds.
    pub elapsed_ns: u64,
    /// Requests that completed in it.
    pub ios: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// From the start of a request until its thread has taken its completion, in nanoseconds.
    pub latency: Histogram<u64>,
    /// System calls.
    pub calls: u64,
    /// Times that a thread slept.
    pub switches: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Nanoseconds that threads of the program were on a core.
    pub thread_ns: u64,
    /// Nanoseconds that submission threads were on a core.
    pub kernel_thread_ns: u64,
    /// Nanoseconds that interrupts took.
    pub interrupt_ns: u64,
    /// Nanoseconds of physical cores with one busy hardware thread or more.
    pub busy_core_ns: u64,
    /// Nanoseconds of physical cores with two.
    pub doubly_busy_core_ns: u64,
    /// Events played, warm-up included.
    pub events: u64,
}

impl Outcome {
    /// Requests per second.
    pub fn iops(&self) -> f64 {
        self.per_s(self.ios as f64)
    }

    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_s(self.bytes as f64)
    }

    /// Cores' worth of processor time, of threads, submission threads and interrupts.
    pub fn cores(&self) -> f64 {
        (self.thread_ns + self.kernel_thread_ns + self.interrupt_ns) as f64 / self.elapsed_ns.max(1) as f64
    }

    /// Processor time of each request, in nanoseconds.
    pub fn cpu_ns_per_io(&self) -> f64 {
        self.per_io((self.thread_ns + self.kernel_thread_ns + self.interrupt_ns) as f64)
    }

    /// System calls per request.
    pub fn calls_per_io(&self) -> f64 {
        self.per_io(self.calls as f64)
    }

    /// Times per request that a thread slept.
    pub fn switches_per_io(&self) -> f64 {
        self.per_io(self.switches as f64)
    }

    /// Interrupts per request.
    pub fn interrupts_per_io(&self) -> f64 {
        self.per_io(self.interrupts as f64)
    }

    /// A percentile of the latency, in nanoseconds.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        self.latency.value_at_percentile(percentile)
    }

    /// What the whole machine draws meanwhile, in watts.
    pub fn watts(&self, power: &Power) -> f64 {
        let busy = self.busy_core_ns as f64 / self.elapsed_ns.max(1) as f64;
        let doubly = self.doubly_busy_core_ns as f64 / self.elapsed_ns.max(1) as f64;
        power.idle_w
            + power.core_w * busy
            + power.second_thread_w * doubly
            + power.per_mb_per_s_w * self.bytes_per_s() / 1e6
    }

    fn per_s(&self, count: f64) -> f64 {
        count * 1e9 / self.elapsed_ns.max(1) as f64
    }

    fn per_io(&self, count: f64) -> f64 {
        count / self.ios.max(1) as f64
    }
}
