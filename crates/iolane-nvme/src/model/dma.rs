//! How the model reaches the driver's memory: through live mappings, at addresses of its own, and not otherwise. What the
//! driver lets it do beyond them is noted as a violation and never done.

use std::ptr::NonNull;

use crate::memory::PAGE_BYTES;

/// Where the addresses begin that the model gives out: no pointer of a process looks so, and a driver that hands over the
/// one for the other is found out.
const ADDRESS_MIN: u64 = 1 << 32;

/// Violations kept; a driver that does one wrong thing does it again with every command.
const VIOLATIONS_MAX: usize = 64;

struct Mapping {
    address: u64,
    bytes: u64,
    base: NonNull<u8>,
}

// SAFETY: it is a pointer and two numbers; `Transport::map` says who may access what it points to.
unsafe impl Send for Mapping {}

/// The driver's memory, as the controller sees it.
pub(super) struct Dma {
    /// In order of address, which is the order in which they were made: no address is given out twice.
    mappings: Vec<Mapping>,
    next_address: u64,
    /// The index of the mapping that was accessed last, likely the next one, too.
    last: usize,
    /// Changes with every unmapping: what was found before it must be looked up again.
    generation: u64,
    violations: Vec<String>,
    pub(super) bus_master: bool,
}

impl Dma {
    pub(super) fn new() -> Self {
        Self {
            mappings: Vec::new(),
            next_address: ADDRESS_MIN,
            last: 0,
            generation: 0,
            violations: Vec::new(),
            bus_master: false,
        }
    }

    /// Gives `bytes` at `base` an address, with a gap behind it that belongs to nothing.
    pub(super) fn map(&mut self, base: NonNull<u8>, bytes: usize) -> u64 {
        let address = self.next_address;
        self.next_address += bytes.next_multiple_of(PAGE_BYTES) as u64 + PAGE_BYTES as u64;
        self.mappings.push(Mapping { address, bytes: bytes as u64, base });
        address
    }

    /// Takes a mapping back; false if there is none of this address and length.
    pub(super) fn unmap(&mut self, address: u64, bytes: usize) -> bool {
        let found =
            self.mappings.iter().position(|mapping| mapping.address == address && mapping.bytes == bytes as u64);
        if let Some(index) = found {
            self.mappings.remove(index);
            self.last = 0;
            self.generation += 1;
        }
        found.is_some()
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Mappings that live.
    pub(super) fn mappings(&self) -> usize {
        self.mappings.len()
    }

    /// Where in the process `address .. address + bytes` is, if one live mapping holds all of it.
    #[inline]
    pub(super) fn find(&mut self, address: u64, bytes: usize) -> Option<NonNull<u8>> {
        let holds = |mapping: &Mapping| {
            let offset = address.checked_sub(mapping.address)?;
            let room = mapping.bytes.checked_sub(offset)?;
            // SAFETY: the offset lies within the mapping, or at its end.
            (bytes as u64 <= room).then(|| unsafe { mapping.base.add(offset as usize) })
        };
        if let Some(found) = self.mappings.get(self.last).and_then(holds) {
            return Some(found);
        }
        let index = self.mappings.partition_point(|mapping| mapping.address <= address).checked_sub(1)?;
        let found = holds(&self.mappings[index])?;
        self.last = index;
        Some(found)
    }

    /// Notes what the driver did against the rules.
    #[cold]
    pub(super) fn violation(&mut self, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(text);
        }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.clone()
    }
}
