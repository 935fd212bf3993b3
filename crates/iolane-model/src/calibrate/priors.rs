//! What is assumed before the fit: costs in the proportions of a kernel of these years and of the size that was observed, and a drive
//! like the fastest that was observed. Each may be wrong by a factor of two or three; observations decide.

use iolane_core::error::Result;

use super::observation::{Known, Observation, Observations};
use crate::{Behaviour, Completion, Drive, Machine, Parameter, PathCosts, Submission};

/// A guess of the logarithm of a number.
#[derive(Debug, Clone)]
pub(super) struct Prior {
    pub(super) parameter: Parameter,
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

/// Costs are within a factor of 2.5, in two cases of three.
const COST: f64 = 0.9;
/// A drive's numbers are within a factor of 3.
pub(super) const DRIVE: f64 = 1.1;
/// An idle core takes from less than a microsecond (C1) to a hundred (C6, or a virtual machine) to wake.
pub(super) const IDLE_EXIT_NS: f64 = 3_000.0;
const IDLE_EXIT_DEVIATION: f64 = 2.0;
/// A ceiling is above what was observed, by an unknown factor.
const CEILING: f64 = 1.0;
/// By which the ceilings of the drive are above what was observed where the fit begins: just above, and out of reach. From each side the
/// fit finds what the other one does not, because a ceiling that is not reached has no slope.
pub(super) const HEADROOMS: [f64; 2] = [1.1, 5.0];
/// By which the ceilings are guessed to be above what was observed.
const HEADROOM: f64 = 2.0;
/// The same of a drive that answers at once, such as null_blk.
const HEADROOM_AT_ONCE: f64 = 1_000.0;
/// The share of the latency that the processor leaves to a drive that answers at once.
const AT_ONCE: f64 = 0.1;

/// The costs of a path, given what was observed of it.
pub(super) fn costs<'a>(behaviour: &Behaviour, observed: impl Iterator<Item = &'a Observation>) -> PathCosts {
    let usual = usual_costs(behaviour);
    let deepest = observed.max_by_key(|observation| observation.depth);
    let per_io = |observation: &Observation| {
        observation.cpu_ns_per_io.or_else(|| observation.iops.map(|iops| 1e9 * observation.threads as f64 / iops))
    };
    let Some(observed) = deepest.and_then(per_io) else { return usual };
    let PathCosts { call_ns, request_ns, interrupt_ns, thread_ns, .. } = usual;
    let scale = observed / (request_ns + thread_ns + (call_ns + interrupt_ns) / 2.0);
    usual.map(|_, cost| cost * scale.clamp(0.2, 5.0))
}

fn usual_costs(behaviour: &Behaviour) -> PathCosts {
    let none = PathCosts::default();
    let interrupts = match behaviour.completion {
        Completion::Interrupt => PathCosts { interrupt_ns: 1_000.0, ..none },
        Completion::Poll => PathCosts { poll_ns: 150.0, ..none },
    };
    match behaviour.submission {
        Submission::Doorbell => PathCosts { request_ns: 500.0, switch_ns: 0.0, ..interrupts },
        Submission::Thread => PathCosts { request_ns: 700.0, thread_ns: 1_500.0, handoff_ns: 200.0, ..interrupts },
        Submission::Call => {
            let waits = if behaviour.blocks { 0.0 } else { 400.0 };
            let switch_ns = if behaviour.completion == Completion::Interrupt { 2_000.0 } else { 0.0 };
            PathCosts { call_ns: 500.0, request_ns: 1_500.0, wait_ns: waits, switch_ns, ..interrupts }
        }
    }
}

/// A drive that could have served what was observed.
pub(super) fn drive(observations: &Observations) -> Drive {
    let all = &observations.observations;
    let Known { read_ns, write_ns, spread, units, iops, bytes_per_s, page_bytes, tags } = observations.known;
    let per_drive = |observation: &Observation| observation.iops.map(|iops| iops / observation.drives as f64);
    let fastest = all.iter().filter_map(per_drive).fold(1_000.0, f64::max);
    let large = all.iter().any(|observation| observation.block_bytes > page_bytes.unwrap_or(4096));
    let most_bytes =
        all.iter().filter_map(|observation| Some(per_drive(observation)? * observation.block_bytes as f64));
    let latency = |reads: bool| {
        let of = |observation: &&Observation| observation.depth == 1 && (observation.reads >= 0.5) == reads;
        // What is left of the latency without the processor's part: little, if the drive answers at once.
        let shortest = |observation: &Observation| {
            let of_iops = || observation.iops.map(|iops| 1e9 * observation.threads as f64 / iops);
            let latency = observation.p50_ns.or_else(of_iops)?;
            Some((latency - observation.cpu_ns_per_io.unwrap_or(0.0)).max(latency / 50.0))
        };
        let shortest = all.iter().filter(of).filter_map(shortest).fold(f64::INFINITY, f64::min);
        if shortest.is_finite() { shortest * 0.8 } else { 80_000.0 }
    };
    let read = read_ns.unwrap_or_else(|| latency(true));
    let headroom = if answers_at_once(all) { HEADROOM_AT_ONCE } else { HEADROOM };
    Drive {
        read_ns: read,
        write_ns: write_ns.unwrap_or_else(|| latency(false)),
        spread: spread.unwrap_or(0.15),
        units: units.unwrap_or((fastest * headroom * read / 1e9).clamp(4.0, 1_000.0)),
        iops: iops.unwrap_or(fastest * headroom),
        write_iops: None,
        // Out of reach, unless large blocks were observed: then the fit begins just above these.
        bytes_per_s: bytes_per_s.unwrap_or(most_bytes.fold(0.0, f64::max) * if large { 1.3 } else { 100.0 }),
        page_bytes: page_bytes.unwrap_or(4096),
        tags: tags.unwrap_or(1023),
    }
}

/// Whether the processor takes all of the latency of one request at a time.
fn answers_at_once(observations: &[Observation]) -> bool {
    let alone = observations.iter().filter(|observation| observation.depth == 1);
    let shares: Vec<f64> = alone.filter_map(|alone| Some(alone.cpu_ns_per_io? / alone.p50_ns?)).collect();
    !shares.is_empty() && shares.iter().all(|share| *share > 1.0 - AT_ONCE)
}

/// Puts the ceilings of a drive, as far as they are not known, this far above what was observed.
pub(super) fn set_headroom(machine: &mut Machine, known: &Known, headroom: f64) {
    if known.iops.is_none() {
        machine.drive.iops *= headroom / HEADROOM;
    }
    if known.units.is_none() {
        machine.drive.units *= headroom / HEADROOM;
    }
}

/// What the fit may change: all costs that the paths have, and what is not known of the drive, as far as something was observed that
/// depends on it.
pub(super) fn priors(machine: &Machine, observations: &Observations) -> Result<Vec<Prior>> {
    let all = &observations.observations;
    let known = &observations.known;
    let reads = all.iter().any(|observation| observation.reads > 0.0);
    let writes = all.iter().any(|observation| observation.reads < 1.0);
    let large = all.iter().any(|observation| observation.block_bytes > machine.drive.page_bytes);
    let of_drive = [
        ("read_ns", reads && known.read_ns.is_none(), DRIVE),
        ("write_ns", writes && known.write_ns.is_none(), DRIVE),
        ("units", known.units.is_none(), DRIVE),
        ("iops", known.iops.is_none(), CEILING),
        ("bytes_per_s", large && known.bytes_per_s.is_none(), CEILING),
    ];
    let of_drive = of_drive.into_iter().filter(|(_, is_free, _)| *is_free);
    let mut priors: Vec<Prior> =
        of_drive.map(|(name, _, deviation)| Parameter::of_drive(name).prior(machine, deviation)).collect();
    let of_processor = observations.processor.numbers().into_iter().filter(|(_, known)| known.is_none());
    priors.extend(of_processor.map(|(name, _)| Parameter::of_processor(name).prior(machine, IDLE_EXIT_DEVIATION)));
    for (path, costs) in &machine.paths {
        let has = costs.numbers().into_iter().filter(|(_, value)| **value > 0.0);
        priors.extend(has.map(|(name, _)| Parameter::of_path(path, name).prior(machine, COST)));
    }
    Ok(priors)
}
