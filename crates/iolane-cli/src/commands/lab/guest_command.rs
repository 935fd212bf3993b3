//! The command that runs in a guest, parsed on the host, so that mistakes are found before anything boots.

use std::path::PathBuf;

use clap::FromArgMatches;
use iolane::Error;
use iolane_lab::Drive;

use super::guest::say;
use crate::arguments::{self, Cli, Command, GuestArguments, StudyArguments};
use crate::commands::study;
use crate::output;

/// A command that the parser accepts.
pub(super) struct GuestCommand {
    words: Vec<String>,
    study: Option<Box<StudyArguments>>,
}

impl GuestCommand {
    /// Parses the words of a command. `None` if they ask for help, which is then printed.
    pub(super) fn parse(words: &[String]) -> anyhow::Result<Option<Self>> {
        let line = ["iolane"].into_iter().chain(words.iter().map(String::as_str));
        let parsed = arguments::command().try_get_matches_from(line);
        let study = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
            Ok(Cli { command: Command::Lab(_) }) => {
                let error = Error::usage("lab run", "a lab cannot run in a lab");
                return Err(error.remedy("give it probe, run or study").into());
            }
            Ok(Cli { command: Command::Study(study) }) => Some(study),
            Ok(Cli { command: Command::Run(run) }) if run.searches_rate() => Some(Box::new(run.into_study())),
            Ok(_) => None,
            Err(error) if error.use_stderr() => output::exit(&error),
            Err(help) => {
                output::print(&help.to_string())?;
                return Ok(None);
            }
        };
        Ok(Some(Self { words: words.to_vec(), study }))
    }

    /// Its arguments, if it is a study.
    pub(super) fn study(&self) -> Option<&StudyArguments> {
        self.study.as_deref()
    }

    /// The folder of its results, if it is a study that has some. A study that is not found fails in the guest.
    pub(super) fn results_folder(&self) -> Option<PathBuf> {
        self.study().filter(|study| study.measures()).and_then(|study| study::results_folder(study).ok())
    }

    /// Its words; a named study without targets gets all of the drives.
    pub(super) fn with_targets(&self, guest: &GuestArguments) -> Vec<String> {
        let mut words = self.words.clone();
        if let Some(targets) = self.default_targets(guest) {
            say(&format!("without --target, the study uses {}", targets.join(" ")));
            words.extend(targets);
        }
        words
    }

    /// Half of the drives through the kernel, the others, which are identical, through the user-space driver; in exact mode, in which QEMU
    /// does not run drives, the devices of null_blk. All of them were made for this guest, so that they may be written.
    fn default_targets(&self, guest: &GuestArguments) -> Option<Vec<String>> {
        let study = self.study.as_ref()?;
        let count = if guest.exact { guest.null_blk as usize } else { guest.nvme };
        if study.study.is_none() || !study.targets.target.is_empty() || count == 0 {
            return None;
        }
        let in_kernel = guest.nvme.div_ceil(2);
        let names = (0..count).map(|index| match index {
            _ if guest.exact => format!("nullb{index}"),
            _ if index < in_kernel => format!("nvme{index}"),
            _ => format!("pci:{}", Drive::address(index)),
        });
        let options = names.flat_map(|name| ["--target".into(), name.clone(), "--allow-writes".into(), name]);
        Some(options.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_a_study_that_measures_has_a_folder_of_results() {
        let folder = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            GuestCommand::parse(&words).unwrap().unwrap().results_folder()
        };
        assert_eq!(folder("study --target nullb0 --out r").as_deref(), Some(Path::new("r")));
        for line in ["study --out r --dry-run", "study --print systor22", "study --out r --fio jobs", "probe"] {
            assert_eq!(folder(line), None, "{line}");
        }
    }
}
