//! The columns of `records.parquet`: how each is filled from a row, and how a row is read back. The columns of figures
//! come from the figures' table; a figure that a file lacks is read as missing. `parquet.rs` writes and reads the file.

use hdrhistogram::Histogram;
use iolane::Error;
use iolane_application::Application;
use iolane_measure::figures::{FIGURES, FigureInfo, FigureValue, RunFigure, RunFigures, StoredFigure, ValueType};
use iolane_measure::telemetry::{Reading, Sourced, ThreadUse};
use iolane_measure::workload::{Rate, Workload};
use parquet::record::{Field, Row as Record};
use serde::{Deserialize, Serialize};

use super::histogram;
use super::row::Row;
use super::warning::Warning;
use crate::plan::{Arm, Metric, Percentile, Requests};

/// The value of a column in one row.
pub(super) enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
    Real(Option<f64>),
    Flag(bool),
    Numbers(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<String>),
}

/// A column: its name, its type and its source in a row.
pub(super) struct Column {
    pub(super) name: &'static str,
    kind: Kind,
    cell: CellOf,
}

enum CellOf {
    Field(fn(&Row) -> Cell),
    Figure(RunFigure),
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    OptionalText,
    Number,
    OptionalNumber,
    Real,
    OptionalReal,
    Flag,
    Numbers,
    Reals,
    Texts,
}

fn text(value: impl ToString) -> Cell {
    Cell::Text(Some(value.to_string()))
}

/// Counts fit into `i64`: none comes near 2^63.
fn number(value: impl TryInto<i64>) -> Cell {
    Cell::Number(Some(value.try_into().unwrap_or(i64::MAX)))
}

fn count(value: Option<u64>) -> Cell {
    Cell::Number(value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
}

fn halves(histogram: &Histogram<u64>, half: fn((u64, u64)) -> u64) -> Cell {
    Cell::Numbers(histogram::pairs(histogram).into_iter().map(|pair| half(pair) as i64).collect())
}

fn p99_of(row: &Row, requests: Requests) -> Cell {
    Cell::Real(row.metric(Metric::LatencyNs(requests, Percentile::P99)))
}

/// A column that every row has, on any machine.
struct FixedColumn {
    name: &'static str,
    kind: Kind,
    cell: fn(&Row) -> Cell,
}

/// The fixed columns; the columns of figures follow them.
const FIXED: &[FixedColumn] = &[
    FixedColumn { name: "name", kind: Kind::Text, cell: |row| text(&row.arm.name) },
    FixedColumn { name: "path", kind: Kind::Text, cell: |row| text(&row.arm.path) },
    FixedColumn { name: "peer", kind: Kind::OptionalText, cell: |row| Cell::Text(row.arm.peer.clone()) },
    FixedColumn {
        name: "application",
        kind: Kind::OptionalText,
        cell: |row| Cell::Text(row.arm.application.map(|application| application.name().to_owned())),
    },
    FixedColumn { name: "rw", kind: Kind::Text, cell: |row| text(row.arm.workload.access) },
    FixedColumn {
        name: "read_percent",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.workload.read_percent.map(u64::from)),
    },
    FixedColumn { name: "bs", kind: Kind::Text, cell: |row| text(&row.arm.workload.block_sizes) },
    FixedColumn { name: "offsets", kind: Kind::Text, cell: |row| text(row.arm.workload.offsets) },
    FixedColumn { name: "align", kind: Kind::OptionalNumber, cell: |row| count(row.arm.workload.align.map(u64::from)) },
    FixedColumn { name: "depth", kind: Kind::Number, cell: |row| number(row.arm.workload.depth) },
    FixedColumn {
        name: "batch_submit",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.workload.batch_submit.map(u64::from)),
    },
    FixedColumn {
        name: "batch_complete",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.workload.batch_complete.map(u64::from)),
    },
    FixedColumn {
        name: "batch_complete_max",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.workload.batch_complete_max.map(u64::from)),
    },
    FixedColumn {
        name: "fsync_every",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.workload.fsync_every.map(u64::from)),
    },
    FixedColumn {
        name: "fdatasync_every",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.workload.fdatasync_every.map(u64::from)),
    },
    FixedColumn {
        name: "rate",
        kind: Kind::OptionalReal,
        cell: |row| Cell::Real(row.arm.workload.rate.map(Rate::per_s)),
    },
    FixedColumn { name: "arrivals", kind: Kind::Text, cell: |row| text(row.arm.workload.arrivals) },
    FixedColumn { name: "think_us", kind: Kind::OptionalNumber, cell: |row| count(row.arm.workload.think_us) },
    FixedColumn { name: "data", kind: Kind::Text, cell: |row| text(row.arm.workload.data) },
    FixedColumn { name: "durable", kind: Kind::Flag, cell: |row| Cell::Flag(row.arm.workload.durable) },
    FixedColumn { name: "verify", kind: Kind::Flag, cell: |row| Cell::Flag(row.arm.workload.verify) },
    FixedColumn { name: "start", kind: Kind::Number, cell: |row| number(row.arm.workload.start) },
    FixedColumn { name: "size", kind: Kind::OptionalNumber, cell: |row| count(row.arm.workload.size) },
    FixedColumn { name: "bytes_max", kind: Kind::OptionalNumber, cell: |row| count(row.arm.workload.bytes_max) },
    FixedColumn { name: "seed", kind: Kind::Text, cell: |row| text(row.arm.workload.seed) },
    FixedColumn { name: "threads", kind: Kind::Number, cell: |row| number(row.arm.threads) },
    FixedColumn { name: "drives", kind: Kind::Number, cell: |row| number(row.arm.drives) },
    FixedColumn {
        name: "cores_limit",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.cores.map(|cores| cores as u64)),
    },
    FixedColumn { name: "targets", kind: Kind::Text, cell: |row| text(&row.targets) },
    FixedColumn { name: "cpus", kind: Kind::OptionalText, cell: |row| Cell::Text(row.cpus.clone()) },
    FixedColumn { name: "sqpoll_cpus", kind: Kind::OptionalText, cell: |row| Cell::Text(row.sqpoll_cpus.clone()) },
    FixedColumn { name: "repeat", kind: Kind::Number, cell: |row| number(row.repeat) },
    FixedColumn { name: "attempt", kind: Kind::Number, cell: |row| number(row.attempt) },
    FixedColumn { name: "rejected", kind: Kind::OptionalText, cell: |row| Cell::Text(row.rejected.clone()) },
    FixedColumn { name: "started_unix_s", kind: Kind::Real, cell: |row| Cell::Real(Some(row.started_unix_s)) },
    FixedColumn { name: "elapsed_s", kind: Kind::Real, cell: |row| Cell::Real(Some(row.elapsed_s)) },
    FixedColumn { name: "ios", kind: Kind::Number, cell: |row| number(row.ios) },
    FixedColumn { name: "errors", kind: Kind::Number, cell: |row| number(row.errors) },
    FixedColumn { name: "bytes", kind: Kind::Number, cell: |row| number(row.bytes) },
    FixedColumn { name: "mean_ns", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.mean_ns) },
    // Computed from the row for those who query the file; reading it back computes them anew.
    FixedColumn { name: "iops", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.metric(Metric::Iops)) },
    FixedColumn { name: "p50_ns", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.metric(Metric::P50)) },
    FixedColumn { name: "p99_ns", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.metric(Metric::P99)) },
    FixedColumn { name: "read_p99_ns", kind: Kind::OptionalReal, cell: |row| p99_of(row, Requests::Reads) },
    FixedColumn { name: "write_p99_ns", kind: Kind::OptionalReal, cell: |row| p99_of(row, Requests::Writes) },
    FixedColumn { name: "sync_p99_ns", kind: Kind::OptionalReal, cell: |row| p99_of(row, Requests::Syncs) },
    FixedColumn { name: "commit_p99_ns", kind: Kind::OptionalReal, cell: |row| p99_of(row, Requests::Commits) },
    FixedColumn { name: "latency_ns", kind: Kind::Numbers, cell: |row| halves(&row.latency, |(value, _)| value) },
    FixedColumn { name: "latency_count", kind: Kind::Numbers, cell: |row| halves(&row.latency, |(_, count)| count) },
    FixedColumn { name: "write_latency_ns", kind: Kind::Numbers, cell: |row| halves(&row.writes, |(value, _)| value) },
    FixedColumn {
        name: "write_latency_count",
        kind: Kind::Numbers,
        cell: |row| halves(&row.writes, |(_, count)| count),
    },
    FixedColumn { name: "sync_latency_ns", kind: Kind::Numbers, cell: |row| halves(&row.syncs, |(value, _)| value) },
    FixedColumn { name: "sync_latency_count", kind: Kind::Numbers, cell: |row| halves(&row.syncs, |(_, count)| count) },
    FixedColumn {
        name: "commit_latency_ns",
        kind: Kind::Numbers,
        cell: |row| halves(&row.commits, |(value, _)| value),
    },
    FixedColumn {
        name: "commit_latency_count",
        kind: Kind::Numbers,
        cell: |row| halves(&row.commits, |(_, count)| count),
    },
    FixedColumn { name: "submit_ns", kind: Kind::Numbers, cell: |row| halves(&row.submit, |(value, _)| value) },
    FixedColumn { name: "submit_count", kind: Kind::Numbers, cell: |row| halves(&row.submit, |(_, count)| count) },
    FixedColumn {
        name: "thread_names",
        kind: Kind::Texts,
        cell: |row| Cell::Texts(row.threads.iter().map(|thread| thread.name.clone()).collect()),
    },
    FixedColumn {
        name: "thread_cpu_s",
        kind: Kind::Reals,
        cell: |row| Cell::Reals(row.threads.iter().map(|thread| thread.cpu_s).collect()),
    },
    FixedColumn { name: "rates", kind: Kind::Reals, cell: |row| Cell::Reals(row.rates.clone()) },
    FixedColumn {
        name: "warnings",
        kind: Kind::Texts,
        cell: |row| Cell::Texts(row.warnings.iter().map(json_text).collect()),
    },
    FixedColumn {
        name: "figure_origins",
        kind: Kind::Texts,
        cell: |row| {
            Cell::Texts(row.figures.iter().map(|(figure, reading)| json_text(&Origin::new(figure, reading))).collect())
        },
    },
];

/// Every column, in the order of the file.
pub(super) fn columns() -> Vec<Column> {
    let fixed =
        FIXED.iter().map(|column| Column { name: column.name, kind: column.kind, cell: CellOf::Field(column.cell) });
    let figures = FIGURES.iter().map(|info| Column {
        name: info.name,
        kind: match info.value_type {
            ValueType::Count => Kind::OptionalNumber,
            ValueType::Real => Kind::OptionalReal,
            ValueType::Text => Kind::OptionalText,
        },
        cell: CellOf::Figure(info.figure),
    });
    fixed.chain(figures).collect()
}

/// The source of a figure, or why it is unavailable; its value is in the figure's own column.
#[derive(Serialize, Deserialize)]
struct Origin {
    figure: String,
    #[serde(flatten)]
    stored: StoredFigure,
}

impl Origin {
    fn new(figure: RunFigure, reading: &Reading<Sourced<FigureValue>>) -> Self {
        Self { figure: figure.name().into(), stored: StoredFigure { value: None, ..StoredFigure::new(reading) } }
    }
}

/// Values of texts, numbers and booleans always serialise.
fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn figure_cell(value: Option<&FigureValue>, kind: Kind) -> Cell {
    match (kind, value) {
        (Kind::OptionalNumber, Some(FigureValue::Count(value))) => count(Some(*value)),
        (Kind::OptionalNumber, _) => Cell::Number(None),
        (Kind::OptionalReal, value) => Cell::Real(value.and_then(FigureValue::number)),
        (_, Some(FigureValue::Text(value))) => Cell::Text(Some(value.clone())),
        (_, _) => Cell::Text(None),
    }
}

impl Column {
    pub(super) fn cell(&self, row: &Row) -> Cell {
        match self.cell {
            CellOf::Field(cell) => cell(row),
            CellOf::Figure(figure) => figure_cell(row.figures.known(figure).map(|sourced| &sourced.value), self.kind),
        }
    }

    /// The column's declaration in Parquet's schema language.
    pub(super) fn declaration(&self) -> String {
        let name = self.name;
        let list =
            |element| format!("required group {name} (LIST) {{ repeated group list {{ required {element}; }} }}");
        match self.kind {
            Kind::Text => format!("required binary {name} (STRING);"),
            Kind::OptionalText => format!("optional binary {name} (STRING);"),
            Kind::Number => format!("required int64 {name};"),
            Kind::OptionalNumber => format!("optional int64 {name};"),
            Kind::Real => format!("required double {name};"),
            Kind::OptionalReal => format!("optional double {name};"),
            Kind::Flag => format!("required boolean {name};"),
            Kind::Numbers => list("int64 element"),
            Kind::Reals => list("double element"),
            Kind::Texts => list("binary element (STRING)"),
        }
    }

    pub(super) fn is_optional(&self) -> bool {
        matches!(self.kind, Kind::OptionalText | Kind::OptionalNumber | Kind::OptionalReal)
    }
}

/// A record's fields by name.
pub(super) struct Fields<'a>(Vec<(&'a String, &'a Field)>);

impl<'a> Fields<'a> {
    pub(super) fn new(record: &'a Record) -> Self {
        Self(record.get_column_iter().collect())
    }

    pub(super) fn row(&self) -> Result<Row, String> {
        let arm = Arm {
            name: self.text("name")?,
            path: self.parsed("path")?,
            peer: self.optional_text("peer")?,
            application: self.application()?,
            workload: self.workload()?,
            threads: self.count("threads")?,
            drives: self.count("drives")?,
            cores: self.optional_count("cores_limit")?,
        };
        Ok(Row {
            targets: self.text("targets")?,
            cpus: self.optional_text("cpus")?,
            sqpoll_cpus: self.optional_text("sqpoll_cpus")?,
            attempt: self.count("attempt")?,
            rejected: self.optional_text("rejected")?,
            started_unix_s: self.real("started_unix_s")?,
            elapsed_s: self.real("elapsed_s")?,
            ios: self.count("ios")?,
            errors: self.count("errors")?,
            bytes: self.count("bytes")?,
            mean_ns: self.optional_real("mean_ns")?,
            latency: self.histogram("latency_ns", "latency_count")?,
            writes: self.histogram("write_latency_ns", "write_latency_count")?,
            syncs: self.histogram("sync_latency_ns", "sync_latency_count")?,
            commits: self.histogram("commit_latency_ns", "commit_latency_count")?,
            submit: self.histogram("submit_ns", "submit_count")?,
            threads: self.threads()?,
            rates: self.reals("rates")?,
            figures: self.figures()?,
            warnings: self.warnings()?,
            ..Row::new(arm, self.count("repeat")?)
        })
    }

    /// Files from before there were applications have no such column.
    fn application(&self) -> Result<Option<Application>, String> {
        let name = self.optional_text("application").unwrap_or_default();
        name.map(|name| name.parse()).transpose().map_err(|error: Error| error.to_string())
    }

    fn workload(&self) -> Result<Workload, String> {
        Ok(Workload {
            access: self.parsed("rw")?,
            read_percent: self.optional_count("read_percent")?,
            block_sizes: self.parsed("bs")?,
            offsets: self.parsed("offsets")?,
            align: self.optional_count("align")?,
            depth: self.count("depth")?,
            batch_submit: self.optional_count("batch_submit")?,
            batch_complete: self.optional_count("batch_complete")?,
            batch_complete_max: self.optional_count("batch_complete_max")?,
            fsync_every: self.optional_count("fsync_every")?,
            fdatasync_every: self.optional_count("fdatasync_every")?,
            rate: match self.optional_real("rate")? {
                Some(per_s) => Some(Rate::new(per_s).map_err(|error| format!("column rate: {error}"))?),
                None => None,
            },
            arrivals: self.parsed("arrivals")?,
            think_us: self.optional_count("think_us")?,
            data: self.parsed("data")?,
            durable: self.flag("durable")?,
            verify: self.flag("verify")?,
            start: self.count::<i64>("start")?.unsigned_abs(),
            size: self.optional_count("size")?,
            bytes_max: self.optional_count("bytes_max")?,
            seed: self.parsed("seed")?,
        })
    }

    fn field(&self, name: &str) -> Result<&Field, String> {
        let found = self.0.iter().find(|(known, _)| known.as_str() == name);
        found.map(|(_, field)| *field).ok_or_else(|| format!("there is no column {name}"))
    }

    fn optional<T>(&self, name: &str, value: impl Fn(&Field) -> Option<T>) -> Result<Option<T>, String> {
        match self.field(name)? {
            Field::Null => Ok(None),
            field => value(field).map(Some).ok_or_else(|| format!("column {name} has another type")),
        }
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        self.optional(name, |field| if let Field::Str(text) = field { Some(text.clone()) } else { None })
    }

    fn optional_real(&self, name: &str) -> Result<Option<f64>, String> {
        self.optional(name, |field| if let Field::Double(value) = field { Some(*value) } else { None })
    }

    fn optional_count<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>, String> {
        self.optional(name, |field| if let Field::Long(value) = field { T::try_from(*value).ok() } else { None })
    }

    fn text(&self, name: &str) -> Result<String, String> {
        self.optional_text(name)?.ok_or_else(|| format!("column {name} has no value"))
    }

    fn real(&self, name: &str) -> Result<f64, String> {
        self.optional_real(name)?.ok_or_else(|| format!("column {name} has no value"))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.field(name)? {
            Field::Bool(flag) => Ok(*flag),
            _ => Err(format!("column {name} is no boolean")),
        }
    }

    fn count<T: TryFrom<i64>>(&self, name: &str) -> Result<T, String> {
        self.optional_count(name)?.ok_or_else(|| format!("column {name} has no value"))
    }

    fn parsed<T: std::str::FromStr<Err: ToString>>(&self, name: &str) -> Result<T, String> {
        self.text(name)?.parse().map_err(|error: T::Err| error.to_string())
    }

    fn list<T>(&self, name: &str, value: impl Fn(&Field) -> Option<T>) -> Result<Vec<T>, String> {
        match self.field(name)? {
            Field::ListInternal(list) => list
                .elements()
                .iter()
                .map(&value)
                .collect::<Option<_>>()
                .ok_or_else(|| format!("column {name} has another type")),
            _ => Err(format!("column {name} is not a list")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        self.list(name, |field| if let Field::Str(text) = field { Some(text.clone()) } else { None })
    }

    fn reals(&self, name: &str) -> Result<Vec<f64>, String> {
        self.list(name, |field| if let Field::Double(value) = field { Some(*value) } else { None })
    }

    fn threads(&self) -> Result<Vec<ThreadUse>, String> {
        let (names, seconds) = (self.texts("thread_names")?, self.reals("thread_cpu_s")?);
        if names.len() != seconds.len() {
            return Err("thread_names and thread_cpu_s differ in length".into());
        }
        Ok(names.into_iter().zip(seconds).map(|(name, cpu_s)| ThreadUse { name, cpu_s }).collect())
    }

    fn warnings(&self) -> Result<Vec<Warning>, String> {
        let warning = |text: &String| serde_json::from_str(text).map_err(|error| format!("column warnings: {error}"));
        self.texts("warnings")?.iter().map(warning).collect()
    }

    /// A figure whose column the file lacks, because it is newer than the file, was not filled in.
    fn figures(&self) -> Result<RunFigures, String> {
        let mut figures = RunFigures::default();
        for text in self.texts("figure_origins")? {
            let Origin { figure, stored } =
                serde_json::from_str(&text).map_err(|error| format!("column figure_origins: {error}"))?;
            let Some(figure) = RunFigure::named(&figure) else { continue };
            let stored = StoredFigure { value: self.figure_value(figure.info())?, ..stored };
            figures.set(figure, stored.reading(figure)?);
        }
        Ok(figures)
    }

    fn figure_value(&self, info: &FigureInfo) -> Result<Option<FigureValue>, String> {
        if self.field(info.name).is_err() {
            return Ok(None);
        }
        Ok(match info.value_type {
            ValueType::Count => self.optional_count(info.name)?.map(FigureValue::Count),
            ValueType::Real => self.optional_real(info.name)?.map(FigureValue::Real),
            ValueType::Text => self.optional_text(info.name)?.map(FigureValue::Text),
        })
    }

    fn histogram(&self, values: &str, counts: &str) -> Result<Histogram<u64>, String> {
        let numbers = |name| {
            self.list(name, |field| if let Field::Long(value) = field { u64::try_from(*value).ok() } else { None })
        };
        let (times, often) = (numbers(values)?, numbers(counts)?);
        if times.len() != often.len() {
            return Err(format!("{values} and {counts} differ in length"));
        }
        histogram::from_pairs(times.into_iter().zip(often)).map_err(|error| format!("column {values}: {error}"))
    }
}
