//! `iolane study`: every path on the targets, compared, with the answer in a sentence.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use iolane::IoPath;
use iolane_study::survey::{ArmReport, Survey, SurveyPlan, SurveyReport};

use crate::arguments::StudyArguments;
use crate::interrupt::STOP;
use crate::output::{self, Bar, CellAlignment, count, or_unavailable, time};
use crate::{Outcome, targets};

/// What a study without --runtime takes, all runs together.
const BUDGET: Duration = Duration::from_secs(75);

/// Where the results go, in the folder that --out names.
const FILE: &str = "study.json";

pub(crate) fn study(arguments: &StudyArguments) -> anyhow::Result<Outcome> {
    check(arguments)?;
    let file = arguments.out.join(FILE);
    output::make_folder(&arguments.out)?;
    for file in arguments.json.iter().chain([&file]) {
        output::check_writable(file, &targets::named(&arguments.targets.target))?;
    }
    let only_path = match &arguments.path[..] {
        [only] => Some(only),
        _ => None,
    };
    let probing = arguments.workload.workload(1, arguments.targets.size);
    let open = targets::open(&arguments.targets, probing.access.writes(), probing.seed, only_path)?;
    let mut survey = Survey::new(SurveyPlan {
        paths: if arguments.path.is_empty() {
            open.targets.first().map(SurveyPlan::all_paths).unwrap_or_default()
        } else {
            arguments.path.clone()
        },
        targets: open.targets.clone(),
        depths: arguments.depth.clone(),
        workload: arguments.workload.workload(1, open.size),
        repeats: arguments.repeat.into(),
        runtime: arguments.runtime.unwrap_or_default(),
        warmup: arguments.warmup,
        placement: arguments.placement.placement_or_apart(open.targets.len()),
        prefilled: open.prefilled,
    })?;
    if arguments.runtime.is_none() {
        survey.fit_into(BUDGET);
    }
    let mut report = measure(survey)?;
    if targets::named(&arguments.targets.target).is_empty() && arguments.path.is_empty() {
        report.warnings.extend(targets::taken_controllers().map(|name| {
            format!("paths nvme and nvme+int, without a kernel driver, can be had on {name}: study --target {name}")
        }));
    }
    // Shown first: if the disk has become full meanwhile, what was measured is not lost.
    let to_people = !output::json_on_stdout(arguments.json.as_deref());
    if to_people {
        let names: Vec<String> = open.targets.iter().map(targets::describe).collect();
        output::print(&format!("{}\n{}\n\n{}", names.join("\n"), report.summary(), text(&report)))?;
    }
    if let Some(json) = &arguments.json {
        output::write_json(json, &report)?;
    }
    output::write_json(&file, &report)?;
    if to_people {
        output::print(&format!("Results: {}\n", file.display()))?;
    }
    let interrupted = STOP.load(Ordering::Relaxed);
    Ok(if interrupted || report.arms.iter().any(|arm| arm.errors > 0) { Outcome::Failed } else { Outcome::Done })
}

/// What is wrong in itself is said before a scratch file is made for it.
fn check(arguments: &StudyArguments) -> anyhow::Result<()> {
    for depth in &arguments.depth {
        arguments.workload.workload(*depth, arguments.targets.size).validate()?;
    }
    arguments.placement.placement().check()?;
    arguments.path.iter().try_for_each(|path: &IoPath| iolane::interface_of(path)?.validate(path))?;
    Ok(())
}

fn measure(survey: Survey) -> anyhow::Result<SurveyReport> {
    let (total, expected, begun) = (survey.runs() as u64, survey.estimated_time(), Instant::now());
    let bar = Bar::runs(total, "study");
    Ok(survey.run(&STOP, |progress| {
        // What has been measured tells better than the estimate how long the rest takes, once there is some of it.
        let left = match progress.done {
            0..5 => expected.saturating_sub(begun.elapsed()),
            done => begun.elapsed().mul_f64((progress.total - done) as f64 / done as f64),
        };
        bar.at_run(progress.done as u64, format!("{} at depth {}", progress.path, progress.depth), left);
    })?)
}

fn text(report: &SurveyReport) -> String {
    let mut text = String::new();
    for arms in report.arms.chunk_by(|a, b| a.depth == b.depth) {
        let heading = format!("depth {}", arms[0].depth);
        let headings = [heading.as_str(), "IOPS", "95 %", "p50", "p99", "cores", "calls", "of best"];
        let rows: Vec<Vec<String>> = arms.iter().map(row).collect();
        text.push_str(&output::table(&headings, &rows, CellAlignment::Right));
        text.push('\n');
    }
    let legend =
        "calls: system calls per I/O; ~: no difference to the best shown (the 95 % interval of the ratio holds 1)";
    text.push_str(&format!("{}\n\n", output::wrap(legend, 0)));
    text.push_str(&format!("{}\n\n", output::wrap(&report.advice, 0)));
    if !report.skipped.is_empty() {
        text.push_str("Not taken:\n");
        let names: Vec<String> = report
            .skipped
            .iter()
            .map(|skipped| {
                skipped.depth.map_or(skipped.path.clone(), |depth| format!("{} at depth {depth}", skipped.path))
            })
            .collect();
        let entries = names
            .iter()
            .zip(&report.skipped)
            .map(|(name, skipped)| (name.as_str(), skipped.reason.as_str(), skipped.remedy.as_str()));
        text.push_str(&output::reasons(entries));
        text.push('\n');
    }
    for warning in &report.warnings {
        text.push_str(&format!("{}\n", output::wrap(&format!("note: {warning}"), 6)));
    }
    text
}

fn row(arm: &ArmReport) -> Vec<String> {
    let of_best = match arm.of_best {
        None => "best".into(),
        Some(ratio) if !ratio.shows_difference() => format!("~{:.2}x", ratio.value),
        Some(ratio) => format!("{:.2}x", ratio.value),
    };
    vec![
        arm.path.clone(),
        count(arm.iops.value),
        format!("{}-{}", count(arm.iops.low), count(arm.iops.high)),
        time(arm.p50_ns),
        time(arm.p99_ns),
        or_unavailable(arm.cores, |cores| format!("{cores:.2}")),
        or_unavailable(arm.syscalls_per_io, |calls| format!("{calls:.2}")),
        of_best,
    ]
}
