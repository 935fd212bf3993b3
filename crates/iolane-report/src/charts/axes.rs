//! Axes of charts: what a metric or a factor is called, its unit and its ticks.

use iolane_study::plan::{Factor, IOPS, Metric, Percentile, Requests};

use super::chart::{Axis, AxisKind, Line};
use super::load::Load;
use super::unit::Unit;

/// The axis of a numeric factor, with a tick at each measured or published value.
pub(super) fn factor_axis(factor: Factor, kind: AxisKind, series: &[Line]) -> Axis {
    let measured = series.iter().flat_map(|line| &line.points).map(|mark| mark.x);
    let published = series.iter().flat_map(|line| &line.published).map(|point| point.x);
    let mut ticks: Vec<f64> = measured.chain(published).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let unit = if factor == Factor::Bs { Unit::Bytes } else { Unit::Number };
    Axis { label: factor_label(factor).into(), unit, kind, categories: Vec::new(), ticks }
}

pub(super) fn axis(label: &str, unit: Unit, kind: AxisKind) -> Axis {
    Axis { label: label.into(), unit, kind, categories: Vec::new(), ticks: Vec::new() }
}

fn label_of_percentile(requests: Requests, percentile: Percentile) -> String {
    let of = match requests {
        Requests::All => "",
        Requests::Reads => " of reads",
        Requests::Writes => " of writes",
        Requests::Syncs => " of syncs",
        Requests::Commits => " of commits",
    };
    match percentile {
        Percentile::P50 => format!("median latency{of}"),
        Percentile::P99 => format!("99th percentile of latency{of}"),
        percentile => format!("{percentile} of latency{of}"),
    }
}

pub(super) fn metric_axis(metric: Metric) -> Axis {
    let percentile = match metric {
        Metric::LatencyNs(requests, percentile) => Some(label_of_percentile(requests, percentile)),
        _ => None,
    };
    let (label, unit) = match metric {
        Metric::LatencyNs(..) => ("", Unit::Nanoseconds),
        Metric::Iops => ("IOPS", Unit::Count),
        Metric::BytesPerS => ("bandwidth", Unit::BytesPerSecond),
        Metric::MeanNs => ("mean latency", Unit::Nanoseconds),
        Metric::ServiceP50Ns => ("median latency after the start", Unit::Nanoseconds),
        Metric::ServiceP99Ns => ("p99 latency after the start", Unit::Nanoseconds),
        Metric::SubmitP50Ns => ("median time to submit", Unit::Nanoseconds),
        Metric::SyscallsPerIo => ("system calls per I/O", Unit::Number),
        Metric::ContextSwitchesPerIo => ("context switches per I/O", Unit::Number),
        Metric::InterruptsPerIo => ("device interrupts per I/O", Unit::Number),
        Metric::Cores => ("cores used", Unit::Number),
        Metric::CpuSPerMillionIos => ("CPU seconds per million I/Os", Unit::Number),
        Metric::CacheMissRate => ("cache misses per reference", Unit::Share),
        Metric::CyclesPerIo => ("cycles per I/O", Unit::Count),
        Metric::InstructionsPerIo => ("instructions per I/O", Unit::Count),
        Metric::IosPerJoule => ("I/Os per joule", Unit::Count),
        Metric::IosPerJouleAboveIdle => ("I/Os per joule above idle", Unit::Count),
        Metric::Watts => ("watts", Unit::Watts),
        Metric::WattsAboveIdle => ("watts above idle", Unit::Watts),
    };
    axis(percentile.as_deref().unwrap_or(label), unit, AxisKind::Linear)
}

/// The axis of a metric for a load: an application counts operations, not I/Os.
pub(super) fn metric_axis_of(metric: Metric, load: &Load) -> Axis {
    let (axis, rate_unit) = (metric_axis(metric), load.rate_unit());
    let label = match metric {
        Metric::Iops => rate_unit.to_owned(),
        _ if rate_unit == IOPS => return axis,
        _ => axis.label.replace("I/Os", load.things()).replace("I/O", "operation"),
    };
    Axis { label, ..axis }
}

pub(super) fn factor_label(factor: Factor) -> &'static str {
    match factor {
        Factor::Path => "path",
        Factor::Application => "application",
        Factor::Rw => "access",
        Factor::ReadPercent => "reads, percent",
        Factor::Bs => "block size",
        Factor::Offsets => "offsets",
        Factor::Depth => "depth",
        Factor::Rate => "requests per second",
        Factor::BatchSubmit => "requests per submission, at most",
        Factor::BatchComplete => "completions waited for",
        Factor::BatchCompleteMax => "completions taken, at most",
        Factor::FsyncEvery => "writes between fsyncs",
        Factor::FdatasyncEvery => "writes between fdatasyncs",
        Factor::Threads => "threads",
        Factor::Drives => "drives",
        Factor::Cores => "cores",
    }
}
