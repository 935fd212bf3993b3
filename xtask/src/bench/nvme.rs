//! `cargo xtask bench --nvme`: the cost of the user-space driver, and its IOPS compared with fio's on the same drive. CI checks
//! the cost in instructions; IOPS are measured in guests on a quiet machine, for docs/performance.md.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use iolane_core::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::{Backing, Drive, Machine};

use super::guest::{self, fio_command, fio_iops, iolane_command, iolane_iops, page_path};
use super::statistics::median;
use crate::child::{cargo, root, succeeds};
use crate::packages;
use crate::table::{Style, Table, grouped};

const NAME: &str = "nvme figures";
/// How much more a request may cost than the committed figure before the gate closes.
const WORSE_MAX: f64 = 0.02;
const BOOTS: usize = 5;

/// Instructions and nanoseconds that a request may take at most, submitted and completed.
const INSTRUCTIONS_MAX: f64 = 300.0;
const NANOSECONDS_MAX: f64 = 100.0;

/// Queues on one thread, and requests in each batch.
const COSTS: [(u32, u32); 4] = [(1, 1), (1, 32), (2, 32), (4, 32)];

/// At which depth, how many times fio's rate is the goal, and what is in exact mode.
const DEPTHS: [(u32, f64, f64); 3] = [(1, 1.9, 90e3), (16, 3.8, 340e3), (31, 4.5, 380e3)];
/// What fio does best on the drive while the kernel has it.
const FIO_POLLED: &str = "--ioengine=io_uring --hipri";
const CONTROLLER: &str = "pci:0000:00:04.0";

/// What a request costs against model controllers that answer at once in the same thread.
struct Cost {
    drives: u32,
    batch: u32,
    instructions: f64,
    nanoseconds: f64,
    /// Doorbell registers written, without and with shadows in memory.
    writes: [f64; 2],
}

/// Measures and prints. With `check` it only compares the instructions with the committed ones; otherwise it writes all figures.
pub(super) fn run(iolane: &Path, target_folder: &Path, check: bool, accept: bool) -> Result<bool> {
    let wanted = if check { vec![packages::VALGRIND] } else { vec![packages::VALGRIND, packages::QEMU, packages::FIO] };
    if let [package, ..] = packages::install(&wanted)?[..] {
        bail!("{} is missing; as root: apt-get install {}", package.program, package.name);
    }
    let costs = costs(target_folder)?;
    print!("{}", cost_table(&costs, Style::Text));
    let page = std::fs::read_to_string(page_path()).context("docs/performance.md")?;
    let worse = worse_than(&committed(&page), &costs);
    worse.iter().for_each(|line| println!("WORSE: {line}"));
    if check {
        ensure!(
            !committed(&page).is_empty(),
            "docs/performance.md has no figures; `cargo xtask bench --nvme` writes them"
        );
        println!("gate: {}", if worse.is_empty() { "no request costs 2 % more than committed" } else { "closed" });
        return Ok(worse.is_empty());
    }
    let rates = rates(iolane)?;
    print!("{}", rates.table(Style::Text));
    if worse.is_empty() || accept {
        let text = format!(
            "{}, {} boots; IOPS of 4 KiB random reads:\n\n{}\nCost of one request in the driver:\n\n{}",
            rates.description,
            BOOTS,
            rates.table(Style::Markdown),
            cost_table(&costs, Style::Markdown)
        );
        std::fs::write(page_path(), guest::renewed(&page, NAME, &text)?).context("writing docs/performance.md")?;
        println!("written to docs/performance.md");
    }
    Ok(worse.is_empty() || accept)
}

fn costs(target_folder: &Path) -> Result<Vec<Cost>> {
    let built = succeeds(&mut cargo(&["build", "--release", "--package", "iolane-nvme", "--example", "model_cost"]))?;
    ensure!(built, "the example model_cost did not build, see above; run it in {} by hand", root().display());
    let program = target_folder.join("release/examples/model_cost");
    let cost = |(drives, batch): (u32, u32)| {
        let words = |rounds: u32, doorbells: &str| {
            [drives.to_string(), batch.to_string(), rounds.to_string(), doorbells.to_owned()]
        };
        let rounds = 2_000_000 / (drives * batch);
        let measured = |doorbells| printed(Command::new(&program).args(words(rounds, doorbells)));
        let (registers, shadow) = (measured("registers")?, measured("shadow")?);
        let writes = |text: &str| value(text, "register_writes_per_request");
        Ok(Cost {
            drives,
            batch,
            instructions: instructions(&program, &words(1000, "registers"))?,
            nanoseconds: value(&registers, "ns_per_request")?,
            writes: [writes(&registers)?, writes(&shadow)?],
        })
    };
    COSTS.into_iter().map(cost).collect()
}

/// Instructions of the function `driver` and all that it calls, per request, as callgrind counts them.
fn instructions(program: &Path, arguments: &[String]) -> Result<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=model_cost::driver"]);
    let output = command.arg(program).args(arguments).output().context("starting valgrind")?;
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "valgrind failed: {log}");
    let collected = log.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<f64>().ok());
    let collected = collected.filter(|count| *count > 0.0).context("callgrind counted nothing")?;
    Ok(collected / value(&text, "requests")?)
}

fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().context("starting model_cost")?;
    ensure!(output.status.success(), "model_cost failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The number behind a name on a line of its own.
fn value(text: &str, name: &str) -> Result<f64> {
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    number.with_context(|| format!("model_cost printed no {name}"))
}

fn cost_table(costs: &[Cost], style: Style) -> String {
    let heads = ["drives", "batch", "instructions", "ns", "register writes", "with shadow doorbells", "goal"];
    let mut table = Table::new(&heads);
    for cost in costs {
        let reached = cost.instructions < INSTRUCTIONS_MAX && cost.nanoseconds < NANOSECONDS_MAX;
        table.row(vec![
            cost.drives.to_string(),
            cost.batch.to_string(),
            format!("{:.0}", cost.instructions),
            format!("{:.0}", cost.nanoseconds),
            format!("{:.3}", cost.writes[0]),
            format!("{:.3}", cost.writes[1]),
            format!("{INSTRUCTIONS_MAX:.0}, {NANOSECONDS_MAX:.0} ns{}", if reached { "" } else { " missed" }),
        ]);
    }
    table.render(style)
}

/// Drives, batch and instructions of each row of the page.
fn committed(page: &str) -> Vec<(u32, u32, f64)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ").map(|cell| cell.trim().parse::<f64>().ok());
        let (drives, batch, instructions) = (cells.next()??, cells.next()??, cells.next()??);
        Some((drives as u32, batch as u32, instructions))
    };
    let text = guest::between(page, NAME);
    let costs = text.split_once("request in the driver").map_or("", |(_, costs)| costs);
    costs.lines().filter_map(row).collect()
}

fn worse_than(committed: &[(u32, u32, f64)], costs: &[Cost]) -> Vec<String> {
    let worse = |cost: &Cost| {
        let known = committed.iter().find(|(drives, batch, _)| (*drives, *batch) == (cost.drives, cost.batch));
        let (_, _, before) = known?;
        let what =
            format!("{} drives, batches of {}: {before:.0} -> {:.0}", cost.drives, cost.batch, cost.instructions);
        (cost.instructions > before * (1.0 + WORSE_MAX)).then_some(what)
    };
    costs.iter().filter_map(worse).collect()
}

/// Rates at each of the depths, a list of one for each boot.
struct Rates {
    description: String,
    fio: Vec<Vec<f64>>,
    polled: Vec<Vec<f64>>,
    interrupts: Vec<Vec<f64>>,
    exact: Vec<Vec<f64>>,
}

impl Rates {
    fn table(&self, style: Style) -> String {
        let heads = ["depth", "fio iopoll", "nvme+int", "nvme", "nvme / fio", "goal", "exact, null", "goal "];
        let mut table = Table::new(&heads);
        let missed = |is_missed: bool| if is_missed { " missed" } else { "" };
        for (index, (depth, ratio_goal, exact_goal)) in DEPTHS.into_iter().enumerate() {
            let ratios: Vec<f64> =
                self.polled[index].iter().zip(&self.fio[index]).map(|(ours, fio)| ours / fio).collect();
            let (ratio, exact) = (median(&ratios), median(&self.exact[index]));
            table.row(vec![
                depth.to_string(),
                grouped(median(&self.fio[index])),
                grouped(median(&self.interrupts[index])),
                grouped(median(&self.polled[index])),
                format!("{ratio:.2}"),
                format!("{ratio_goal:.1}{}", missed(ratio < ratio_goal)),
                grouped(exact),
                format!("{}{}", grouped(exact_goal), missed(exact < exact_goal)),
            ]);
        }
        table.render(style)
    }
}

fn rates(iolane: &Path) -> Result<Rates> {
    let cache = Cache::of_user()?;
    let kernel = guest::kernel(&cache)?;
    let description = format!("Linux {} ({}), 2 vCPUs, one NVMe drive on a raw file", kernel.release, kernel.origin);
    let empty = || vec![Vec::new(); DEPTHS.len()];
    let mut rates = Rates { description, fio: empty(), polled: empty(), interrupts: empty(), exact: empty() };
    for boot in 1..=BOOTS {
        eprintln!("boot {boot} of {BOOTS}");
        let drive = Drive { bytes: Bytes(1 << 30), ..Drive::default() };
        let machine = Machine::new(2, Bytes(2 << 30), vec![drive.clone()]);
        let mut commands = Vec::new();
        // While the kernel has the drive; the first of the others takes it.
        commands.extend(DEPTHS.map(|(depth, ..)| fio_command("/dev/nvme0n1", FIO_POLLED, depth)));
        for path in ["nvme+int", "nvme"] {
            commands.extend(DEPTHS.map(|(depth, ..)| iolane_command(CONTROLLER, path, depth, &["--runtime", "1s"])));
        }
        let mut lab = guest::lab(iolane, &kernel, &cache, machine);
        lab.programs.push(guest::fio());
        let outputs = guest::outputs(&lab, commands)?;
        for (index, output) in outputs.iter().enumerate() {
            let depth = index % DEPTHS.len();
            match index / DEPTHS.len() {
                0 => rates.fio[depth].push(fio_iops(output)?),
                1 => rates.interrupts[depth].push(iolane_iops(output)?),
                _ => rates.polled[depth].push(iolane_iops(output)?),
            }
        }
        let drive = Drive { backing: Backing::Null, ..drive };
        let machine = Machine { exact: true, ..Machine::new(1, Bytes(2 << 30), vec![drive]) };
        let commands = DEPTHS.map(|(depth, ..)| iolane_command(CONTROLLER, "nvme", depth, &["--runtime", "500ms"]));
        let outputs = guest::outputs(&guest::lab(iolane, &kernel, &cache, machine), commands.into())?;
        for (depth, output) in outputs.iter().enumerate() {
            rates.exact[depth].push(iolane_iops(output)?);
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(instructions: f64) -> Cost {
        Cost { drives: 1, batch: 32, instructions, nanoseconds: 25.0, writes: [0.06, 0.05] }
    }

    #[test]
    fn the_gate_reads_back_what_the_bench_wrote_and_closes_at_two_percent() {
        let text =
            format!("rates\n\nCost of one request in the driver:\n\n{}", cost_table(&[cost(275.0)], Style::Markdown));
        let page = guest::renewed("<!-- nvme figures: begin -->\n<!-- nvme figures: end -->\n", NAME, &text).unwrap();
        assert_eq!(committed(&page), [(1, 32, 275.0)]);
        assert!(worse_than(&committed(&page), &[cost(280.0)]).is_empty());
        assert_eq!(worse_than(&committed(&page), &[cost(281.0)]), ["1 drives, batches of 32: 275 -> 281"]);
    }

    #[test]
    fn values_are_read_by_their_names() {
        assert_eq!(value("requests 5\nns_per_request 2.50\n", "ns_per_request").unwrap(), 2.5);
        assert!(value("requests 5\n", "ns_per_request").is_err());
    }
}
