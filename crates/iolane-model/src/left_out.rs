//! What the model does not play. Every prediction states it.

/// What is left out, each as a sentence about its effect.
pub const LEFT_OUT: [&str; 10] = [
    "Page cache and buffered I/O: every request reaches the drive.",
    "File systems: what one costs is part of the cost of the path that was measured on it, and its locks are not modelled.",
    "Turbo and power states: a core has the speed at which it was measured, however many others are busy, and wakes in the same time however long it was idle.",
    "NUMA distance: memory and drives of another node cost the same.",
    "Caches: the costs of a request do not grow with depth, threads or data.",
    "Interrupt coalescing: a drive raises an interrupt for each completion, unless the core handles one already.",
    "Garbage collection and write cliffs: a drive writes as fast as when it was measured.",
    "Offsets: requests spread evenly at random; sequential and skewed ones are not modelled.",
    "Other programs: the cores do nothing else.",
    "Network: drives are local.",
];
