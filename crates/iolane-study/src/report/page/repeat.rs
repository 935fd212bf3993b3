//! How to repeat a study: the command that was typed, the study's own file, and its arms in fio's words, all from what
//! the results folder says.

use std::collections::HashSet;
use std::time::Duration;

use super::super::Loaded;
use crate::fio::{JobSpec, job_text};
use crate::records::Row;

/// What someone needs to do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Repeat {
    /// The command line, each word as a shell takes it; empty if nobody wrote it down.
    pub(in crate::report) command: String,
    /// iolane's version.
    pub(in crate::report) version: String,
    /// The seed of its random choices.
    pub(in crate::report) seed: String,
    /// The study's file; empty for a survey, which has none.
    pub(in crate::report) study_file: String,
    /// The arms as a job file.
    pub(in crate::report) fio_jobs: String,
}

impl Repeat {
    /// What a folder says of it.
    pub(in crate::report) fn new(loaded: &Loaded) -> Self {
        let host = &loaded.json["host"];
        let words = host["command_line"].as_array().into_iter().flatten().filter_map(|word| word.as_str());
        let words: Vec<String> = words.map(quoted).collect();
        Self {
            command: words.join(" "),
            version: host["iolane_version"].as_str().unwrap_or_default().into(),
            seed: loaded.json["seed"].as_u64().map_or(String::new(), |seed| seed.to_string()),
            study_file: loaded.json["study_file"].as_str().unwrap_or_default().into(),
            fio_jobs: job_text(&jobs(loaded)),
        }
    }
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-_./:,=@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn jobs(loaded: &Loaded) -> Vec<JobSpec> {
    let mut known = HashSet::new();
    let own = loaded.rows.iter().filter(|row| row.arm.peer.is_none());
    own.filter(|row| known.insert(row.arm.to_string())).map(|row| job(loaded, row)).collect()
}

fn job(loaded: &Loaded, row: &Row) -> JobSpec {
    let json = &loaded.json;
    let first = &json["targets"][0];
    let is_scratch = row.targets.starts_with("scratch file in ");
    JobSpec {
        name: row.arm.to_string().replace(", ", " "),
        path: row.arm.path.clone(),
        access: row.arm.rw,
        block_sizes: row.arm.bs.clone(),
        depth: row.arm.depth,
        threads: row.arm.threads,
        // fio makes a scratch file itself.
        targets: if is_scratch {
            Vec::new()
        } else {
            row.targets.split(',').map(|name| name.trim().to_owned()).collect()
        },
        size: first["bytes"].as_u64().filter(|_| is_scratch),
        runtime: seconds(loaded.document.runtime_s),
        warmup: seconds(json["warmup_s"].as_f64().unwrap_or(0.0)),
        seed: json["seed"].as_u64().unwrap_or(0),
        direct: first["direct"].as_bool().unwrap_or(true),
        cpus: row.cpus.as_ref().and_then(|cpus| cpus.parse().ok()),
        spoll_cpus: row.spoll_cpus.as_ref().and_then(|cpus| cpus.parse().ok()),
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let words = ["iolane", "io_uring+spoll,fixedbufs", "it's", "", "$(reboot)"].map(quoted);
        assert_eq!(words, ["iolane", "io_uring+spoll,fixedbufs", r"'it'\''s'", "''", "'$(reboot)'"]);
    }
}
