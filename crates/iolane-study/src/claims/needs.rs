//! What a claim needs of a machine besides its arms: cores of its own for everything that is busy, a drive with a ceiling, writes that
//! reach a medium. A guest of the lab may lack them, which its measurements do not show.

use crate::plan::{Arm, Metric, Need};
use iolane_measure::host::LabMachine;

/// Why the guest cannot carry a claim with these needs; `None` if it can.
pub(super) fn unmet(needs: &[Need], lab: LabMachine) -> Option<String> {
    let unmet = needs.iter().find(|need| match need {
        Need::Ceiling => !lab.drives_have_ceiling,
        Need::Medium => true,
    })?;
    Some(match unmet {
        Need::Ceiling => "the emulated drive has no ceiling; needs a real drive, or `iolane lab run --drive`".into(),
        Need::Medium => "writes to an emulated drive reach no medium; needs a real drive".into(),
    })
}

/// Why a metric of an arm says nothing in this guest: more is busy than the host has processors. Counts do not depend on it, and in exact
/// mode nothing does. `None` if all have their own.
pub(crate) fn shared_cores(arm: &Arm, metric: Metric, lab: LabMachine) -> Option<String> {
    if lab.exact {
        return None;
    }
    let is_count = matches!(
        metric,
        Metric::SyscallsPerIo
            | Metric::InterruptsPerIo
            | Metric::Cores
            | Metric::CacheMissRate
            | Metric::CyclesPerIo
            | Metric::InstructionsPerIo
    );
    let busy = arm.threads_in_all().min(arm.cores.unwrap_or(lab.cpus)).min(lab.cpus);
    // One thread of the host emulates all drives.
    (!is_count && busy + 1 > lab.host_cpus).then(|| {
        format!("{busy} virtual processors share {} cores with the drive; needs {} cores", lab.host_cpus, busy + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: LabMachine = LabMachine { cpus: 2, host_cpus: 2, drives_have_ceiling: false, exact: false };

    #[test]
    fn what_is_busy_needs_a_core_of_its_own_beside_the_drive() {
        let arm = |path: &str, threads: usize, cores: Option<usize>| Arm {
            path: path.parse().unwrap(),
            threads,
            cores,
            ..Arm::of_null("arm")
        };
        for (arm, shares) in [
            (arm("io_uring", 1, None), false),
            (arm("io_uring+sqpoll", 1, Some(1)), false),
            (arm("io_uring+sqpoll", 1, Some(2)), true),
            (arm("psync", 8, None), true),
        ] {
            assert_eq!(shared_cores(&arm, Metric::Iops, LAB).is_some(), shares, "{arm}");
            assert_eq!(shared_cores(&arm, Metric::SyscallsPerIo, LAB), None);
            assert_eq!(shared_cores(&arm, Metric::Iops, LabMachine { exact: true, ..LAB }), None);
            assert_eq!(shared_cores(&arm, Metric::Iops, LabMachine { host_cpus: 3, ..LAB }), None, "{arm}");
        }
        let reason = shared_cores(&arm("io_uring+sqpoll", 1, None), Metric::Iops, LAB).unwrap();
        assert_eq!(reason, "2 virtual processors share 2 cores with the drive; needs 3 cores");
    }

    #[test]
    fn a_claim_about_a_full_drive_or_about_media_needs_one() {
        assert_eq!(unmet(&[], LAB), None);
        assert!(unmet(&[Need::Ceiling], LAB).unwrap().contains("--drive"));
        assert_eq!(unmet(&[Need::Ceiling], LabMachine { drives_have_ceiling: true, ..LAB }), None);
        assert!(
            unmet(&[Need::Medium], LabMachine { drives_have_ceiling: true, ..LAB }).unwrap().contains("real drive")
        );
    }
}
