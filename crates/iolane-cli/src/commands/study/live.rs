//! Shows a study while it runs: a screen on a terminal that can have one, a line every ten runs elsewhere. It changes nothing
//! of the study.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iolane_measure::meters::Meter;
use iolane_measure::progress::RunProgress;
use iolane_study::format;
use iolane_study::session::{Now, Progress, Session};

use super::view::{Finished, Moment, View, doing};
use crate::interrupt::is_stopped;
use crate::output::complain;
use crate::output::screen::{self, Screen};
use crate::targets;

/// Between two drawings of the screen. Each costs a tenth of a millisecond of one CPU.
const TICK: Duration = Duration::from_millis(250);

/// Without a screen, a line is printed every this many runs.
const RUNS_PER_LINE: usize = 10;

/// Shows a study until it is dropped.
pub(super) struct Live {
    view: Arc<Mutex<View>>,
    run_progress: Arc<RunProgress>,
    meter: Option<Arc<Meter>>,
    expected: Duration,
    /// The limit of the time from the first run on.
    time_max: Option<Duration>,
    /// When the first run began, and how many had ended before it.
    begun: Option<(Instant, usize)>,
    /// Whether [`at`](Self::at) was called before.
    is_shown: bool,
    /// Draws the screen until the sender is dropped; `None` where lines are printed.
    screen: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    pub(super) fn of(session: &Session) -> Self {
        let targets = session.conditions().targets.iter().map(targets::describe).collect();
        Self {
            view: Arc::new(Mutex::new(View::new(session.study().name.clone(), targets))),
            run_progress: session.run_progress(),
            meter: session.conditions().metering.meter.as_ref().ok().cloned(),
            expected: session.estimated_time(),
            time_max: session.conditions().time_max,
            begun: None,
            is_shown: false,
            screen: None,
        }
    }

    /// Shows the progress of the study.
    pub(super) fn at(&mut self, progress: &Progress<'_>) {
        if matches!(progress.now, Now::Runs(_)) {
            self.begun.get_or_insert_with(|| (Instant::now(), progress.done));
        }
        let left = self.left(progress);
        self.view().note(progress, Instant::now() + left);
        if !std::mem::replace(&mut self.is_shown, true) {
            self.begin(progress.done);
        }
        if self.screen.is_none() && progress.done.is_multiple_of(RUNS_PER_LINE) {
            complain(&line(progress, left));
        }
    }

    fn begin(&mut self, done: usize) {
        if done > 0 {
            complain(&format!("study: continuing after {done} runs"));
        }
        if !screen::is_available() {
            return;
        }
        let (sender, ended) = mpsc::channel();
        let (view, run, meter) = (Arc::clone(&self.view), Arc::clone(&self.run_progress), self.meter.clone());
        run.enable_p99();
        let draw = move || {
            let mut screen = Screen::take();
            loop {
                let size = screen.size();
                let moment = Moment {
                    now: Instant::now(),
                    iops: run.iops(),
                    p99_ns: run.p99_ns(),
                    watts: meter.as_deref().and_then(Meter::latest_watts),
                    stopping: is_stopped(),
                };
                let lines = view.lock().unwrap_or_else(PoisonError::into_inner).lines(&moment, size);
                screen.draw(size, lines);
                if ended.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        // Without this thread there is no screen, and lines are printed.
        let drawing = std::thread::Builder::new().name("screen".into()).spawn(draw);
        self.screen = drawing.ok().map(|drawing| (sender, drawing));
    }

    /// The time left: once some runs have ended, they predict it better than the estimate does. A limit of the time ends the
    /// study before its last run.
    fn left(&self, progress: &Progress<'_>) -> Duration {
        let Progress { done, total, .. } = *progress;
        let to_do = (total - done) as f64;
        let of_runs = match self.begun.map(|(begun, before)| (begun, done - before)) {
            Some((begun, measured @ 5..)) => begun.elapsed().mul_f64(to_do / measured as f64),
            _ => self.expected.mul_f64(to_do / total.max(1) as f64),
        };
        let elapsed = self.begun.map_or(Duration::ZERO, |(begun, _)| begun.elapsed());
        self.time_max.map_or(of_runs, |max| of_runs.min(max.saturating_sub(elapsed)))
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((sender, drawing)) = self.screen.take() {
            drop(sender);
            let _ = drawing.join();
        }
    }
}

/// The progress of a study in a line.
fn line(progress: &Progress<'_>, left: Duration) -> String {
    let Progress { done, total, now, .. } = progress;
    let mut line = format!("study: {done} of {total} runs, {} left; now {}", format::duration(left), doing(now));
    if let Some(last) = progress.rows.last() {
        let Finished { arm, iops, p99, .. } = Finished::of(last);
        let unit = last.arm.rate_unit();
        line.push_str(&match &last.rejected {
            None => format!("; last {arm}: {iops} {unit}, p99 {p99}"),
            Some(why) => format!("; last {arm}: rejected, {why}"),
        });
    }
    line
}

#[cfg(test)]
mod tests {
    use iolane_study::rows::Row;

    use super::super::view::fixtures::{arms, row};
    use super::*;

    #[test]
    fn a_line_says_what_the_last_run_measured() {
        let arms = arms();
        let rows = [row(&arms[0], 12_300, None)];
        let progress = Progress { done: 10, total: 45, now: Now::Runs(&arms[1]), rows: &rows };
        let line = line(&progress, Duration::from_secs(30));
        assert!(line.starts_with("study: 10 of 45 runs, 30 s left; now "), "{line}");
        assert!(line.ends_with(": 12.3 k IOPS, p99 81.3 us"), "{line}");
        let rows = [Row { rejected: Some("other programs had the processors".into()), ..row(&arms[0], 12_300, None) }];
        let line =
            super::line(&Progress { done: 10, total: 45, now: Now::RunsAgain(&arms[0]), rows: &rows }, Duration::ZERO);
        assert!(line.ends_with(": rejected, other programs had the processors"), "{line}");
    }
}
