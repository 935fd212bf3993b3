//! `cargo xtask COMMAND`: what people type to work on iolane. One file per command; this one only chooses.
//! Nothing of iolane itself lives here, and nothing here is shipped.

mod assets;
mod bench;
mod campaign;
mod capture;
mod child;
mod dist;
mod fuzz;
mod gallery;
mod guests;
mod lint;
mod packages;
mod programs;
mod redb;
mod skips;
mod table;
mod tally;
mod test;
mod times;
mod verdict;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [FILTER...]  Build everything, run every test on this machine and in virtual machines (or the tests on this machine
                    whose names contain a FILTER), and print skips, failures, times and counts.
                    Installs missing Debian packages where it may (as root, or by sudo without a password), and asks before.
      --yes            Install them without a question, as where CI is set in the environment; of every command
      --quick          Daily use: only the quick tests on this machine, with fewer random cases; lists what it leaves out
      --ci             Fail if a skip is not listed in xtask/skips.toml; the default if CI is set in the environment
      --verbose        Print every skip, and the entries of xtask/skips.toml that matched none
  guests [KERNEL...]
                    Run only the tests in virtual machines: conformance, proofs and faults on NVMe drives and null_blk, on
                    Linux 5.10, 6.1, 6.12 and 7.2, or on the kernels given. Takes --ci and --verbose as well
      --table          Print only the table of results, for the documentation
  lint [CHECK...]   Run all checks that need no run of the code, or those given: formatting, arrows (between
                    crates), circles (between files), length, phrases, clippy, documentation, dependencies, advisories. Runs every check even if one fails
  fmt               Format the code, the fuzz targets included
  fuzz [SECONDS]    Run each fuzz target for SECONDS (default 30)
      --keep           Add to the corpora in the tree (fuzz/corpus) what reaches code that they do not
  bench [OPTIONS]   Compare iolane with fio on a file in the page cache, and with its own goals; takes 2 minutes
      --pairs N        Runs of each program per path, at least 5 (default 5)
      --markdown       Print the tables for the README
      --gate           Exit with 1 if a goal is missed
      --iolane FILE    Measure this binary instead of building one
      --exact          Count instructions per I/O in a virtual machine, and write them to docs/performance.md;
                       exits with 1 if a path costs more than 2 % above the figure there
      --exact --check  The same without writing, as in CI
      --exact --accept Also write figures that are worse
      --nvme           The user-space driver: instructions and time per request, and rates compared with fio's in virtual
                       machines; written to docs/performance.md; takes 3 minutes on a quiet machine
      --nvme --check   Only its instructions, compared with those written; as in CI
      --profile        Where the instructions go: in iolane and by the functions of the kernel; written to
                       docs/performance.md; takes a minute
      --files          What a read costs with a thousand files on a queue; written to docs/performance.md. --check as above
      --auto           The path auto beside each other path, and loads that change; written to docs/auto.md; takes 40
                       minutes. --auto --check does a part of it, as in CI, and --changes only the loads that change
      --drives         The path auto on an emulated drive, and on two processors, in real time; written to docs/auto.md;
                       for a quiet machine, takes an hour; --only '6.1 nullb0 2' measures one grid, in 10 minutes
      --settings       What settings of a block device cost; written to docs/host-settings.md
  capture [FILE...] [--only TEXT]
                    Run the commands that the documentation shows, or those that contain TEXT, and replace the output shown
  gallery [pages]   Run the four studies in the lab, one of them on two kernels, and write their pages and pictures to
                    docs/gallery; takes 45 minutes on a quiet machine. `pages` renders them again from the runs, which
                    stay in target/gallery; `peers` and `application` run and write only these
  redb [PATH...]    Run redb's own tests on a copy of redb that reads and writes by iolane, on each PATH (default: psync,
                    io_uring,fixedbufs,fixedfiles and auto), with O_DIRECT and through the page cache
  campaign guard [ATTEMPTS [SEED]]
                    Try at random to write to what is in use, as root (default: 1000 attempts of 12 steps;
                    4 minutes)
  campaign uses [ATTEMPTS [SEED]]
                    Try to write to drives that the kernel has in use in every way, in guests of four kernels (default: 200
                    attempts on each; 12 minutes)
  campaign kernel [SEEDS [FIRST SEED]]
                    Use io_uring and libaio above fake kernels at random (default: 100000 seeds from 1 on; a minute)
  campaign model [SEEDS [FIRST SEED]]
                    Use the user-space driver on faulty model controllers at random (default: 50000 seeds from 1 on;
                    6 minutes)
  campaign peers [ATTEMPTS [SEED]]
                    Move a name until a program that writes by it has started (default: 1000 attempts; a minute)
  campaign cuts [CUTS [SEED]]
                    Cut the power of the examples and of a study, CUTS times (default 150) for each path, in guests of four
                    kernels; mounts file systems as root; takes 6 minutes
      --table          Print only the table of results, for the documentation
  campaign soak [SECONDS]
                    Use each path for SECONDS (default 30) in a process that lives long, in guests of four kernels
  campaign device [TIMES [SEED]]
                    Write to a controller's registers behind the driver's back (default: 100 times), in guests of four kernels
  campaign stacks [KERNEL...] [STACK...]
                    Run the conformance suite on what is built on drives: dm-crypt, dm-thin, raid1, raid0, bcache, xfs, btrfs,
                    ext4-journal, overlay-4k; each in a guest of each kernel, of some minutes
  campaign bugs [PATH,...]
                    Check that the conformance suite finds each bug of a kept set above every path, on files here and on drives
                    in a guest, or above those given on files here; takes 30 minutes
  campaign memory   Run the tests of the crates with unsafe code with every access to memory checked
  campaign races    The same with every access watched for another thread's; fetches the source of the standard library (45 MB)
  dist              Build a static binary that runs on any Linux of this architecture, in target/dist
  assets            Bundle the chart library of report.html from npm, with its licences; for a new version of it
  help              Print this text

Before you send a change: cargo xtask fmt && cargo xtask test && cargo xtask lint
";

fn main() -> ExitCode {
    let (consents, arguments): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word == "--yes");
    if !consents.is_empty() {
        packages::allow();
    }
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let command =
        if arguments.iter().any(|argument| argument == "--help" || argument == "-h") { "help" } else { command };
    let outcome = match command {
        "test" => test::run(rest),
        "guests" => guests::run(rest),
        "lint" => lint::run(rest),
        "fmt" => lint::format(rest),
        "fuzz" => fuzz::run(rest),
        "bench" => bench::run(rest),
        "capture" => capture::run(rest),
        "assets" => assets::run(rest),
        "gallery" => gallery::run(rest),
        "dist" => dist::run(rest),
        "redb" => redb::run(rest),
        "campaign" => campaign::run(rest),
        "help" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: there is no command `{other}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
