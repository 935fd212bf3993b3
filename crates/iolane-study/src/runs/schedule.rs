//! Runs jobs one after another, or side by side where a job file asks for it, as often as is asked for, and makes a record of
//! each. It reports progress to a callback, and prints nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolane::{Error, Result};
use iolane_measure::meters::Work;
use iolane_measure::run::{CheckedPlan, RunOutcome, RunPlan};
use iolane_measure::telemetry::Unavailable;

use super::job::RunJob;
use super::side_by_side::{Ended, side_by_side};
use crate::rows::{disturbance, stood_still};
use crate::run_record::{HostRecord, RunRecord};
use crate::session::Metering;

/// Jobs, and how they are run.
#[derive(Debug)]
pub struct Schedule {
    /// In the order in which they run; those that do not wait run side by side with the one before.
    pub jobs: Vec<RunJob>,
    /// How often each job runs.
    pub repeats: u16,
    /// What measures their energy.
    pub metering: Metering,
}

/// What a schedule does, for whoever shows it.
#[derive(Debug)]
pub enum Event<'a> {
    /// Scratch files are being written.
    MakesScratch {
        /// Bytes written so far.
        written: u64,
        /// Bytes of all of them.
        total: u64,
    },
    /// Jobs begin, side by side.
    Begins {
        /// Their labels.
        labels: &'a [String],
        /// How long they take with all repeats; `None` if a job ends with its bytes.
        length: Option<Duration>,
    },
    /// A job has ended.
    Ended {
        /// What ran.
        plan: &'a RunPlan,
        /// What it measured.
        record: &'a RunRecord,
    },
}

/// What a schedule measured.
#[derive(Debug)]
pub struct Ran {
    /// A record for each job that ran; empty if it was stopped before anything was measured.
    pub records: Vec<RunRecord>,
    /// What ended it early, besides being stopped.
    pub error: Option<Error>,
}

impl Schedule {
    /// Runs the jobs. If it is stopped or a job fails, the records of the ended jobs are kept. It sets `stop` itself to end
    /// the jobs that run at the same time as a failed one.
    pub fn run(&self, stop: &AtomicBool, progress: &mut dyn FnMut(Event<'_>)) -> Ran {
        let mut records: Vec<RunRecord> = Vec::new();
        let mut left: Vec<&RunJob> = self.jobs.iter().collect();
        while !left.is_empty() {
            let waiting = left.iter().skip(1).position(|job| job.waits).map_or(left.len(), |index| index + 1);
            let later = left.split_off(waiting);
            let group = std::mem::replace(&mut left, later);
            match self.run_group(&group, stop, progress) {
                Err(error) => return Ran { records, error: Some(error) },
                Ok((mut ended, error)) => {
                    if !stop.load(Ordering::Relaxed) {
                        let notes = group.iter().map(|job| note_on_dropped(job, &mut left));
                        ended.iter_mut().zip(notes).for_each(|((_, record), note)| record.warnings.extend(note));
                    }
                    let ran = records.iter().chain(ended.iter().map(|(_, record)| record));
                    if stop.load(Ordering::Relaxed) && ran.into_iter().all(|record| record.result.ios == 0) {
                        return Ran { records: Vec::new(), error };
                    }
                    for (plan, record) in ended {
                        progress(Event::Ended { plan: plan.plan(), record: &record });
                        records.push(record);
                    }
                    if error.is_some() {
                        return Ran { records, error };
                    }
                }
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ran { records, error: None }
    }

    /// Runs jobs side by side; what ran, and its record, and an error that ended it after a repeat or more.
    fn run_group(
        &self,
        group: &[&RunJob],
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Vec<Recorded>, Option<Error>)> {
        let mut plans = Vec::new();
        for job in group {
            plans.push(job.ready(stop, |written, total| progress(Event::MakesScratch { written, total }))?);
        }
        let labels: Vec<String> = group.iter().map(|job| job.label()).collect();
        progress(Event::Begins { labels: &labels, length: self.length(group) });
        let Repeats { outcomes, is_cut, error } =
            Repeats::make(self.repeats, stop, || side_by_side(group, &plans, stop));
        if outcomes.iter().all(Vec::is_empty)
            && let Some(error) = error
        {
            return Err(error);
        }
        let mut ended = Vec::new();
        for ((job, checked), runs) in group.iter().zip(plans).zip(outcomes) {
            let plan = checked.plan();
            let note = note_on_end(&runs, group);
            let outcomes: Vec<RunOutcome> = runs.into_iter().map(|run| run.outcome).collect();
            let host = HostRecord::gather(plan.targets.first());
            let Some(mut record) = RunRecord::new(plan, &outcomes, host) else { continue };
            match group {
                [_] => {
                    self.set_energy(&mut record, plan, &outcomes);
                    record.note_disturbance(outcomes.iter().find_map(|outcome| disturbance(plan, outcome)));
                }
                _ => {
                    let why = Unavailable::new("other jobs ran at the same time, and a meter reads all of them");
                    record.set_no_energy(&why);
                    // Of other disturbances the jobs beside it are one.
                    record.note_disturbance(outcomes.iter().find_map(stood_still));
                }
            }
            record.job = job.name.clone();
            record.warnings.splice(0..0, job.notes.iter().cloned().chain(note_on_others(job, group)).chain(note));
            if is_cut {
                let (whole, asked) = (outcomes.len(), self.repeats);
                record.warnings.push(format!("interrupted: the figures are of the {whole} whole repeats of {asked}"));
            }
            ended.push((checked, record));
        }
        Ok((ended, error))
    }

    /// How long a group takes, if all of its jobs end with their time.
    fn length(&self, group: &[&RunJob]) -> Option<Duration> {
        let lengths = group.iter().map(|job| job.length()).collect::<Option<Vec<Duration>>>()?;
        Some(lengths.into_iter().max()? * self.repeats.into())
    }

    /// Adds the joules of a run to its record, or why there are none.
    fn set_energy(&self, record: &mut RunRecord, plan: &RunPlan, outcomes: &[RunOutcome]) {
        let meter = self.metering.meter.as_ref().map_err(Clone::clone);
        match meter.and_then(|meter| plan.keeps_real_time().map(|()| meter)) {
            Err(why) => record.set_no_energy(&why),
            Ok(meter) => {
                let work = |outcome: &RunOutcome| {
                    Work::new(outcome.tally.elapsed_ns() as f64 / 1e9, &outcome.telemetry.figures)
                };
                let joules: Vec<_> = outcomes.iter().map(|outcome| meter.joules(outcome.span, work(outcome))).collect();
                record.set_energy(&joules, meter.source());
            }
        }
    }
}

/// What ran, and its record.
type Recorded = (CheckedPlan, RunRecord);

/// What came of the repeats of jobs that run side by side.
struct Repeats {
    /// By job, the end of each repeat that counts.
    outcomes: Vec<Vec<Ended>>,
    /// Whether one more was cut short.
    is_cut: bool,
    /// What ended them.
    error: Option<Error>,
}

impl Repeats {
    /// Repeats until all are made, one fails, or it is stopped. A repeat that is cut short counts only if it is the first: it would have the
    /// weight of a whole one.
    fn make(times: u16, stop: &AtomicBool, mut once: impl FnMut() -> Result<Vec<Ended>>) -> Self {
        let mut repeats = Self { outcomes: Vec::new(), is_cut: false, error: None };
        for repeat in 0..times {
            let ended = match once() {
                Ok(ended) => ended,
                Err(error) => return Self { error: Some(error), ..repeats },
            };
            if repeat > 0 && ended.iter().any(|run| run.outcome.interrupted) {
                return Self { is_cut: true, ..repeats };
            }
            repeats.outcomes.resize(ended.len(), Vec::new());
            repeats.outcomes.iter_mut().zip(ended).for_each(|(of_job, run)| of_job.push(run));
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        repeats
    }
}

/// A note that names the jobs that ran at the same time, if any did.
fn note_on_others(job: &RunJob, group: &[&RunJob]) -> Option<String> {
    let others = group.iter().filter(|other| !std::ptr::eq(**other, job));
    let others: Vec<String> = others.map(|other| format!("[{}]", other.label())).collect();
    let others = Some(others.join(", ")).filter(|others| !others.is_empty())?;
    Some(format!("it ran at the same time as {others}: CPU time and context switches include theirs"))
}

/// A note that names the jobs whose end ended one, if any did.
fn note_on_end(runs: &[Ended], group: &[&RunJob]) -> Option<String> {
    let mut by: Vec<usize> = runs.iter().filter_map(|run| run.by).collect();
    by.sort_unstable();
    by.dedup();
    let by: Vec<String> = by.into_iter().map(|index| format!("[{}]", group[index].label())).collect();
    let verb = if by.len() == 1 { "has" } else { "have" };
    let note =
        format!("exitall: it ended because {} {verb} ended; the figures cover the time until then", by.join(", "));
    Some(note).filter(|_| !by.is_empty())
}

/// Takes the jobs that do not run any more, because `job` ended, from those that are left; a note that names them.
fn note_on_dropped(job: &RunJob, left: &mut Vec<&RunJob>) -> Option<String> {
    let dropped: Vec<String> =
        left.extract_if(.., |later| job.drops(later)).map(|later| format!("[{}]", later.label())).collect();
    let note = format!("exitall: because it ended, these jobs did not run: {}", dropped.join(", "));
    Some(note).filter(|_| !dropped.is_empty())
}

#[cfg(test)]
mod tests {
    use iolane::{IoPath, Target};
    use iolane_measure::meters::MeterSpec;

    use iolane_measure::workload::Workload;

    use std::time::Instant;

    use super::*;
    use crate::fio::Ends;
    use crate::runs::{JobPlan, ScratchFiles};

    /// A job that reads a number of blocks of a simulated device.
    fn job(name: &str, blocks: u64, waits: bool) -> RunJob {
        let workload = Workload { bytes_max: Some(blocks * 4096), ..Workload::default() };
        let targets = vec![Target::open("sim:16m,latency=100us").unwrap()];
        let plan = RunPlan::new(IoPath::new("sim"), targets, workload, Duration::from_secs(3600));
        RunJob { name: Some(name.into()), waits, measured: None, ..RunJob::on_targets(plan).unwrap() }
    }

    fn schedule(jobs: Vec<RunJob>, repeats: u16) -> Schedule {
        Schedule { jobs, repeats, metering: Metering::open(MeterSpec::None, false) }
    }

    /// The groups that began, by their labels, and what came of the jobs.
    fn run(schedule: &Schedule, stop: &AtomicBool) -> (Vec<String>, Ran) {
        let mut groups = Vec::new();
        let ran = schedule.run(stop, &mut |event| {
            if let Event::Begins { labels, .. } = event {
                groups.push(labels.join("+"));
            }
        });
        (groups, ran)
    }

    #[test]
    fn jobs_run_side_by_side_until_one_waits_and_each_has_its_record() {
        let schedule = schedule(vec![job("a", 10, false), job("b", 20, false), job("c", 30, true)], 2);
        let (groups, ran) = run(&schedule, &AtomicBool::new(false));
        assert_eq!(groups, ["a+b", "c"]);
        let records: Vec<_> = ran.records.iter().map(|record| (record.job.as_deref(), record.result.ios)).collect();
        assert_eq!(records, [(Some("a"), 20), (Some("b"), 40), (Some("c"), 60)]);
        let shared =
            |index: usize| ran.records[index].warnings.iter().any(|note| note.contains("at the same time as ["));
        assert!(shared(0) && shared(1) && !shared(2), "{:#?}", ran.records);
        assert!(ran.error.is_none());
    }

    #[test]
    fn a_repeat_that_is_cut_short_counts_only_if_it_is_the_first_and_an_error_leaves_those_before() {
        let job = job("a", 10, false);
        let plan = job.ready(&AtomicBool::new(false), |_, _| {}).unwrap();
        let whole = side_by_side(&[&job], &[plan], &AtomicBool::new(false)).unwrap();
        let mut cut = whole.clone();
        cut[0].outcome.interrupted = true;
        // None is an error.
        let made = |ends: &[Option<&Vec<Ended>>]| {
            let mut ends = ends.iter().copied();
            let failed = || Error::failed("a run", "as the test wants it");
            let once = || ends.next().expect("no more are made").cloned().ok_or_else(failed);
            let repeats = Repeats::make(5, &AtomicBool::new(false), once);
            (repeats.outcomes.first().map_or(0, Vec::len), repeats.is_cut, repeats.error.is_some())
        };
        assert_eq!(made(&[Some(&whole), Some(&whole), Some(&cut)]), (2, true, false));
        assert_eq!(made(&[Some(&whole), Some(&whole), None]), (2, false, true));
        assert_eq!(made(&[None]), (0, false, true));
    }

    #[test]
    fn a_job_starts_later_by_its_delay_unless_it_is_stopped() {
        let delayed = |delay| RunJob { delay: Duration::from_millis(delay), ..job("late", 2, false) };
        let begun = Instant::now();
        let (_, ran) = run(&schedule(vec![job("first", 1, false), delayed(200)], 1), &AtomicBool::new(false));
        assert!(begun.elapsed() >= Duration::from_millis(200) && ran.records.len() == 2, "{ran:?}");
        let begun = Instant::now();
        run(&schedule(vec![delayed(1_000_000)], 1), &AtomicBool::new(true));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    /// A job of a group that ends only with another.
    fn endless(name: &str, group: usize, waits: bool) -> RunJob {
        RunJob { ends: Some(Ends::Group), group, ..job(name, u64::MAX / 4096, waits) }
    }

    /// A short job that ends others.
    fn ending(name: &str, blocks: u64, ends: Ends, waits: bool) -> RunJob {
        RunJob { ends: Some(ends), ..job(name, blocks, waits) }
    }

    fn notes_of(record: &RunRecord, part: &str) -> usize {
        record.warnings.iter().filter(|note| note.contains(part)).count()
    }

    #[test]
    fn a_job_ends_those_of_its_group_and_they_keep_what_they_measured() {
        let jobs = vec![
            ending("a", 5, Ends::Group, false),
            endless("b", 0, false),
            RunJob { group: 1, ..job("c", 1000, true) },
        ];
        let (groups, ran) = run(&schedule(jobs, 3), &AtomicBool::new(false));
        assert_eq!((groups, ran.records.len()), (vec!["a+b".to_owned(), "c".to_owned()], 3));
        assert!(ran.error.is_none());
        let [a, b, c] = &ran.records[..] else { panic!("{ran:#?}") };
        assert_eq!((a.result.ios, c.result.ios), (15, 3000));
        assert_eq!(notes_of(b, "exitall: it ended because [a] has ended"), 1, "{b:#?}");
        assert_eq!(serde_json::to_value(b).unwrap()["workload"]["repeats"], 3);
        assert!([a, c].iter().all(|record| notes_of(record, "exitall") == 0), "{ran:#?}");
        assert!([a, b, c].iter().all(|record| notes_of(record, "interrupted") == 0), "{ran:#?}");
    }

    #[test]
    fn the_end_of_a_group_leaves_other_groups_alone() {
        let other = RunJob { group: 1, ..ending("other", 1000, Ends::Group, false) };
        let jobs = vec![ending("a", 5, Ends::Group, false), endless("b", 0, false), other];
        let (_, ran) = run(&schedule(jobs, 1), &AtomicBool::new(false));
        assert_eq!(ran.records[2].result.ios, 1000);
        assert_eq!(notes_of(&ran.records[2], "exitall"), 0, "{ran:#?}");
    }

    #[test]
    fn a_job_can_end_all_that_run_and_the_next_ones_go_on() {
        let jobs = vec![ending("a", 5, Ends::Running, false), endless("b", 1, false), job("c", 10, true)];
        let (groups, ran) = run(&schedule(jobs, 1), &AtomicBool::new(false));
        assert_eq!(groups, ["a+b", "c"]);
        assert_eq!(notes_of(&ran.records[1], "because [a] has ended"), 1, "{ran:#?}");
        assert_eq!(notes_of(&ran.records[0], "did not run"), 0, "{ran:#?}");
    }

    #[test]
    fn a_job_that_depths_all_leaves_later_ones_out_and_says_so() {
        let jobs = vec![
            ending("a", 5, Ends::All, false),
            endless("b", 1, false),
            job("c", 10, true),
            RunJob { group: 7, ..job("d", 10, true) },
        ];
        let (groups, ran) = run(&schedule(jobs, 2), &AtomicBool::new(false));
        assert_eq!((groups, ran.records.len()), (vec!["a+b".to_owned()], 2));
        assert_eq!(notes_of(&ran.records[0], "because it ended, these jobs did not run: [c], [d]"), 1, "{ran:#?}");
    }

    #[test]
    fn a_later_job_of_a_group_that_ended_does_not_run() {
        let jobs = vec![
            ending("a", 5, Ends::Group, false),
            RunJob { group: 1, ..job("b", 5, true) },
            job("late", 5, false),
            RunJob { group: 1, ..job("c", 5, false) },
        ];
        let (groups, ran) = run(&schedule(jobs, 1), &AtomicBool::new(false));
        assert_eq!(groups, ["a", "b+c"]);
        assert_eq!(notes_of(&ran.records[0], "did not run: [late]"), 1, "{ran:#?}");
    }

    #[test]
    fn jobs_that_end_others_are_stopped_as_well() {
        let jobs = vec![endless("a", 0, false), endless("b", 0, false)];
        let (_, ran) = run(&schedule(jobs, 2), &AtomicBool::new(true));
        assert!(ran.records.is_empty() && ran.error.is_none(), "{ran:#?}");
    }

    #[test]
    fn what_was_stopped_before_anything_was_measured_has_no_record() {
        let (_, ran) = run(&schedule(vec![job("a", 10, false)], 1), &AtomicBool::new(true));
        assert!(ran.records.is_empty() && ran.error.is_none(), "{ran:#?}");
    }

    #[test]
    fn a_job_that_fails_ends_the_schedule_and_earlier_records_are_kept() {
        let mut broken = job("broken", 10, true);
        if let JobPlan::Ready(checked) = &broken.plan {
            let files = ScratchFiles { folder: "/no/such/folder".into(), bytes: 1 << 20, count: 1, direct: false };
            broken.plan = JobPlan::OnScratch(checked.plan().clone(), files);
        }
        let (groups, ran) =
            run(&schedule(vec![job("a", 10, false), broken, job("c", 10, true)], 1), &AtomicBool::new(false));
        assert_eq!((groups, ran.records.len()), (vec!["a".to_owned()], 1));
        assert!(ran.error.unwrap().to_string().contains("/no/such/folder"));
    }
}
