//! The metrics of a row, computed from what a run measured: studies compare them, and `plan::Metric` names them.

use std::borrow::Cow;

use hdrhistogram::Histogram;
use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::Unavailable;

use super::gathered::is_rate_kept;
use super::row::Row;
use crate::plan::{LatencyBound, Metric, Requests};
use crate::search::Trial;

impl Row {
    /// A metric of this run; `None` if one of its inputs is unavailable.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let per_s = |count: f64| (self.elapsed_s > 0.0).then(|| count / self.elapsed_s);
        let per_io = |count: f64| (self.ios > 0).then(|| count / self.ios as f64);
        let per_joule = |joules: f64| (joules > 0.0).then(|| self.ios as f64 / joules);
        let figure = |figure| self.figures.number(figure);
        let above_idle = || Some(figure(RunFigure::Joules)? - figure(RunFigure::IdleJoules)?);
        let quantile =
            |times: &Histogram<u64>, at: f64| (!times.is_empty()).then(|| times.value_at_quantile(at) as f64);
        match metric {
            Metric::Iops => per_s(self.ios as f64),
            Metric::BytesPerS => per_s(self.bytes as f64),
            Metric::MeanNs => self.mean_ns,
            Metric::LatencyNs(requests, percentile) => quantile(&self.latency_of(requests), percentile.share()),
            Metric::ServiceP50Ns => figure(RunFigure::ServiceP50Ns),
            Metric::ServiceP99Ns => figure(RunFigure::ServiceP99Ns),
            Metric::SubmitP50Ns => quantile(&self.submit, 0.5),
            Metric::SyscallsPerIo => figure(RunFigure::SyscallsPerIo),
            Metric::ContextSwitchesPerIo => per_io(figure(RunFigure::ContextSwitches)?),
            Metric::InterruptsPerIo => per_io(figure(RunFigure::DeviceInterrupts)?),
            Metric::Cores => per_s(self.processor_s()?),
            Metric::CpuSPerMillionIos => per_io(self.processor_s()? * 1e6),
            Metric::CacheMissRate => {
                let references = figure(RunFigure::CacheReferences)?;
                let misses = figure(RunFigure::CacheMisses)?;
                (references > 0.0).then(|| misses / references)
            }
            Metric::CyclesPerIo => per_io(figure(RunFigure::Cycles)?),
            Metric::InstructionsPerIo => per_io(figure(RunFigure::Instructions)?),
            Metric::IosPerJoule => per_joule(figure(RunFigure::Joules)?),
            Metric::IosPerJouleAboveIdle => per_joule(above_idle()?),
            Metric::Watts => per_s(figure(RunFigure::Joules)?),
            Metric::WattsAboveIdle => per_s(above_idle()?),
        }
    }

    /// CPU seconds of the run. `None` where they are unavailable, or lack a submission thread's: it would count as 0.
    pub fn processor_s(&self) -> Option<f64> {
        let kernel_threads = self.figures.why_missing(RunFigure::KernelThreadsS);
        let is_whole = kernel_threads.is_none() || !self.arm.path.polls_submissions();
        self.figures.cpu_s().filter(|_| is_whole)
    }

    /// The run as part of a rate search; `None` without a rate.
    pub fn trial(&self, bound: LatencyBound) -> Option<Trial> {
        let rate = self.arm.workload.rate?;
        let is_kept = is_rate_kept(&self.arm.workload, self.metric(Metric::Iops)?, self.elapsed_s)?;
        let latency_ns = self.metric(bound.metric()).filter(|_| is_kept);
        Some(Trial { rate: rate.per_s(), latency_ns: latency_ns.unwrap_or(f64::INFINITY) })
    }

    /// The latencies of some of the requests; empty if there were none of them, or a peer does not tell them apart.
    pub fn latency_of(&self, requests: Requests) -> Cow<'_, Histogram<u64>> {
        let workload = &self.arm.workload;
        match requests {
            Requests::All => Cow::Borrowed(&self.latency),
            Requests::Reads => Cow::Owned(self.latency_of_reads()),
            Requests::Writes => Cow::Borrowed(self.latency_of_writes()),
            Requests::Syncs => Cow::Borrowed(&self.syncs),
            Requests::Commits if workload.durable && workload.sync_every().is_none() => {
                Cow::Borrowed(self.latency_of_writes())
            }
            Requests::Commits => Cow::Borrowed(&self.commits),
        }
    }

    fn latency_of_reads(&self) -> Histogram<u64> {
        let mut reads = self.latency.clone();
        let access = self.arm.workload.access;
        if !access.reads() || access.is_mixed() && self.writes.is_empty() {
            reads.reset();
        }
        // Every write of a mix is among all latencies, so that the difference exists.
        let _ = reads.subtract(&self.writes);
        reads
    }

    fn latency_of_writes(&self) -> &Histogram<u64> {
        if self.arm.workload.access.reads() { &self.writes } else { &self.latency }
    }

    /// Why a metric is unavailable; `None` if no figure says so.
    pub fn why_missing(&self, metric: Metric) -> Option<&Unavailable> {
        let of_threads = || self.figures.why_missing(RunFigure::KernelThreadsS);
        match metric {
            Metric::Cores | Metric::CpuSPerMillionIos if self.figures.cpu_s().is_some() => of_threads(),
            _ => self.figures.why_missing(Self::figure_of(metric)?),
        }
    }

    /// The figure whose availability decides that of a metric; `None` for metrics that every run of iolane has.
    pub fn figure_of(metric: Metric) -> Option<RunFigure> {
        match metric {
            Metric::Iops | Metric::BytesPerS | Metric::SubmitP50Ns => None,
            Metric::MeanNs | Metric::LatencyNs(..) => None,
            Metric::ServiceP50Ns => Some(RunFigure::ServiceP50Ns),
            Metric::ServiceP99Ns => Some(RunFigure::ServiceP99Ns),
            Metric::SyscallsPerIo => Some(RunFigure::SyscallsPerIo),
            Metric::ContextSwitchesPerIo => Some(RunFigure::ContextSwitches),
            Metric::InterruptsPerIo => Some(RunFigure::DeviceInterrupts),
            Metric::Cores | Metric::CpuSPerMillionIos => Some(RunFigure::UserS),
            Metric::CacheMissRate => Some(RunFigure::CacheMisses),
            Metric::CyclesPerIo => Some(RunFigure::Cycles),
            Metric::InstructionsPerIo => Some(RunFigure::Instructions),
            Metric::IosPerJoule | Metric::Watts => Some(RunFigure::Joules),
            Metric::IosPerJouleAboveIdle | Metric::WattsAboveIdle => Some(RunFigure::IdleJoules),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arm;
    use iolane_measure::telemetry::Sourced;

    /// A run of two seconds with a second of its own threads, and what is known of the kernel's.
    fn run(path: &str, kernel_threads: Result<f64, Unavailable>, interrupts_s: f64) -> Row {
        let mut row = Row::new(Arm { path: path.parse().unwrap(), ..Arm::of_null("kernel") }, 0);
        (row.elapsed_s, row.ios) = (2.0, 1_000_000);
        let mut set = |figure, value: Result<f64, Unavailable>| {
            row.figures.set(figure, value.map(|value| Sourced::new(value, "test")));
        };
        set(RunFigure::UserS, Ok(0.75));
        set(RunFigure::SystemS, Ok(0.25));
        set(RunFigure::KernelThreadsS, kernel_threads);
        set(RunFigure::InterruptApartS, Ok(interrupts_s));
        row
    }

    #[test]
    fn a_submission_thread_whose_time_is_unknown_does_not_count_as_idle() {
        let unknown = || Err(Unavailable::new("kernel threads are the process's since Linux 5.12"));
        let polls = run("io_uring+sqpoll", unknown(), 0.0);
        assert_eq!((polls.metric(Metric::Cores), polls.metric(Metric::CpuSPerMillionIos)), (None, None));
        assert!(polls.why_missing(Metric::Cores).unwrap().reason.contains("5.12"));
        assert_eq!(run("io_uring", unknown(), 0.0).metric(Metric::Cores), Some(0.5), "it has no such thread");
        assert_eq!(run("io_uring+sqpoll", Ok(2.0), 0.0).metric(Metric::Cores), Some(1.5));
    }

    #[test]
    fn the_cost_of_an_io_includes_the_interrupts_that_no_thread_is_charged_for() {
        let quiet = run("io_uring", Ok(0.0), 0.0).metric(Metric::CpuSPerMillionIos);
        let interrupted = run("io_uring", Ok(0.0), 0.5).metric(Metric::CpuSPerMillionIos);
        assert_eq!((quiet, interrupted), (Some(1.0), Some(1.5)));
    }
}
