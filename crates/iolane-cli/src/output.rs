//! How answers look: numbers for people, tables within 100 columns, progress on the terminal, JSON where it was asked for.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

pub(crate) use comfy_table::CellAlignment;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iolane::Error;

/// The widest a table gets.
const COLUMNS: u16 = 100;

/// Prints to standard output; a reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::system("standard output", error).into())
        }
        _ => Ok(()),
    }
}

/// Whether JSON goes to standard output, so that nothing else may.
pub(crate) fn json_on_stdout(json: Option<&Path>) -> bool {
    json == Some(Path::new("-"))
}

/// Writes a document as JSON: to standard output, or to a file that is whole or not there at all.
pub(crate) fn write_json(file: &Path, document: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    if json_on_stdout(Some(file)) {
        return print(&text);
    }
    let temporary = file.with_added_extension("part");
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        Error::system(format!("writing {}", file.display()), error).into()
    })
}

/// Finds out whether a document could be written there, before the work for it is done.
pub(crate) fn check_writable(file: &Path) -> anyhow::Result<()> {
    if json_on_stdout(Some(file)) {
        return Ok(());
    }
    let temporary = file.with_added_extension("part");
    let tried = std::fs::File::create(&temporary).and_then(|_| std::fs::remove_file(&temporary));
    tried.map_err(|error| {
        Error::system(format!("writing {}", file.display()), error).remedy("choose a place you may write").into()
    })
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

/// Breaks text at spaces to lines of 100 columns; all but the first begin with `indent` spaces.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS as usize {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
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
        text.push_str(&format!("  {}\n", wrap(&paths.join(", "), 2)));
        text.push_str(&format!("      {}\n", wrap(reason, 6)));
        if !remedy.is_empty() {
            text.push_str(&format!("      {}\n", wrap(&format!("-> {remedy}"), 6)));
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

/// A figure, or the word for one that could not be had.
pub(crate) fn or_unavailable(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "unavailable".into(), show)
}

/// How far long work is: a bar with the time left on a terminal, now and then a line elsewhere; always on standard error.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Where there is no terminal: what to call the work, in lines.
    lines: Option<String>,
}

impl Bar {
    /// Work of so many bytes.
    pub(crate) fn bytes(total: u64, what: &str) -> Self {
        let template = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes}, {eta} left";
        // Making a file is short beside what follows; no lines for it.
        Self::new(total, what, template, None)
    }

    /// Work of so many runs that take about so long.
    pub(crate) fn runs(total: u64, what: &str) -> Self {
        Self::new(total, "", "{msg:50} [{bar:20}] {pos}/{len} runs, {eta} left", Some(what.into()))
    }

    /// Work that takes so long and tells nothing of itself meanwhile.
    pub(crate) fn time(total: Duration, what: &str) -> Self {
        let bar = Self::new(total.as_millis() as u64, what, "{msg} [{bar:30}] {eta} left", None);
        let (ticking, begun) = (bar.bar.clone(), std::time::Instant::now());
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

    fn new(total: u64, what: &str, template: &str, lines: Option<String>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self { bar, lines: lines.filter(|_| !std::io::stderr().is_terminal()) }
    }

    /// So much is done.
    pub(crate) fn at(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// So many runs are done, and this is what runs now.
    pub(crate) fn at_run(&self, done: u64, now: String, left: Duration) {
        self.at(done);
        if let Some(what) = &self.lines
            && done.is_multiple_of(10)
        {
            let total = self.bar.length().unwrap_or(0);
            eprintln!("{what}: {done} of {total} runs, {} s left", left.as_secs());
        }
        self.bar.set_message(now);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
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
        let text = "word ".repeat(60);
        let wrapped = wrap(text.trim(), 2);
        assert!(wrapped.lines().all(|line| line.len() <= 100));
        assert_eq!(wrapped.split_whitespace().count(), 60);
    }
}
