//! Kernels for tests, below the queues of `ring` and `libaio`. Each is driven by a seed and does what a kernel may do: it takes a part of
//! a batch, is interrupted, has no memory, completes late and in any order, puts its submission thread to sleep or ends it. Some seeds
//! also complete what nobody submitted. `drill` uses a queue at random and checks the contract; nothing here makes a request of the
//! running kernel.
//!
//! A failing seed is printed. `IOLANE_KERNEL_SEED=N IOLANE_KERNEL_SEEDS=1 cargo test -p iolane-kernel fake_kernel` runs it alone.

mod aio;
mod chance;
mod device;
mod drill;
mod lost_wake_ups;
mod ring;
mod ring_memory;
mod tests;
