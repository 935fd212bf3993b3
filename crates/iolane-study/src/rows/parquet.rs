//! `records.parquet`: one row per run, with histograms as two lists (values in nanoseconds, and their counts), so that
//! any program that reads Parquet can merge them. Written in one go; read back only if its checksum matches.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::sync::Arc;

use iolane::{Error, Result};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::{Cell, Column, Fields, columns};
use super::row::Row;

/// The schema of the file, stored in its metadata under `schema`.
pub const SCHEMA: &str = "iolane.records/5";

/// Encodes rows as a Parquet file.
///
/// # Errors
/// `Failed` if the library refuses, which is a bug in iolane.
pub fn write(rows: &[Row]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let all = columns();
    write_columns(rows, &all.iter().collect::<Vec<_>>(), &mut bytes)
        .map_err(|error| Error::failed("records.parquet", error.to_string()))?;
    Ok(bytes)
}

fn write_columns(rows: &[Row], columns: &[&Column], bytes: &mut (impl Write + Send)) -> Result<(), ParquetError> {
    let declarations: String = columns.iter().map(|column| column.declaration()).collect();
    let schema = Arc::new(parse_message_type(&format!("message iolane_records {{ {declarations} }}"))?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new("schema".into(), SCHEMA.to_owned())]))
        .build();
    let mut writer = SerializedFileWriter::new(bytes, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        write_column(column, rows, &mut group)?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Definition and repetition levels of Dremel, as Parquet's format defines them.
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
    let (mut texts, mut numbers, mut reals, mut flags) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut levels = Levels::default();
    let mut is_list = false;
    for row in rows {
        let defined = match column.cell(row) {
            Cell::Text(value) => texts.extend_some(value.map(|text| ByteArray::from(text.into_bytes()))),
            Cell::Number(value) => numbers.extend_some(value),
            Cell::Real(value) => reals.extend_some(value),
            Cell::Flag(value) => flags.extend_some(Some(value)),
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
        ColumnWriter::BoolColumnWriter(typed) => typed.write_batch(&flags, definition, repetition)?,
        _ => return Err(ParquetError::General(format!("column {} has a type that is not used", column.name))),
    };
    writer.close()
}

/// Appends a value if there is one; returns whether there was.
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

/// The CRC-32 of a file's contents, which `study.json` stores.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// [`checksum`] of a whole file; rewinds the file afterwards.
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

/// Decodes the rows of a file whose checksum is in `study.json`. The checksum is compared first: the Parquet library
/// panics on some damaged files, and accepts others.
///
/// # Errors
/// `Failed` for a file that is damaged, was not written by iolane, or has another version of the schema.
pub fn read(mut file: File, name: &str, crc32: u32) -> Result<Vec<Row>> {
    let bad = |cause: String| Error::failed(name, cause);
    let found = file_checksum(&mut file).map_err(|error| Error::system(format!("reading {name}"), error))?;
    if found != crc32 {
        let cause = format!("its CRC-32 is {found:08x}, and study.json was made from one of {crc32:08x}");
        return Err(bad(cause).remedy("copy the folder again if it is a copy, or measure again"));
    }
    decode(file, name)
}

/// Decodes the rows of a file, or of its bytes.
///
/// # Errors
/// As [`read`], which compares the checksum before.
pub fn decode<R: ChunkReader + 'static>(source: R, name: &str) -> Result<Vec<Row>> {
    let bad = |cause: String| Error::failed(name, cause);
    let reader = SerializedFileReader::new(source).map_err(|error| bad(format!("not a Parquet file ({error})")))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_measure::figures::{RunFigure, RunFigures};
    use iolane_measure::telemetry::{Sourced, ThreadUse, Unavailable};
    use iolane_measure::workload::{Access, Arrivals, Workload};
    use proptest::prelude::*;

    use crate::plan::Arm;
    use crate::rows::{Warning, WarningKind};

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn read_back(bytes: &[u8]) -> Vec<Row> {
        read(file_of(bytes), "records.parquet", checksum(bytes)).unwrap()
    }

    /// An unnamed temporary file.
    fn tempfile() -> File {
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        rustix::fs::open(std::env::temp_dir(), flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap().into()
    }

    /// A workload with a value of its own in each field.
    fn every_field() -> Workload {
        Workload {
            access: Access::RandRw,
            read_percent: Some(70),
            block_sizes: "4k/70:64k/30".parse().unwrap(),
            offsets: "zipf:1.2".parse().unwrap(),
            align: Some(8192),
            depth: 16,
            batch_submit: Some(2),
            batch_complete: Some(3),
            batch_complete_max: Some(4),
            fsync_every: Some(8),
            fdatasync_every: Some(9),
            rate: Some("2.5k".parse().unwrap()),
            arrivals: Arrivals::Poisson,
            think_us: Some(50),
            data: "compress:50+dedupe:40/5".parse().unwrap(),
            durable: true,
            verify: true,
            start: 1 << 25,
            size: Some(1 << 30),
            bytes_max: Some(1 << 20),
            seed: u64::MAX,
        }
    }

    #[test]
    fn every_field_of_a_workload_has_a_column_and_a_place_in_comparisons() {
        let json = serde_json::to_value(every_field()).unwrap();
        let columns: Vec<&str> = columns().iter().map(|column| column.name).collect();
        let (fields, defaults) = (every_field().fields(), Workload::default().fields());
        for name in json.as_object().unwrap().keys() {
            assert!(columns.contains(&name.as_str()), "{name} has no column");
            let place = fields.iter().position(|(field, _)| field == name).expect(name);
            assert_ne!(fields[place].1, defaults[place].1, "{name} has its default");
        }
    }

    pub(super) fn some_rows() -> Vec<Row> {
        let arm = |name: &str, cores| Arm {
            application: None,
            name: name.into(),
            path: "io_uring+sqpoll,fixedbufs".parse().unwrap(),
            peer: None,
            workload: every_field(),
            threads: 2,
            drives: 1,
            cores,
        };
        let mut full = Row::new(arm("iou+k", Some(2)), 3);
        full.latency.record_n(1500, 7).unwrap();
        full.latency.record(3_000_000_000).unwrap();
        full.writes.record_n(1500, 2).unwrap();
        full.syncs.record_n(90_000, 3).unwrap();
        full.commits.record_n(120_000, 2).unwrap();
        full.submit.record(20).unwrap();
        full.warnings = vec![
            Warning::note("one, with a \"quote\""),
            Warning::new(WarningKind::LateRequests, "2 due requests never started"),
        ];
        (full.ios, full.bytes, full.mean_ns) = (8, 32768, Some(1.5));
        full.threads = ["iolane-0", "iou-sqp"].map(|name| ThreadUse { name: name.into(), cpu_s: 0.25 }).into();
        full.rates = vec![80.0, 0.0];
        full.figures.set(RunFigure::Cycles, Ok(Sourced::new(12u64, "perf")));
        full.figures.set(RunFigure::Joules, Ok(Sourced::new(6.5, "idle=40,core=8").modelled()));
        full.figures.set(RunFigure::NumaNodes, Ok(Sourced::new("0-1".to_owned(), "sysfs")));
        let why = Unavailable::new("no counter; a=b").remedy("use another machine");
        full.figures.set::<f64>(RunFigure::FrequencyHz, Err(why));
        let mut empty = Row::new(arm("iou", None), 0);
        empty.rejected = Some("another process took the CPU".into());
        vec![full, empty]
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let rows = some_rows();
        assert_eq!(read_back(&write(&rows).unwrap()), rows);
        assert_eq!(read_back(&write(&[]).unwrap()), []);
    }

    /// A file from an older version that has one figure fewer.
    #[test]
    fn a_figure_whose_column_is_missing_is_read_as_not_filled_in() {
        let rows = some_rows();
        let all = columns();
        let kept: Vec<&Column> = all.iter().filter(|column| column.name != "cycles").collect();
        let mut bytes = Vec::new();
        let mut without = rows.clone();
        without.iter_mut().for_each(|row| {
            let mut figures = RunFigures::default();
            for (figure, reading) in row.figures.iter().filter(|(figure, _)| *figure != RunFigure::Cycles) {
                figures.set(figure, reading.clone());
            }
            row.figures = figures;
        });
        write_columns(&without, &kept, &mut bytes).unwrap();
        assert_eq!(read_back(&bytes), without);
        assert_eq!(read_back(&bytes)[0].figures.reading(RunFigure::Cycles), None);
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
            // Two changes of one byte can cancel each other out.
            prop_assume!(bytes != whole);
            let error = read(file_of(&bytes), "records.parquet", checksum(&whole)).unwrap_err().to_string();
            prop_assert!(error.contains("its CRC-32 is"), "{}", error);
        }
    }
}
