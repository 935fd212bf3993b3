//! Tables for people: aligned text for a terminal, Markdown for the docs.
//! Knows rows of text and nothing of what they mean.

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Style {
    Text,
    /// Text without a rule below the headings.
    Bare,
    Markdown,
}

/// A table whose first column is words and whose others are numbers.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(ToString::to_string).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self, style: Style) -> String {
        let widths = self.widths();
        let mut lines: Vec<String> = self.rows.iter().map(|row| line(row, &widths, style)).collect();
        if style != Style::Bare {
            lines.insert(1, rule(&widths, style));
        }
        lines.join("\n") + "\n"
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        (0..self.rows[0].len()).map(width).collect()
    }
}

fn line(row: &[String], widths: &[usize], style: Style) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, &width))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    joined(cells, " | ", style)
}

fn rule(widths: &[usize], style: Style) -> String {
    let cells = widths.iter().enumerate().map(|(column, &width)| match (style, column) {
        (Style::Markdown, 1..) => format!("{}:", "-".repeat(width - 1)),
        _ => "-".repeat(width),
    });
    joined(cells, " | ", style)
}

fn joined(cells: impl Iterator<Item = String>, bar: &str, style: Style) -> String {
    let cells: Vec<String> = cells.collect();
    match style {
        Style::Text | Style::Bare => cells.join("  ").trim_end().to_owned(),
        Style::Markdown => format!("| {} |", cells.join(bar)),
    }
}

/// A count with its thousands apart: `1,666,361`.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["path", "IOPS"]);
        table.row(vec!["psync".into(), grouped(1_666_361.4)]);
        table.row(vec!["io_uring".into(), grouped(12.0)]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let expected = "\
path           IOPS
--------  ---------
psync     1,666,361
io_uring         12
";
        assert_eq!(table().render(Style::Text), expected);
    }

    #[test]
    fn markdown_aligns_numbers_to_the_right() {
        let expected = "\
| path     |      IOPS |
| -------- | --------: |
| psync    | 1,666,361 |
| io_uring |        12 |
";
        assert_eq!(table().render(Style::Markdown), expected);
    }

    #[test]
    fn thousands_are_apart() {
        for (number, text) in [(0.0, "0"), (999.0, "999"), (1000.0, "1,000"), (20_000_000.0, "20,000,000")] {
            assert_eq!(grouped(number), text);
        }
    }
}
