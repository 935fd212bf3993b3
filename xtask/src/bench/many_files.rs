//! `cargo xtask bench --files`: what a read costs on a queue with one file, with two and with a thousand, and while they are replaced: the example
//! `many_files` in a guest in exact mode.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use iolane_lab::GuestCommand;
use iolane_lab::cache::Cache;

use super::guest::{self, page_path};
use crate::child::{cargo, succeeds};
use crate::packages;
use crate::table::{Style, Table, grouped};

const NAME: &str = "files figures";
const DEVICE: &str = "/dev/nullb0";
/// Where the example is in a guest.
const PROGRAM: &str = "/bin/many_files";
const READS: u32 = 50_000;
const PATHS: [&str; 4] = ["psync", "libaio", "io_uring", "io_uring,fixedbufs,fixedfiles"];
/// Files, and the reads after each of which one of them is replaced; 0: never.
const LOADS: [(usize, u32); 4] = [(1, 0), (2, 0), (MANY, 0), (MANY, 100)];
const MANY: usize = 1000;
/// What a second file may cost, as a share of a read.
const SECOND_MAX: f64 = 0.01;

/// The instructions of a read on one path, by [`LOADS`].
struct Costs {
    path: &'static str,
    instructions: Vec<f64>,
}

impl Costs {
    /// What a second file costs, as a share.
    fn of_second(&self) -> f64 {
        self.instructions[1] / self.instructions[0] - 1.0
    }
}

/// Measures and prints; `Ok(false)` if a second file costs more than it may. Without `check` the table is written.
pub(super) fn run(iolane: &Path, target_folder: &Path, check: bool) -> Result<bool> {
    if let [package, ..] = packages::install(&[packages::QEMU])?[..] {
        bail!("{} is missing; as root: apt-get install {}", package.program, package.name);
    }
    let built = succeeds(&mut cargo(&["build", "--release", "--package", "iolane", "--example", "many_files"]))?;
    ensure!(built, "the example many_files did not build, see above");
    let (kernel, costs) = measure(iolane, &target_folder.join("release/examples/many_files"))?;
    print!("{}", table(&costs, Style::Text));
    for costs in costs.iter().filter(|costs| costs.of_second() > SECOND_MAX) {
        println!("WORSE: {}: a second file costs {:.2} %", costs.path, costs.of_second() * 100.0);
    }
    if !check {
        let page = std::fs::read_to_string(page_path()).context("docs/performance.md")?;
        let text = format!("{kernel}, {DEVICE}; instructions per read:\n\n{}", table(&costs, Style::Markdown));
        std::fs::write(page_path(), guest::renewed(&page, NAME, &text)?).context("writing docs/performance.md")?;
        println!("written to docs/performance.md");
    }
    let is_cheap = costs.iter().all(|costs| costs.of_second() <= SECOND_MAX);
    println!("gate: {}", if is_cheap { "no path pays 1 % for a second file" } else { "closed" });
    Ok(is_cheap)
}

fn measure(iolane: &Path, example: &Path) -> Result<(String, Vec<Costs>)> {
    let cache = Cache::of_user()?;
    let kernel = guest::kernel(&cache)?;
    let described = format!("Linux {} ({})", kernel.release, kernel.origin);
    let mut lab = guest::exact_lab(iolane, &kernel, &cache);
    lab.programs.push((example.to_owned(), PROGRAM.into()));
    let command = |path: &str, (files, keep): (usize, u32)| {
        let words = [PROGRAM.to_owned(), path.to_owned(), READS.to_string(), keep.to_string()];
        GuestCommand::new(words.into_iter().chain(std::iter::repeat_n(DEVICE.to_owned(), files)))
    };
    let commands = PATHS.iter().flat_map(|path| LOADS.map(|load| command(path, load))).collect();
    let outputs = guest::outputs(&lab, commands)?;
    let costs = PATHS.iter().zip(outputs.chunks(LOADS.len())).map(|(path, outputs)| {
        let instructions = outputs.iter().map(|output| nanoseconds(output)).collect::<Result<_>>()?;
        Ok(Costs { path, instructions })
    });
    Ok((described, costs.collect::<Result<_>>()?))
}

/// `psync: 2 files, 50000 reads, 4536 ns each, 0 replaced`; a nanosecond is an instruction.
fn nanoseconds(output: &str) -> Result<f64> {
    let number = output.split(", ").find_map(|part| part.strip_suffix(" ns each"));
    number.and_then(|number| number.parse().ok()).with_context(|| format!("many_files printed: {output}"))
}

fn table(costs: &[Costs], style: Style) -> String {
    let mut table =
        Table::new(&["path", "1 file", "2 files", "second", "1,000 files", "1,000, one replaced every 100"]);
    for costs in costs {
        let [one, two, many, replaced] = costs.instructions[..] else { continue };
        table.row(vec![
            costs.path.into(),
            grouped(one),
            grouped(two),
            format!("{:+.2} %", costs.of_second() * 100.0),
            grouped(many),
            grouped(replaced),
        ]);
    }
    table.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_read_is_found_in_what_the_example_prints() {
        let found = nanoseconds("io_uring: 2 files, 50000 reads, 5170 ns each, 0 replaced\n").unwrap();
        assert!((found - 5170.0).abs() < f64::EPSILON);
        assert!(nanoseconds("").is_err());
    }
}
