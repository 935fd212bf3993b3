//! `iolane advise`: what results, or a measurement made for it, recommend, the settings for it in the words of other programs, and the check of a path in use.

mod watched;

use std::ffi::OsString;
use std::path::Path;

use iolane::Error;
use iolane_study::advise::{Advice, Advised, Check, Cost, HostSetting, InUse, Limit, Setting};
use iolane_study::format::{self, number};
use iolane_study::results::{self, Answer, Choice, Goal, Loaded, REPEATS_FOR_ADVICE, RunnerUp, Skipped};

use self::watched::Watched;
use super::report_page::kept;
use crate::arguments::AdviseArguments;
use crate::interrupt::is_stopped;
use crate::outcome::Outcome;
use crate::output::{self, CellAlignment, Outputs, warn, wrap};

/// How a measurement that was interrupted goes on.
const GOES_ON: &str = "the same command continues it, and --fresh starts over";
/// The same where a process showed the load, which shows another one next time.
const GOES_ON_FROM_PROCESS: &str =
    "the command continues it with the load that it showed in place of --pid, and --fresh starts over";

pub(crate) fn advise(arguments: AdviseArguments) -> anyhow::Result<Outcome> {
    arguments.check()?;
    let in_use = arguments.in_use()?;
    // What the measurement will replace or read is no place for the document; results name more of it.
    let outputs = Outputs::checked(arguments.json.clone(), &arguments.reads())?;
    let Some(pid) = arguments.pid else {
        let measured = arguments.study(None).map(|study| super::study::measure_for(study, GOES_ON)).transpose()?;
        let folder = measured.unwrap_or_else(|| arguments.folder().to_owned());
        return from_results(&arguments, in_use.as_ref(), &folder, None);
    };
    let watched = Watched::watch(pid, arguments.watch)?;
    outputs.text(&printable(&watched.text()))?;
    if is_stopped() {
        return Err(Error::failed(format!("watching process {pid}"), "it was interrupted").into());
    }
    // If it is unknown, that is an error after all that is known was shown.
    let load = watched.load();
    let Some(study) = arguments.study(load.as_ref().ok()) else {
        outputs.document(&watched.document())?;
        outputs.text(&watched.next_step(&load?))?;
        return Ok(Outcome::Done);
    };
    load?;
    let before = watched.moved();
    let folder = super::study::measure_for(study, GOES_ON_FROM_PROCESS)?;
    let went_on = watched.went_on(before, watched.moved());
    from_results(&arguments, in_use.as_ref(), &folder, Some((&watched, went_on)))
}

/// Advises from results: of the load of a process, with a warning if it went on while it was measured.
fn from_results(
    arguments: &AdviseArguments,
    in_use: Option<&InUse>,
    folder: &Path,
    of: Option<(&Watched, Option<String>)>,
) -> anyhow::Result<Outcome> {
    let loaded = load(folder)?;
    let never_replaced: Vec<OsString> = kept(&loaded).into_iter().chain(arguments.reads()).collect();
    let outputs = Outputs::checked(arguments.json.clone(), &never_replaced)?;
    let goals = in_use.map_or_else(|| arguments.goal.clone(), |in_use| vec![in_use.goal]);
    let mut advised = Advised::new(&loaded, &goals);
    if let Some((watched, went_on)) = of {
        advised.process = Some(watched.document());
        advised.warnings.extend(went_on);
    }
    if let Some(InUse { path, goal, min_gain_percent }) = in_use {
        advised.check = Some(Check::new(&loaded, path, *goal, 1.0 + min_gain_percent / 100.0)?);
    }
    outputs.text(&printable(&text(&advised, &goals)))?;
    outputs.document(&advised)?;
    if advised.advice.is_empty() {
        let what = advised.folder.clone();
        return Err(Error::failed(printable(&what), "it has no advice").remedy(how_to_have_advice(&advised)).into());
    }
    let Some(check) = &advised.check else { return Ok(Outcome::Done) };
    for load in check.loads.iter().filter_map(|load| load.in_words(check)) {
        warn(&load.replace(char::is_control, "?"));
    }
    Ok(Outcome::failed_if(!check.passed))
}

/// What results without advice lack first.
fn how_to_have_advice(advised: &Advised) -> String {
    if advised.repeats < REPEATS_FOR_ADVICE {
        let repeats = if advised.repeats == 1 { "1 repeat".into() } else { format!("{} repeats", advised.repeats) };
        return format!(
            "it has {repeats} of each arm, and advice takes {REPEATS_FOR_ADVICE}: give more --time, fewer paths or fewer loads"
        );
    }
    "leave out --goal to have advice on every goal that the results decide".into()
}

/// Reads results from which advice follows.
fn load(folder: &Path) -> anyhow::Result<Loaded> {
    let loaded = results::load(folder)?;
    if loaded.document.rate_until.is_some() {
        let cause = "it has the highest rates of a search, which name the path that holds the highest";
        return Err(Error::usage(folder.display().to_string(), cause)
            .remedy("iolane report DIR --md - shows them; iolane study measures what advice needs")
            .into());
    }
    Ok(loaded)
}

/// Results and processes may have any name: none of them may control the terminal.
fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

fn text(advised: &Advised, goals: &[Goal]) -> String {
    let Advised { folder, study, repeats, runtime_s, kernel, process, .. } = advised;
    let in_use = process.as_ref().map(|process| process.path.as_str());
    let targets: Vec<&str> = advised.targets.iter().map(|target| target.name.as_str()).collect();
    let repeats = if *repeats == 1 { "1 repeat".to_owned() } else { format!("{repeats} repeats") };
    let of = format!(
        "Advice from {folder} ({study}): {repeats} of {} on {}, Linux {kernel}",
        format::time(runtime_s * 1e9),
        targets.join(", ")
    );
    let mut text = format!("{}{}\n", if process.is_some() { "\n" } else { "" }, wrap(&of, 2));
    if advised.advice.is_empty() {
        text.push_str(&format!("\n{}\n", wrap(&no_advice(goals), 2)));
    } else {
        let legend = "lead: how many times better the recommended path is, paired by repeat, with its 95 % interval; ~: no \
                      significant difference. Settings are those of the path, to be used with your load.";
        text.push_str(&format!("{}\n", wrap(legend, 0)));
    }
    for of_load in advised.advice.chunk_by(|a, b| a.answer.load == b.answer.load) {
        text.push_str(&format!("\n{}\n", of_load[0].answer.load));
        of_load.iter().for_each(|advice| text.push_str(&recommendation(advice, in_use)));
        if let Some(misses) = of_load[0].answer.rate_in_words() {
            text.push_str(&format!("\n{}\n", wrap(&format!("  {misses}"), 2)));
        }
    }
    if !advised.host_settings.is_empty() {
        text.push_str("\nSettings of the host that cost instructions, with figures of the nearest path and depth that were counted\n(docs/host-settings.md):\n");
        advised.host_settings.iter().for_each(|setting| text.push_str(&host_setting(setting)));
    }
    if !advised.not_measured.is_empty() {
        let names: Vec<String> = advised.not_measured.iter().map(arms_in_words).collect();
        let entries = names.iter().zip(&advised.not_measured);
        let entries = entries.map(|(name, arms)| (&name[..], &arms.reason[..], &arms.remedy[..]));
        text.push_str(&format!("\nNot measured:\n{}", output::reasons(entries)));
    }
    for warning in &advised.warnings {
        text.push_str(&format!("\n{}\n", wrap(&format!("note: {warning}"), 6)));
    }
    if let Some(check) = &advised.check {
        text.push_str(&format!("\n{}\n", wrap(&check.in_words(), 2)));
    }
    text
}

fn host_setting(setting: &HostSetting) -> String {
    let HostSetting { name, device, now, better: value, effect, loses, costs, command } = setting;
    let loses = if loses.is_empty() { String::new() } else { format!("; but {loses}") };
    let counted = costs.iter().map(|Cost { path, depth, kernel, now, better }| {
        let share = 100.0 * (1.0 - better / now);
        let [now, better] = [now, better].map(|count| format::count(*count));
        format!(
            "{path} at depth {depth}: {share:.0} % fewer instructions with {value} ({now} to {better} per I/O, counted on \
             Linux {kernel})"
        )
    });
    let counted: Vec<String> = counted.collect();
    let counted = if counted.is_empty() { "what that costs was not counted".into() } else { counted.join("; ") };
    let mut text = format!("{}\n", wrap(&format!("  {name} of {device} is {now}: {effect}{loses}"), 6));
    text.push_str(&format!("{}\n", wrap(&format!("      {counted}"), 6)));
    text.push_str(&format!("      -> {command}\n"));
    text
}

/// What advice takes, where there is none.
/// What advice on these goals, or on any if there are none, needs and the results lack.
fn no_advice(goals: &[Goal]) -> String {
    let needs = |goal: &Goal| {
        let what = match goal {
            Goal::Latency => "100 requests in each run",
            Goal::Commits => "a load with syncs (--fsync, --fdatasync or --durable)",
            Goal::Throughput => "a load without a rate",
            Goal::Energy => "a power meter (docs/energy.md); without one, ask for processor",
            Goal::Processor => "results without a power meter; with one, ask for energy",
        };
        format!("{} needs {what}", goal.name())
    };
    let goals = if goals.is_empty() { &Goal::ALL[..] } else { goals };
    let needs: Vec<String> = goals.iter().map(needs).collect();
    format!("No advice. Each goal takes {REPEATS_FOR_ADVICE} repeats of an arm; {}.", needs.join("; "))
}

fn arms_in_words(skipped: &Skipped) -> String {
    match skipped.arms {
        1 => skipped.which.clone(),
        arms => format!("{} ({arms} arms)", skipped.path),
    }
}

/// `in_use` is the path that a process takes, in iolane's notation.
fn recommendation(advice: &Advice, in_use: Option<&str>) -> String {
    let Advice { answer, others, settings, limit, .. } = advice;
    let take = &answer.take;
    let cores = take.cores.map_or_else(String::new, |cores| format!(", {} cores", number(cores)));
    let notation = if take.notation == take.path { String::new() } else { format!(" ({})", take.notation) };
    let headline = format!(
        "  {}: {}{notation}{} at depth {}: {}{cores}; {}",
        answer.goal.words(),
        take.path,
        mark(take, in_use),
        take.depth,
        answer.value_in_words(),
        answer.sureness_in_words()
    );
    let mut text = format!("\n{}\n", wrap(&headline, 4));
    let rows: Vec<Vec<String>> = others.iter().map(|other| beside(answer, other, in_use)).collect();
    if !rows.is_empty() {
        let headings = ["    instead", "depth", "measured", "cores", "lead", "95 %"];
        text.push_str(&output::table(&headings, &rows, CellAlignment::Right));
    }
    if let Some(Limit { by, shown_by }) = limit {
        let line = format!("    {:<8}the rate is limited by {}: {shown_by}", "limit", by.words());
        text.push_str(&format!("{}\n", wrap(&line, 12)));
    }
    for Setting { of, text: spelled, why_not } in settings {
        let words = spelled.clone().unwrap_or_else(|| format!("not possible: {why_not}"));
        text.push_str(&format!("{}\n", wrap(&format!("    {of:<8}{words}"), 12)));
    }
    text
}

/// What marks the path that a process takes.
fn mark(choice: &Choice, in_use: Option<&str>) -> &'static str {
    if in_use == Some(&choice.notation) { " (in use)" } else { "" }
}

/// A path beside the recommended one: what taking it instead gives up.
fn beside(answer: &Answer, other: &RunnerUp, in_use: Option<&str>) -> Vec<String> {
    let RunnerUp { choice, gain, shown } = other;
    let sign = if *shown { "" } else { "~" };
    vec![
        format!("    {}{}", choice.path, mark(choice, in_use)),
        choice.depth.to_string(),
        answer.shown(choice.value.value),
        choice.cores.map_or_else(|| "-".into(), |cores| format!("{cores:.2}")),
        format!("{sign}{}x", number(gain.value)),
        format!("{}-{}", number(gain.low), number(gain.high)),
    ]
}
