//! `cargo xtask COMMAND`: what people type to work on iolane. One file per command; this one only chooses.
//! Nothing of iolane itself lives here, and nothing here is shipped.

mod assets;
mod bench;
mod capture;
mod child;
mod fuzz;
mod gallery;
mod guests;
mod lint;
mod packages;
mod table;
mod tally;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [FILTER]     build everything and run every test (or those whose name holds FILTER);
                    ends with the list of what was skipped and why, and the counts.
                    Installs what the tests need where it may (Debian packages, as root or by sudo).
  guests [KERNEL...]
                    the part of it that runs in virtual machines: conformance, proofs and faults on NVMe drives and
                    null_blk, on Linux 5.10, 6.1, 6.12 and 7.2 (or those named); ends with the table of it
      --table          print that table alone, for the docs
  lint              formatting, clippy, documentation, licences and advisories of dependencies.
                    Runs every check even if one fails, and sums up.
  fmt               format the code, the fuzz targets included
  fuzz [SECONDS]    run every fuzz target for so long each (30 s unless told); needs a nightly toolchain
  bench [OPTIONS]   iolane beside fio on a file in the page cache, beside its goals; takes 2 minutes
      --pairs N        runs of each program per path, 5 at least (5 unless told)
      --markdown       print the tables for the README
      --gate           exit with 1 if a goal is missed
      --iolane FILE    measure this binary instead of building one
      --exact          count instructions per I/O in a virtual machine instead, and write them to docs/performance.md;
                       exits with 1 if a path costs 2 % more than the figure there
      --exact --check  the same, and write nothing: what CI runs
      --exact --accept write figures that are worse, too
      --nvme           the user-space driver: its instructions and time per request, and its rates beside fio's in
                       virtual machines; written to docs/performance.md; takes 3 minutes on a quiet machine
      --nvme --check   its instructions alone, against those written: what CI runs
  capture [FILE...] run the commands that README.md shows, and put what they print in its place
  gallery [PLACE...]
                    run the four studies in the lab (linux-6.1, linux-7.2) and on a scratch file (scratch), and keep their
                    pages and pictures in docs/gallery; takes 40 minutes on a quiet machine. `pages` makes those
                    again from the runs, which stay in target/gallery
  assets            bundle the chart library of report.html anew from npm, with its licences; for a new version of it
  help              this text

Before you send a change: cargo xtask fmt && cargo xtask test && cargo xtask lint
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
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
