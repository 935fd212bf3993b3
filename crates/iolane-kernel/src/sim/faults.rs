//! Faults of a simulated device: their shares, the random numbers that draw them, and how many there were. `sim` asks for each request
//! when it completes.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// Shares of requests, from 0 to 1, that do not end as they should. A request has one of them at most.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Of all requests, syncs among them: those that fail with EIO and do nothing (`error=0.001`). The same request may succeed later.
    pub error: f64,
    /// Of reads and writes of two blocks or more: those that move fewer blocks (`short=0.01`). An atomic write does not.
    pub short: f64,
    /// Of writes: those that are acknowledged and not carried out (`lost=0.001`).
    pub lost: f64,
    /// Of writes of two blocks or more: those that are acknowledged and carried out for their first half (`torn=0.001`). An atomic write is
    /// lost instead.
    pub torn: f64,
    /// Of writes: those that are acknowledged and stored with a byte that differs (`altered=0.001`).
    pub altered: f64,
    /// Of writes: those that are acknowledged and stored at another place, right after their own, or before it at the end (`misdirected=0.001`).
    pub misdirected: f64,
}

/// How many requests had a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Injected {
    /// Requests that failed.
    pub errors: u64,
    /// Reads and writes that moved fewer bytes.
    pub short: u64,
    /// Writes that were acknowledged and not carried out.
    pub lost: u64,
    /// Writes that were acknowledged and carried out in part.
    pub torn: u64,
    /// Writes that were acknowledged and stored with a byte that differs.
    pub altered: u64,
    /// Writes that were acknowledged and stored at another place.
    pub misdirected: u64,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Error,
    /// The number decides how much is moved.
    Short(u64),
    Lost,
    Torn,
    Altered,
    Misdirected,
}

/// Draws the faults of a device.
#[derive(Debug)]
pub(super) struct FaultSource {
    pub(super) faults: Faults,
    pub(super) injected: Injected,
    random: Xoshiro256PlusPlus,
}

/// Random numbers of a part of a device. Those of other parts, and those of other seeds, have nothing to do with them.
pub(super) fn random(seed: u64, part: u64) -> Xoshiro256PlusPlus {
    let mixed = SplitMix64::seed_from_u64(seed).next_u64();
    Xoshiro256PlusPlus::seed_from_u64(mixed.wrapping_add(part))
}

impl FaultSource {
    pub(super) fn new(faults: Faults, random: Xoshiro256PlusPlus) -> Self {
        Self { faults, injected: Injected::default(), random }
    }

    /// The fault of a request, if it has one.
    pub(super) fn draw(&mut self, writes: bool) -> Option<Fault> {
        let Faults { error, short, lost, torn, altered, misdirected } = self.faults;
        let cut = self.random.next_u64();
        let shares = [
            (error, Fault::Error),
            (short, Fault::Short(cut)),
            (lost, Fault::Lost),
            (torn, Fault::Torn),
            (altered, Fault::Altered),
            (misdirected, Fault::Misdirected),
        ];
        let possible = if writes { &shares[..] } else { &shares[..2] };
        possible.iter().find(|(share, _)| self.happens(*share)).map(|(_, fault)| *fault)
    }

    /// True for the given share of calls.
    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= share
    }

    /// Counts a fault that a request had.
    pub(super) fn count(&mut self, fault: Fault) {
        let Injected { errors, short, lost, torn, altered, misdirected } = &mut self.injected;
        *match fault {
            Fault::Error => errors,
            Fault::Short(_) => short,
            Fault::Lost => lost,
            Fault::Torn => torn,
            Fault::Altered => altered,
            Fault::Misdirected => misdirected,
        } += 1;
    }
}
