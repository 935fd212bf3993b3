//! Test data: bytes derived from an offset, a generation and the check, path and place they are for, so that data at the wrong offset,
//! from an earlier write, or left there by an earlier path is recognised.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};

/// What sets the content of one check on one path apart from that of others on the same place.
static SALT: AtomicU64 = AtomicU64::new(0);

/// From here on content is that of this check, path and place. Tests take turns, so that there is one at a time.
pub(crate) fn begin(check: &str) {
    let mut hasher = DefaultHasher::new();
    check.hash(&mut hasher);
    SALT.store(hasher.finish(), Ordering::Relaxed);
}

/// Fills `bytes`, which stand at `offset` on the target, with the content of a generation.
pub(crate) fn fill(bytes: &mut [u8], offset: u64, generation: u64) {
    let salt = generation.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ SALT.load(Ordering::Relaxed);
    for (index, word) in bytes.chunks_mut(8).enumerate() {
        let mixed = (offset.wrapping_add(8 * index as u64) ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        word.copy_from_slice(&mixed.to_le_bytes()[..word.len()]);
    }
}

/// The content of a generation, as a vector.
pub(crate) fn content(bytes: usize, offset: u64, generation: u64) -> Vec<u8> {
    let mut content = vec![0; bytes];
    fill(&mut content, offset, generation);
    content
}

/// Fails with the first place where the two differ.
pub(crate) fn ensure_same(what: &str, expected: &[u8], got: &[u8]) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    if expected.len() != got.len() {
        bail!("{what}: {} bytes were expected and {} came", expected.len(), got.len());
    }
    let differing: Vec<usize> = (0..got.len()).filter(|index| expected[*index] != got[*index]).collect();
    let first = differing[0];
    let show = |bytes: &[u8]| format!("{:02x?}", &bytes[first..bytes.len().min(first + 8)]);
    bail!(
        "{what}: {} of {} bytes differ, the first at {first}: {} expected, {} found",
        differing.len(),
        got.len(),
        show(expected),
        show(got)
    )
}
