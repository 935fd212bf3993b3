//! The processor's time stamp counter as a clock, where it is reliable. The engine reads it for every request; reading makes no
//! system call.

use std::time::{Duration, Instant};

/// How long the counter is compared with the kernel's clock. Each reading is off by some 30 ns, so the rate is off by 3 ppm.
const CALIBRATION: Duration = Duration::from_millis(20);

/// The counter, and its rate.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    start: u64,
    /// Nanoseconds per tick, times 2^32.
    scale: u64,
}

impl Tsc {
    /// Calibrates the counter, which takes 20 ms; `None` where it is not reliable as a clock.
    ///
    /// It is reliable where the kernel uses it as its clock source: the kernel has then checked that it runs at a constant rate
    /// in every sleep state and is equal on all processors, and monitors it (Documentation/virt/kvm/x86/timekeeping.rst).
    /// The flag in cpuid is missing in many virtual machines.
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

    /// `None`: on this architecture the kernel's clock is used, which needs no system call.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new() -> Option<Self> {
        None
    }

    /// Nanoseconds since it was made.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.ns_of(ticks().wrapping_sub(self.start))
    }

    /// The counter itself, for whoever sums up differences and needs nanoseconds only of the sum.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        ticks()
    }

    /// This number of ticks in nanoseconds.
    #[inline(always)]
    pub fn ns_of(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// The number of ticks in a duration.
    pub fn ticks_in(&self, ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(self.scale.max(1))) as u64
    }
}

#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every 64-bit x86 processor has the instruction. The kernel can forbid it to a process (prctl(2), PR_SET_TSC), but
    // then reading the clock through the vDSO, as `Tsc::new` did, would have failed too.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("there is no `Tsc` on this processor")
}

/// The kernel's time and the counter at the same moment: of 16 pairs, the one read in the shortest time.
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
            println!("SKIPPED the time stamp counter: it is not the kernel's clock source");
            return;
        };
        let (begin, begin_ns) = (Instant::now(), tsc.now_ns());
        std::thread::sleep(Duration::from_millis(50));
        let (wall_ns, tsc_ns) = (begin.elapsed().as_nanos() as f64, (tsc.now_ns() - begin_ns) as f64);
        assert!((tsc_ns / wall_ns - 1.0).abs() < 0.01, "{tsc_ns} ns of {wall_ns}");
    }
}
