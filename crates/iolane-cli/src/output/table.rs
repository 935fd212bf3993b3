//! Tables and wrapped text, within 100 columns.

pub(crate) use comfy_table::CellAlignment;
use comfy_table::{ContentArrangement, Table, presets};

/// The widest line of a table or a text.
const COLUMNS: u16 = 100;

/// A table without lines; the first column is text, the others are aligned as given.
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

/// Names with a reason and a remedy; names that share both are listed together.
pub(crate) fn reasons<'a>(entries: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let mut groups: Vec<(Vec<&str>, &str, &str)> = Vec::new();
    for (name, reason, remedy) in entries {
        match groups.iter_mut().find(|(_, why, what)| (*why, *what) == (reason, remedy)) {
            Some((names, _, _)) => names.push(name),
            None => groups.push((vec![name], reason, remedy)),
        }
    }
    let mut text = String::new();
    for (names, reason, remedy) in groups {
        text.push_str(&format!("{}\n", wrap(&format!("  {}", names.join(", ")), 2)));
        text.push_str(&format!("{}\n", wrap(&format!("      {reason}"), 6)));
        if !remedy.is_empty() {
            text.push_str(&format!("{}\n", wrap(&format!("      -> {remedy}"), 6)));
        }
    }
    text
}

/// A value as `show` writes it, or the word for a missing one.
pub(crate) fn or_unavailable<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unavailable".into(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_is_wider_than_100_columns() {
        let long = "io_uring+sqpoll+iopoll,fixedbufs,fixedfiles";
        let row = [long, "1.02 M", "0.98-1.05 M", "85.2 us", "1.2 ms", "12.3", "0.06", "~0.98x"].map(String::from);
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
