//! A plugin of QEMU that counts the instructions of a guest by their addresses, in the phases that a program in the guest marks
//! (`iolane_core::phase_mark`). `cargo xtask bench --profile` builds it, starts a guest with it, and finds the functions.
//!
//! Its only argument is `out=FILE`. After each phase it appends a line for each block of instructions that was executed, with the
//! block's address in hexadecimal and the instructions executed in it, and the line `end`. A block ends with a jump or a call, so that
//! it belongs to one function.
//!
//! It speaks version 1 of the interface, that of QEMU 7.2 (include/qemu/qemu-plugin.h, docs/devel/tcg-plugins.rst).
//! The guest has one processor: QEMU calls all functions here from the thread that translates and executes.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The version of the interface, which QEMU reads before it calls anything.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU's name")]
pub static qemu_plugin_version: c_int = 1;

/// A block of translated instructions, and an instruction of it: QEMU's, valid during the callback that has them.
type TranslatedBlock = c_void;
type Instruction = c_void;

/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut TranslatedBlock));
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslatedBlock,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const TranslatedBlock) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const TranslatedBlock) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const TranslatedBlock, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
}

/// A block of instructions. QEMU keeps its address for as long as it runs, so that none is ever freed.
struct Block {
    address: u64,
    instructions: u64,
    executed: AtomicU64,
}

struct Profile {
    out: PathBuf,
    blocks: Vec<&'static Block>,
}

static PROFILE: Mutex<Option<Profile>> = Mutex::new(None);

/// Instructions that do nothing, `nopl DISPLACEMENT(%rax,%rax,1)`, with which a program marks the begin and the end of a phase.
const BEGIN: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, b'I', b'O', b'L', 1];
const END: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, b'I', b'O', b'L', 2];

fn with_profile(work: impl FnOnce(&mut Profile)) {
    if let Some(profile) = PROFILE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        work(profile);
    }
}

/// QEMU calls it once, before the guest runs; a value other than 0 ends QEMU.
///
/// # Safety
/// `arguments` has `count` C strings, as QEMU promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let argument = |index: usize| {
        // SAFETY: QEMU passes `count` pointers to C strings, which live until this returns.
        let text = unsafe { CStr::from_ptr(*arguments.add(index)) };
        text.to_str().ok()?.strip_prefix("out=").map(PathBuf::from)
    };
    let Some(out) = (0..count as usize).find_map(argument) else {
        eprintln!("iolane-profiler: say where to write (out=FILE)");
        return 1;
    };
    *PROFILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Profile { out, blocks: Vec::new() });
    // SAFETY: the id is this plugin's, and the callback has the type that QEMU calls.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

/// A block was translated, and will be executed. The same code may be translated again, as another block.
extern "C" fn translated(_id: u64, block: *mut TranslatedBlock) {
    // SAFETY: `block` is valid during this call.
    let (address, instructions) = unsafe { (qemu_plugin_tb_vaddr(block), qemu_plugin_tb_n_insns(block)) };
    let counted: &'static Block =
        Box::leak(Box::new(Block { address, instructions: instructions as u64, executed: AtomicU64::new(0) }));
    with_profile(|profile| profile.blocks.push(counted));
    let data = std::ptr::from_ref(counted).cast_mut().cast();
    // SAFETY: `block` is valid; `data` is never freed, and is what `executed` takes it for.
    unsafe { qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, data) };
    for index in 0..instructions {
        // SAFETY: `block` has that number of instructions, each valid during this call with as many bytes as it says.
        let (instruction, bytes) = unsafe {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let (data, size) = (qemu_plugin_insn_data(instruction), qemu_plugin_insn_size(instruction));
            (instruction, std::slice::from_raw_parts(data, size))
        };
        let callback: extern "C" fn(c_uint, *mut c_void) = match bytes {
            _ if bytes == BEGIN => begun,
            _ if bytes == END => ended,
            _ => continue,
        };
        // SAFETY: the instruction is valid, and the callbacks do not look at their data.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, NO_REGISTERS, std::ptr::null_mut()) };
    }
}

extern "C" fn executed(_processor: c_uint, data: *mut c_void) {
    // SAFETY: `translated` registered this with a `Block` that is never freed, and is shared.
    let block = unsafe { &*data.cast_const().cast::<Block>() };
    block.executed.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn begun(_processor: c_uint, _data: *mut c_void) {
    with_profile(|profile| profile.blocks.iter().for_each(|block| block.executed.store(0, Ordering::Relaxed)));
}

extern "C" fn ended(_processor: c_uint, _data: *mut c_void) {
    with_profile(|profile| {
        let mut lines = String::new();
        for block in &profile.blocks {
            let executed = block.executed.load(Ordering::Relaxed);
            if executed > 0 {
                let _ = writeln!(lines, "{:x} {}", block.address, executed * block.instructions);
            }
        }
        lines += "end\n";
        let opened = OpenOptions::new().append(true).create(true).open(&profile.out);
        if let Err(error) = opened.and_then(|mut file| file.write_all(lines.as_bytes())) {
            eprintln!("iolane-profiler: {}: {error}", profile.out.display());
        }
    });
}
