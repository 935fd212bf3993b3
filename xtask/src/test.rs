//! `cargo xtask test`: builds everything, runs every test, here and in guests, and sums up what passed, what failed and what
//! was skipped.
//! A test that cannot run here prints a line `SKIPPED what: why`; no such line is lost.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::child::{cannot_start, cargo, shown};
use crate::programs::{self, Program};
use crate::skips::{Accepted, Skip};
use crate::tally::{End, Listener, Tally};
use crate::times::Times;
use crate::verdict::{conclude, is_ci, require_accepted};
use crate::{assets, guests, packages};

/// What `--quick` leaves out: programs by the name of their target, each with the reason.
const SLOW: [(&str, &str); 6] = [
    ("conformance", "every path on every target of this machine"),
    ("lab", "it boots guests"),
    ("lab_fio", "it boots guests"),
    ("nvme", "it boots guests, or needs drives"),
    ("page", "it opens pages in a browser"),
    ("study", "it runs whole studies"),
];

/// Packages whose tests only compute: they run beside the others, which mostly wait for requests. Nothing in either measures time.
const COMPUTE: [&str; 3] = ["iolane-model", "iolane-policy", "iolane-drive"];
/// The same of other packages, by the names of their programs. Those of the lab translate the instructions of guests, and judge
/// what comes out and not how fast.
const COMPUTE_PROGRAMS: [&str; 7] = [
    "iolane-study unit tests",
    "iolane-study tests/claims/main.rs",
    "iolane-study tests/by_model.rs",
    "iolane-nvme tests/faults.rs",
    "iolane-cli tests/predict.rs",
    "iolane-cli tests/lab.rs",
    "iolane-cli tests/lab_fio.rs",
];

/// Random cases per property with `--quick`.
const QUICK_CASES: &str = "16";

/// What was asked for.
#[derive(Debug, Default, PartialEq)]
struct Options {
    quick: bool,
    verbose: bool,
    ci: bool,
    filters: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { ci: is_ci(), ..Self::default() };
        for argument in arguments {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--verbose" => options.verbose = true,
                "--ci" => options.ci = true,
                option if option.starts_with('-') => {
                    bail!("`test` has no option `{option}`; it takes --quick, --verbose, --ci")
                }
                filter => options.filters.push(filter.into()),
            }
        }
        Ok(options)
    }
}

/// Runs every test, or those whose name holds one of the filters; `Ok(false)` if one failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let accepted = Accepted::read()?;
    let mut tally = Tally::default();
    let mut times = Times::default();
    tally.skipped = times.measure("packages", || install(options.quick))?;
    require_accepted(&tally.skipped, &accepted, options.ci)?;
    // Built first, so that a build that fails is not taken for a test that fails.
    let Some(programs) = times.measure("build", build)? else {
        println!("\nNo test ran: the build failed, see above");
        return Ok(false);
    };
    let has_guests = options.filters.is_empty() && !options.quick;
    // First, because some tests here use what is in the cache of kernels.
    let kernels = if has_guests { guests::find_kernels(&[], &mut tally, &mut times)? } else { Vec::new() };
    times.measure("host tests", || run_host(&programs, &options, &mut tally))?;
    if has_guests {
        let table = guests::run_all(kernels, &mut tally, &mut times, true)?;
        print!("\n{table}");
    }
    Ok(conclude(&tally, &times, &accepted, options.verbose, options.ci))
}

/// Installs what the tests need; what is still missing is a skip.
fn install(quick: bool) -> Result<Vec<Skip>> {
    if quick {
        return Ok(Vec::new());
    }
    let mut skipped: Vec<Skip> =
        packages::install(&packages::FOR_TESTS)?.into_iter().map(packages::Package::skip).collect();
    if let Err(error) = assets::fetch_checker() {
        skipped.push(Skip::parse("host", &format!("pages are not checked for accessibility: {error:#}")));
    }
    skipped.iter().for_each(|skip| println!("SKIPPED {skip}"));
    Ok(skipped)
}

/// Everything that can be built, and of that the programs with tests.
fn build() -> Result<Option<Vec<Program>>> {
    let mut found = Vec::new();
    for arguments in [&["test", "--workspace", "--no-run"][..], &["test", "--workspace", "--examples", "--no-run"]] {
        let Some(programs) = programs::build(arguments)? else { return Ok(None) };
        found.extend(programs.into_iter().filter(|program| program.is_test));
    }
    Ok(Some(found))
}

/// Runs the programs, those that only compute beside the others, then the examples in documentation.
fn run_host(programs: &[Program], options: &Options, tally: &mut Tally) -> Result<()> {
    let (compute, others): (Vec<_>, Vec<_>) = programs.iter().partition(|program| only_computes(program));
    let mut beside = (Tally::default(), Vec::new());
    std::thread::scope(|scope| {
        let computing = scope.spawn(|| run_each(&compute, options, &mut beside.0, &mut beside.1));
        run_each(&others, options, tally, &mut std::io::stdout())?;
        computing.join().unwrap_or_else(|_| bail!("the thread that runs what only computes has panicked"))
    })?;
    let (counted, printed) = beside;
    std::io::stdout().write_all(&printed).context("writing to stdout")?;
    tally.absorb(counted);
    if options.quick {
        println!("\nLEFT OUT examples in documentation, and guests");
        return Ok(());
    }
    let mut command = cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    command.args(["--", "--show-output"]).args(&options.filters);
    listen("examples in documentation", command, tally, &mut std::io::stdout())
}

fn only_computes(program: &Program) -> bool {
    COMPUTE.contains(&program.package()) || COMPUTE_PROGRAMS.contains(&program.name.as_str())
}

/// Runs programs one after the other. What they print goes to `out`.
fn run_each(programs: &[&Program], options: &Options, tally: &mut Tally, out: &mut dyn Write) -> Result<()> {
    for program in programs {
        if let Some((_, why)) = SLOW.iter().find(|(target, _)| options.quick && *target == program.target) {
            writeln!(out, "\nLEFT OUT {}: {why}", program.name)?;
            continue;
        }
        let mut command = program.command();
        // libtest hides what passing tests print, `SKIPPED` lines too, unless told to show it.
        command.arg("--show-output").args(&options.filters);
        if options.quick {
            command.env("PROPTEST_CASES", QUICK_CASES);
        }
        listen(&program.name, command, tally, out)?;
    }
    Ok(())
}

/// Runs a test program, shows its output as it comes, and counts.
fn listen(name: &str, mut command: Command, tally: &mut Tally, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "\n== {name}")?;
    let shown_command = shown(&command);
    // One pipe for both streams keeps the lines in their order.
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command.stdout(writer.try_clone().context("making a pipe")?).stderr(writer);
    let began = std::time::Instant::now();
    let mut child = command.spawn().with_context(|| cannot_start(&shown_command))?;
    // It holds writing ends of the pipe, and while those are open reading never sees the end.
    drop(command);
    let mut listener = Listener::new("host", name);
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).with_context(|| format!("reading from `{shown_command}`"))? > 0 {
        if listener.take(String::from_utf8_lossy(&line).trim_end()) {
            out.write_all(&line).context("writing to stdout")?;
        }
        line.clear();
    }
    let status = child.wait().with_context(|| format!("waiting for `{shown_command}`"))?;
    writeln!(out, "{name}: {:.1} s", began.elapsed().as_secs_f64())?;
    listener.finish(&end_of(status), tally);
    Ok(())
}

fn end_of(status: ExitStatus) -> End {
    status.signal().map_or_else(|| End::Code(status.code().unwrap_or(1)), End::Signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_filters_may_stand_in_any_order() {
        let words = ["guard", "--quick", "claims", "--verbose"].map(str::to_owned);
        let options = Options::parse(&words).unwrap();
        assert_eq!((options.quick, options.verbose), (true, true));
        assert_eq!(options.filters, ["guard", "claims"]);
        assert!(Options::parse(&["--quik".into()]).unwrap_err().to_string().contains("--quik"));
    }

    #[test]
    fn a_program_that_is_killed_is_a_failure_with_its_signal() {
        let mut tally = Tally::default();
        let mut command = Command::new("sh");
        command.args(["-c", "echo before; kill -SEGV $$"]);
        listen("a program", command, &mut tally, &mut Vec::new()).unwrap();
        assert_eq!(tally.failures[0].what, "a program was killed by SIGSEGV (signal 11)");
        assert_eq!(tally.failures[0].last_lines, ["before"]);
    }
}
