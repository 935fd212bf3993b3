//! A study's results as CSV tables (RFC 4180): arms, runs, claims, skipped arms, the points of each chart.
//! `iolane report --csv` writes them. Headings name the units; numbers have all their digits.

use csv::{Terminator, WriterBuilder};
use iolane::{Error, Result};

use crate::charts::{Axis, Chart, Charts, Line, Unit};
use iolane_measure::workload::Workload;
use iolane_study::claims::Decision;
use iolane_study::plan::{Arm, Metric};
use iolane_study::results::{ArmReport, Loaded, Skipped, arm_reports};
use iolane_study::rows::Row;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvFile {
    /// Lower-case letters, digits and `-`, ending in `.csv`; unique within a study.
    pub name: String,
    pub text: String,
}

/// The tables of a study's results.
///
/// # Errors
/// `Failed` if a table cannot be written, which no results cause.
pub fn tables(loaded: &Loaded) -> Result<Vec<CsvFile>> {
    let mut tables = vec![
        arms(loaded).file("arms")?,
        claims(&loaded.document.claims).file("claims")?,
        skipped(&loaded.document.skipped).file("skipped")?,
        runs(&loaded.rows).file("runs")?,
    ];
    for chart in Charts::new(loaded).charts {
        tables.push(points(&chart).file(&format!("chart-{}", chart.id))?);
    }
    Ok(tables)
}

struct CsvTable {
    headings: Vec<String>,
    rows: Vec<Vec<CsvCell>>,
}

enum CsvCell {
    Text(String),
    Number(f64),
    /// Unavailable, or not applicable.
    Empty,
}

impl CsvCell {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn count(count: u64) -> Self {
        Self::Text(count.to_string())
    }

    fn number(number: Option<f64>) -> Self {
        number.filter(|number| number.is_finite()).map_or(Self::Empty, Self::Number)
    }

    fn shown(self) -> String {
        match self {
            Self::Text(text) => without_formula(text),
            Self::Number(number) => number.to_string(),
            Self::Empty => String::new(),
        }
    }
}

/// Text that no spreadsheet evaluates as a formula (<https://owasp.org/www-community/attacks/CSV_Injection>).
fn without_formula(text: String) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text,
    }
}

impl CsvTable {
    fn new(headings: &[&str], rows: Vec<Vec<CsvCell>>) -> Self {
        Self { headings: headings.iter().map(|heading| (*heading).to_owned()).collect(), rows }
    }

    fn file(self, name: &str) -> Result<CsvFile> {
        let failed = |error: &dyn std::fmt::Display| Error::failed(format!("table {name}"), error.to_string());
        let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
        writer.write_record(&self.headings).map_err(|error| failed(&error))?;
        for row in self.rows {
            writer.write_record(row.into_iter().map(CsvCell::shown)).map_err(|error| failed(&error))?;
        }
        let bytes = writer.into_inner().map_err(|error| failed(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| failed(&error))?;
        Ok(CsvFile { name: format!("{name}.csv"), text })
    }
}

/// The headings that identify an arm: `rw`, `read_percent` and so on by their names in study files.
fn arm_headings() -> Vec<&'static str> {
    let load = Workload::default().fields().map(|(name, _)| name);
    [&["path", "notation", "peer", "block_bytes_max"][..], &load, &["threads", "drives", "cores_limit"]].concat()
}

fn arm(arm: &Arm) -> Vec<CsvCell> {
    let mut cells = vec![
        CsvCell::text(&arm.name),
        CsvCell::text(arm.path.to_string()),
        CsvCell::text(arm.peer.clone().unwrap_or_default()),
        CsvCell::count(arm.workload.block_sizes.max().into()),
    ];
    let or_empty = |value: String| if value == Workload::NONE { CsvCell::Empty } else { CsvCell::text(value) };
    cells.extend(arm.workload.fields().map(|(_, value)| or_empty(value)));
    cells.extend([
        CsvCell::count(arm.threads as u64),
        CsvCell::count(arm.drives as u64),
        arm.cores.map_or(CsvCell::Empty, |cores| CsvCell::count(cores as u64)),
    ]);
    cells
}

fn arms(loaded: &Loaded) -> CsvTable {
    let figures = [
        "iops",
        "iops_low",
        "iops_high",
        "of_best",
        "of_best_low",
        "of_best_high",
        "keeps_rate",
        "bytes_per_s",
        "mean_ns",
        "p50_ns",
        "p99_ns",
        "p99_9_ns",
        "read_p99_ns",
        "write_p99_ns",
        "sync_p50_ns",
        "sync_p99_ns",
        "commit_p50_ns",
        "commit_p99_ns",
        "submit_p50_ns",
        "cores_used",
        "syscalls_per_io",
        "noise",
        "repeats",
        "rejected_runs",
    ];
    let row = |report: &ArmReport| {
        let of_best =
            |end: fn(&iolane_study::stats::Estimate) -> f64| CsvCell::number(report.of_best.as_ref().map(end));
        let whole = |value: Option<u64>| value.map_or(CsvCell::Empty, CsvCell::count);
        let mut row = arm(&report.arm);
        row.extend([
            CsvCell::Number(report.iops.value),
            CsvCell::Number(report.iops.low),
            CsvCell::Number(report.iops.high),
            of_best(|ratio| ratio.value),
            of_best(|ratio| ratio.low),
            of_best(|ratio| ratio.high),
            report.keeps_rate.map_or(CsvCell::Empty, |keeps| CsvCell::text(keeps.to_string())),
            CsvCell::Number(report.bytes_per_s),
            CsvCell::number(report.mean_ns),
            whole(report.p50_ns),
            whole(report.p99_ns),
            whole(report.p99_9_ns),
            whole(report.read_p99_ns),
            whole(report.write_p99_ns),
            whole(report.sync_p50_ns),
            whole(report.sync_p99_ns),
            whole(report.commit_p50_ns),
            whole(report.commit_p99_ns),
            CsvCell::number(report.submit_p50_ns),
            CsvCell::number(report.cores_used),
            CsvCell::number(report.syscalls_per_io),
            CsvCell::number(report.noise),
            CsvCell::count(report.iops_repeats.len() as u64),
            CsvCell::count(report.rejected_runs as u64),
        ]);
        row
    };
    let rows = arm_reports(&loaded.results(), &loaded.rows).iter().map(row).collect();
    CsvTable::new(&[&arm_headings()[..], &figures].concat(), rows)
}

fn claims(claims: &[Decision]) -> CsvTable {
    let row = |claim: &Decision| {
        let measured = claim.measured.as_deref().unwrap_or_default();
        let Decision { id, says, verdict, published, why, differs, .. } = claim;
        [id, says, verdict.name(), published, measured, why, differs].map(CsvCell::text).into()
    };
    let headings = ["id", "says", "verdict", "published", "measured", "why", "differs"];
    CsvTable::new(&headings, claims.iter().map(row).collect())
}

fn skipped(skipped: &[Skipped]) -> CsvTable {
    let row = |skipped: &Skipped| {
        let Skipped { path, arms, which, reason, remedy, failed } = skipped;
        let mut row = vec![CsvCell::text(path), CsvCell::count(*arms as u64)];
        row.extend([which, reason, remedy].map(CsvCell::text));
        row.push(CsvCell::text(failed.to_string()));
        row
    };
    CsvTable::new(&["path", "arms", "which", "reason", "remedy", "failed"], skipped.iter().map(row).collect())
}

fn runs(rows: &[Row]) -> CsvTable {
    let own = ["repeat", "attempt", "started_unix_s", "elapsed_s", "ios", "errors", "bytes", "rejected", "joules_from"];
    let row = |row: &Row| {
        let mut cells = arm(&row.arm);
        cells.extend([CsvCell::count(row.repeat.into()), CsvCell::count(row.attempt.into())]);
        cells.extend([CsvCell::Number(row.started_unix_s), CsvCell::Number(row.elapsed_s)]);
        cells.extend([row.ios, row.errors, row.bytes].map(CsvCell::count));
        cells.push(CsvCell::text(row.rejected.clone().unwrap_or_default()));
        cells.push(CsvCell::text(row.joules().map_or("", |joules| joules.source.as_str())));
        cells.extend(Metric::in_tables().map(|metric| CsvCell::number(row.metric(metric))));
        cells
    };
    let metrics: Vec<String> = Metric::in_tables().map(|metric| metric.to_string()).collect();
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
    CsvTable::new(&[&arm_headings()[..], &own, &metrics].concat(), rows.iter().map(row).collect())
}

/// A row for each measured and published point of a chart.
fn points(chart: &Chart) -> CsvTable {
    let heading = |axis: &Axis| format!("{}{}", axis.label, unit(axis.unit));
    let names = ["path", "notation", "from"].map(String::from);
    let axes = [heading(&chart.x), "at".into(), heading(&chart.y), "low".into(), "high".into()];
    let mut rows = Vec::new();
    for line in &chart.series {
        let begin = |from: &str| vec![CsvCell::text(&line.name), CsvCell::text(&line.path), CsvCell::text(from)];
        rows.extend(measured(chart, line).map(|cells| begin("measured").into_iter().chain(cells).collect::<Vec<_>>()));
        rows.extend(line.published.iter().map(|point| {
            let mut row = begin("published");
            row.extend([
                place(chart, point.x),
                CsvCell::Empty,
                CsvCell::Number(point.y),
                CsvCell::Empty,
                CsvCell::Empty,
            ]);
            row
        }));
    }
    CsvTable { headings: names.into_iter().chain(axes).collect(), rows }
}

fn measured<'a>(chart: &'a Chart, line: &'a Line) -> impl Iterator<Item = [CsvCell; 5]> {
    line.points.iter().map(|mark| {
        let at = if mark.at.is_empty() { CsvCell::Empty } else { CsvCell::text(&mark.at) };
        [place(chart, mark.x), at, CsvCell::Number(mark.y), CsvCell::number(mark.low), CsvCell::number(mark.high)]
    })
}

/// The category's name on an axis of categories.
fn place(chart: &Chart, x: f64) -> CsvCell {
    let name = chart.x.categories.get(x as usize);
    name.map_or(CsvCell::Number(x), CsvCell::text)
}

/// The end of a heading.
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
    use super::*;
    use iolane_study::plan::Scale;
    use iolane_study::results::fixtures::built_in_study;

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
            assert_eq!(without_formula(format!("{begin}1")), format!("'{begin}1"));
        }
        assert_eq!(CsvCell::Number(-1.5).shown(), "-1.5", "a number stays one");
    }
}
