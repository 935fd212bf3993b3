//! What a study shows while it runs: on a terminal a screen with the arm that runs, the last ones and the best so far;
//! elsewhere now and then a line. It draws and prints, and changes nothing of the study.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iolane_study::energy::Meter;
use iolane_study::gauge::Gauge;
use iolane_study::plan::Metric;
use iolane_study::records::Row;
use iolane_study::report::load_in_words;
use iolane_study::session::{Now, Progress, Session};
use iolane_study::stats::median;

use crate::interrupt::STOP;
use crate::output::{self, complain};
use crate::screen::{self, Line, Screen, Size};

/// From one look at the terminal to the next. Each costs a tenth of a millisecond of one processor.
const TICK: Duration = Duration::from_millis(250);

/// Where there is no screen, a line comes with every so many runs.
const RUNS_PER_LINE: usize = 10;

/// The runs that are kept to be shown.
const RECENT: usize = 16;

/// Shows a study until it is dropped.
pub(super) struct Live {
    view: Arc<Mutex<View>>,
    gauge: Arc<Gauge>,
    meter: Option<Arc<Meter>>,
    expected: Duration,
    /// When runs began, after all that comes before them, and how many there were by then.
    begun: Option<(Instant, usize)>,
    /// Runs that were there before it began.
    done_before: Option<usize>,
    /// Draws the screen until the sender is dropped; `None` where lines do.
    screen: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    /// What is to be shown of a session, before it runs.
    pub(super) fn of(session: &Session) -> Self {
        let targets = session.conditions().targets.iter().map(crate::targets::describe).collect();
        Self {
            view: Arc::new(Mutex::new(View::new(session.study().name.clone(), targets))),
            gauge: session.gauge(),
            meter: session.conditions().metering.meter.as_ref().ok().cloned(),
            expected: session.estimated_time(),
            begun: None,
            done_before: None,
            screen: None,
        }
    }

    /// Shows where it is.
    pub(super) fn at(&mut self, progress: &Progress<'_>) {
        if matches!(progress.now, Now::Runs(_)) {
            self.begun.get_or_insert_with(|| (Instant::now(), progress.done));
        }
        let left = self.left(progress);
        self.view().note(progress, Instant::now() + left);
        if self.done_before.is_none() {
            self.begin(progress.done);
        }
        if self.screen.is_none() && progress.done.is_multiple_of(RUNS_PER_LINE) {
            complain(&line(progress, left));
        }
    }

    fn begin(&mut self, done: usize) {
        self.done_before = Some(done);
        if done > 0 {
            complain(&format!("study: going on after {done} runs"));
        }
        if screen::can_be_had() {
            let (sender, ended) = mpsc::channel();
            let (view, gauge, meter) = (Arc::clone(&self.view), Arc::clone(&self.gauge), self.meter.clone());
            gauge.watch();
            let draw = move || {
                let mut screen = Screen::take();
                loop {
                    let size = screen.size();
                    let moment = Moment::now(&gauge, meter.as_deref());
                    let lines = view.lock().unwrap_or_else(PoisonError::into_inner).lines(&moment, size);
                    screen.draw(size, lines);
                    if ended.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            };
            // Without a thread for it there is no screen, and lines tell.
            let drawing = std::thread::Builder::new().name("screen".into()).spawn(draw);
            self.screen = drawing.ok().map(|drawing| (sender, drawing));
        }
    }

    /// What has been measured tells better than the estimate how long the rest takes, once there is some of it.
    fn left(&self, progress: &Progress<'_>) -> Duration {
        let Progress { done, total, .. } = *progress;
        let to_do = (total - done) as f64;
        match self.begun.map(|(begun, before)| (begun, done - before)) {
            Some((begun, measured @ 5..)) => begun.elapsed().mul_f64(to_do / measured as f64),
            _ => self.expected.mul_f64(to_do / total.max(1) as f64),
        }
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

/// Where a study is, in a line.
fn line(progress: &Progress<'_>, left: Duration) -> String {
    let Progress { done, total, now, .. } = progress;
    let mut line = format!("study: {done} of {total} runs, {} s left; now {}", left.as_secs(), doing(now));
    if let Some(last) = progress.rows.last() {
        let Finished { arm, iops, p99, .. } = Finished::of(last);
        line.push_str(&match &last.worthless {
            None => format!("; last {arm}: {iops} IOPS, p99 {p99}"),
            Some(why) => format!("; last {arm}: not kept, {why}"),
        });
    }
    line
}

fn doing(now: &Now<'_>) -> String {
    match now {
        Now::Preconditions(target) => format!("preconditioning {target}"),
        Now::MeasuresIdle => "measuring what the idle machine takes".into(),
        Now::MakesLoadSteps => "making load steps for the meter".into(),
        Now::Runs(arm) => arm.to_string(),
        Now::RunsAgain(arm) => format!("{arm} (again)"),
    }
}

/// What is known of a study that runs.
struct View {
    name: String,
    targets: Vec<String>,
    done: usize,
    total: usize,
    ends: Instant,
    doing: String,
    since: Instant,
    /// How many rows have been looked at.
    rows: usize,
    /// The last that ended, the latest first.
    recent: VecDeque<Finished>,
    /// IOPS of the runs that are worth something, by load and depth, and by path.
    measured: BTreeMap<(String, u32), BTreeMap<String, Vec<f64>>>,
}

/// A run that ended.
struct Finished {
    arm: String,
    iops: String,
    p99: String,
    /// Empty where nothing measures them.
    watts: String,
}

impl Finished {
    fn of(row: &Row) -> Self {
        let show = |metric, show: fn(f64) -> String| row.metric(metric).map_or("-".into(), show);
        let iops = match row.worthless {
            None => show(Metric::Iops, output::count),
            Some(_) => "not kept".into(),
        };
        let p99 = match row.worthless {
            None => show(Metric::P99Ns, |ns| output::time(ns as u64)),
            Some(_) => "-".into(),
        };
        let watts = row.metric(Metric::Watts).map_or(String::new(), shown_watts);
        Self { arm: row.arm.to_string(), iops, p99, watts }
    }
}

fn shown_watts(watts: f64) -> String {
    format!("{watts:.1} W")
}

/// What changes from one look to the next without anybody saying so.
struct Moment {
    now: Instant,
    iops: Option<f64>,
    /// Of the run that goes on, in nanoseconds.
    p99_ns: Option<u64>,
    watts: Option<f64>,
    stopping: bool,
}

impl Moment {
    fn now(gauge: &Gauge, meter: Option<&Meter>) -> Self {
        Self {
            now: Instant::now(),
            iops: gauge.iops(),
            p99_ns: gauge.p99_ns(),
            watts: meter.and_then(Meter::watts_of_late),
            stopping: STOP.load(Ordering::Relaxed),
        }
    }
}

/// Columns of the figures beside an arm's name.
const FIGURES: [usize; 3] = [10, 10, 9];
/// A name needs this much of the line; figures that leave less are left out, the last first.
const NAME_MIN: usize = 24;
/// Rows of what does not depend on how far the study is: its name to the rate.
const HEAD_ROWS: usize = 6;

impl View {
    fn new(name: String, targets: Vec<String>) -> Self {
        let now = Instant::now();
        Self {
            name,
            targets,
            done: 0,
            total: 0,
            ends: now,
            doing: String::new(),
            since: now,
            rows: 0,
            recent: VecDeque::new(),
            measured: BTreeMap::new(),
        }
    }

    fn note(&mut self, progress: &Progress<'_>, ends: Instant) {
        (self.done, self.total, self.ends) = (progress.done, progress.total, ends);
        (self.doing, self.since) = (doing(&progress.now), Instant::now());
        for row in progress.rows.iter().skip(self.rows) {
            self.recent.push_front(Finished::of(row));
            if row.worthless.is_none()
                && let Some(iops) = row.metric(Metric::Iops)
            {
                let load = self.measured.entry((load_in_words(&row.arm), row.arm.depth)).or_default();
                load.entry(row.arm.label()).or_default().push(iops);
            }
        }
        self.recent.truncate(RECENT);
        self.rows = progress.rows.len();
    }

    /// The screen: as many lines as it has rows or fewer, none wider than it is.
    fn lines(&self, moment: &Moment, size: Size) -> Vec<Line> {
        // Terminals differ in where the cursor is after the last column, so that stays empty.
        let columns = size.columns.saturating_sub(1);
        let mut lines = self.head(moment, columns);
        if size.rows < HEAD_ROWS {
            // How far, what, how fast; the name only where there is room for it.
            lines.retain(|line| !line.text.is_empty());
            let spare = lines.len().saturating_sub(size.rows);
            lines.drain(..spare.min(2));
        }
        let free = size.rows.saturating_sub(HEAD_ROWS + FOOT_ROWS);
        // Both lists have a heading and an empty line above it.
        let recent = (free / 2).saturating_sub(2).min(RECENT);
        let best = free.saturating_sub(recent + 4);
        if recent > 0 && best > 0 {
            lines.extend(self.recent(recent, columns));
            lines.extend(self.best(best, columns));
            lines.push(Line::plain(String::new()));
            lines.push(Line::faint(screen::fit(foot(moment), columns)));
        }
        lines.truncate(size.rows);
        lines
    }

    fn head(&self, moment: &Moment, columns: usize) -> Vec<Line> {
        let fit = |text: String| screen::fit(&text, columns);
        let left = output::long_time(self.ends.saturating_duration_since(moment.now));
        let far = format!("{}/{} runs, {left} left", self.done, self.total);
        let rate = moment.iops.map_or("-".into(), output::count);
        let mut current = format!("{rate:>9} IOPS");
        if let Some(p99_ns) = moment.p99_ns {
            current.push_str(&format!(", p99 {}", output::time(p99_ns)));
        }
        if let Some(watts) = moment.watts {
            current.push_str(&format!(", {}", shown_watts(watts)));
        }
        let so_far = output::long_time(moment.now.saturating_duration_since(self.since));
        let targets = match &self.targets[..] {
            [only] => only.clone(),
            several => format!("{} targets: {}", several.len(), several.join(", ")),
        };
        vec![
            Line::heading(fit(format!("study {}", self.name))),
            Line::plain(fit(targets)),
            Line::plain(bar(self.done, self.total, &far, columns)),
            Line::plain(String::new()),
            Line::heading(fit(format!("now {}", self.doing))),
            Line::plain(fit(format!("{current}, {so_far} so far"))),
        ]
    }

    fn recent(&self, rows: usize, columns: usize) -> Vec<Line> {
        let has_watts = self.recent.iter().any(|finished| !finished.watts.is_empty());
        let heading = ["last runs", "IOPS", "p99", if has_watts { "watts" } else { "" }];
        let mut lines = vec![Line::plain(String::new()), Line::heading(table_line(heading, columns))];
        lines.extend(self.recent.iter().take(rows).map(|finished| {
            let Finished { arm, iops, p99, watts } = finished;
            Line::plain(table_line([arm, iops, p99, watts], columns))
        }));
        // What stands below keeps its place while the list fills.
        lines.resize(rows + 2, Line::plain(String::new()));
        lines
    }

    fn best(&self, rows: usize, columns: usize) -> Vec<Line> {
        let mut lines =
            vec![Line::plain(String::new()), Line::heading(table_line(["best so far", "IOPS", "runs", ""], columns))];
        let loads = self.measured.len();
        let shown = if loads > rows { rows - 1 } else { loads };
        for ((load, depth), paths) in self.measured.iter().take(shown) {
            let medians = paths.iter().map(|(path, runs)| (median(runs), path, runs.len()));
            let best = medians.max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((iops, path, runs)) = best else { continue };
            let name = format!("{path}: {load}, depth {depth}");
            lines.push(Line::plain(table_line([&name, &output::count(iops), &runs.to_string(), ""], columns)));
        }
        if shown < loads {
            lines.push(Line::faint(screen::fit(&format!("and {} more loads", loads - shown), columns)));
        }
        lines.resize(rows + 2, Line::plain(String::new()));
        lines
    }
}

/// Rows of the last line and the empty one above it.
const FOOT_ROWS: usize = 2;

fn foot(moment: &Moment) -> &'static str {
    match moment.stopping {
        false => "Ctrl-C ends it and keeps what was measured.",
        true => "Ending; what was measured is kept.",
    }
}

/// A name and its figures, as many of them as there is room for.
fn table_line(cells: [&str; 4], columns: usize) -> String {
    let [name, figures @ ..] = cells;
    let mut room = columns;
    let mut right = String::new();
    for (figure, width) in figures.iter().zip(FIGURES) {
        if room < width + NAME_MIN {
            break;
        }
        room -= width;
        right.push_str(&format!("{figure:>width$}"));
    }
    let name = screen::fit(name, room);
    let gap = " ".repeat(room - screen::width(&name));
    format!("{name}{gap}{right}").trim_end().to_owned()
}

/// How far it is, as a bar where there is room for one.
fn bar(done: usize, total: usize, text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(text.len() + 3).min(40);
    if room < 5 {
        return screen::fit(text, columns);
    }
    let filled = room * done.min(total) / total.max(1);
    let tip = if done < total { ">" } else { "" };
    let full = "=".repeat(filled);
    format!("[{:<room$}] {text}", screen::fit(&format!("{full}{tip}"), room))
}

#[cfg(test)]
mod tests {
    use iolane_study::plan::{Arm, Scale};
    use iolane_study::plan::{BUILT_IN, Study};

    use super::*;

    /// Arms of a built-in study.
    fn arms() -> Vec<Arm> {
        let built_in = BUILT_IN.iter().find(|study| study.name == "systor22").unwrap();
        Study::parse(built_in.text, built_in.name).unwrap().arms(Scale::Scaled).unwrap()
    }

    fn row(arm: &Arm, ios: u64, joules: Option<f64>) -> Row {
        let mut row = Row { elapsed_s: 1.0, ios, joules, ..Row::new(arm.clone(), 0) };
        row.latency.record(1_000_000_000 / ios).unwrap();
        row
    }

    /// A view of a study of which so many runs have ended, and the moment at which it is looked at.
    fn view(runs: usize, joules: Option<f64>) -> (View, Moment) {
        let arms = arms();
        let rows: Vec<Row> =
            (0..runs).map(|run| row(&arms[run * 7 % arms.len()], 5000 + 37 * run as u64, joules)).collect();
        let mut view = View::new("systor22".into(), vec!["/dev/nvme0n1 (1.82t block, O_DIRECT)".into()]);
        let now = Instant::now();
        let progress = Progress { done: runs, total: 120, now: Now::Runs(&arms[3]), rows: &rows };
        view.note(&progress, now + Duration::from_secs(95));
        view.since = now;
        let moment = Moment { now, iops: Some(182_400.0), p99_ns: Some(412_000), watts: joules, stopping: false };
        (view, moment)
    }

    fn screen(columns: usize, rows: usize, (view, moment): &(View, Moment)) -> String {
        let lines = view.lines(moment, Size { columns, rows });
        lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn a_wide_screen_shows_what_runs_the_last_runs_and_the_best() {
        insta::assert_snapshot!(screen(100, 30, &view(34, Some(41.5))));
    }

    #[test]
    fn a_usual_screen_has_room_for_all_of_it_and_no_watts_where_nothing_measures_them() {
        insta::assert_snapshot!(screen(80, 24, &view(7, None)));
    }

    #[test]
    fn a_narrow_screen_leaves_figures_out_and_keeps_names() {
        insta::assert_snapshot!(screen(40, 20, &view(34, Some(41.5))));
    }

    #[test]
    fn a_screen_of_three_rows_says_how_far_what_and_how_fast() {
        insta::assert_snapshot!(screen(40, 3, &view(34, None)));
    }

    #[test]
    fn no_screen_is_too_small_and_none_is_overrun() {
        let view = view(90, Some(3.0));
        for (columns, rows) in
            (0..130).flat_map(|columns| [0, 1, 2, 3, 5, 6, 9, 14, 15, 24, 60].map(|rows| (columns, rows)))
        {
            let text = screen(columns, rows, &view);
            assert!(text.lines().count() <= rows, "{columns} x {rows}: {text}");
            assert!(text.lines().all(|line| screen::width(line) < columns.max(1)), "{columns} x {rows}: {text}");
        }
    }

    #[test]
    fn lists_keep_their_places_while_they_fill() {
        let place = |runs| screen(80, 24, &view(runs, None)).lines().position(|line| line.starts_with("best so far"));
        assert_eq!(place(0), place(90));
        assert!(place(0).is_some());
    }

    #[test]
    fn a_run_that_is_worth_nothing_is_no_best() {
        let (mut view, _) = view(0, None);
        let arms = arms();
        let rows =
            [Row { worthless: Some("disturbed".into()), ..row(&arms[0], 1_000_000, None) }, row(&arms[0], 1000, None)];
        view.note(&Progress { done: 1, total: 2, now: Now::RunsAgain(&arms[0]), rows: &rows }, Instant::now());
        assert_eq!(view.measured.values().flat_map(BTreeMap::values).collect::<Vec<_>>(), [&[1000.0]]);
        assert_eq!(view.recent.iter().map(|run| run.iops.as_str()).collect::<Vec<_>>(), ["1.00k", "not kept"]);
    }

    #[test]
    fn a_line_says_what_the_last_run_measured() {
        let arms = arms();
        let rows = [row(&arms[0], 12_300, None)];
        let progress = Progress { done: 10, total: 45, now: Now::Runs(&arms[1]), rows: &rows };
        let line = line(&progress, Duration::from_secs(30));
        assert!(line.starts_with("study: 10 of 45 runs, 30 s left; now "), "{line}");
        assert!(line.ends_with(": 12.3k IOPS, p99 81.3 us"), "{line}");
        let rows = [Row { worthless: Some("other programs had the processors".into()), ..row(&arms[0], 12_300, None) }];
        let line =
            super::line(&Progress { done: 10, total: 45, now: Now::RunsAgain(&arms[0]), rows: &rows }, Duration::ZERO);
        assert!(line.ends_with(": not kept, other programs had the processors"), "{line}");
    }
}
