//! `cargo xtask campaign`: tests that try at random, with more attempts and other seeds than the test command has time for.
//! docs/reliability.md lists them, with what they found.

mod memory;
mod races;

use anyhow::{Result, bail, ensure};

use crate::child::{cargo, succeeds};
use crate::guests::{self, cuts::Cuts, uses::Uses};

/// A campaign: its name, the tests that make the attempts, and how many by default.
struct Campaign {
    name: &'static str,
    /// The arguments of `cargo test` that choose the tests.
    tests: &'static [&'static str],
    attempts: u64,
    /// The variables that give the tests the number of attempts and the first seed.
    variables: [&'static str; 2],
}

/// Each attempt has a seed of its own, so that a campaign goes on with the seed after the last one.
const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "guard",
        tests: &["-p", "iolane", "--test", "guard_adversary"],
        attempts: 1_000,
        variables: ["IOLANE_GUARD_ATTEMPTS", "IOLANE_GUARD_SEED"],
    },
    Campaign {
        name: "kernel",
        tests: &["-p", "iolane-kernel", "--lib", "fake_kernel"],
        attempts: 100_000,
        variables: ["IOLANE_KERNEL_SEEDS", "IOLANE_KERNEL_SEED"],
    },
    Campaign {
        name: "model",
        tests: &["-p", "iolane-nvme", "--test", "faults"],
        attempts: 50_000,
        variables: ["IOLANE_MODEL_SEEDS", "IOLANE_MODEL_SEED"],
    },
    Campaign {
        name: "peers",
        tests: &["-p", "iolane-study", "--lib", "a_name_that_moves"],
        attempts: 1_000,
        variables: ["IOLANE_PEERS_ATTEMPTS", "IOLANE_PEERS_SEED"],
    },
];

/// Campaigns in guests: drives in use, power cuts, a process that lives long, and a controller that does what it likes.
const USES: &str = "uses";
const CUTS: &str = "cuts";
const SOAK: &str = "soak";
const DEVICE: &str = "device";
/// The conformance suite on what is built on drives.
const STACKS: &str = "stacks";
/// Tests with every access to memory checked.
const MEMORY: &str = "memory";
/// Tests with every access to memory watched for another thread's.
const RACES: &str = "races";
/// The set of broken queues above each path.
const BUGS: &str = "bugs";
/// An option of `cuts`: prints nothing but its table, for the documentation.
const TABLE: &str = "--table";

/// Runs the named campaign with a number of attempts and a seed; `Ok(false)` if it finds something.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let named = CAMPAIGNS.iter().map(|campaign| campaign.name);
    let names = named.chain([USES, CUTS, SOAK, DEVICE, STACKS, MEMORY, RACES, BUGS]).collect::<Vec<_>>().join(", ");
    let (options, words): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with('-'));
    let Some((name, numbers)) = words.split_first() else {
        bail!("say which campaign: {names}");
    };
    let table_alone = *name == CUTS && options == [TABLE];
    ensure!(options.is_empty() || table_alone, "campaign {name} does not take {options:?}; `{CUTS}` takes {TABLE}");
    let (most, what) = match name.as_str() {
        MEMORY | RACES => (0, "no number"),
        SOAK => (1, "the seconds of each path"),
        STACKS => (usize::MAX, "kernels and stacks"),
        BUGS => (1, "paths, separated by commas"),
        _ => (2, "a number of attempts and a seed"),
    };
    ensure!(numbers.len() <= most, "campaign {name} takes {what}, not {numbers:?}");
    let number = |index: usize, usual: u64| -> Result<u64> {
        numbers.get(index).map_or(Ok(usual), |text| text.parse().map_err(|_| anyhow::anyhow!("{text}: not a number")))
    };
    match name.as_str() {
        CUTS => {
            let cuts = Cuts { per_run: number(0, 150)?, seed: number(1, 1)?, file_systems: true, paths: None };
            guests::run_cuts(cuts, table_alone)
        }
        SOAK => {
            let seconds = number(0, SOAK_SECONDS)?;
            ensure!(
                (1..=SOAK_SECONDS_MAX).contains(&seconds),
                "{seconds} seconds: 1 to {SOAK_SECONDS_MAX} for each path"
            );
            guests::run_soak(seconds as u32)
        }
        USES => guests::run_uses(Uses { attempts: Some(number(0, 200)?), seed: number(1, 1)? }),
        DEVICE => guests::run_meddling(number(0, 100)?.try_into()?, number(1, 1)?),
        STACKS => guests::run_stacks(&numbers.iter().map(|word| word.as_str()).collect::<Vec<_>>()),
        MEMORY => memory::run(),
        RACES => races::run(),
        BUGS => match numbers.first() {
            Some(paths) => find_bugs_above(paths),
            None => Ok(find_bugs_above("all")? & guests::run_bugs()?),
        },
        _ => {
            let Some(campaign) = CAMPAIGNS.iter().find(|campaign| campaign.name == *name) else {
                bail!("there is no campaign `{name}`; there are {names}");
            };
            campaign.run(number(0, campaign.attempts)?, number(1, 1)?)
        }
    }
}

/// Runs the set of broken queues above these paths, on files of this machine.
fn find_bugs_above(paths: &str) -> Result<bool> {
    let mut command = cargo(&["test", "-p", "iolane", "--test", "conformance", "--", "self_test", "--nocapture"]);
    succeeds(command.env("IOLANE_CONFORMANCE_ABOVE", paths))
}

/// Seconds that each path is soaked, and the most that the test takes.
const SOAK_SECONDS: u64 = 30;
const SOAK_SECONDS_MAX: u64 = 90;

impl Campaign {
    fn run(&self, attempts: u64, seed: u64) -> Result<bool> {
        let mut command = cargo(&[&["test"], self.tests, &["--", "--nocapture"]].concat());
        let [attempts_variable, seed_variable] = self.variables;
        command.env(attempts_variable, attempts.to_string()).env(seed_variable, seed.to_string());
        succeeds(&mut command)
    }
}
