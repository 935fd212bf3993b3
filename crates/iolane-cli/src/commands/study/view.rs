//! What the screen of a running study shows: the current run, the last ones, the best so far. It makes lines for a size, and
//! draws nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use iolane_study::format::{self, count, time};
use iolane_study::plan::Metric;
use iolane_study::rows::Row;
use iolane_study::session::{Now, Progress};
use iolane_study::stats::median;

use crate::output::screen::{self, Line, Size};

/// The number of ended runs that are kept to be shown.
const RECENT: usize = 16;

/// What a study does now, in words.
pub(super) fn doing(now: &Now<'_>) -> String {
    match now {
        Now::Preconditions(target) => format!("preconditioning {target}"),
        Now::WritesData(target) => format!("writing the data of the applications to {target}"),
        Now::MeasuresIdle => "measuring idle power".into(),
        Now::MakesLoadSteps => "making load steps for the meter".into(),
        Now::Runs(arm) => arm.to_string(),
        Now::RunsAgain(arm) => format!("{arm} (again)"),
    }
}

/// What is known of a running study.
pub(super) struct View {
    name: String,
    targets: Vec<String>,
    done: usize,
    total: usize,
    ends: Instant,
    doing: String,
    since: Instant,
    /// The number of rows noted.
    rows: usize,
    /// The last ended runs, the latest first.
    recent: VecDeque<Finished>,
    /// IOPS of the valid runs, by load and depth, and by path.
    measured: BTreeMap<(String, u32), BTreeMap<String, Vec<f64>>>,
}

/// A run that ended.
pub(super) struct Finished {
    pub(super) arm: String,
    pub(super) iops: String,
    pub(super) p99: String,
    /// Empty without a meter.
    watts: String,
}

impl Finished {
    pub(super) fn of(row: &Row) -> Self {
        let show = |metric, show: fn(f64) -> String| row.metric(metric).map_or("-".into(), show);
        let (iops, p99) = match row.rejected {
            None => (show(Metric::Iops, count), show(Metric::P99, time)),
            Some(_) => ("rejected".into(), "-".into()),
        };
        Self { arm: row.arm.to_string(), iops, p99, watts: row.metric(Metric::Watts).map_or(String::new(), watts) }
    }
}

fn watts(watts: f64) -> String {
    format::quantity(Metric::Watts, watts)
}

/// What changes between two drawings without a report of progress.
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) iops: Option<f64>,
    /// Of the current run, in nanoseconds.
    pub(super) p99_ns: Option<u64>,
    pub(super) watts: Option<f64>,
    pub(super) stopping: bool,
}

/// Widths of the columns right of an arm's name.
const FIGURES: [usize; 3] = [10, 10, 9];
/// A name needs this much of the line; figures that leave less are omitted, the last first.
const NAME_MIN: usize = 24;
/// Rows from the study's name to the current rate, which are always shown.
const HEAD_ROWS: usize = 6;

impl View {
    pub(super) fn new(name: String, targets: Vec<String>) -> Self {
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

    pub(super) fn note(&mut self, progress: &Progress<'_>, ends: Instant) {
        (self.done, self.total, self.ends) = (progress.done, progress.total, ends);
        (self.doing, self.since) = (doing(&progress.now), Instant::now());
        for row in progress.rows.iter().skip(self.rows) {
            self.recent.push_front(Finished::of(row));
            if row.rejected.is_none()
                && let Some(iops) = row.metric(Metric::Iops)
            {
                let load = self.measured.entry((row.arm.load_in_words(), row.arm.workload.depth)).or_default();
                load.entry(row.arm.label()).or_default().push(iops);
            }
        }
        self.recent.truncate(RECENT);
        self.rows = progress.rows.len();
    }

    /// The screen: at most as many lines as it has rows, none wider than it.
    pub(super) fn lines(&self, moment: &Moment, size: Size) -> Vec<Line> {
        // Terminals differ in where the cursor is after the last column, so that stays empty.
        let columns = size.columns.saturating_sub(1);
        let mut lines = self.head(moment, columns);
        if size.rows < HEAD_ROWS {
            // Progress, run and rate; the name only if there is room for it.
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
        let left = format::duration(self.ends.saturating_duration_since(moment.now));
        let far = format!("{}/{} runs, {left} left", self.done, self.total);
        let rate = moment.iops.map_or("-".into(), count);
        let mut current = format!("{rate:>9} IOPS");
        if let Some(p99_ns) = moment.p99_ns {
            current.push_str(&format!(", p99 {}", time(p99_ns as f64)));
        }
        if let Some(watts) = moment.watts.map(watts) {
            current.push_str(&format!(", {watts}"));
        }
        let so_far = format::duration(moment.now.saturating_duration_since(self.since));
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
        // What is below keeps its place while the list fills.
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
            lines.push(Line::plain(table_line([&name, &count(iops), &runs.to_string(), ""], columns)));
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
        false => "Ctrl-C stops the study and keeps its results.",
        true => "Stopping; the results are kept.",
    }
}

/// A name, and as many of its figures as there is room for.
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

/// The progress, with a bar if there is room for one.
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
pub(super) mod fixtures {
    use iolane_measure::figures::RunFigure;
    use iolane_measure::telemetry::Sourced;
    use iolane_study::plan::{Arm, BUILT_IN, Scale, Study};

    use super::*;

    /// Arms of a built-in study.
    pub(crate) fn arms() -> Vec<Arm> {
        let built_in = BUILT_IN.iter().find(|study| study.name == "systor22").unwrap();
        Study::parse(built_in.text, built_in.name).unwrap().arms(Scale::Scaled).unwrap()
    }

    pub(crate) fn row(arm: &Arm, ios: u64, joules: Option<f64>) -> Row {
        let mut row = Row { elapsed_s: 1.0, ios, ..Row::new(arm.clone(), 0) };
        if let Some(joules) = joules {
            row.figures.set(RunFigure::Joules, Ok(Sourced::new(joules, "test")));
        }
        row.latency.record(1_000_000_000 / ios).unwrap();
        row
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::fixtures::{arms, row};
    use super::*;

    /// A view of a study of which that many runs have ended, and the moment at which it is drawn.
    fn view(runs: usize, joules: Option<f64>) -> (View, Moment) {
        let arms = arms();
        let rows: Vec<Row> =
            (0..runs).map(|run| row(&arms[run * 7 % arms.len()], 5000 + 37 * run as u64, joules)).collect();
        let mut view = View::new("systor22".into(), vec!["/dev/nvme0n1 (1.82 TiB block, O_DIRECT)".into()]);
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
    fn a_screen_of_80_by_24_shows_all_of_it_and_no_watts_without_a_meter() {
        insta::assert_snapshot!(screen(80, 24, &view(7, None)));
    }

    #[test]
    fn a_narrow_screen_omits_figures_and_keeps_names() {
        insta::assert_snapshot!(screen(40, 20, &view(34, Some(41.5))));
    }

    #[test]
    fn a_screen_of_three_rows_shows_progress_run_and_rate() {
        insta::assert_snapshot!(screen(40, 3, &view(34, None)));
    }

    #[test]
    fn lines_fit_a_screen_of_any_size() {
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
    fn a_rejected_run_is_never_the_best() {
        let (mut view, _) = view(0, None);
        let arms = arms();
        let rows =
            [Row { rejected: Some("disturbed".into()), ..row(&arms[0], 1_000_000, None) }, row(&arms[0], 1000, None)];
        view.note(&Progress { done: 1, total: 2, now: Now::RunsAgain(&arms[0]), rows: &rows }, Instant::now());
        assert_eq!(view.measured.values().flat_map(BTreeMap::values).collect::<Vec<_>>(), [&[1000.0]]);
        assert_eq!(view.recent.iter().map(|run| run.iops.as_str()).collect::<Vec<_>>(), ["1 k", "rejected"]);
    }
}
