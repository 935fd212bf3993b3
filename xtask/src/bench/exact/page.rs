//! The committed figures: one table in docs/performance.md, between two marks. The gate reads it and the bench writes it.

use anyhow::Result;

use super::figures::Figures;
use super::guest;

const NAME: &str = "exact figures";

/// The figures in the page; none if it has no table.
pub(super) fn figures(page: &str) -> Vec<Figures> {
    guest::between(page, NAME).lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Figures> {
    let mut cells = line.strip_prefix("| ")?.trim_end_matches(" |").split(" | ").map(str::trim);
    let number = |cell: Option<&str>| cell?.replace(',', "").parse::<f64>().ok();
    let path = cells.next()?.to_owned();
    let (depth, iolane, fio) = (number(cells.next())?, number(cells.next())?, number(cells.next())?);
    Some(Figures { path, depth: depth as u32, iolane, fio })
}

/// The page with a new table, a description of the run above it and the cost of telemetry below.
pub(super) fn renewed(page: &str, description: &str, table: &str, telemetry: &str) -> Result<String> {
    let text = format!("{description}; instructions per I/O:\n\n{table}\nCost of telemetry:\n\n{telemetry}");
    guest::renewed(page, NAME, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Performance
<!-- exact figures: begin -->
Linux 6.1; instructions per I/O:

| path  | depth | iolane |   fio | fio / iolane | t/io_uring |  goal |
| ----- | ----: | -----: | ----: | -----------: | ---------: | ----: |
| psync |     1 |  4,545 | 6,523 |         1.44 |      4,810 | 4,545 |
<!-- exact figures: end -->
after
";

    #[test]
    fn figures_are_read_from_the_page_and_written_back_in_place() {
        let psync = Figures { path: "psync".into(), depth: 1, iolane: 4545.0, fio: 6523.0 };
        assert_eq!(figures(PAGE), [psync]);
        let table = "| path | depth | iolane | fio |\n| - | -: | -: | -: |\n| libaio | 16 | 5,555 | 9,337 |\n";
        let renewed = renewed(PAGE, "Linux 6.1", table, "- nothing\n").unwrap();
        let libaio = Figures { path: "libaio".into(), depth: 16, iolane: 5555.0, fio: 9337.0 };
        assert_eq!(figures(&renewed), [libaio]);
        assert!(renewed.starts_with("# Performance\n") && renewed.ends_with("-->\nafter\n"), "{renewed}");
    }

    #[test]
    fn a_page_without_marks_has_no_figures_and_is_not_written_over() {
        assert_eq!(figures("# Performance\n"), []);
        assert!(renewed("# Performance\n", "", "", "").is_err());
    }
}
