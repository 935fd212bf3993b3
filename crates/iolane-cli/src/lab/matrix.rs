//! `iolane lab matrix`: a study in guests of several kernels, one after another, and the comparison of what they found.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use iolane::Error;
use iolane_lab::KernelSource;
use iolane_study::compare::Comparison;
use iolane_study::report::{self, Loaded, REPORT_FILE};

use super::{check_inner, in_guest, machine, say, with_targets};
use crate::arguments::{Command, LabMatrixArguments, StudyArguments};
use crate::interrupt::STOP;
use crate::{Outcome, compare, one_line, output, study};

pub(super) fn matrix(arguments: &LabMatrixArguments) -> anyhow::Result<Outcome> {
    let Some(inner) = check_inner(&arguments.words)? else { return Ok(Outcome::Done) };
    let Command::Study(asked) = &inner.command else {
        return Err(Error::usage("lab matrix", "the command is no study")
            .remedy("give it one: -- study systor22")
            .into());
    };
    check_study(asked)?;
    machine(&arguments.guest).check()?;
    let base = study::results_folder(asked)?;
    let folders = folders(&base, &arguments.kernel)?;
    if let Some(file) = &arguments.json {
        output::check_writable(file, &[])?;
    }
    let words = with_targets(&arguments.words, &inner, &arguments.guest);
    let mut measured: Vec<Loaded> = Vec::new();
    let mut outcome = Outcome::Done;
    for (index, (kernel, folder)) in arguments.kernel.iter().zip(&folders).enumerate() {
        let count = arguments.kernel.len();
        say(&format!("kernel {kernel}, {} of {count}: results in {}", index + 1, folder.display()));
        let before = stamp(folder);
        let ended = in_guest(&arguments.guest, Some(kernel), &with_out(&words, folder), &mut std::io::sink());
        let mut trouble = match ended {
            Ok(Outcome::Done | Outcome::Code(0)) => None,
            Ok(_) => Some("the study failed there, or a part of it did".into()),
            Err(error) => Some(one_line(&error)),
        };
        // What an earlier matrix left there is not what this one measured.
        if stamp(folder) != before {
            match report::load(folder) {
                Ok(loaded) => measured.push(loaded),
                Err(error) => trouble = Some(error.to_string()),
            }
        }
        if let Some(trouble) = trouble {
            say(&format!("kernel {kernel}: {trouble}"));
            outcome = Outcome::Failed;
        }
        if STOP.load(Ordering::Relaxed) {
            outcome = Outcome::Failed;
            break;
        }
    }
    match measured.len() {
        0 | 1 => say(&format!("nothing to compare: {} of the kernels have results", measured.len())),
        _ => compare::say(&Comparison::new(&measured)?, arguments.json.as_deref())?,
    }
    Ok(outcome)
}

/// Refuses what leaves no results, or leaves those of each kernel in one place.
fn check_study(asked: &StudyArguments) -> anyhow::Result<()> {
    let refused = |cause: &str, remedy: &str| Err(Error::usage("lab matrix", cause).remedy(remedy).into());
    if asked.dry_run || asked.print.is_some() || asked.fio.is_some() {
        return refused("the study would measure nothing", "leave out --dry-run, --print and --fio");
    }
    match asked.json {
        Some(_) => refused(
            "every kernel would write the study's --json to one file",
            "each has its study.json; --json before the -- writes the comparison",
        ),
        None => Ok(()),
    }
}

/// A folder for each kernel, beside the one that the study would have had.
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
            let cause = "two kernels of one name would leave their results in one folder";
            return Err(Error::usage(format!("--kernel {kernel}"), cause).remedy("name each once").into());
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

/// Which file the results in a folder are; it changes whenever they are replaced.
fn stamp(folder: &Path) -> Option<(u64, i64, i64)> {
    let found = std::fs::metadata(folder.join(REPORT_FILE)).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec()))
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
        assert!(error.starts_with("--kernel b/vmlinuz: two kernels of one name"), "{error}");
    }

    #[test]
    fn a_study_in_the_matrix_writes_to_its_kernels_folder_alone() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for line in ["study --out a x", "study x --out=a", "study x"] {
            assert_eq!(with_out(&words(line), Path::new("a-6.1")), words("study x --out a-6.1"), "{line}");
        }
    }
}
