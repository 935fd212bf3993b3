//! An arm's runs as an observation, or why the model cannot play the arm.

use iolane::IoPath;
use iolane::units::CpuList;
use iolane_measure::workload::{OffsetPattern, Workload};
use iolane_model::{Behaviour, Completion, Load, MachineFile, Number, Observation, Submission};

use crate::plan::Arm;

/// The noise of a figure that was measured at least twice: results in a row agree better than those of different days.
const NOISE_MIN: f64 = 0.01;
/// That of a figure that was measured once.
const NOISE_OF_ONE: f64 = 0.03;

/// What the runs of an arm came to.
pub(super) struct Measured {
    /// I/Os per second of each repeat.
    pub(super) iops: Vec<f64>,
    pub(super) p50_ns: Option<f64>,
    pub(super) p99_ns: Option<f64>,
    pub(super) cpu_ns_per_io: Option<f64>,
    /// The CPUs that its threads were pinned to, as a list.
    pub(super) cpus: Option<String>,
    /// The CPUs that its submission threads were pinned to.
    pub(super) sqpoll_cpus: Option<String>,
}

/// Why the model cannot play an arm; `None` if it can.
pub(crate) fn why_not(arm: &Arm) -> Option<String> {
    // Names every field, so that the compiler demands a decision for each new one. Where the data is does not matter, nor what it is.
    let Workload {
        access,
        read_percent: _,
        block_sizes,
        offsets,
        align: _,
        depth: _,
        batch_submit: _,
        batch_complete,
        batch_complete_max: _,
        fsync_every,
        fdatasync_every,
        rate,
        arrivals: _,
        think_us,
        data: _,
        durable,
        verify,
        start: _,
        size: _,
        bytes_max: _,
        seed: _,
    } = &arm.workload;
    if let Some(peer) = &arm.peer {
        return Some(format!("{peer} measured it, whose own costs are not those of iolane"));
    }
    if let Some(application) = arm.application {
        return Some(format!("{application} did it, which computes besides: the model plays requests alone"));
    }
    if let Err(error) = Behaviour::of(&arm.path) {
        return Some(error.cause().to_owned());
    }
    let reasons = [
        (rate.is_some(), "it has a rate: the model plays closed loops"),
        (think_us.is_some(), "it waits between requests, which the model does not"),
        (fsync_every.is_some() || fdatasync_every.is_some(), "it has syncs, which the model does not play"),
        (*durable, "its writes are durable, which the model does not play"),
        (*verify, "it verifies data, which costs processor time that is not the path's"),
        (batch_complete.is_some_and(|min| min > 1), "it waits for several completions, which the model does not"),
        (block_sizes.single().is_none(), "it has several block sizes, and the model one"),
        (!access.is_random(), "it is sequential: the model plays random offsets"),
        (*offsets != OffsetPattern::UNIFORM, "its offsets are skewed: the model spreads them evenly"),
    ];
    reasons.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason.to_owned())
}

/// The observation of an arm that the model can play; `None` if nothing was measured.
pub(super) fn observation(arm: &Arm, measured: &Measured, from: &str) -> Option<Observation> {
    let Workload { block_sizes, depth, batch_submit, batch_complete_max, .. } = &arm.workload;
    let iops = geometric_mean(&measured.iops)?;
    let positive = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    Some(Observation {
        path: arm.path.to_string(),
        threads: arm.threads,
        drives: arm.drives.min(arm.threads).max(1),
        cores: arm.cores.or_else(|| pinned(arm, measured)),
        block_bytes: block_sizes.single()?.into(),
        depth: *depth,
        reads: f64::from(arm.workload.read_percent()) / 100.0,
        batch_submit: *batch_submit,
        batch_complete_max: *batch_complete_max,
        iops: Some(iops),
        p50_ns: positive(measured.p50_ns),
        p99_ns: positive(measured.p99_ns),
        cpu_ns_per_io: positive(measured.cpu_ns_per_io).filter(|_| !spins(&arm.path)),
        noise: noise(&measured.iops),
        from: from.to_owned(),
    })
}

/// The load of an arm on a machine that was calibrated, which gets more cores if the arm asks for more.
///
/// # Errors
/// Why the model cannot play it, or why the machine does not tell how.
pub(crate) fn load(arm: &Arm, machine: &mut MachineFile) -> Result<Load, String> {
    if let Some(why) = why_not(arm) {
        return Err(why);
    }
    let is_known = |number: &Number| !matches!(number, Number::Fitted(fitted) if !fitted.determined);
    let of_no_figure =
        Measured { iops: vec![1.0], p50_ns: None, p99_ns: None, cpu_ns_per_io: None, cpus: None, sqpoll_cpus: None };
    let observation = observation(arm, &of_no_figure, "").ok_or("it has several block sizes")?;
    if !machine.block_bytes.contains(&observation.block_bytes) && !is_known(&machine.drive.bytes_per_s) {
        return Err("no block of this size was measured here".to_owned());
    }
    if observation.reads < 1.0 && !is_known(&machine.drive.write_ns) {
        return Err("no write was measured here".to_owned());
    }
    machine.processor.cores = machine.processor.cores.max(observation.cores.unwrap_or(0));
    observation.load(&machine.best()).map_err(|error| error.to_string())
}

/// Whether a thread is busy whatever it does, so that its processor time tells nothing.
fn spins(path: &IoPath) -> bool {
    Behaviour::of(path).is_ok_and(|of| of.completion == Completion::Poll || of.submission == Submission::Thread)
}

/// The CPUs that its threads share because they were pinned to them. Where each thread has one of its own, they do not limit the arm
/// more than the machine does: `None`.
fn pinned(arm: &Arm, measured: &Measured) -> Option<usize> {
    let lists = match arm.path.polls_submissions() {
        false => vec![measured.cpus.as_ref()?],
        true => vec![measured.cpus.as_ref()?, measured.sqpoll_cpus.as_ref()?],
    };
    let lists = lists.iter().filter_map(|list| list.parse::<CpuList>().ok());
    let cpus: CpuList = lists.flat_map(|list| list.cpus().to_vec()).collect();
    let count = cpus.cpus().len();
    (1..arm.threads_in_all()).contains(&count).then_some(count)
}

/// `None` without values, or if one is not positive.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let all_positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (all_positive && !values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

/// The standard deviation of the logarithms.
fn noise(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return NOISE_OF_ONE;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean) * (log - mean)).sum();
    (squares / (logs.len() - 1) as f64).sqrt().clamp(NOISE_MIN, 2.9)
}

#[cfg(test)]
mod tests {
    use iolane_measure::workload::{Access, BlockSizes};

    use super::*;

    fn arm(path: &str) -> Arm {
        Arm { path: path.parse().unwrap(), ..Arm::of_null(path) }
    }

    fn measured(iops: &[f64]) -> Measured {
        Measured {
            iops: iops.to_vec(),
            p50_ns: Some(80_000.0),
            p99_ns: Some(120_000.0),
            cpu_ns_per_io: Some(4_000.0),
            cpus: None,
            sqpoll_cpus: None,
        }
    }

    #[test]
    fn an_observation_has_the_mean_and_the_noise_of_the_repeats() {
        let found = observation(&arm("psync"), &measured(&[9_000.0, 10_000.0, 11_000.0]), "results/a").unwrap();
        assert!((found.iops.unwrap() - 9_966.6).abs() < 1.0, "{found:?}");
        assert!((found.noise - 0.1003).abs() < 0.001, "{found:?}");
        assert_eq!(found.from, "results/a");
        let once = observation(&arm("psync"), &measured(&[9_000.0]), "").unwrap();
        assert_eq!(once.noise, NOISE_OF_ONE);
        let steady = observation(&arm("psync"), &measured(&[9_000.0, 9_000.1]), "").unwrap();
        assert_eq!(steady.noise, NOISE_MIN);
        assert!(observation(&arm("psync"), &measured(&[]), "").is_none());
    }

    #[test]
    fn cpus_limit_an_arm_only_where_its_threads_share_them() {
        let cores = |path: &str, threads: usize, cpus: &str, sqpoll_cpus: Option<&str>| {
            let arm = Arm { threads, ..arm(path) };
            let sqpoll_cpus = sqpoll_cpus.map(Into::into);
            let measured = Measured { cpus: Some(cpus.into()), sqpoll_cpus, ..measured(&[1_000.0]) };
            observation(&arm, &measured, "").unwrap().cores
        };
        assert_eq!(cores("psync", 1, "1", None), None);
        assert_eq!(cores("psync", 4, "0-1", None), Some(2));
        assert_eq!(cores("io_uring+sqpoll", 2, "0-1", None), None, "the submission threads are anywhere");
        assert_eq!(cores("io_uring+sqpoll", 2, "0-1", Some("1,2")), Some(3), "each CPU counts once");
    }

    #[test]
    fn processor_time_of_a_thread_that_always_spins_is_no_observation() {
        for (path, told) in [
            ("psync", true),
            ("io_uring", true),
            ("io_uring+iopoll", false),
            ("io_uring+sqpoll", false),
            ("nvme", false),
        ] {
            let found = observation(&arm(path), &measured(&[9_000.0]), "").unwrap();
            assert_eq!(found.cpu_ns_per_io.is_some(), told, "{path}");
        }
    }

    #[test]
    fn what_the_model_cannot_play_is_refused_with_the_reason() {
        let with = |change: &dyn Fn(&mut Arm)| {
            let mut arm = arm("io_uring");
            change(&mut arm);
            why_not(&arm)
        };
        assert_eq!(with(&|_| {}), None);
        let mixed: BlockSizes = "4k/50:64k/50".parse().unwrap();
        for (change, says) in [
            (
                &(|arm: &mut Arm| arm.path = "posix_aio".parse().unwrap()) as &dyn Fn(&mut Arm),
                "does not know how it behaves",
            ),
            (&|arm| arm.path = "io_uring+hybrid".parse().unwrap(), "does not know how it behaves"),
            (&|arm| arm.peer = Some("fio".into()), "fio measured it"),
            (&|arm| arm.workload.rate = Some("1k".parse().unwrap()), "it has a rate"),
            (&|arm| arm.workload.fdatasync_every = Some(1), "it has syncs"),
            (&|arm| arm.workload.access = Access::Read, "it is sequential"),
            (&|arm| arm.workload.offsets = "zipf:1.2".parse().unwrap(), "skewed"),
            (&|arm| arm.workload.block_sizes = mixed.clone(), "several block sizes"),
            (&|arm| arm.workload.batch_complete = Some(4), "several completions"),
        ] {
            let why = with(change).unwrap_or_default();
            assert!(why.contains(says), "{says}: {why}");
        }
    }
}
