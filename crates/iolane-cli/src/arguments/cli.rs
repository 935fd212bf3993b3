//! The commands there are, and the parser made of them and their help. `main`, `iolane lab` and the manual page call it.

use clap::{CommandFactory, Parser, Subcommand};

use super::advise::AdviseArguments;
use super::calibrate::CalibrateArguments;
use super::compare::CompareArguments;
use super::energy::EnergyArguments;
use super::help;
use super::lab::LabArguments;
use super::manual;
use super::nvme::NvmeArguments;
use super::predict::PredictArguments;
use super::probe::ProbeArguments;
use super::report::ReportArguments;
use super::run::RunArguments;
use super::study::StudyArguments;
use super::survey;

/// Measure every I/O path that Linux offers to an SSD.
#[derive(Debug, Parser)]
#[command(name = "iolane", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show which paths this machine offers, and why the others are unavailable
    Probe(ProbeArguments),
    /// Measure one path with one workload, or run a fio job file
    Run(Box<RunArguments>),
    /// Compare every path and recommend one, or repeat a published study and check its claims
    Study(Box<StudyArguments>),
    /// Recommend a path, from a study's results or a short measurement, with its settings for other programs; check the path in use
    Advise(Box<AdviseArguments>),
    /// Fit a model of this machine to results, from which `predict` predicts larger ones
    Calibrate(Box<CalibrateArguments>),
    /// Predict what each path would do with more threads, cores and drives
    Predict(Box<PredictArguments>),
    /// Write the report of a study's results as a page, charts, tables or a summary
    Report(ReportArguments),
    /// Add an external meter's recording to the results of a study
    Energy(EnergyArguments),
    /// Compare the results of studies: machines, kernels, versions, settings
    Compare(CompareArguments),
    /// List NVMe controllers, take one from the kernel for user space, or give it back
    Nvme(NvmeArguments),
    /// Run iolane in a virtual machine with NVMe drives
    Lab(LabArguments),
    /// Show which options of fio job files are supported
    Fio,
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

/// The parser, with the help that follows the options.
pub(crate) fn command() -> clap::Command {
    let exits = help::EXIT_CODES;
    let and_exits = |text: &str| format!("{text}\n\n{exits}");
    Cli::command()
        .after_help(and_exits(help::START))
        .mut_subcommand("run", |run| run.after_help(and_exits(&help::paths())).mut_args(take_negative))
        .mut_subcommand("study", |study| study.after_help(and_exits(&help::studies())).mut_args(take_negative))
        .mut_subcommand("fio", |fio| fio.override_help(manual::fio_job_files()))
        .mut_subcommand("probe", |probe| probe.after_help(exits))
        .mut_subcommand("advise", |advise| advise.after_help(and_exits(help::ADVISE)).mut_args(as_load))
        .mut_subcommand("calibrate", |calibrate| calibrate.after_help(and_exits(help::CALIBRATE)))
        .mut_subcommand("predict", |predict| predict.after_help(and_exits(help::PREDICT)).mut_args(take_negative))
        .mut_subcommand("report", |report| report.after_help(and_exits(help::REPORT)))
        .mut_subcommand("energy", |energy| energy.after_help(and_exits(help::ENERGY)))
        .mut_subcommand("compare", |compare| compare.after_help(and_exits(help::COMPARE)))
        .mut_subcommand("nvme", |nvme| {
            nvme.after_help(exits).mut_subcommand("bind", |bind| bind.after_help(and_exits(help::NVME_BIND)))
        })
        .mut_subcommand("lab", |lab| {
            lab.mut_subcommand("run", |run| run.after_help(help::LAB_RUN))
                .mut_subcommand("matrix", |matrix| matrix.after_help(help::LAB_MATRIX))
        })
}

/// Takes a number below 0 as the option's value, so that the message names the option.
fn take_negative(argument: clap::Arg) -> clap::Arg {
    match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    }
}

/// Lists an option of a survey as part of the load that is measured. A search of rates gives no advice, which the message says
/// to those who try.
fn as_load(argument: clap::Arg) -> clap::Arg {
    match argument.get_help_heading() {
        Some(survey::HEADING) if argument.get_id() == "rate_until" => argument.hide(true),
        Some(survey::HEADING) => take_negative(argument.help_heading("The load that is measured")),
        _ => argument,
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// What people write after options, and what nobody should.
    const VALUES: &[&str] = &[
        "",
        "-",
        "--",
        "0",
        "1",
        "-1",
        "4k",
        "4k,16k",
        "1,2,4",
        "1..20",
        "4k/70:64k/30",
        "18446744073709551616",
        "1e308",
        "NaN",
        "1m",
        "0s",
        "99999d",
        "2.5k",
        "70/30",
        "randread",
        "randrw",
        "zipf:1.2",
        "all",
        "auto",
        "auto,cores=1",
        "io_uring+sqpoll,fixedbufs",
        "psync",
        "null:",
        "sim:",
        "/x",
        "throughput",
        "6.1",
        "kernel=",
        "a=b",
        "%",
        ",",
        ":",
        "/",
        "\u{202e}\u{7}",
        "compress:50+dedupe:40/5",
        "ü",
    ];

    /// A word of a command line, chosen among the options of the command that it is for.
    #[derive(Debug, Clone)]
    enum Word {
        Option(Index),
        OptionWithValue(Index, String),
        Value(String),
    }

    fn words() -> impl Strategy<Value = Vec<Word>> {
        let value = || prop_oneof![8 => select(VALUES).prop_map(str::to_owned), 2 => any::<String>()];
        let word = prop_oneof![
            any::<Index>().prop_map(Word::Option),
            (any::<Index>(), value()).prop_map(|(option, value)| Word::OptionWithValue(option, value)),
            value().prop_map(Word::Value),
        ];
        prop::collection::vec(word, 0..8)
    }

    /// Each command and each command of a command, by its words.
    fn commands() -> Vec<(Vec<String>, clap::Command)> {
        let mut found = Vec::new();
        let mut open = vec![(vec!["iolane".to_owned()], command())];
        while let Some((words, command)) = open.pop() {
            let inner = command.get_subcommands().map(|inner| {
                let words = words.iter().cloned().chain([inner.get_name().to_owned()]).collect();
                (words, inner.clone())
            });
            open.extend(inner);
            found.push((words, command));
        }
        found
    }

    proptest! {
        #[test]
        fn no_command_line_makes_the_parser_panic_and_an_error_says_something(which: Index, words in words()) {
            let commands = commands();
            let (mut line, command) = which.get(&commands).clone();
            let options: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            let option = |index: Index| options.get(index.index(options.len().max(1))).map_or("--help".into(), |name| format!("--{name}"));
            for word in words {
                match word {
                    Word::Option(index) => line.push(option(index)),
                    Word::OptionWithValue(index, value) => line.push(format!("{}={value}", option(index))),
                    Word::Value(value) => line.push(value),
                }
            }
            let parsed = super::command().try_get_matches_from(&line).and_then(|matches| Cli::from_arg_matches(&matches));
            if let Err(error) = parsed {
                prop_assert!([0, 2].contains(&error.exit_code()) && !error.to_string().trim().is_empty(), "{line:?}: {error}");
            }
        }
    }
}
