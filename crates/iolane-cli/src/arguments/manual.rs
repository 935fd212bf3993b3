//! Pages of `docs` that the program contains, as text for a terminal. `cli` makes them the help of a command.

use crate::output::wrap;

const FIO_JOB_FILES: &str = include_str!("../../../../docs/fio-job-files.md");

/// Which options of fio job files are supported, within 100 columns.
pub(crate) fn fio_job_files() -> String {
    text_of(FIO_JOB_FILES)
}

/// A page as text: a row of a table is a line with its other cells indented below it, and a paragraph is wrapped.
fn text_of(page: &str) -> String {
    let mut text = String::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    for line in page.lines() {
        let is_other = ["#", "|", "```", "<!--"].iter().any(|start| line.starts_with(start));
        let is_text = !is_code && !line.is_empty() && !is_other;
        if is_text {
            let space = if paragraph.is_empty() { "" } else { " " };
            paragraph.push_str(&format!("{space}{line}"));
            continue;
        }
        if !paragraph.is_empty() {
            text.push_str(&format!("{}\n", wrap(&std::mem::take(&mut paragraph), 0)));
        }
        match line {
            line if line.starts_with("```") => is_code = !is_code,
            line if is_code => text.push_str(&format!("{}\n", wrap(&format!("  {line}"), 4))),
            line if line.starts_with("|--") || line.starts_with("<!--") => {}
            line if line.starts_with('|') => text.push_str(&row(line)),
            line => text.push_str(&format!("{}\n", line.trim_start_matches(['#', ' ']))),
        }
    }
    if !paragraph.is_empty() {
        text.push_str(&format!("{}\n", wrap(&paragraph, 0)));
    }
    text
}

fn row(line: &str) -> String {
    let cells = line.trim_matches('|').split('|').map(str::trim).enumerate();
    let cells = cells.filter(|(_, cell)| !cell.is_empty()).map(|(index, cell)| {
        let indent = if index == 0 { 2 } else { 6 };
        format!("{}\n", wrap(&format!("{}{cell}", " ".repeat(indent)), indent))
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_and_paragraphs_are_wrapped() {
        let page =
            "# A\n\n<!-- z -->\nb\nc `d`\n\n```\niolane  run\n```\n\n| x | y | z |\n|---|---|---|\n| `1` | 2 | |\n";
        let expected = "A\n\nb c `d`\n\n  iolane  run\n\n  x\n      y\n      z\n  `1`\n      2\n";
        assert_eq!(text_of(page), expected);
    }

    #[test]
    fn the_page_on_job_files_fits_a_terminal_and_lists_options() {
        let page = fio_job_files();
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
        assert!(page.contains("\n  `iodepth`\n      `--depth`\n"), "{page}");
    }
}
