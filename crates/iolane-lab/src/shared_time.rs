//! Makes the processors of a guest in exact mode share its time evenly. Process 1 calls it before the first command; it lasts as long as
//! the guest.
//!
//! QEMU runs the processors in turn on one thread, and each instruction of any of them is a nanosecond for all: with N processors, each
//! executes an instruction every N nanoseconds. From 8.1 on a turn ends when its processor has executed its share of the instructions that are
//! left until the next timer (accel/tcg/tcg-accel-ops-icount.c, `icount_percpu_budget`). What remains to be done:
//!
//! - Turns are short only if a timer is always near: the interval timer of the PC (PIT) expires every 0.84 us, and is not heard.
//! - A timer that sets itself anew cuts the next turn of the processor that was the last (`qemu_timer_notify_cb` in cpu-target.c or
//!   system/cpu-timers.c). The last one is a spare that never starts.
//! - A processor that sleeps gives its turn away, so that the others would be faster while it sleeps: a thread of the lowest priority keeps
//!   each of them awake.
//! - So does one that executes `PAUSE`, for the rest of the turn. Nothing can be done about that here; docs/lab.md says so.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::{CpuSet, sched_setaffinity};

/// How often a thread that keeps a processor awake spins before it looks for others: some 20 us.
const SPINS: u32 = 5_000;

/// Processors of the machine that the kernel does not see, behind all others.
pub(crate) const SPARE_CPUS: u32 = 1;

/// The words of the kernel's line for this: device registers may be mapped although a driver has them, and the spare stays as it is.
pub(crate) fn kernel_words(cpus: u32) -> String {
    format!("iomem=relaxed nr_cpus={cpus}")
}

/// Begins. Each processor of the guest runs by now.
///
/// # Errors
/// A line that says which step failed.
pub(crate) fn begin(cpus: u32) -> Result<(), String> {
    for cpu in 0..cpus as usize {
        keep_awake(cpu).map_err(|error| format!("keeping processor {cpu} awake: {error}"))?;
    }
    silence_timer().map_err(|error| format!("the interrupt of the PIT: {error}"))?;
    start_timer().map_err(|error| format!("the PIT: {error}"))
}

/// Starts a thread that runs on this processor when nothing else does.
fn keep_awake(cpu: usize) -> io::Result<()> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::Builder::new().name(format!("awake/{cpu}")).spawn(move || {
        // The receiver waits for it.
        let _ = ready.send(stay_on(cpu));
        loop {
            // Not `spin_loop`, which executes PAUSE.
            (0..SPINS).for_each(|spin| _ = std::hint::black_box(spin));
            // Its turn may come beside a thread with work, too. It would last to the scheduler's next tick.
            rustix::thread::sched_yield();
        }
    })?;
    is_ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Moves this thread to a processor, at the lowest priority that there is (SCHED_IDLE, sched(7)).
fn stay_on(cpu: usize) -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus)?;
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are a live local, which the kernel only reads; 0 means this thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Masks the inputs of the I/O APIC to which the PIT is wired, directly (pin 2) and by the older interrupt controller (pin 0). The kernel
/// has another timer by now.
fn silence_timer() -> io::Result<()> {
    // 82093AA I/O APIC, sections 3.1 and 3.2: an index register, a window 16 bytes behind it, and redirection entries from index 16.
    const ADDRESS: u64 = 0xfec0_0000;
    const LENGTH: usize = 4096;
    const WINDOW: usize = 0x10;
    const MASKED: u32 = 1 << 16;
    let memory = File::options().read(true).write(true).open("/dev/mem")?;
    // SAFETY: a new mapping at an address of the kernel's choice, which no Rust object has.
    let registers = unsafe {
        rustix::mm::mmap(
            ptr::null_mut(),
            LENGTH,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &memory,
            ADDRESS,
        )?
    };
    let index = registers.cast::<u32>();
    for pin in [0, 2] {
        // SAFETY: both registers are within the page that was mapped above, are aligned, and are accessed with 32 bits as the device wants it.
        // The kernel sets up an entry only when an interrupt is requested, which nobody does now, so that index and window stay together.
        unsafe {
            index.write_volatile(0x10 + 2 * pin);
            let window = index.byte_add(WINDOW);
            window.write_volatile(window.read_volatile() | MASKED);
        }
    }
    // SAFETY: the mapping of above; no reference to it is left.
    unsafe { rustix::mm::munmap(registers, LENGTH)? };
    Ok(())
}

/// Has the PIT expire as often as it can.
fn start_timer() -> io::Result<()> {
    // 8254, "Programming": counter 0, low then high byte, mode 2 (rate generator), whose smallest count is 2.
    const CONTROL: u64 = 0x43;
    const COUNTER_0: u64 = 0x40;
    let ports = File::options().write(true).open("/dev/port")?;
    for (port, byte) in [(CONTROL, 0x34), (COUNTER_0, 2), (COUNTER_0, 0)] {
        ports.write_all_at(&[byte], port)?;
    }
    Ok(())
}
