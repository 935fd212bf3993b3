//! `iolane lab matrix`: a study in a guest of each of several kernels, one after another, and the comparison of the results.

use std::path::{Path, PathBuf};

use iolane::Error;
use iolane_lab::KernelSource;
use iolane_study::compare::Comparison;
use iolane_study::results::Loaded;

use super::guest::{self, say};
use super::guest_command::GuestCommand;
use super::guest_study::GuestStudy;
use crate::arguments::{GuestArguments, LabMatrixArguments, StudyArguments};
use crate::commands::{compare, study};
use crate::interrupt::is_stopped;
use crate::outcome::Outcome;
use crate::output::Outputs;

pub(super) fn matrix(arguments: LabMatrixArguments) -> anyhow::Result<Outcome> {
    let Some(job) = Job::of_arguments(arguments)? else { return Ok(Outcome::Done) };
    let mut measured: Vec<Loaded> = Vec::new();
    let mut failed = false;
    for (index, (kernel, folder)) in job.kernels.iter().enumerate() {
        let count = job.kernels.len();
        say(&format!("kernel {kernel}, {} of {count}: results in {}", index + 1, folder.display()));
        let study = GuestStudy::run(&job.guest, Some(kernel), &with_out(&job.words, folder), folder);
        measured.extend(study.loaded);
        if let Some(trouble) = study.trouble {
            say(&format!("kernel {kernel}: {trouble}"));
            failed = true;
        }
        if is_stopped() {
            failed = true;
            break;
        }
    }
    match measured.len() {
        0 | 1 => say(&format!("nothing to compare: {} of the kernels have results", measured.len())),
        _ => compare::show(&Comparison::new(&measured)?, &job.outputs)?,
    }
    Ok(Outcome::failed_if(failed))
}

/// What `iolane lab matrix` does.
struct Job {
    guest: GuestArguments,
    /// The words of the study, without its folder.
    words: Vec<String>,
    /// Each with the folder of its results.
    kernels: Vec<(KernelSource, PathBuf)>,
    outputs: Outputs,
}

impl Job {
    /// `None` if only the help of the command was asked for.
    fn of_arguments(arguments: LabMatrixArguments) -> anyhow::Result<Option<Self>> {
        let LabMatrixArguments { kernel: kernels, guest, json, words } = arguments;
        let Some(command) = GuestCommand::parse(&words)? else { return Ok(None) };
        let Some(asked) = command.study() else {
            let error = Error::usage("lab matrix", "the command is not a study");
            return Err(error.remedy("give it one: -- study systor22").into());
        };
        check_study(asked)?;
        guest::machine(&guest).check()?;
        let folders = folders(&study::results_folder(asked)?, &kernels)?;
        let outputs = Outputs::checked(json, &[])?;
        let words = command.with_targets(&guest);
        Ok(Some(Self { guest, words, kernels: kernels.into_iter().zip(folders).collect(), outputs }))
    }
}

/// Refuses a study without results, or whose results would all go to one place.
fn check_study(asked: &StudyArguments) -> anyhow::Result<()> {
    let refused = |cause: &str, remedy: &str| Err(Error::usage("lab matrix", cause).remedy(remedy).into());
    if !asked.measures() {
        return refused("the study would measure nothing", "leave out --dry-run, --print and --fio");
    }
    match asked.json {
        Some(_) => refused(
            "every kernel would write the study's --json to one file",
            "each kernel has its own study.json; --json before the -- writes the comparison",
        ),
        None => Ok(()),
    }
}

/// A folder for each kernel, named after the one that the study has outside of a matrix.
fn folders(base: &Path, kernels: &[KernelSource]) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for kernel in kernels {
        let name = match kernel {
            KernelSource::File(file) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            named => named.to_string(),
        };
        let mut folder = base.components().as_path().as_os_str().to_owned();
        folder.push(format!("-{name}"));
        if folders.iter().any(|known| known.as_os_str() == folder) {
            let cause = "two kernels with one name would write to one folder";
            return Err(Error::usage(format!("--kernel {kernel}"), cause).remedy("name each kernel once").into());
        }
        folders.push(folder.into());
    }
    Ok(folders)
}

/// The study's words, with this folder for its results.
fn with_out(words: &[String], folder: &Path) -> Vec<String> {
    let mut without = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--out" => drop(rest.next()),
            joined if joined.starts_with("--out=") => {}
            _ => without.push(word.clone()),
        }
    }
    without.extend(["--out".into(), folder.display().to_string()]);
    without
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(names: &[&str]) -> Vec<KernelSource> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn each_kernel_has_a_folder_named_after_it() {
        let folders = |base: &str, names: &[&str]| folders(Path::new(base), &kernels(names));
        let expected = ["results/x-6.1", "results/x-host", "results/x-vmlinuz"].map(PathBuf::from);
        assert_eq!(folders("results/x", &["6.1", "host", "./boot/vmlinuz"]).unwrap(), expected);
        assert_eq!(folders("x/", &["6.1"]).unwrap(), [PathBuf::from("x-6.1")]);
        let error = folders("x", &["a/vmlinuz", "b/vmlinuz"]).unwrap_err().to_string();
        assert!(error.starts_with("--kernel b/vmlinuz: two kernels with one name"), "{error}");
    }

    #[test]
    fn a_study_in_the_matrix_writes_only_to_the_folder_of_its_kernel() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for line in ["study --out a x", "study x --out=a", "study x"] {
            assert_eq!(with_out(&words(line), Path::new("a-6.1")), words("study x --out a-6.1"), "{line}");
        }
    }
}
