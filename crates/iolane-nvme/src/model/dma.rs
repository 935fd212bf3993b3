//! The model's access to the driver's memory, only through live mappings and at addresses that the model assigns. Any other access is
//! recorded as a violation and not carried out.

use std::ptr::NonNull;

use crate::memory::PAGE_BYTES;

/// The first address that the model assigns. No pointer of a process has such a value, so that a driver which passes a pointer
/// instead is detected.
const ADDRESS_MIN: u64 = 1 << 32;

/// The number of violations kept, since a faulty driver repeats one with every command.
const VIOLATIONS_MAX: usize = 64;

struct Mapping {
    address: u64,
    bytes: u64,
    base: NonNull<u8>,
}

// SAFETY: a pointer and two numbers; `Transport::map` defines which accesses through it are sound.
unsafe impl Send for Mapping {}

/// The driver's memory as mapped for the controller.
pub(super) struct Dma {
    /// In the order of addresses, which is that of creation: no address is assigned twice.
    mappings: Vec<Mapping>,
    next_address: u64,
    /// The index of the mapping accessed last, which is likely the next one too.
    last: usize,
    /// Changes with every unmapping, after which addresses must be looked up again.
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

    /// Assigns an address to `bytes` at `base`, followed by an unmapped gap.
    pub(super) fn map(&mut self, base: NonNull<u8>, bytes: usize) -> u64 {
        let address = self.next_address;
        self.next_address += bytes.next_multiple_of(PAGE_BYTES) as u64 + PAGE_BYTES as u64;
        self.mappings.push(Mapping { address, bytes: bytes as u64, base });
        address
    }

    /// Removes a mapping; false if there is none with this address and length.
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

    /// The number of live mappings.
    pub(super) fn mappings(&self) -> usize {
        self.mappings.len()
    }

    /// The location in the process of `address .. address + bytes`, if one live mapping holds all of it.
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

    /// Records a violation by the driver.
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
