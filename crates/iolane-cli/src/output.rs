//! How answers look: numbers for people, tables within 100 columns, progress on the terminal, JSON where it was asked for.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use comfy_table::CellAlignment;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iolane::units::Bytes;
use iolane::{Error, guard};

/// The widest a table gets.
const COLUMNS: u16 = 100;

/// Prints to standard output; a reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::system("standard output", error).remedy("send it elsewhere").into())
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error; there is nowhere to say that this failed.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether JSON goes to standard output, so that nothing else may.
pub(crate) fn json_on_stdout(json: Option<&Path>) -> bool {
    json == Some(Path::new("-"))
}

/// Writes a document as JSON: to standard output, or to a file that is whole or not there at all.
pub(crate) fn write_json(file: &Path, document: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = json(document)?;
    match json_on_stdout(Some(file)) {
        true => print(&text),
        false => write_file(file, text.as_bytes()),
    }
}

/// A document as JSON.
pub(crate) fn json(document: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Writes a file that is whole or not there at all.
pub(crate) fn write_file(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_files(&[(file, bytes)])
}

/// Writes files that belong together, each whole or as it was before. All of them are on the disk before the first takes
/// its place, so that what can go wrong has gone wrong by then.
pub(crate) fn write_files(files: &[(&Path, &[u8])]) -> anyhow::Result<()> {
    let written = |(file, bytes): &(&Path, &[u8])| Part::write(file, bytes).map_err(|error| cannot_write(file, error));
    let parts = files.iter().map(written).collect::<Result<Vec<Part>, Error>>()?;
    for (part, (file, _)) in parts.into_iter().zip(files) {
        part.take_its_place().map_err(|error| cannot_write(file, error))?;
    }
    Ok(())
}

/// Finds out whether a document could be written there, before the work for it is done; never over what is to be `kept`.
pub(crate) fn check_writable(file: &Path, kept: &[OsString]) -> anyhow::Result<()> {
    if json_on_stdout(Some(file)) {
        return Ok(());
    }
    if kept.iter().any(|kept| guard::refuse_doubles(&[kept.clone(), file.into()]).is_err()) {
        return Err(Error::usage(
            format!("writing {}", shown(file)),
            "it is a target or holds results, and would be lost",
        )
        .remedy("choose another file for the results")
        .into());
    }
    let tried = match Place::of(file) {
        Ok(Place::File(file)) => {
            let part = part_of(&file);
            File::create_new(&part).and_then(|_| std::fs::remove_file(&part))
        }
        Ok(Place::Stream) => Ok(()),
        Err(error) => Err(error),
    };
    Ok(tried.map_err(|error| cannot_write(file, error))?)
}

/// The folders that were made for results; where nothing was put into them, they are gone when this is dropped.
pub(crate) struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Makes a folder for results, and those it is in.
    pub(crate) fn make(folder: &Path) -> anyhow::Result<Self> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = folder.ancestors().take_while(missing).map(PathBuf::from).collect();
        std::fs::create_dir_all(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => cannot_write(folder, ErrorKind::NotADirectory.into()),
            _ => cannot_write(folder, error),
        })?;
        Ok(Self(made))
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        // Innermost first; the system keeps those that hold something.
        for folder in &self.0 {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Where a document goes.
enum Place {
    /// A file, by its own name where a symbolic link was given: replaced as a whole.
    File(PathBuf),
    /// A pipe, a terminal, /dev/null: it is written to, and stays what it is.
    Stream,
}

impl Place {
    fn of(file: &Path) -> std::io::Result<Self> {
        match std::fs::metadata(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => match file.as_os_str().as_bytes() {
                [.., b'/'] => Err(ErrorKind::IsADirectory.into()),
                _ => Ok(Self::File(file.into())),
            },
            Err(error) => Err(error),
            Ok(found) if found.is_file() => Ok(Self::File(std::fs::canonicalize(file)?)),
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Ok(found) if found.file_type().is_block_device() => Err(std::io::Error::other("it is a block device")),
            Ok(_) => Ok(Self::Stream),
        }
    }
}

/// A document that is written, beside the file that it replaces; gone if it does not take that place.
struct Part {
    part: PathBuf,
    /// `None` once it is there, or if it went into a stream.
    file: Option<PathBuf>,
}

impl Part {
    fn write(file: &Path, bytes: &[u8]) -> std::io::Result<Self> {
        match Place::of(file)? {
            Place::Stream => match std::fs::OpenOptions::new().write(true).open(file)?.write_all(bytes) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
                _ => Ok(Self { part: file.into(), file: None }),
            },
            Place::File(file) => {
                let part = part_of(&file);
                let mut written = File::create_new(&part)?;
                let this = Self { part, file: Some(file) };
                // On the disk before it has its name: after a power cut the name must not be an empty file's.
                written.write_all(bytes).and_then(|()| written.sync_all())?;
                Ok(this)
            }
        }
    }

    fn take_its_place(mut self) -> std::io::Result<()> {
        let Some(file) = self.file.as_ref() else { return Ok(()) };
        std::fs::rename(&self.part, file)?;
        self.file = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// The name of a document while it is written, which no other program and no other run of this one has.
fn part_of(file: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
}

/// That results cannot be written is a failure of its own, whatever the reason: the target and the path can be had.
fn cannot_write(file: &Path, error: std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there, or choose another place",
        _ => "choose a place you may write",
    };
    Error::system(format!("writing {}", shown(file)), error).with_kind(iolane::ErrorKind::Failed).remedy(remedy)
}

/// A name fit for one line of a message.
pub(crate) fn shown(file: &Path) -> String {
    file.to_string_lossy().replace(char::is_control, "?")
}

/// A table without lines; the first column is text, the others are aligned as told.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], others: CellAlignment) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(COLUMNS);
    table.set_header(headings).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding(if index == 0 { (0, 2) } else { (0, 1) });
        column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { others });
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Breaks text at spaces to lines of 100 columns; all but the first begin with `indent` spaces, the first with its own.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let words = text.trim_start_matches(' ');
    let mut wrapped = text[..text.len() - words.len()].to_owned();
    let mut column = wrapped.len();
    for (index, word) in words.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > COLUMNS as usize {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        } else if index > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += width;
    }
    wrapped
}

/// Paths that cannot be had, those with the same reason and remedy together: the names, then why and what to do.
pub(crate) fn reasons<'a>(entries: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let mut groups: Vec<(Vec<&str>, &str, &str)> = Vec::new();
    for (path, reason, remedy) in entries {
        match groups.iter_mut().find(|(_, why, what)| (*why, *what) == (reason, remedy)) {
            Some((paths, _, _)) => paths.push(path),
            None => groups.push((vec![path], reason, remedy)),
        }
    }
    let mut text = String::new();
    for (paths, reason, remedy) in groups {
        text.push_str(&format!("{}\n", wrap(&format!("  {}", paths.join(", ")), 2)));
        text.push_str(&format!("{}\n", wrap(&format!("      {reason}"), 6)));
        if !remedy.is_empty() {
            text.push_str(&format!("{}\n", wrap(&format!("      -> {remedy}"), 6)));
        }
    }
    text
}

/// Three significant digits with a unit's prefix: `182k`, `1.05M`, `7.80`.
pub(crate) fn count(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        // What would round to 1000 belongs to the next prefix.
        size if size >= 999.5e6 => (value / 1e9, "G"),
        size if size >= 999.5e3 => (value / 1e6, "M"),
        size if size >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{prefix}", three_digits(scaled))
}

/// A size as drives have it, in powers of 1024: `1g` where that is exact, `1.82t` where it is not.
pub(crate) fn size(bytes: u64) -> String {
    let exact = Bytes(bytes).to_string();
    if exact.len() <= 5 {
        return exact;
    }
    let (shift, unit) = match bytes {
        // What would round to 1000 belongs to the next unit.
        size if size >= 999 << 30 => (40, "t"),
        size if size >= 999 << 20 => (30, "g"),
        size if size >= 999 << 10 => (20, "m"),
        _ => (10, "k"),
    };
    format!("{}{unit}", three_digits(bytes as f64 / (1u64 << shift) as f64))
}

/// Three significant digits of a number below 1000.
fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A time in nanoseconds as people read it: `850 ns`, `85.2 us`, `1.20 ms`.
pub(crate) fn time(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1000 => format!("{nanoseconds} ns"),
        1000..999_500 => format!("{} us", three_digits(value / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(value / 1e6)),
        _ => format!("{} s", three_digits(value / 1e9)),
    }
}

/// A long time as people plan with it: `45 s`, `8 min 5 s`, `3 h 20 min`.
pub(crate) fn long_time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A figure, or the word for one that could not be had.
pub(crate) fn or_unavailable(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "unavailable".into(), show)
}

/// How far long work is: a bar with the time left where standard error is a terminal, nothing elsewhere.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Work of so many bytes.
    pub(crate) fn bytes(total: u64, what: &str) -> Self {
        let template = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes}, {eta} left";
        Self::new(total, what, template)
    }

    /// Work that takes so long and tells nothing of itself meanwhile.
    pub(crate) fn time(total: Duration, what: &str) -> Self {
        let bar = Self::new(total.as_millis() as u64, what, "{msg} [{bar:30}] {eta} left");
        let (ticking, begun) = (bar.0.clone(), std::time::Instant::now());
        if !ticking.is_hidden() {
            std::thread::spawn(move || {
                while !ticking.is_finished() {
                    ticking.set_position(begun.elapsed().as_millis() as u64);
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
        bar
    }

    /// Work of which nobody knows how long it takes.
    pub(crate) fn unknown(what: &str) -> Self {
        let bar = Self::new(0, what, "{msg}, {elapsed} so far");
        bar.0.enable_steady_tick(Duration::from_secs(1));
        bar
    }

    fn new(total: u64, what: &str, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self(bar)
    }

    /// So much is done.
    pub(crate) fn at(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_have_three_digits_and_a_unit() {
        let counts = [0.0, 7.8, 12.34, 999.4, 999.6, 182_400.0, 999_600.0, 14_000_000.0].map(count);
        assert_eq!(counts, ["0.00", "7.80", "12.3", "999", "1.00k", "182k", "1.00M", "14.0M"]);
        let times = [0, 999, 1000, 85_230, 999_499, 999_500, 1_200_000, 2_000_000_000].map(time);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 us", "85.2 us", "999 us", "1.00 ms", "1.20 ms", "2.00 s"]);
    }

    #[test]
    fn sizes_of_drives_are_short_and_exact_where_they_can_be() {
        let sizes = [0, 4096, 1 << 30, 960_197_124_096, 2_000_398_934_016, 1_073_217_536].map(size);
        assert_eq!(sizes, ["0", "4k", "1g", "894g", "1.82t", "1.00g"]);
    }

    #[test]
    fn no_table_is_wider_than_100_columns() {
        let long = "io_uring+spoll+cpoll,fixedbufs,fixedfiles";
        let row = [long, "1.02M", "0.98M-1.05M", "85.2 us", "1.20 ms", "12.25", "0.06", "~0.98x"].map(String::from);
        let table = table(
            &["depth 32", "IOPS", "95 %", "p50", "p99", "cores", "calls", "of best"],
            &[row.into()],
            CellAlignment::Right,
        );
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
        assert_eq!(table.lines().count(), 2, "nothing had to be wrapped: {table}");
    }

    #[test]
    fn text_wraps_at_spaces_and_keeps_every_word() {
        let text = format!("      {}", "word ".repeat(60).trim());
        let wrapped = wrap(&text, 2);
        assert!(wrapped.starts_with("      word"), "{wrapped}");
        assert!(wrapped.lines().all(|line| line.len() <= 100));
        assert_eq!(wrapped.split_whitespace().count(), 60);
    }
}
