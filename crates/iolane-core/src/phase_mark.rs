//! Marks of a measured phase in the instructions that are executed, for a profiler that sees them: the plugin `iolane-profiler` in a guest.
//! Each is one instruction that does nothing.

/// The measured phase begins.
#[inline(never)]
pub fn begin() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a `nopl` with a displacement, which reads no memory and changes no register (Intel SDM, volume 2, NOP).
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x49, 0x4f, 0x4c, 0x01",
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// The measured phase has ended.
#[inline(never)]
pub fn end() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `begin`.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x49, 0x4f, 0x4c, 0x02",
            options(nomem, nostack, preserves_flags)
        );
    }
}
