//! `records.parquet`: a row for each run, histograms as two lists (values in nanoseconds, and how often each came), so that
//! any program that reads Parquet can merge them. Written whole; read back only if it is what was written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::sync::Arc;

use hdrhistogram::Histogram;
use iolane::{Error, Result};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row as Record};
use parquet::schema::parser::parse_message_type;

use super::{Row, ThreadUse, histogram};
use crate::plan::Arm;

/// The name and version of this form, in the file's metadata under `schema`.
pub const SCHEMA: &str = "iolane.records/2";

/// What a column holds of a row.
enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
    Real(Option<f64>),
    Numbers(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<String>),
}

/// A column: its name, its type in Parquet's notation, and what it holds.
struct Column {
    name: &'static str,
    kind: Kind,
    cell: fn(&Row) -> Cell,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    OptionalText,
    Number,
    OptionalNumber,
    Real,
    OptionalReal,
    Numbers,
    Reals,
    Texts,
}

fn text(value: impl ToString) -> Cell {
    Cell::Text(Some(value.to_string()))
}

/// Counts fit: none comes near 2^63.
fn number(value: impl TryInto<i64>) -> Cell {
    Cell::Number(Some(value.try_into().unwrap_or(i64::MAX)))
}

fn count(value: Option<u64>) -> Cell {
    Cell::Number(value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
}

fn halves(histogram: &Histogram<u64>, half: fn((u64, u64)) -> u64) -> Cell {
    Cell::Numbers(histogram::pairs(histogram).into_iter().map(|pair| half(pair) as i64).collect())
}

const COLUMNS: &[Column] = &[
    Column { name: "name", kind: Kind::Text, cell: |row| text(&row.arm.name) },
    Column { name: "path", kind: Kind::Text, cell: |row| text(&row.arm.path) },
    Column { name: "peer", kind: Kind::OptionalText, cell: |row| Cell::Text(row.arm.peer.clone()) },
    Column { name: "rw", kind: Kind::Text, cell: |row| text(row.arm.rw) },
    Column { name: "bs", kind: Kind::Text, cell: |row| text(&row.arm.bs) },
    Column { name: "depth", kind: Kind::Number, cell: |row| number(row.arm.depth) },
    Column { name: "threads", kind: Kind::Number, cell: |row| number(row.arm.threads) },
    Column { name: "drives", kind: Kind::Number, cell: |row| number(row.arm.drives) },
    Column {
        name: "cores_limit",
        kind: Kind::OptionalNumber,
        cell: |row| count(row.arm.cores.map(|cores| cores as u64)),
    },
    Column { name: "targets", kind: Kind::Text, cell: |row| text(&row.targets) },
    Column { name: "cpus", kind: Kind::OptionalText, cell: |row| Cell::Text(row.cpus.clone()) },
    Column { name: "spoll_cpus", kind: Kind::OptionalText, cell: |row| Cell::Text(row.spoll_cpus.clone()) },
    Column { name: "repeat", kind: Kind::Number, cell: |row| number(row.repeat) },
    Column { name: "attempt", kind: Kind::Number, cell: |row| number(row.attempt) },
    Column { name: "worthless", kind: Kind::OptionalText, cell: |row| Cell::Text(row.worthless.clone()) },
    Column { name: "started_unix_s", kind: Kind::Real, cell: |row| Cell::Real(Some(row.started_unix_s)) },
    Column { name: "elapsed_s", kind: Kind::Real, cell: |row| Cell::Real(Some(row.elapsed_s)) },
    Column { name: "ios", kind: Kind::Number, cell: |row| number(row.ios) },
    Column { name: "errors", kind: Kind::Number, cell: |row| number(row.errors) },
    Column { name: "bytes", kind: Kind::Number, cell: |row| number(row.bytes) },
    Column { name: "mean_ns", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.mean_ns) },
    Column { name: "latency_ns", kind: Kind::Numbers, cell: |row| halves(&row.latency, |(value, _)| value) },
    Column { name: "latency_count", kind: Kind::Numbers, cell: |row| halves(&row.latency, |(_, count)| count) },
    Column { name: "submit_ns", kind: Kind::Numbers, cell: |row| halves(&row.submit, |(value, _)| value) },
    Column { name: "submit_count", kind: Kind::Numbers, cell: |row| halves(&row.submit, |(_, count)| count) },
    Column { name: "user_s", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.user_s) },
    Column { name: "system_s", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.system_s) },
    Column { name: "kernel_threads_s", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.kernel_threads_s) },
    Column {
        name: "thread_names",
        kind: Kind::Texts,
        cell: |row| Cell::Texts(row.threads.iter().map(|thread| thread.name.clone()).collect()),
    },
    Column {
        name: "thread_cpu_s",
        kind: Kind::Reals,
        cell: |row| Cell::Reals(row.threads.iter().map(|thread| thread.cpu_s).collect()),
    },
    Column { name: "interrupt_s", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.interrupt_s) },
    Column { name: "device_interrupts", kind: Kind::OptionalNumber, cell: |row| count(row.device_interrupts) },
    Column { name: "context_switches", kind: Kind::OptionalNumber, cell: |row| count(row.context_switches) },
    Column { name: "syscalls_per_io", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.syscalls_per_io) },
    Column { name: "cycles", kind: Kind::OptionalNumber, cell: |row| count(row.cycles) },
    Column { name: "instructions", kind: Kind::OptionalNumber, cell: |row| count(row.instructions) },
    Column { name: "cache_references", kind: Kind::OptionalNumber, cell: |row| count(row.cache_references) },
    Column { name: "cache_misses", kind: Kind::OptionalNumber, cell: |row| count(row.cache_misses) },
    Column { name: "frequency_hz", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.frequency_hz) },
    Column { name: "throttled", kind: Kind::OptionalNumber, cell: |row| count(row.throttled) },
    Column { name: "memory_bytes", kind: Kind::OptionalNumber, cell: |row| count(row.memory_bytes) },
    Column { name: "numa_nodes", kind: Kind::OptionalText, cell: |row| Cell::Text(row.numa_nodes.clone()) },
    Column { name: "joules", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.joules) },
    Column { name: "idle_joules", kind: Kind::OptionalReal, cell: |row| Cell::Real(row.idle_joules) },
    Column { name: "rates", kind: Kind::Reals, cell: |row| Cell::Reals(row.rates.clone()) },
    Column {
        name: "sources",
        kind: Kind::Texts,
        cell: |row| Cell::Texts(row.sources.iter().map(|(figure, source)| format!("{figure}={source}")).collect()),
    },
    Column { name: "warnings", kind: Kind::Texts, cell: |row| Cell::Texts(row.warnings.clone()) },
];

impl Column {
    /// In the notation of Parquet's schemas.
    fn declaration(&self) -> String {
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
            Kind::Numbers => list("int64 element"),
            Kind::Reals => list("double element"),
            Kind::Texts => list("binary element (STRING)"),
        }
    }

    fn is_optional(&self) -> bool {
        matches!(self.kind, Kind::OptionalText | Kind::OptionalNumber | Kind::OptionalReal)
    }
}

/// The file's bytes for these rows.
///
/// # Errors
/// `Failed` if the library refuses, which is a bug in iolane.
pub fn write(rows: &[Row]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_to(rows, &mut bytes).map_err(|error| Error::failed("records.parquet", error.to_string()))?;
    Ok(bytes)
}

fn write_to(rows: &[Row], bytes: &mut (impl Write + Send)) -> Result<(), ParquetError> {
    let columns: String = COLUMNS.iter().map(Column::declaration).collect();
    let schema = Arc::new(parse_message_type(&format!("message iolane_records {{ {columns} }}"))?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new("schema".into(), SCHEMA.to_owned())]))
        .build();
    let mut writer = SerializedFileWriter::new(bytes, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in COLUMNS {
        write_column(column, rows, &mut group)?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Values, how deeply each is defined, and where a list begins anew (Dremel's levels, as Parquet's format has them).
#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Levels {
    fn list(&mut self, length: usize) {
        self.definition.extend(std::iter::repeat_n(1, length));
        self.repetition.extend((0..length).map(|index| i16::from(index > 0)));
        if length == 0 {
            self.definition.push(0);
            self.repetition.push(0);
        }
    }
}

fn write_column<W: Write + Send>(
    column: &Column,
    rows: &[Row],
    group: &mut SerializedRowGroupWriter<'_, W>,
) -> Result<(), ParquetError> {
    let (mut texts, mut numbers, mut reals) = (Vec::new(), Vec::new(), Vec::new());
    let mut levels = Levels::default();
    let mut is_list = false;
    for row in rows {
        let defined = match (column.cell)(row) {
            Cell::Text(value) => texts.extend_some(value.map(|text| ByteArray::from(text.into_bytes()))),
            Cell::Number(value) => numbers.extend_some(value),
            Cell::Real(value) => reals.extend_some(value),
            Cell::Numbers(list) => {
                levels.list(list.len());
                numbers.extend(list);
                is_list = true;
                continue;
            }
            Cell::Reals(list) => {
                levels.list(list.len());
                reals.extend(list);
                is_list = true;
                continue;
            }
            Cell::Texts(list) => {
                levels.list(list.len());
                texts.extend(list.into_iter().map(|text| ByteArray::from(text.into_bytes())));
                is_list = true;
                continue;
            }
        };
        levels.definition.push(i16::from(defined));
    }
    let definition = (is_list || column.is_optional()).then_some(&levels.definition[..]);
    let repetition = is_list.then_some(&levels.repetition[..]);
    let mut writer = group
        .next_column()?
        .ok_or_else(|| ParquetError::General(format!("the schema has no column {}", column.name)))?;
    match writer.untyped() {
        ColumnWriter::ByteArrayColumnWriter(typed) => typed.write_batch(&texts, definition, repetition)?,
        ColumnWriter::Int64ColumnWriter(typed) => typed.write_batch(&numbers, definition, repetition)?,
        ColumnWriter::DoubleColumnWriter(typed) => typed.write_batch(&reals, definition, repetition)?,
        _ => return Err(ParquetError::General(format!("column {} has a type that is not used", column.name))),
    };
    writer.close()
}

/// Pushes a value if there is one, and says whether there was.
trait ExtendSome<T> {
    fn extend_some(&mut self, value: Option<T>) -> bool;
}

impl<T> ExtendSome<T> for Vec<T> {
    fn extend_some(&mut self, value: Option<T>) -> bool {
        let is_some = value.is_some();
        self.extend(value);
        is_some
    }
}

/// The CRC-32 of a file's bytes, which `study.json` keeps.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// [`checksum`] of a whole file, which is at its beginning again then.
fn file_checksum(file: &mut File) -> std::io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut reader = BufReader::new(&mut *file);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        hasher.update(chunk);
        let length = chunk.len();
        reader.consume(length);
    }
    file.rewind()?;
    Ok(hasher.finalize())
}

/// The rows of a file, whose checksum `study.json` tells. It is compared before anything is believed: the library for
/// Parquet panics on some damaged files, and takes others for true.
///
/// # Errors
/// `Failed` for a file that is not what was written, is none of ours, or has another version of the schema.
pub fn read(mut file: File, name: &str, crc32: u32) -> Result<Vec<Row>> {
    let bad = |cause: String| Error::failed(name, cause);
    let found = file_checksum(&mut file).map_err(|error| Error::system(format!("reading {name}"), error))?;
    if found != crc32 {
        let cause = format!("its CRC-32 is {found:08x}, and study.json was made from one of {crc32:08x}");
        return Err(bad(cause).remedy("copy the folder anew if it is a copy, or measure again"));
    }
    let reader = SerializedFileReader::new(file).map_err(|error| bad(format!("not a Parquet file ({error})")))?;
    let entries = reader.metadata().file_metadata().key_value_metadata();
    let schema = entries.into_iter().flatten().find(|entry| entry.key == "schema");
    match schema.and_then(|entry| entry.value.as_deref()) {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(bad(format!("its schema is {other}, and this version of iolane reads {SCHEMA}"))
                .remedy("use the version of iolane that wrote it, or measure again"));
        }
        None => return Err(bad("it does not say that iolane wrote it".into())),
    }
    let records = reader.get_row_iter(None).map_err(|error| bad(error.to_string()))?;
    let rows = records.enumerate().map(|(index, record)| {
        let record = record.map_err(|error| bad(format!("row {index}: {error}")))?;
        Fields::new(&record).row().map_err(|what| bad(format!("row {index}: {what}")))
    });
    rows.collect()
}

/// A record's fields by name.
struct Fields<'a>(Vec<(&'a String, &'a Field)>);

impl<'a> Fields<'a> {
    fn new(record: &'a Record) -> Self {
        Self(record.get_column_iter().collect())
    }

    fn row(&self) -> Result<Row, String> {
        let arm = Arm {
            name: self.text("name")?,
            path: self.parsed("path")?,
            peer: self.optional_text("peer")?,
            rw: self.parsed("rw")?,
            bs: self.parsed("bs")?,
            depth: self.count("depth")?,
            threads: self.count("threads")?,
            drives: self.count("drives")?,
            cores: self.optional_count("cores_limit")?,
        };
        Ok(Row {
            targets: self.text("targets")?,
            cpus: self.optional_text("cpus")?,
            spoll_cpus: self.optional_text("spoll_cpus")?,
            attempt: self.count("attempt")?,
            worthless: self.optional_text("worthless")?,
            started_unix_s: self.real("started_unix_s")?,
            elapsed_s: self.real("elapsed_s")?,
            ios: self.count("ios")?,
            errors: self.count("errors")?,
            bytes: self.count("bytes")?,
            mean_ns: self.optional_real("mean_ns")?,
            latency: self.histogram("latency_ns", "latency_count")?,
            submit: self.histogram("submit_ns", "submit_count")?,
            user_s: self.optional_real("user_s")?,
            system_s: self.optional_real("system_s")?,
            kernel_threads_s: self.optional_real("kernel_threads_s")?,
            threads: self.threads()?,
            interrupt_s: self.optional_real("interrupt_s")?,
            device_interrupts: self.optional_count("device_interrupts")?,
            context_switches: self.optional_count("context_switches")?,
            syscalls_per_io: self.optional_real("syscalls_per_io")?,
            cycles: self.optional_count("cycles")?,
            instructions: self.optional_count("instructions")?,
            cache_references: self.optional_count("cache_references")?,
            cache_misses: self.optional_count("cache_misses")?,
            frequency_hz: self.optional_real("frequency_hz")?,
            throttled: self.optional_count("throttled")?,
            memory_bytes: self.optional_count("memory_bytes")?,
            numa_nodes: self.optional_text("numa_nodes")?,
            joules: self.optional_real("joules")?,
            idle_joules: self.optional_real("idle_joules")?,
            rates: self.reals("rates")?,
            sources: self.sources()?,
            warnings: self.texts("warnings")?,
            ..Row::new(arm, self.count("repeat")?)
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
            _ => Err(format!("column {name} is no list")),
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
            return Err("thread_names and thread_cpu_s are not of one length".into());
        }
        Ok(names.into_iter().zip(seconds).map(|(name, cpu_s)| ThreadUse { name, cpu_s }).collect())
    }

    fn sources(&self) -> Result<BTreeMap<String, String>, String> {
        let pair = |text: String| {
            let (figure, source) = text.split_once('=').ok_or("column sources: an entry names no figure")?;
            Ok((figure.to_owned(), source.to_owned()))
        };
        self.texts("sources")?.into_iter().map(pair).collect()
    }

    fn histogram(&self, values: &str, counts: &str) -> Result<Histogram<u64>, String> {
        let numbers = |name| {
            self.list(name, |field| if let Field::Long(value) = field { u64::try_from(*value).ok() } else { None })
        };
        let (times, often) = (numbers(values)?, numbers(counts)?);
        if times.len() != often.len() {
            return Err(format!("{values} and {counts} are not of one length"));
        }
        histogram::from_pairs(times.into_iter().zip(often)).map_err(|error| format!("column {values}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn read_back(bytes: &[u8]) -> Vec<Row> {
        read(file_of(bytes), "records.parquet", checksum(bytes)).unwrap()
    }

    /// A file without a name.
    fn tempfile() -> File {
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        rustix::fs::open(std::env::temp_dir(), flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap().into()
    }

    pub(super) fn some_rows() -> Vec<Row> {
        let arm = |name: &str, cores| Arm {
            name: name.into(),
            path: "io_uring+spoll,fixedbufs".parse().unwrap(),
            peer: None,
            rw: crate::workload::Access::RandRead,
            bs: "4k".parse().unwrap(),
            depth: 16,
            threads: 2,
            drives: 1,
            cores,
        };
        let mut full = Row::new(arm("iou+k", Some(2)), 3);
        full.latency.record_n(1500, 7).unwrap();
        full.latency.record(3_000_000_000).unwrap();
        full.submit.record(20).unwrap();
        full.warnings = vec!["one".into(), "two, with a \"quote\"".into()];
        (full.ios, full.bytes, full.cycles, full.mean_ns) = (8, 32768, Some(12), Some(1.5));
        full.threads = ["iolane-0", "iou-sqp"].map(|name| ThreadUse { name: name.into(), cpu_s: 0.25 }).into();
        (full.rates, full.numa_nodes) = (vec![80.0, 0.0], Some("0-1".into()));
        (full.joules, full.idle_joules) = (Some(6.5), Some(5.0));
        full.sources = BTreeMap::from([("cycles".into(), "unavailable: a=b".into()), ("joules".into(), "RAPL".into())]);
        let mut empty = Row::new(arm("iou", None), 0);
        empty.worthless = Some("another process took the cpu".into());
        vec![full, empty]
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let rows = some_rows();
        assert_eq!(read_back(&write(&rows).unwrap()), rows);
        assert_eq!(read_back(&write(&[]).unwrap()), []);
    }

    #[test]
    fn a_file_cut_off_at_any_byte_is_refused_with_what_to_do() {
        let bytes = write(&some_rows()).unwrap();
        for length in 0..bytes.len() {
            let error = read(file_of(&bytes[..length]), "records.parquet", checksum(&bytes)).unwrap_err().to_string();
            assert!(error.starts_with("records.parquet: its CRC-32 is"), "{error}");
        }
        let text = b"no Parquet at all";
        let error = read(file_of(text), "records.parquet", checksum(text)).unwrap_err().to_string();
        assert!(error.starts_with("records.parquet: not a Parquet file"), "{error}");
    }

    #[test]
    fn another_version_of_the_schema_is_named() {
        let bytes = write(&some_rows()).unwrap();
        let at = bytes.windows(SCHEMA.len()).rposition(|window| window == SCHEMA.as_bytes()).unwrap();
        let mut newer = bytes.clone();
        newer[at + SCHEMA.len() - 1] = b'9';
        let error = read(file_of(&newer), "records.parquet", checksum(&newer)).unwrap_err().to_string();
        assert!(error.contains("iolane.records/9") && error.contains(SCHEMA), "{error}");
    }

    proptest! {
        #[test]
        fn histograms_keep_every_count(values in prop::collection::vec((1u64..3_600_000_000_000, 1u64..1000), 0..40)) {
            let mut rows = some_rows();
            for (value, count) in values {
                rows[0].latency.record_n(value, count).unwrap();
            }
            prop_assert_eq!(&read_back(&write(&rows).unwrap())[0].latency, &rows[0].latency);
        }

        #[test]
        fn a_file_with_damaged_bytes_is_refused(damage in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..8)) {
            let whole = write(&some_rows()).unwrap();
            let mut bytes = whole.clone();
            for (place, change) in damage {
                let place = place.index(bytes.len());
                bytes[place] ^= change;
            }
            // Two changes of one byte can undo each other.
            prop_assume!(bytes != whole);
            let error = read(file_of(&bytes), "records.parquet", checksum(&whole)).unwrap_err().to_string();
            prop_assert!(error.contains("its CRC-32 is"), "{}", error);
        }
    }
}
