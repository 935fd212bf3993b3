//! Faults of a simulated device: their shares, the random numbers that draw them, and how many there were. `sim` asks for each request
//! when it completes.

use iolane_core::Operation;
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
    /// Of reads: those that bring the data with a bit that differs (`altered-read=0.001`). What is stored stays right, and the same read may
    /// bring it later.
    pub altered_read: f64,
    /// Of reads: those that bring as many blocks of another place (`misdirected-read=0.001`). What is stored stays right here, too.
    pub misdirected_read: f64,
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
    /// Reads that brought data with a bit that differs.
    pub altered_reads: u64,
    /// Reads that brought the data of another place.
    pub misdirected_reads: u64,
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
    /// The number decides which bit differs.
    AlteredRead(u64),
    /// The number decides what place it is.
    MisdirectedRead(u64),
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

    /// The fault of a request, if it has one; `writes` if it stores something.
    pub(super) fn draw(&mut self, operation: &Operation, writes: bool) -> Option<Fault> {
        let Faults { error, short, lost, torn, altered, misdirected, altered_read, misdirected_read } = self.faults;
        let number = self.random.next_u64();
        let of_all = [(error, Fault::Error), (short, Fault::Short(number))];
        let of_writes =
            [(lost, Fault::Lost), (torn, Fault::Torn), (altered, Fault::Altered), (misdirected, Fault::Misdirected)];
        let of_reads = [(altered_read, Fault::AlteredRead(number)), (misdirected_read, Fault::MisdirectedRead(number))];
        let of_its_own: &[_] = match operation {
            Operation::Read(_) | Operation::ReadVectored(_) => &of_reads,
            _ if writes => &of_writes,
            _ => &[],
        };
        let mut possible = of_all.iter().chain(of_its_own);
        possible.find(|(share, _)| self.happens(*share)).map(|(_, fault)| *fault)
    }

    /// True for the given share of calls.
    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= share
    }

    /// Counts a fault that a request had.
    pub(super) fn count(&mut self, fault: Fault) {
        let Injected { errors, short, lost, torn, altered, misdirected, altered_reads, misdirected_reads } =
            &mut self.injected;
        *match fault {
            Fault::Error => errors,
            Fault::Short(_) => short,
            Fault::Lost => lost,
            Fault::Torn => torn,
            Fault::Altered => altered,
            Fault::Misdirected => misdirected,
            Fault::AlteredRead(_) => altered_reads,
            Fault::MisdirectedRead(_) => misdirected_reads,
        } += 1;
    }
}
