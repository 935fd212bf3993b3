//! How to run a study again: the command that was typed, the study's file, and its arms as fio jobs, all from the results
//! folder. The page and the summary show it.

use std::collections::HashSet;
use std::time::Duration;

use iolane_measure::workload::Workload;
use iolane_study::fio::{JobSpec, job_text};
use iolane_study::format::shell_line;
use iolane_study::results::Loaded;
use iolane_study::rows::Row;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rerun {
    /// The command line, quoted for a shell; empty if it was not recorded.
    pub(crate) command: String,
    /// Of iolane.
    pub(crate) version: String,
    pub(crate) seed: String,
    /// The study's file; empty for a survey, which has none.
    pub(crate) study_file: String,
    /// A job file for fio.
    pub(crate) fio_jobs: String,
}

impl Rerun {
    pub(crate) fn new(loaded: &Loaded) -> Self {
        let host = &loaded.document.host.host;
        Self {
            command: shell_line(&host.command_line),
            version: host.iolane_version.clone(),
            seed: loaded.document.seed.to_string(),
            study_file: loaded.document.study_file.clone().unwrap_or_default(),
            fio_jobs: job_text(&jobs(loaded)),
        }
    }
}

fn jobs(loaded: &Loaded) -> Vec<JobSpec> {
    let mut known = HashSet::new();
    let own = loaded.rows.iter().filter(|row| row.arm.peer.is_none() && row.arm.application.is_none());
    own.filter(|row| known.insert(row.arm.to_string())).map(|row| job(loaded, row)).collect()
}

fn job(loaded: &Loaded, row: &Row) -> JobSpec {
    let first = loaded.document.targets.first();
    let is_scratch = row.targets.starts_with("scratch file in ");
    JobSpec {
        name: row.arm.to_string().replace(", ", " "),
        path: row.arm.path.clone(),
        workload: Workload {
            size: row.arm.workload.size.or_else(|| first.map(|target| target.bytes).filter(|_| is_scratch)),
            ..row.arm.workload.clone()
        },
        threads: row.arm.threads,
        // fio creates a scratch file itself.
        targets: if is_scratch {
            Vec::new()
        } else {
            target_names(&row.targets, loaded.document.targets.iter().map(|target| target.name.as_str()))
        },
        runtime: seconds(loaded.document.runtime_s),
        warmup: seconds(loaded.document.warmup_s),
        direct: first.is_none_or(|target| target.direct),
        cpus: row.cpus.as_ref().and_then(|cpus| cpus.parse().ok()),
        sqpoll_cpus: row.sqpoll_cpus.as_ref().and_then(|cpus| cpus.parse().ok()),
    }
}

/// The names in a row's list of targets, some of which have commas of their own. What is not known ends at the next comma.
fn target_names<'a>(list: &str, known: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    const BETWEEN: &str = ", ";
    let (mut names, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let begins = |name: &&str| {
            rest.strip_prefix(*name).is_some_and(|after| after.is_empty() || after.starts_with(BETWEEN))
                && !name.is_empty()
        };
        let longest = known.clone().filter(begins).map(str::len).max();
        let length = longest.or_else(|| rest.find(BETWEEN)).unwrap_or(rest.len());
        names.push(rest[..length].to_owned());
        rest = rest[length..].strip_prefix(BETWEEN).unwrap_or_default();
    }
    names
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_stay_whole() {
        let known = ["a, b", "a", "pci:0000:00:04.0,ns=2", "sim:latency=1us,tags=4"];
        let names = |list| target_names(list, known.into_iter());
        assert_eq!(names("pci:0000:00:04.0,ns=2, sim:latency=1us,tags=4"), known[2..]);
        assert_eq!(names("a, b, a"), ["a, b", "a"]);
        assert_eq!(names("/dev/x, /dev/y,z"), ["/dev/x", "/dev/y,z"]);
        assert_eq!(names(""), Vec::<String>::new());
    }
}
