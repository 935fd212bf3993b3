//! Every table of a study's results as CSV (RFC 4180): arms, the points of each chart, claims, what was skipped, runs.
//! `iolane report --csv` writes them. Units stand in the headings; numbers are whole, as they were measured.

use csv::{Terminator, WriterBuilder};
use iolane::{Error, Result};
use serde_json::Value;

use super::charts::{Axis, Chart, Charts, Line, Unit};
use super::{ArmReport, Loaded, Skipped, arm_reports};
use crate::plan::{Arm, Metric};
use crate::records::Row;

/// A file of comma-separated values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvFile {
    /// Its name: lower-case letters, digits and `-`, ending in `.csv`; no two tables of a study have the same.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// The tables of a study's results.
///
/// # Errors
/// `Failed` if a table cannot be put together, which no results should bring about.
pub fn tables(loaded: &Loaded) -> Result<Vec<CsvFile>> {
    let mut tables = vec![
        arms(loaded).file("arms")?,
        claims(&loaded.json["claims"]).file("claims")?,
        skipped(&loaded.document.skipped).file("skipped")?,
        runs(&loaded.rows).file("runs")?,
    ];
    for chart in Charts::new(loaded).charts {
        tables.push(points(&chart).file(&format!("chart-{}", chart.id))?);
    }
    Ok(tables)
}

struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

enum Cell {
    Text(String),
    Number(f64),
    /// What could not be had, and what there is none of.
    Nothing,
}

impl Cell {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn count(count: u64) -> Self {
        Self::Text(count.to_string())
    }

    fn number(number: Option<f64>) -> Self {
        number.filter(|number| number.is_finite()).map_or(Self::Nothing, Self::Number)
    }

    fn shown(self) -> String {
        match self {
            Self::Text(text) => harmless(text),
            Self::Number(number) => number.to_string(),
            Self::Nothing => String::new(),
        }
    }
}

/// Text that no spreadsheet takes for a formula (<https://owasp.org/www-community/attacks/CSV_Injection>).
fn harmless(text: String) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text,
    }
}

impl Table {
    fn new(headings: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        Self { headings: headings.iter().map(|heading| (*heading).to_owned()).collect(), rows }
    }

    fn file(self, name: &str) -> Result<CsvFile> {
        let failed = |error: &dyn std::fmt::Display| Error::failed(format!("table {name}"), error.to_string());
        let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
        writer.write_record(&self.headings).map_err(|error| failed(&error))?;
        for row in self.rows {
            writer.write_record(row.into_iter().map(Cell::shown)).map_err(|error| failed(&error))?;
        }
        let bytes = writer.into_inner().map_err(|error| failed(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| failed(&error))?;
        Ok(CsvFile { name: format!("{name}.csv"), text })
    }
}

/// The headings of what an arm is.
const ARM: [&str; 9] =
    ["path", "notation", "peer", "access", "block_bytes_max", "depth", "threads", "drives", "cores_limit"];

fn arm(arm: &Arm) -> Vec<Cell> {
    vec![
        Cell::text(&arm.name),
        Cell::text(arm.path.to_string()),
        Cell::text(arm.peer.clone().unwrap_or_default()),
        Cell::text(arm.rw.to_string()),
        Cell::count(arm.bs.max().into()),
        Cell::count(arm.depth.into()),
        Cell::count(arm.threads as u64),
        Cell::count(arm.drives as u64),
        arm.cores.map_or(Cell::Nothing, |cores| Cell::count(cores as u64)),
    ]
}

fn arms(loaded: &Loaded) -> Table {
    let figures = [
        "iops",
        "iops_low",
        "iops_high",
        "of_best",
        "of_best_low",
        "of_best_high",
        "bytes_per_s",
        "mean_ns",
        "p50_ns",
        "p99_ns",
        "p99_9_ns",
        "submit_p50_ns",
        "cores_used",
        "syscalls_per_io",
        "noise",
        "repeats",
        "worthless_runs",
    ];
    let row = |report: &ArmReport| {
        let of_best = |end: fn(&crate::stats::Estimate) -> f64| Cell::number(report.of_best.as_ref().map(end));
        let whole = |value: Option<u64>| value.map_or(Cell::Nothing, Cell::count);
        let mut row = arm(&report.arm);
        row.extend([
            Cell::Number(report.iops.value),
            Cell::Number(report.iops.low),
            Cell::Number(report.iops.high),
            of_best(|ratio| ratio.value),
            of_best(|ratio| ratio.low),
            of_best(|ratio| ratio.high),
            Cell::Number(report.bytes_per_s),
            Cell::number(report.mean_ns),
            whole(report.p50_ns),
            whole(report.p99_ns),
            whole(report.p99_9_ns),
            Cell::number(report.submit_p50_ns),
            Cell::number(report.cores_used),
            Cell::number(report.syscalls_per_io),
            Cell::number(report.noise),
            Cell::count(report.iops_repeats.len() as u64),
            Cell::count(report.worthless_runs as u64),
        ]);
        row
    };
    let rows = arm_reports(&loaded.results(), &loaded.rows).iter().map(row).collect();
    Table::new(&[&ARM[..], &figures].concat(), rows)
}

fn claims(claims: &Value) -> Table {
    const KEYS: [&str; 7] = ["id", "says", "verdict", "published", "measured", "why", "differs"];
    let row = |claim: &Value| KEYS.iter().map(|key| Cell::text(claim[key].as_str().unwrap_or_default())).collect();
    Table::new(&KEYS, claims.as_array().into_iter().flatten().map(row).collect())
}

fn skipped(skipped: &[Skipped]) -> Table {
    let row = |skipped: &Skipped| {
        let Skipped { path, arms, which, reason, remedy, failed } = skipped;
        let mut row = vec![Cell::text(path), Cell::count(*arms as u64)];
        row.extend([which, reason, remedy].map(Cell::text));
        row.push(Cell::text(failed.to_string()));
        row
    };
    Table::new(&["path", "arms", "which", "reason", "remedy", "failed"], skipped.iter().map(row).collect())
}

/// What a run says for itself, under the name that studies give it.
const METRICS: [(&str, Metric); 18] = [
    ("iops", Metric::Iops),
    ("bytes_per_s", Metric::BytesPerS),
    ("mean_ns", Metric::MeanNs),
    ("p50_ns", Metric::P50Ns),
    ("p99_ns", Metric::P99Ns),
    ("submit_p50_ns", Metric::SubmitP50Ns),
    ("syscalls_per_io", Metric::SyscallsPerIo),
    ("context_switches_per_io", Metric::ContextSwitchesPerIo),
    ("interrupts_per_io", Metric::InterruptsPerIo),
    ("cores", Metric::Cores),
    ("cpu_s_per_million_ios", Metric::CpuSPerMillionIos),
    ("cache_miss_rate", Metric::CacheMissRate),
    ("cycles_per_io", Metric::CyclesPerIo),
    ("instructions_per_io", Metric::InstructionsPerIo),
    ("ios_per_joule", Metric::IosPerJoule),
    ("ios_per_joule_above_idle", Metric::IosPerJouleAboveIdle),
    ("watts", Metric::Watts),
    ("watts_above_idle", Metric::WattsAboveIdle),
];

fn runs(rows: &[Row]) -> Table {
    let own =
        ["repeat", "attempt", "started_unix_s", "elapsed_s", "ios", "errors", "bytes", "worthless", "joules_from"];
    let row = |row: &Row| {
        let mut cells = arm(&row.arm);
        cells.extend([Cell::count(row.repeat.into()), Cell::count(row.attempt.into())]);
        cells.extend([Cell::Number(row.started_unix_s), Cell::Number(row.elapsed_s)]);
        cells.extend([row.ios, row.errors, row.bytes].map(Cell::count));
        cells.push(Cell::text(row.worthless.clone().unwrap_or_default()));
        cells.push(Cell::text(row.sources.get("joules").map_or("", String::as_str)));
        cells.extend(METRICS.map(|(_, metric)| Cell::number(row.metric(metric))));
        cells
    };
    let metrics = METRICS.map(|(name, _)| name);
    Table::new(&[&ARM[..], &own, &metrics].concat(), rows.iter().map(row).collect())
}

/// A row for each point of a chart, measured and published.
fn points(chart: &Chart) -> Table {
    let heading = |axis: &Axis| format!("{}{}", axis.label, unit(axis.unit));
    let names = ["path", "notation", "from"].map(String::from);
    let axes = [heading(&chart.x), "at".into(), heading(&chart.y), "low".into(), "high".into()];
    let mut rows = Vec::new();
    for line in &chart.series {
        let begin = |from: &str| vec![Cell::text(&line.name), Cell::text(&line.path), Cell::text(from)];
        rows.extend(measured(chart, line).map(|cells| begin("measured").into_iter().chain(cells).collect::<Vec<_>>()));
        rows.extend(line.published.iter().map(|point| {
            let mut row = begin("published");
            row.extend([place(chart, point.x), Cell::Nothing, Cell::Number(point.y), Cell::Nothing, Cell::Nothing]);
            row
        }));
    }
    Table { headings: names.into_iter().chain(axes).collect(), rows }
}

fn measured<'a>(chart: &'a Chart, line: &'a Line) -> impl Iterator<Item = [Cell; 5]> {
    line.points.iter().map(|mark| {
        let at = if mark.at.is_empty() { Cell::Nothing } else { Cell::text(&mark.at) };
        [place(chart, mark.x), at, Cell::Number(mark.y), Cell::number(mark.low), Cell::number(mark.high)]
    })
}

/// A name where the axis is one of names.
fn place(chart: &Chart, x: f64) -> Cell {
    let name = chart.x.categories.get(x as usize);
    name.map_or(Cell::Number(x), Cell::text)
}

/// What stands behind a heading.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Number | Unit::Count => "",
        Unit::Nanoseconds => " (ns)",
        Unit::Seconds => " (s)",
        Unit::Bytes => " (bytes)",
        Unit::BytesPerSecond => " (bytes/s)",
        Unit::Share => " (share, 0 to 1)",
        Unit::Watts => " (W)",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::built_in_study;
    use super::*;
    use crate::plan::Scale;

    fn table(tables: &[CsvFile], name: &str) -> Vec<csv::StringRecord> {
        let file = tables.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}"));
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(file.text.as_bytes());
        reader.records().map(|record| record.unwrap()).collect()
    }

    #[test]
    fn every_table_reads_back_with_as_many_cells_in_each_row() {
        let loaded = built_in_study("systor22", Scale::Scaled);
        let tables = tables(&loaded).unwrap();
        for file in &tables {
            let records = table(&tables, &file.name);
            assert!(records.iter().all(|record| record.len() == records[0].len()), "{}", file.name);
            assert!(file.text.ends_with("\r\n"), "{}", file.name);
        }
        assert_eq!(table(&tables, "runs.csv").len(), loaded.rows.len() + 1);
        assert_eq!(table(&tables, "arms.csv").len(), loaded.results().arms.len() + 1);
        let chart = table(&tables, "chart-figure-2d.csv");
        assert_eq!(&chart[0][3], "IOPS");
        assert_eq!(&chart[0][5], "median latency (ns)");
        assert!(chart.iter().any(|row| &row[2] == "published" && &row[3] == "79000" && &row[5] == "185000"));
    }

    #[test]
    fn numbers_are_those_of_the_runs_to_the_last_digit() {
        let loaded = built_in_study("ijraset24", Scale::Scaled);
        let tables = tables(&loaded).unwrap();
        let runs = table(&tables, "runs.csv");
        let iops = runs[0].iter().position(|heading| heading == "iops").unwrap();
        for (row, record) in loaded.rows.iter().zip(&runs[1..]) {
            assert_eq!(record[iops].parse::<f64>().ok(), row.metric(Metric::Iops));
        }
    }

    #[test]
    fn a_name_is_no_formula_and_breaks_no_row() {
        let mut loaded = built_in_study("ijraset24", Scale::Scaled);
        loaded.rows.iter_mut().for_each(|row| row.arm.name = "=cmd|'/c calc'!A1,\"x\"\n".into());
        let tables = tables(&loaded).unwrap();
        let records = table(&tables, "runs.csv");
        assert_eq!(&records[1][0], "'=cmd|'/c calc'!A1,\"x\"\n");
        assert_eq!(records.len(), loaded.rows.len() + 1);
        for begin in ["+", "-", "@", "\t"] {
            assert_eq!(harmless(format!("{begin}1")), format!("'{begin}1"));
        }
        assert_eq!(Cell::Number(-1.5).shown(), "-1.5", "a number stays one");
    }
}
