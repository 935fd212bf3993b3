//! The data of a simulated device: what a request moves, and where. `sim` calls it when a request completes.

use std::ops::Range;

use iolane_core::{AtomicWrites, Buffer, Buffers, IoError, Operation, Request, Result};

/// The device's block size in bytes.
pub(super) const BLOCK_BYTES: u64 = 512;
/// What it never tears, nor cuts short.
pub(super) const ATOMIC_WRITES: AtomicWrites = AtomicWrites { bytes_min: BLOCK_BYTES, bytes_max: 64 << 10 };

/// Where a request writes; empty for any other request.
pub(super) fn written_range(data: &[u8], request: &Request) -> Range<usize> {
    use Operation::{AtomicWrite, DurableWrite, DurableWriteVectored, Write, WriteVectored};
    if !matches!(
        request.operation,
        Write(_) | DurableWrite(_) | AtomicWrite(_) | WriteVectored(_) | DurableWriteVectored(_)
    ) {
        return 0..0;
    }
    let end = data.len() as u64;
    let bytes = request.operation.bytes() as u64;
    request.offset.min(end) as usize..request.offset.saturating_add(bytes).min(end) as usize
}

/// Moves the data of a request; `moved` maps the bytes available to those that really move.
pub(super) fn transfer(
    data: &mut [u8],
    request: &mut Request,
    writable: bool,
    mut moved: impl FnMut(u64) -> u64,
) -> Result<u32, IoError> {
    let end = data.len() as u64;
    let offset = request.offset;
    let range = |bytes: u64| {
        if !(offset | bytes).is_multiple_of(BLOCK_BYTES) {
            return Err(IoError::INVALID);
        }
        Ok(offset.min(end) as usize..offset.saturating_add(bytes).min(end) as usize)
    };
    if !writable && request.operation.changes_data() {
        return Err(IoError::READ_ONLY);
    }
    match &mut request.operation {
        Operation::Fsync | Operation::Fdatasync => Ok(0),
        Operation::Read(buffer) => {
            let available = range(buffer.len() as u64)?;
            let bytes = moved(available.len() as u64) as usize;
            bring([&mut buffer[..]], &data[available.start..available.start + bytes]);
            Ok(bytes as u32)
        }
        // It has no cache that could lose a write.
        Operation::Write(buffer) | Operation::DurableWrite(buffer) => {
            let available = range(buffer.len() as u64)?;
            if available.is_empty() && !buffer.is_empty() {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            let bytes = moved(available.len() as u64) as usize;
            data[available.start..available.start + bytes].copy_from_slice(&buffer[..bytes]);
            Ok(bytes as u32)
        }
        Operation::AtomicWrite(buffer) => {
            if !ATOMIC_WRITES.allow(offset, buffer.len()) {
                return Err(IoError::INVALID);
            }
            let available = range(buffer.len() as u64)?;
            if available.len() < buffer.len() {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            data[available].copy_from_slice(buffer);
            Ok(buffer.len() as u32)
        }
        Operation::ReadVectored(buffers) => {
            are_whole_blocks(buffers)?;
            let available = range(buffers.bytes() as u64)?;
            let bytes = moved(available.len() as u64) as usize;
            bring(buffers.iter_mut(), &data[available.start..available.start + bytes]);
            Ok(bytes as u32)
        }
        Operation::WriteVectored(buffers) | Operation::DurableWriteVectored(buffers) => {
            are_whole_blocks(buffers)?;
            let available = range(buffers.bytes() as u64)?;
            if available.is_empty() && buffers.bytes() > 0 {
                return Err(IoError::from_errno(libc::ENOSPC));
            }
            let bytes = moved(available.len() as u64) as usize;
            let mut rest = &mut data[available.start..available.start + bytes];
            for buffer in &*buffers {
                let (now, later) = rest.split_at_mut(buffer.len().min(rest.len()));
                now.copy_from_slice(&buffer[..now.len()]);
                rest = later;
            }
            Ok(bytes as u32)
        }
        Operation::Discard { bytes } | Operation::WriteZeroes { bytes } => {
            let available = range(*bytes)?;
            data[available].fill(0);
            Ok(0)
        }
        _ => Err(IoError::NOT_SUPPORTED),
    }
}

/// Copies what is read into the buffers in turn.
fn bring<'a>(buffers: impl IntoIterator<Item = &'a mut [u8]>, data: &[u8]) {
    let mut rest = data;
    for buffer in buffers {
        let (now, later) = rest.split_at(buffer.len().min(rest.len()));
        buffer[..now.len()].copy_from_slice(now);
        rest = later;
    }
}

/// Brings this data to the buffers of a read, instead of what is stored.
pub(super) fn bring_instead(request: &mut Request, data: &[u8]) {
    match &mut request.operation {
        Operation::Read(buffer) => bring([&mut buffer[..]], data),
        Operation::ReadVectored(buffers) => bring(buffers.iter_mut(), data),
        _ => unreachable!("it is no read"),
    }
}

/// Refuses parts of a block within a vectored request. With O_DIRECT the kernels differ in that; this device takes the strict side.
fn are_whole_blocks(buffers: &Buffers) -> Result<(), IoError> {
    let is_whole = |buffer: &Buffer| (buffer.len() as u64).is_multiple_of(BLOCK_BYTES);
    if buffers.iter().all(is_whole) { Ok(()) } else { Err(IoError::INVALID) }
}
