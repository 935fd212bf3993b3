//! The text that people read of a run.

use iolane_measure::run::RunPlan;
use iolane_study::format::{self, bytes_per_s, count, number, time};
use iolane_study::plan::Metric;
use iolane_study::run_record::{ChoicesRecord, LatencyRecord, PathShare, RunRecord};

use crate::output::{or_unavailable, wrap};
use crate::targets::describe;

/// The whole text; a job of a job file begins with its name.
pub(super) fn text(plan: &RunPlan, record: &RunRecord) -> String {
    let mut text = record.job.as_ref().map_or_else(String::new, |job| format!("[{job}]\n"));
    text.push_str(&heading(plan));
    for (name, value) in figures(record) {
        text.push_str(&format!("  {name:<13} {value}\n"));
    }
    if !record.paths_taken.is_empty() {
        let line = format!("  {:<13} {}", "paths taken", paths_taken(&record.paths_taken));
        text.push_str(&format!("{}\n", wrap(&line, 16)));
    }
    if let Some(choice) = record.choices.first().and_then(|choices| choice(choices, record.choices.len())) {
        text.push_str(&format!("{}\n", wrap(&format!("  {:<13} {choice}", "choice"), 16)));
    }
    if let Some(verified) = record.result.verified {
        let blocks = match (plan.reads_back(), plan.workload.access.writes()) {
            (true, _) => "blocks read back after the load",
            (false, true) => "reads checked against what was written",
            (false, false) => "reads checked against what was written before",
        };
        text.push_str(&format!("  {:<13} {verified} {blocks}, no mismatch\n", "verified"));
    }
    for warning in &record.warnings {
        text.push_str(&format!("{}\n", wrap(&format!("note: {warning}"), 6)));
    }
    text
}

/// The share of the requests that each path had; those with less than one in a hundred, which were only tried, together.
fn paths_taken(taken: &[PathShare]) -> String {
    let all: u64 = taken.iter().map(|share| share.ios).sum();
    let percent = |ios: u64| ios as f64 * 100.0 / all.max(1) as f64;
    let (used, tried): (Vec<_>, Vec<_>) = taken.iter().partition(|share| percent(share.ios) >= 1.0);
    let mut parts: Vec<String> =
        used.iter().map(|share| format!("{} {:.0} %", share.path, percent(share.ios))).collect();
    if !tried.is_empty() {
        let ios = tried.iter().map(|share| share.ios).sum();
        let others = if tried.len() == 1 { "1 other".to_owned() } else { format!("{} others", tried.len()) };
        parts.push(format!("{others} {:.1} %, to compare", percent(ios)));
    }
    parts.join(", ")
}

/// What a queue chose last; `None` if it chose nothing.
fn choice(choices: &ChoicesRecord, queues: usize) -> Option<String> {
    let last = choices.changes.last()?;
    let of_queue = if queues == 1 { String::new() } else { format!(" in the first of {queues} queues") };
    let count = match choices.changes.len() {
        1 => String::new(),
        changes => format!(", the last of {changes} changes"),
    };
    let unusable = match choices.unusable.len() {
        0 => String::new(),
        1 => "; 1 other path is unavailable (`iolane probe`)".into(),
        paths => format!("; {paths} other paths are unavailable (`iolane probe`)"),
    };
    Some(format!("{} since {}{of_queue}: {}{count}{unusable}", last.path, time(last.after_s * 1e9), last.reason))
}

fn heading(plan: &RunPlan) -> String {
    let workload = &plan.workload;
    let threads = if plan.threads == 1 { "1 thread".into() } else { format!("{} threads", plan.threads) };
    let targets: Vec<String> = plan.targets.iter().map(describe).collect();
    format!(
        "{} on {}\n{}, depth {}, {threads}\n\n",
        plan.path,
        targets.join(", "),
        workload.load_in_words(),
        workload.depth
    )
}

fn figures(record: &RunRecord) -> Vec<(&'static str, String)> {
    let result = &record.result;
    let interval = result.iops_interval;
    let interval = interval.map(|[low, high]| format!("  (95 %: {})", format::short_count_range(low, high)));
    let at = |value: Option<u64>| value.map_or_else(|| "none".into(), |ns| time(ns as f64));
    let latency = |of: &LatencyRecord| {
        format!("p50 {}, p99 {}, p99.9 {}, max {}", at(of.p50), at(of.p99), at(of.p99_9), at(of.max))
    };
    let per_io = |value: Option<f64>| or_unavailable(value, |value| format!("{} per I/O", number(value)));
    let of_telemetry =
        |figure: &str| Some(record.telemetry.value(figure)? / result.ios as f64).filter(|value| value.is_finite());
    let mut lines = vec![
        ("IOPS", format!("{}{}", count(result.iops), interval.unwrap_or_default())),
        ("bandwidth", bytes_per_s(result.bytes_per_s)),
        ("latency", latency(&result.latency_ns)),
    ];
    let parts = [
        ("of reads", &result.read_latency_ns),
        ("of writes", &result.write_latency_ns),
        ("of syncs", &result.sync_latency_ns),
    ];
    // The reads of a load that only reads are all of its requests.
    let parts: Vec<_> = parts.into_iter().filter_map(|(name, of)| Some((name, of.as_ref()?))).collect();
    if parts.len() > 1 {
        lines.extend(parts.into_iter().map(|(name, of)| (name, latency(of))));
    }
    let commits = result.commit_latency_ns.as_ref().filter(|_| result.sync_latency_ns.is_some());
    lines.extend(commits.map(|of| ("of commits", latency(of))));
    if record.telemetry.is_of_open_loop() {
        let figure = |name: &str| or_unavailable(record.telemetry.value(name), time);
        lines.push(("after start", format!("p50 {}, p99 {}", figure("service_p50_ns"), figure("service_p99_ns"))));
        // Where no thread ever waited for a request to become due, none woke up late.
        let late = record.telemetry.value("start_late_p99_ns");
        let late = late.map_or_else(String::new, |ns| format!("; idle threads start late by {} (p99)", time(ns)));
        lines.push(("floor", format!("p50 {}, p99 {}{late}", figure("floor_p50_ns"), figure("floor_p99_ns"))));
    }
    lines.extend([
        (
            "submission",
            format!(
                "p50 {}, p99 {} per request, {} at a time, in a short phase before",
                at(result.submit_ns.p50),
                at(result.submit_ns.p99),
                or_unavailable(record.telemetry.value("submit_batch"), number)
            ),
        ),
        ("cores", or_unavailable(result.cpu.cores, number)),
        ("system calls", per_io(result.syscalls_per_io)),
        ("switches", per_io(result.context_switches_per_io)),
        ("interrupts", per_io(of_telemetry("device_interrupts"))),
        ("energy", energy(record, of_telemetry("cpu_s"))),
    ]);
    lines
}

/// What a meter measured; without one, the processor time, which is the closest to it.
fn energy(record: &RunRecord, cpu_s_per_io: Option<f64>) -> String {
    let Some(energy) = &record.result.energy else {
        let cpu_s = cpu_s_per_io.map(|cpu_s| format::quantity(Metric::CpuSPerMillionIos, cpu_s * 1e6));
        return format!("unavailable{}", cpu_s.map_or(String::new(), |cpu_s| format!("; {cpu_s}")));
    };
    let source = match energy.source.modelled {
        true => energy.source.to_string(),
        false => format!("by {}", energy.source),
    };
    let watts = format::quantity(Metric::Watts, energy.watts);
    format!("{watts}, {}, {source}", format::quantity(Metric::IosPerJoule, energy.ios_per_joule))
}
