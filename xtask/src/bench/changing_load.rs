//! How `auto` follows a load that changes: the example `changing_load` in a guest in exact mode. `bench --auto` runs it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use iolane_lab::GuestCommand;
use iolane_lab::cache::Cache;

use super::guest;
use crate::child::{cargo, succeeds};
use crate::table::{Style, Table, grouped};

const DEVICE: &str = "/dev/nullb0";
/// Where the example is in a guest.
const PROGRAM: &str = "/bin/changing_load";
/// The share of the best fixed path's rate that `auto` reaches at least, half a second after each change.
const SHARE_MIN: f64 = 0.9;
/// The same while other threads take turns with it. When they come is the scheduler's choice: on four kernels 0.92 to 0.98 were seen.
const SHARE_MIN_BESIDE_OTHERS: f64 = 0.85;

/// What the example printed.
pub(super) struct Followed {
    kernel: String,
    loads: Vec<Load>,
}

#[derive(Debug, PartialEq)]
struct Load {
    size: String,
    depth: String,
    /// Whether other threads spin.
    others: String,
    auto: f64,
    best: f64,
    path: String,
    best_path: String,
}

impl Load {
    /// The share that is enough.
    fn share_min(&self) -> f64 {
        if self.others == "-" { SHARE_MIN } else { SHARE_MIN_BESIDE_OTHERS }
    }
}

/// Builds the example.
pub(super) fn build(target_folder: &Path) -> Result<PathBuf> {
    let built = succeeds(&mut cargo(&["build", "--release", "--package", "iolane", "--example", "changing_load"]))?;
    ensure!(built, "the example changing_load did not build, see above");
    Ok(target_folder.join("release/examples/changing_load"))
}

impl Followed {
    pub(super) fn measure(iolane: &Path, example: &Path, version: &str, cache: &Cache) -> Result<Self> {
        let kernel = guest::kernel_of(version, cache)?;
        let mut lab = guest::exact_lab(iolane, &kernel, cache);
        lab.programs.push((example.to_owned(), PROGRAM.into()));
        let outputs = guest::outputs(&lab, vec![GuestCommand::new([PROGRAM, DEVICE])])?;
        let kernel = format!("Linux {} ({}), {DEVICE}, random reads:", kernel.release, kernel.origin);
        Ok(Self { kernel, loads: read(outputs.first().map_or("", String::as_str))? })
    }

    pub(super) fn text(&self, style: Style) -> String {
        let mut table =
            Table::new(&["size", "depth", "others", "auto", "takes", "best fixed path", "its rate", "auto / best"]);
        for load in &self.loads {
            table.row(vec![
                load.size.clone(),
                load.depth.clone(),
                load.others.clone(),
                grouped(load.auto),
                load.path.clone(),
                load.best_path.clone(),
                grouped(load.best),
                format!("{:.3}", load.auto / load.best),
            ]);
        }
        format!("{}\n\n{}", self.kernel, table.render(style))
    }

    pub(super) fn is_reached(&self) -> bool {
        self.loads.iter().all(|load| load.auto >= load.share_min() * load.best)
    }
}

/// The lines after the heading.
fn read(output: &str) -> Result<Vec<Load>> {
    let load = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [size, depth, others, auto, best, _, path, best_path] = words[..] else { return None };
        Some(Load {
            size: size.into(),
            depth: depth.into(),
            others: others.into(),
            auto: auto.parse().ok()?,
            best: best.parse().ok()?,
            path: path.into(),
            best_path: best_path.into(),
        })
    };
    let loads: Option<Vec<Load>> = output.lines().skip(1).map(load).collect();
    loads.filter(|loads| loads.len() > 1).with_context(|| format!("changing_load printed: {output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_read_and_a_load_that_is_not_followed_closes_the_gate() {
        let text = "size depth others    auto/s  best/s  auto / best  path in use, best path\n  \
                    4k     1   spin     99000  100000        0.990  psync psync\n\
                    128k    64      -     89000  100000        0.890  libaio io_uring\n";
        let mut followed = Followed { kernel: "Linux".into(), loads: read(text).unwrap() };
        assert!(!followed.is_reached());
        assert!(followed.text(Style::Text).contains("0.890"));
        followed.loads.pop();
        assert!(followed.is_reached());
        followed.loads[0].auto = 86_000.0;
        assert!(followed.is_reached(), "beside others less is enough");
        followed.loads[0].auto = 84_000.0;
        assert!(!followed.is_reached());
        assert!(read("").is_err() && read("size\nno load\n1\n").is_err());
    }
}
