//! `cargo xtask bench --auto`: the path `auto` beside each fixed path at every block size and depth, in guests whose clock advances
//! one nanosecond per instruction, so that the figures repeat; and what `iolane advise` recommends there. `--drives` does the
//! same in real time, on an emulated drive and on two processors. The tables are in docs/auto.md.

mod cell;
mod grid;
mod summary;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use iolane_lab::cache::Cache;
use serde_json::Value;

use super::changing_load::{self, Followed};
use super::guest::{self, iolane_command_after};
use crate::child::root;
use crate::packages;
use crate::table::Style;
use grid::{ADVISED_MIN, Extent, Grid, Place, SIZES};

const KERNELS: [&str; 2] = ["6.1", "7.2"];

/// All of a grid, with advice; the same without.
const WHOLE: Extent = Extent { sizes: &SIZES, depths_of_goals: &[1, 16, 128], advice: true };
const WITHOUT_ADVICE: Extent = Extent { advice: false, ..WHOLE };
/// The part of the grid that CI checks: another path is the best on each side of it.
const CHECKED: [(&str, Extent); 2] = [("6.1", check_of(&["4k"])), ("7.2", check_of(&["128k"]))];

const fn check_of(sizes: &'static [&'static str]) -> Extent {
    Extent { sizes, depths_of_goals: &[1, 128], advice: false }
}

/// The most cores that `auto` keeps busy while it has next to nothing to do: at ten requests per second.
const IDLE_CORES_MAX: f64 = 0.01;
const OF_IDLE: [&str; 4] = ["--rate", "10", "--runtime", "2s"];

/// How much is measured.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part<'a> {
    /// All in exact mode, for docs/auto.md.
    Whole,
    /// What CI checks; nothing is written.
    Check,
    /// Loads that change, for docs/auto.md.
    Changes,
    /// An emulated drive and two processors, in real time, for docs/auto.md; just the grids whose name has this text: `6.1`, `nvme0n1 1`.
    Drives { only: Option<&'a str> },
}

/// Measures, prints, and compares with the goals. What is not only checked is written to the page too.
pub(super) fn run(iolane: &Path, target_folder: &Path, part: Part<'_>) -> Result<bool> {
    if let [package, ..] = packages::install(&[packages::QEMU])?[..] {
        bail!("{} is missing; as root: apt-get install {}", package.program, package.name);
    }
    let cache = Cache::of_user()?;
    let (grids, page) = match part {
        Part::Drives { only } => {
            let of_kernel = |kernel| Place::TIMED.map(|place| (kernel, place, WITHOUT_ADVICE));
            let all: Vec<_> = KERNELS.into_iter().flat_map(of_kernel).collect();
            let names: Vec<String> = all.iter().map(|(kernel, place, _)| place.mark(kernel)).collect();
            let is_meant = |name: &str| only.is_none_or(|text| name.contains(text));
            let grids: Vec<_> =
                all.into_iter().zip(&names).filter(|(_, name)| is_meant(name)).map(|(grid, _)| grid).collect();
            ensure!(!grids.is_empty(), "no grid has the text of --only in its name; there are {}", names.join(", "));
            return measure_grids(iolane, grids, Some("drive figures"), &cache);
        }
        Part::Check => (CHECKED.to_vec(), None),
        Part::Changes => (Vec::new(), None),
        Part::Whole => (KERNELS.map(|kernel| (kernel, WHOLE)).to_vec(), Some("auto figures")),
    };
    let grids = grids.into_iter().map(|(kernel, extent)| (kernel, Place::EXACT, extent)).collect();
    let is_reached = measure_grids(iolane, grids, page, &cache)?;
    let kernels = if part == Part::Check { &KERNELS[..1] } else { &KERNELS };
    let is_followed = measure_changes(iolane, target_folder, kernels, part != Part::Check, &cache)?;
    let idle_cores = idle_cores(iolane, KERNELS[0], &cache)?;
    println!("auto keeps {idle_cores:.4} cores busy at ten requests per second, this program's own work included");
    let is_idle = idle_cores <= IDLE_CORES_MAX;
    if !is_idle {
        println!("gate: closed, an idle auto keeps more than {IDLE_CORES_MAX} cores busy");
    }
    Ok(is_reached && is_followed && is_idle)
}

/// Measures grids and says whether all reach their goals. Each is written as soon as it is there, to the marks of this name and its own in the
/// page.
fn measure_grids(iolane: &Path, grids: Vec<(&str, Place, Extent)>, marks: Option<&str>, cache: &Cache) -> Result<bool> {
    let (mut is_reached, mut is_advised_well) = (true, true);
    for (kernel, place, extent) in grids {
        let grid = Grid::measure(iolane, kernel, place, extent, cache)?;
        println!("{}", grid.text(Style::Text));
        if let Some(marks) = marks {
            renew(&format!("{marks} {}", grid.mark), &[grid.text(Style::Markdown)])?;
        }
        is_reached &= grid.is_reached();
        is_advised_well &= grid.is_advised_well();
    }
    println!("gate: {}", if is_reached { "auto reaches its goals" } else { "closed" });
    if !is_advised_well {
        println!(
            "gate: closed, a path is recommended that does not reach {ADVISED_MIN} of the best, or too few intervals cover"
        );
    }
    Ok(is_reached && is_advised_well)
}

/// Measures loads that change and says whether `auto` follows them.
fn measure_changes(iolane: &Path, target_folder: &Path, kernels: &[&str], write: bool, cache: &Cache) -> Result<bool> {
    let example = changing_load::build(target_folder)?;
    let mut tables = Vec::new();
    let mut is_followed = true;
    for kernel in kernels {
        let followed = Followed::measure(iolane, &example, kernel, cache)?;
        println!("{}", followed.text(Style::Text));
        tables.push(followed.text(Style::Markdown));
        is_followed &= followed.is_reached();
    }
    if write {
        renew("change figures", &tables)?;
    }
    if !is_followed {
        println!("gate: closed, half a second after a change auto is below 0.9 of the best fixed path");
    }
    Ok(is_followed)
}

/// Writes tables between the marks of this name in docs/auto.md.
fn renew(marks: &str, tables: &[String]) -> Result<()> {
    let page = root().join("docs/auto.md");
    let text = std::fs::read_to_string(&page).context("reading docs/auto.md")?;
    std::fs::write(&page, guest::renewed(&text, marks, &tables.join("\n"))?).context("writing docs/auto.md")?;
    println!("written to docs/auto.md");
    Ok(())
}

/// The cores that `auto` keeps busy with a request now and then.
fn idle_cores(iolane: &Path, version: &str, cache: &Cache) -> Result<f64> {
    let kernel = guest::kernel_of(version, cache)?;
    let lab = guest::exact_lab(iolane, &kernel, cache);
    let command = iolane_command_after("1s", Place::EXACT.target, "auto", 16, &OF_IDLE);
    let outputs = guest::outputs(&lab, vec![command])?;
    let record: Value = serde_json::from_str(outputs.first().map_or("", String::as_str)).context("the idle run")?;
    record["result"]["cpu"]["cores"].as_f64().context("the idle run has no figure of cores")
}
