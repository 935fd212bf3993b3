//! Marks of a measured phase in the instructions that are executed, for a profiler that sees them: the plugin `iolane-profiler` in a guest.
//! Each is one instruction that does nothing.

/// The measured phase begins.
pub fn begin() {
    mark::<1>();
}

/// The measured phase has ended.
pub fn end() {
    mark::<2>();
}

/// Executes `nopl DISPLACEMENT(%rax,%rax,1)`, whose displacement is "IOL" and a number.
#[inline(never)]
fn mark<const NUMBER: u8>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads no memory and changes no register (Intel SDM, volume 2, NOP).
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x49, 0x4f, 0x4c, {number}",
            number = const NUMBER,
            options(nomem, nostack, preserves_flags)
        );
    }
}
