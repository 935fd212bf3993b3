//! Results: `SKIPPED` lines as they occur, each once, and a table of passed, skipped and failed checks when the process ends. Both
//! are written to standard error itself, which the test harness does not capture.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use serde_json::json;

use crate::paths;

/// A check that cannot be made here: why, and what would make it possible. An error, so that `?` carries it out.
#[derive(Debug, Clone)]
pub(crate) struct Skip {
    pub(crate) reason: String,
    /// Empty if nothing would.
    pub(crate) remedy: String,
}

impl Skip {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}

impl From<&iolane::Error> for Skip {
    fn from(error: &iolane::Error) -> Self {
        Self::new(error.cause(), error.remedy_text())
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remedy.as_str() {
            "" => f.write_str(&self.reason),
            remedy => write!(f, "{}; {remedy}", self.reason),
        }
    }
}

impl std::error::Error for Skip {}

#[derive(Default)]
struct Cell {
    passed: usize,
    failed: usize,
    /// Indices into `Report::reasons`.
    skipped: BTreeSet<usize>,
}

#[derive(Default)]
struct Report {
    paths: Vec<String>,
    columns: Vec<String>,
    cells: HashMap<(String, String), Cell>,
    reasons: Vec<String>,
    lines: HashSet<String>,
    failures: Vec<String>,
}

static REPORT: LazyLock<Mutex<Report>> = LazyLock::new(|| Mutex::new(Report::new()));

fn report() -> MutexGuard<'static, Report> {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // SAFETY: the handler is a function without captures that may run at any time while the process exits.
        unsafe { libc::atexit(print_table) };
    });
    REPORT.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn print_table() {
    let report = REPORT.lock().unwrap_or_else(PoisonError::into_inner);
    say(&report.to_string());
    if let Some(file) = std::env::var_os("IOLANE_CONFORMANCE_RECORD")
        && let Err(error) = std::fs::write(&file, report.record())
    {
        say(&format!("the record {}: {error}", file.display()));
    }
}

/// Writes a line past the harness's capture.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Gives the table a column for a target, in the order of the calls.
pub(crate) fn column(name: &str) {
    report().add_column(name);
}

pub(crate) fn passed(path: &str, column: &str) {
    report().cell(path, column).passed += 1;
}

pub(crate) fn failed(path: &str, column: &str, said: &str) {
    let mut report = report();
    report.cell(path, column).failed += 1;
    report.failures.push(format!("{path} on {column}: {said}"));
}

/// Says, the first time, that a path is not checked on a target, and notes it for the table.
pub(crate) fn skipped(path: &str, column: &str, target: &str, skip: &Skip) {
    let mut report = report();
    let reason = report.reason(skip.to_string());
    report.cell(path, column).skipped.insert(reason);
    let line = format!("SKIPPED conformance {path} on {target}: {skip}");
    if report.lines.insert(line.clone()) {
        say(&line);
    }
}

/// Prints, the first time, that a target is unavailable for every path.
pub(crate) fn skipped_everywhere(target: &str, skip: &Skip) {
    let line = format!("SKIPPED conformance every path on {target}: {skip}");
    if report().lines.insert(line.clone()) {
        say(&line);
    }
}

impl Report {
    /// A table of all paths; columns are added as targets turn up.
    fn new() -> Self {
        Self { paths: paths::all().iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    fn cell(&mut self, path: &str, column: &str) -> &mut Cell {
        self.add_column(column);
        self.cells.entry((path.into(), column.into())).or_default()
    }

    fn add_column(&mut self, column: &str) {
        if !self.columns.iter().any(|known| known == column) {
            self.columns.push(column.into());
        }
    }

    fn reason(&mut self, text: String) -> usize {
        self.reasons.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.reasons.push(text);
            self.reasons.len() - 1
        })
    }

    /// All of it for programs, as one JSON object.
    fn record(&self) -> String {
        let in_order = self.paths.iter().flat_map(|path| self.columns.iter().map(move |column| (path, column)));
        let row = |(path, device): (&String, &String)| {
            let cell = self.cells.get(&(path.clone(), device.clone()))?;
            let skipped: Vec<_> = cell.skipped.iter().map(|index| &self.reasons[*index]).collect();
            let (passed, failed) = (cell.passed, cell.failed);
            Some(json!({"path": path, "device": device, "passed": passed, "failed": failed, "skipped": skipped}))
        };
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let rows: Vec<_> = in_order.filter_map(row).collect();
        json!({"kernel": kernel, "rows": rows, "failures": self.failures}).to_string()
    }

    fn cell_text(&self, path: &str, column: &str) -> String {
        let Some(cell) = self.cells.get(&(path.into(), column.into())) else { return ".".into() };
        let letters: String = cell.skipped.iter().map(|index| letter(*index)).collect();
        match (cell.failed, cell.passed, letters.as_str()) {
            (0, 0, _) => letters,
            (0, passed, "") => passed.to_string(),
            (0, passed, _) => format!("{passed} {letters}"),
            (failed, _, _) => format!("{failed} FAILED"),
        }
    }
}

/// `a` to `z`, then numbers in brackets.
fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => char::from(b'a' + index).into(),
        _ => format!("[{index}]"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nconformance, path x target: checks passed; letters: some or all were skipped for the reason below"
        )?;
        let path_width = self.paths.iter().map(String::len).max().unwrap_or(0);
        let width_of = |column: &String| {
            let cells = self.paths.iter().map(|path| self.cell_text(path, column).len());
            cells.chain([column.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.columns.iter().map(width_of).collect();
        write!(f, "{:path_width$}", "path")?;
        for (column, width) in self.columns.iter().zip(&widths) {
            write!(f, " {column:>width$}")?;
        }
        for path in &self.paths {
            write!(f, "\n{path:path_width$}")?;
            for (column, width) in self.columns.iter().zip(&widths) {
                write!(f, " {:>width$}", self.cell_text(path, column))?;
            }
        }
        writeln!(f)?;
        for (index, reason) in self.reasons.iter().enumerate() {
            writeln!(f, "{}: {reason}", letter(index))?;
        }
        write!(f, ".: not applicable; only its own interface reaches a target without a descriptor")
    }
}
