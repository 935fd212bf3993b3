//! The file of a database by the calls of the standard library, past the page cache: whole blocks, in memory that is aligned.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use redb::StorageBackend;

#[derive(Debug)]
pub(super) struct Direct {
    file: File,
    block_bytes: u64,
    /// Held while a block is read, changed and written.
    parts: Mutex<()>,
}

/// No block of a device is larger.
const ALIGN: usize = 4096;

/// Memory for whole blocks.
struct Blocks {
    memory: Vec<u8>,
    begin: usize,
    bytes: usize,
}

impl Blocks {
    fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + ALIGN];
        Self { begin: memory.as_ptr().align_offset(ALIGN), memory, bytes }
    }

    fn slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.bytes]
    }
}

impl Direct {
    /// A file that was opened with O_DIRECT.
    pub(super) fn new(file: File, block_bytes: u32) -> Self {
        Self { file, block_bytes: block_bytes.into(), parts: Mutex::new(()) }
    }

    /// Blocks that cover a range, and where the range is in them.
    fn covering(&self, offset: u64, bytes: usize) -> (u64, Blocks, Range<usize>) {
        let start = offset / self.block_bytes * self.block_bytes;
        let end = (offset + bytes as u64).next_multiple_of(self.block_bytes);
        let within = (offset - start) as usize;
        (start, Blocks::new((end - start) as usize), within..within + bytes)
    }

    /// Reads blocks up to the end of the file: nothing else makes a read of a file short.
    fn read_blocks(&self, start: u64, blocks: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read_at(blocks, start) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl StorageBackend for Direct {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (start, mut blocks, within) = self.covering(offset, out.len());
        if self.read_blocks(start, blocks.slice())? < within.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.copy_from_slice(&blocks.slice()[within]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (start, mut blocks, within) = self.covering(offset, data.len());
        let blocks = blocks.slice();
        let is_part = within != (0..blocks.len());
        let _alone = is_part.then(|| self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        if is_part {
            self.read_blocks(start, blocks)?;
        }
        blocks[within].copy_from_slice(data);
        self.file.write_all_at(blocks, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_block_is_written_without_the_rest_of_it() {
        let file = tempfile::tempfile().unwrap();
        let direct = Direct::new(file, 512);
        direct.write(0, &[1; 2048]).unwrap();
        direct.write(700, &[2; 100]).unwrap();
        let mut read = [0; 200];
        direct.read(650, &mut read).unwrap();
        assert_eq!(read[..50], [1; 50]);
        assert_eq!(read[50..150], [2; 100]);
        assert_eq!(read[150..], [1; 50]);
        assert!(direct.read(2000, &mut read).is_err(), "it is beyond the end");
    }
}
