//! `iolane run`: one arm, once or a few times, as a page for people or a record for programs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use iolane::Error;
use iolane_study::record::{HostRecord, RunRecord};
use iolane_study::run::{RunOutcome, RunPlan};

use crate::arguments::RunArguments;
use crate::interrupt::STOP;
use crate::output::{self, Bar, count, or_unavailable, time};
use crate::targets::{self, Writing};
use crate::{Outcome, energy, jobs};

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<Outcome> {
    if let Some(file) = &arguments.job_file {
        return jobs::run(file, arguments);
    }
    let probing = arguments.workload.workload(arguments.depth, arguments.targets.size);
    // What is wrong in itself is said before a scratch file is made for it.
    probing.validate()?;
    iolane::interface_of(&arguments.path)?.validate(&arguments.path)?;
    arguments.placement.placement().check()?;
    if let Some(file) = &arguments.json {
        output::check_writable(file, &targets::named(&arguments.targets.target))?;
    }
    let open = targets::open(&arguments.targets, Writing::of(&probing), probing.seed, Some(&arguments.path))?;
    let plan = RunPlan {
        path: arguments.path.clone(),
        workload: arguments.workload.workload(arguments.depth, open.size),
        threads: arguments.threads.unwrap_or(open.targets.len()),
        targets: open.targets.clone(),
        placement: arguments.placement.placement(),
        runtime: arguments.runtime,
        warmup: arguments.warmup,
        pages: arguments.pages(),
        prefilled: open.prefilled,
        watched: !arguments.unwatched,
    };
    plan.check()?;
    let metering = energy::metering(&arguments.meter, false)?;
    let outcomes = measure(&plan, arguments.repeat)?;
    if STOP.load(Ordering::Relaxed) && outcomes.iter().all(|outcome| outcome.tally.ios == 0) {
        return Err(Error::failed("run", "interrupted before anything was measured").into());
    }
    let host = HostRecord::gather(plan.targets.first());
    let Some(mut record) = RunRecord::new(&plan, &outcomes, host) else { return Ok(Outcome::Failed) };
    energy::fill(&mut record, &plan, &outcomes, &metering);
    if !output::json_on_stdout(arguments.json.as_deref()) {
        output::print(&text(&plan, &record))?;
    }
    if let Some(file) = &arguments.json {
        output::write_json(file, &record)?;
    }
    Ok(outcome(&[record], arguments))
}

/// How it ended, with the reasons where they were not told to people yet.
pub(crate) fn outcome(records: &[RunRecord], arguments: &RunArguments) -> Outcome {
    let failed = STOP.load(Ordering::Relaxed) || records.iter().any(|record| record.result.errors > 0);
    if failed && output::json_on_stdout(arguments.json.as_deref()) {
        let warnings = records.iter().flat_map(|record| &record.warnings);
        warnings.for_each(|warning| output::complain(&format!("iolane: {warning}")));
    }
    if failed { Outcome::Failed } else { Outcome::Done }
}

fn measure(plan: &RunPlan, repeats: u16) -> anyhow::Result<Vec<RunOutcome>> {
    let total = (plan.runtime + plan.warmup + Duration::from_millis(200)) * repeats.into();
    let _bar = Bar::time(total, &format!("{} at depth {}", plan.path, plan.workload.depth));
    let mut outcomes = Vec::new();
    for _ in 0..repeats {
        outcomes.push(iolane_study::run::run(plan, &STOP)?);
        if STOP.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(outcomes)
}

/// The page for people.
pub(crate) fn text(plan: &RunPlan, record: &RunRecord) -> String {
    let result = &record.result;
    let workload = &plan.workload;
    let threads = if plan.threads == 1 { "1 thread".into() } else { format!("{} threads", plan.threads) };
    let names: Vec<String> = plan.targets.iter().map(targets::describe).collect();
    let interval =
        result.iops_interval.map_or(String::new(), |[low, high]| format!("  (95 %: {}-{})", count(low), count(high)));
    let latency = &result.latency_ns;
    let at = |value: Option<u64>| value.map_or_else(|| "none".into(), time);
    let per_io =
        |figure: &str| Some(record.telemetry.value(figure)? / result.ios as f64).filter(|value| value.is_finite());
    let rows = [
        ("IOPS", format!("{}{interval}", count(result.iops))),
        ("bandwidth", format!("{}B/s", count(result.bytes_per_s))),
        (
            "latency",
            format!(
                "p50 {}, p99 {}, p99.9 {}, max {}",
                at(latency.p50),
                at(latency.p99),
                at(latency.p99_9),
                at(latency.max)
            ),
        ),
        ("submission", format!("p50 {}, p99 {} per batch", at(result.submit_ns.p50), at(result.submit_ns.p99))),
        ("cores", or_unavailable(result.cpu.cores, |cores| format!("{cores:.2}"))),
        ("system calls", or_unavailable(result.syscalls_per_io, |calls| format!("{calls:.3} per I/O"))),
        ("switches", or_unavailable(result.context_switches_per_io, |switches| format!("{switches:.3} per I/O"))),
        ("interrupts", or_unavailable(per_io("device_interrupts"), |interrupts| format!("{interrupts:.3} per I/O"))),
        ("energy", energy(record, per_io("cpu_s"))),
    ];
    let mut text = format!(
        "{} on {}\n{} {}, depth {}, {threads}\n\n",
        plan.path,
        names.join(", "),
        workload.access,
        workload.block_sizes,
        workload.depth
    );
    for (name, value) in rows {
        text.push_str(&format!("  {name:<13} {value}\n"));
    }
    if let Some(verified) = result.verified {
        text.push_str(&format!("  {:<13} {verified} reads compared with what was written, no mismatch\n", "verified"));
    }
    for warning in &record.warnings {
        text.push_str(&format!("{}\n", output::wrap(&format!("note: {warning}"), 6)));
    }
    text
}

/// What the run took of a meter; without one the processor time that stands in its place.
fn energy(record: &RunRecord, cpu_s_per_io: Option<f64>) -> String {
    let Some(energy) = &record.result.energy else {
        let cpu_s = cpu_s_per_io.map(|cpu_s| format!(", {} CPU-s per million I/Os", count(cpu_s * 1e6)));
        return format!("unavailable{}", cpu_s.unwrap_or_default());
    };
    let source = match energy.source.modelled {
        true => energy.source.to_string(),
        false => format!("by {}", energy.source),
    };
    format!("{:.1} W, {} I/Os per joule, {source}", energy.watts, count(energy.ios_per_joule))
}
