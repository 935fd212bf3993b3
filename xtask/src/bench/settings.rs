//! `cargo xtask bench --settings`: instructions per I/O under settings of a block device, in guests whose clock counts
//! instructions. `iolane advise` and docs/host-settings.md have the figures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use iolane_lab::cache::Cache;
use iolane_lab::{GuestCommand, Kernel};

use super::guest::{self, iolane_command, iolane_iops};
use crate::child::root;
use crate::table::{Style, Table, grouped};

const DEVICE: &str = "/dev/nullb0";
const KERNELS: [&str; 2] = ["6.1", "7.2"];
const RUNTIME: [&str; 2] = ["--runtime", "200ms"];
const SHELL: &str = "/bin/sh";

const REGISTERED: &str = "io_uring,fixedbufs,fixedfiles";
const POLLED: &str = "io_uring+iopoll,fixedbufs,fixedfiles";
const ARMS: [(&str, u32); 8] = [
    ("psync", 1),
    ("libaio", 1),
    ("libaio", 16),
    ("io_uring", 1),
    ("io_uring", 16),
    (REGISTERED, 16),
    (POLLED, 1),
    (POLLED, 16),
];

/// A column: its name in the file, its heading, the attribute of the queue, and the values to set and to set again.
struct Setting {
    column: &'static str,
    heading: &'static str,
    attribute: &'static str,
    value: &'static str,
    default: &'static str,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        column: "mq_deadline",
        heading: "scheduler mq-deadline",
        attribute: "scheduler",
        value: "mq-deadline",
        default: "none",
    },
    Setting { column: "no_iostats", heading: "iostats 0", attribute: "iostats", value: "0", default: "1" },
    Setting { column: "no_merges", heading: "nomerges 2", attribute: "nomerges", value: "2", default: "0" },
];

/// The figures of one kernel.
struct Measured {
    version: &'static str,
    described: String,
    /// For each arm, instructions with the defaults and with each setting.
    rows: Vec<Vec<f64>>,
}

/// Measures, prints, and writes both files.
pub(crate) fn run(iolane: &Path) -> Result<bool> {
    let cache = Cache::of_user()?;
    let mut all = Vec::new();
    for version in KERNELS {
        all.push(measure(iolane, version, &guest::kernel_of(version, &cache)?, &cache)?);
    }
    let tables: String = all.iter().map(|measured| measured.text(Style::Markdown)).collect();
    all.iter().for_each(|measured| print!("{}", measured.text(Style::Text)));
    let page = root().join("docs/host-settings.md");
    let text = std::fs::read_to_string(&page).context("reading docs/host-settings.md")?;
    std::fs::write(&page, guest::renewed(&text, "settings figures", &tables)?)?;
    std::fs::write(costs_path(), csv(&all)).context("writing the figures of advise")?;
    println!("written to docs/host-settings.md and {}", costs_path().display());
    Ok(true)
}

fn costs_path() -> PathBuf {
    root().join("crates/iolane-study/src/advise/host_costs.csv")
}

fn measure(iolane: &Path, version: &'static str, kernel: &Kernel, cache: &Cache) -> Result<Measured> {
    let mut lab = guest::exact_lab(iolane, kernel, cache);
    lab.programs.push((SHELL.into(), SHELL.into()));
    let mut commands = arms();
    for Setting { attribute, value, default, .. } in &SETTINGS {
        commands.push(set(attribute, value));
        commands.extend(arms());
        commands.push(set(attribute, default));
    }
    let outputs = guest::outputs(&lab, commands)?;
    // Settings print nothing.
    let printed: Vec<&String> = outputs.iter().filter(|output| !output.is_empty()).collect();
    let figures: Vec<f64> = printed.iter().map(|output| Ok(1e9 / iolane_iops(output)?)).collect::<Result<_>>()?;
    let row = |arm: usize| (0..=SETTINGS.len()).map(|column| figures.get(column * ARMS.len() + arm).copied()).collect();
    let rows: Option<Vec<Vec<f64>>> = (0..ARMS.len()).map(row).collect();
    Ok(Measured {
        version,
        described: format!("Linux {} ({})", kernel.release, kernel.origin),
        rows: rows.context("a run printed nothing")?,
    })
}

fn arms() -> Vec<GuestCommand> {
    ARMS.iter().map(|(path, depth)| iolane_command(DEVICE, path, *depth, &RUNTIME)).collect()
}

fn set(attribute: &str, value: &str) -> GuestCommand {
    GuestCommand::new([SHELL, "-c", &format!("echo {value} > /sys/block/nullb0/queue/{attribute}")])
}

impl Measured {
    fn text(&self, style: Style) -> String {
        let headings: Vec<&str> =
            ["path", "depth", "defaults"].into_iter().chain(SETTINGS.iter().map(|setting| setting.heading)).collect();
        let mut table = Table::new(&headings);
        for ((path, depth), row) in ARMS.iter().zip(&self.rows) {
            let mut cells = vec![(*path).to_owned(), depth.to_string()];
            let default = row.first().copied().unwrap_or(f64::NAN);
            for (column, figure) in row.iter().enumerate() {
                let change = format!(" ({:.2}x)", figure / default);
                cells.push(format!("{}{}", grouped(*figure), if column == 0 { "" } else { &change }));
            }
            table.row(cells);
        }
        format!("{}, {DEVICE}, 4 KiB random reads:\n\n{}\n", self.described, table.render(style))
    }
}

/// The figures for `iolane advise`.
fn csv(all: &[Measured]) -> String {
    let mut text = String::from("kernel,path,depth,defaults");
    SETTINGS.iter().for_each(|setting| text.push_str(&format!(",{}", setting.column)));
    text.push('\n');
    for measured in all {
        for ((path, depth), row) in ARMS.iter().zip(&measured.rows) {
            let figures: String = row.iter().map(|figure| format!(",{figure:.0}")).collect();
            // Paths have commas.
            let _ = writeln!(text, "{},\"{path}\",{depth}{figures}", measured.version);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_written_as_a_table_and_as_csv() {
        let rows = vec![vec![1000.0, 1500.0, 900.0, 950.0]; ARMS.len()];
        let measured = Measured { version: "6.1", described: "Linux 6.1".into(), rows };
        let text = measured.text(Style::Markdown);
        assert!(text.starts_with("Linux 6.1, /dev/nullb0, 4 KiB random reads:\n\n| path"), "{text}");
        assert!(text.contains("1,500 (1.50x)") && text.contains("900 (0.90x)"), "{text}");
        let csv = csv(&[measured]);
        let expected =
            "kernel,path,depth,defaults,mq_deadline,no_iostats,no_merges\n6.1,\"psync\",1,1000,1500,900,950\n";
        assert!(csv.starts_with(expected), "{csv}");
    }
}
