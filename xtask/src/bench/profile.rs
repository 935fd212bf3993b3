//! `cargo xtask bench --profile`: where the instructions of an I/O go, in the program and in the functions of the kernel. The plugin
//! `iolane-profiler` counts them in a guest in exact mode, while the program measures. The tables are in docs/performance.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use iolane_lab::GuestCommand;
use iolane_lab::cache::Cache;
use serde_json::Value;

use super::exact::{ARMS, Arm, FIXED, POLLED};
use super::guest::{self, iolane_command, iolane_iops, page_path};
use crate::child::{cargo, find_program, succeeds};
use crate::packages;
use crate::table::{Style, Table, grouped};

const DEVICE: &str = "/dev/nullb0";
/// How long iolane measures.
const RUNTIME: [&str; 2] = ["--runtime", "200ms"];
/// Where the kernel's addresses begin (Documentation/arch/x86/x86_64/mm.rst).
const KERNEL: u64 = 1 << 63;
/// A function has a row of its own if it takes that number of instructions of an I/O in one of the arms.
const LISTED_MIN: f64 = 60.0;
/// How far the instructions that are counted may be from those by the clock.
const DIFFERENCE_MAX: f64 = 0.01;

/// Functions by their addresses.
struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    /// From /proc/kallsyms (proc_kallsyms(5)).
    fn read(text: &str) -> Result<Self> {
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            is_code.then_some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
        };
        let symbols: BTreeMap<u64, String> = text.lines().filter_map(symbol).collect();
        ensure!(symbols.len() > 1000, "/proc/kallsyms has no functions, or hides their addresses");
        Ok(Self(symbols))
    }

    fn function_at(&self, address: u64) -> &str {
        self.0.range(..=address).next_back().map_or("unknown", |(_, name)| name)
    }
}

/// Instructions of one measured phase.
#[derive(Debug, Default, PartialEq)]
struct Phase {
    program: u64,
    /// By function of the kernel.
    kernel: BTreeMap<String, u64>,
}

impl Phase {
    /// The phases that the plugin wrote.
    fn read_all(text: &str, symbols: &Symbols) -> Result<Vec<Self>> {
        let (mut phases, mut phase) = (Vec::new(), Self::default());
        for line in text.lines() {
            if line == "end" {
                phases.push(std::mem::take(&mut phase));
                continue;
            }
            let (address, count) = line.split_once(' ').context("the profile has a line of another form")?;
            let (address, count): (u64, u64) = (u64::from_str_radix(address, 16)?, count.parse()?);
            match address {
                KERNEL.. => *phase.kernel.entry(symbols.function_at(address).to_owned()).or_default() += count,
                _ => phase.program += count,
            }
        }
        Ok(phases)
    }

    fn of_kernel(&self) -> u64 {
        self.kernel.values().sum()
    }
}

/// What one arm's I/Os took.
struct Profile {
    name: &'static str,
    depth: u32,
    /// Instructions, and the I/Os among which they are divided.
    phase: Phase,
    ios: f64,
    /// Instructions of an I/O by the clock of the guest.
    by_clock: f64,
}

impl Profile {
    fn each(&self, instructions: u64) -> f64 {
        instructions as f64 / self.ios
    }

    fn of_function(&self, name: &str) -> f64 {
        self.each(self.phase.kernel.get(name).copied().unwrap_or_default())
    }

    fn together(&self) -> f64 {
        self.each(self.phase.program + self.phase.of_kernel())
    }

    fn heading(&self) -> String {
        let path = match self.name {
            FIXED => "registered",
            POLLED => "polled",
            path => path,
        };
        format!("{path}, {}", self.depth)
    }
}

/// Counts, prints, and writes the page; `Ok(false)` if what is counted is not what the clock shows.
pub(super) fn run(iolane: &Path, target_folder: &Path) -> Result<bool> {
    if let [package, ..] = packages::install(&[packages::QEMU])?[..] {
        bail!("{} is missing; as root: apt-get install {}", package.program, package.name);
    }
    let built = succeeds(&mut cargo(&["build", "--release", "--package", "iolane-profiler"]))?;
    ensure!(built, "iolane-profiler did not build, see above");
    let (described, profiles) = measure(iolane, &target_folder.join("release/libiolane_profiler.so"))?;
    let text = |style| format!("{described}\n\n{}\n{}", summary(&profiles, style), functions(&profiles, style));
    println!("{}", text(Style::Text));
    let page = page_path();
    let before = std::fs::read_to_string(&page).context("reading docs/performance.md")?;
    std::fs::write(&page, guest::renewed(&before, "profile figures", &text(Style::Markdown))?)
        .context("writing docs/performance.md")?;
    println!("written to docs/performance.md");
    let is_whole = |profile: &Profile| (profile.together() / profile.by_clock - 1.0).abs() <= DIFFERENCE_MAX;
    let all_are_whole = profiles.iter().all(is_whole);
    if !all_are_whole {
        println!("gate: closed, what was counted differs from the clock by more than {:.0} %", DIFFERENCE_MAX * 100.0);
    }
    Ok(all_are_whole)
}

fn measure(iolane: &Path, plugin: &Path) -> Result<(String, Vec<Profile>)> {
    let cache = Cache::of_user()?;
    let kernel = guest::kernel(&cache)?;
    let described =
        format!("Linux {} ({}), {DEVICE}, 4 KiB random reads; instructions per I/O:", kernel.release, kernel.origin);
    let out = tempfile::NamedTempFile::new().context("a file for the profile")?;
    let mut lab = guest::exact_lab(iolane, &kernel, &cache);
    lab.plugin = Some(format!("{},out={}", plugin.display(), out.path().display()));
    lab.programs.push((find_program("cat").context("cat is not installed")?, "/bin/cat".into()));
    let mut commands: Vec<GuestCommand> =
        ARMS.iter().map(|arm| iolane_command(DEVICE, arm.path, arm.depth, &RUNTIME)).collect();
    commands.push(GuestCommand::new(["/bin/cat", "/proc/kallsyms"]));
    let outputs = guest::outputs(&lab, commands)?;
    let symbols = Symbols::read(outputs.last().map_or("", String::as_str))?;
    let written = std::fs::read_to_string(out.path()).context("reading the profile")?;
    let phases = Phase::read_all(&written, &symbols)?;
    ensure!(phases.len() == ARMS.len(), "the profile has {} phases, and {} were run", phases.len(), ARMS.len());
    let profile = |((arm, output), phase): ((&Arm, &String), Phase)| {
        let record: Value = serde_json::from_str(output).context("reading iolane's record")?;
        let ios = record["result"]["ios"].as_f64().context("iolane's record has no I/Os")?;
        let by_clock = 1e9 / iolane_iops(output)?;
        Ok(Profile { name: arm.path, depth: arm.depth, phase, ios, by_clock })
    };
    let profiles = ARMS.iter().zip(&outputs).zip(phases).map(profile).collect::<Result<_>>()?;
    Ok((described, profiles))
}

fn summary(profiles: &[Profile], style: Style) -> String {
    let mut table = Table::new(&["path", "depth", "program", "kernel", "together", "by the clock"]);
    for profile in profiles {
        table.row(vec![
            profile.name.to_owned(),
            profile.depth.to_string(),
            grouped(profile.each(profile.phase.program)),
            grouped(profile.each(profile.phase.of_kernel())),
            grouped(profile.together()),
            grouped(profile.by_clock),
        ]);
    }
    table.render(style)
}

/// The kernel's functions that take the most, and the rest.
fn functions(profiles: &[Profile], style: Style) -> String {
    let most = |name: &&String| profiles.iter().map(|profile| profile.of_function(name)).fold(0.0, f64::max);
    let all: BTreeSet<&String> = profiles.iter().flat_map(|profile| profile.phase.kernel.keys()).collect();
    let mut listed: Vec<&String> = all.into_iter().filter(|name| most(name) >= LISTED_MIN).collect();
    listed.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let headings: Vec<String> = profiles.iter().map(Profile::heading).collect();
    let headings: Vec<&str> = ["function"].into_iter().chain(headings.iter().map(String::as_str)).collect();
    let mut table = Table::new(&headings);
    let number = |count: f64| if count < 0.5 { "-".into() } else { grouped(count) };
    for name in &listed {
        let counts = profiles.iter().map(|profile| number(profile.of_function(name)));
        table.row([format!("`{name}`")].into_iter().chain(counts).collect());
    }
    let rest = profiles.iter().map(|profile| {
        let of_listed: f64 = listed.iter().map(|name| profile.of_function(name)).sum();
        number(profile.each(profile.phase.of_kernel()) - of_listed)
    });
    table.row(["all others".to_owned()].into_iter().chain(rest).collect());
    table.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        let functions: String = (0..1001).map(|at| format!("{:016x} t function_{at}\n", KERNEL + at * 16)).collect();
        Symbols::read(&format!("{functions}{:016x} D data\n{:016x} T last\t[module]\n", KERNEL + 8, KERNEL + 0x10000))
            .unwrap()
    }

    #[test]
    fn instructions_belong_to_the_function_before_their_address_and_below_the_kernel_to_the_program() {
        let (first, second) = (KERNEL, KERNEL + 16);
        let written = format!(
            "55aa 100\n{first:x} 5\n{:x} 7\n{second:x} 1\n7fff00 20\nend\n{:x} 3\nend\n",
            first + 12,
            second + 0x20000
        );
        let phases = Phase::read_all(&written, &symbols()).unwrap();
        assert_eq!(phases[0].program, 120);
        assert_eq!(phases[0].kernel, BTreeMap::from([("function_0".into(), 12), ("function_1".into(), 1)]));
        assert_eq!(phases[1], Phase { program: 0, kernel: BTreeMap::from([("last".into(), 3)]) });
        assert!(Phase::read_all("nonsense\n", &symbols()).is_err());
    }

    #[test]
    fn hidden_addresses_are_an_error() {
        assert!(Symbols::read("0000000000000000 t function\n0000000000000000 t other\n").is_err());
    }

    #[test]
    fn small_functions_are_summed_up() {
        let kernel = BTreeMap::from([("large".into(), 100_000), ("small".into(), 2_000), ("tiny".into(), 1_000)]);
        let phase = Phase { program: 50_000, kernel };
        let profile = Profile { name: "psync", depth: 1, phase, ios: 1000.0, by_clock: 153.0 };
        let profiles = [profile];
        assert_eq!(profiles[0].together(), 153.0);
        let table = functions(&profiles, Style::Text);
        assert!(table.contains("psync, 1") && table.contains("`large`") && !table.contains("tiny"), "{table}");
        assert!(table.lines().last().unwrap().ends_with(" 3"), "{table}");
    }
}
