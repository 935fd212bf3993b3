//! What a fake kernel has in flight. It reads and writes the memory of requests until they end, as a device does, and remembers how each
//! ended. A request is known by its offset, which the drill gives to one request only.

use std::collections::HashMap;

use super::chance::Chance;

/// What a request does with its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// A sync, or an entry that does nothing.
    Other,
}

/// A request that the kernel has.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) user_data: u64,
    pub(super) kind: Kind,
    /// Its memory: addresses and lengths.
    pub(super) ranges: Vec<(usize, usize)>,
    pub(super) offset: u64,
    /// Ticks until it ends.
    pub(super) ticks: u64,
    /// How it will end: bytes, or an error number below zero.
    pub(super) result: i32,
}

impl Flight {
    fn bytes(&self) -> usize {
        self.ranges.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The bytes that a read of this offset brings, and a write of it stores.
pub(super) fn content(offset: u64) -> impl Iterator<Item = u8> {
    let first = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0usize..).map(move |index| first[index % 8] ^ index as u8)
}

#[derive(Default)]
pub(super) struct Device {
    pub(super) flights: Vec<Flight>,
    /// How requests ended last, by offset, and how often they did.
    outcomes: HashMap<u64, (i32, u32)>,
    /// Share of requests that fail, in percent.
    failing: u64,
    /// Most ticks that a request takes.
    ticks_max: u64,
    /// Reads end with 0 bytes.
    loses_reads: bool,
}

impl Device {
    pub(super) fn new(failing: u64, ticks_max: u64) -> Self {
        Self { failing, ticks_max, ..Self::default() }
    }

    /// A device whose reads end with 0 bytes.
    pub(super) fn losing_reads() -> Self {
        Self { loses_reads: true, ..Self::default() }
    }

    /// Decides how a request ends and when.
    pub(super) fn begin(&mut self, mut flight: Flight, chance: &mut Chance) {
        let bytes = flight.bytes();
        flight.ticks = chance.below(self.ticks_max + 1);
        flight.result = match flight.kind {
            _ if chance.strikes(self.failing) => -libc::EIO,
            Kind::Other => 0,
            Kind::Read if self.loses_reads => 0,
            _ if chance.strikes(self.failing) => chance.below(bytes as u64 + 1) as i32,
            _ => bytes as i32,
        };
        self.flights.push(flight);
    }

    /// Time passes: requests that are due end, in any order, and memory of others changes.
    pub(super) fn tick(&mut self, chance: &mut Chance) -> Vec<Flight> {
        let mut ended = Vec::new();
        let mut index = 0;
        while index < self.flights.len() {
            let flight = &mut self.flights[index];
            if flight.ticks == 0 {
                ended.insert(chance.below(ended.len() as u64 + 1) as usize, self.flights.swap_remove(index));
                continue;
            }
            flight.ticks -= 1;
            if flight.kind == Kind::Read
                && let Some((address, bytes)) = flight.ranges.first()
                && *bytes > 0
            {
                let place = address + chance.below(*bytes as u64) as usize;
                // SAFETY: the request owns the memory, which the queue keeps until the request has ended. A queue that does not
                // fails the drill; the memory stays mapped, because the drill holds the pool.
                unsafe { std::ptr::with_exposed_provenance_mut::<u8>(place).write(0xee) };
            }
            index += 1;
        }
        ended.iter().for_each(|flight| self.end(flight));
        ended
    }

    /// Moves the data of a request that ends.
    pub(super) fn end(&mut self, flight: &Flight) {
        self.note(flight.offset, flight.result);
        let Ok(moved) = usize::try_from(flight.result) else { return };
        let places = flight.ranges.iter().flat_map(|(address, bytes)| *address..address + bytes);
        for (place, byte) in places.zip(content(flight.offset)).take(moved) {
            let place = std::ptr::with_exposed_provenance_mut::<u8>(place);
            match flight.kind {
                // SAFETY: as in `tick`.
                Kind::Read => unsafe { place.write(byte) },
                Kind::Write => {
                    // SAFETY: as in `tick`.
                    let now = unsafe { place.read() };
                    assert_eq!(now, byte, "memory of a write changed while the kernel had it");
                }
                Kind::Other => {}
            }
        }
    }

    /// Remembers how a request ended that never began.
    pub(super) fn note(&mut self, offset: u64, result: i32) {
        let outcome = self.outcomes.entry(offset).or_default();
        *outcome = (result, outcome.1 + 1);
    }

    pub(super) fn outcome(&self, offset: u64) -> Option<(i32, u32)> {
        self.outcomes.get(&offset).copied()
    }

    pub(super) fn has(&self, offset: u64) -> bool {
        self.flights.iter().any(|flight| flight.offset == offset)
    }

    /// Whether a request may still use the byte at this address.
    pub(super) fn uses(&self, address: usize) -> bool {
        let within = |(start, bytes): &(usize, usize)| (*start..start + bytes).contains(&address);
        self.flights.iter().any(|flight| flight.ranges.iter().any(within))
    }
}

/// The memory of a vectored request.
///
/// # Safety
/// `count` vectors at this address can be read.
pub(super) unsafe fn vectors(address: u64, count: usize) -> Vec<(usize, usize)> {
    let first = std::ptr::with_exposed_provenance::<libc::iovec>(address as usize);
    // SAFETY: the caller answers for the vectors.
    let vectors = unsafe { std::slice::from_raw_parts(first, count) };
    vectors.iter().map(|vector| (vector.iov_base.expose_provenance(), vector.iov_len)).collect()
}
