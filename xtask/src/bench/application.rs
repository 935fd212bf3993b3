//! `cargo xtask bench --application`: the example `multi_get` on iolane's paths, on std::fs and on tokio, in turn on one file. The
//! table is in docs/adopting.md.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::guest;
use super::statistics::{median, ratio_interval};
use crate::child::{cargo, root, succeeds};
use crate::table::{Style, Table, grouped};

/// What is compared; the first with each other.
const HOW: [&str; 6] = ["std", "tokio", "libaio", "io_uring", "io_uring,fixedbufs,fixedfiles", "auto"];
const REPEATS: usize = 7;

/// One line of the example.
#[derive(Debug, Clone, PartialEq)]
struct Rate {
    batch: u32,
    keys_per_s: f64,
    p99_us: f64,
}

/// Runs each in turn, over and over, and writes the table.
pub(crate) fn run(target_folder: &Path) -> Result<bool> {
    let built = succeeds(&mut cargo(&["build", "--release", "--package", "iolane", "--example", "multi_get"]))?;
    ensure!(built, "the example multi_get did not build, see above");
    let program = target_folder.join("release/examples/multi_get");
    let file = target_folder.join("multi-get.data");
    // The file is made by the first run, which is not counted.
    measure(&program, &file, HOW[0])?;
    let mut all: Vec<Vec<Vec<Rate>>> = vec![Vec::new(); HOW.len()];
    for repeat in 0..REPEATS {
        for (how, runs) in HOW.iter().zip(&mut all) {
            eprintln!("repeat {} of {REPEATS}: {how}", repeat + 1);
            runs.push(measure(&program, &file, how)?);
        }
    }
    std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    print!("{}", table(&all, Style::Text));
    let page = root().join("docs/adopting.md");
    let text = std::fs::read_to_string(&page).context("reading docs/adopting.md")?;
    let described = format!("{}, {REPEATS} runs of each in turn:\n\n", machine());
    let renewed = guest::renewed(&text, "application figures", &(described + &table(&all, Style::Markdown)))?;
    std::fs::write(&page, renewed).context("writing docs/adopting.md")?;
    println!("written to docs/adopting.md");
    Ok(true)
}

/// The kernel and the processors, as `uname` and the standard library tell.
fn machine() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("Linux {}, {cpus} processors", release.trim())
}

fn measure(program: &Path, file: &Path, how: &str) -> Result<Vec<Rate>> {
    let output = Command::new(program).arg(file).arg(how).output().with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "multi_get {how}: {}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| read(line).with_context(|| format!("multi_get printed: {line}"))).collect()
}

/// `std: 8 keys at once: 12458 keys/s, p99 of a batch 932 us`
fn read(line: &str) -> Option<Rate> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, batch, "keys", "at", "once:", keys_per_s, "keys/s,", "p99", "of", "a", "batch", p99_us, "us"] = words[..]
    else {
        return None;
    };
    Some(Rate { batch: batch.parse().ok()?, keys_per_s: keys_per_s.parse().ok()?, p99_us: p99_us.parse().ok()? })
}

/// A row for each batch and each way: the medians, and the ratio to the first way with its interval.
fn table(all: &[Vec<Vec<Rate>>], style: Style) -> String {
    let mut table = Table::new(&["keys at once", "by", "keys/s", "beside std", "95 %", "p99 of a batch"]);
    let batches = all.first().and_then(|runs| runs.first()).map_or(0, Vec::len);
    let of = |runs: &[Vec<Rate>], line: usize, figure: fn(&Rate) -> f64| -> Vec<f64> {
        runs.iter().filter_map(|run| run.get(line)).map(figure).collect()
    };
    for line in 0..batches {
        for (how, runs) in HOW.iter().zip(all) {
            let (rates, base) = (of(runs, line, |rate| rate.keys_per_s), of(&all[0], line, |rate| rate.keys_per_s));
            let interval = ratio_interval(&base, &rates);
            table.row(vec![
                runs[0][line].batch.to_string(),
                (*how).to_owned(),
                grouped(median(&rates)),
                format!("{:.2}x", median(&rates) / median(&base)),
                format!("{:.2}-{:.2}", interval.low, interval.high),
                format!("{} us", grouped(median(&of(runs, line, |rate| rate.p99_us)))),
            ]);
        }
    }
    table.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_and_compared_with_the_first_way() {
        let rate = read("io_uring,fixedbufs: 8 keys at once: 20000 keys/s, p99 of a batch 932 us").unwrap();
        assert_eq!(rate, Rate { batch: 8, keys_per_s: 20000.0, p99_us: 932.0 });
        assert_eq!(read("std: 8 keys"), None);
        let of = |keys_per_s: f64| vec![vec![Rate { keys_per_s, ..rate.clone() }]; 5];
        let text = table(&[of(10000.0), of(20000.0)], Style::Text);
        assert!(text.contains("1.00x") && text.contains("2.00x") && text.contains("2.00-2.00"), "{text}");
    }
}
