//! The blocks of one namespace: those written are kept in memory, the others read as zeroes. Called for I/O commands, and by tests
//! that bypass the driver.

use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;

use super::config::NamespaceConfig;

const CHUNK_BYTES: u64 = 4096;

type Chunk = [u8; CHUNK_BYTES as usize];

pub(super) struct Disk {
    pub(super) config: NamespaceConfig,
    chunks: HashMap<u64, Box<Chunk>>,
}

impl Disk {
    pub(super) fn new(config: NamespaceConfig) -> Self {
        Self { config, chunks: HashMap::new() }
    }

    /// Copies `bytes` at `offset` to `memory`.
    ///
    /// # Safety
    /// `memory .. memory + bytes` is mapped, and nothing else accesses it during the call.
    pub(super) unsafe fn read(&self, offset: u64, memory: NonNull<u8>, bytes: usize) {
        for (chunk, range, done) in parts(offset, bytes as u64) {
            // SAFETY: the parts lie within the memory, one after another; only the model accesses a chunk.
            unsafe {
                let to = memory.add(done);
                match self.chunks.get(&chunk) {
                    Some(data) => to.copy_from_nonoverlapping(NonNull::from(&data[range.clone()]).cast(), range.len()),
                    None => to.write_bytes(0, range.len()),
                }
            }
        }
    }

    /// Copies `bytes` from `memory` to `offset`.
    ///
    /// # Safety
    /// `memory .. memory + bytes` is mapped and initialised, and nothing writes it during the call.
    pub(super) unsafe fn write(&mut self, offset: u64, memory: NonNull<u8>, bytes: usize) {
        for (chunk, range, done) in parts(offset, bytes as u64) {
            let data = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; CHUNK_BYTES as usize]));
            let to = NonNull::from(&mut data[range.clone()]).cast::<u8>();
            // SAFETY: as in `read`.
            unsafe { to.copy_from_nonoverlapping(memory.add(done), range.len()) };
        }
    }

    /// Zeroes `bytes` at `offset`. The cost depends only on what was written there.
    pub(super) fn zero(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        let whole = offset.div_ceil(CHUNK_BYTES)..end / CHUNK_BYTES;
        self.chunks.retain(|chunk, _| !whole.contains(chunk));
        let edges = [offset..end.min(whole.start * CHUNK_BYTES), offset.max(whole.end * CHUNK_BYTES)..end];
        for (chunk, range, _) in
            edges.into_iter().flat_map(|edge| parts(edge.start, edge.end.saturating_sub(edge.start)))
        {
            if let Some(data) = self.chunks.get_mut(&chunk) {
                data[range].fill(0);
            }
        }
    }
}

/// Splits `bytes` at `offset` at the borders of chunks: the chunk, the range in it, and the number of bytes before it.
fn parts(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let end = offset + bytes;
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at % CHUNK_BYTES;
        let length = (CHUNK_BYTES - start).min(end - at);
        let part = (at / CHUNK_BYTES, start as usize..(start + length) as usize, (at - offset) as usize);
        at += length;
        (length > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        Zero(u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let write =
            (0..20_000u64, prop::collection::vec(any::<u8>(), 1..9_000)).prop_map(|(at, data)| Step::Write(at, data));
        let zero = (0..20_000u64, 0..12_000u64).prop_map(|(at, bytes)| Step::Zero(at, bytes));
        prop::collection::vec(prop_oneof![write, zero], 1..12)
    }

    proptest! {
        #[test]
        fn a_disk_reads_as_what_was_written_last(steps in steps()) {
            let mut disk = Disk::new(NamespaceConfig { blocks: 64, block_bytes: 512 });
            let mut mirror = vec![0u8; 32_768];
            for step in steps {
                match step {
                    Step::Write(at, data) => {
                        mirror[at as usize..at as usize + data.len()].copy_from_slice(&data);
                        // SAFETY: the bytes of a vector that nothing else uses.
                        unsafe { disk.write(at, NonNull::from(&data[..]).cast(), data.len()) };
                    }
                    Step::Zero(at, bytes) => {
                        mirror[at as usize..(at + bytes) as usize].fill(0);
                        disk.zero(at, bytes);
                    }
                }
            }
            let mut read = vec![1u8; mirror.len()];
            // SAFETY: as above.
            unsafe { disk.read(0, NonNull::from(&mut read[..]).cast(), mirror.len()) };
            prop_assert!(read == mirror);
        }
    }
}
