//! The processor's time stamp counter: whether it can be trusted as a clock, and reading it.
//! For whoever takes the time of every request; it makes no system call after it was made.

use std::time::{Duration, Instant};

/// How long a counter is compared with the kernel's clock. Each comparison is off by some 30 ns, hence the rate by 3 ppm.
const CALIBRATION: Duration = Duration::from_millis(20);

/// The counter, and its rate.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    start: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

impl Tsc {
    /// The counter with its rate, which takes 20 ms to find; `None` where it is no clock.
    ///
    /// It is one where the kernel takes its own time from it: then the kernel has found that it runs evenly, through every
    /// sleep state, and alike on all processors, and watches it (Documentation/virt/kvm/x86/timekeeping.rst; what cpuid
    /// says of it, many virtual machines leave out).
    #[cfg(target_arch = "x86_64")]
    pub fn new() -> Option<Self> {
        let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        if source.ok()?.trim() != "tsc" {
            return None;
        }
        let (begin, start) = reading();
        std::thread::sleep(CALIBRATION);
        let (end, ticks) = reading();
        let scale = ((end - begin).as_nanos() << 32) / u128::from(ticks - start).max(1);
        Some(Self { start, scale: scale.try_into().ok()? })
    }

    /// `None`: on this processor the kernel's clock needs no system call and is all there is.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new() -> Option<Self> {
        None
    }

    /// Nanoseconds since it was made.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        ((u128::from(ticks().wrapping_sub(self.start)) * u128::from(self.scale)) >> 32) as u64
    }
}

#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every 64-bit processor has the instruction. The kernel can forbid it to a process (prctl(2), PR_SET_TSC),
    // which then could not have taken the time through the vDSO either, as `Tsc::new` has done.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("there is no `Tsc` on this processor")
}

/// The kernel's time and the counter at the same moment: the closest together of a few.
#[cfg(target_arch = "x86_64")]
fn reading() -> (Instant, u64) {
    let readings = (0..16).map(|_| {
        let before = ticks();
        let now = Instant::now();
        let after = ticks();
        (after - before, now, before + (after - before) / 2)
    });
    let (_, now, ticks) = readings.min_by_key(|(width, ..)| *width).expect("16 readings");
    (now, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_keeps_pace_with_the_kernels_clock() {
        let Some(tsc) = Tsc::new() else {
            println!("SKIPPED the time stamp counter: the kernel does not take its own time from it");
            return;
        };
        let (begin, begin_ns) = (Instant::now(), tsc.now_ns());
        std::thread::sleep(Duration::from_millis(50));
        let (wall_ns, tsc_ns) = (begin.elapsed().as_nanos() as f64, (tsc.now_ns() - begin_ns) as f64);
        assert!((tsc_ns / wall_ns - 1.0).abs() < 0.01, "{tsc_ns} ns of {wall_ns}");
    }
}
